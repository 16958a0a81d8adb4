"""What is the probability of a cloud with very many places?

Values of the cloud that no dominator can tell apart are merged; then the places are summed one by one, or, beyond a
limit, bracketed: P at a box's worst corner bounds its places from below, at its best from above.
"""

from __future__ import annotations

import heapq

import numpy as np

from fogline.kernels.compile import ascending, kernel
from fogline.kernels.probability import SCALE, SURE, beats_point, dominators, logarithm, share, shares


@kernel
def merge_places(clouds, o, near, value, weight, start, size):
    """o's values, merged where no dominator can tell them apart. Returns the number of places left.

    Strictly between two neighbouring values of the dominators the summand is constant, so a run of o's values there
    is represented by any of them. Returned as float: the product may not fit an integer.
    """
    cursor = 0
    places = 1.0
    for j in range(clouds.lo.shape[1]):
        start[j], size[j] = -1, 1
        first, n = clouds.start[o, j], clouds.size[o, j]
        if first < 0:
            continue
        count = 0
        for g in near:
            count += clouds.size[g, j]
        breaks = np.empty(count)
        count = 0
        for g in near:
            if clouds.start[g, j] < 0:
                breaks[count] = clouds.lo[g, j]
                count += 1
            else:
                for k in range(clouds.start[g, j], clouds.start[g, j] + clouds.size[g, j]):
                    breaks[count] = clouds.value[k]
                    count += 1
        breaks[:] = ascending(breaks)
        start[j] = cursor
        gap_before, on_before = -1, False
        for k in range(first, first + n):
            gap = np.searchsorted(breaks, clouds.value[k])
            on = gap < count and breaks[gap] == clouds.value[k]
            if k > first and gap == gap_before and not on and not on_before:
                weight[cursor - 1] += clouds.weight[k]
            else:
                value[cursor], weight[cursor] = clouds.value[k], clouds.weight[k]
                cursor += 1
            gap_before, on_before = gap, on
        size[j] = cursor - start[j]
        places *= size[j]
    return places


@kernel
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


@kernel
def all_places(clouds, o, near, value, weight, start, size):
    """P(o) over its merged places, cell by cell, carrying along only the dominators that can still beat the place.

    What a dominator does to a value is looked up once. A branch without dominators is worth its whole weight.
    """
    d, n = clouds.lo.shape[1], near.shape[0]
    room = fog = 0
    cells = np.empty(d, np.int64)  # the distributed ones
    for j in range(d):
        if start[j] >= 0:
            room += size[j]
            cells[fog] = j
            fog += 1
    at_least, equal = np.empty((n, room)), np.empty((n, room))
    who = np.empty((fog + 1, n), np.int64)  # at each depth: whose turn it still is, …
    a, b = np.ones((fog + 1, n)), np.ones((fog + 1, n))  # … with the two products so far
    many = np.zeros(fog + 1, np.int64)
    for r in range(n):
        for j in range(d):
            if start[j] >= 0:
                shares(clouds, near[r], j, value, start[j], size[j], at_least[r, start[j] :], equal[r, start[j] :])
            else:
                s, e = share(clouds, near[r], j, clouds.lo[o, j])
                a[0, r] *= s
                b[0, r] *= e
        who[0, r] = r
    if fog == 0:
        return _unbeaten_by(a[0], b[0], n)
    many[0] = n
    index = np.full(fog + 1, -1)
    w = np.ones(fog + 1)
    out = 0.0
    depth = 0
    while depth >= 0:
        index[depth] += 1
        j = cells[depth]
        if index[depth] == size[j]:
            index[depth] = -1
            depth -= 1
            continue
        at = start[j] + index[depth]
        w[depth + 1] = w[depth] * weight[at]
        m = 0
        for k in range(many[depth]):
            r = who[depth, k]
            if at_least[r, at] > 0.0:
                who[depth + 1, m] = r
                a[depth + 1, m], b[depth + 1, m] = a[depth, k] * at_least[r, at], b[depth, k] * equal[r, at]
                m += 1
        many[depth + 1] = m
        if m == 0:
            out += w[depth + 1]
        elif depth + 1 < fog:
            depth += 1
        else:
            out += w[depth + 1] * _unbeaten_by(a[depth + 1], b[depth + 1], m)
    return min(out, 1.0)


@kernel
def _unbeaten_by(a, b, m):
    """The product of 1 - (a - b) over the first m, by sums of logarithms."""
    logs = np.int64(0)
    for k in range(m):
        p = a[k] - b[k]
        if p >= SURE:
            return 0.0
        if p > 0.0:
            logs += logarithm(p)
    return np.exp(logs / SCALE)


@kernel
def narrow(clouds, o, near, value, weight, start, size, threshold, width):
    """Bracket P(o) by splitting boxes of places until the bracket excludes `threshold` or is narrower than `width`.

    P at a box's worst corner bounds its places from below, at its best from above; the box with the widest gap is
    halved along its longest side. Returns (lower, upper).
    """
    d = clouds.lo.shape[1]
    sums = np.zeros(value.shape[0] + 1)
    for k in range(value.shape[0]):
        sums[k + 1] = sums[k] + weight[k]
    point = np.empty((1, d))
    boxes = [(np.zeros(d, np.int64), size.copy(), 0.0, 1.0)]
    queue = [(-1.0, 0)]
    lower, upper = 0.0, 1.0
    fresh = [0]
    while True:
        for b in fresh:
            first, last, _, _ = boxes[b]
            w = 1.0
            for j in range(d):
                if start[j] >= 0:
                    w *= sums[start[j] + last[j]] - sums[start[j] + first[j]]
                    point[0, j] = value[start[j] + first[j]]
                else:
                    point[0, j] = clouds.lo[o, j]
            low = w * unbeaten(clouds, near, point)
            for j in range(d):
                if start[j] >= 0:
                    point[0, j] = value[start[j] + last[j] - 1]
            high = w * unbeaten(clouds, near, point)
            boxes[b] = (first, last, low, high)
            if b == 0:
                lower, upper = low, high
                queue[0] = (low - high, 0)
            else:
                lower += low
                upper += high
                heapq.heappush(queue, (low - high, b))
        if lower > threshold or upper <= threshold or upper - lower < width or len(queue) == 0:
            return lower, upper
        _, b = heapq.heappop(queue)
        first, last, low, high = boxes[b]
        side = 0
        for j in range(d):
            if last[j] - first[j] > last[side] - first[side]:
                side = j
        if last[side] - first[side] <= 1:
            return lower, upper  # the widest gap is at a single place: nothing is left to split
        lower -= low
        upper -= high
        middle = (first[side] + last[side]) // 2
        left_last, right_first = last.copy(), first.copy()
        left_last[side] = middle
        right_first[side] = middle
        boxes.append((first, left_last, 0.0, 0.0))
        boxes.append((right_first, last, 0.0, 0.0))
        fresh = [len(boxes) - 2, len(boxes) - 1]


@kernel
def bracket(clouds, columns, fence, among, o, threshold, limit, width):
    """P(o) for a cloud of very many places: (lower, upper, earliest expiry among its dominators).

    Exact (lower = upper) when the merged places number at most `limit`; else bracketed.
    """
    near = np.empty(among.shape[0], np.int64)
    m, _ = dominators(clouds, columns, fence, among, columns.word_hi[among], o, -1.0, near)
    near = near[:m]
    soonest = np.inf
    for g in near:
        soonest = min(soonest, columns.expires[g])
    d = clouds.lo.shape[1]
    room = 0
    for j in range(d):
        room += clouds.size[o, j]
    value, weight = np.empty(room), np.empty(room)
    start, size = np.empty(d, np.int64), np.empty(d, np.int64)
    if merge_places(clouds, o, near, value, weight, start, size) <= limit:
        exact = all_places(clouds, o, near, value, weight, start, size)
        return exact, exact, soonest
    low, high = narrow(clouds, o, near, value, weight, start, size, threshold, width)
    return low, high, soonest
