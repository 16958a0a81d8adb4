"""Is there a point above another, that is, nowhere smaller, and somewhere greater?

Points lie in a tree of boxes: each node is cut in two halves at the middle of one attribute, the next one level by
level, and knows the greatest value of each attribute below it. A node that is not above a point itself has none below
it that is. Where few points are above others, only nodes nearby are looked at; where many are, one is soon found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner, kernel

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
