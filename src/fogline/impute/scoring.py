"""How good are imputed values, on the stream itself?

Of one row in a hundred or so, one known value is hidden, imputed as if it were missing, and held against the truth: how
far the distribution lies from it (CRPS, in the attribute's own unit), whether the truth lies between its ends, and how
far off the imputers behind the one that answered would be. Which cells may be hidden depends on the rows alone (of
those that come at once only the first few are), and no answer depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.impute.chain import Answer, Chain
from fogline.impute.imputer import Evidence, Imputer
from fogline.impute.past import OWN
from fogline.impute.whole import Constant
from fogline.kernels.crps import crps
from fogline.kernels.hiding import hidden
from fogline.repository.repository import Repository

SHARE = 128  # of so many rows, one
MOST = 20  # cells of one call: beyond, scores hardly change
ENOUGH, DRIFT = 100, 1.5  # cells before anything is reported; how many times the error of the fit is drift

Sums = dict[tuple[str, str], tuple[int, float, float, int]]  # attribute, rule -> cells, error, otherwise, inside


@dataclass(frozen=True, slots=True)
class Score:
    """How one rule, or one imputer, does for one attribute."""

    attribute: str
    rule: str
    cells: int
    error: float
    """Mean CRPS, in the attribute's own unit …"""
    otherwise: float
    """… and that of the imputers that would be asked without it."""
    inside: float
    """The share of truths between the ends of the distribution."""
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
    rows, which = hidden(np.ascontiguousarray(time), np.ascontiguousarray(values), SHARE)
    return rows, which


class Scorer:
    """Keeps score for one chain."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def score(self, rows: Evidence, attribute: Ints) -> list[tuple[int, Sums]]:
        """What comes of hiding `attribute` (n,) in each of these rows: which row, and its part of the sums."""
        rows, attribute = rows.part(np.arange(min(len(attribute), MOST))), attribute[:MOST]
        if not len(attribute):
            return []
        truth = rows.values[np.arange(len(attribute)), attribute]
        known = self.chain.evidence(rows.hiding(attribute))
        gaps = np.zeros(rows.values.shape, np.bool_)
        gaps[np.arange(len(attribute)), attribute] = True
        return [each for answer in self.chain.search(known, gaps) for each in self._scored(answer, known, gaps, truth)]

    def _scored(self, answer: Answer, known: Floats, gaps: Flags, truth: Floats) -> Iterable[tuple[int, Sums]]:
        j, rows, imputer, found = answer
        error = _errors(imputer, j, found, truth[rows])
        otherwise = self._otherwise(answer, known, gaps, truth, error)
        for k, row in enumerate(rows.tolist()):
            low, high = found.value[found.start[k]], found.value[found.start[k] + found.size[k] - 1]
            key = self.chain.query.names[j], imputer.sources(j)[found.source[k]]
            yield row, {key: (1, float(error[k]), float(otherwise[k]), int(low <= truth[row] <= high))}

    def _otherwise(self, answer: Answer, known: Floats, gaps: Flags, truth: Floats, error: Floats) -> Floats:
        """(q,) the errors of the imputers behind the one that answered; its own where there is none."""
        only, out = np.zeros(gaps.shape, np.bool_), error.copy()
        only[answer.rows, answer.attribute] = True
        for j, rows, imputer, found in self.chain.search(known, only, after=answer.imputer):
            out[np.searchsorted(answer.rows, rows)] = _errors(imputer, j, found, truth[rows])
        return out


def _errors(imputer: Imputer, j: int, found: Distributions, truth: Floats) -> Floats:
    """(q,) how far each distribution lies from its truth."""
    if isinstance(imputer, Constant):  # it may have a hundred thousand values
        return np.array([imputer.crps(j, each) for each in truth.tolist()])
    return np.asarray(crps(found.start, found.size, found.value, found.often, truth))


def add(sums: Sums, more: Mapping[tuple[str, str], tuple[int, float, float, int]]) -> None:
    """Count more cells as well."""
    for key, (cells, error, otherwise, inside) in more.items():
        n, e, o, i = sums.get(key, (0, 0.0, 0.0, 0))
        sums[key] = n + cells, e + error, o + otherwise, i + inside


def listed(sums: Sums, repository: Repository | None) -> list[Score]:
    """Sums as scores."""
    learnt = {} if repository is None or repository.sensors is None else repository.sensors.transitions
    fitted = {(name, OWN): each.error or None for name, each in learnt.items()}
    return [
        Score(*key, cells, error / cells, otherwise / cells, inside / cells, fitted.get(key))
        for key, (cells, error, otherwise, inside) in sorted(sums.items())
    ]


def to_plain(sums: Sums) -> list[list[Any]]:
    """As values that JSON can hold."""
    return [[*key, *rest] for key, rest in sums.items()]


def from_plain(saved: Iterable[list[Any]]) -> Sums:
    """The inverse of `to_plain`."""
    return {(str(a), str(rule)): (int(n), float(e), float(o), int(i)) for a, rule, n, e, o, i in saved}
