"""The instances of an uncertain row, and how likely another row dominates each of them.

An instance is one value of each cell. Instances are numbered like an odometer, the last distributed cell fastest. The
values are those of a `Grid`: the row's own, or fewer that stand for them:
- *merged*: values between which no dominator distinguishes are one. Exact;
- *coarse*: each run of values is its best one. P can only grow: an upper bound.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Grid, Scratch
from fogline.kernels.compile import inner
from fogline.kernels.dominance import barely_dominates, share, shares
from fogline.kernels.sorting import argsort, ascending

ROOM = 4096  # instances of the finest grid that `coarsen` may be asked for


@inner
def scratch_for(n):
    """Room for a walk over n instances."""
    return Scratch(np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n))


@inner
def scratch_of(room):
    """The same, in a room (8, n) that is kept between calls; its last two rows are for a coarse grid."""
    return Scratch(room[0], room[1], room[2], room[3], room[4], room[5])


@inner
def grid_of(room, d):
    """A grid that is not yet filled, in the last rows of such a room."""
    return Grid(room[6], room[7], np.empty(d, np.int64), np.empty(d, np.int64))


@inner
def instances_of(uncertain, o):
    """How many instances a row has (as a float: they may be very many)."""
    instances = 1.0
    for j in range(uncertain.lo.shape[1]):
        instances *= uncertain.size[o, j]
    return instances


@inner
def values_of(uncertain, o):
    """How many values its cells have together: what a grid of it has room for."""
    total = 0
    for j in range(uncertain.lo.shape[1]):
        total += uncertain.size[o, j]
    return total


@inner
def own_grid(uncertain, o):
    """All values of a row."""
    return Grid(uncertain.value, uncertain.weight, uncertain.start[o], uncertain.size[o])


@inner
def empty_grid(values, d):
    """Room for so many values."""
    return Grid(np.empty(values), np.empty(values), np.empty(d, np.int64), np.empty(d, np.int64))


@inner
def dominates_instances(uncertain, g, o, grid, scratch):
    """Pr{g dominates x} for every instance x of o, into scratch.chance; False if it is zero everywhere."""
    instances = reaches_instances(uncertain, g, o, grid, -1, scratch)
    cancels = False  # would a difference lose most digits somewhere? (A loop of its own is compiled to vectors.)
    for k in range(instances):
        cancels |= 2.0 * scratch.tie[k] > scratch.chance[k]
    for k in range(instances):
        if cancels and 2.0 * scratch.tie[k] > scratch.chance[k]:
            scratch.chance[k] = barely_dominates(uncertain, g, instance_at(uncertain, o, grid, k), 0)
        else:
            scratch.chance[k] -= scratch.tie[k]
    return instances > 0


@inner
def instance_at(uncertain, o, grid, k):
    """(1, d) the k-th instance of o."""
    d = uncertain.lo.shape[1]
    out = np.empty((1, d))
    for j in range(d - 1, -1, -1):
        out[0, j] = uncertain.lo[o, j]
        if grid.start[j] >= 0:
            out[0, j] = grid.value[grid.start[j] + k % grid.size[j]]
            k //= grid.size[j]
    return out


@inner
def reaches_instances(uncertain, g, o, grid, but, scratch):
    """Pr{g is nowhere worse than x}, and Pr{just as good}, for every instance x of o, into scratch.chance and .tie.

    Attribute `but` is left out (-1: none). Returns the number of instances; 0: g is worse than all of them.
    """
    at_least = equal = 1.0
    for j in range(uncertain.lo.shape[1]):
        if grid.start[j] < 0 and j != but:
            a, b = share(uncertain, g, j, uncertain.lo[o, j])
            at_least *= a
            equal *= b
            if at_least == 0.0:
                return 0
    p, q = scratch.chance, scratch.tie
    p[0], q[0] = at_least, equal
    instances = 1
    for j in range(uncertain.lo.shape[1]):
        if grid.start[j] >= 0:
            n = grid.size[j]
            if j == but:
                for m in range(n):
                    scratch.at_least[m] = scratch.equal[m] = 1.0
            else:
                shares(uncertain, g, j, grid, scratch.at_least, scratch.equal)
            for k in range(instances - 1, -1, -1):
                a, b = p[k], q[k]
                for m in range(n - 1, -1, -1):
                    p[k * n + m] = a * scratch.at_least[m]
                    q[k * n + m] = b * scratch.equal[m]
            instances *= n
    return instances


@inner
def instance_weights(grid, w):
    """The weight of every instance, into w; returns how many there are."""
    w[0] = 1.0
    instances = 1
    for j in range(grid.start.shape[0]):
        if grid.start[j] >= 0:
            n = grid.size[j]
            for k in range(instances - 1, -1, -1):
                a = w[k]
                for m in range(n - 1, -1, -1):
                    w[k * n + m] = a * grid.weight[grid.start[j] + m]
            instances *= n
    return instances


@inner
def distributed(uncertain, o):
    """How many cells of a row have more than one value?"""
    count = 0
    for j in range(uncertain.lo.shape[1]):
        count += uncertain.start[o, j] >= 0 and uncertain.size[o, j] > 1
    return count


@inner
def parts_for(cells):
    """Into how many parts each distributed cell may be cut for at most ROOM instances together."""
    if cells == 0:
        return 1
    parts = 1
    while parts < ROOM // 2 and (parts + 2) ** cells <= ROOM:
        parts += 1
    return parts


@inner
def coarsen(uncertain, o, parts, grid):
    """At most `parts` + 1 values per cell, into `grid`, each the best of a run of o's values."""
    cursor = 0
    for j in range(uncertain.lo.shape[1]):
        grid.start[j], grid.size[j] = -1, 1
        first, n = uncertain.start[o, j], uncertain.size[o, j]
        if first < 0:
            continue
        grid.start[j] = cursor
        filled = 0.0
        open_run = False
        for k in range(first, first + n):
            if not open_run:
                grid.weight[cursor] = 0.0
                open_run = True
            grid.value[cursor] = uncertain.value[k]
            grid.weight[cursor] += uncertain.weight[k]
            filled += uncertain.weight[k]
            if filled * parts >= (cursor - grid.start[j] + 1) - 1e-12 or k == first + n - 1:
                cursor += 1
                open_run = False
        grid.size[j] = cursor - grid.start[j]


@inner
def breaks_of(uncertain, near, j):
    """All values of the rows `near` in attribute j, sorted. Lists that many of them share are taken once."""
    start = np.empty(near.shape[0], np.int64)
    for k in range(near.shape[0]):
        start[k] = uncertain.start[near[k], j]
    order = argsort(start)
    different = np.empty(near.shape[0], np.int64)
    m = count = 0
    for k in order:
        if start[k] < 0 or m == 0 or uncertain.start[different[m - 1], j] != start[k]:
            different[m] = near[k]
            count += uncertain.size[near[k], j]
            m += 1
    breaks = np.empty(count)
    count = 0
    for g in different[:m]:
        if uncertain.start[g, j] < 0:
            breaks[count] = uncertain.lo[g, j]
            count += 1
        else:
            for k in range(uncertain.start[g, j], uncertain.start[g, j] + uncertain.size[g, j]):
                breaks[count] = uncertain.value[k]
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
def merge_instances(uncertain, o, near, grid):
    """o's values, merged where all dominators treat them alike, into `grid`. Returns the number of instances left.

    Strictly between two neighbouring values of the dominators the summand is constant, so any one of o's values there
    stands for all of them. Returned as float: the product may not fit an integer.
    """
    cursor = 0
    instances = 1.0
    for j in range(uncertain.lo.shape[1]):
        grid.start[j], grid.size[j] = -1, 1
        first, n = uncertain.start[o, j], uncertain.size[o, j]
        if first < 0:
            continue
        breaks = breaks_of(uncertain, near, j)
        grid.start[j] = cursor
        gap_before, on_before = -1, False
        for k in range(first, first + n):
            gap = gap_of(breaks, uncertain.value[k])
            on = gap < breaks.shape[0] and breaks[gap] == uncertain.value[k]
            if k > first and gap == gap_before and not on and not on_before:
                grid.weight[cursor - 1] += uncertain.weight[k]
            else:
                grid.value[cursor], grid.weight[cursor] = uncertain.value[k], uncertain.weight[k]
                cursor += 1
            gap_before, on_before = gap, on
        grid.size[j] = cursor - grid.start[j]
        instances *= grid.size[j]
    return instances
