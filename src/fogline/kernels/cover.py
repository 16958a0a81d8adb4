"""Which rows of a chunk can ever matter?

A row whose whole life is covered by the lives of rows that surely dominate it has probability 0 at every instant, and
whatever it could dominate is surely dominated by another. So it can go, wherever the chunk was cut from the stream. Two
lives are enough to look at: a *later cover*, which expires no earlier than the row; and if that arrives later than the
row, an *earlier cover*, which has arrived before the row and lives until the other comes.

Dropped rows need not serve as covers themselves: what covers them covers what they would have covered. The same holds
for those that are marked as having covered: whatever a dropped row covered, marked rows that stay cover.

Where fewer than k others may dominate a row (a skyband), k rows must cover it, each of them from its arrival to its
expiry, and all with names of their own. `engine.skyband` has the proof: what k rows of a part cover, k rows cover in
the whole; and of those that cover a row, k are never covered by k themselves.

A row that may turn out to be a copy of another must not cover, nor go without its name: see `pipeline/prune.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import dominates
from fogline.kernels.words import BLOCK, any_covers, covers, cut_points, fences, words

STRONG = 128  # so many rows with the greatest sums are tried first: they end most of the others
COMPARED = 4096  # no row is compared with more than the strongest so many: more cost time where nearly all rows stay
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
    later_cover: Words  # words of their worst corners, the later expiry being better, …
    earlier_cover: Words  # … and with the earlier arrival being better


def matter(
    group: Ints, rows: Lives, strong: int = STRONG, most: int = COMPARED, skyband: int = 1
) -> tuple[Ints, Flags]:
    """The rows that can matter in their groups, and which of these cover others that go.

    `skyband`: so many rows must cover one. O(rows · kept) word comparisons at worst. Where only the end counts, let all
    rows arrive at once. A row too many may stay, never one too few.
    """
    weak = rows.lo @ np.full(rows.lo.shape[1], -1.0)  # the sums, negated
    apart = not (rows.arrived == rows.arrived[:1]).all()
    used = np.zeros(len(group), np.bool_)
    left = _sifted(group, weak, rows, strong, apart, used) if skyband == 1 else np.arange(len(group))
    idle = rows.stays[left] & ~rows.covers[left]  # they stay, and need not be compared with any
    order = left[~idle]
    order = order[np.lexsort((weak[order], group[order]))]
    few = rows.part(order)
    later_covers = _words(few, few.expires)
    if skyband > 1:
        kept, covering = uncovered_by(group[order], few, later_covers, most, skyband)
    else:
        earlier_covers = _words(few, -few.arrived) if apart else later_covers
        kept, covering = uncovered(group[order], few, later_covers, earlier_covers, most)
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

    `apart`: rows arrive one after the other, so an earlier cover may be no later one. Marks in `used` the rows that
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
        by_earlier_cover = by_later_cover = 0
        for r in range(m if not rows.stays[q] else 0):
            later_cover, earlier_cover = ends[r] >= e and begins[r] < after, apart and begins[r] <= t and ends[r] > held
            if (later_cover or earlier_cover) and dominates(best, r, rows.hi, q):
                if earlier_cover:
                    held, by_earlier_cover = ends[r], r
                if later_cover:
                    after, by_later_cover = begins[r], r
                if held >= after or after <= t:
                    break
        if held < after and after > t:
            left[k] = place
            k += 1
        else:
            used[order[by_later_cover]] = True
            if after > t:
                used[order[by_earlier_cover]] = True
    return left[:k]


@kernel
def uncovered(group, rows, later_covers, earlier_covers, most):
    """The rows that stay, and those that cover others.

    Rows lie by group, and in it with the sums of `lo` falling: a row that dominates another comes no later.
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
            later_cover = first_later_cover(rows, cover, later_covers, first, last, q)
            if later_cover >= 0:
                after = rows.arrived[later_cover]
                earlier_cover = (
                    later_cover
                    if after <= rows.arrived[q]
                    else earlier_cover_of(rows, cover, earlier_covers, first, last, q, after)
                )
                if earlier_cover >= 0:
                    used[later_cover] = used[earlier_cover] = True
                    continue
        kept[k] = q
        k += 1
        if rows.covers[q]:
            cover.row[m], cover.later_cover[m], cover.earlier_cover[m] = q, later_covers.lo[q], earlier_covers.lo[q]
            m += 1
    return kept[:k], np.flatnonzero(used)


@kernel
def uncovered_by(group, rows, later_covers, most, k):
    """As `uncovered`, where k rows must cover one from its arrival to its expiry."""
    n, fence = rows.lo.shape[0], later_covers.fence
    row, word = np.empty(n, np.int64), np.empty(n, np.uint64)
    kept, used, by = np.empty(n, np.int64), np.zeros(n, np.bool_), np.empty(k, np.int64)
    first = m = end = 0
    for q in range(n):
        if q > 0 and group[q] != group[q - 1]:
            first = m
        count, r = 0, first if not rows.stays[q] else m
        while r < min(m, first + most) and count < k:
            s = row[r]
            if (
                covers(word[r], later_covers.hi[q], fence)
                and rows.arrived[s] <= rows.arrived[q]
                and rows.expires[s] >= rows.expires[q]
                and dominates(rows.lo, s, rows.hi, q)
            ):
                by[count] = s
                count += 1
            r += 1
        if count == k:
            for s in by:
                used[s] = True
            continue
        kept[end] = q
        end += 1
        if rows.covers[q]:
            row[m], word[m] = q, later_covers.lo[q]
            m += 1
    return kept[:end], np.flatnonzero(used)


@inner
def first_later_cover(rows, cover, later_covers, first, last, q):
    """A row that surely dominates q and outlives it; of the first few found the earliest. -1: there is none."""
    after, found, word, fence = np.inf, -1, later_covers.hi[q], later_covers.fence
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(cover.later_cover, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = cover.row[r]
            if (
                covers(cover.later_cover[r], word, fence)
                and rows.expires[s] >= rows.expires[q]
                and rows.arrived[s] < after
                and dominates(rows.lo, s, rows.hi, q)
            ):
                after, found = rows.arrived[s], s
        if found >= 0:
            break
    return found


@inner
def earlier_cover_of(rows, cover, earlier_covers, first, last, q, after):
    """A row that was there before q, surely dominates it, and lives until `after`. -1: there is none."""
    word, fence = earlier_covers.hi[q], earlier_covers.fence
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        if not any_covers(cover.earlier_cover, begin, end, word, fence):
            continue
        for r in range(begin, end):
            s = cover.row[r]
            if (
                covers(cover.earlier_cover[r], word, fence)
                and rows.arrived[s] <= rows.arrived[q]
                and rows.expires[s] >= after
                and dominates(rows.lo, s, rows.hi, q)
            ):
                return s
    return -1
