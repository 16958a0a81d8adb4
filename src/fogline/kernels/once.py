"""How probably does none beat a row, when all rows are there at once and nothing will come or go?

No sums are kept, no guard is remembered: the places of a row lose weight rival by rival, until none is left or what
remains is not enough. Rivals that end most rows should come first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Clouds, Sums, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.places import beats_places, own_grid, place_weights, scratch_for
from fogline.kernels.sums import account, clear, spared, total
from fogline.kernels.words import BLOCK, any_covers, covers

OUT = -1.0


class Rivals(NamedTuple):
    """Clouds with their words."""

    clouds: Clouds
    word_lo: Words
    word_hi: Words
    fence: np.uint64


@kernel
def chances(rivals, asked, threshold, places):
    """(q,) the probabilities of the clouds `asked` (q,), each of at most so many places.

    OUT where one is at or below the threshold, or where a rival surely beats the cloud.
    """
    scratch, near = scratch_for(places), np.empty(rivals.word_hi.shape[0], np.int64)
    sums = Sums(np.empty((places, 2), np.int64), np.empty(places, np.int64))
    out = np.empty(asked.shape[0])
    for k in range(asked.shape[0]):
        o = asked[k]
        m = _rivals(rivals, o, threshold, near, scratch)
        out[k] = OUT if m < 0 else _chance(rivals.clouds, o, near[:m], sums, scratch)
    return out


@inner
def _rivals(rivals, o, threshold, near, scratch):
    """The clouds that can beat o, into `near`: how many? -1: they keep it out."""
    clouds, word, fence = rivals.clouds, rivals.word_lo[o], rivals.fence
    grid = own_grid(clouds, o)
    places = place_weights(grid, scratch.left)
    m, n = 0, clouds.lo.shape[0]
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        if not any_covers(rivals.word_hi, begin, end, word, fence):
            continue
        for g in range(begin, end):
            if g == o or not covers(rivals.word_hi[g], word, fence) or not beats(clouds.hi, g, clouds.lo, o):
                continue
            if beats(clouds.lo, g, clouds.hi, o):
                return -1
            if beats_places(clouds, g, o, grid, scratch):
                near[m], left = g, 0.0
                m += 1
                for k in range(places):
                    scratch.left[k] *= spared(scratch.chance[k])
                    left += scratch.left[k]
                if left <= threshold:
                    return -1
    return m


@inner
def _chance(clouds, o, near, sums, scratch):
    """The probability of o, which the bounds did not keep out."""
    grid = own_grid(clouds, o)
    places = place_weights(grid, scratch.weight)
    clear(sums, 0, places)
    for g in near:
        if beats_places(clouds, g, o, grid, scratch):
            account(scratch.chance, places, 1, sums, 0)
    return total(scratch.weight, places, sums, 0)
