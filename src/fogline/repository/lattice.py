"""Which combination of rules imputes a missing value, and what does it find?

Rules for one attribute combine (paper, section 3.2): all that are usable first, then fewer, within a level in
increasing expected number of matching rows, down to single rules. The first combination that matches any row of the
repository gives the distribution. With none it is level 0: the attribute's distribution over the whole repository.

The expectation is fixed when fitting: the mean, over rows that hold all that is given, of the number of rows that match
them and hold the attribute, self included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.errors import RuleError
from fogline.kernels.uncertain import distinct
from fogline.query import Rule
from fogline.repository.access import Access, Accesses, Centres
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


@dataclass(frozen=True, slots=True)
class Lattice:
    """The combinations for one attribute in the order in which they are tried, and level 0 for when none matches."""

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
        for k, rows, given, asked in self._tries(centres, open_):
            first, many, value, count = distinct(*self.choices[k].access.find(given, asked))
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
        for k, rows, given, asked in self._tries(centres, open_):
            low[rows], high[rows] = self.choices[k].access.bounds(given, asked)
            open_[rows] = np.isnan(low[rows])
        return low, high

    def able(self, centres: Centres, size: int) -> Flags:
        """(size,) for which rows any combination matches."""
        open_ = np.ones(size, np.bool_)
        for k, rows, given, asked in self._tries(centres, open_):
            open_[rows] = self.choices[k].access.count(given, asked) == 0
        return ~open_

    def _tries(self, centres: Centres, open_: Flags) -> Iterator[tuple[int, Ints, Mapping[str, float], Centres]]:
        """For each combination in order: its number, the rows that may use it and are still open, and the question."""
        there = {name: ~np.isnan(values) for name, values in centres.items()}
        for k, each in enumerate(self.choices):
            rows = np.flatnonzero(np.all([open_, *(there[name] for name in each.given)], axis=0))
            if len(rows):
                yield k, rows, each.given, {name: centres[name][rows] for name in each.given}

    def over(self, history: History) -> Lattice:
        """The same combinations in the same order, over another history."""
        known = {each.access.describe(): each.access for each in self.choices}  # combinations share accesses
        loaded = {name: access.over(history, self.then) for name, access in known.items()}
        choices = tuple(replace(each, access=loaded[each.access.describe()]) for each in self.choices)
        return Lattice(self.then, self.rules, choices, *_level_0(history, self.then))


def build(history: History, then: str, rules: Sequence[Rule]) -> Lattice:
    """Rank all combinations of the rules for `then`."""
    usable = tuple(rule for rule in rules if rule.then == then)
    if len(usable) > MOST:
        raise RuleError(f"{then!r} has {len(usable)} rules; at most {MOST} can be combined.")
    accesses, choices = Accesses(history, then, usable), []
    for chosen in subsets(len(usable)):
        given = combine([usable[k] for k in chosen])
        access = accesses.of(given)
        choices.append(Choice(chosen, given, _expected(history, given, access), access))
    choices.sort(key=lambda each: (-len(each.rules), each.expected, each.rules))
    return Lattice(then, usable, tuple(choices), *_level_0(history, then))


def _level_0(history: History, then: str) -> tuple[Floats, Floats]:
    """The distinct values of an attribute, and how often each occurs."""
    present = history.columns[then].values
    values, counts = np.unique(present[~np.isnan(present)], return_counts=True)
    return values, counts.astype(np.float64)


def _expected(history: History, given: Mapping[str, float], access: Access) -> float:
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
