"""Which rules does the history itself suggest?

For each attribute, candidate determinants (single columns, then pairs of the best) at several radii are scored by how
well they impute rows held out from the history: the newest tenth, by CRPS, falling back on the attribute's own
distribution where nothing matches. A candidate that matches a large share of the history says little and costs much: it
is passed over. The best one becomes a rule; others join as long as the combined rules score clearly better. All by
sorting and windows, never by comparing all pairs.

`paper` instead does as the paper: the single determinant with the smallest interval at a radius of 0.001 on a range
scaled to [0, 10].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Floats
from fogline.errors import HistoryError
from fogline.kernels.crps import crps, widest_stretch
from fogline.model import Query, Rule
from fogline.repository.access.paths import SortedPath
from fogline.repository.history import Column, History
from fogline.repository.rules import combine, subsets

RADII = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the range between the 1st and 99th percentile
DONORS, HELD, SEED = 20_000, 1_000, 5
MATCHES, FEW = 0.01, 100  # of the history, at most, on average; but so many rows always may
BEST, RULES = 3, 3  # determinants that may pair up; rules per attribute
WORTH = 0.97  # another rule, or determinant, must bring the score below this share of what it was
SUPPORT = 0.5  # a rule must find something for so many held-out rows: a counter, near to no later row, does not
PAPER = 0.0001  # 0.001 on a range of 10

METHODS = ("held-out", "paper")  # ways to discover rules
PLAIN = ("last", "mean")  # ways to do without

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible rule, and its mean score on held-out rows."""

    given: Mapping[str, float]
    score: float


@dataclass(frozen=True, slots=True)
class Quality:
    """How a rule does on held-out rows."""

    rule: Rule
    matches: float  # rows of the history that match a row, on average
    support: float  # share of the rows for which any does
    error: float  # mean CRPS where one does, in the attribute's own unit …
    without: float  # … and of the attribute's distribution over the whole history, for the same rows

    @property
    def gain(self) -> float:
        """0: no better than knowing nothing of the row. 1: always right."""
        return 1 - self.error / self.without if self.without else 0.0


def judge(history: History, then: str, rules: Sequence[Rule]) -> list[Quality]:
    """Each rule alone, on the newest tenth of the history."""
    trial = Trial(history, then)
    return [trial.judge(rule, history.rows) for rule in rules] if trial.possible else []


def discover(
    history: History, query: Query, *, method: str = "held-out", progress: Progress | None = None
) -> list[Rule]:
    """Rules for every attribute of the query; none for those that nothing explains."""
    rules: list[Rule] = []
    for name in query.names:
        if progress is not None:
            progress(name)
        rules += discover_one(history, query, name, method=method)
    return rules


def discover_one(history: History, query: Query, then: str, *, method: str) -> list[Rule]:
    """Rules for one attribute of the query."""
    check_method(method)
    if method in PLAIN:
        return []
    find = _paper if method == "paper" else _held_out
    return find(history, then, determinants(history, query, then))


def check_method(method: str) -> None:
    """Is it one we know?"""
    if method not in (*METHODS, *PLAIN):
        raise HistoryError(f"method is {method!r}; it may be {', '.join(map(repr, (*METHODS, *PLAIN)))}.")


def determinants(history: History, query: Query, then: str) -> list[str]:
    """Columns that vary and are neither the attribute itself nor the row's name or times."""
    aside = {then, query.id, query.time, query.expires}
    return [name for name, column in history.columns.items() if name not in aside and _varies(column)]


def _varies(column: Column) -> bool:
    there = column.values[~np.isnan(column.values)]
    return len(there) > 1 and bool((there != there[0]).any())


def _held_out(history: History, then: str, names: Sequence[str]) -> list[Rule]:
    trial = Trial(history, then)
    if not trial.possible or not names:
        return []
    singles = {name: trial.best([{name: radius} for radius in trial.radii(name)]) for name in names}
    ranked = sorted(singles.values(), key=lambda each: each.score)
    pool = list(ranked)
    for one, two in combinations(ranked[:BEST], 2):
        pairs = [a | b for a, b in product(trial.around(dict(one.given)), trial.around(dict(two.given)))]
        both = trial.best(pairs)
        if both.score < WORTH * one.score:  # the better of the two alone
            pool.append(both)
    pool.sort(key=lambda each: each.score)
    return trial.choose(pool)


class Trial:
    """Held-out rows of one attribute, and donors to impute them from."""

    def __init__(self, history: History, then: str) -> None:
        self.then = then
        rows = np.flatnonzero(~np.isnan(history.columns[then].values))
        cut = len(rows) - max(1, len(rows) // 10)
        self.possible = cut > 0
        rng = np.random.default_rng(SEED)
        donors, held = rows[:cut], rows[cut:]
        self.cut = int(held[0]) if self.possible else 0  # the first row that donors do not come from
        donors = np.sort(rng.choice(donors, DONORS, replace=False)) if len(donors) > DONORS else donors
        held = np.sort(rng.choice(held, HELD, replace=False)) if len(held) > HELD else held
        self.rows = held  # which rows of the history are held out
        self.donors = history.part(donors)
        self.held = {name: column.values[held] for name, column in history.columns.items()}
        self.truth = self.held[then]
        everything = np.sort(self.donors.columns[then].values)
        offsets = np.arange(2) * len(everything)
        self.level_0 = np.array([crps(offsets, everything, self.truth[k : k + 1])[0] for k in range(len(held))])
        self.tables: dict[tuple[str, ...], SortedPath] = {}

    def radii(self, name: str) -> list[float]:
        """How close rows might have to be in this column."""
        column = self.donors.columns[name]
        there = column.values[~np.isnan(column.values)]
        if column.words is not None or not len(there):
            return [0.0]
        low, high = np.quantile(there, (0.01, 0.99))
        return [_round(share * (high - low)) for share in RADII] if high > low else [0.0]

    def around(self, given: dict[str, float]) -> list[dict[str, float]]:
        """The same, also wider: together with another determinant less closeness is needed."""
        [(name, radius)] = given.items()
        wider = [each for each in self.radii(name) if each > radius][:2]
        return [{name: each} for each in (radius, *wider)]

    def score(self, given: Mapping[str, float]) -> Floats:
        """(held,) the score of each held-out row; NaN where nothing matches.

        All NaN for what matches far too much, or hardly ever.
        """
        path, there, centres = self._ask(given)
        out = np.full(len(self.truth), np.nan)
        if not there.any():
            return out
        matches = path.count(given, centres)
        if matches.mean() <= max(MATCHES * self.donors.rows, FEW) and (matches > 0).mean() >= SUPPORT:
            out[there] = crps(*path.find(given, centres), self.truth[there])
        return out

    def judge(self, rule: Rule, rows: int) -> Quality:
        """How the rule does, on the way to a history of so many rows."""
        path, there, centres = self._ask(rule.given)
        matches = path.count(rule.given, centres) * rows / max(self.donors.rows, 1)
        errors = crps(*path.find(rule.given, centres), self.truth[there])
        found = ~np.isnan(errors)
        without = self.level_0[there][found]
        mean = (float(each.mean()) if len(each) else 0.0 for each in (matches, errors[found], without))
        matched, error, level_0 = mean
        return Quality(rule, matched, float(found.sum()) / len(self.truth), error, level_0)

    def _ask(self, given: Mapping[str, float]) -> tuple[SortedPath, NDArray[np.bool_], dict[str, Floats]]:
        """The table to look in, which held-out rows can be asked about, and with what."""
        names = tuple(given)
        if names not in self.tables:
            self.tables[names] = SortedPath.build(self.donors, self.then, None, names[0], names[1:])
        there = ~np.any([np.isnan(self.held[name]) for name in names], axis=0)
        return self.tables[names], there, {name: self.held[name][there] for name in names}

    def mean(self, scores: Sequence[Floats]) -> float:
        """The mean when the first that found anything counts, and level 0 when none did."""
        return float(self.first(scores).mean())

    def first(self, scores: Sequence[Floats]) -> Floats:
        """(held,) the score of the first that found anything; of level 0 when none did."""
        out = self.level_0.copy()
        for each in reversed(scores):
            out = np.where(np.isnan(each), out, each)
        return out

    def scores(self, rules: Sequence[Rule]) -> Floats:
        """(held,) the scores of these rules together."""
        mine = [rule for rule in rules if rule.then == self.then]
        return self.first([self.score(combine([mine[k] for k in which])) for which in subsets(len(mine))])

    def best(self, options: Sequence[Mapping[str, float]]) -> Candidate:
        """The option with the least mean score."""
        return min((Candidate(given, self.mean([self.score(given)])) for given in options), key=lambda each: each.score)

    def choose(self, pool: Sequence[Candidate]) -> list[Rule]:
        """The best candidate, and others that make the combination clearly better."""
        chosen: list[Candidate] = []
        best = float(self.level_0.mean())
        for each in pool:
            if len(chosen) < RULES and (score := self._together([*chosen, each])) < WORTH * best:
                chosen.append(each)
                best = score
        return [Rule(each.given, self.then, self.within(each.given)) for each in chosen]

    def _together(self, chosen: Sequence[Candidate]) -> float:
        rules = [Rule(each.given, self.then, 0.0) for each in chosen]
        return self.mean([self.score(combine([rules[k] for k in which])) for which in subsets(len(rules))])

    def within(self, given: Mapping[str, float]) -> float:
        """The distance that 95 in 100 held-out rows keep from what matches them."""
        path, there, centres = self._ask(given)
        offsets, values = path.find(given, centres)
        apart = np.abs(values - np.repeat(self.truth[there], np.diff(offsets)))
        return _round(float(np.quantile(apart, 0.95))) if len(apart) else 0.0


def _paper(history: History, then: str, names: Sequence[str]) -> list[Rule]:
    """The single numeric determinant whose close rows are closest in `then`, all ranges scaled alike."""
    best: tuple[float, Rule] | None = None
    for name in names:
        column = history.columns[name]
        there = ~np.isnan(column.values) & ~np.isnan(history.columns[then].values)
        if column.words is not None or not there.any():
            continue
        order = np.flatnonzero(there)[np.argsort(column.values[there], kind="stable")]
        key, values = column.values[order], history.columns[then].values[order]
        radius = PAPER * float(key[-1] - key[0])
        within = float(widest_stretch(key, values, radius))
        if best is None or within < best[0]:
            best = within, Rule({name: radius}, then, within)
    return [] if best is None else [best[1]]


def _round(value: float) -> float:
    """Three digits: a person will read it."""
    return float(f"{value:.3g}")
