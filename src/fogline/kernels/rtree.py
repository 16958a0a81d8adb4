"""Which rows of the history lie near a centre, in several determinants at once?

A tree of boxes over rows, bulk-loaded: its nodes are numbered as a heap, node i has the children 2i + 1 and 2i + 2, and
the rows of a node lie side by side. Nothing is inserted; a history that grows is loaded anew (`repository/access`).

A row matches a centre if `abs(row - x) <= radius` in every determinant that is asked for; a missing value (NaN) of
either never does. Boxes are compared by `lo - x > radius` and `hi - x < -radius`: float subtraction is monotone, so no
row that matches is lost (`x + radius` would lose some to rounding). A box leaves missing values out. `lacks` marks
them, so that a node that has any is not taken as a whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.compile import inner, kernel
from fogline.kernels.sorting import ascending

OUTSIDE, PARTLY, WHOLE = 0, 1, 2  # how much of a node surely matches
DEEPEST = 64  # levels


class RTree(NamedTuple):
    """n nodes over rows with k determinants. All arrays read-only: they may be memory-mapped."""

    lo: Floats  # (n, k) of the box around the node's rows; inf where all of them lack the determinant
    hi: Floats  # (n, k); -inf where all of them lack it
    lacks: Flags  # (n, k) does any of its rows lack the determinant?
    low: Floats  # (n,) the least `then` of its rows
    high: Floats  # (n,) the greatest
    begin: Ints  # (n,) its rows are begin : end
    end: Ints  # (n,)
    points: Floats  # (rows, k) determinants, NaN = missing
    then: Floats  # (rows,) the dependent attribute


class Question(NamedTuple):
    """A centre, in the m determinants that are asked for."""

    x: Floats  # (m,)
    radius: Floats  # (m,)
    which: Ints  # (m,) number of the determinant


@inner
def question(radius):
    """Of which determinants centres are asked: radius (k,), negative: not asked for."""
    which = np.flatnonzero(radius >= 0)
    return Question(np.empty(which.shape[0]), radius[which], which)


@inner
def nodes_to_begin(tree, centre, i, asked):
    """Aim the question at centre i. Returns how many nodes to begin with: the root, or none, if nothing can match."""
    complete = tree.begin.shape[0] > 0
    for a in range(asked.x.shape[0]):
        asked.x[a] = centre[i, asked.which[a]]
        complete &= asked.x[a] == asked.x[a]
    return 1 if complete else 0


@inner
def part(tree, node, asked):
    """How much of a node matches? WHOLE: every row of it."""
    found = WHOLE
    for a in range(asked.x.shape[0]):
        j, radius = asked.which[a], asked.radius[a]
        left, right = tree.lo[node, j] - asked.x[a], tree.hi[node, j] - asked.x[a]
        if left > radius or right < -radius:
            return OUTSIDE
        if tree.lacks[node, j] or not (left >= -radius and right <= radius):
            found = PARTLY
    return found


@inner
def push_near(tree, node, asked, waiting, left):
    """Put the children of a node that may match into `waiting`. Returns how many wait then. Without a branch."""
    for child in range(2 * node + 1, 2 * node + 3):
        far = False
        for a in range(asked.x.shape[0]):
            j = asked.which[a]
            far |= (tree.lo[child, j] - asked.x[a] > asked.radius[a]) | (
                tree.hi[child, j] - asked.x[a] < -asked.radius[a]
            )
        waiting[left] = child
        left += not far
    return left


@inner
def matches(tree, r, asked):
    """Does row r match? Without a branch, which could not be guessed."""
    close = True
    for a in range(asked.x.shape[0]):
        close &= abs(tree.points[r, asked.which[a]] - asked.x[a]) <= asked.radius[a]
    return close


@kernel
def find(tree, centre, radius):
    """`then` of the rows that match each centre (q, k): offsets (q + 1,), and the values, ascending per centre."""
    q, inner_nodes = centre.shape[0], tree.begin.shape[0] // 2
    asked, waiting = question(radius), np.empty(DEEPEST, np.int64)
    offsets, values = np.zeros(q + 1, np.int64), np.empty(32 * q + 64)
    n = 0
    for i in range(q):
        waiting[0], left = 0, nodes_to_begin(tree, centre, i, asked)
        while left:
            left -= 1
            node = waiting[left]
            if node < inner_nodes:
                left = push_near(tree, node, asked, waiting, left)
                continue
            found = part(tree, node, asked)
            if found != OUTSIDE:
                begin, end = tree.begin[node], tree.end[node]
                if n + end - begin > values.shape[0]:
                    longer = np.empty(max(2 * values.shape[0], n + end - begin))
                    longer[:n] = values[:n]
                    values = longer
                if found == WHOLE:
                    for r in range(begin, end):  # a loop of its own: nothing is asked of a row
                        values[n] = tree.then[r]
                        n += 1
                else:
                    for r in range(begin, end):
                        values[n] = tree.then[r]
                        n += matches(tree, r, asked)
        values[offsets[i] : n] = ascending(values[offsets[i] : n])
        offsets[i + 1] = n
    return offsets, values[:n].copy()


@kernel
def count(tree, centre, radius):
    """(q,) how many rows match each centre?"""
    inner_nodes = tree.begin.shape[0] // 2
    asked, waiting = question(radius), np.empty(DEEPEST, np.int64)
    out = np.zeros(centre.shape[0], np.int64)
    for i in range(centre.shape[0]):
        waiting[0], left = 0, nodes_to_begin(tree, centre, i, asked)
        while left:
            left -= 1
            node = waiting[left]
            found = part(tree, node, asked)
            if found == WHOLE:
                out[i] += tree.end[node] - tree.begin[node]
            elif found == PARTLY and node < inner_nodes:
                left = push_near(tree, node, asked, waiting, left)
            elif found == PARTLY:
                for r in range(tree.begin[node], tree.end[node]):
                    out[i] += matches(tree, r, asked)
    return out


@kernel
def bounds(tree, centre, radius):
    """(q,) the least and the greatest `then` of the rows that match each centre; NaN where none does.

    A node that cannot widen them is not opened.
    """
    inner_nodes = tree.begin.shape[0] // 2
    asked, waiting = question(radius), np.empty(DEEPEST, np.int64)
    lows, highs = np.full(centre.shape[0], np.nan), np.full(centre.shape[0], np.nan)
    for i in range(centre.shape[0]):
        low, high = np.inf, -np.inf
        waiting[0], left = 0, nodes_to_begin(tree, centre, i, asked)
        while left:
            left -= 1
            node = waiting[left]
            if tree.low[node] >= low and tree.high[node] <= high:
                continue
            found = part(tree, node, asked)
            if found == WHOLE:
                low, high = min(low, tree.low[node]), max(high, tree.high[node])
            elif found == PARTLY and node < inner_nodes:
                left = push_near(tree, node, asked, waiting, left)
            elif found == PARTLY:
                for r in range(tree.begin[node], tree.end[node]):
                    if matches(tree, r, asked):
                        low, high = min(low, tree.then[r]), max(high, tree.then[r])
        if low <= high:
            lows[i], highs[i] = low, high
    return lows, highs
