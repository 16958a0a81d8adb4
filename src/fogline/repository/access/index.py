"""Which rows of the history are close to this one, and what values of the missing attribute do they hold?

The index of the paper's section 5.2, one per dependent attribute (`then`) over its numeric determinants. Rows lie in
grid cells; an R*-tree stands over the cells that are not empty; each node, down to the cells, has a histogram: the
intervals of all determinants crossed, with the number of rows and the range of `then` in each bucket that is not empty.

Invariants (`check`): a row is in exactly one cell, and rows of one cell lack the same determinants; a node's box is the
tightest around its rows' places; its histogram counts its rows, with the least and greatest `then` of each bucket.
Hence bounds from any level are right, and from a deeper level never wider.

Useful for: a few determinants, radii that match a small part of the history, many centres in one call. Not useful for:
a single determinant of a history that never grows, where a sorted column is cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogline.arrays import Floats, Ints
from fogline.errors import RowsError
from fogline.kernels import rtree
from fogline.kernels.rtree import Buckets, Nodes, Rows

MISSING = np.iinfo(np.int64).min  # the grid coordinate of a missing determinant
FAR = 2.0**62  # grid coordinates stop here: beyond it cells are as wide as they need to be
LOOSE = 4  # rows lie cell after cell, but for at most one in so many

Columns = TypeVar("Columns", Nodes, Rows, Buckets)


class Space(NamedTuple):
    """Where things are, settled when the first rows come. Rows beyond it fall in its outermost intervals."""

    origin: Floats  # (k,)
    side: Floats  # (k,) of a cell
    scale: Floats  # (k,) extent of the data, positive
    edges: Floats  # (k, intervals - 1) between the intervals of a histogram

    @classmethod
    def around(cls, points: Floats, side: Floats, intervals: int) -> Space:
        """Intervals of equal length over these rows, as many as a code of 62 bits can tell apart."""
        absent = np.isnan(points)
        lo = np.where(absent, np.inf, points).min(axis=0, initial=np.inf)
        hi = np.where(absent, -np.inf, points).max(axis=0, initial=-np.inf)
        lo, hi = np.where(lo <= hi, lo, 0.0), np.where(lo <= hi, hi, 0.0)
        with np.errstate(over="ignore"):
            extent = np.minimum(hi - lo, np.finfo(float).max)
        intervals = min(intervals, (1 << (62 // len(side))) - 1)
        part = np.arange(1, intervals) / intervals
        edges = np.sort(lo[:, None] * (1 - part) + hi[:, None] * part, axis=1)  # rounding may swap equal ones
        return cls(lo, side, np.where(extent > 0, extent, 1.0), edges)

    @property
    def bits(self) -> int:
        """Of one digit of a bucket's code: an interval, or the number after the last one for a missing value."""
        return int(self.edges.shape[1] + 1).bit_length()

    def cells(self, points: Floats) -> Ints:
        """(n, k) grid coordinates."""
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.clip(np.floor((points - self.origin) / self.side), -FAR, FAR)
        return np.where(np.isnan(points), MISSING, np.where(np.isnan(points), 0.0, steps).astype(np.int64))

    def spots(self, points: Floats) -> Floats:
        """(n, k) the rows' places in the tree: a missing determinant stands apart from the data it was built of.

        Should later rows come to stand there too, boxes prune a little less; answers look at the values themselves.
        """
        with np.errstate(over="ignore"):
            apart = self.origin - self.scale
        return np.where(np.isnan(points), np.where(np.isfinite(apart), apart, self.origin), points)

    def codes(self, points: Floats) -> Ints:
        """(n,) the bucket of each row."""
        code = np.zeros(len(points), np.int64)
        for j, edges in enumerate(self.edges):
            digit = np.searchsorted(edges, points[:, j], side="right")
            code |= np.where(np.isnan(points[:, j]), len(edges) + 1, digit) << (j * self.bits)
        return code


class Index:
    """Rows of the history by their determinants. Queries are logarithmic in the cells and linear in what matches."""

    def __init__(
        self, space: Space, nodes: Nodes, rows: Rows, buckets: Buckets, grid: Ints, root: int, intervals: int
    ) -> None:
        self._space = space
        self._nodes, self._rows, self._buckets, self._grid = nodes, rows, buckets, grid
        self._use = np.array([len(nodes.level), len(nodes.fill), len(rows.start), root])  # see kernels.rtree.NODES
        self._count = len(rows.then)  # of the row arrays, which may be longer
        self._packed = self._count  # the first rows, which lie cell after cell
        self._pool = len(buckets.code)  # how much of the buckets' pool is in use, …
        self._pool_packed = self._pool  # … and how much was, when gaps were last closed
        self._intervals = intervals
        self._table: Ints | None = None  # cells by grid coordinates, made when rows are first appended
        self._dirty: NDArray[np.bool_] = np.zeros(0, np.bool_)  # (nodes,) whose histograms are to be made again
        self._scratch = _no_buckets()
        self._frozen: tuple[Nodes, Rows, Buckets] | None = None

    @classmethod
    def build(
        cls, points: ArrayLike, then: ArrayLike, side: ArrayLike, *, intervals: int = 4, fanout: int = 16
    ) -> Self:
        """An index of rows with determinants `points` (n, k), NaN = missing, and dependent values `then` (n,).

        `side` (k,) is the length of a grid cell. O(n log n).

        >>> index = Index.build([[1.0], [2.0], [9.0]], [10.0, 20.0, 90.0], side=[5.0])
        >>> index.find([[1.5]], [0.5])[1].tolist()
        [10.0, 20.0]
        """
        side = np.array(side, np.float64)
        if side.ndim != 1 or not 1 <= len(side) <= 62 or not np.all((side > 0) & np.isfinite(side)):
            raise RowsError(f"the sides of a cell are {side}; the index needs a positive one for each determinant")
        if fanout < 4 or intervals < 1:
            raise RowsError(f"fanout {fanout}, intervals {intervals}: an index needs at least 4 and 1")
        points, then = _history(points, then, len(side))
        return cls(*_bulk_load(Space.around(points, side, intervals), points, then, fanout), intervals)

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
        return int(self._nodes.level[self._root]) if self._count else 0

    @property
    def _root(self) -> int:
        return int(self._use[rtree.ROOT])

    def find(self, centre: ArrayLike, radius: ArrayLike) -> tuple[Ints, Floats]:
        """`then` of the rows with abs(row - centre) <= radius in every determinant, for each centre.

        centre (q, k), NaN = any value will do; radius (k,). Returns offsets (q + 1,) and the values, ascending within
        values[offsets[i] : offsets[i + 1]]. O(log cells + matches · log matches) per centre.
        """
        nodes, rows, _ = self._views()
        offsets, values = rtree.find(nodes, rows, self._root, *self._asked(centre, radius))
        return offsets, values

    def count(self, centre: ArrayLike, radius: ArrayLike) -> Ints:
        """(q,) how many rows match. Nodes that lie within the radii are not opened."""
        nodes, rows, _ = self._views()
        found: Ints = rtree.count(nodes, rows, self._root, *self._asked(centre, radius), rtree.ALL)
        return found

    def exists(self, centre: ArrayLike, radius: ArrayLike) -> NDArray[np.bool_]:
        """(q,) does any row match? Stops at the first."""
        nodes, rows, _ = self._views()
        found: Ints = rtree.count(nodes, rows, self._root, *self._asked(centre, radius), 1)
        return found > 0

    def bounds(self, centre: ArrayLike, radius: ArrayLike, depth: int | None = None) -> tuple[Floats, Floats]:
        """(q,) bounds of `then` in the matching rows; NaN where surely none matches.

        They come from the histograms `depth` levels below the root, from `height` on those of the cells; deeper is
        never wider. Without a depth they are the least and the greatest value themselves.
        """
        nodes, rows, buckets = self._views()
        target = -1 if depth is None else min(max(self.height - depth, 0), self.height)
        asked = self._asked(centre, radius)
        low, high = rtree.bounds(
            nodes, rows, buckets, self._root, _frozen(self._space.edges), self._space.bits, target, *asked
        )
        return low, high

    def append(self, points: ArrayLike, then: ArrayLike) -> None:
        """Take in more rows, without building anew.

        R* insertion for a row that opens a cell, O(fanout · height) for another; each touched node's histogram is made
        again once per call, from its children's. Memory-mapped arrays are left alone: the index goes on with copies.
        """
        points, then = _history(points, then, len(self._space.side))
        if not len(then):
            return
        if not self._count:
            fresh = type(self).build(points, then, self._space.side, intervals=self._intervals, fanout=self._fanout)
            self.__dict__.update(fresh.__dict__)
            return
        self._frozen = None
        fresh_rows = self._write(points, then)
        self._insert(points, fresh_rows)
        self._summarise(self._space.codes(points), fresh_rows)
        if (self._count - self._packed) * LOOSE > self._count:
            self._pack()
        if self._pool > 2 * self._pool_packed:
            self._pack_buckets()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything there is, as flat arrays by name: `from_arrays` gives the same index again."""
        if self._packed < self._count:
            self._pack()
        self._pack_buckets()
        nodes, rows, buckets = self._views()
        flat: dict[str, NDArray[Any]] = {
            f"{part}.{name}": array
            for part, columns in (("space", self._space), ("nodes", nodes), ("rows", rows), ("buckets", buckets))
            for name, array in columns._asdict().items()
            if name not in ("head", "after")
        }
        return flat | {"grid": self._grid[: self.cells], "meta": np.array([self._root, self._intervals])}

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
        root, intervals = (int(number) for number in arrays["meta"])
        nodes, buckets = Nodes(**part("nodes")), Buckets(**part("buckets"))
        return cls(space, nodes, Rows(**rows), buckets, np.ascontiguousarray(arrays["grid"]), root, intervals)

    @property
    def _fanout(self) -> int:
        return int(self._nodes.children.shape[1]) - 1

    def _asked(self, centre: ArrayLike, radius: ArrayLike) -> tuple[Floats, Floats]:
        k = len(self._space.side)
        centre, radius = np.ascontiguousarray(centre, np.float64), np.ascontiguousarray(radius, np.float64)
        if centre.ndim != 2 or centre.shape[1] != k or radius.shape != (k,):
            raise RowsError(f"centres {centre.shape} and radii {radius.shape} do not fit an index of {k} determinants")
        return _frozen(centre), _frozen(radius)

    def _views(self) -> tuple[Nodes, Rows, Buckets]:
        """What is in use, read-only, so that built, grown and memory-mapped indexes are one type to the kernels."""
        if self._frozen is None:
            n, inner, cells, _ = (int(number) for number in self._use)
            self._frozen = (
                Nodes(*(_frozen(a[: inner if name in _INNER else n]) for name, a in self._nodes._asdict().items())),
                Rows(
                    *(_frozen(a[: self._count if name in _ROWS else cells]) for name, a in self._rows._asdict().items())
                ),
                Buckets(
                    *(_frozen(a[: n if name in _SPANS else self._pool]) for name, a in self._buckets._asdict().items())
                ),
            )
        return self._frozen

    def _write(self, points: Floats, then: Floats) -> int:
        """Put the rows behind the others. Returns the first of them."""
        first, end = self._count, self._count + len(then)
        self._rows = _with_room(self._rows, dict.fromkeys(_ROWS, end))
        self._rows.points[first:end], self._rows.then[first:end] = points, then
        self._count = end
        return first

    def _insert(self, points: Floats, first: int) -> None:
        """Into cells and tree, in as many turns as it takes to make room."""
        at, spots, done = self._space.cells(points), self._space.spots(points), first
        while done < self._count:
            n, inner, cells, _ = (int(number) for number in self._use)
            room = (self.height + 2) ** 2 * (self._fanout + 1)
            sizes = {name: inner + room if name in _INNER else n + 1 + room for name in Nodes._fields}
            self._nodes = _with_room(self._nodes, sizes)
            self._buckets = _with_room(self._buckets, {name: len(self._nodes.level) for name in _SPANS})
            self._rows = _with_room(self._rows, dict.fromkeys(("start", "size", "head"), cells + 1))
            self._grid = _roomy(self._grid, cells + 1)
            self._dirty = _roomy(self._dirty, len(self._nodes.level))
            if self._table is None or 2 * cells >= len(self._table):
                self._table = np.full(1 << (2 * cells + 15).bit_length(), -1)
                rtree.enlist(self._table, self._grid, self._nodes, n)
            tree = self._nodes, self._rows, self._grid, self._table, self._use, self._dirty
            done = rtree.take(*tree, at, spots, self._space.scale, done, self._count)

    def _summarise(self, codes: Ints, first: int) -> None:
        """Make the histograms of all touched nodes again, from the cells up."""
        which = np.flatnonzero(self._dirty[: self._use[rtree.NODES]])
        which = which[np.argsort(self._nodes.level[which], kind="stable")]
        done = 0
        self._buckets = _with_room(self._buckets, dict.fromkeys(_POOL, self._pool + 1))
        while True:
            tree = self._nodes, self._rows, self._buckets, self._dirty
            done, self._pool = rtree.summarise(*tree, which, done, self._pool, codes, first, self._scratch)
            if done == len(which):
                return
            most = rtree.most_parts(self._nodes, self._buckets, which[done], len(codes))
            self._scratch = _with_room(self._scratch, dict.fromkeys(_POOL, most))
            self._buckets = _with_room(self._buckets, dict.fromkeys(_POOL, self._pool + most))

    def _pack(self) -> None:
        """Let all rows lie cell after cell again. O(rows), once per so many appended that it does not count."""
        self._frozen = None
        order = rtree.by_cell(self._rows, self.cells, self._count)
        self._rows = self._rows._replace(points=self._rows.points[order], then=self._rows.then[order])
        self._packed = self._count

    def _pack_buckets(self) -> None:
        """Close the gaps that histograms left when they outgrew their places."""
        n, b = int(self._use[rtree.NODES]), self._buckets
        if int(b.size[:n].sum()) == self._pool:
            self._pool_packed = self._pool
            return
        self._frozen = None
        source = _spans(b.at[:n], b.size[:n])
        b.at[:n] = np.cumsum(b.size[:n]) - b.size[:n]
        self._buckets = b._replace(**{name: getattr(b, name)[source] for name in _POOL})
        self._pool = self._pool_packed = len(source)

    def check(self) -> None:
        """Assert every invariant of the module text, and those of an R*-tree. O(rows · height), in Python."""
        nodes, rows, _ = self._views()
        n, inner, cells, root = (int(number) for number in self._use)
        if not self._count:
            assert (n, inner, cells, root) == (0, 0, 0, -1), f"an empty index has {self._use}"
            return
        assert np.count_nonzero(nodes.level == 0) == cells == n - inner, "a node is neither cell nor inner"
        assert nodes.parent[root] == -1, "the root has a parent"
        below: dict[int, list[int]] = {}
        for node in np.argsort(nodes.level, kind="stable").tolist():
            s = int(nodes.slot[node])
            if nodes.level[node] == 0:
                below[node] = self._rows_of(s)
                at = self._space.cells(rows.points[below[node]])
                assert np.all(at == self._grid[s]), f"cell {self._grid[s]} holds rows of {at}"
            else:
                children = nodes.children[s, : nodes.fill[s]].tolist()
                least = min(2, int(nodes.level[node])) if node == root else max(2, 2 * self._fanout // 5)
                assert least <= len(children) <= self._fanout, f"node {node} has {len(children)} children"
                assert np.all(nodes.parent[children] == node), f"a child of {node} has another parent"
                assert np.all(nodes.level[children] == nodes.level[node] - 1), f"{node} has children of several levels"
                below[node] = [row for child in children for row in below.pop(child)]
            self._check_summary(node, np.array(below[node]))
        assert list(below) == [root], f"{set(below) - {root}} hang nowhere"
        assert sorted(below[root]) == list(range(self._count)), "a row is in no cell, or in two"
        assert len({tuple(at) for at in self._grid[:cells].tolist()}) == cells, "two cells have one place"

    def _rows_of(self, cell: int) -> list[int]:
        found = list(range(self._rows.start[cell], self._rows.start[cell] + self._rows.size[cell]))
        row = int(self._rows.head[cell])
        while row >= 0:
            assert row >= self._packed, f"row {row} is listed, but lies in its place"
            found.append(row)
            row = int(self._rows.after[row])
        return found

    def _check_summary(self, node: int, below: Ints) -> None:
        nodes, rows, b = self._views()
        points, then = rows.points[below], rows.then[below]
        spots, codes = self._space.spots(points), self._space.codes(points)
        assert np.array_equal(nodes.lo[node], spots.min(axis=0)), f"box of {node}: {nodes.lo[node]}"
        assert np.array_equal(nodes.hi[node], spots.max(axis=0)), f"box of {node}: {nodes.hi[node]}"
        assert np.array_equal(nodes.lacks[node], np.isnan(points).any(axis=0)), f"{node} lacks {nodes.lacks[node]}"
        assert (nodes.low[node], nodes.high[node]) == (then.min(), then.max()), f"range of {node}"
        assert nodes.weight[node] == len(below), f"{node} weighs {nodes.weight[node]}, has {len(below)} rows"
        span = slice(b.at[node], b.at[node] + b.size[node])
        assert b.code[span].tolist() == sorted(set(codes.tolist())), f"buckets of {node}: {b.code[span]}"
        for code, count, low, high in zip(b.code[span], b.weight[span], b.low[span], b.high[span], strict=True):
            values = then[codes == code]
            assert (count, low, high) == (len(values), values.min(), values.max()), f"bucket {code} of {node}"


_INNER, _ROWS, _SPANS = ("children", "fill"), ("points", "then", "after"), ("at", "size")  # how long is which array?
_POOL = ("code", "weight", "low", "high")


def _history(points: ArrayLike, then: ArrayLike, k: int) -> tuple[Floats, Floats]:
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


def _with_room(columns: Columns, sizes: Mapping[str, int]) -> Columns:
    """The same columns, with these ones at least so long."""
    return columns._replace(**{name: _roomy(getattr(columns, name), size) for name, size in sizes.items()})


def _spans(start: Ints, size: Ints) -> Ints:
    """start[0], start[0] + 1, …, then the span of start[1], and so on."""
    ends = np.cumsum(size)
    return np.repeat(start - (ends - size), size) + np.arange(ends[-1] if len(ends) else 0)


def _no_buckets() -> Buckets:
    whole, real = np.empty(0, np.int64), np.empty(0)
    return Buckets(whole, whole, whole, whole, real, real)


# ------------------------------------------------------------------------------------------------ building from nothing


def _bulk_load(
    space: Space, points: Floats, then: Floats, fanout: int
) -> tuple[Space, Nodes, Rows, Buckets, Ints, int]:
    """All rows at once: sort-tile-recursive packing (Leutenegger et al., ICDE 1997), bottom up.

    Nodes are then numbered level by level, siblings side by side, and rows in the order of their cells.
    """
    at, codes = space.cells(points), space.codes(points)
    order = np.lexsort((codes, *at.T))
    points, then, codes, at = points[order], then[order], codes[order], at[order]
    first = np.flatnonzero(_changes(at))
    size = np.diff(first, append=len(then))
    spots = space.spots(points)
    lo, hi = _group(np.minimum, spots, first), _group(np.maximum, spots, first)
    numbers, starts = _tree_order(lo, hi, fanout)

    rows = _spans(first[numbers[0]], size[numbers[0]])
    owner = np.repeat(np.arange(len(first)), size[numbers[0]])
    histogram = _histogram(owner, codes[rows], np.ones(len(rows), np.int64), then[rows], then[rows])
    levels = [(lo[numbers[0]], hi[numbers[0]], np.isnan(points[first[numbers[0]]]), histogram)]
    for start in starts:
        lo, hi, lacks, (owner, codes_, *rest) = levels[-1]
        parents = np.repeat(np.arange(len(start)), np.diff(start, append=len(lo)))
        lo, hi = _group(np.minimum, lo, start), _group(np.maximum, hi, start)
        levels.append((lo, hi, _group(np.logical_or, lacks, start), _histogram(parents[owner], codes_, *rest)))
    nodes, buckets = _number(levels, starts, fanout)
    size = size[numbers[0]]
    kept = Rows(points[rows], then[rows], np.cumsum(size) - size, size, np.full(len(size), -1), np.empty(0, np.int64))
    return space, nodes, kept, buckets, at[first[numbers[0]]], len(nodes.level) - 1


def _changes(keys: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) where does a sorted (n, k) array begin a new row?"""
    new = np.ones(len(keys), np.bool_)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return new


def _group(how: np.ufunc, array: NDArray[Any], first: Ints) -> NDArray[Any]:
    """Fold the spans that begin at `first`; no spans of no rows are none."""
    if not len(first):
        return array[:0]
    folded: NDArray[Any] = how.reduceat(array, first, axis=0)
    return folded


def _histogram(owner: Ints, code: Ints, count: Ints, low: Floats, high: Floats) -> tuple[Any, ...]:
    """Buckets of one owner and code united, by owner and code."""
    order = np.lexsort((code, owner))
    owner, code = owner[order], code[order]
    first = np.flatnonzero(_changes(np.column_stack((owner, code))))
    folded = ((np.add, count), (np.minimum, low), (np.maximum, high))
    return owner[first], code[first], *(_group(how, column[order], first) for how, column in folded)


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


def _tree_order(lo: Floats, hi: Floats, fanout: int) -> tuple[list[Ints], list[Ints]]:
    """Per level from the cells up, which node comes when; per level above the cells, where a node's children begin."""
    numbers, starts = [np.zeros(0, np.int64)], list[Ints]()
    tiled: list[tuple[Ints, Ints]] = []
    while len(lo) and not (tiled and len(lo) == 1):
        order, first = _tiles(lo / 2 + hi / 2, fanout)
        tiled.append((order, first))
        lo, hi = _group(np.minimum, lo[order], first), _group(np.maximum, hi[order], first)
    if tiled:
        numbers = [np.zeros(1, np.int64)]
    for order, first in reversed(tiled):
        above, size = numbers[0], np.diff(first, append=len(order))
        numbers.insert(0, order[_spans(first[above], size[above])])
        starts.insert(0, np.cumsum(size[above]) - size[above])
    return numbers, starts


def _number(levels: list[Any], starts: list[Ints], fanout: int) -> tuple[Nodes, Buckets]:
    """One numbering for the nodes of all levels, from the cells up to the root."""
    sizes = [len(level[0]) for level in levels]
    base = np.cumsum([0, *sizes])
    lo, hi, lacks = (np.concatenate([level[i] for level in levels]) for i in range(3))
    parent, children, fill = np.full(base[-1], -1), [np.zeros((0, fanout + 1), np.int64)], [np.zeros(0, np.int64)]
    for i, start in enumerate(starts):
        count = np.diff(start, append=sizes[i])
        parent[base[i] : base[i + 1]] = np.repeat(np.arange(len(start)), count) + base[i + 1]
        children.append(start[:, None] + np.arange(fanout + 1) + base[i])
        fill.append(count)
    owner = np.concatenate([level[3][0] + base[i] for i, level in enumerate(levels)])
    code, count, low, high = (np.concatenate([level[3][i] for level in levels]) for i in range(1, 5))
    at = np.flatnonzero(_changes(owner[:, None]))
    nodes = Nodes(
        lo, hi, lacks,
        _group(np.minimum, low, at), _group(np.maximum, high, at), _group(np.add, count, at),
        np.repeat(np.arange(len(levels)), sizes), parent,
        np.concatenate((np.arange(sizes[0]), np.arange(base[-1] - sizes[0]))),
        np.concatenate(children), np.concatenate(fill),
    )  # fmt: skip
    return nodes, Buckets(at, np.diff(at, append=len(owner)), code, count, low, high)
