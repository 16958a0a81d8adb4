"""How is an index built from nothing?

All rows at once: sort-tile-recursive packing (Leutenegger et al., ICDE 1997), bottom up. Nodes are then numbered level
by level, siblings side by side, and rows lie in the order of their cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.rtree import CellRows, Nodes
from fogline.repository.access.space import Space


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
