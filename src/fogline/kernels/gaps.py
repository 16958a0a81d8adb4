"""Which readings fall into outages that are made up?

Sensor by sensor, an outage follows another after a stretch about as long as itself, at least a few readings. Numbers
come from dice, so that the same history always has the same outages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.compile import kernel
from fogline.kernels.forest import uniform

PAUSE = 8  # readings between two outages, at least
ALONE, SOME = 0.5, 0.7  # below: of one attribute; of some; else of all, the sensor is silent
ASKED = 8  # readings of each outage that are learnt from


@kernel
def silence(begins, time, lengths, d, seed):
    """(n, d) what is hidden, (n,) 1 for readings to learn from, 2 if as the first after a silence; 0 for others.

    Readings of sensor s are begins[s] … begins[s + 1] - 1, in the order of time (n,). An outage is as long as one of
    `lengths`. Of each one a few readings are learnt from, half of them near its ends.
    """
    dice = np.array([seed], np.uint64)
    n = time.shape[0]
    hidden, asked = np.zeros((n, d), np.bool_), np.zeros(n, np.int64)
    for s in range(begins.shape[0] - 1):
        at, end = begins[s], begins[s + 1]
        at += int(uniform(dice) * PAUSE)
        while at < end:
            length = lengths[int(uniform(dice) * lengths.shape[0])] * (0.5 + uniform(dice))
            last = at
            while last < end and time[last] < time[at] + length:
                last += 1
            kind, one = uniform(dice), int(uniform(dice) * d)
            for j in range(d):
                gone = kind >= SOME or j == one or (kind >= ALONE and uniform(dice) < 0.5)
                if gone:
                    hidden[at:last, j] = True
            for k in range(ASKED):
                far = int(np.exp(uniform(dice) * np.log(last - at + 0.0)))  # 1 … readings of the outage
                i = at + int(uniform(dice) * (last - at))
                if k % 2 == 0:
                    i = at + far - 1 if k % 4 == 0 else last - far
                if at <= i < last:
                    asked[i] = 2 if kind >= SOME and uniform(dice) < 0.5 else 1
            pause, since = 0, time[min(last, end - 1)]
            while last < end and (pause < PAUSE or time[last] - since < length * uniform(dice)):
                last += 1
                pause += 1
            at = last
    return hidden, asked


# --- gaps ---
# Which gaps of a sensor's earlier rows does a new reading speak of?
#
# The open gaps of all sensors lie in one pool of slots; those of a sensor are linked, the latest row first, so that
# sensors without gaps cost nothing. Slots that are free are linked too.
#
# Invariant: the gaps of a sensor are of falling times, each has a cell that is open, and there are size[sensor] of
# them.

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
