"""Which combination of rules imputes a missing value?

Rules for one attribute combine (paper, section 3.2): all that are usable first, then fewer, within a level in
increasing expected number of matching rows, down to single rules; the first combination that matches any repository
row gives the distribution. With none: level 0, the attribute's distribution over the whole repository.

The expectation is fixed when fitting: the mean, over rows that hold all that is given, of the number of rows that
match them and hold the attribute, self included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.errors import RuleError
from fogline.model import Rule
from fogline.repository.access.paths import Path
from fogline.repository.access.planner import Planner
from fogline.repository.history import History
from fogline.repository.rules import MOST, combine, subsets

EXACT, SAMPLE, SEED = 100_000, 10_000, 7  # up to how many rows the mean is exact; beyond, how many rows are asked


@dataclass(frozen=True, slots=True)
class Choice:
    """A combination of rules, and the way to the rows that match it."""

    rules: tuple[int, ...]  # which of the attribute's rules
    given: Mapping[str, float]
    expected: float  # rows that match, on average
    path: Path
    measured: Mapping[str, float] = field(default_factory=dict)  # seconds per question of each way that was timed


@dataclass(frozen=True, slots=True)
class Lattice:
    """The combinations for one attribute in the order in which they are tried, and what is left when none matches."""

    then: str
    rules: tuple[Rule, ...]
    choices: tuple[Choice, ...]
    values: Floats  # level 0: the distinct values, …
    counts: Floats  # … and how often each occurs

    @property
    def determinants(self) -> tuple[str, ...]:
        """Every attribute that any rule asks for."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.given))

    def search(self, centres, size):
        start, length, source = np.zeros((3, size), np.int64)
        values, counts, filled = [np.empty(0)], [np.empty(0)], 0
        open_ = np.ones(size, np.bool_)
        from fogline.kernels.sorted import distinct
        from fogline.arrays import Distributions
        for k, rows in self._tries(centres, open_):
            given = self.choices[k].given
            found = self.choices[k].path.find(given, {name: centres[name][rows] for name in given})
            first, many, value, count = distinct(*found)
            hit = rows[many > 0]
            start[hit], length[hit], source[hit] = first[many > 0] + filled, many[many > 0], k
            open_[hit] = False
            values.append(value)
            counts.append(count)
            filled += len(value)
        return Distributions(start, length, np.concatenate(values), np.concatenate(counts), source)

    def bounds(self, centres, size):
        if len(self.choices) == 1:
            return self.choices[0].path.bounds(self.choices[0].given, centres)
        low, high = np.full((2, size), np.nan)
        open_ = np.ones(size, np.bool_)
        for k, rows in self._tries(centres, open_):
            given = self.choices[k].given
            low[rows], high[rows] = self.choices[k].path.bounds(given, {name: centres[name][rows] for name in given})
            open_[rows] = np.isnan(low[rows])
        return low, high

    def able(self, centres, size):
        open_ = np.ones(size, np.bool_)
        for k, rows in self._tries(centres, open_):
            given = self.choices[k].given
            open_[rows] = self.choices[k].path.count(given, {name: centres[name][rows] for name in given}) == 0
        return ~open_

    def _tries(self, centres, open_):
        there = {name: ~np.isnan(values) for name, values in centres.items()}
        for k, each in enumerate(self.choices):
            able = open_.copy()
            for name in each.given:
                able &= there[name]
            rows = np.flatnonzero(able)
            if len(rows):
                yield k, rows

    def grown(self, more: History) -> Lattice:
        """The same with more rows; what is expected stays as fitted."""
        paths: dict[int, Path] = {}
        for each in self.choices:
            if id(each.path) not in paths:
                paths[id(each.path)] = each.path.grown(self.then, more)
        choices = tuple(replace(each, path=paths[id(each.path)]) for each in self.choices)
        present = more.columns[self.then].values
        values, counts = np.unique(present[~np.isnan(present)], return_counts=True)
        both = np.concatenate((self.values, values))
        merged, where = np.unique(both, return_inverse=True)
        often = np.bincount(where, np.concatenate((self.counts, counts)), len(merged)).astype(np.float64)
        return Lattice(self.then, self.rules, choices, merged, often)


def build(history: History, then: str, rules: Sequence[Rule], *, mean: bool = False) -> Lattice:
    """Rank all combinations of the rules for `then`. `mean`: what is left when none matches is the mean alone."""
    mine = tuple(rule for rule in rules if rule.then == then)
    if len(mine) > MOST:
        raise RuleError(f"{then!r} has {len(mine)} rules; at most {MOST} can be combined.")
    planner = Planner(history, then, mine)
    choices = []
    for chosen in subsets(len(mine)):
        given = combine([mine[k] for k in chosen])
        path, measured = planner.path(given)
        choices.append(Choice(chosen, given, expected_matches(history, given, path), path, measured))
    choices.sort(key=lambda each: (-len(each.rules), each.expected, each.rules))
    present = history.columns[then].values
    present = present[~np.isnan(present)]
    values, counts = np.unique(present.mean(keepdims=True) if mean and len(present) else present, return_counts=True)
    return Lattice(then, mine, tuple(choices), values, counts.astype(np.float64))


def expected_matches(history: History, given: Mapping[str, float], path: Path) -> float:
    """The mean number of matching rows, over the rows (or a fixed sample of them) that hold all that is given."""
    rows = holders(history, tuple(given))
    if len(rows) > EXACT:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, SAMPLE, replace=False))
    if not len(rows):
        return 0.0
    return float(path.count(given, {name: history.columns[name].values[rows] for name in given}).mean())


def holders(history: History, names: Sequence[str]) -> Ints:
    """The rows that hold all of these attributes."""
    missing = np.zeros(history.rows, np.bool_)
    for name in names:
        missing |= np.isnan(history.columns[name].values)
    return np.flatnonzero(~missing)
