"""Which combination of rules imputes a missing value, and what does it find?

Rules for one attribute combine (paper, section 3.2): all that are usable first, then fewer, within a level in
increasing expected number of matching rows, down to single rules; the first combination that matches any repository
row gives the distribution. With none: level 0, the attribute's distribution over the whole repository, which stands
beside the combinations as `values` and `counts`.

The expectation is fixed when fitting: the mean, over rows that hold all that is given, of the number of rows that
match them and hold the attribute, self included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.errors import RuleError
from fogline.kernels.uncertain import distinct
from fogline.query import Rule
from fogline.repository.access import Access, Centres, Planner
from fogline.repository.history import History
from fogline.repository.rules import MOST, combine, subsets

EXACT, SAMPLE, SEED = 100_000, 10_000, 7  # up to how many rows the mean is exact; beyond, how many rows are asked


@dataclass(frozen=True, slots=True)
class Choice:
    """A combination of rules, and the access to the rows that match it."""

    rules: tuple[int, ...]  # which of the attribute's rules
    given: Mapping[str, float]
    expected: float  # rows that match, on average
    access: Access
    measured: Mapping[str, float] = field(default_factory=dict)  # seconds per question of each access that was timed


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

    def search(self, centres: Centres, size: int) -> Distributions:
        """The distribution for each of `size` rows, from their determinants (NaN = missing); level 0 is not in it.

        `source` is the number of the combination. Size and source are 0 where none matches. Paper, Algorithm 2;
        O(choices) questions, each for all rows at once.
        """
        start, length, source = np.zeros((3, size), np.int64)
        values, counts, filled = [np.empty(0)], [np.empty(0)], 0
        open_ = np.ones(size, np.bool_)
        for k, rows in self._tries(centres, open_):
            given = self.choices[k].given
            found = self.choices[k].access.find(given, {name: centres[name][rows] for name in given})
            first, many, value, count = distinct(*found)
            hit = rows[many > 0]
            start[hit], length[hit], source[hit] = first[many > 0] + filled, many[many > 0], k
            open_[hit] = False
            values.append(value)
            counts.append(count)
            filled += len(value)
        return Distributions(start, length, np.concatenate(values), np.concatenate(counts), source)

    def bounds(self, centres: Centres, size: int) -> tuple[Floats, Floats]:
        """(size,) least and greatest value that `search` would find, without collecting any; NaN where none matches."""
        if len(self.choices) == 1:  # the usual case, many times a tick: a centre with a gap matches nothing by itself
            return self.choices[0].access.bounds(self.choices[0].given, centres)
        low, high = np.full((2, size), np.nan)
        open_ = np.ones(size, np.bool_)
        for k, rows in self._tries(centres, open_):
            given = self.choices[k].given
            low[rows], high[rows] = self.choices[k].access.bounds(given, {name: centres[name][rows] for name in given})
            open_[rows] = np.isnan(low[rows])
        return low, high

    def able(self, centres: Centres, size: int) -> Flags:
        """(size,) for which rows any combination matches."""
        open_ = np.ones(size, np.bool_)
        for k, rows in self._tries(centres, open_):
            given = self.choices[k].given
            open_[rows] = self.choices[k].access.count(given, {name: centres[name][rows] for name in given}) == 0
        return ~open_

    def _tries(self, centres: Centres, open_: Flags) -> Iterator[tuple[int, Ints]]:
        """For each combination in order: the rows that may use it and are still open."""
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
        grown: dict[int, Access] = {}
        for each in self.choices:
            if id(each.access) not in grown:
                grown[id(each.access)] = each.access.grown(self.then, more)
        choices = tuple(replace(each, access=grown[id(each.access)]) for each in self.choices)
        values, counts = _level_0(more, self.then)
        both = np.concatenate((self.values, values))
        merged, where = np.unique(both, return_inverse=True)
        often = np.bincount(where, np.concatenate((self.counts, counts)), len(merged)).astype(np.float64)
        return Lattice(self.then, self.rules, choices, merged, often)


def build(history: History, then: str, rules: Sequence[Rule]) -> Lattice:
    """Rank all combinations of the rules for `then`."""
    usable = tuple(rule for rule in rules if rule.then == then)
    if len(usable) > MOST:
        raise RuleError(f"{then!r} has {len(usable)} rules; at most {MOST} can be combined.")
    planner = Planner(history, then, usable)
    choices = []
    for chosen in subsets(len(usable)):
        given = combine([usable[k] for k in chosen])
        access, measured = planner.access(given)
        choices.append(Choice(chosen, given, expected_matches(history, given, access), access, measured))
    choices.sort(key=lambda each: (-len(each.rules), each.expected, each.rules))
    return Lattice(then, usable, tuple(choices), *_level_0(history, then))


def _level_0(history: History, then: str) -> tuple[Floats, Floats]:
    """The distinct values of an attribute, and how often each occurs."""
    present = history.columns[then].values
    values, counts = np.unique(present[~np.isnan(present)], return_counts=True)
    return values, counts.astype(np.float64)


def expected_matches(history: History, given: Mapping[str, float], access: Access) -> float:
    """The mean number of matching rows, over the rows (or a fixed sample of them) that hold all that is given."""
    rows = holders(history, tuple(given))
    if len(rows) > EXACT:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, SAMPLE, replace=False))
    if not len(rows):
        return 0.0
    return float(access.count(given, {name: history.columns[name].values[rows] for name in given}).mean())


def holders(history: History, names: Sequence[str]) -> Ints:
    """The rows that hold all of these attributes."""
    missing = np.zeros(history.rows, np.bool_)
    for name in names:
        missing |= np.isnan(history.columns[name].values)
    return np.flatnonzero(~missing)
