"""Can a cloud be in the answer at all, and can it be out?

By the ends of the present distributions, so exactly: a cloud is in under every value when no other's best place beats
its worst one, and under none when another's worst place beats its best one.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats, high_end, low_end, surely_beats
from fogline.kernels.merged import merge_places
from fogline.kernels.places import ROOM, beats_places, empty_grid, place_weights, scratch_for
from fogline.kernels.words import covers

IMPOSSIBLE, OPEN, CERTAIN = 0, 1, 2


@inner
def may_beat(clouds, g, o):
    """Does g beat o for some values of the two?"""
    better = False
    for j in range(clouds.lo.shape[1]):
        a, b = high_end(clouds, g, j), low_end(clouds, o, j)
        if not a >= b:
            return False
        better |= a > b
    return better


@inner
def front_of(clouds, o, others):
    """IMPOSSIBLE, OPEN or CERTAIN: is o in for no values, for some, or for all?"""
    found = CERTAIN
    for g in others:
        if g != o and may_beat(clouds, g, o):
            if surely_beats(clouds, g, o):
                return IMPOSSIBLE
            found = OPEN
    return found


@kernel
def fronts_of(clouds, asked, others):
    """(q,) `front_of` the clouds `asked`, among `others`. O(q · others)."""
    out = np.empty(asked.shape[0], np.int64)
    for k in range(asked.shape[0]):
        out[k] = front_of(clouds, asked[k], others)
    return out


@inner
def near_of(live, o, opened, near):
    """Those of the open clouds whose box may beat o's, into `near`; how many?"""
    clouds, m = live.clouds, 0
    word, strong = live.columns.word_lo[o], live.columns.word_hi
    for g in opened:
        if g != o and covers(strong[g], word, live.fence) and beats(clouds.hi, g, clouds.lo, o):
            near[m] = g
            m += 1
    return m


@inner
def longest_of(clouds, o):
    """How many values a grid of o may need."""
    total = 0
    for j in range(clouds.lo.shape[1]):
        total += clouds.size[o, j]
    return total


@kernel
def chances_of(live, asked, opened):
    """(q,) the probabilities of the clouds `asked`; NaN for one of too many places. O(q · open · places)."""
    clouds, d = live.clouds, live.clouds.lo.shape[1]
    out, scratch = np.empty(asked.shape[0]), scratch_for(ROOM)
    near = np.empty(opened.shape[0], np.int64)
    for k in range(asked.shape[0]):
        o = asked[k]
        grid = empty_grid(longest_of(clouds, o), d)
        m = near_of(live, o, opened, near)
        if merge_places(clouds, o, near[:m], grid) > ROOM:
            out[k] = np.nan
            continue
        places = place_weights(grid, scratch.left)
        for g in near[:m]:
            if beats_places(clouds, g, o, grid, scratch):
                for x in range(places):
                    scratch.left[x] *= 1.0 - max(scratch.chance[x], 0.0)
        out[k] = min(scratch.left[:places].sum(), 1.0)
    return out
