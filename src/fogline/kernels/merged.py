"""What is the probability of a cloud with very many places, exactly?

Values of the cloud that all rivals treat alike are merged; then the places are summed one by one, carrying along only
the rivals that can still beat the place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner
from fogline.kernels.dominance import share, shares
from fogline.kernels.sorting import argsort, ascending
from fogline.kernels.sums import SCALE, SURE, logarithm


class Walk(NamedTuple):
    """Where a walk over merged places stands; at depth k the first k distributed cells have their values."""

    at_least: Floats  # (rivals, values) what a rival does to a value, looked up once
    equal: Floats
    who: Ints  # (depth, rivals) which rivals can still beat the place, …
    a: Floats  # (depth, rivals) … with the two products so far
    b: Floats
    many: Ints  # (depth,) how many those are
    cells: Ints  # the distributed cells


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


@inner
def begin_walk(clouds, o, near, grid):
    """Look up what each rival does to each value; known cells count at once."""
    d, n = clouds.lo.shape[1], near.shape[0]
    room = fog = 0
    cells = np.empty(d, np.int64)
    for j in range(d):
        if grid.start[j] >= 0:
            room += grid.size[j]
            cells[fog] = j
            fog += 1
    at_least, equal = np.empty((n, room)), np.empty((n, room))
    who, a, b = np.empty((fog + 1, n), np.int64), np.ones((fog + 1, n)), np.ones((fog + 1, n))
    many = np.zeros(fog + 1, np.int64)
    many[0] = n
    for r in range(n):
        for j in range(d):
            first = grid.start[j]
            if first >= 0:
                shares(clouds, near[r], j, grid, at_least[r, first:], equal[r, first:])
            else:
                s, e = share(clouds, near[r], j, clouds.lo[o, j])
                a[0, r] *= s
                b[0, r] *= e
        who[0, r] = r
    return Walk(at_least, equal, who, a, b, many, cells[:fog])


@inner
def go_down(walk, depth, at):
    """Give the cell at this depth the value `at`: the rivals that can still beat the place go along. How many?"""
    m = 0
    for k in range(walk.many[depth]):
        r = walk.who[depth, k]
        if walk.at_least[r, at] > 0.0:
            walk.who[depth + 1, m] = r
            walk.a[depth + 1, m] = walk.a[depth, k] * walk.at_least[r, at]
            walk.b[depth + 1, m] = walk.b[depth, k] * walk.equal[r, at]
            m += 1
    walk.many[depth + 1] = m
    return m


@inner
def unbeaten_by(walk, depth):
    """The product of 1 - (a - b) over the rivals left, by sums of logarithms."""
    logs = np.int64(0)
    for k in range(walk.many[depth]):
        p = walk.a[depth, k] - walk.b[depth, k]
        if p >= SURE:
            return 0.0
        if p > 0.0:
            logs += logarithm(p)
    return np.exp(logs / SCALE)


@inner
def all_places(clouds, o, near, grid):
    """P(o) over its merged places, cell by cell. A branch without rivals is worth its whole weight."""
    walk = begin_walk(clouds, o, near, grid)
    fog = walk.cells.shape[0]
    if fog == 0:
        return unbeaten_by(walk, 0)
    index = np.zeros(fog, np.int64)
    w = np.ones(fog + 1)
    out = 0.0
    depth = 0
    while depth >= 0:
        j = walk.cells[depth]
        if index[depth] == grid.size[j]:
            index[depth] = 0
            depth -= 1
            continue
        at = grid.start[j] + index[depth]
        index[depth] += 1
        w[depth + 1] = w[depth] * grid.weight[at]
        if go_down(walk, depth, at) == 0:
            out += w[depth + 1]
        elif depth + 1 < fog:
            depth += 1
        else:
            out += w[depth + 1] * unbeaten_by(walk, depth + 1)
    return min(out, 1.0)
