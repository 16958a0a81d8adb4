"""Which rows of the history lie near a centre, in several determinants at once?

A tree of boxes over rows, bulk-loaded: its nodes are numbered as a heap, node i has the children 2i + 1 and 2i + 2, and
the rows of a node lie side by side. So do the nodes some levels below a node. A search looks LEAP levels further at
once, at sixteen boxes in one loop without a branch. Leaves are reached in whole leaps; the root's may be shorter.
Nothing is inserted; a history that grows is loaded anew (`repository/access`).

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
LEAP = 4  # levels from a node to those that are looked at next
WIDTH = 1 << LEAP  # nodes that lie so far below one
DEEPEST = 64  # levels
WAITING = DEEPEST // LEAP * WIDTH + 1  # nodes that may wait; a place more is written than waits


class RTree(NamedTuple):
    """n nodes over rows with k determinants. All arrays read-only: they may be memory-mapped."""

    lo: Floats  # (k, n) of the boxes around the nodes' rows; inf where all of them lack the determinant
    hi: Floats  # (k, n); -inf where all of them lack it
    lacks: Flags  # (k, n) does any of the node's rows lack the determinant?
    low: Floats  # (n,) the least `then` of its rows
    high: Floats  # (n,) the greatest
    begin: Ints  # (n,) its rows are begin : end
    end: Ints  # (n,)
    points: Floats  # (k, rows) determinants, NaN = missing
    then: Floats  # (rows,) the dependent attribute


class Question(NamedTuple):
    """A centre, in the m determinants that are asked for, and room for what is found out."""

    x: Floats  # (m,)
    radius: Floats  # (m,)
    which: Ints  # (m,) number of the determinant
    first: int  # levels of the root's leap
    far: Flags  # of the boxes or rows that were looked at last: which do not match? Room for a leap, and for a leaf


@inner
def question(tree, radius):
    """Of which determinants centres are asked: radius (k,), negative: not asked for."""
    which = np.flatnonzero(radius >= 0)
    leaves, depth = tree.begin.shape[0] // 2 + 1, 0
    while leaves >> depth > 1:
        depth += 1
    room = max(WIDTH, tree.then.shape[0] // leaves + 1)
    first = depth % LEAP if depth % LEAP else LEAP
    return Question(np.empty(which.shape[0]), radius[which], which, first, np.empty(room, np.bool_))


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
        left, right = tree.lo[j, node] - asked.x[a], tree.hi[j, node] - asked.x[a]
        if left > radius or right < -radius:
            return OUTSIDE
        if tree.lacks[j, node] or not (left >= -radius and right <= radius):
            found = PARTLY
    return found


@inner
def push_near(tree, node, asked, waiting, left):
    """Put the nodes a leap below that may match into `waiting`. Returns how many wait then. Without a branch."""
    levels = LEAP if node else asked.first
    begin, width = ((node + 1) << levels) - 1, 1 << levels
    far = asked.far[:width]
    far[:] = False
    for a in range(asked.x.shape[0]):
        j, x, radius = asked.which[a], asked.x[a], asked.radius[a]
        lo, hi = tree.lo[j, begin : begin + width], tree.hi[j, begin : begin + width]
        for c in range(width):
            far[c] |= (lo[c] - x > radius) | (hi[c] - x < -radius)
    for c in range(width):
        waiting[left] = begin + c
        left += not far[c]
    return left


@inner
def rows_far(tree, begin, end, asked):
    """Which of the rows begin : end do not match? Without a branch, which could not be guessed."""
    far = asked.far[: end - begin]
    far[:] = False
    for a in range(asked.x.shape[0]):
        x, radius = asked.x[a], asked.radius[a]
        points = tree.points[asked.which[a], begin:end]
        for r in range(end - begin):
            far[r] |= not abs(points[r] - x) <= radius
    return far


@kernel
def find(tree, centre, radius):
    """`then` of the rows that match each centre (q, k): offsets (q + 1,), and the values, ascending per centre."""
    q, inner_nodes = centre.shape[0], tree.begin.shape[0] // 2
    asked, waiting = question(tree, radius), np.empty(WAITING, np.int64)
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
            begin, end = tree.begin[node], tree.end[node]
            if n + end - begin > values.shape[0]:
                longer = np.empty(max(2 * values.shape[0], n + end - begin))
                longer[:n] = values[:n]
                values = longer
            far = rows_far(tree, begin, end, asked)
            for r in range(end - begin):
                values[n] = tree.then[begin + r]
                n += not far[r]
        values[offsets[i] : n] = ascending(values[offsets[i] : n])
        offsets[i + 1] = n
    return offsets, values[:n].copy()


@kernel
def count(tree, centre, radius):
    """(q,) how many rows match each centre?"""
    inner_nodes = tree.begin.shape[0] // 2
    asked, waiting = question(tree, radius), np.empty(WAITING, np.int64)
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
                for far in rows_far(tree, tree.begin[node], tree.end[node], asked):
                    out[i] += not far
    return out


@kernel
def bounds(tree, centre, radius):
    """(q,) the least and the greatest `then` of the rows that match each centre; NaN where none does.

    A node that cannot widen them is not opened.
    """
    inner_nodes = tree.begin.shape[0] // 2
    asked, waiting = question(tree, radius), np.empty(WAITING, np.int64)
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
                begin, end = tree.begin[node], tree.end[node]
                far = rows_far(tree, begin, end, asked)
                for r in range(end - begin):
                    if not far[r]:
                        low, high = min(low, tree.then[begin + r]), max(high, tree.then[begin + r])
        if low <= high:
            lows[i], highs[i] = low, high
    return lows, highs
