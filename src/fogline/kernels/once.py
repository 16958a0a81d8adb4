"""How probably does none beat a row, when all rows are there at once and nothing will come or go?

No sums are kept, no guard is remembered: the places of a row lose weight rival by rival, until none is left or what
remains is not enough. Rivals that end most rows should come first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Clouds, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.places import beats_places, own_grid, place_weights, scratch_for
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
    scratch = scratch_for(places)
    out = np.empty(asked.shape[0])
    for k in range(asked.shape[0]):
        out[k] = _chance(rivals, asked[k], threshold, scratch)
    return out


@inner
def _chance(rivals, o, threshold, scratch):
    clouds, word, fence = rivals.clouds, rivals.word_lo[o], rivals.fence
    grid = own_grid(clouds, o)
    places = place_weights(grid, scratch.left)
    left, n = 1.0, clouds.lo.shape[0]
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        if not any_covers(rivals.word_hi, begin, end, word, fence):
            continue
        for g in range(begin, end):
            if g == o or not covers(rivals.word_hi[g], word, fence) or not beats(clouds.hi, g, clouds.lo, o):
                continue
            if beats(clouds.lo, g, clouds.hi, o):
                return OUT
            if beats_places(clouds, g, o, grid, scratch):
                left = 0.0
                for k in range(places):
                    scratch.left[k] *= 1.0 - max(scratch.chance[k], 0.0)
                    left += scratch.left[k]
                if left <= threshold:
                    return OUT
    return min(left, 1.0)
