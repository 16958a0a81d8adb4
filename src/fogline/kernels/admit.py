"""Which arriving rows can ever matter, until when are they surely dominated, and what do they dominate?

A row that another, live or arriving, surely dominates to the end of its life never has a probability above 0, and
whatever it could dominate, the other surely dominates: it is dropped.

Where many boxes are compared with many, they are sorted by every attribute first: a box that is at least as good as x
everywhere is so in the attribute where the fewest are, and only those few are looked at. That pays from some hundred
rows on.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import SortedCorners
from fogline.kernels.compile import inner
from fogline.kernels.dominance import dominates
from fogline.kernels.sorting import argsort
from fogline.kernels.states import DEAD, DOMINATED, IS_GONE, OUT, blank_words
from fogline.kernels.words import BLOCK, any_covered, any_covers, covers


@inner
def count_up(n):
    """0, 1, …, n - 1."""
    out = np.empty(n, np.int64)
    for k in range(n):
        out[k] = k
    return out


# --- Sorted columns ---------------------------------------------------------------------------------------------------


@inner
def sorted_corners(corner, words, some):
    """The boxes `some`, sorted by each attribute of a corner, best first. O(d · n log n)."""
    n, d = some.shape[0], corner.shape[1]
    steps = SortedCorners(np.empty((d, n)), np.empty((d, n), np.int64), np.empty((d, n), np.uint64))
    sort_corners(corner, words, some, steps, 0, d)
    return steps


@inner
def sort_corners(corner, words, some, steps, first, end):
    """Fill sorted columns for the attributes from `first` on."""
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
def fewest_boxes(value, corner, i):
    """The attribute in which the fewest boxes are at least as good as corner[i], and how many that is."""
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
    """The latest expiry of the boxes that surely dominate row i, or `until` if none is later.

    It stops at the row's own. `steps`: the boxes sorted by their worst corners.
    """
    j, m = fewest_boxes(steps.value, rows.hi, i)
    words, word, fence = steps.word[j], rows.word_hi[i], rows.fence
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(words, begin, end, word, fence):
            for r in range(begin, end):
                c = steps.slot[j, r]
                if boxes.expires[c] > until and covers(words[r], word, fence) and dominates(boxes.lo, c, rows.hi, i):
                    until = boxes.expires[c]
                    if until >= rows.expires[i]:
                        return until
    return until


# --- Which rows can matter --------------------------------------------------------------------------------------------


@inner
def outlasts_any(strong, kept, m, rows, q):
    """Does any of the first m kept rows surely dominate row q and expire no earlier? `strong`: words of their `lo`."""
    word, fence = rows.word_hi[q], rows.fence
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(strong, begin, end, word, fence):
            for r in range(begin, end):
                s = kept[r]
                if (
                    rows.expires[s] >= rows.expires[q]
                    and covers(strong[r], word, fence)
                    and dominates(rows.lo, s, rows.hi, q)
                ):
                    return True
    return False


@inner
def falling_sums(corner):
    """The sum of each row's values, negated."""
    n, d = corner.shape
    sums = np.empty(n)
    for i in range(n):
        sums[i] = 0.0
        for j in range(d):
            sums[i] -= corner[i, j]
    return sums


@inner
def outlived(rows):
    """Which rows of a batch stay when each one surely dominated by another that expires no earlier is dropped?

    Rows are taken with the sums of `lo` falling. A row that dominates another has at least its sum (adding floats in
    one order is monotone), so only rows of an equal sum can still dominate one that was kept before them.
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
            if not (rows.expires[q] >= rows.expires[s] and dominates(rows.lo, q, rows.hi, s)):
                kept[w], strong[w] = s, strong[r]
                w += 1
        kept[w], strong[w] = q, rows.word_lo[q]
        m = w + 1
    stays = np.empty(n, np.bool_)
    for i in range(n):
        stays[i] = False
    for k in range(m):
        stays[kept[k]] = True
    m = 0
    for i in range(n):
        if stays[i]:
            kept[m] = i
            m += 1
    return kept[:m]


@inner
def latest_dominator(boxes, ordered, rows, i, until, enough):
    """The latest expiry of the boxes that surely dominate row i, or `until` if none is later.

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
                    and dominates(boxes.lo, c, rows.hi, i)
                ):
                    until = boxes.expires[c]
                    if ordered or until >= enough:
                        return until
        end = begin
    return until


@inner
def latest_among(kept, rows, i, until):
    """As `latest_dominator`, of the kept rows of the same batch."""
    for k in range(kept.shape[0]):
        s = kept[k]
        if (
            rows.expires[s] > until
            and covers(rows.word_lo[s], rows.word_hi[i], rows.fence)
            and dominates(rows.lo, s, rows.hi, i)
        ):
            until = rows.expires[s]
    return until


@inner
def admit(live, rows, ordered):
    """The rows that can matter, and until when each is surely dominated (-inf: it is not).

    `ordered`: the live boxes lie in order of expiry.
    """
    kept = outlived(rows)
    until = np.empty(kept.shape[0])
    m = 0
    for i in kept:
        u = latest_dominator(live, ordered, rows, i, -np.inf, rows.expires[i])
        if u < rows.expires[i]:
            kept[m], until[m] = i, u
            m += 1
    for k in range(m):  # an arrival that expires earlier may dominate another for a while
        until[k] = latest_among(kept[:m], rows, kept[k], until[k])
    return kept[:m], until[:m]


# --- What arriving rows dominate --------------------------------------------------------------------------------------


@inner
def end_or_hide(columns, c, expires, fence, closed, group):
    """A row that expires then surely dominates slot c, which dies if it expires no later, else is dominated until then.

    Lists in `closed` what was open, and counts in the group's record.
    """
    if columns.state[c] >= OUT:
        closed[group.went] = c
        group.went += 1
        columns.until[c] = -np.inf
    if expires >= columns.expires[c]:
        columns.state[c] = DEAD
        columns.expires[c], columns.until[c] = -np.inf, IS_GONE
        blank_words(columns, c, fence)
        group.forgotten += 1
        group.spatial += not columns.counted[c]
    else:
        columns.state[c] = DOMINATED
        columns.until[c] = max(columns.until[c], expires)


@inner
def dominate(columns, live, rows, which, closed, group):
    """Let the rows `which` meet the live boxes: a live row that such a row outlives is forgotten; one that outlives the
    row is dominated until that expires."""
    n = live.expires.shape[0]
    for i in which:
        word = rows.word_lo[i]
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            if not any_covered(live.word_hi, begin, end, word, rows.fence):
                continue
            for c in range(begin, end):
                if (
                    covers(word, live.word_hi[c], rows.fence)
                    and columns.state[c] != DEAD
                    and dominates(rows.lo, i, live.hi, c)
                ):
                    end_or_hide(columns, c, rows.expires[i], rows.fence, closed, group)
