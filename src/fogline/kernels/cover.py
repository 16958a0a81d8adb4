"""Which rows of a chunk can ever matter, and until when?

A row whose whole life is covered by the lives of rows that surely beat it has probability 0 at every instant, and at
every instant whatever it could beat is beaten surely by another. So it can go, wherever the chunk was cut from the
stream. Two lives are enough to look at: an *heir*, which expires no earlier than the row, and, if the heir arrives
later than the row, a *holder*, which has arrived before the row and lives until the heir comes. With an heir alone
the row stays, but only until the heir arrives.

Dropped rows need not serve as heirs or holders themselves: whoever covers them covers what they would have covered.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Clouds, Floats, Ints
from fogline.kernels.boxes import BLOCK, any_covers, beats, covers, cut_points, fences, words
from fogline.kernels.compile import kernel

STRONG = 128  # so many rows with the greatest sums are tried first: they end most of the others
MOST = 4096  # no row is compared with more than the strongest so many: where nearly all stay, that is time for nothing
SAMPLE = 1000  # rows to choose cut points by


def matter(
    group: Ints, lo: Floats, hi: Floats, arrived: Floats, expires: Floats, strong: int = STRONG, most: int = MOST
) -> tuple[Ints, Floats]:
    """The rows that can matter in their groups, and until when each one can. O(rows · kept) word comparisons at worst.

    Where only the end counts, let all rows arrive at once. A row too many may stay, never one too few.
    """
    sums = lo @ np.ones(lo.shape[1])
    apart = not (arrived == arrived[:1]).all()
    order = np.lexsort((-sums, group)) if len(group) and group.min() < group.max() else np.argsort(-sums)
    ends = np.flatnonzero(np.diff(group[order], append=-1))
    left = [order[:0]]
    for begin, end in zip((0, *(ends[:-1] + 1)), ends + 1, strict=False):
        mine = order[begin:end]
        left.append(mine if len(mine) < 8 * strong else mine[sift(lo, hi, arrived, expires, mine, strong, apart)])
    order = np.concatenate(left)
    few = lo[order], hi[order], arrived[order], expires[order]
    heirs, fence = _words(few[0], few[1], few[3])
    holders = _words(few[0], few[1], -few[2])[0] if apart else heirs
    kept, until = uncovered(group[order], *few, *heirs, *holders, fence, most)
    back = np.argsort(order[kept])
    return order[kept][back], until[back]


def _words(lo: Floats, hi: Floats, also: Floats) -> tuple[tuple[Ints, Ints], np.uint64]:
    """Words of both corners with one attribute more, and their fence bits."""
    d = lo.shape[1] + 1
    wide_lo, wide_hi = (np.concatenate((also[:, None], corner), axis=1) for corner in (lo, hi))
    step = max(1, len(lo) // SAMPLE)
    nothing = np.empty(0)
    clouds = Clouds(wide_lo, wide_hi, np.empty((0, d), np.int64), np.empty((0, d), np.int64), nothing, nothing, nothing)
    return words(clouds, cut_points(wide_lo[::step], wide_hi[::step])), fences(d)


@kernel
def sift(lo, hi, arrived, expires, order, strong, apart):
    """The places in `order` (strongest first) of the rows that the first few do not cover: most rows end here.

    `apart`: rows arrive one after the other, so there may be holders that are no heirs.
    """
    n, m = order.shape[0], min(strong, order.shape[0])
    best, begins, ends = lo[order[:m]], arrived[order[:m]], expires[order[:m]]
    left = np.empty(n, np.int64)
    k = 0
    for place in range(n):
        q = order[place]
        t, e = arrived[q], expires[q]
        held, after = -np.inf, np.inf
        for r in range(m):
            heir, holder = ends[r] >= e and begins[r] < after, apart and begins[r] <= t and ends[r] > held
            if (heir or holder) and beats(best, r, hi, q):
                held, after = ends[r] if holder else held, begins[r] if heir else after
                if held >= after or after <= t:
                    break
        if held < after and after > t:
            left[k] = place
            k += 1
    return left[:k]


@kernel
def uncovered(group, lo, hi, arrived, expires, heir_lo, heir_hi, holder_lo, holder_hi, fence, most):
    """The rows that stay, and until when.

    Rows lie by group, and in it with the sums of `lo` falling: who beats another comes no later.
    """
    n = lo.shape[0]
    kept, until = np.empty(n, np.int64), np.empty(n)
    heir, holder = np.empty(n, np.uint64), np.empty(n, np.uint64)
    first = m = 0
    for q in range(n):
        if q > 0 and group[q] != group[q - 1]:
            first = m
        last = min(m, first + most)
        after = first_heir(lo, hi, arrived, expires, kept, heir, first, last, q, heir_hi[q], fence)
        if after <= arrived[q]:
            continue
        if after < np.inf and is_held(
            lo, hi, arrived, expires, kept, holder, first, last, q, holder_hi[q], after, fence
        ):
            continue
        kept[m], until[m], heir[m], holder[m] = q, min(expires[q], after), heir_lo[q], holder_lo[q]
        m += 1
    return kept[:m], until[:m]


@kernel
def first_heir(lo, hi, arrived, expires, kept, words, first, last, q, word, fence):
    """When a kept row that surely beats q and outlives it arrives; of the first few that are found, the earliest."""
    after = np.inf
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(words, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = kept[r]
            if (
                covers(words[r], word, fence)
                and expires[s] >= expires[q]
                and arrived[s] < after
                and beats(lo, s, hi, q)
            ):
                after = arrived[s]
        if after < np.inf:
            break
    return after


@kernel
def is_held(lo, hi, arrived, expires, kept, words, first, last, q, word, after, fence):
    """Does a kept row that was there before q, and surely beats it, live until `after`?"""
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(words, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = kept[r]
            if (
                covers(words[r], word, fence)
                and arrived[s] <= arrived[q]
                and expires[s] >= after
                and beats(lo, s, hi, q)
            ):
                return True
    return False


@kernel
def lacking(lo):
    """The rows in which a cell is missing."""
    n, d = lo.shape
    found = np.empty(n, np.int64)
    m = 0
    for i in range(n):
        missing = False
        for j in range(d):
            missing |= np.isnan(lo[i, j])
        if missing:
            found[m] = i
            m += 1
    return found[:m]


@kernel
def repeats(group, name, arrived):
    """Which rows have the group, name and arrival of an earlier one? An open hash table, at most half full."""
    n = arrived.shape[0]
    room = 16
    while room < 2 * n:
        room *= 2
    table = np.full(room, -1, np.int64)
    found = np.empty(n, np.int64)
    bits = arrived.view(np.int64)
    m = 0
    for i in range(n):
        h = np.uint64(name[i]) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(bits[i]) * np.uint64(0xC2B2AE3D27D4EB4F)
        h ^= np.uint64(group[i]) * np.uint64(0x165667B19E3779F9)
        at = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(room - 1))
        while table[at] >= 0:
            k = table[at]
            if name[k] == name[i] and arrived[k] == arrived[i] and group[k] == group[i]:
                found[m] = i
                m += 1
                break
            at = (at + 1) & (room - 1)
        if table[at] < 0:
            table[at] = i
    return found[:m]
