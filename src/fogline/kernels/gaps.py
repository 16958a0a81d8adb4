"""Open gaps: which gaps of a sensor's earlier rows does a new reading revise? And outages, made up for training.

The open gaps of all sensors lie in one pool of slots. Those of a sensor are linked, the latest row first, so sensors
without gaps cost nothing. Free slots are linked, too.

Invariant: the gaps of a sensor have falling times, each has an open cell, and there are size[sensor] of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.compile import kernel
from fogline.kernels.forest import uniform

NONE = -1  # no slot, or no row of this call
FREE, LEFT, LOST = range(3)  # of `account`: the first free slot, how many there are, gaps that found no place
PAUSE = 8  # readings between two outages, at least
ALONE, SOME = 0.5, 0.7  # an outage is of one attribute below ALONE, of some below SOME, else of all
ASKED = 8  # readings of each outage that are learnt from


class Pool(NamedTuple):
    """The open gaps of sensors; of no sensor at all where gaps are not watched."""

    head: Ints  # (s,) the slot of a sensor's latest gap, or NONE
    size: Ints  # (s,) how many it has
    newest: Floats  # (s,) the time of its newest reading
    link: Ints  # (p,) the next slot of the same sensor, or the next free one
    time: Floats  # (p,) when the row with the gap arrived
    expires: Floats  # (p,)
    cells: Flags  # (p, d) which of its cells are open
    row: Ints  # (p,) its number in the call that is being taken, or NONE
    account: Ints  # (3,) see FREE, LEFT, LOST
    most: int  # gaps of one sensor


class Openings(NamedTuple):
    """Of the rows of a call, in the order of their times: which cells stay open, and until when."""

    open: Flags  # (n, d), or (0, d): none
    expires: Floats  # (n,)


class SensorsLeaving(NamedTuple):
    """Sensors that leave while rows are taken, because there are too many."""

    at: Ints  # (m,) before which row, ascending; the number of rows: after the last
    sensor: Ints  # (m,)


class Events(NamedTuple):
    """Gaps that readings revise; the first used[0] lines count."""

    reading: Ints  # (m,) the reading's number in the call
    target: Floats  # (m,) when the row with the gap arrived
    row: Ints  # (m,) its number in the call, or NONE
    cells: Flags  # (m, d)
    used: Ints  # (1,)


@kernel
def revise(pool, s, i, now, values, found):
    """The open gaps that reading i, the newest of its sensor so far, revises: appended to `found`, by rising times."""
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
    reverse(found, begun)
    return found


@kernel
def place(pool, s, now, expires, cells):
    """Keep a gap of a sensor; where it has too many, its oldest goes. Returns the slot, or NONE: there is no room."""
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
    """A sensor leaves: no reading will revise its gaps. Those of rows that live on are counted as lost."""
    g = pool.head[s]
    while g >= 0:
        pool.account[LOST] += pool.expires[g] > now
        g = unlink(pool, s, NONE, g)
    pool.newest[s] = -np.inf


@kernel
def shut(pool, sensor, arrived, cells):
    """Close these cells (n, d) of the rows that sensors (n,), NONE where unknown, had at these times (n,)."""
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
def unlink(pool, s, before, g):
    """Remove gap g, which follows `before` (or NONE), from its sensor's list, and free its slot. Returns the next."""
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


@kernel
def nothing_found(room, d):
    """No events yet, and room for so many."""
    return Events(
        np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64), np.zeros((room, d), np.bool_),
        np.zeros(1, np.int64),
    )  # fmt: skip


@kernel
def with_room(found):
    """The same events, with room for one more."""
    n = found.used[0]
    if n < found.reading.shape[0]:
        return found
    more = nothing_found(2 * n + 16, found.cells.shape[1])
    more.reading[:n], more.target[:n], more.row[:n] = found.reading[:n], found.target[:n], found.row[:n]
    more.cells[:n] = found.cells[:n]
    more.used[0] = n
    return more


@kernel
def reverse(found, begun):
    """Reverse the lines from `begun` on."""
    a, b = begun, found.used[0] - 1
    while a < b:
        found.reading[a], found.reading[b] = found.reading[b], found.reading[a]
        found.target[a], found.target[b] = found.target[b], found.target[a]
        found.row[a], found.row[b] = found.row[b], found.row[a]
        for j in range(found.cells.shape[1]):
            found.cells[a, j], found.cells[b, j] = found.cells[b, j], found.cells[a, j]
        a, b = a + 1, b - 1


@kernel
def outages(begins, time, lengths, d, seed):
    """Outages that are made up: (n, d) what they hide, (n,) which readings to learn from.

    Readings of sensor s are begins[s] … begins[s + 1] - 1, in the order of time (n,). An outage is about as long as one
    of `lengths`; the next one follows after about as long, and at least PAUSE readings. Of each a few readings are
    learnt from, half of them near its ends: marked 1, or 2 for one that is taken as the first after a silence, 0 for
    others. The seed decides, so the same history always has the same outages.
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
