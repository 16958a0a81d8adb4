"""Which parts of a large tick can be worked out side by side?

Of the boxes: until when each arriving row is surely dominated, and for how long the arriving rows dominate each live
row. Of the probabilities: what comes and goes does to each member, and the judgement of each row that is due. Each of
these is a loop whose turns write to entries of their own, or that ends in a maximum; sums are whole numbers. So it does
not matter into how many shares a loop is cut: the outcome is the same to the bit.

These are the loops of `tick`, each called from Python with its share; calls leave Python's lock, so shares run in
threads. What is done once for all shares (sorting, mostly) is a call of its own.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Columns
from fogline.kernels.admit import count_up, end_or_hide, fewest_boxes, latest_on, sort_corners
from fogline.kernels.compile import kernel
from fogline.kernels.dominance import dominates
from fogline.kernels.instances import ROOM, scratch_for
from fogline.kernels.judge import corners_of, judge, words_of
from fogline.kernels.sorting import distinct_of, longest
from fogline.kernels.states import DEAD, expire_slots, waiting
from fogline.kernels.sums import shift
from fogline.kernels.tick import arriving, boxes_of
from fogline.kernels.words import BLOCK, any_covered, covers


@kernel
def begin(live, rows, went, groups):
    """What has expired in one group dies; what was open of it is listed. Returns the boxes of the rows, for each row
    the one of the same box that is compared in its place, and those rows."""
    group = groups[0]
    group.went += expire_slots(live.columns, live.used, group.now, live.fence, went[group.went :])
    boxes = arriving(live, rows)
    every = count_up(rows.expires.shape[0])
    best = longest(boxes, every)
    return boxes, best, distinct_of(every, best)


@kernel
def sort_share(corner, words, some, steps, first, end):
    """A share of `sorted_corners`: the attributes from `first` on."""
    sort_corners(corner, words, some, steps, first, end)


@kernel
def boxes_for(live, rows):
    """The boxes of the rows."""
    return arriving(live, rows)


@kernel
def dominated_until(live, boxes, some, among_rows, among_live, until):
    """Write until when the rows `some` are surely dominated."""
    there = boxes_of(live)
    for i in some:
        u = latest_on(among_rows, boxes, boxes, i, -np.inf)
        until[i] = latest_on(among_live, there, boxes, i, u) if u < boxes.expires[i] else u


@kernel
def distinct(boxes, which):
    """Those of the rows `which` that are to meet what is there: of the same box the one that expires last."""
    return distinct_of(which, longest(boxes, which))


@kernel
def dominating(live, boxes, some, steps):
    """(slots,) the last expiry of the rows `some` that surely dominate each live row; -inf: none does."""
    uncertain, columns, best = live.uncertain, live.columns, -boxes.lo
    out = np.full(live.used, -np.inf)
    for i in some:
        j, m = fewest_boxes(steps.value, best, i)
        words, word = steps.word[j], boxes.word_lo[i]
        for first in range(0, m, BLOCK):
            end = min(first + BLOCK, m)
            if not any_covered(words, first, end, word, boxes.fence):
                continue
            for r in range(first, end):
                c = steps.slot[j, r]
                if (
                    boxes.expires[i] > out[c]
                    and covers(word, words[r], boxes.fence)
                    and columns.state[c] != DEAD
                    and dominates(boxes.lo, i, uncertain.hi, c)
                ):
                    out[c] = boxes.expires[i]
    return out


@kernel
def end_or_hide_all(columns, expires, fence, closed, groups):
    """`end_or_hide` of all slots that rows of these expiries surely dominate (-inf: none does). Lists what was open."""
    for c in range(expires.shape[0]):
        if expires[c] > -np.inf:
            end_or_hide(Columns(*columns), c, expires[c], fence, closed, groups[0])


@kernel
def shift_share(live, members, came, went, limits):
    """`shift` of a share of the members."""
    shift(live, members, came, went, limits, scratch_for(limits.sum_limit))


@kernel
def due_now(columns, groups, due, opened):
    """`waiting` of one group, to be called from Python."""
    return waiting(Columns(*columns), groups[0], due, opened)


@kernel
def before_judging(live, opened, due, bulk):
    """The words of what is open, and what `corners_of` makes of what is due."""
    steps, order, again = corners_of(live, opened, due, bulk)
    return words_of(live.columns.word_hi, opened), steps, order, again


@kernel
def judge_share(live, opened, strong, steps, due, again, limits, pruned):
    """`judge` of a share of what is due. `live.filled` leaves room for the sums of the shares before."""
    near = np.empty(opened.shape[0], np.int64)
    room = np.empty((8, max(limits.sum_limit, ROOM) + live.uncertain.lo.shape[1]))
    return judge(live, None, opened, strong, steps, due, again, limits, pruned, near, room)
