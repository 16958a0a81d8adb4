"""Rows that are compared once: which points have none above them, in which front rows are, how probable they are.

Three questions, cheapest first:

- *Points.* Is there a point above another: nowhere smaller, and somewhere greater? Points lie in a tree of boxes: each
  node is cut in two halves at the middle of one attribute, the next one level by level, and knows the greatest value of
  each attribute below it. A node that is not above a point has no point below it that is. `front` finds the complete
  rows that none dominates.
- *Ends.* By the ends of distributions a row is in under every value if no other's best instance dominates its worst one
  (CERTAIN), under none if another's worst instance dominates its best one (IMPOSSIBLE), else under some (OPEN). Exact.
- *Probabilities.* `chances_of` works them out of rows of a live set; `chances` of rows of a table, where bounds first
  show most rows to be out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints, Sums, UncertainRows, Words
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import AHEAD, BEHIND, EVEN, compare, dominates, dominates_row
from fogline.kernels.instances import (
    ROOM,
    dominates_instances,
    empty_grid,
    instance_weights,
    merge_instances,
    own_grid,
    scratch_for,
    values_of,
)
from fogline.kernels.sums import account, clear, left_by, total
from fogline.kernels.words import BLOCK, any_covers, covers

LEAF = 16  # at most so many points are not cut any more
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # of Knuth's random numbers
STRONG = 48  # so many points with the greatest sums are tried first
IMPOSSIBLE, OPEN, CERTAIN = 0, 1, 2
NOT_ABOVE = -1.0  # in place of a probability: not above the threshold


# --- Is there a point above another? ----------------------------------------------------------------------------------


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
        chance = chance * MULTIPLIER + INCREMENT
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
    found = EVEN
    for j in range(points.shape[1]):
        found = compare(found, points[i, j], others[o, j])
        if found == BEHIND:
            return False
    return found == AHEAD or not strictly


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


# --- Which points does none dominate? ---------------------------------------------------------------------------------


class Front(NamedTuple):
    """Points that none of their group dominates, group by group."""

    points: Floats  # (m, d)
    begin: Ints  # (groups + 1,) where each group's points begin


def front(group: Ints, points: Floats, groups: int) -> tuple[Ints, Front]:
    """The rows of points (n, d) that none in their group (n,) dominates, ascending; and the front that they are.

    Of one group, most points are dominated by one of the few with the greatest sums: the tree holds the others.
    """
    n, d = points.shape
    rows = np.arange(n)
    if groups == 1 and n >= 8 * STRONG:
        sums = (points / d).sum(axis=1)
        strong = np.argpartition(sums, n - STRONG)[-STRONG:]
        rows = undominated(points, points[strong[np.argsort(-sums[strong])]])
    order, begin = _by_group(group[rows], groups)
    order = rows[order]
    top = order[front_rows(points, order, begin)]
    return np.sort(top), Front(points[top], np.searchsorted(group[top], np.arange(groups + 1)))


def surely_dominated(by: Front, group: Ints, corners: Floats) -> Flags:
    """(n,) whether the front dominates these corners (n, d) of rows of these groups (n,)."""
    return np.asarray(dominated(by, corners, *_by_group(group, len(by.begin) - 1)))


def _by_group(group: Ints, groups: int) -> tuple[Ints, Ints]:
    """The rows group by group, and where (groups + 1,) each group begins."""
    order = np.argsort(group, kind="stable")
    return order, np.searchsorted(group[order], np.arange(groups + 1))


@kernel
def undominated(points, strong):
    """The points that none of a few strong ones dominates."""
    left = np.empty(points.shape[0], np.int64)
    k = 0
    for i in range(points.shape[0]):
        lost = False
        for s in range(strong.shape[0]):
            if dominates(strong, s, points, i):
                lost = True
                break
        if not lost:
            left[k] = i
            k += 1
    return left[:k]


@kernel
def front_rows(points, order, begin):
    """(n,) whether none in its group dominates each row of `order`, which holds the rows group by group."""
    out = np.ones(order.shape[0], np.bool_)
    for group in range(begin.shape[0] - 1):
        which = order[begin[group] : begin[group + 1]]
        if which.shape[0] > 1:
            tree = point_tree(points, which)
            stack = stack_for(tree)
            for k in range(which.shape[0]):
                out[begin[group] + k] = not any_above(tree, points, which[k], which[k], True, stack)
    return out


@kernel
def dominated(by, corners, order, begin):
    """(n,) whether the front dominates each of the corners (n, d), which `order` holds group by group."""
    out = np.zeros(corners.shape[0], np.bool_)
    for group in range(begin.shape[0] - 1):
        which = order[begin[group] : begin[group + 1]]
        if which.shape[0] > 0:
            tree = point_tree(by.points, np.arange(by.begin[group], by.begin[group + 1]))
            stack = stack_for(tree)
            for i in which:
                out[i] = any_above(tree, corners, i, -1, True, stack)
    return out


# --- In which front is a row? -----------------------------------------------------------------------------------------


@inner
def near_of(lows, highs, o, others, near):
    """Which front o is in, and how many of `others` dominate it under some values: these are put into `near`.

    lows, highs (n, d): the ends of the rows' distributions.
    """
    m, front = 0, CERTAIN
    for g in others:
        if g != o and dominates(highs, g, lows, o):
            near[m] = g
            m += 1
            front = IMPOSSIBLE if dominates(lows, g, highs, o) else min(front, OPEN)
    return front, m


@kernel
def fronts_of(lows, highs, asked, others):
    """(q,) which front the rows `asked` are in, among `others`; lows, highs (n, d): their ends.

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


# --- How probably does none dominate a row? ---------------------------------------------------------------------------


@inner
def summed(uncertain, o, near, grid, sums, scratch):
    """P(o) over the instances of a grid, all dominators summed."""
    instances = instance_weights(grid, scratch.weight)
    clear(sums, 0, instances)
    for g in near:
        if dominates_instances(uncertain, g, o, grid, scratch):
            account(scratch.chance, instances, 1, sums, 0)
    return total(scratch.weight, instances, sums, 0)


@kernel
def chances_of(uncertain, lows, highs, asked, opened):
    """(q,) the probabilities of the rows `asked`; NaN for one of too many instances. O(q · open · instances).

    lows, highs (n, d): the ends of all rows.
    """
    d = uncertain.lo.shape[1]
    out, scratch = np.empty(asked.shape[0]), scratch_for(ROOM)
    near = np.empty(opened.shape[0], np.int64)
    sums = Sums(np.empty((ROOM, 2), np.int64), np.empty(ROOM, np.int64))
    for k in range(asked.shape[0]):
        o = asked[k]
        grid = empty_grid(values_of(uncertain, o), d)
        _, m = near_of(lows, highs, o, opened, near)
        if merge_instances(uncertain, o, near[:m], grid) > ROOM:
            out[k] = np.nan
            continue
        out[k] = summed(uncertain, o, near[:m], grid, sums, scratch)
    return out


@kernel
def strongest(uncertain, lows, highs, asked, others):
    """(q, 2) the two of `others` that most likely dominate each of the rows `asked`, the likelier first; (q, 2) how
    likely. -1: there is none. Of equal ones the first. O(q · others).

    lows, highs (n, d): the ends of all rows.
    """
    who, chance = np.full((asked.shape[0], 2), -1), np.zeros((asked.shape[0], 2))
    near = np.empty(others.shape[0], np.int64)
    for k in range(asked.shape[0]):
        _, m = near_of(lows, highs, asked[k], others, near)
        for g in near[:m]:
            p = dominates_row(uncertain, g, asked[k])
            if p > chance[k, 0]:
                who[k, 1], chance[k, 1] = who[k, 0], chance[k, 0]
                who[k, 0], chance[k, 0] = g, p
            elif p > chance[k, 1]:
                who[k, 1], chance[k, 1] = g, p
    return who, chance


class Dominators(NamedTuple):
    """Rows with their words; those that end most others should come first."""

    uncertain: UncertainRows
    word_lo: Words
    word_hi: Words
    fence: np.uint64


@kernel
def chances(among, asked, threshold, instances):
    """(q,) the probabilities of the rows `asked` (q,), each of at most so many instances.

    NOT_ABOVE where one is at or below the threshold, or where another surely dominates the row.
    """
    scratch, near = scratch_for(instances), np.empty(among.word_hi.shape[0], np.int64)
    sums = Sums(np.empty((instances, 2), np.int64), np.empty(instances, np.int64))
    out = np.empty(asked.shape[0])
    for k in range(asked.shape[0]):
        o = asked[k]
        m = dominators_of(among, o, threshold, near, scratch)
        if m < 0:
            out[k] = NOT_ABOVE
        else:
            out[k] = summed(among.uncertain, o, near[:m], own_grid(among.uncertain, o), sums, scratch)
    return out


@inner
def dominators_of(among, o, threshold, near, scratch):
    """The rows that can dominate o, into `near`: how many? -1: they keep it out.

    o's instances lose weight dominator by dominator, until what is left is not enough.
    """
    uncertain, word, fence = among.uncertain, among.word_lo[o], among.fence
    grid = own_grid(uncertain, o)
    instances = instance_weights(grid, scratch.left)
    m, n = 0, uncertain.lo.shape[0]
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        if not any_covers(among.word_hi, begin, end, word, fence):
            continue
        for g in range(begin, end):
            if g == o or not covers(among.word_hi[g], word, fence) or not dominates(uncertain.hi, g, uncertain.lo, o):
                continue
            if dominates(uncertain.lo, g, uncertain.hi, o):
                return -1
            left = left_by(uncertain, g, o, grid, instances, scratch)
            if left >= 0.0:
                near[m] = g
                m += 1
                if left <= threshold:
                    return -1
    return m
