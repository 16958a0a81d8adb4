"""Between which bounds does a probability lie that is too much work to sum?

P at a box's worst corner bounds its places from below, at its best from above; the box with the widest gap is halved
until the bracket excludes alpha, or is narrow.
"""

from __future__ import annotations

import heapq

import numpy as np

from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats_point
from fogline.kernels.judge import rivals, words_of
from fogline.kernels.merged import all_places, merge_places
from fogline.kernels.places import empty_grid
from fogline.kernels.sums import SCALE, SURE, logarithm


@inner
def unbeaten(clouds, near, points):
    """Pr{no cloud of `near` beats the point} for row 0 of `points`, by the same sums of logarithms."""
    logs = np.int64(0)
    for g in near:
        p = beats_point(clouds, g, points, 0)
        if p >= SURE:
            return 0.0
        if p > 0.0:
            logs += logarithm(p)
    return np.exp(logs / SCALE)


@inner
def box_bounds(clouds, o, near, grid, below, first, last):
    """(lower, upper) for the places of o whose values lie in [first, last) of each cell.

    `below` (values + 1,) adds up the grid's weights.
    """
    d = clouds.lo.shape[1]
    point = np.empty((1, d))
    weight = 1.0
    for j in range(d):
        point[0, j] = clouds.lo[o, j]
        if grid.start[j] >= 0:
            point[0, j] = grid.value[grid.start[j] + first[j]]
            weight *= below[grid.start[j] + last[j]] - below[grid.start[j] + first[j]]
    low = weight * unbeaten(clouds, near, point)
    for j in range(d):
        if grid.start[j] >= 0:
            point[0, j] = grid.value[grid.start[j] + last[j] - 1]
    return low, weight * unbeaten(clouds, near, point)


@inner
def longest_side(first, last):
    """The cell in which a box holds the most values."""
    side = 0
    for j in range(first.shape[0]):
        if last[j] - first[j] > last[side] - first[side]:
            side = j
    return side


@inner
def narrow(clouds, o, near, grid, threshold, width):
    """Bracket P(o) by splitting boxes of places until the bracket excludes `threshold` or is narrower than `width`.

    The box with the widest gap is halved along its longest side. Returns (lower, upper).
    """
    below = np.zeros(grid.weight.shape[0] + 1)
    for k in range(grid.weight.shape[0]):
        below[k + 1] = below[k] + grid.weight[k]
    first, last = np.zeros(clouds.lo.shape[1], np.int64), grid.size.copy()
    lower, upper = box_bounds(clouds, o, near, grid, below, first, last)
    boxes = [(first, last, lower, upper)]
    queue = [(lower - upper, 0)]
    while not (lower > threshold or upper <= threshold or upper - lower < width):
        first, last, low, high = boxes[heapq.heappop(queue)[1]]
        side = longest_side(first, last)
        if last[side] - first[side] <= 1:
            return lower, upper  # the widest gap is at a single place: nothing is left to split
        lower -= low
        upper -= high
        middle = (first[side] + last[side]) // 2
        left_last, right_first = last.copy(), first.copy()
        left_last[side] = right_first[side] = middle
        for begin, end in ((first, left_last), (right_first, last)):
            low, high = box_bounds(clouds, o, near, grid, below, begin, end)
            lower += low
            upper += high
            boxes.append((begin, end, low, high))
            heapq.heappush(queue, (low - high, len(boxes) - 1))
    return lower, upper


@kernel
def bracket(live, among, o, threshold, limit, width):
    """P(o) for a cloud of very many places: (lower, upper, earliest expiry among its rivals).

    Exact (lower = upper) when the merged places number at most `limit`; else bracketed.
    """
    clouds, columns = live.clouds, live.columns
    space = np.empty(among.shape[0], np.int64)
    m, _ = rivals(live, o, among, words_of(columns.word_hi, among), -1.0, space)
    near = space[:m]
    soonest = np.inf
    for g in near:
        soonest = min(soonest, columns.expires[g])
    d = clouds.lo.shape[1]
    room = 0
    for j in range(d):
        room += clouds.size[o, j]
    grid = empty_grid(room, d)
    if merge_places(clouds, o, near, grid) <= limit:
        exact = all_places(clouds, o, near, grid)
        return exact, exact, soonest
    low, high = narrow(clouds, o, near, grid, threshold, width)
    return low, high, soonest
