"""How are the rows of the history found that are close to a centre?

A row matches a centre if `abs(row - centre) <= radius` in everything that is given, and if it has the dependent
attribute; a centre that lacks any of what is given matches nothing. Two accesses give the same answers: a table sorted
by one determinant (`SortedAccess`), and a tree of boxes over all of them (`TreeAccess`).

Which one is used follows from the history and the rules alone (`Accesses.of`): one numeric determinant is looked up in
a sorted table; so are several, where one of them leaves few rows to be read; else the tree is used. To read 300 rows of
a table takes as long as to walk down the tree, about 1 µs (`benchmarks/access.py`).

A history that grows is loaded anew, in about 0.1 s for 120,000 rows. To insert 1 % of the rows into a tree takes some
milliseconds instead. The paper's index, which does so, and its choice of cell sides are in `lab/paper`; it finds rows
more slowly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Floats, Ints
from fogline.kernels import rtree
from fogline.kernels.rtree import RTree
from fogline.kernels.sorted import Asked, Sorted, bound_close, count_close, find_close
from fogline.query import Rule
from fogline.repository.history import History

Given = Mapping[str, float]  # attribute -> how close
Centres = Mapping[str, Floats]  # attribute -> (q,) values to be close to
Number = TypeVar("Number", bound=np.generic)

FEW = 300  # rows that are read one by one as fast as a tree is walked
LEAF = 64  # rows of a leaf of the tree, at most
PROBES, SEED = 200, 11  # rows that are asked about, to estimate how many rows have to be read
SKETCH = 100_000  # rows that are enough for that


class Access(Protocol):
    """A way to the rows that match centres."""

    def describe(self) -> str:
        """Its name, for people; no other access to the same attribute has it."""

    def over(self, history: History, then: str) -> Access:
        """The same over another history."""

    def count(self, given: Given, centres: Centres) -> Ints:
        """(q,) how many rows match each centre."""

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        """(q,) least and greatest value of the dependent attribute in the rows that match; NaN where none does."""

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        """The values of the dependent attribute in the rows that match: (q + 1,) offsets, ascending per centre."""


def readonly(array: NDArray[Number]) -> NDArray[Number]:
    """A read-only view: memory-mapped arrays are read-only, and one kind of array means one compiled kernel."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True)
class SortedAccess:
    """Rows sorted by `key`, within equal `lead` if there is one; what else is given is tested row by row."""

    table: Sorted
    lead: str | None  # an attribute of words
    key: str
    others: tuple[str, ...]

    @classmethod
    def build(cls, history: History, then: str, lead: str | None, key: str, others: tuple[str, ...]) -> SortedAccess:
        """Over the rows that hold lead, key and then. O(n log n)."""
        columns = {name: history.columns[name].values for name in (key, then, *others, *([lead] if lead else []))}
        keys = [columns[key], *([columns[lead]] if lead else [])]
        there = np.flatnonzero(~np.any([np.isnan(each) for each in (*keys, columns[then])], axis=0))
        order = there[np.lexsort([each[there] for each in keys])]
        table = Sorted(
            lead=readonly(columns[lead][order] if lead else np.empty(0)),
            key=readonly(columns[key][order]),
            others=readonly(np.array([columns[name][order] for name in others]).reshape(len(others), len(order)).T),
            then=readonly(columns[then][order]),
        )
        return cls(table, lead, key, others)

    def over(self, history: History, then: str) -> SortedAccess:
        return SortedAccess.build(history, then, self.lead, self.key, self.others)

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


@dataclass(frozen=True, slots=True)
class TreeAccess:
    """Rows in a tree of boxes over several determinants; a combination of rules may ask for some of them only."""

    tree: RTree
    names: tuple[str, ...]

    @classmethod
    def build(cls, history: History, then: str, names: tuple[str, ...]) -> TreeAccess:
        """Over the rows that hold `then`. O(n log² n)."""
        values = history.columns[then].values
        there = ~np.isnan(values)
        points = np.stack([history.columns[name].values[there] for name in names], axis=1)
        return cls(bulk_loaded(points, values[there]), names)

    def over(self, history: History, then: str) -> TreeAccess:
        return TreeAccess.build(history, then, self.names)

    def describe(self) -> str:
        return f"tree over {', '.join(self.names)}"

    def count(self, given: Given, centres: Centres) -> Ints:
        out: Ints = rtree.count(self.tree, *self._asked(given, centres))
        return out

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        low, high = rtree.bounds(self.tree, *self._asked(given, centres))
        return low, high

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        offsets, values = rtree.find(self.tree, *self._asked(given, centres))
        return offsets, values

    def _asked(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        """Centres (q, k) and radii (k,), negative for what is not given, as the kernels take them."""
        centre = np.empty((len(next(iter(centres.values()))), len(self.names)))
        for k, name in enumerate(self.names):
            if name in given:
                centre[:, k] = centres[name]
        return readonly(centre), readonly(np.array([float(given.get(name, -1.0)) for name in self.names]))


def bulk_loaded(points: Floats, then: Floats) -> RTree:
    """The tree over rows with determinants (n, k), NaN = missing, and dependent values (n,), in halves from the root.

    Each node is cut in the middle of the determinant in which it is widest, as a share of that determinant's whole
    range. So boxes stay as small in each as the data allows, and words, whose codes are spread, are soon apart.
    """
    n, k = points.shape
    if not n:
        none = np.empty((k, 0)), np.empty((k, 0)), np.empty((k, 0), np.bool_), np.empty(0), np.empty(0)
        return RTree._make(map(readonly, (*none, np.empty(0, np.int64), np.empty(0, np.int64), points.T, then)))
    depth = max(-(-n // LEAF) - 1, 0).bit_length()
    cuts = [(np.arange((1 << level) + 1) << (depth - level)) * n >> depth for level in range(depth + 1)]
    rank = np.stack([np.unique(column, return_inverse=True)[1] for column in points.T], axis=1)  # NaN last
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.fmax.reduce(points, axis=0) - np.fmin.reduce(points, axis=0)
        scale = np.where(whole > 0, whole, 1.0)
    order = np.arange(n)
    for cut in cuts[:-1]:
        lo, hi = _boxes(points[order], cut)
        with np.errstate(over="ignore", invalid="ignore"):
            widest = ((hi / scale) - (lo / scale)).argmax(axis=1)  # -inf where all is missing
        node = np.repeat(np.arange(len(widest)), np.diff(cut))
        order = order[np.argsort(node * n + rank[order, widest[node]], kind="stable")]  # equal ones stay in order
    leaf = np.repeat(np.arange(1 << depth), np.diff(cuts[-1]))
    order = order[np.lexsort((then[order], leaf))]  # what is found in a leaf comes in order
    points, then = points[order], then[order]
    boxes = [np.concatenate(each) for each in zip(*(_boxes(points, cut) for cut in cuts), strict=True)]
    lacks, low, high = (
        np.concatenate([fold.reduceat(array, cut[:-1], axis=0) for cut in cuts])
        for fold, array in ((np.logical_or, np.isnan(points)), (np.minimum, then), (np.maximum, then))
    )
    begin, end = np.concatenate([cut[:-1] for cut in cuts]), np.concatenate([cut[1:] for cut in cuts])
    lo, hi = boxes
    return RTree._make(map(readonly, (lo.T, hi.T, lacks.T, low, high, begin, end, points.T, then)))


def _boxes(points: Floats, cut: Ints) -> tuple[Floats, Floats]:
    """(nodes, k) the least and greatest value of the rows cut[i] : cut[i + 1]; inf and -inf where all are missing."""
    lo, hi = np.fmin.reduceat(points, cut[:-1], axis=0), np.fmax.reduceat(points, cut[:-1], axis=0)
    return np.where(np.isnan(lo), np.inf, lo), np.where(np.isnan(hi), -np.inf, hi)


class Accesses:
    """The accesses to the rows that hold one attribute: chosen for combinations of its rules, and shared by them."""

    def __init__(self, history: History, then: str, rules: Sequence[Rule]) -> None:
        self.history, self.then = history, then
        self.sketch = history.sample(SKETCH, SEED)
        self.determinants = tuple(dict.fromkeys(name for rule in rules for name in rule.given))
        self.tables: dict[tuple[int, str | None, str], SortedAccess] = {}
        self.tree: TreeAccess | None = None

    def of(self, given: Given) -> Access:
        """The access for rows that are close in all that is given."""
        words = [name for name in given if self.history.columns[name].words is not None]
        numbers = [name for name in given if name not in words]
        leads: list[str | None] = [*words] if words and numbers else [None]
        options = [(lead, key) for key in numbers or words[:1] for lead in leads]
        reads = {option: self._rows_read(given, *option) for option in options}
        best = min(options, key=lambda option: reads[option])
        if len(numbers) < 2 or reads[best] <= FEW:
            return self._table(self.history, *best)
        if self.tree is None:
            self.tree = TreeAccess.build(self.history, self.then, self.determinants)
        return self.tree

    def _table(self, rows: History, lead: str | None, key: str) -> SortedAccess:
        name = (rows.rows, lead, key)
        if name not in self.tables:
            others = tuple(name for name in self.determinants if name not in (lead, key))
            self.tables[name] = SortedAccess.build(rows, self.then, lead, key, others)
        return self.tables[name]

    def _rows_read(self, given: Given, lead: str | None, key: str) -> float:
        """How many rows of a sorted table are read per centre, on average; estimated from a sample."""
        columns = [self.sketch.columns[name].values for name in given]
        rows = np.flatnonzero(~np.any([np.isnan(column) for column in columns], axis=0))
        if not len(rows):
            return 0.0
        if len(rows) > PROBES:
            rows = np.sort(np.random.default_rng(SEED).choice(rows, PROBES, replace=False))
        centres = {name: column[rows] for name, column in zip(given, columns, strict=True)}
        only = {name: given[name] for name in (key, lead) if name is not None}
        found = self._table(self.sketch, lead, key).count(only, centres).mean()
        return float(found) * self.history.rows / max(self.sketch.rows, 1)
