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
from fogline.kernels.sorting import argsort, ascending, distinct_of, longest
from fogline.kernels.states import DEAD, DOMINATED, IS_GONE, OUT
from fogline.kernels.words import BLOCK, any_covered, any_covers, covers


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


# --- admit ---
# Which arriving rows can ever matter, and until when are those surely beaten?
#
# A row that another, live or arriving, surely beats to the end of its life never has a probability above 0, and
# whatever
# it could beat, the other beats surely: it is dropped.


@inner
def outlasts_any(strong, kept, m, rows, q):
    """Does any of the first m kept rows surely beat row q and expire no earlier? `strong`: words of their `lo`."""
    word, fence = rows.word_hi[q], rows.fence
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(strong, begin, end, word, fence):
            for r in range(begin, end):
                s = kept[r]
                if (
                    rows.expires[s] >= rows.expires[q]
                    and covers(strong[r], word, fence)
                    and beats(rows.lo, s, rows.hi, q)
                ):
                    return True
    return False


@inner
def falling_sums(corner):
    """The sum of each row's values, negated."""
    n, d = corner.shape
    sums = np.zeros(n)
    for i in range(n):
        for j in range(d):
            sums[i] -= corner[i, j]
    return sums


@inner
def outlived(rows):
    """Which rows of a batch stay when each one surely beaten by another that expires no earlier is dropped?

    Rows are taken with the sums of `lo` falling. A row that beats another has at least its sum (adding floats in one
    order is monotone), so only rows of an equal sum can still beat one that was kept before them.
    """
    n = rows.lo.shape[0]
    sums = falling_sums(rows.lo)
    kept, strong = np.empty(n, np.int64), np.empty(n, np.uint64)
    m = 0
    for q in argsort(sums):
        if outlasts_any(strong, kept, m, rows, q):
            continue
        first = m  # the kept rows of an equal sum are the last ones
        while first > 0 and sums[kept[first - 1]] == sums[q]:
            first -= 1
        w = first
        for r in range(first, m):
            s = kept[r]
            if not (rows.expires[q] >= rows.expires[s] and beats(rows.lo, q, rows.hi, s)):
                kept[w], strong[w] = s, strong[r]
                w += 1
        kept[w], strong[w] = q, rows.word_lo[q]
        m = w + 1
    return ascending(kept[:m])


@inner
def latest_beater(boxes, ordered, rows, i, until, enough):
    """The latest expiry of the boxes that surely beat row i, or `until` if none is later.

    It stops at `enough`. Boxes lie roughly by expiry, so the search runs from the last one back; where they lie
    exactly so (`ordered`), the first that is found is the latest.
    """
    word, fence = rows.word_hi[i], rows.fence
    end = boxes.expires.shape[0]
    while end > 0:
        begin = max(end - BLOCK, 0)
        if any_covers(boxes.word_lo, begin, end, word, fence):
            for c in range(end - 1, begin - 1, -1):
                if (
                    boxes.expires[c] > until
                    and covers(boxes.word_lo[c], word, fence)
                    and beats(boxes.lo, c, rows.hi, i)
                ):
                    until = boxes.expires[c]
                    if ordered or until >= enough:
                        return until
        end = begin
    return until


@inner
def latest_among(kept, rows, i, until):
    """As `latest_beater`, of the kept rows of the same batch."""
    for k in range(kept.shape[0]):
        s = kept[k]
        if (
            rows.expires[s] > until
            and covers(rows.word_lo[s], rows.word_hi[i], rows.fence)
            and beats(rows.lo, s, rows.hi, i)
        ):
            until = rows.expires[s]
    return until


@inner
def admit_few(live, rows, ordered):
    """See `admit`."""
    kept = outlived(rows)
    until = np.empty(kept.shape[0])
    m = 0
    for i in kept:
        u = latest_beater(live, ordered, rows, i, -np.inf, rows.expires[i])
        if u < rows.expires[i]:
            kept[m], until[m] = i, u
            m += 1
    for k in range(m):  # an arrival that expires earlier may beat another for a while
        until[k] = latest_among(kept[:m], rows, kept[k], until[k])
    return kept[:m], until[:m]


@inner
def admit_many(live, rows):
    """See `admit`. (Sure dominance is transitive, so it does not matter which row that is not kept beats another.)

    Of rows with the same box the one that expires last is compared, for all of them.
    """
    n = rows.lo.shape[0]
    kept, until, beaten = np.empty(n, np.int64), np.empty(n), np.empty(n)
    best = longest(rows, count_up(n))
    some = distinct_of(count_up(n), best)
    arriving = ladder(rows.lo, rows.word_lo, some)
    there = ladder(live.lo, live.word_lo, count_up(live.lo.shape[0]))
    for i in some:
        u = latest_on(arriving, rows, rows, i, -np.inf)
        beaten[i] = latest_on(there, live, rows, i, u) if u < rows.expires[i] else u
    m = 0
    for i in range(n):
        u = beaten[best[i]]
        if u < rows.expires[i]:
            kept[m], until[m] = i, u
            m += 1
    return kept[:m], until[:m]


@inner
def admit(live, rows, ordered, ladders):
    """The rows that can matter, and until when each is surely beaten (-inf: it is not).

    `ordered`: the live boxes lie in order of expiry. `ladders`: see `tick`.
    """
    if ladders is None:
        return admit_few(live, rows, ordered)
    if rows.expires.shape[0] < ladders:
        return admit_few(live, rows, ordered)
    return admit_many(live, rows)


# --- conquer ---
# What do arriving rows surely beat?
#
# A live cloud that such a row outlives is forgotten; one that outlives the row is sealed until the row expires.


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
        columns.state[c] = DOMINATED
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
