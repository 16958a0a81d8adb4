"""Which rivals do the same to a cloud?

In most cells a rival is a *step* to the cloud's values: it is surely at least as good up to one of them, and never
beyond. Rivals that differ in their steps only are of one kind; those that differ in nothing are counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner
from fogline.kernels.dominance import share, shares
from fogline.kernels.sums import SURE

CERTAIN, COUNTED, STEPPED, SMOOTH = range(4)  # how to go about a kind of rivals: see `way_of`
MANY = 4, 4096  # from so many rivals of a kind on, and up to so many, they are counted


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
def rivals_of(clouds, o, near, grid, cells, most):
    """Look up what each rival does to each value: how many differ, and what. Those that cannot beat any place are left
    out. -1: they are of more than `most` kinds."""
    n, room = near.shape[0], 0
    for j in cells:
        room += grid.size[j]
    found = Steps(
        np.empty((n, room)), np.empty((n, room)), np.ones(n), np.ones(n),
        np.empty((n, cells.shape[0]), np.int64), np.ones(n, np.int64), np.empty(n, np.int64), np.full(n, -1),
    )  # fmt: skip
    last = np.empty(n, np.int64)  # of a kind, by its first
    m = kinds = 0
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
            else:
                kinds += 1
                if kinds > most:
                    return -1, found
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
def way_of(found, r):
    """How to go about the kind r.

    CERTAIN: it beats all places up to its steps, and none beyond; COUNTED: many rivals, which are a step in an inner
    cell and never just as good; STEPPED: they are such a step; SMOOTH: they are not.
    """
    steps, many, s = 0, 0, r
    for k in range(1, found.step.shape[1]):
        steps += found.step[r, k] >= 0
    if steps == found.step.shape[1] - 1 and found.step[r, 0] >= 0 and found.a[r] >= SURE and found.b[r] == 0.0:
        return CERTAIN
    while s >= 0:
        many += found.times[s]
        s = found.next[s]
    if steps > 0 and found.b[r] == 0.0 and MANY[0] <= many <= MANY[1]:
        return COUNTED
    return STEPPED if steps > 0 else SMOOTH


@inner
def ways_of(found, m):
    """The kinds, each by its first rival, and how to go about them."""
    kinds, way, n = np.empty(m, np.int64), np.empty(m, np.int64), 0
    for r in range(m):
        if found.first[r] == r:
            kinds[n], way[n] = r, way_of(found, r)
            n += 1
    return kinds[:n], way[:n]
