"""What did the paper's histograms promise?

The paper's section 5.2 gives every node of the index a histogram: the intervals of all determinants crossed, with the
number of rows and the range of `then` in each bucket that is not empty. Bounds can then be had before any row is looked
at, from any level of the tree.

Invariants (`check`): a node's histogram counts its rows, with the least and greatest `then` of each bucket. Hence
bounds from any level are right, and from a deeper level never wider.

Useful for: repeating the paper. Not useful for: deciding about a row. A bucket that is open need not hold a match, and
a row that matches nothing is imputed otherwise, by what may lie beyond these bounds; so it must be known whether
anything matches. On 6,068 rows with a gap and three determinants, that and the bounds of the best depth took, beside
exact bounds: Intel, temperature 4.87 : 3.30 µs; Intel, light 1.99 : 4.91; Beijing 14.3 : 16.3; synthetic 2.6 : 9.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fogline.arrays import Floats, Ints
from fogline.errors import RowsError
from lab.kernels.histograms import Buckets, rough_bounds
from lab.paper.index import Index


@dataclass(frozen=True)
class Histograms:
    """The histograms of an index as it was when they were made; rows appended to it since are not in them."""

    index: Index
    buckets: Buckets

    @classmethod
    def of(cls, index: Index, intervals: int = 4) -> Histograms:
        """Intervals of equal length, as many as a code of 62 bits can hold. O(rows · height)."""
        if intervals < 1:
            raise RowsError(f"intervals {intervals}: a histogram needs at least 1")
        nodes, rows, _ = index.tree()
        edges = _edges(index, min(intervals, (1 << (62 // len(index.space.side))) - 1))
        below = index.rows_below()
        owner = np.repeat(np.array([*below], np.int64), [len(each) for each in below.values()])
        which = np.concatenate([np.empty(0, np.int64), *below.values()])
        order = np.lexsort((code := _codes(rows.points, edges)[which], owner))
        owner, code, then = owner[order], code[order], rows.then[which[order]]
        first = np.flatnonzero(np.diff(owner, prepend=-1) | np.diff(code, prepend=-1))
        weight = np.diff(first, append=len(owner))
        size = np.bincount(owner[first], minlength=len(nodes.level))
        low, high = (how.reduceat(then, first) if len(first) else then for how in (np.minimum, np.maximum))
        spans = np.cumsum(size) - size, size
        return cls(index, Buckets(*spans, code[first], weight, low, high, edges, _bits(edges)))

    def bounds(self, centre: ArrayLike, radius: ArrayLike, depth: int) -> tuple[Floats, Floats]:
        """(q,) bounds of `then` in the matching rows; NaN where surely none matches.

        From the histograms `depth` levels below the root, from the index's `height` on those of the cells; deeper is
        never wider.
        """
        height = self.index.height
        target = min(max(height - depth, 0), height)
        nodes, _, root = self.index.tree()
        low, high = rough_bounds(nodes, root, self.buckets, target, *self.index.asked(centre, radius))
        return low, high

    def check(self) -> None:
        """Assert the invariants of the module text. O(rows · height), in Python."""
        _, rows, _ = self.index.tree()
        codes, b = _codes(rows.points, self.buckets.edges), self.buckets
        for node, below in self.index.rows_below().items():
            span = slice(b.at[node], b.at[node] + b.size[node])
            own, then = codes[below], rows.then[below]
            assert b.code[span].tolist() == sorted(set(own.tolist())), f"buckets of {node}: {b.code[span]}"
            for code, count, low, high in zip(b.code[span], b.weight[span], b.low[span], b.high[span], strict=True):
                values = then[own == code]
                assert (count, low, high) == (len(values), values.min(), values.max()), f"bucket {code} of {node}"


def _edges(index: Index, intervals: int) -> Floats:
    """(k, intervals - 1) between intervals of equal length over the index's rows."""
    space = index.space
    part = np.arange(1, intervals) / intervals
    with np.errstate(over="ignore"):
        far = np.minimum(space.origin + space.scale, np.finfo(float).max)
    return np.sort(space.origin[:, None] * (1 - part) + far[:, None] * part, axis=1)  # rounding may swap equal ones


def _bits(edges: Floats) -> int:
    """Of one digit of a bucket's code: an interval, or the number after the last one for a missing value."""
    return int(edges.shape[1] + 1).bit_length()


def _codes(points: Floats, edges: Floats) -> Ints:
    """(n,) the bucket of each row."""
    code = np.zeros(len(points), np.int64)
    for j, between in enumerate(edges):
        digit = np.searchsorted(between, points[:, j], side="right")
        code |= np.where(np.isnan(points[:, j]), len(between) + 1, digit) << (j * _bits(edges))
    return code
