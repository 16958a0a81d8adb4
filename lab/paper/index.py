"""The paper's index (section 5.2): grid cells under an R*-tree, which grows row by row.

One index per dependent attribute (`then`) over its determinants. Rows lie in grid cells; an R*-tree stands over the
cells that are not empty; each node, down to the cells, has the box of its rows, how many there are, and the range of
their `then`. The paper also gives each node a histogram: that is in `lab/paper/histograms`. The side of a cell comes
from a cost model (`lab/paper/cost`).

The grid (`Space`) is settled when the first rows come. It begins at their least values; a missing determinant stands
outside their range. The first rows are loaded at once, by sort-tile-recursive packing (Leutenegger et al., ICDE 1997),
bottom up (`bulk_load`); later ones are inserted (`lab/kernels/rtree`).

Invariants (`check`): a row is in exactly one cell, and rows of one cell lack the same determinants; a node's box is the
tightest around its rows; its weight and range are those of its rows.

Fogline itself has a tree without cells that is never inserted into (`fogline.repository.access`). On rows of real
sensors it is as fast as this index or up to 2.5 times as fast, and 12 % slower on evenly spread rows in two
determinants (`benchmarks/access.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogline.arrays import Flags, Floats, Ints
from fogline.errors import RowsError
from lab.kernels import rtree
from lab.kernels.rtree import CellRows, Growing, NewRows, Nodes

MISSING = np.iinfo(np.int64).min  # the grid coordinate of a missing determinant
FAR = 2.0**62  # grid coordinates stop here: beyond it cells are as wide as they need to be
LOOSE = 4  # rows lie cell after cell, but for at most one in so many

_INNER, _ROWS = ("children", "fill"), ("points", "then", "after")  # which arrays are not as long as nodes, or cells
_Columns = TypeVar("_Columns", Nodes, CellRows)


class Space(NamedTuple):
    """The grid over k determinants."""

    origin: Floats  # (k,)
    side: Floats  # (k,) of a cell
    scale: Floats  # (k,) extent of the data, positive

    @classmethod
    def around(cls, points: Floats, side: Floats) -> Space:
        """A grid for these rows (n, k), NaN = missing."""
        absent = np.isnan(points)
        lo = np.where(absent, np.inf, points).min(axis=0, initial=np.inf)
        hi = np.where(absent, -np.inf, points).max(axis=0, initial=-np.inf)
        lo, hi = np.where(lo <= hi, lo, 0.0), np.where(lo <= hi, hi, 0.0)
        with np.errstate(over="ignore"):
            extent = np.minimum(hi - lo, np.finfo(float).max)
        return cls(lo, side, np.where(extent > 0, extent, 1.0))

    def cells(self, points: Floats) -> Ints:
        """(n, k) grid coordinates."""
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.clip(np.floor((points - self.origin) / self.side), -FAR, FAR)
        return np.where(np.isnan(points), MISSING, np.where(np.isnan(points), 0.0, steps).astype(np.int64))

    def spots(self, points: Floats) -> Floats:
        """(n, k) where the rows stand in the tree: a missing determinant stands apart from the first rows.

        Should later rows stand there too, boxes prune a little less; answers look at the values themselves.
        """
        with np.errstate(over="ignore"):
            apart = self.origin - self.scale
        return np.where(np.isnan(points), np.where(np.isfinite(apart), apart, self.origin), points)


class Level(NamedTuple):
    """The nodes of one level, in the order in which they will lie; the fields are those of `Nodes`."""

    lo: Floats  # (m, k)
    hi: Floats  # (m, k)
    lacks: Flags  # (m, k)
    low: Floats  # (m,)
    high: Floats  # (m,)
    weight: Ints  # (m,)

    def above(self, start: Ints) -> Level:
        """The level whose nodes have the children start[0] : start[1], start[1] : start[2], …"""
        how = (np.minimum, np.maximum, np.logical_or, np.minimum, np.maximum, np.add)
        return Level(*(_folded(fold, column, start) for fold, column in zip(how, self, strict=True)))


def bulk_load(space: Space, points: Floats, then: Floats, fanout: int) -> tuple[Nodes, CellRows, Ints]:
    """The nodes, the rows cell by cell, and each cell's grid coordinates; the root is the last node. O(n log n)."""
    at = space.cells(points)
    order = np.lexsort(at.T)
    points, then, at = points[order], then[order], at[order]
    first = np.flatnonzero(_changes(at))
    size = np.diff(first, append=len(then))
    spots = space.spots(points)
    numbers, starts = _tree_order(_folded(np.minimum, spots, first), _folded(np.maximum, spots, first), fanout)
    size, cells = size[numbers[0]], first[numbers[0]]
    rows = _spans(cells, size)
    begin = np.cumsum(size) - size
    single = np.ones(len(rows), np.int64)
    levels = [Level(spots[rows], spots[rows], np.isnan(points[rows]), then[rows], then[rows], single).above(begin)]
    for start in starts:
        levels.append(levels[-1].above(start))
    kept = CellRows(points[rows], then[rows], begin, size, np.full(len(size), -1), np.empty(0, np.int64))
    return _numbered(levels, starts, fanout), kept, at[cells]


def _numbered(levels: list[Level], starts: list[Ints], fanout: int) -> Nodes:
    """One numbering for the nodes of all levels, from the cells up to the root."""
    sizes = [len(level.lo) for level in levels]
    base = np.cumsum([0, *sizes])
    parent, children, fill = np.full(base[-1], -1), [np.zeros((0, fanout + 1), np.int64)], [np.zeros(0, np.int64)]
    for i, start in enumerate(starts):
        count = np.diff(start, append=sizes[i])
        parent[base[i] : base[i + 1]] = np.repeat(np.arange(len(start)), count) + base[i + 1]
        children.append(start[:, None] + np.arange(fanout + 1) + base[i])
        fill.append(count)
    summed = {name: np.concatenate([getattr(level, name) for level in levels]) for name in Level._fields}
    return Nodes(
        **summed,
        level=np.repeat(np.arange(len(levels)), sizes),
        parent=parent,
        slot=np.concatenate((np.arange(sizes[0]), np.arange(base[-1] - sizes[0]))),
        children=np.concatenate(children),
        fill=np.concatenate(fill),
    )


def _tree_order(lo: Floats, hi: Floats, fanout: int) -> tuple[list[Ints], list[Ints]]:
    """Per level from the cells up, which node comes when; per level above the cells, where a node's children begin."""
    numbers, starts = [np.zeros(0, np.int64)], list[Ints]()
    tiled: list[tuple[Ints, Ints]] = []
    while len(lo) and not (tiled and len(lo) == 1):
        order, first = _tiles(lo / 2 + hi / 2, fanout)
        tiled.append((order, first))
        lo, hi = _folded(np.minimum, lo[order], first), _folded(np.maximum, hi[order], first)
    if tiled:
        numbers = [np.zeros(1, np.int64)]
    for order, first in reversed(tiled):
        above, size = numbers[0], np.diff(first, append=len(order))
        numbers.insert(0, order[_spans(first[above], size[above])])
        starts.insert(0, np.cumsum(size[above]) - size[above])
    return numbers, starts


def _tiles(centre: Floats, fanout: int) -> tuple[Ints, Ints]:
    """Order boxes so that neighbours make groups of at most `fanout`, as equal as can be; and where each group begins.

    Sorted by the first determinant and cut into slabs, each slab sorted by the second and cut again, and so on.
    """
    n, k = centre.shape
    groups = -(-n // fanout)
    first = np.arange(groups) * n // max(groups, 1)
    group = np.repeat(np.arange(groups), np.diff(first, append=n))  # of each position, whatever will stand there
    order, slab, width = np.arange(n), np.zeros(n, np.int64), groups
    for j in range(k):
        order = order[np.lexsort((centre[order, j], slab))]
        width = int(np.ceil(width ** ((k - 1 - j) / (k - j))))
        slab += (group - slab) // max(width, 1) * width
    return order, first


def _changes(keys: NDArray[Any]) -> Flags:
    """(n,) where does a sorted (n, k) array begin a new row?"""
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return new


def _folded(how: np.ufunc, array: NDArray[Any], first: Ints) -> NDArray[Any]:
    """Fold the spans that begin at `first`; no spans of no rows are none."""
    if not len(first):
        return array[:0]
    folded: NDArray[Any] = how.reduceat(array, first, axis=0)
    return folded


def _spans(start: Ints, size: Ints) -> Ints:
    """start[0], start[0] + 1, …, then the span of start[1], and so on."""
    ends = np.cumsum(size)
    return np.repeat(start - (ends - size), size) + np.arange(ends[-1] if len(ends) else 0)


class IndexTree(NamedTuple):
    """What is in use of an index, read-only: what the kernels that search are called with."""

    nodes: Nodes
    rows: CellRows
    root: int  # -1: there is none


class Index:
    """Rows of the history by their determinants. Queries are logarithmic in the cells and linear in what matches."""

    def __init__(self, space: Space, nodes: Nodes, rows: CellRows, grid: Ints, root: int) -> None:
        self.space = space
        self._nodes, self._rows, self._grid = nodes, rows, grid
        self._use = np.array([len(nodes.level), len(nodes.fill), len(rows.start), root])  # see lab.kernels.rtree.NODES
        self._count = len(rows.then)  # of the row arrays, which may be longer
        self._packed = self._count  # the first rows, which lie cell after cell
        self._table = np.empty(0, np.int64)  # cells by grid coordinates, made when rows are first appended
        self._tree: IndexTree | None = None

    @classmethod
    def build(cls, points: ArrayLike, then: ArrayLike, side: ArrayLike, *, fanout: int = 16) -> Self:
        """An index of rows with determinants `points` (n, k), NaN = missing, and dependent values `then` (n,).

        `side` (k,) is the length of a grid cell. O(n log n).

        >>> index = Index.build([[1.0], [2.0], [9.0]], [10.0, 20.0, 90.0], side=[5.0])
        >>> index.find([[1.5]], [0.5])[1].tolist()
        [10.0, 20.0]
        """
        side = np.array(side, np.float64)
        if side.ndim != 1 or not 1 <= len(side) <= 62 or not np.all((side > 0) & np.isfinite(side)):
            raise RowsError(f"the sides of a cell are {side}; the index needs a positive one for each determinant")
        if fanout < 4:
            raise RowsError(f"the fanout is {fanout}; an index needs at least 4")
        points, then = _checked(points, then, len(side))
        space = Space.around(points, side)
        nodes, rows, grid = bulk_load(space, points, then, fanout)
        return cls(space, nodes, rows, grid, len(nodes.level) - 1)

    @property
    def rows(self) -> int:
        """How many rows."""
        return self._count

    @property
    def cells(self) -> int:
        """How many cells hold a row."""
        return int(self._use[rtree.CELLS])

    @property
    def height(self) -> int:
        """How many levels of nodes stand over the cells; 0 for an empty index."""
        return int(self._nodes.level[self._use[rtree.ROOT]]) if self._count else 0

    def find(self, centre: ArrayLike, radius: ArrayLike) -> tuple[Ints, Floats]:
        """`then` of the rows with abs(row - centre) <= radius in every determinant, for each centre.

        centre (q, k), NaN = any value will do; radius (k,). Returns offsets (q + 1,) and the values, ascending within
        values[offsets[i] : offsets[i + 1]]. O(log cells + matches · log matches) per centre.
        """
        offsets, values = rtree.find(*self.tree(), *self.asked(centre, radius))
        return offsets, values

    def count(self, centre: ArrayLike, radius: ArrayLike) -> Ints:
        """(q,) how many rows match. Nodes that lie within the radii are not opened.

        >>> Index.build([[1.0], [2.0], [9.0]], [10.0, 20.0, 90.0], side=[5.0]).count([[1.5], [5.0]], [0.5]).tolist()
        [2, 0]
        """
        found: Ints = rtree.count(*self.tree(), *self.asked(centre, radius))
        return found

    def bounds(self, centre: ArrayLike, radius: ArrayLike) -> tuple[Floats, Floats]:
        """(q,) the least and greatest `then` of the matching rows; NaN where none matches."""
        low, high = rtree.bounds(*self.tree(), *self.asked(centre, radius))
        return low, high

    def append(self, points: ArrayLike, then: ArrayLike) -> None:
        """Take in more rows, without building anew.

        R* insertion for a row that opens a cell, O(fanout · height) for another. Memory-mapped arrays are left alone:
        the index goes on with copies.
        """
        points, then = _checked(points, then, len(self.space.side))
        if not len(then):
            return
        if not self._count:
            fresh = type(self).build(points, then, self.space.side, fanout=self._fanout)
            self.__dict__.update(fresh.__dict__)
            return
        self._tree = None
        self._insert(points, self._write(points, then))
        if (self._count - self._packed) * LOOSE > self._count:
            self._pack()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole index as flat arrays by name: `from_arrays` gives the same index again."""
        if self._packed < self._count:
            self._pack()
        nodes, rows, root = self.tree()
        flat: dict[str, NDArray[Any]] = {
            f"{part}.{name}": array
            for part, columns in (("space", self.space), ("nodes", nodes), ("rows", rows))
            for name, array in columns._asdict().items()
            if name not in ("head", "after")
        }
        return flat | {"grid": self._grid[: self.cells], "root": np.array([root])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The index that `arrays` came from. They may be read-only, for instance memory-mapped, and are not copied."""

        def part(name: str) -> dict[str, NDArray[Any]]:
            return {
                key.split(".")[1]: np.ascontiguousarray(a) for key, a in arrays.items() if key.startswith(name + ".")
            }

        space = Space(**{name: np.array(array) for name, array in part("space").items()})
        rows = part("rows")
        rows |= {"head": np.full(len(rows["start"]), -1), "after": np.empty(0, np.int64)}
        grid = np.ascontiguousarray(arrays["grid"])
        return cls(space, Nodes(**part("nodes")), CellRows(**rows), grid, int(arrays["root"][0]))

    def tree(self) -> IndexTree:
        """What is in use, read-only, so that built, grown and memory-mapped indexes are one type to the kernels."""
        if self._tree is None:
            n, inner, cells, root = (int(number) for number in self._use)
            nodes = (_frozen(a[: inner if name in _INNER else n]) for name, a in self._nodes._asdict().items())
            rows = (_frozen(a[: self._count if name in _ROWS else cells]) for name, a in self._rows._asdict().items())
            self._tree = IndexTree(Nodes(*nodes), CellRows(*rows), root)
        return self._tree

    def asked(self, centre: ArrayLike, radius: ArrayLike) -> tuple[Floats, Floats]:
        """Centres (q, k) and radii (k,) as the kernels take them, or an error."""
        k = len(self.space.side)
        centre, radius = np.ascontiguousarray(centre, np.float64), np.ascontiguousarray(radius, np.float64)
        if centre.ndim != 2 or centre.shape[1] != k or radius.shape != (k,):
            raise RowsError(f"centres {centre.shape} and radii {radius.shape} do not fit an index of {k} determinants")
        return _frozen(centre), _frozen(radius)

    @property
    def _fanout(self) -> int:
        return int(self._nodes.children.shape[1]) - 1

    def _write(self, points: Floats, then: Floats) -> int:
        """Put the rows behind the others. Returns the first of them."""
        first, end = self._count, self._count + len(then)
        self._rows = _with_room(self._rows, dict.fromkeys(_ROWS, end))
        self._rows.points[first:end], self._rows.then[first:end] = points, then
        self._count = end
        return first

    def _insert(self, points: Floats, first: int) -> None:
        """Into cells and tree, in as many turns as it takes to make room."""
        new, done = NewRows(first, self.space.cells(points), self.space.spots(points)), first
        while done < self._count:
            done = rtree.take(self._with_room(), new, done)

    def _with_room(self) -> Growing:
        """Every array long enough for another row at least."""
        n, inner, cells, _ = (int(number) for number in self._use)
        room = (self.height + 2) ** 2 * (self._fanout + 1)
        sizes = {name: inner + room if name in _INNER else n + 1 + room for name in Nodes._fields}
        self._nodes = _with_room(self._nodes, sizes)
        self._rows = _with_room(self._rows, dict.fromkeys(("start", "size", "head"), cells + 1))
        self._grid = _roomy(self._grid, cells + 1)
        if 2 * cells >= len(self._table):
            self._table = np.full(1 << (2 * cells + 15).bit_length(), -1)
            rtree.enlist(self._table, self._grid, self._nodes, n)
        return Growing(self._nodes, self._rows, self._grid, self._table, self._use, self.space.scale)

    def _pack(self) -> None:
        """Put all rows cell after cell again. O(rows), but once for so many appended rows that it is O(1) for each."""
        self._tree = None
        order = rtree.by_cell(self._rows, self.cells, self._count)
        self._rows = self._rows._replace(points=self._rows.points[order], then=self._rows.then[order])
        self._packed = self._count

    def check(self) -> None:
        """Assert every invariant of the module text, and those of an R*-tree. O(rows · height), in Python."""
        nodes, rows, root = self.tree()
        n, inner, cells, _ = (int(number) for number in self._use)
        if not self._count:
            assert (n, inner, cells, root) == (0, 0, 0, -1), f"an empty index has {self._use}"
            return
        assert np.count_nonzero(nodes.level == 0) == cells == n - inner, "a node is neither cell nor inner"
        assert nodes.parent[root] == -1, "the root has a parent"
        below = self.rows_below()
        for node, listed in below.items():
            self._check_summary(node, listed)
            if nodes.level[node]:
                self._check_children(node, root)
            else:
                at, cell = self.space.cells(rows.points[listed]), nodes.slot[node]
                assert np.all(at == self._grid[cell]), f"cell {self._grid[cell]} holds rows of {at}"
        assert sorted(below[root].tolist()) == list(range(self._count)), "a row is in no cell, or in two"
        assert sum(len(below[node]) for node in range(n) if nodes.level[node] == 0) == self._count, "a cell is apart"
        assert len({tuple(at) for at in self._grid[:cells].tolist()}) == cells, "two cells have one place"

    def rows_below(self) -> dict[int, Ints]:
        """The rows below each node, nodes of lower levels first. O(rows · height), in Python."""
        nodes, _, _ = self.tree()
        below: dict[int, Ints] = {}
        for node in np.argsort(nodes.level, kind="stable").tolist():
            s = int(nodes.slot[node])
            if nodes.level[node] == 0:
                below[node] = np.array(self._rows_of(s))
            else:
                below[node] = np.concatenate([below[child] for child in nodes.children[s, : nodes.fill[s]].tolist()])
        return below

    def _rows_of(self, cell: int) -> list[int]:
        found = list(range(self._rows.start[cell], self._rows.start[cell] + self._rows.size[cell]))
        row = int(self._rows.head[cell])
        while row >= 0:
            assert row >= self._packed, f"row {row} is listed, but lies in its place"
            found.append(row)
            row = int(self._rows.after[row])
        return found

    def _check_children(self, node: int, root: int) -> None:
        nodes, s = self._nodes, self._nodes.slot[node]
        children = nodes.children[s, : nodes.fill[s]]
        least = min(2, int(nodes.level[node])) if node == root else max(2, 2 * self._fanout // 5)
        assert least <= len(children) <= self._fanout, f"node {node} has {len(children)} children"
        assert np.all(nodes.parent[children] == node), f"a child of {node} has another parent"
        assert np.all(nodes.level[children] == nodes.level[node] - 1), f"{node} has children of several levels"

    def _check_summary(self, node: int, below: Ints) -> None:
        nodes, rows, _ = self.tree()
        points, then = rows.points[below], rows.then[below]
        spots = self.space.spots(points)
        assert np.array_equal(nodes.lo[node], spots.min(axis=0)), f"box of {node}: {nodes.lo[node]}"
        assert np.array_equal(nodes.hi[node], spots.max(axis=0)), f"box of {node}: {nodes.hi[node]}"
        assert np.array_equal(nodes.lacks[node], np.isnan(points).any(axis=0)), f"{node} lacks {nodes.lacks[node]}"
        assert (nodes.low[node], nodes.high[node]) == (then.min(), then.max()), f"range of {node}"
        assert nodes.weight[node] == len(below), f"{node} weighs {nodes.weight[node]}, has {len(below)} rows"


def _checked(points: ArrayLike, then: ArrayLike, k: int) -> tuple[Floats, Floats]:
    """Rows as they must be, or an error."""
    points, then = np.ascontiguousarray(points, np.float64), np.ascontiguousarray(then, np.float64)
    if points.ndim != 2 or points.shape[1] != k or then.shape != points.shape[:1]:
        raise RowsError(f"determinants {points.shape} and values {then.shape} are not rows of {k} determinants each")
    if np.isinf(points).any() or not np.isfinite(then).all():
        raise RowsError(
            "the history has infinite determinants, or rows without a finite value of the dependent attribute; "
            "leave those rows out"
        )
    return points, then


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, read-only."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def _roomy(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The same array if it is long enough and may be written, else a longer copy; new rows are zero."""
    if len(array) >= size and array.flags.writeable:
        return array
    out = np.zeros((max(size, len(array) + len(array) // 2), *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


def _with_room(columns: _Columns, sizes: Mapping[str, int]) -> _Columns:
    """The same columns, with these ones at least so long."""
    return columns._replace(**{name: _roomy(getattr(columns, name), size) for name, size in sizes.items()})
