"""How do many places of a cloud fare against many rivals, without looking at every pair?

In most cells a rival is a *step* to the cloud's values: it is surely at least as good up to one of them, and never
beyond. Then what it does is the same for all places up to that step, so its logarithm is worked out once, noted at the
step, and spread by sums that run from the best value down. Rivals that differ in their steps only are worked out once.

The first distributed cell is swept from its best value down. Per value, the sums over all other (inner) cells lie in
one array for each set of inner cells in which a rival is a step (`mask`), to be spread along these. All are sums of
integers: the same bits in any order of the rivals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Grid, Ints
from fogline.kernels.compile import inner
from fogline.kernels.dominance import share, shares
from fogline.kernels.places import place_weights
from fogline.kernels.sums import SCALE, SURE, logarithm

BEATEN = -32.0 * SCALE  # the logarithm of what counts as zero, for a rival that is sure to beat a place
LEAST = -(2**60)  # no sum goes below: thousands of such rivals, and two of it do not overflow


class Steps(NamedTuple):
    """What each of m rivals does to the values of c distributed cells."""

    at_least: Floats  # (m, values of all cells)
    equal: Floats
    a: Floats  # (m,) Pr{at least as good in all cells that are known}, …
    b: Floats  # (m,) … and just as good, there and at its steps; 0 where it cannot be just as good in all
    step: Ints  # (m, c) the last value that it is surely at least as good as, if it is never so beyond; -1: no step
    times: Ints  # (m,) how many rivals are the same
    first: Ints  # (m,) the first of its kind: rivals that differ in their steps only
    next: Ints  # (m,) the next of its kind; -1: there is none


class Inner(NamedTuple):
    """The places over all distributed cells but the first."""

    cells: Grid
    stride: Ints  # (c - 1,)
    sums: Ints  # (masks, places) what is at work
    stand: Ints  # (masks, places) of rivals that are a step in the first cell, from there down
    used: Ints  # (masks,) how many rivals have it


class Effect(NamedTuple):
    """What a rival does to the inner places it can beat, its steps left out."""

    place: Ints
    a: Floats
    b: Floats
    log: Ints  # to be spread from its steps down
    tie: Ints  # to be added at its steps themselves, where it may be just as good


@inner
def times(n, log):
    """n times a logarithm, as far as sums go."""
    product = np.float64(n) * np.float64(log)
    return np.int64(LEAST) if product < LEAST else np.int64(-LEAST) if product > -LEAST else n * log


@inner
def plus(a, b):
    """a + b, as far as sums go."""
    return max(a + b, np.int64(LEAST))


@inner
def log_of(p):
    """The logarithm of 1 - p in fixed point."""
    return np.int64(BEATEN) if p >= SURE else logarithm(p) if p > 0.0 else np.int64(0)


@inner
def step_of(at_least):
    """See `Steps.step`; -2: it is never as good."""
    n = 0
    while n < at_least.shape[0] and at_least[n] == 1.0:
        n += 1
    if n < at_least.shape[0] and at_least[n] > 0.0:
        return -1
    return n - 1 if n > 0 else -2


@inner
def rivals_of(clouds, o, near, grid, cells):
    """Look up what each rival does to each value: how many differ, and what. Those that cannot beat any place are left
    out."""
    n, room = near.shape[0], 0
    for j in cells:
        room += grid.size[j]
    found = Steps(
        np.empty((n, room)), np.empty((n, room)), np.ones(n), np.ones(n),
        np.empty((n, cells.shape[0]), np.int64), np.ones(n, np.int64), np.empty(n, np.int64), np.full(n, -1),
    )  # fmt: skip
    last = np.empty(n, np.int64)  # of a kind, by its first
    m = 0
    for g in near:
        found.a[m] = found.b[m] = 1.0
        for j in range(clouds.lo.shape[1]):
            if grid.start[j] < 0:
                s, e = share(clouds, g, j, clouds.lo[o, j])
                found.a[m] *= s
                found.b[m] *= e
        beats = found.a[m] > 0.0
        for k in range(cells.shape[0]):
            first, size = grid.start[cells[k]], grid.size[cells[k]]
            at_least, equal = found.at_least[m, first : first + size], found.equal[m, first : first + size]
            shares(clouds, g, cells[k], grid, at_least, equal)
            step = step_of(at_least)
            found.step[m, k] = step
            beats &= step > -2
            if step >= 0:
                found.b[m] *= equal[step]
            else:
                ties = 0.0
                for v in range(size):
                    ties = max(ties, equal[v])
                found.b[m] *= ties > 0.0
        if beats and not is_there(found, m, grid, cells):
            first = found.first[m]
            if first != m:
                found.next[last[first]] = m
            last[first] = m
            m += 1
    return m, found


@inner
def is_there(found, m, grid, cells):
    """Is one of the rivals before m the same? Then it is counted; else m learns the first of its kind."""
    found.first[m] = m
    for r in range(m):
        if (
            found.first[r] == r
            and found.a[r] == found.a[m]
            and found.b[r] == found.b[m]
            and alike(found, r, m, grid, cells)
        ):
            found.first[m] = r
            break
    s = found.first[m] if found.first[m] < m else -1
    while s >= 0:
        if (found.step[s] == found.step[m]).all():
            found.times[s] += 1
            return True
        s = found.next[s]
    return False


@inner
def alike(found, r, m, grid, cells):
    """Are two rivals steps in the same cells, and the same in all others?"""
    for k in range(cells.shape[0]):
        if (found.step[r, k] >= 0) != (found.step[m, k] >= 0):
            return False
        if found.step[r, k] < 0:
            for v in range(grid.start[cells[k]], grid.start[cells[k]] + grid.size[cells[k]]):
                if found.at_least[r, v] != found.at_least[m, v] or found.equal[r, v] != found.equal[m, v]:
                    return False
    return True


@inner
def inner_of(grid, cells):
    """Room for the inner places."""
    c = cells.shape[0] - 1
    stride, places = np.empty(c, np.int64), 1
    for k in range(c - 1, -1, -1):
        stride[k] = places
        places *= grid.size[cells[k + 1]]
    within = Grid(grid.value, grid.weight, np.full(c, -1), np.ones(c, np.int64))
    for k in range(c):
        within.start[k], within.size[k] = grid.start[cells[k + 1]], grid.size[cells[k + 1]]
    room = (1 << c, places)
    return Inner(within, stride, np.empty(room, np.int64), np.zeros(room, np.int64), np.zeros(1 << c, np.int64))


@inner
def work_out(found, r, at, within, space):
    """What rival r does to the inner places, at the value `at` of the first cell (-1: it is a step there). How many?"""
    n = 1
    space.place[0], space.a[0], space.b[0] = 0, found.a[r], found.b[r]
    if at >= 0:
        space.a[0] *= found.at_least[r, at]
        space.b[0] *= found.equal[r, at]
    for k in range(within.stride.shape[0]):
        if found.step[r, k + 1] >= 0:
            continue
        first, size = within.cells.start[k], within.cells.size[k]
        while found.at_least[r, first + size - 1] == 0.0:
            size -= 1
        for p in range(n - 1, -1, -1):
            place, a, b = space.place[p], space.a[p], space.b[p]
            for v in range(size - 1, -1, -1):
                space.place[p * size + v] = place + v * within.stride[k]
                space.a[p * size + v] = a * found.at_least[r, first + v]
                space.b[p * size + v] = b * found.equal[r, first + v]
        n *= size
    for p in range(n):
        space.log[p] = log_of(space.a[p])
        space.tie[p] = log_of(space.a[p] - space.b[p]) - space.log[p] if space.b[p] > 0.0 else 0
    return n


@inner
def note(found, r, n, within, space, sums, at_step):
    """Note what was worked out of rival r, at its own steps; `at_step`: the value of the first cell is its step too."""
    mask, shift = 0, 0
    for k in range(within.stride.shape[0]):
        if found.step[r, k + 1] >= 0:
            mask |= 1 << k
            shift += found.step[r, k + 1] * within.stride[k]
    within.used[mask] += 1
    for p in range(n):
        at = space.place[p] + shift
        sums[mask, at] = plus(sums[mask, at], times(found.times[r], space.log[p]))
    if found.b[r] > 0.0 and at_step:
        for p in range(n):
            within.sums[0, space.place[p] + shift] += times(found.times[r], space.tie[p])


@inner
def spread(within):
    """Let what stands at steps count for all places below; all of it ends in the array of no steps."""
    places = within.sums.shape[1]
    for mask in range(within.sums.shape[0] - 1, 0, -1):
        if within.used[mask] == 0:
            continue
        k = 0
        while not (mask >> k) & 1:
            k += 1
        stride, size, rest = within.stride[k], within.cells.size[k], mask & (mask - 1)
        block = stride * size
        source, target = within.sums[mask], within.sums[rest]
        within.used[rest] += 1
        for begin in range(0, places, block):
            for at in range(begin + block - stride - 1, begin - 1, -1):
                source[at] = plus(source[at], source[at + stride])
        for at in range(places):
            target[at] = plus(target[at], source[at])


@inner
def all_places(clouds, o, near, grid):
    """P(o) over the places of a grid, exactly. O(places · 2^cells), and for each kind of rival a logarithm per place at
    which it is no step."""
    d = clouds.lo.shape[1]
    cells, c = np.empty(d, np.int64), 0
    for j in range(d):
        if grid.start[j] >= 0:
            cells[c] = j
            c += 1
    cells = cells[:c]
    m, found = rivals_of(clouds, o, near, grid, cells)
    if c == 0:
        logs = np.int64(0)
        for r in range(m):
            logs = plus(logs, times(found.times[r], log_of(found.a[r] - found.b[r])))
        return np.exp(logs / SCALE) if logs > BEATEN else 0.0
    within = inner_of(grid, cells)
    places = within.sums.shape[1]
    weight = np.empty(places)
    place_weights(within.cells, weight)
    space = Effect(
        np.empty(places, np.int64), np.empty(places), np.empty(places),
        np.empty(places, np.int64), np.empty(places, np.int64),
    )  # fmt: skip
    first, out = grid.start[cells[0]], 0.0
    for v in range(grid.size[cells[0]] - 1, -1, -1):
        within.sums[:] = within.stand
        for r in range(m):
            if found.first[r] != r:
                continue
            is_step, n, s = found.step[r, 0] >= 0, 0, r
            if not is_step and found.at_least[r, first + v] == 0.0:
                continue
            while s >= 0:
                if not is_step or found.step[s, 0] == v:
                    if n == 0:
                        n = work_out(found, r, -1 if is_step else first + v, within, space)
                    note(found, s, n, within, space, within.sums, True)
                    if is_step:
                        note(found, s, n, within, space, within.stand, False)
                s = found.next[s]
        spread(within)
        sums, total = within.sums[0], 0.0
        for p in range(places):
            if sums[p] > BEATEN:
                total += weight[p] * np.exp(sums[p] / SCALE)
        out += grid.weight[first + v] * total
    return min(out, 1.0)
