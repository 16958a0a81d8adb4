"""How many places of a cloud does any rival distinguish?

Values of the cloud that all rivals treat alike are merged; what is left is summed (`sweep`), or bracketed.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner
from fogline.kernels.sorting import argsort, ascending


@inner
def breaks_of(clouds, near, j):
    """All values of the rivals in attribute j, sorted. Lists that many of them share are looked at once."""
    start = np.empty(near.shape[0], np.int64)
    for k in range(near.shape[0]):
        start[k] = clouds.start[near[k], j]
    order = argsort(start)
    different = np.empty(near.shape[0], np.int64)
    m = count = 0
    for k in order:
        if start[k] < 0 or m == 0 or clouds.start[different[m - 1], j] != start[k]:
            different[m] = near[k]
            count += clouds.size[near[k], j]
            m += 1
    breaks = np.empty(count)
    count = 0
    for g in different[:m]:
        if clouds.start[g, j] < 0:
            breaks[count] = clouds.lo[g, j]
            count += 1
        else:
            for k in range(clouds.start[g, j], clouds.start[g, j] + clouds.size[g, j]):
                breaks[count] = clouds.value[k]
                count += 1
    return ascending(breaks)


@inner
def gap_of(breaks, x):
    """How many breaks are below x?"""
    low, high = 0, breaks.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if breaks[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def merge_places(clouds, o, near, grid):
    """o's values, merged where all rivals treat them alike, into `grid`. Returns the number of places left.

    Strictly between two neighbouring values of the rivals the summand is constant, so a run of o's values there is
    represented by any of them. Returned as float: the product may not fit an integer.
    """
    cursor = 0
    places = 1.0
    for j in range(clouds.lo.shape[1]):
        grid.start[j], grid.size[j] = -1, 1
        first, n = clouds.start[o, j], clouds.size[o, j]
        if first < 0:
            continue
        breaks = breaks_of(clouds, near, j)
        grid.start[j] = cursor
        gap_before, on_before = -1, False
        for k in range(first, first + n):
            gap = gap_of(breaks, clouds.value[k])
            on = gap < breaks.shape[0] and breaks[gap] == clouds.value[k]
            if k > first and gap == gap_before and not on and not on_before:
                grid.weight[cursor - 1] += clouds.weight[k]
            else:
                grid.value[cursor], grid.weight[cursor] = clouds.value[k], clouds.weight[k]
                cursor += 1
            gap_before, on_before = gap, on
        grid.size[j] = cursor - grid.start[j]
        places *= grid.size[j]
    return places
