"""What does a slot of the live set hold, and how does that change with time?

DEAD, then SEALED (surely beaten for a while), then the open ones: OUT, IN, and HEAVY for an instant. A cloud enters
sealed or open, is unsealed when what surely beat it has expired, and dies when it expires itself.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import BOUNDS_ONLY
from fogline.kernels.compile import inner

DEAD, DOMINATED, OUT, IN = 0, 1, 2, 3
HEAVY = 4  # open, with too many places to keep sums for: its probability is still to be bracketed
HAS_EXPIRED, IS_GONE, HAS_HEIR = np.inf, -np.inf, 0.0  # why a slot died, until the tick is reported: in its `until`


@inner
def has_bounds_only(uncertain, c):
    """Are only bounds known of one of its cells?"""
    for j in range(uncertain.start.shape[1]):
        if uncertain.start[c, j] == BOUNDS_ONLY:
            return True
    return False


@inner
def expire_slots(columns, used, now, closed):
    """What has expired dies. Lists in `closed` those that were open; returns how many."""
    m = 0
    for c in range(used):
        if columns.state[c] != DEAD and columns.expires[c] <= now:
            if columns.state[c] >= OUT:
                closed[m] = c
                m += 1
            columns.state[c] = DEAD
            columns.expires[c] = -np.inf
            columns.until[c] = HAS_EXPIRED
    return m


@inner
def enter(live, rows, boxes, which, until, now, places):
    """Fill the columns of the next slots for the arriving rows `which`, surely beaten until then.

    A row of more than `places` places will keep no sums: its number of places is written as 0. A row that was there
    before, in another slot, keeps what was reported and counted of it.
    """
    columns = live.columns
    for k in range(which.shape[0]):
        i, c = which[k], live.used + k
        count = 1.0
        for j in range(boxes.lo.shape[1]):
            count *= rows.uncertain.size[i, j]
            live.raw[c, j] = rows.raw[i, j]
        columns.arrived[c], columns.expires[c], columns.until[c] = rows.arrived[i], rows.expires[i], until[k]
        columns.probability[c], columns.reported[c] = 0.0, np.nan
        columns.within[c], columns.counted[c] = 0.0, False
        columns.places[c], columns.at[c] = (int(count) if count <= places else 0), -1
        columns.word_lo[c], columns.word_hi[c] = boxes.word_lo[i], boxes.word_hi[i]
        columns.state[c] = DOMINATED if until[k] > now else OUT
        if rows.origin.shape[0] and rows.origin[i] >= 0:
            before = rows.origin[i]
            columns.reported[c], columns.reported[before] = columns.reported[before], np.nan
            columns.counted[c] = columns.counted[before]


@inner
def unseal(live, now, opened, bounds_only):
    """Sealed clouds whose seal has ended: `until` was the expiry of the last that surely beat them.

    They are open now; but those of whom only bounds are known leave, to come again with their distributions. Lists
    both; returns how many of each.
    """
    columns = live.columns
    a = b = 0
    for c in range(live.used):
        if columns.state[c] != DOMINATED or columns.until[c] > now:
            continue
        if has_bounds_only(live.uncertain, c):
            columns.state[c] = DEAD  # its expiry stays until it has come again
            bounds_only[b] = c
            b += 1
        else:
            columns.state[c] = OUT
            opened[a] = c
            a += 1
    return a, b


@inner
def waiting(columns, used, now):
    """Which clouds are open, and for which of them has the time come to be judged?

    Returns the latter, all open ones, how many sums the former may need, how many clouds live, and the first expiry.
    """
    due, opened = np.empty(used, np.int64), np.empty(used, np.int64)
    a = b = room = alive = 0
    first = np.inf
    for k in range(used):
        if columns.state[k] != DEAD:
            alive += 1
            first = min(first, columns.expires[k])
        if columns.state[k] >= OUT:
            opened[b] = k
            b += 1
            if columns.state[k] == OUT and columns.until[k] <= now:
                due[a] = k
                a += 1
                room += columns.places[k]
    return due[:a], opened[:b], room, alive, first
