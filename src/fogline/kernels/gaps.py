"""Which gaps of a sensor's earlier rows does a new reading speak of?

The open gaps of all sensors lie in one pool of slots; those of a sensor are linked, the latest row first, so that
sensors without gaps cost nothing. Slots that are free are linked too.

Invariant: the gaps of a sensor are of falling times, each has a cell that is open, and there are size[sensor] of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.compile import kernel

NONE = -1  # no slot, or no row of this call
FREE, LEFT, LOST = range(3)  # of `account`: the first free slot, how many there are, gaps that found no place


class Pool(NamedTuple):
    """The open gaps of sensors; of no sensor at all where gaps are not watched."""

    head: Ints  # (s,) the slot of a sensor's latest gap, or NONE
    size: Ints  # (s,) how many it has
    heard: Floats  # (s,) the time of its newest reading
    link: Ints  # (p,) the next slot of the same sensor, or the next free one
    time: Floats  # (p,) when the row with the gap arrived
    expires: Floats  # (p,)
    cells: Flags  # (p, d) which of its cells are open
    row: Ints  # (p,) its number within the call that is being taken, or NONE
    account: Ints  # (3,) see FREE, LEFT, LOST
    most: int  # gaps of one sensor


class Openings(NamedTuple):
    """Of rows in the order of their times: which cells stay open, and until when."""

    open: Flags  # (n, d), or (0, d): none
    expires: Floats  # (n,)


class SensorsLeaving(NamedTuple):
    """Sensors that leave while rows are taken: there are too many."""

    at: Ints  # (m,) before which row, ascending; the number of rows: after the last
    sensor: Ints  # (m,)


class Events(NamedTuple):
    """Gaps that readings revise; the first used[0] lines count."""

    reading: Ints  # (m,) the reading's number within the call
    target: Floats  # (m,) when the row with the gap arrived
    row: Ints  # (m,) its number within the call, or NONE
    cells: Flags  # (m, d)
    used: Ints  # (1,)


@kernel
def nothing_found(room, d):
    """Room for so many lines."""
    return Events(
        np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64), np.zeros((room, d), np.bool_),
        np.zeros(1, np.int64),
    )  # fmt: skip


@kernel
def with_room(found):
    """The same, with room for one line more."""
    n = found.used[0]
    if n < found.reading.shape[0]:
        return found
    more = nothing_found(2 * n + 16, found.cells.shape[1])
    more.reading[:n], more.target[:n], more.row[:n] = found.reading[:n], found.target[:n], found.row[:n]
    more.cells[:n] = found.cells[:n]
    more.used[0] = n
    return more


@kernel
def unlink(pool, s, before, g):
    """Take gap g, which follows `before` (or NONE), from its sensor's; its slot is free. Returns the next one."""
    following = pool.link[g]
    if before < 0:
        pool.head[s] = following
    else:
        pool.link[before] = following
    pool.size[s] -= 1
    pool.link[g], pool.row[g] = pool.account[FREE], NONE
    pool.account[FREE] = g
    pool.account[LEFT] += 1
    return following


@kernel
def revise(pool, s, i, now, values, found):
    """The open gaps that reading i, newer than all of its sensor so far, revises: to found, by rising times."""
    begun = found.used[0]
    before, g = NONE, pool.head[s]
    while g >= 0:
        has, still = False, False
        if pool.time[g] < now < pool.expires[g]:  # others stay for now: this reading's clock may be wrong
            for j in range(values.shape[0]):
                if pool.cells[g, j]:
                    has = has or not np.isnan(values[j])
                    still = still or np.isnan(values[j])
        if has:
            found = with_room(found)
            at = found.used[0]
            found.reading[at], found.target[at], found.row[at] = i, pool.time[g], pool.row[g]
            for j in range(values.shape[0]):
                found.cells[at, j] = pool.cells[g, j] and not np.isnan(values[j])
                pool.cells[g, j] = pool.cells[g, j] and np.isnan(values[j])
            found.used[0] += 1
        if has and not still:
            g = unlink(pool, s, before, g)
        else:
            before, g = g, pool.link[g]
    turn(found, begun)
    return found


@kernel
def turn(found, begun):
    """The lines from `begun` on in the opposite order."""
    a, b = begun, found.used[0] - 1
    while a < b:
        found.reading[a], found.reading[b] = found.reading[b], found.reading[a]
        found.target[a], found.target[b] = found.target[b], found.target[a]
        found.row[a], found.row[b] = found.row[b], found.row[a]
        for j in range(found.cells.shape[1]):
            found.cells[a, j], found.cells[b, j] = found.cells[b, j], found.cells[a, j]
        a, b = a + 1, b - 1


@kernel
def place(pool, s, now, expires, cells):
    """Keep a gap of a sensor. Where it has too many, its oldest goes. Returns the slot, or NONE: there is no room."""
    if pool.account[LEFT] == 0:
        pool.account[LOST] += 1
        return NONE
    new = pool.account[FREE]
    pool.account[FREE] = pool.link[new]
    pool.account[LEFT] -= 1
    pool.time[new], pool.expires[new], pool.row[new] = now, expires, NONE
    for j in range(cells.shape[0]):
        pool.cells[new, j] = cells[j]
    before, g = NONE, pool.head[s]
    while g >= 0 and pool.time[g] > now:
        before, g = g, pool.link[g]
    pool.link[new] = g
    if before < 0:
        pool.head[s] = new
    else:
        pool.link[before] = new
    pool.size[s] += 1
    if pool.size[s] > pool.most:
        before, g = NONE, pool.head[s]
        while pool.link[g] >= 0:
            before, g = g, pool.link[g]
        unlink(pool, s, before, g)
        pool.account[LOST] += 1
        if g == new:
            return NONE
    return new


@kernel
def release(pool, s, now):
    """A sensor leaves: no reading will revise its gaps. Those of rows that live on are counted."""
    g = pool.head[s]
    while g >= 0:
        pool.account[LOST] += pool.expires[g] > now
        g = unlink(pool, s, NONE, g)
    pool.heard[s] = -np.inf


@kernel
def shut(pool, sensor, arrived, cells):
    """These cells (n, d) of rows that sensors (n,), or NONE, had at these times are open no longer."""
    for i in range(sensor.shape[0]):
        s = sensor[i]
        before, g = NONE, pool.head[s] if s >= 0 else NONE
        while g >= 0 and pool.time[g] > arrived[i]:
            before, g = g, pool.link[g]
        while g >= 0 and pool.time[g] == arrived[i]:
            still = False
            for j in range(cells.shape[1]):
                pool.cells[g, j] = pool.cells[g, j] and not cells[i, j]
                still = still or pool.cells[g, j]
            if still:
                before, g = g, pool.link[g]
            else:
                g = unlink(pool, s, before, g)


@kernel
def slots_of(head, link, size):
    """The slots of sensors' gaps, one sensor after the other."""
    out = np.empty(size.sum(), np.int64)
    at = 0
    for s in range(head.shape[0]):
        g = head[s]
        while g >= 0:
            out[at] = g
            at += 1
            g = link[g]
    return out
