"""Which bounds do the histograms of the index's nodes give?

A bucket is one interval of every determinant, crossed. Which intervals can hold a matching row is worked out once per
centre. A bucket whose intervals are all open widens the bounds by its range, whether or not one of its rows matches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import kernel
from lab.kernels.rtree import LEVELS, OUTSIDE, WHOLE, aim, place, push_near, room_for


class Buckets(NamedTuple):
    """A node's histogram: its non-empty buckets at : at + size, by rising code. A digit of a code is an interval."""

    at: Ints  # (nodes,)
    size: Ints  # (nodes,)
    code: Ints  # (buckets,)
    weight: Ints  # (buckets,) rows
    low: Floats  # (buckets,) least `then` of those
    high: Floats  # (buckets,) greatest
    edges: Floats  # (k, intervals - 1) between the intervals
    bits: int  # of one digit


@kernel
def reach(edges, centre, i, radius, open_):
    """Which intervals of each determinant can hold a matching row? The last digit stands for a missing value."""
    last = edges.shape[1] + 1
    for j in range(edges.shape[0]):
        x, eps = centre[i, j], radius[j]
        for b in range(last):
            left = edges[j, b - 1] if b > 0 else -np.inf
            right = edges[j, b] if b < last - 1 else np.inf
            open_[j, b] = not (left - x > eps or x - right > eps)  # true of a wildcard
        open_[j, last] = x != x


@kernel
def fold_buckets(buckets, node, open_, low, high):
    """Widen [low, high] by the node's buckets whose intervals are all open."""
    mask = (1 << buckets.bits) - 1
    for b in range(buckets.at[node], buckets.at[node] + buckets.size[node]):
        code, inside = buckets.code[b], True
        for j in range(open_.shape[0]):
            inside &= open_[j, (code >> (j * buckets.bits)) & mask]
        if inside:
            low, high = min(low, buckets.low[b]), max(high, buckets.high[b])
    return low, high


@kernel
def rough_bounds(nodes, root, buckets, target, centre, radius):
    """(q,) bounds of `then` within the radii of each centre, from the histograms of the nodes at level `target`.

    A node that lies inside is not opened (all its rows match), nor is one that cannot widen the bounds.
    """
    q, k = centre.shape
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    open_ = np.empty((k, buckets.edges.shape[1] + 2), np.bool_)
    lows, highs = np.full(q, np.nan), np.full(q, np.nan)
    for i in range(q):
        ask = aim(centre, i, radius, room)
        reach(buckets.edges, centre, i, radius, open_)
        low, high = np.inf, -np.inf
        stack[0], top = root, int(root >= 0)
        while top:
            top -= 1
            node = stack[top]
            verdict = place(nodes, node, ask)
            if verdict == OUTSIDE or (nodes.low[node] >= low and nodes.high[node] <= high):
                continue
            if verdict == WHOLE:
                low, high = min(low, nodes.low[node]), max(high, nodes.high[node])
            elif nodes.level[node] == target:
                low, high = fold_buckets(buckets, node, open_, low, high)
            else:
                top = push_near(nodes, nodes.slot[node], ask, stack, top)
        if low <= high:
            lows[i], highs[i] = low, high
    return lows, highs


@kernel
def gather_buckets(nodes, root, buckets, target, centre, radius):
    """The buckets of level `target` that may hold a match of the first centre: low, high, rows, and: are all matches?

    A bucket surely lies within the radii if in each determinant that is asked for its interval does, or its node's box.
    """
    k, last = centre.shape[1], buckets.edges.shape[1] + 1
    mask = (1 << buckets.bits) - 1
    room, stack = room_for(k), np.empty(LEVELS * nodes.children.shape[1], np.int64)
    open_ = np.empty((k, last + 1), np.bool_)
    ask = aim(centre, 0, radius, room)
    reach(buckets.edges, centre, 0, radius, open_)
    found, n = np.empty((4, 64)), 0
    stack[0], top = root, int(root >= 0)
    while top:
        top -= 1
        node = stack[top]
        if place(nodes, node, ask) == OUTSIDE:
            continue
        if nodes.level[node] > target:
            top = push_near(nodes, nodes.slot[node], ask, stack, top)
            continue
        for b in range(buckets.at[node], buckets.at[node] + buckets.size[node]):
            inside, sure = True, True
            for j in range(k):
                digit = (buckets.code[b] >> (j * buckets.bits)) & mask
                inside &= open_[j, digit]
                x, eps = centre[0, j], radius[j]
                if x == x:
                    left = buckets.edges[j, digit - 1] if 0 < digit < last else nodes.lo[node, j]
                    right = buckets.edges[j, digit] if digit < last - 1 else nodes.hi[node, j]
                    left, right = max(left, nodes.lo[node, j]), min(right, nodes.hi[node, j])
                    sure &= digit < last and left - x >= -eps and right - x <= eps
            if inside:
                if n == found.shape[1]:
                    more = np.empty((4, 2 * n))
                    more[:, :n] = found
                    found = more
                found[0, n], found[1, n], found[2, n] = buckets.low[b], buckets.high[b], buckets.weight[b]
                found[3, n] = 1.0 if sure else 0.0
                n += 1
    return found[0, :n], found[1, :n], found[2, :n], found[3, :n] > 0
