"""Is there a point above another, that is, nowhere smaller, and somewhere greater?

Points lie in a tree of boxes: each node is cut in two halves at the middle of one attribute, the next one level by
level, and knows the greatest value of each attribute below it. A node that is not above a point itself has none below
it that is. Where few points are above others, only nodes nearby are looked at; where many are, one is soon found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints, Sums, UncertainRows, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.instances import (
    ROOM,
    beats_places,
    empty_grid,
    merge_places,
    own_grid,
    place_weights,
    scratch_for,
    values_of,
)
from fogline.kernels.sums import account, clear, spared, total
from fogline.kernels.words import BLOCK, any_covers, covers, cut_points, fences, words

LEAF = 16  # at most so many points are not cut any more
STEP, SHIFT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # of Knuth's random numbers


class PointTree(NamedTuple):
    """Node i of level l is number 2^l + i, and has the points from n·i / 2^l on."""

    row: Ints  # (n,)
    point: Floats  # (n, d) of these rows
    top: Floats  # (nodes, d) the greatest values
    levels: int


@inner
def halve(points, j, row, begin, middle, end):
    """Put row[begin:end] such that no row before `middle` has a greater value of attribute j than one from there on.

    By quickselect, O(rows); its pivots are any, so that no order of the rows makes it slow.
    """
    chance, last = np.uint64(end - begin), end - 1
    while begin < last:
        chance = chance * STEP + SHIFT
        pivot = points[row[begin + np.int64(chance >> np.uint64(33)) % (last - begin + 1)], j]
        a, b = begin, last
        while a <= b:
            while points[row[a], j] < pivot:
                a += 1
            while points[row[b], j] > pivot:
                b -= 1
            if a <= b:
                row[a], row[b] = row[b], row[a]
                a += 1
                b -= 1
        if middle <= b:
            last = b
        elif middle >= a:
            begin = a
        else:
            return


@inner
def point_tree(points, which):
    """The tree of the rows `which` of points (., d). O(n · d · log n)."""
    n, d = which.shape[0], points.shape[1]
    row, levels = which.copy(), 0
    while n >> levels > LEAF:
        for i in range(1 << levels):
            begin, middle, end = n * i >> levels, n * (2 * i + 1) >> levels + 1, n * (i + 1) >> levels
            halve(points, levels % d, row, begin, middle, end)
        levels += 1
    point, top = np.empty((n, d)), np.full((2 << levels, d), -np.inf)
    for k in range(n):
        for j in range(d):  # not a row at once: Numba would compile the error that it raises, which takes a second
            point[k, j] = points[row[k], j]
    for i in range(1 << levels):
        for k in range(n * i >> levels, n * (i + 1) >> levels):
            for j in range(d):
                if point[k, j] > top[(1 << levels) + i, j]:
                    top[(1 << levels) + i, j] = point[k, j]
    for node in range((1 << levels) - 1, 0, -1):
        for j in range(d):
            top[node, j] = max(top[2 * node, j], top[2 * node + 1, j])
    return PointTree(row, point, top, levels)


@inner
def is_above(points, i, others, o, strictly):
    """Is row i of `points` nowhere smaller than row o of `others` and, if `strictly`, somewhere greater?"""
    greater = not strictly
    for j in range(points.shape[1]):
        if not points[i, j] >= others[o, j]:  # also true for NaN
            return False
        greater |= points[i, j] > others[o, j]
    return greater


@inner
def any_above(tree, others, o, own, strictly, stack):
    """Is there a point of the tree, but for that of row `own`, above row o of `others`?

    `stack`: room for one node more than there are levels, twice.
    """
    n, levels = tree.row.shape[0], tree.levels
    stack[0], size = 1, 1
    while size > 0:
        size -= 1
        node = stack[size]
        if not is_above(tree.top, node, others, o, strictly):
            continue
        if node < 1 << levels:
            stack[size], stack[size + 1] = 2 * node, 2 * node + 1  # the half with the greater values comes first
            size += 2
            continue
        i = node - (1 << levels)
        for k in range(n * i >> levels, n * (i + 1) >> levels):
            if is_above(tree.point, k, others, o, strictly) and tree.row[k] != own:
                return True
    return False


@inner
def stack_for(tree):
    """Room for a search."""
    return np.empty(2 * (tree.levels + 1), np.int64)


@kernel
def as_good_as(points, asked):
    """(q,) whether one of the points (n, d) is nowhere smaller than each of those asked for (q, d)."""
    tree, out = point_tree(points, np.arange(points.shape[0])), np.empty(asked.shape[0], np.bool_)
    stack = stack_for(tree)
    for o in range(asked.shape[0]):
        out[o] = any_above(tree, asked, o, -1, False, stack)
    return out


# --- front ---
# Which points does none beat, when all of them are known?
#
# Larger is better. Points are looked at from the greatest sum down, so a point that beats another comes before it,
# and is
# compared only with those that none has beaten so far; equal points lie side by side and share one comparison. Most
# points are beaten by one of the few with the greatest sums, and are not even sorted.

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


# --- fronts ---
# Can a cloud be in the answer at all, and can it be out?
#
# By the ends of the present distributions, so exactly: a cloud is in under every value when no other's best place
# beats
# its worst one, and under none when another's worst place beats its best one.

IMPOSSIBLE, OPEN, CERTAIN = 0, 1, 2


@inner
def near_of(lows, highs, o, others, near):
    """Which front o is in, and how many of `others` may beat it for some values: these are put into `near`.

    lows, highs (n, d): the ends of the clouds' distributions. They are compared right here: most pairs end at once, and
    a call would take longer than that.
    """
    d, m, front = lows.shape[1], 0, CERTAIN
    for g in others:
        j = 0
        while j < d and highs[g, j] >= lows[o, j]:
            j += 1
        if j < d or g == o:
            continue
        better, sure, surely_better = False, True, False
        for i in range(d):
            better |= highs[g, i] > lows[o, i]
            sure &= lows[g, i] >= highs[o, i]
            surely_better |= lows[g, i] > highs[o, i]
        if better:
            near[m] = g
            m += 1
            front = IMPOSSIBLE if sure and surely_better else min(front, OPEN)
    return front, m


@kernel
def fronts_of(lows, highs, asked, others):
    """(q,) which front the clouds `asked` are in, among `others`; lows, highs (n, d): their ends.

    O((q + others) · log others) where few of them overlap, or many; O(q · others) at worst.
    """
    best, out = point_tree(highs, others), np.empty(asked.shape[0], np.int64)
    stack, opened = stack_for(best), 0
    for k in range(asked.shape[0]):
        out[k] = OPEN if any_above(best, lows, asked[k], asked[k], True, stack) else CERTAIN
        opened += out[k] == OPEN
    worst = point_tree(lows, others[:0] if opened == 0 else others)
    for k in range(asked.shape[0]):
        if out[k] == OPEN and any_above(worst, highs, asked[k], asked[k], True, stack):
            out[k] = IMPOSSIBLE
    return out


@kernel
def chances_of(uncertain, lows, highs, asked, opened):
    """(q,) the probabilities of the clouds `asked`; NaN for one of too many places. O(q · open · places)."""
    d = uncertain.lo.shape[1]
    out, scratch = np.empty(asked.shape[0]), scratch_for(ROOM)
    near = np.empty(opened.shape[0], np.int64)
    sums = Sums(np.empty((ROOM, 2), np.int64), np.empty(ROOM, np.int64))
    for k in range(asked.shape[0]):
        o = asked[k]
        grid = empty_grid(values_of(uncertain, o), d)
        _, m = near_of(lows, highs, o, opened, near)
        if merge_places(uncertain, o, near[:m], grid) > ROOM:
            out[k] = np.nan
            continue
        places = place_weights(grid, scratch.weight)
        clear(sums, 0, places)
        for g in near[:m]:
            if beats_places(uncertain, g, o, grid, scratch):
                account(scratch.chance, places, 1, sums, 0)
        out[k] = total(scratch.weight, places, sums, 0)
    return out


# --- once ---
# How probably does none beat a row, when all rows are there at once and nothing will come or go?
#
# No sums are kept, no guard is remembered: the places of a row lose weight rival by rival, until none is left or what
# remains is not enough. Rivals that end most rows should come first.

OUT = -1.0


class Rivals(NamedTuple):
    """Clouds with their words."""

    uncertain: UncertainRows
    word_lo: Words
    word_hi: Words
    fence: np.uint64


@kernel
def chances(rivals, asked, threshold, places):
    """(q,) the probabilities of the clouds `asked` (q,), each of at most so many places.

    OUT where one is at or below the threshold, or where a rival surely beats the cloud.
    """
    scratch, near = scratch_for(places), np.empty(rivals.word_hi.shape[0], np.int64)
    sums = Sums(np.empty((places, 2), np.int64), np.empty(places, np.int64))
    out = np.empty(asked.shape[0])
    for k in range(asked.shape[0]):
        o = asked[k]
        m = _rivals(rivals, o, threshold, near, scratch)
        out[k] = OUT if m < 0 else _chance(rivals.uncertain, o, near[:m], sums, scratch)
    return out


@inner
def _rivals(rivals, o, threshold, near, scratch):
    """The clouds that can beat o, into `near`: how many? -1: they keep it out."""
    uncertain, word, fence = rivals.uncertain, rivals.word_lo[o], rivals.fence
    grid = own_grid(uncertain, o)
    places = place_weights(grid, scratch.left)
    m, n = 0, uncertain.lo.shape[0]
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        if not any_covers(rivals.word_hi, begin, end, word, fence):
            continue
        for g in range(begin, end):
            if g == o or not covers(rivals.word_hi[g], word, fence) or not beats(uncertain.hi, g, uncertain.lo, o):
                continue
            if beats(uncertain.lo, g, uncertain.hi, o):
                return -1
            if beats_places(uncertain, g, o, grid, scratch):
                near[m], left = g, 0.0
                m += 1
                for k in range(places):
                    scratch.left[k] *= spared(scratch.chance[k])
                    left += scratch.left[k]
                if left <= threshold:
                    return -1
    return m


@inner
def _chance(uncertain, o, near, sums, scratch):
    """The probability of o, which the bounds did not keep out."""
    grid = own_grid(uncertain, o)
    places = place_weights(grid, scratch.weight)
    clear(sums, 0, places)
    for g in near:
        if beats_places(uncertain, g, o, grid, scratch):
            account(scratch.chance, places, 1, sums, 0)
    return total(scratch.weight, places, sums, 0)
