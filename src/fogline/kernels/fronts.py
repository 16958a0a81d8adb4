"""Can a cloud be in the answer at all, and can it be out?

By the ends of the present distributions, so exactly: a cloud is in under every value when no other's best place beats
its worst one, and under none when another's worst place beats its best one.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Sums
from fogline.kernels.above import any_above, point_tree, stack_for
from fogline.kernels.compile import inner, kernel
from fogline.kernels.merged import merge_places
from fogline.kernels.places import ROOM, beats_places, empty_grid, place_weights, scratch_for
from fogline.kernels.sums import account, clear, total

IMPOSSIBLE, OPEN, CERTAIN = 0, 1, 2


@inner
def near_of(lows, highs, o, others, near):
    """Which front o is in, and how many of `others` may beat it for some values: these are put into `near`.

    lows, highs (n, d): the ends of the clouds' distributions. They are compared right here: most pairs end at once, and
    a call would take longer than that.
    """
    d, m, front = lows.shape[1], 0, CERTAIN
    for g in others:
        j = 0
        while j < d and highs[g, j] >= lows[o, j]:
            j += 1
        if j < d or g == o:
            continue
        better, sure, surely_better = False, True, False
        for i in range(d):
            better |= highs[g, i] > lows[o, i]
            sure &= lows[g, i] >= highs[o, i]
            surely_better |= lows[g, i] > highs[o, i]
        if better:
            near[m] = g
            m += 1
            front = IMPOSSIBLE if sure and surely_better else min(front, OPEN)
    return front, m


@kernel
def fronts_of(lows, highs, asked, others):
    """(q,) which front the clouds `asked` are in, among `others`; lows, highs (n, d): their ends.

    O((q + others) · log others) where few of them overlap, or many; O(q · others) at worst.
    """
    best, out = point_tree(highs, others), np.empty(asked.shape[0], np.int64)
    stack, opened = stack_for(best), 0
    for k in range(asked.shape[0]):
        out[k] = OPEN if any_above(best, lows, asked[k], asked[k], True, stack) else CERTAIN
        opened += out[k] == OPEN
    worst = point_tree(lows, others[:0] if opened == 0 else others)
    for k in range(asked.shape[0]):
        if out[k] == OPEN and any_above(worst, highs, asked[k], asked[k], True, stack):
            out[k] = IMPOSSIBLE
    return out


@inner
def longest_of(clouds, o):
    """How many values a grid of o may need."""
    total = 0
    for j in range(clouds.lo.shape[1]):
        total += clouds.size[o, j]
    return total


@kernel
def chances_of(clouds, lows, highs, asked, opened):
    """(q,) the probabilities of the clouds `asked`; NaN for one of too many places. O(q · open · places)."""
    d = clouds.lo.shape[1]
    out, scratch = np.empty(asked.shape[0]), scratch_for(ROOM)
    near = np.empty(opened.shape[0], np.int64)
    sums = Sums(np.empty((ROOM, 2), np.int64), np.empty(ROOM, np.int64))
    for k in range(asked.shape[0]):
        o = asked[k]
        grid = empty_grid(longest_of(clouds, o), d)
        _, m = near_of(lows, highs, o, opened, near)
        if merge_places(clouds, o, near[:m], grid) > ROOM:
            out[k] = np.nan
            continue
        places = place_weights(grid, scratch.weight)
        clear(sums, 0, places)
        for g in near[:m]:
            if beats_places(clouds, g, o, grid, scratch):
                account(scratch.chance, places, 1, sums, 0)
        out[k] = total(scratch.weight, places, sums, 0)
    return out
