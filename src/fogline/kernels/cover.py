"""Which rows of a chunk can ever matter?

A row whose whole life is covered by the lives of rows that surely beat it has probability 0 at every instant, and at
every instant whatever it could beat is beaten surely by another. So it can go, wherever the chunk was cut from the
stream. Two lives are enough to look at: an *heir*, which expires no earlier than the row, and, if the heir arrives
later than the row, a *holder*, which has arrived before the row and lives until the heir comes.

Dropped rows need not serve as heirs or holders themselves: what covers them covers what they would have covered. The
same holds for those that are marked as having covered: whatever a dropped row covered, marked rows that stay cover.

A row that may turn out to be a copy of another must not cover, nor go without its name: see `flow/screening.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.words import BLOCK, any_covers, covers, cut_points, fences, words

STRONG = 128  # so many rows with the greatest sums are tried first: they end most of the others
MOST = 4096  # no row is compared with more than the strongest so many: where nearly all stay, that is time for nothing
SAMPLE = 1000  # rows to choose cut points by


class Lives(NamedTuple):
    """Boxes, when they live, and what may become of them."""

    lo: Floats  # (n, d)
    hi: Floats  # (n, d)
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    covers: Flags  # (n,) whether others may go because of it
    stays: Flags  # (n,) whether it must not go itself

    def part(self, which: Ints) -> Lives:
        """Some of the rows."""
        times = self.arrived[which], self.expires[which]
        return Lives(self.lo[which], self.hi[which], *times, self.covers[which], self.stays[which])


class Coded(NamedTuple):
    """Words of both corners of boxes, with one attribute more, and their fence bits."""

    lo: Words
    hi: Words
    fence: np.uint64


class Cover(NamedTuple):
    """The rows that stay so far and may cover others, in the order they were found."""

    row: Ints
    heir: Words  # words of their worst corners, the later expiry being better, …
    holder: Words  # … and with the earlier arrival being better


def matter(group: Ints, rows: Lives, strong: int = STRONG, most: int = MOST) -> tuple[Ints, Flags]:
    """The rows that can matter in their groups, and which of these cover others that go.

    O(rows · kept) word comparisons at worst. Where only the end counts, let all rows arrive at once. A row too many may
    stay, never one too few.
    """
    weak = rows.lo @ np.full(rows.lo.shape[1], -1.0)  # the sums, negated
    apart = not (rows.arrived == rows.arrived[:1]).all()
    used = np.zeros(len(group), np.bool_)
    left = _sifted(group, weak, rows, strong, apart, used)
    idle = rows.stays[left] & ~rows.covers[left]  # they stay, and need not be compared with any
    order = left[~idle]
    order = order[np.lexsort((weak[order], group[order]))]
    few = rows.part(order)
    heirs = _words(few, few.expires)
    holders = _words(few, -few.arrived) if apart else heirs
    kept, covering = uncovered(group[order], few, heirs, holders, most)
    used[order[covering]] = True
    stay = np.concatenate((order[kept], left[idle]))
    stay = stay[np.argsort(stay)]
    return stay, used[stay]


def _sifted(group: Ints, weak: Floats, rows: Lives, strong: int, apart: bool, used: Flags) -> Ints:
    """The rows that the strongest few of their groups do not cover; small groups are left as they are."""
    if not len(group) or group.min() == group.max():
        parts = [np.arange(len(group))]
    else:
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    left = []
    for part in parts:
        if len(part) >= 8 * strong:
            first = np.argpartition(np.where(rows.covers[part], weak[part], np.inf), strong - 1)
            part = part[first]  # the strongest that may cover first, the others in any order
            part = part[sift(rows, part, strong, apart, used)]
        left.append(part)
    return np.concatenate(left)


def _words(rows: Lives, also: Floats) -> Coded:
    """Words of both corners with one attribute more."""
    lo, hi = (np.concatenate((also[:, None], corner), axis=1) for corner in (rows.lo, rows.hi))
    step = max(1, len(lo) // SAMPLE)
    worst, best = words(lo, hi, cut_points(lo[::step], hi[::step]))
    return Coded(worst, best, fences(lo.shape[1]))


@kernel
def sift(rows, order, strong, apart, used):
    """The places in `order` (strongest first) of the rows that the first few do not cover: most rows end here.

    `apart`: rows arrive one after the other, so there may be holders that are no heirs. Marks in `used` the rows that
    cover any.
    """
    n, m = order.shape[0], 0
    while m < min(strong, n) and rows.covers[order[m]]:
        m += 1
    best, begins, ends = rows.lo[order[:m]], rows.arrived[order[:m]], rows.expires[order[:m]]
    left = np.empty(n, np.int64)
    k = 0
    for place in range(n):
        q = order[place]
        t, e = rows.arrived[q], rows.expires[q]
        held, after = -np.inf, np.inf
        by_holder = by_heir = 0
        for r in range(m if not rows.stays[q] else 0):
            heir, holder = ends[r] >= e and begins[r] < after, apart and begins[r] <= t and ends[r] > held
            if (heir or holder) and beats(best, r, rows.hi, q):
                if holder:
                    held, by_holder = ends[r], r
                if heir:
                    after, by_heir = begins[r], r
                if held >= after or after <= t:
                    break
        if held < after and after > t:
            left[k] = place
            k += 1
        else:
            used[order[by_heir]] = True
            if after > t:
                used[order[by_holder]] = True
    return left[:k]


@kernel
def uncovered(group, rows, heirs, holders, most):
    """The rows that stay, and those that cover others.

    Rows lie by group, and in it with the sums of `lo` falling: a row that beats another comes no later.
    """
    n = rows.lo.shape[0]
    cover = Cover(np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n, np.uint64))
    kept, used = np.empty(n, np.int64), np.zeros(n, np.bool_)
    first = m = k = 0
    for q in range(n):
        if q > 0 and group[q] != group[q - 1]:
            first = m
        if not rows.stays[q]:
            last = min(m, first + most)
            heir = first_heir(rows, cover, heirs, first, last, q)
            if heir >= 0:
                after = rows.arrived[heir]
                holder = heir if after <= rows.arrived[q] else holder_of(rows, cover, holders, first, last, q, after)
                if holder >= 0:
                    used[heir] = used[holder] = True
                    continue
        kept[k] = q
        k += 1
        if rows.covers[q]:
            cover.row[m], cover.heir[m], cover.holder[m] = q, heirs.lo[q], holders.lo[q]
            m += 1
    return kept[:k], np.flatnonzero(used)


@inner
def first_heir(rows, cover, heirs, first, last, q):
    """A row that surely beats q and outlives it; of the first few that are found, the earliest. -1: there is none."""
    after, found, word, fence = np.inf, -1, heirs.hi[q], heirs.fence
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(cover.heir, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = cover.row[r]
            if (
                covers(cover.heir[r], word, fence)
                and rows.expires[s] >= rows.expires[q]
                and rows.arrived[s] < after
                and beats(rows.lo, s, rows.hi, q)
            ):
                after, found = rows.arrived[s], s
        if found >= 0:
            break
    return found


@inner
def holder_of(rows, cover, holders, first, last, q, after):
    """A row that was there before q, surely beats it, and lives until `after`. -1: there is none."""
    word, fence = holders.hi[q], holders.fence
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(cover.holder, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = cover.row[r]
            if (
                covers(cover.holder[r], word, fence)
                and rows.arrived[s] <= rows.arrived[q]
                and rows.expires[s] >= after
                and beats(rows.lo, s, rows.hi, q)
            ):
                return s
    return -1
