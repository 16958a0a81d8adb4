"""Which few of many boxes need be looked at?

A box that is at least as good as x everywhere is so in the attribute where the fewest are: only those few need be
looked at. Rows that survive a screening are outstanding somewhere, so they are few indeed. Sorting the boxes by every
attribute pays from some hundred rows on; until then, and in most ticks always, none of this is compiled.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Ladder
from fogline.kernels.compile import inner
from fogline.kernels.dominance import beats
from fogline.kernels.words import BLOCK, any_covers, covers


@inner
def count_up(n):
    """0, 1, …, n - 1."""
    out = np.empty(n, np.int64)
    for k in range(n):
        out[k] = k
    return out


@inner
def ladder(corner, words, some):
    """The boxes `some`, sorted by each attribute of a corner, best first. O(d · n log n)."""
    n, d = some.shape[0], corner.shape[1]
    steps = Ladder(np.empty((d, n)), np.empty((d, n), np.int64), np.empty((d, n), np.uint64))
    sort_rungs(corner, words, some, steps, 0, d)
    return steps


@inner
def sort_rungs(corner, words, some, steps, first, end):
    """Fill a ladder for the attributes from `first` on."""
    n = some.shape[0]
    keys = np.empty(n)
    for j in range(first, end):
        for k in range(n):
            keys[k] = -corner[some[k], j]
        order = np.argsort(keys)  # of thousands, faster than `sorting`, though slower to compile
        for k in range(n):
            c = some[order[k]]
            steps.value[j, k], steps.slot[j, k], steps.word[j, k] = corner[c, j], c, words[c]


@inner
def rung(value, corner, i):
    """The attribute in which the fewest of a ladder are at least as good as corner[i], and how many that is."""
    best, fewest = 0, value.shape[1] + 1
    for j in range(value.shape[0]):
        low, high = 0, value.shape[1]
        while low < high:
            middle = (low + high) // 2
            if value[j, middle] >= corner[i, j]:
                low = middle + 1
            else:
                high = middle
        if low < fewest:
            best, fewest = j, low
    return best, fewest


@inner
def latest_on(steps, boxes, rows, i, until):
    """The latest expiry of the boxes that surely beat row i, or `until` if none is later; it stops at the row's own.

    By a ladder of the boxes' worst corners.
    """
    j, m = rung(steps.value, rows.hi, i)
    words, word, fence = steps.word[j], rows.word_hi[i], rows.fence
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(words, begin, end, word, fence):
            for r in range(begin, end):
                c = steps.slot[j, r]
                if boxes.expires[c] > until and covers(words[r], word, fence) and beats(boxes.lo, c, rows.hi, i):
                    until = boxes.expires[c]
                    if until >= rows.expires[i]:
                        return until
    return until
