"""Which rows of a chunk can ever matter, and until when?

A row whose whole life is covered by the lives of rows that surely beat it has probability 0 at every instant, and at
every instant whatever it could beat is beaten surely by another. So it can go, wherever the chunk was cut from the
stream. Two lives are enough to look at: an *heir*, which expires no earlier than the row, and, if the heir arrives
later than the row, a *holder*, which has arrived before the row and lives until the heir comes. With an heir alone
the row stays, but only until the heir arrives.

Dropped rows need not serve as heirs or holders themselves: what covers them covers what they would have covered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.words import BLOCK, any_covers, covers, cut_points, fences, words

STRONG = 128  # so many rows with the greatest sums are tried first: they end most of the others
MOST = 4096  # no row is compared with more than the strongest so many: where nearly all stay, that is time for nothing
SAMPLE = 1000  # rows to choose cut points by


class Lives(NamedTuple):
    """Boxes, and when they live."""

    lo: Floats  # (n, d)
    hi: Floats  # (n, d)
    arrived: Floats  # (n,)
    expires: Floats  # (n,)


class Coded(NamedTuple):
    """Words of both corners of boxes, with one attribute more, and their fence bits."""

    lo: Words
    hi: Words
    fence: np.uint64


class Kept(NamedTuple):
    """The rows that stay so far, in the order they were found."""

    row: Ints
    until: Floats
    heir: Words  # words of their worst corners, the later expiry being better, …
    holder: Words  # … and with the earlier arrival being better


def matter(
    group: Ints, lo: Floats, hi: Floats, arrived: Floats, expires: Floats, strong: int = STRONG, most: int = MOST
) -> tuple[Ints, Floats]:
    """The rows that can matter in their groups, and until when each one can. O(rows · kept) word comparisons at worst.

    Where only the end counts, let all rows arrive at once. A row too many may stay, never one too few.
    """
    rows = Lives(lo, hi, arrived, expires)
    weak = lo @ np.full(lo.shape[1], -1.0)  # the sums, negated
    apart = not (arrived == arrived[:1]).all()
    left = _sifted(group, weak, rows, strong, apart)
    order = left[np.lexsort((weak[left], group[left]))]
    few = Lives(lo[order], hi[order], arrived[order], expires[order])
    heirs = _words(few, few.expires)
    holders = _words(few, -few.arrived) if apart else heirs
    kept, until = uncovered(group[order], few, heirs, holders, most)
    back = np.argsort(order[kept])
    return order[kept][back], until[back]


def _sifted(group: Ints, weak: Floats, rows: Lives, strong: int, apart: bool) -> Ints:
    """The rows that the strongest few of their groups do not cover; small groups are left as they are."""
    if not len(group) or group.min() == group.max():
        parts = [np.arange(len(group))]
    else:
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    left = []
    for part in parts:
        if len(part) >= 8 * strong:
            part = part[np.argpartition(weak[part], strong - 1)]  # the strongest first, the others in any order
            part = part[sift(rows, part, strong, apart)]
        left.append(part)
    return np.concatenate(left)


def _words(rows: Lives, also: Floats) -> Coded:
    """Words of both corners with one attribute more."""
    lo, hi = (np.concatenate((also[:, None], corner), axis=1) for corner in (rows.lo, rows.hi))
    step = max(1, len(lo) // SAMPLE)
    worst, best = words(lo, hi, cut_points(lo[::step], hi[::step]))
    return Coded(worst, best, fences(lo.shape[1]))


@kernel
def sift(rows, order, strong, apart):
    """The places in `order` (strongest first) of the rows that the first few do not cover: most rows end here.

    `apart`: rows arrive one after the other, so there may be holders that are no heirs.
    """
    n, m = order.shape[0], min(strong, order.shape[0])
    best, begins, ends = rows.lo[order[:m]], rows.arrived[order[:m]], rows.expires[order[:m]]
    left = np.empty(n, np.int64)
    k = 0
    for place in range(n):
        q = order[place]
        t, e = rows.arrived[q], rows.expires[q]
        held, after = -np.inf, np.inf
        for r in range(m):
            heir, holder = ends[r] >= e and begins[r] < after, apart and begins[r] <= t and ends[r] > held
            if (heir or holder) and beats(best, r, rows.hi, q):
                held, after = ends[r] if holder else held, begins[r] if heir else after
                if held >= after or after <= t:
                    break
        if held < after and after > t:
            left[k] = place
            k += 1
    return left[:k]


@kernel
def uncovered(group, rows, heirs, holders, most):
    """The rows that stay, and until when.

    Rows lie by group, and in it with the sums of `lo` falling: a row that beats another comes no later.
    """
    n = rows.lo.shape[0]
    kept = Kept(np.empty(n, np.int64), np.empty(n), np.empty(n, np.uint64), np.empty(n, np.uint64))
    first = m = 0
    for q in range(n):
        if q > 0 and group[q] != group[q - 1]:
            first = m
        last = min(m, first + most)
        after = first_heir(rows, kept, heirs, first, last, q)
        if after <= rows.arrived[q] or (after < np.inf and is_held(rows, kept, holders, first, last, q, after)):
            continue
        kept.row[m], kept.until[m] = q, min(rows.expires[q], after)
        kept.heir[m], kept.holder[m] = heirs.lo[q], holders.lo[q]
        m += 1
    return kept.row[:m], kept.until[:m]


@inner
def first_heir(rows, kept, heirs, first, last, q):
    """When a kept row that surely beats q and outlives it arrives; of the first few that are found, the earliest."""
    after, word, fence = np.inf, heirs.hi[q], heirs.fence
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(kept.heir, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = kept.row[r]
            if (
                covers(kept.heir[r], word, fence)
                and rows.expires[s] >= rows.expires[q]
                and rows.arrived[s] < after
                and beats(rows.lo, s, rows.hi, q)
            ):
                after = rows.arrived[s]
        if after < np.inf:
            break
    return after


@inner
def is_held(rows, kept, holders, first, last, q, after):
    """Does a kept row that was there before q, and surely beats it, live until `after`?"""
    word, fence = holders.hi[q], holders.fence
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(kept.holder, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = kept.row[r]
            if (
                covers(kept.holder[r], word, fence)
                and rows.arrived[s] <= rows.arrived[q]
                and rows.expires[s] >= after
                and beats(rows.lo, s, rows.hi, q)
            ):
                return True
    return False
