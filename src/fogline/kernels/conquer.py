"""What do arriving rows surely beat?

A live cloud that such a row outlives is forgotten; one that outlives the row is sealed until the row expires.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner
from fogline.kernels.dominance import beats
from fogline.kernels.ladder import count_up, ladder, rung
from fogline.kernels.states import DEAD, IS_GONE, OUT, SEALED
from fogline.kernels.twins import distinct_of, longest
from fogline.kernels.words import BLOCK, any_covered, covers


@inner
def subdue(columns, c, expires, closed, counts):
    """A row that expires then surely beats cloud c, which dies if it expires no later, else is sealed.

    `counts`: the dead, those of them that were counted as pruned before, and how many slots `closed` lists.
    """
    if columns.state[c] >= OUT:
        closed[counts[2]] = c
        counts[2] += 1
        columns.until[c] = -np.inf
    if expires >= columns.expires[c]:
        columns.state[c] = DEAD
        columns.expires[c], columns.until[c] = -np.inf, IS_GONE
        counts[0] += 1
        counts[1] += columns.counted[c]
    else:
        columns.state[c] = SEALED
        columns.until[c] = max(columns.until[c], expires)


@inner
def conquer_few(columns, live, rows, which, closed, counts):
    """See `conquer`."""
    for i in which:
        word, n = rows.word_lo[i], live.expires.shape[0]
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            if not any_covered(live.word_hi, begin, end, word, rows.fence):
                continue
            for c in range(begin, end):
                if (
                    covers(word, live.word_hi[c], rows.fence)
                    and columns.state[c] != DEAD
                    and beats(rows.lo, i, live.hi, c)
                ):
                    subdue(columns, c, rows.expires[i], closed, counts)


@inner
def conquer_many(columns, live, rows, which, closed, counts):
    """See `conquer`. By a ladder of what is worst: what a row beats is no better than it in every attribute.

    Of rows with the same box only the one that expires last meets the others.
    """
    worst, best = -live.hi, -rows.lo
    steps = ladder(worst, live.word_hi, count_up(live.expires.shape[0]))
    for i in distinct_of(which, longest(rows, which)):
        j, m = rung(steps.value, best, i)
        words = steps.word[j]
        for begin in range(0, m, BLOCK):
            end = min(begin + BLOCK, m)
            if not any_covered(words, begin, end, rows.word_lo[i], rows.fence):
                continue
            for r in range(begin, end):
                c = steps.slot[j, r]
                if (
                    covers(rows.word_lo[i], words[r], rows.fence)
                    and columns.state[c] != DEAD
                    and beats(rows.lo, i, live.hi, c)
                ):
                    subdue(columns, c, rows.expires[i], closed, counts)


@inner
def conquer(columns, live, rows, which, closed, counts, ladders):
    """Let the rows `which` meet the live boxes. Writes the columns, and lists in `closed` the slots that were open."""
    if ladders is None:  # by itself: only so does the compiler leave out the rest
        conquer_few(columns, live, rows, which, closed, counts)
        return
    if which.shape[0] < ladders:
        conquer_few(columns, live, rows, which, closed, counts)
        return
    conquer_many(columns, live, rows, which, closed, counts)
