"""Which points does none beat, when all of them are known?

Larger is better. Points are looked at from the greatest sum down, so a point that beats another comes before it, and is
compared only with those that none has beaten so far; equal points lie side by side and share one comparison. Most
points are beaten by one of the few with the greatest sums, and are not even sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.words import BLOCK, any_covers, covers, cut_points, fences, words

STRONG = 48  # so many points with the greatest sums are tried first
SAMPLE = 1000  # points to choose cut points by


class Front(NamedTuple):
    """Points that none of their group beats, each once, group by group."""

    points: Floats  # (m, d)
    word: Words  # (m,)
    begin: Ints  # (groups + 1,) where each group's points begin
    cuts: Floats  # the cut points of the words


def front(group: Ints, points: Floats, groups: int) -> tuple[Ints, Front]:
    """The rows of points (n, d) that none in their group (n,) beats, ascending; and they as what beats others.

    O(n · front) comparisons of words at worst.
    """
    d = points.shape[1]
    sums, rows = _sums(points), np.arange(len(points))
    if groups == 1 and len(rows) >= 8 * STRONG:
        strong = np.argpartition(sums, len(rows) - STRONG)[-STRONG:]
        rows = unbeaten(points, points[strong[np.argsort(-sums[strong])]])
    order = rows[np.lexsort((*points[rows].T, sums[rows], -group[rows]))[::-1]]
    few, of = np.ascontiguousarray(points[order]), group[order]
    cuts = cut_points(few[:: max(1, len(few) // SAMPLE)], few[:0])
    word, _ = words(few, few, cuts)
    stays, first = _sweep(of, few, word, fences(d))
    begin = np.searchsorted(of[first], np.arange(groups + 1))
    return np.sort(order[stays]), Front(few[first], word[first], begin, cuts)


def surely_beaten(by: Front, group: Ints, corners: Floats) -> Flags:
    """(n,) whether the front beats these corners (n, d) of rows of these groups (n,)."""
    word, _ = words(corners, corners, by.cuts)
    return np.asarray(_beaten(by, group, corners, word, fences(corners.shape[1])))


@kernel
def _sums(points):
    """(n,) the mean of each point's values. A point that is nowhere smaller has no smaller one, rounding included."""
    n, d = points.shape
    out = np.zeros(n)
    for i in range(n):
        for j in range(d):
            out[i] += points[i, j] / d
    return out


@kernel
def unbeaten(points, strong):
    """The points that none of a few strong ones beats."""
    left = np.empty(points.shape[0], np.int64)
    k = 0
    for i in range(points.shape[0]):
        lost = False
        for s in range(strong.shape[0]):
            if beats(strong, s, points, i):
                lost = True
                break
        if not lost:
            left[k] = i
            k += 1
    return left[:k]


@kernel
def _sweep(group, points, word, fence):
    """Which points stay, and of equal ones the first. Points lie by group, greatest sums first, equal ones together."""
    n, d = points.shape
    stays, first = np.zeros(n, np.bool_), np.empty(n, np.int64)
    kept, kept_word = np.empty((n, d)), np.empty(n, np.uint64)
    begin = m = 0
    for i in range(n):
        again = i > 0 and group[i] == group[i - 1]
        if i > 0 and not again:
            begin = m
        for j in range(d):
            again = again and points[i, j] == points[i - 1, j]
        if again:
            stays[i] = stays[i - 1]
        elif not _lost(kept, kept_word, begin, m, points, i, word[i], fence):
            stays[i] = True
            first[m], kept[m], kept_word[m] = i, points[i], word[i]
            m += 1
    return stays, first[:m].copy()


@inner
def _lost(kept, kept_word, begin, end, points, i, word, fence):
    """Does any of kept[begin:end], with their words, beat points[i]?"""
    for a in range(begin, end, BLOCK):
        b = min(a + BLOCK, end)
        if any_covers(kept_word, a, b, word, fence):
            for r in range(a, b):
                if covers(kept_word[r], word, fence) and beats(kept, r, points, i):
                    return True
    return False


@kernel
def _beaten(by, group, corners, word, fence):
    out = np.zeros(corners.shape[0], np.bool_)
    for i in range(corners.shape[0]):
        a, b = by.begin[group[i]], by.begin[group[i] + 1]
        out[i] = _lost(by.points, by.word, a, b, corners, i, word[i], fence)
    return out
