"""How good is what is told of missing values, on the stream itself?

Of one row in a hundred or so, one known value is hidden, told as if it were missing, and held against the truth: how
far the distribution lies from it (CRPS, in the attribute's own unit), whether the truth lies between its ends, and how
far off what would be told otherwise is. Which cells may be hidden depends on the rows alone (of those that come at once
only the first few are), and what is answered does not depend on it at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.impute.chain import PAST, Chain
from fogline.impute.table import names_of_rules
from fogline.repository.repository import LEVEL_0

SHARE = 128  # of so many rows, one
MOST = 20  # cells of one call: beyond, scores say little more
ENOUGH, DRIFT = 100, 1.5  # cells before anything is said; how many times the error of the fit is drift

Sums = dict[tuple[str, str], tuple[int, float, float, int]]  # attribute, rule -> cells, error, otherwise, inside


@dataclass(frozen=True, slots=True)
class Score:
    """How one rule does for one attribute."""

    attribute: str
    rule: str
    cells: int
    error: float
    """Mean CRPS, in the attribute's own unit …"""
    otherwise: float
    """… and that of what would be told without it."""
    inside: float
    """The share of truths between the ends of what was told."""
    fitted: float | None = None
    """The mean CRPS on held-out rows when it was learnt, where that is known."""

    @property
    def worse(self) -> bool:
        """Whether it would be better to do without."""
        return self.cells >= ENOUGH and self.error > self.otherwise

    @property
    def drifts(self) -> bool:
        """Whether it does clearly worse than when it was learnt."""
        return self.cells >= ENOUGH and self.fitted is not None and self.error > DRIFT * self.fitted


def chosen(time: Floats, values: Floats) -> tuple[Ints, Ints]:
    """The rows of which a value is hidden, and which one; values (n, d), NaN = missing."""
    d = values.shape[1]
    mixed = _mixed(np.ascontiguousarray(time).view(np.uint64))
    for j in range(d):
        mixed = _mixed(mixed ^ np.ascontiguousarray(values[:, j]).view(np.uint64))
    rows = np.flatnonzero(mixed % np.uint64(SHARE) == 0)
    which = ((mixed[rows] >> np.uint64(32)) % np.uint64(d)).astype(np.int64)
    there = ~np.isnan(values[rows, which])
    return rows[there], which[there]


def _mixed(x: Any) -> Any:
    """The same bits, well shaken."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Scorer:
    """Keeps score for one imputer."""

    def __init__(self, imputer: Chain) -> None:
        self.imputer = imputer
        self.rules = names_of_rules(imputer.repository)
        self.whole = {name: Whole(each.values, each.counts) for name, each in imputer.repository.lattices.items()}

    def score(self, known: Floats, values: Floats, attribute: Ints) -> Sums:
        """What comes of hiding `attribute` (n,) in rows of which `known` (n, width) and values (n, d) tell."""
        known, n = known[:MOST].copy(), min(len(known), MOST)
        gaps = np.zeros((n, values.shape[1]), np.bool_)
        gaps[np.arange(n), attribute[:n]] = True
        for j, name in enumerate(self.imputer.query.names):
            self._hide(known, name, np.flatnonzero(gaps[:, j]))
        out: Sums = {}
        for j, rows, found in self.imputer.search(known, gaps):
            for k, (row, choice) in enumerate(zip(rows.tolist(), found.source.tolist(), strict=True)):
                name = self.imputer.query.names[j]
                key = name, self.rules[name][choice]
                part = slice(found.start[k], found.start[k] + found.size[k])
                value, often, truth = found.value[part], found.often[part], values[row, j]
                error = self.whole[name].crps(truth) if choice == LEVEL_0 else crps(value, often, truth)
                otherwise = error if choice == LEVEL_0 else self._otherwise(j, choice, known, row, truth)
                add(out, {key: (1, error, otherwise, int(value[0] <= truth <= value[-1]))})
        return out

    def _hide(self, known: Floats, name: str, rows: Ints) -> None:
        imputer = self.imputer
        if name in imputer.names:
            known[rows, imputer.names.index(name)] = np.nan
        if imputer.sensors is not None and name in imputer.sensors.names:
            known[rows, imputer.readings.start + imputer.sensors.names.index(name)] = np.nan

    def _otherwise(self, j: int, choice: int, known: Floats, row: int, truth: float) -> float:
        """The error of what would be told without the rule: by the lattice, or, without that, by the whole history."""
        repository, name = self.imputer.repository, self.imputer.query.names[j]
        if choice <= PAST and repository.lattices[name].choices:
            found = repository.search(name, self.imputer.centres(j, known, np.array([row])), 1)
            if found.source[0] != LEVEL_0:
                part = slice(found.start[0], found.start[0] + found.size[0])
                return crps(found.value[part], found.often[part], truth)
        return self.whole[name].crps(truth)

    def fitted(self, attribute: str, rule: str) -> float | None:
        """The error of a transition when it was learnt."""
        sensors = self.imputer.sensors
        if sensors is None or attribute not in sensors.transitions or rule != self.rules[attribute][PAST]:
            return None
        return sensors.transitions[attribute].error or None

    def listed(self, sums: Sums) -> list[Score]:
        """Sums as scores."""
        return [
            Score(*key, cells, error / cells, otherwise / cells, inside / cells, self.fitted(*key))
            for key, (cells, error, otherwise, inside) in sorted(sums.items())
        ]


class Whole:
    """The distribution of an attribute over the whole history, prepared to be held against many truths."""

    def __init__(self, value: Floats, often: Floats) -> None:
        weight = often / often.sum() if len(often) else often
        self.value = value
        self.below = np.concatenate(([0.0], np.cumsum(weight)))
        self.sums = np.concatenate(([0.0], np.cumsum(weight * value)))
        self.among = float(np.sum(weight * value * (self.below[1:] + self.below[:-1] - 1)))

    def crps(self, truth: float) -> float:
        """O(log values). NaN where there is no value at all."""
        if not len(self.value):
            return float("nan")
        k = int(np.searchsorted(self.value, truth))
        off = truth * (2 * self.below[k] - 1) + self.sums[-1] - 2 * self.sums[k]
        return float(off) - self.among


def crps(value: Floats, often: Floats, truth: float) -> float:
    """How far a distribution (sorted values, and how often each occurs) lies from the truth; 0: it is the truth."""
    weight = often / often.sum()
    up_to = np.cumsum(weight)
    return float(np.sum(weight * np.abs(value - truth)) - np.sum(weight * value * (2 * up_to - weight - 1)))


def add(sums: Sums, more: Sums) -> None:
    """Count more cells as well."""
    for key, (cells, error, otherwise, inside) in more.items():
        n, e, o, i = sums.get(key, (0, 0.0, 0.0, 0))
        sums[key] = n + cells, e + error, o + otherwise, i + inside


def plain(sums: Sums) -> list[list[Any]]:
    """As values that JSON can hold."""
    return [[*key, *rest] for key, rest in sums.items()]


def from_plain(listed: Iterable[list[Any]]) -> Sums:
    """The inverse of `plain`."""
    return {(str(a), str(rule)): (int(n), float(e), float(o), int(i)) for a, rule, n, e, o, i in listed}
