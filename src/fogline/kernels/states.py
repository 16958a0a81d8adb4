"""What does a slot of the live set hold, and how does that change with time?

DEAD; DOMINATED: surely, until a known instant; and the open ones: OUT, IN, and HEAVY for an instant. A row enters
dominated or open, opens when the last row that surely dominates it has expired, and dies when it expires itself.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import BOUNDS_ONLY
from fogline.kernels.compile import inner

DEAD, DOMINATED, OUT, IN = 0, 1, 2, 3
HEAVY = 4  # open, with too many instances to keep sums for: its probability is still to be bracketed
HAS_EXPIRED, IS_GONE, HAS_SUCCESSOR = (
    np.inf,
    -np.inf,
    0.0,
)  # why a slot died, until the tick is reported: in its `until`


@inner
def has_bounds_only(uncertain, c):
    """Are only bounds known of one of its cells?"""
    for j in range(uncertain.start.shape[1]):
        if uncertain.start[c, j] == BOUNDS_ONLY:
            return True
    return False


@inner
def blank_words(columns, c, fence):
    """A slot that died is compared with nothing: no word covers its best corner, and its worst covers none."""
    columns.word_lo[c], columns.word_hi[c] = np.uint64(0), ~fence


@inner
def expire_slots(columns, used, now, fence, closed):
    """What has expired dies. Lists in `closed` those that were open; returns how many."""
    m = 0
    for c in range(used):
        if columns.expires[c] <= now and columns.state[c] != DEAD:
            if columns.state[c] >= OUT:
                closed[m] = c
                m += 1
            columns.state[c] = DEAD
            columns.expires[c] = -np.inf
            columns.until[c] = HAS_EXPIRED
            blank_words(columns, c, fence)
    return m


@inner
def enter(live, rows, boxes, which, until, now, instances):
    """Fill the columns of the next slots for the arriving rows `which`, surely dominated until then.

    A row of more than `Limits.sum_limit` instances keeps no sums: its number of instances is written as 0. A row that
    was there before, in another slot, keeps what was reported and counted of it.
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
        columns.instances[c], columns.at[c] = (int(count) if count <= instances else 0), -1
        columns.word_lo[c], columns.word_hi[c] = boxes.word_lo[i], boxes.word_hi[i]
        columns.state[c] = DOMINATED if until[k] > now else OUT
        if rows.origin.shape[0] and rows.origin[i] >= 0:
            before = rows.origin[i]
            columns.reported[c], columns.reported[before] = columns.reported[before], np.nan
            columns.counted[c] = columns.counted[before]


@inner
def reopen(live, used, now, opened, unfilled):
    """Dominated rows whose `until` has come: then the last row that surely dominated them expired.

    They are open now; but those of which only bounds are known leave, to come again with their distributions. Lists
    both; returns how many of each.
    """
    columns = live.columns
    a = b = 0
    for c in range(used):
        if columns.state[c] != DOMINATED or columns.until[c] > now:
            continue
        if has_bounds_only(live.uncertain, c):
            columns.state[c] = DEAD  # its expiry stays until it has come again
            unfilled[b] = c
            b += 1
        else:
            columns.state[c] = OUT
            opened[a] = c
            a += 1
    return a, b


@inner
def waiting(columns, group, due, opened):
    """List which rows are open, and for which of them the time has come to be judged; returns how many of the latter,
    and of all. Counts what lives, and the sums that may be needed; finds the first expiry."""
    a = b = room = alive = 0
    soon, now = np.inf, group.now
    for k in range(group.used):
        state = columns.state[k]
        if state == DEAD:
            continue
        alive += 1
        soon = min(soon, columns.expires[k])
        if state >= OUT:
            opened[b] = k
            b += 1
            if state == OUT and columns.until[k] <= now:
                due[a] = k
                a += 1
                room += columns.instances[k]
    group.alive, group.soon, group.sums = alive, soon, room
    return a, b
