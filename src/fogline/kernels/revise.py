"""Which slots does a revision concern, and may their boxes become what they are to become?

A revised cloud leaves and comes again as a row does. Boxes never widen, so whatever was forgotten or sealed because of
it stays so; but a cloud that it helped to keep out may be in now, and is judged again.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import SHARED, VAGUE
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats, low_end, write_ends
from fogline.kernels.states import OUT
from fogline.kernels.words import covers

SAME, NARROWER, WIDER = 0, 1, 2


@kernel
def arrived_at(arrived, expires, now, times):
    """The rows, not expired at `now`, that arrived at one of the times, which are sorted: each once for every such
    time; and which time that is."""
    row, at = np.empty(times.shape[0], np.int64), np.empty(times.shape[0], np.int64)
    m = 0
    for c in range(arrived.shape[0]):
        t = arrived[c]
        if t < times[0] or t > times[-1] or expires[c] <= now:
            continue
        low, high = 0, times.shape[0] - 1
        while low < high:
            middle = (low + high) >> 1
            if times[middle] < t:
                low = middle + 1
            else:
                high = middle
        while low < times.shape[0] and times[low] == t:
            if m == row.shape[0]:
                row, at = np.append(row, np.empty_like(row)), np.append(at, np.empty_like(at))
            row[m], at[m] = c, low
            m += 1
            low += 1
    return row[:m], at[:m]


@inner
def can_beat(best, clouds, o):
    """Is the place best[1] at least as good as o's worst one, and better somewhere?"""
    better = False
    for j in range(best.shape[1]):
        x = low_end(clouds, o, j)
        if not best[1, j] >= x:
            return False
        better |= best[1, j] > x
    return better


@kernel
def release(live, which):
    """What the clouds `which` may have kept out is to be judged again: they are not what they were."""
    clouds, columns = live.clouds, live.columns
    ends = np.empty((2, clouds.lo.shape[1]))
    for g in which:
        write_ends(clouds, g, ends)
        word = columns.word_hi[g]
        for o in range(live.used):
            if (
                columns.state[o] == OUT
                and columns.until[o] > -np.inf
                and covers(word, columns.word_lo[o], live.fence)
                and beats(ends[1:], 0, clouds.lo, o)
                and can_beat(ends, clouds, o)
            ):
                columns.until[o] = -np.inf


@kernel
def compare_boxes(before, after, gaps):
    """Are the boxes of the cells `gaps` (n, d) the SAME as before they were filled, NARROWER, or WIDER in any cell?

    WIDER also where a box does not hold the values.
    """
    found = SAME
    for i in range(gaps.shape[0]):
        for j in range(gaps.shape[1]):
            if not gaps[i, j]:
                continue
            lo, hi, start = after.lo[i, j], after.hi[i, j], after.start[i, j]
            if not (lo >= before.lo[i, j] and hi <= before.hi[i, j] and lo <= hi):
                return WIDER
            if start >= 0:
                if not (after.value[start] >= lo and after.value[start + after.size[i, j] - 1] <= hi):
                    return WIDER
            elif start == VAGUE or (start != SHARED and lo < hi):
                return WIDER
            if lo > before.lo[i, j] or hi < before.hi[i, j]:
                found = NARROWER
    return found
