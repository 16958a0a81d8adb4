"""How do values that were found become distributions, and distributions cells of clouds?"""

from __future__ import annotations

import numpy as np

from fogline.arrays import ONE
from fogline.kernels.compile import inner, kernel


@kernel
def distinct(offsets, values):
    """Sorted values as distinct ones with their frequencies: (start, size) of each list, values, counts."""
    n = offsets.shape[0] - 1
    start, size = np.zeros(n, np.int64), np.zeros(n, np.int64)
    out, counts = np.empty(values.shape[0]), np.empty(values.shape[0])
    at = 0
    for i in range(n):
        start[i] = at
        for k in range(offsets[i], offsets[i + 1]):
            if at > start[i] and out[at - 1] == values[k]:
                counts[at - 1] += 1.0
            else:
                out[at], counts[at] = values[k], 1.0
                at += 1
        size[i] = at - start[i]
    return start, size, out[:at].copy(), counts[:at].copy()


@kernel
def reduced(found, most):
    """Distributions of at most `most` values each (4 or more): (start, size) of each, values, how often.

    The least and the greatest value keep their own weight. Of the values between, weighing T together, those stay at
    which the sum so far reaches (k + 1/2) T / m, k = 0 … m - 1, for m = most - 2; each gets T / m for every k that it
    is reached at. So each sum is rounded to a multiple of T / m, and no probability of being at least some number moves
    by more than T / 2m. A list that the cell before has too is looked at once.
    """
    n, m, room = found.size.shape[0], most - 2, 0
    for i in range(n):
        room += min(found.size[i], most)
    start, size = np.empty(n, np.int64), np.empty(n, np.int64)
    value, often = np.empty(room), np.empty(room)
    at = 0
    for i in range(n):
        first, last = found.start[i], found.start[i] + found.size[i] - 1
        if i > 0 and found.size[i] == found.size[i - 1] and first == found.start[i - 1]:
            start[i], size[i] = start[i - 1], size[i - 1]
            continue
        start[i] = at
        if found.size[i] <= most:
            for k in range(first, last + 1):
                value[at], often[at] = found.value[k], found.often[k]
                at += 1
        else:
            total = 0.0
            for k in range(first + 1, last):
                total += found.often[k]
            value[at], often[at] = found.value[first], found.often[first]
            at += 1
            filled, reached = 0.0, 0
            for k in range(first + 1, last):
                filled += found.often[k]
                before = reached
                while reached < m and 2.0 * m * filled >= (2 * reached + 1) * total:
                    reached += 1
                if reached > before:
                    value[at], often[at] = found.value[k], (reached - before) * total / m
                    at += 1
            value[at], often[at] = found.value[last], found.often[last]
            at += 1
        size[i] = at - start[i]
    return start, size, value[:at].copy(), often[:at].copy()


@kernel
def pour(found, rows, j, sign, clouds, cursor, final):
    """Write distributions into the cells (rows, j) of the clouds, oriented by the sign.

    What lies outside a cell's box goes to the nearest end of it. The box of a cell that is final (q,), or had none,
    becomes the ends of the distribution. Returns the new cursor, and the mass that lay outside.
    """
    outside = 0.0
    for k in range(rows.shape[0]):
        i, first, n = rows[k], found.start[k], found.size[k]
        lo, hi = clouds.lo[i, j], clouds.hi[i, j]
        boxed = lo == lo
        total, beyond, last = 0.0, 0.0, cursor - 1
        for m in range(first, first + n):
            total += found.often[m]
        for m in range(n):
            source = first + m if sign > 0 else first + n - 1 - m  # negated values rise the other way round
            x, often = found.value[source] * sign + 0.0, found.often[source]
            if boxed and (x < lo or x > hi):
                x = lo if x < lo else hi
                beyond += often
            if last >= cursor and clouds.value[last] == x:
                clouds.weight[last] += often / total
            else:
                last += 1
                clouds.value[last], clouds.weight[last] = x, often / total
        outside += beyond / total
        cursor = finish(clouds, i, j, cursor, last, final[k] or not boxed)
    return cursor, outside


@inner
def finish(clouds, i, j, first, last, final):
    """Make cell (i, j) of what stands in the pools from `first` to `last`. Returns the new cursor."""
    above = 0.0
    for m in range(last, first - 1, -1):
        above += clouds.weight[m]
        clouds.tail[m] = above
    clouds.tail[first] = 1.0
    if final:
        clouds.lo[i, j], clouds.hi[i, j] = clouds.value[first], clouds.value[last]
    n = last - first + 1
    clouds.size[i, j] = n
    if n == 1:
        clouds.weight[first] = 1.0
    if n == 1 and clouds.lo[i, j] == clouds.hi[i, j]:
        clouds.start[i, j] = ONE
        return first
    clouds.start[i, j] = first
    return first + n
