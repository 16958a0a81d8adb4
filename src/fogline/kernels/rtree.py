"""Which rows of the repository lie near a place?

A node of level 0 is a grid cell with its rows; every other node has children one level below. A node's box holds the
places of all rows below it, where a missing determinant stands at a place outside the data. Boxes only prune, with
`lo - x > eps` and `x - hi > eps`: float subtraction is monotone, so no row with `abs(row - x) <= eps` is ever lost
(bounds like `x + eps` lose some to rounding). What is left is tested by that very formula on the rows' own values.

How the tree grows stands in `kernels/growth`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import kernel

OUTSIDE, PARTLY, WHOLE = 0, 1, 2  # how much of a box surely lies within the radii
RANKED = 64  # so many values are sorted by counting how many are smaller
LEVELS = 64


class Nodes(NamedTuple):
    """n nodes of any level, over k determinants."""

    lo: Floats  # (n, k) box
    hi: Floats  # (n, k)
    lacks: np.ndarray  # (n, k) bool: does any row below lack this determinant?
    low: Floats  # (n,) least `then` below
    high: Floats  # (n,) greatest
    weight: Ints  # (n,) rows below
    level: Ints  # (n,) 0 = cell
    parent: Ints  # (n,) -1 = root
    slot: Ints  # (n,) a cell's place in `CellRows`, any other node's place in `children`
    children: Ints  # (inner, fanout + 1) nodes
    fill: Ints  # (inner,) how many children


class CellRows(NamedTuple):
    """The rows of a cell: rows[start : start + size], then the list head, after[head], …, which ends with -1."""

    points: Floats  # (rows, k) determinants, NaN = missing
    then: Floats  # (rows,) the dependent attribute
    start: Ints  # (cells,)
    size: Ints  # (cells,)
    head: Ints  # (cells,)
    after: Ints  # (rows,), or shorter while nothing was appended


class Question(NamedTuple):
    """A centre, in the determinants that it asks for."""

    x: Floats  # (m,)
    eps: Floats  # (m,) radius
    dims: Ints  # (m,) which determinants


# ------------------------------------------------------------------------------------------------------- one question


@kernel
def room_for(k):
    """Memory for a question about up to k determinants."""
    return Question(np.empty(k), np.empty(k), np.empty(k, np.int64))


@kernel
def aim(centre, i, radius, room):
    """The question of centre i, written into the room; a determinant that is NaN is not asked for."""
    m = 0
    for j in range(centre.shape[1]):
        if centre[i, j] == centre[i, j]:
            room.x[m], room.eps[m], room.dims[m] = centre[i, j], radius[j], j
            m += 1
    return Question(room.x[:m], room.eps[:m], room.dims[:m])


@kernel
def place(nodes, node, ask):
    """How much of a node's box lies within the radii? WHOLE: every row below matches."""
    verdict = WHOLE
    for a in range(ask.x.shape[0]):
        j = ask.dims[a]
        left, right = nodes.lo[node, j] - ask.x[a], nodes.hi[node, j] - ask.x[a]
        if left > ask.eps[a] or right < -ask.eps[a]:
            return OUTSIDE
        if nodes.lacks[node, j] or not (left >= -ask.eps[a] and right <= ask.eps[a]):
            verdict = PARTLY
    return verdict


@kernel
def matches(points, r, ask):
    """Is row r within the radii? A missing value (NaN) never is."""
    close = True
    for a in range(ask.x.shape[0]):
        close &= abs(points[r, ask.dims[a]] - ask.x[a]) <= ask.eps[a]
    return close


@kernel
def push_near(nodes, s, ask, stack, top):
    """Put the children that the radii reach on the stack. Returns its new top. No branch: it could not be guessed."""
    lo, hi = nodes.lo, nodes.hi
    for c in range(nodes.fill[s]):
        child = nodes.children[s, c]
        far = False
        for a in range(ask.x.shape[0]):
            j = ask.dims[a]
            far |= (lo[child, j] - ask.x[a] > ask.eps[a]) | (ask.x[a] - hi[child, j] > ask.eps[a])
        stack[top] = child
        top += not far
    return top


# --------------------------------------------------------------------------------------------------- values, in order


@kernel
def gather(rows, cell, sure, ask, values, n):
    """Write `then` of the cell's matching rows from values[n] on. Returns the new end. Without a branch per row."""
    begin, end = rows.start[cell], rows.start[cell] + rows.size[cell]
    for r in range(begin, end):
        values[n] = rows.then[r]
        n += sure or matches(rows.points, r, ask)
    r = rows.head[cell]
    while r >= 0:
        if sure or matches(rows.points, r, ask):
            values[n] = rows.then[r]
            n += 1
        r = rows.after[r]
    return n


@kernel
def rank(values, begin, end, spare):
    """Sort a few values by counting how many are smaller: all comparisons at once, with no branch to guess."""
    for i in range(end - begin):
        spare[i] = values[begin + i]
    for i in range(end - begin):
        v = spare[i]
        smaller = 0
        for h in range(i):
            smaller += spare[h] <= v
        for h in range(i + 1, end - begin):
            smaller += spare[h] < v
        values[begin + smaller] = v


@kernel
def merge(values, begin, middle, end, spare):
    """Make one ascending run of two neighbouring ones."""
    for i in range(middle - begin):
        spare[i] = values[begin + i]
    i, j, n = 0, middle, middle - begin
    while i < n and j < end:
        later = values[j] < spare[i]
        values[begin] = values[j] if later else spare[i]
        begin += 1
        j += later
        i += not later
    while i < n:
        values[begin] = spare[i]
        begin += 1
        i += 1


@kernel
def arrange(values, begin, end, spare):
    """Sort values[begin:end]: short runs by rank, then merged. Numba's own quicksort takes 1.2 to 7 times as long."""
    for first in range(begin, end, RANKED):
        rank(values, first, min(first + RANKED, end), spare)
    width = RANKED
    if end - begin > spare.shape[0]:
        spare = np.empty(end - begin)
    while width < end - begin:
        for first in range(begin, end - width, 2 * width):
            merge(values, first, first + width, min(first + 2 * width, end), spare)
        width *= 2


@kernel
def find(nodes, rows, root, centre, radius):
    """`then` of the rows within the radii of each centre: offsets (q + 1,), and the values, ascending per centre."""
    q, k = centre.shape
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    offsets, values, spare = np.zeros(q + 1, np.int64), np.empty(32 * q + 64), np.empty(1024)
    n = 0
    for i in range(q):
        ask = aim(centre, i, radius, room)
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            if nodes.level[node] > 0:
                top = push_near(nodes, nodes.slot[node], ask, stack, top)
                continue
            if n + nodes.weight[node] > values.shape[0]:
                longer = np.empty(max(2 * values.shape[0], n + nodes.weight[node]))
                longer[:n] = values[:n]
                values = longer
            n = gather(rows, nodes.slot[node], place(nodes, node, ask) == WHOLE, ask, values, n)
        arrange(values, offsets[i], n, spare)
        offsets[i + 1] = n
    return offsets, values[:n].copy()


# --------------------------------------------------------------------------------------------------- counts and bounds


@kernel
def tally(rows, cell, ask):
    """How many rows of the cell match?"""
    n = 0
    for r in range(rows.start[cell], rows.start[cell] + rows.size[cell]):
        n += matches(rows.points, r, ask)
    r = rows.head[cell]
    while r >= 0:
        n += matches(rows.points, r, ask)
        r = rows.after[r]
    return n


@kernel
def count(nodes, rows, root, centre, radius):
    """(q,) how many rows lie within the radii of each centre? A node that lies within them is not opened."""
    q, k = centre.shape
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    found = np.zeros(q, np.int64)
    for i in range(q):
        ask = aim(centre, i, radius, room)
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            verdict = place(nodes, node, ask)
            if verdict == WHOLE:
                found[i] += nodes.weight[node]
            elif verdict == PARTLY and nodes.level[node] == 0:
                found[i] += tally(rows, nodes.slot[node], ask)
            elif verdict == PARTLY:
                top = push_near(nodes, nodes.slot[node], ask, stack, top)
    return found


@kernel
def fold_rows(rows, cell, ask, low, high):
    """Widen [low, high] by the cell's rows that match."""
    for r in range(rows.start[cell], rows.start[cell] + rows.size[cell]):
        if matches(rows.points, r, ask):
            low, high = min(low, rows.then[r]), max(high, rows.then[r])
    r = rows.head[cell]
    while r >= 0:
        if matches(rows.points, r, ask):
            low, high = min(low, rows.then[r]), max(high, rows.then[r])
        r = rows.after[r]
    return low, high


@kernel
def bounds(nodes, rows, root, centre, radius):
    """(q,) least and greatest `then` within the radii of each centre; NaN where there is no row.

    A node that lies within them is not opened (all its rows match), nor is one that cannot widen the bounds.
    """
    q, k = centre.shape
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    lows, highs = np.full(q, np.nan), np.full(q, np.nan)
    for i in range(q):
        ask = aim(centre, i, radius, room)
        low, high = np.inf, -np.inf
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            if nodes.low[node] >= low and nodes.high[node] <= high:
                continue
            verdict = place(nodes, node, ask)
            if verdict == WHOLE:
                low, high = min(low, nodes.low[node]), max(high, nodes.high[node])
            elif verdict == PARTLY and nodes.level[node] == 0:
                low, high = fold_rows(rows, nodes.slot[node], ask, low, high)
            elif verdict == PARTLY:
                top = push_near(nodes, nodes.slot[node], ask, stack, top)
        if low <= high:
            lows[i], highs[i] = low, high
    return lows, highs
