"""Which boxes, or clouds, are the same? What holds for one of them need not be found again for the others.

They are sorted by a number made of all their bits, then compared with their neighbours: two that are the same may be
missed (where such numbers collide), never are two taken for the same that are not.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner
from fogline.kernels.sorting import argsort

MIX = np.uint64(0x9E3779B97F4A7C15)


@inner
def mixed(mark, bits):
    """A number made of another and some bits."""
    mark = (mark ^ bits) * MIX
    return mark ^ (mark >> np.uint64(29))


@inner
def in_order(lo, hi, which):
    """Where in `which` boxes stand, such that those that are the same stand side by side."""
    low, high = lo.view(np.uint64), hi.view(np.uint64)
    marks = np.zeros(which.shape[0])
    for k in range(which.shape[0]):
        mark = np.uint64(0)
        for j in range(lo.shape[1]):
            mark = mixed(mixed(mark, low[which[k], j]), high[which[k], j])
        marks[k] = np.float64(mark >> np.uint64(11))
    return argsort(marks)


@inner
def same_box(lo, hi, a, b):
    """Have boxes a and b the same corners?"""
    for j in range(lo.shape[1]):
        if lo[a, j] != lo[b, j] or hi[a, j] != hi[b, j]:
            return False
    return True


@inner
def same_cloud(clouds, a, b):
    """Have clouds a and b the same cells?"""
    if not same_box(clouds.lo, clouds.hi, a, b):
        return False
    for j in range(clouds.lo.shape[1]):
        one, two, size = clouds.start[a, j], clouds.start[b, j], clouds.size[a, j]
        if one == two:
            continue
        if one < 0 or two < 0 or size != clouds.size[b, j]:
            return False
        for k in range(size):
            if clouds.value[one + k] != clouds.value[two + k] or clouds.weight[one + k] != clouds.weight[two + k]:
                return False
    return True


@inner
def longest(boxes, which):
    """For each of the boxes `which`, the one of the same corners that expires last: only that one need be compared."""
    order, best = in_order(boxes.lo, boxes.hi, which), which.copy()
    begin = 0
    for end in range(1, which.shape[0] + 1):
        first = which[order[begin]]
        if end < which.shape[0] and same_box(boxes.lo, boxes.hi, first, which[order[end]]):
            continue
        for k in range(begin, end):
            if boxes.expires[which[order[k]]] > boxes.expires[first]:
                first = which[order[k]]
        for k in range(begin, end):
            best[order[k]] = first
        begin = end
    return best


@inner
def distinct_of(which, best):
    """Those of `which` that are the best of their kind."""
    out, m = np.empty(which.shape[0], np.int64), 0
    for k in range(which.shape[0]):
        if which[k] == best[k]:
            out[m] = which[k]
            m += 1
    return out[:m]


@inner
def side_by_side(clouds, which, wanted):
    """The clouds `which`, those that are the same side by side; and for each whether it is the same as the one before.

    Not `wanted`: as they are, and none counts as the same.
    """
    again = np.zeros(which.shape[0], np.bool_)
    if not wanted:
        return which, again
    order, out = in_order(clouds.lo, clouds.hi, which), np.empty(which.shape[0], np.int64)
    for k in range(which.shape[0]):
        out[k] = which[order[k]]
        again[k] = k > 0 and same_cloud(clouds, out[k - 1], out[k])
    return out, again
