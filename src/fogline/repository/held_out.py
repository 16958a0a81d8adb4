"""How well do rules impute rows that they have not seen, and which rules does the history suggest?

The newest tenth of the history is held out. Donors come from the rest of it; of either a sample, where there are many.
Each held-out row is imputed and scored by CRPS against its true value. Where nothing matches, the attribute's own
distribution over the donors counts (level 0). The error of whatever imputes is held against that of level 0 on the same
rows (`gain`), so rules, other attributes and a sensor's own past can be compared.

Discovery scores candidates on held-out rows: single determinants at several radii, then pairs of the best ones. A
candidate that matches a large share of the history explains little and costs much: it is passed over. The best one
becomes a rule; others join as long as the rules together score clearly better. All by sorting and windows, never by
comparing all pairs.

Method "paper" does as the paper: the single determinant with the smallest interval at a radius of 0.001 on a range
scaled to [0, 10].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.score import crps, widest_stretch
from fogline.query import Query, Rule
from fogline.repository import PLAIN, check_method
from fogline.repository.access import SortedAccess
from fogline.repository.history import Column, History
from fogline.repository.rules import combine, subsets

RADII = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the range between the 1st and 99th percentile
DONORS, HELD, SEED = 20_000, 1_000, 5
MATCHES, FEW = 0.01, 100  # of the history, at most, on average; but so many rows always may
RULES = 3  # per attribute
WORTH = 0.97  # another rule, or determinant, must lower the score to this share of what it was
SUPPORT = 0.5  # a rule must find something for so many held-out rows: a counter, near to no later row, does not
BEST = 3  # determinants that may pair up
PAPER = 0.0001  # 0.001 on a range of 10


def gain(error: float, nothing: float) -> float:
    """Which share of the error of knowing nothing is gone. 0: none. 1: all of it, always right.

    >>> gain(0.5, 2.0)
    0.75
    """
    return 1 - error / nothing if nothing else 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible rule, and its mean score on held-out rows."""

    given: Mapping[str, float]
    score: float


@dataclass(frozen=True, slots=True)
class Quality:
    """How a rule does on held-out rows."""

    rule: Rule
    """The rule."""
    matches: float  # rows of the history that match a row, on average
    support: float  # share of the rows for which any does
    error: float  # mean CRPS where one does, in the attribute's own unit …
    without: float  # … and of the attribute's distribution over the whole history, for the same rows

    @property
    def gain(self) -> float:
        """0: no better than knowing nothing of the row. 1: always right."""
        return gain(self.error, self.without)


class HeldOut:
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
        whole = np.sort(self.donors.columns[then].values)
        start, size = np.zeros(len(held), np.int64), np.full(len(held), len(whole))
        self.level_0 = np.asarray(crps(start, size, whole, np.ones(len(whole)), self.truth))
        self.tables: dict[tuple[str, ...], SortedAccess] = {}

    def radii(self, name: str) -> list[float]:
        """The radii that are tried in this column."""
        column = self.donors.columns[name]
        there = column.values[~np.isnan(column.values)]
        if column.words is not None or not len(there):
            return [0.0]
        low, high = np.quantile(there, (0.01, 0.99))
        return [rounded(share * (high - low)) for share in RADII] if high > low else [0.0]

    def around(self, given: dict[str, float]) -> list[dict[str, float]]:
        """The same and two wider radii: together with another determinant less closeness is needed."""
        [(name, radius)] = given.items()
        wider = [each for each in self.radii(name) if each > radius][:2]
        return [{name: each} for each in (radius, *wider)]

    def score(self, given: Mapping[str, float]) -> Floats:
        """(held,) the score of each held-out row; NaN where nothing matches.

        All NaN for a candidate that matches too many rows, or finds something for too few.
        """
        access, there, centres = self._ask(given)
        out = np.full(len(self.truth), np.nan)
        if not there.any():
            return out
        matches = access.count(given, centres)
        if matches.mean() <= max(MATCHES * self.donors.rows, FEW) and (matches > 0).mean() >= SUPPORT:
            out[there] = _errors(access.find(given, centres), self.truth[there])
        return out

    def judge(self, rule: Rule, rows: int) -> Quality:
        """How good the rule is, with its matches scaled to a history of so many rows."""
        access, there, centres = self._ask(rule.given)
        matches = access.count(rule.given, centres) * rows / max(self.donors.rows, 1)
        errors = _errors(access.find(rule.given, centres), self.truth[there])
        found = ~np.isnan(errors)
        without = self.level_0[there][found]
        mean = (float(each.mean()) if len(each) else 0.0 for each in (matches, errors[found], without))
        matched, error, level_0 = mean
        return Quality(rule, matched, float(found.sum()) / len(self.truth), error, level_0)

    def _ask(self, given: Mapping[str, float]) -> tuple[SortedAccess, Flags, dict[str, Floats]]:
        """The table to look in; which held-out rows have all that is given, and their values of it."""
        names = tuple(given)
        if names not in self.tables:
            self.tables[names] = SortedAccess.build(self.donors, self.then, None, names[0], names[1:])
        there = ~np.any([np.isnan(self.held[name]) for name in names], axis=0)
        return self.tables[names], there, {name: self.held[name][there] for name in names}

    def mean(self, scores: Sequence[Floats]) -> float:
        """The mean of `first`."""
        return float(self.first(scores).mean())

    def first(self, scores: Sequence[Floats]) -> Floats:
        """(held,) of each row the score of the first that found anything; that of level 0 where none did."""
        out = self.level_0.copy()
        for each in reversed(scores):
            out = np.where(np.isnan(each), out, each)
        return out

    def scores(self, rules: Sequence[Rule]) -> Floats:
        """(held,) the scores of these rules together."""
        usable = [rule for rule in rules if rule.then == self.then]
        return self.first([self.score(combine([usable[k] for k in which])) for which in subsets(len(usable))])

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
        return float(self.scores([Rule(each.given, self.then, 0.0) for each in chosen]).mean())

    def within(self, given: Mapping[str, float]) -> float:
        """The distance that 95 of 100 held-out rows keep from what matches them, rounded."""
        access, there, centres = self._ask(given)
        offsets, values = access.find(given, centres)
        apart = np.abs(values - np.repeat(self.truth[there], np.diff(offsets)))
        return rounded(float(np.quantile(apart, 0.95))) if len(apart) else 0.0


def _errors(found: tuple[Ints, Floats], truth: Floats) -> Floats:
    """(q,) CRPS of the values found for each centre (offsets and values), all equally likely."""
    offsets, values = found
    return np.asarray(crps(offsets[:-1], np.diff(offsets), values, np.ones(len(values)), truth))


def rounded(value: float) -> float:
    """Three digits, for people.

    >>> rounded(0.123456)
    0.123
    """
    return float(f"{value:.3g}")


def judge(history: History, then: str, rules: Sequence[Rule]) -> list[Quality]:
    """Each rule alone, on the newest tenth of the history."""
    held_out = HeldOut(history, then)
    return [held_out.judge(rule, history.rows) for rule in rules] if held_out.possible else []


def discover(history: History, query: Query, then: str, *, method: str) -> list[Rule]:
    """Rules for one attribute of the query."""
    check_method(method)
    if method in PLAIN:
        return []
    find = _paper if method == "paper" else _held_out
    return find(history, then, determinants(history, query, then))


def determinants(history: History, query: Query, then: str) -> list[str]:
    """Columns that vary and are neither the attribute itself nor the row's name, times or version."""
    aside = {then, query.id, query.time, query.expires, query.gone_column, query.version}
    return [name for name, column in history.columns.items() if name not in aside and _varies(column)]


def _varies(column: Column) -> bool:
    there = column.values[~np.isnan(column.values)]
    return len(there) > 1 and bool((there != there[0]).any())


def _held_out(history: History, then: str, names: Sequence[str]) -> list[Rule]:
    held_out = HeldOut(history, then)
    if not held_out.possible or not names:
        return []
    singles = {name: held_out.best([{name: radius} for radius in held_out.radii(name)]) for name in names}
    ranked = sorted(singles.values(), key=lambda each: each.score)
    pool = list(ranked)
    for one, two in combinations(ranked[:BEST], 2):
        pairs = [a | b for a, b in product(held_out.around(dict(one.given)), held_out.around(dict(two.given)))]
        both = held_out.best(pairs)
        if both.score < WORTH * one.score:  # the better of the two alone
            pool.append(both)
    pool.sort(key=lambda each: each.score)
    return held_out.choose(pool)


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
