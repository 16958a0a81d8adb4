"""How are the rows near a centre asked for?

One protocol, two implementations with the same answers: a table sorted by one determinant (`SortedAccess`), or the grid
and R*-tree (`IndexAccess`). A row matches a centre if abs(row - centre) <= radius in everything given; a centre that
lacks any of it (NaN) matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.sorted import Asked, Sorted, bound_close, count_close, find_close
from fogline.query import Rule
from fogline.repository.cost import sides
from fogline.repository.history import History
from fogline.repository.index import Index

Given = Mapping[str, float]  # attribute -> how close
Centres = Mapping[str, Floats]  # attribute -> (q,) values to be close to
Number = TypeVar("Number", bound=np.generic)


class Access(Protocol):
    """A way to the rows that are close to centres in all that is given."""

    def describe(self) -> str:
        """Its name, for people."""

    def count(self, given: Given, centres: Centres) -> Ints:
        """(q,) how many rows match each centre."""

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        """(q,) least and greatest value of the dependent attribute in the rows that match; NaN where none does."""

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        """The values of the dependent attribute in the rows that match: (q + 1,) offsets, ascending per centre."""

    def grown(self, then: str, more: History) -> Access:
        """The same with more rows."""


def complete(given: Given, centres: Centres) -> Flags:
    """(q,) which centres have all that is given."""
    return np.asarray(~np.any([np.isnan(centres[name]) for name in given], axis=0))


def readonly(array: NDArray[Number]) -> NDArray[Number]:
    """A read-only view: memory-mapped arrays are read-only, and one kind of array means one compiled kernel."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


# --- sorted ---
# How are rows found in a table that is sorted by one determinant?
#
# The rows that are close in the key are one stretch of the table, found by bisection; what else is given is tested
# row by
# row within it. An attribute of words may lead: then the table is sorted within equal words.
#
# Useful for: one determinant, or one that leaves few rows. Not useful for: several determinants of which none alone
# does.


@dataclass(frozen=True, slots=True)
class SortedAccess:
    """Rows sorted by `key`, within equal `lead` if there is one."""

    table: Sorted
    lead: str | None
    key: str
    others: tuple[str, ...]

    @classmethod
    def build(cls, history: History, then: str, lead: str | None, key: str, others: tuple[str, ...]) -> SortedAccess:
        """O(n log n), over the rows that hold lead, key and then."""
        columns = [history.columns[name].values for name in (key, then, *([lead] if lead else []))]
        there = np.flatnonzero(~np.any([np.isnan(column) for column in columns], axis=0))
        keys = [history.columns[name].values[there] for name in (key, *([lead] if lead else []))]
        order = there[np.lexsort(keys)]
        rest = [history.columns[name].values[order] for name in others]
        table = Sorted(
            lead=readonly(history.columns[lead].values[order] if lead else np.empty(0)),
            key=readonly(history.columns[key].values[order]),
            others=readonly(np.stack(rest, axis=1) if rest else np.empty((len(order), 0))),
            then=readonly(history.columns[then].values[order]),
        )
        return cls(table, lead, key, others)

    def grown(self, then: str, more: History) -> SortedAccess:
        """The same with more rows, put in order again. O(n log n)."""
        new = SortedAccess.build(more, then, self.lead, self.key, self.others).table
        joined = Sorted(*(np.concatenate((a, b)) for a, b in zip(self.table, new, strict=True)))
        order = np.lexsort((joined.key, joined.lead) if self.lead else (joined.key,))
        table = Sorted(*(readonly(column[order] if len(column) else column) for column in joined))
        return SortedAccess(table, self.lead, self.key, self.others)

    def describe(self) -> str:
        return f"sorted by {self.lead + ', ' if self.lead else ''}{self.key}"

    def count(self, given: Given, centres: Centres) -> Ints:
        out: Ints = count_close(self.table, self._asked(given, centres))
        return out

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        low, high = bound_close(self.table, self._asked(given, centres))
        return low, high

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        offsets, values = find_close(self.table, self._asked(given, centres))
        return offsets, values

    def _asked(self, given: Given, centres: Centres) -> Asked:
        keys = np.ascontiguousarray(centres[self.key])
        leads = np.ascontiguousarray(centres[self.lead]) if self.lead else keys
        radii = np.array([float(given.get(name, -1.0)) for name in self.others])
        centre = np.empty((len(keys), len(self.others)))
        for k, name in enumerate(self.others):
            if name in given:
                centre[:, k] = centres[name]
        return Asked(leads, keys, float(given[self.key]), centre, radii)


# --- indexed ---
# How are rows found through the index?
#
# The index takes NaN in a centre for "any value will do", which is how determinants that a combination of rules does
# not
# ask for are passed to it. A centre that lacks something it *should* have is no such question: it matches nothing.


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """Rows in grid cells under an R*-tree."""

    index: Index
    names: tuple[str, ...]

    def grown(self, then: str, more: History) -> IndexAccess:
        """The same with more rows, by R* insertion; the index itself is copied first."""
        index = Index.from_arrays({name: np.array(array) for name, array in self.index.arrays().items()})
        values = more.columns[then].values
        there = ~np.isnan(values)
        points = np.stack([more.columns[name].values[there] for name in self.names], axis=1)
        index.append(points, values[there])
        return IndexAccess(index, self.names)

    def describe(self) -> str:
        return f"R*-tree over {', '.join(self.names)}"

    def count(self, given: Given, centres: Centres) -> Ints:
        return np.where(complete(given, centres), self.index.count(*self._asked(given, centres)), 0)

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        low, high = self.index.bounds(*self._asked(given, centres))
        lacking = ~complete(given, centres)
        low[lacking], high[lacking] = np.nan, np.nan
        return low, high

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        there = complete(given, centres)
        offsets, values = self.index.find(*self._asked(given, {name: centres[name][there] for name in given}))
        sizes = np.zeros(len(there), np.int64)
        sizes[there] = np.diff(offsets)
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))), values

    def _asked(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        size = len(next(iter(centres.values())))
        anything = np.full(size, np.nan)
        centre = np.stack([centres[name] if name in given else anything for name in self.names], axis=1)
        return np.ascontiguousarray(centre), np.array([float(given.get(name, 0.0)) for name in self.names])


# --- planner ---
# Which way is cheapest for a combination of rules?
#
# Sorted tables are shared by all combinations that can use them. The one whose stretches are shortest is taken, as
# estimated from a sample of the rows; where several numeric attributes are given and stretches are long, the index is
# built, with cells of the side that the cost model chooses, and both are timed.

PROBES, SEED = 200, 11
SKETCH = 100_000  # so many rows are enough to estimate how long stretches are
LONG = 64  # a stretch of up to this many rows is read faster than any tree is walked


class Planner:
    """Chooses and builds the accesses to one attribute's donors."""

    def __init__(self, history: History, then: str, rules: Sequence[Rule]) -> None:
        self.history, self.then, self.rules = history, then, rules
        self.sketch = history.sample(SKETCH, SEED)
        self.determinants = tuple(dict.fromkeys(name for rule in rules for name in rule.given))
        self.tables: dict[tuple[int, str | None, str], SortedAccess] = {}
        self.index: IndexAccess | None = None

    def access(self, given: Mapping[str, float]) -> tuple[Access, dict[str, float]]:
        """The way for rows close in all that is given; and where ways had to compete, the seconds each one took."""
        words = [name for name in given if self.history.columns[name].words is not None]
        numbers = [name for name in given if name not in words]
        keys = numbers or words[:1]
        leads = words if numbers else []
        options: list[tuple[str | None, str]] = [(lead, key) for key in keys for lead in leads]
        options = options or [(None, key) for key in keys]
        best = min(options, key=lambda option: self._stretch(given, *option))
        table = self._table(self.history, *best)
        if len(numbers) < 2 or self._stretch(given, *best) <= LONG:
            return table, {}
        timed = {each.describe(): (self._time(each, given), each) for each in (table, self._index())}
        winner = min(timed.values(), key=lambda pair: pair[0])
        return winner[1], {name: seconds for name, (seconds, _) in timed.items()}

    def _table(self, rows: History, lead: str | None, key: str) -> SortedAccess:
        name = (rows.rows, lead, key)
        if name not in self.tables:
            others = tuple(name for name in self.determinants if name not in (lead, key))
            self.tables[name] = SortedAccess.build(rows, self.then, lead, key, others)
        return self.tables[name]

    def _stretch(self, given: Mapping[str, float], lead: str | None, key: str) -> float:
        """Rows to be read per centre."""
        only = {name: given[name] for name in (key, lead) if name is not None}
        centres = self._probes(given)
        if not len(centres[key]):
            return 0.0
        share = self.sketch.rows / max(self.history.rows, 1)
        return float(self._table(self.sketch, lead, key).count(only, centres).mean()) / share

    def _index(self) -> IndexAccess:
        if self.index is None:
            names, columns = self.determinants, self.history.columns
            values = columns[self.then].values
            there = ~np.isnan(values)
            points = np.stack([columns[name].values[there] for name in names], axis=1)
            radii = np.array([[rule.given.get(name, np.inf) for name in names] for rule in self.rules])
            side = sides(points, radii, words=[columns[name].words is not None for name in names])
            self.index = IndexAccess(Index.build(points, values[there], side), names)
        return self.index

    def _time(self, access: Access, given: Mapping[str, float]) -> float:
        centres = self._probes(given)
        access.find(given, centres)  # once for the compiler
        began = perf_counter()
        access.find(given, centres)
        return (perf_counter() - began) / max(1, len(next(iter(centres.values()))))

    def _probes(self, given: Mapping[str, float]) -> Centres:
        columns = [self.sketch.columns[name].values for name in given]
        rows = np.flatnonzero(~np.any([np.isnan(column) for column in columns], axis=0))
        if len(rows) > PROBES:
            rows = np.sort(np.random.default_rng(SEED).choice(rows, PROBES, replace=False))
        return {name: column[rows] for name, column in zip(given, columns, strict=True)}
