"""Uncertain rows in columns: how distributions are written, copied and reduced.

`lo` and `hi` hold a row's box. A cell with a distribution points into three pools (value, weight, tail), sorted by
value. Values are oriented: larger is better. A missing cell without a distribution has `lo` NaN.

Invariant: where start >= 0, value[start : start + size] is strictly increasing, weight adds up to 1, and
tail[k] = Pr{value >= value[k]} with tail[first] exactly 1 (sure) and tail[last] exactly weight[last].
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import ONE, SHARED, Floats, Ints, UncertainRows, empty_rows, unshared
from fogline.kernels.compile import inner, kernel
from fogline.kernels.sorting import argsort


@inner
def no_lists(d):
    """Where shared lists begin, among rows that do not hold them."""
    out = np.empty(d, np.int64)
    for j in range(d):
        out[j] = SHARED
    return out


@inner
def _sort(value, weight, start, size):
    """Sort some values and their weights by value: few in place, many by a sort that allocates."""
    if size > 64:
        order = argsort(value[start : start + size])
        old_value, old_weight = value[start : start + size].copy(), weight[start : start + size].copy()
        for k in range(size):
            value[start + k], weight[start + k] = old_value[order[k]], old_weight[order[k]]
        return
    for k in range(start + 1, start + size):
        v, w = value[k], weight[k]
        at = k
        while at > start and value[at - 1] > v:
            value[at], weight[at] = value[at - 1], weight[at - 1]
            at -= 1
        value[at], weight[at] = v, w


@inner
def _finish(uncertain, start, size):
    """Sort a cell's values, merge equal ones, normalise the weights, add up the tails. Returns the size left."""
    value, weight, tail = uncertain.value, uncertain.weight, uncertain.tail
    _sort(value, weight, start, size)
    most = 0.0
    for k in range(start, start + size):
        most = max(most, weight[k])
    m = 0
    total = 0.0
    for k in range(start, start + size):
        weight[k] /= most  # first: huge weights must not overflow
        total += weight[k]
        if m > 0 and value[k] == value[start + m - 1]:
            weight[start + m - 1] += weight[k]
        else:
            value[start + m], weight[start + m] = value[k], weight[k]
            m += 1
    above = 0.0
    for k in range(start + m - 1, start - 1, -1):
        weight[k] /= total
        above += weight[k]
        tail[k] = above
    if m > 1:
        tail[start] = 1.0
    return m


@inner
def fill_cell(uncertain, i, j, first, cursor):
    """Make cell (i, j) of the pools' values from `first` to `cursor`: none (NaN), one (known) or several.

    Returns the new cursor: only several values stay in the pools.
    """
    count = cursor - first
    if count > 1:
        count = _finish(uncertain, first, count)
    uncertain.lo[i, j] = uncertain.hi[i, j] = np.nan
    if count > 0:
        uncertain.lo[i, j], uncertain.hi[i, j] = uncertain.value[first], uncertain.value[first + count - 1]
    uncertain.start[i, j] = first if count > 1 else ONE
    uncertain.size[i, j] = max(count, 1)
    return first + count if count > 1 else first


@inner
def write_cells(source, rows, target, at, cursor, was, now):
    """Copy the chosen rows into rows `at`, `at + 1`, … of `target` and its pools. Returns the new cursor.

    A list that many cells share is not copied: it begins at `was` (d,) in the source, at `now` (d,) in the target.
    """
    d = source.lo.shape[1]
    for k in range(rows.shape[0]):
        i = rows[k]
        for j in range(d):
            target.lo[at + k, j] = source.lo[i, j]
            target.hi[at + k, j] = source.hi[i, j]
            target.size[at + k, j] = source.size[i, j]
            start = source.start[i, j]
            if start == was[j]:
                target.start[at + k, j] = now[j]
                continue
            if start < 0:
                target.start[at + k, j] = start
                continue
            target.start[at + k, j] = cursor
            for m in range(source.size[i, j]):
                target.value[cursor + m] = source.value[start + m]
                target.weight[cursor + m] = source.weight[start + m]
                target.tail[cursor + m] = source.tail[start + m]
            cursor += source.size[i, j]
    return cursor


copy_sharing = kernel(write_cells.py_func)  # the same, to be called from Python


@kernel
def extent(values):
    """(least, greatest) of some values. NumPy needs two calls, and each takes longer than this one."""
    low, high = np.inf, -np.inf
    for x in values:
        low, high = min(low, x), max(high, x)
    return low, high


@kernel
def all_within(values, limit):
    """Is every value a number, and none beyond the limit?"""
    for x in values:
        if not abs(x) <= limit:
            return False
    return True


def own_values(uncertain: UncertainRows, which: Ints, shared: Ints) -> int:
    """How many values some rows have of their own, shared lists not counted."""
    start = uncertain.start[which]
    return int(uncertain.size[which][(start >= 0) & (start != shared)].sum())


def ends(uncertain: UncertainRows, which: Ints) -> tuple[Floats, Floats]:
    """The least and the greatest value (n, d) of each cell of some rows; of BOUNDS_ONLY cells, their bounds."""
    lo, hi, start, size = uncertain.lo[which], uncertain.hi[which], uncertain.start[which], uncertain.size[which]
    many = start >= 0
    lo[many], hi[many] = uncertain.value[start[many]], uncertain.value[start[many] + size[many] - 1]
    return lo, hi


def dense(uncertain: UncertainRows, which: Ints, shared: Ints | None = None) -> UncertainRows:
    """A copy of some rows with pools of just their size; cells whose list lies at `shared` (d,) become SHARED."""
    d = uncertain.lo.shape[1]
    was = unshared(d) if shared is None else shared
    out = empty_rows(len(which), d, own_values(uncertain, which, was))
    copy_sharing(uncertain, which, out, 0, 0, was, unshared(d))
    return out


@inner
def count_in(x, first, filled, value, often):
    """Count x, which is no less than the sorted values from `first` to `filled`, among these; returns the new end."""
    if filled > first and value[filled - 1] == x:
        often[filled - 1] += 1.0
        return filled
    value[filled], often[filled] = x, 1.0
    return filled + 1


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
def pour(found, rows, j, sign, uncertain, cursor, final):
    """Write distributions into the cells (rows, j), oriented by the sign.

    A value outside the cell's box is moved to the box's nearest end: a box never widens. The box of a cell that is
    `final` (q,), or had none, becomes the ends of its distribution. Returns the new cursor, and the mass moved.
    """
    outside = 0.0
    for k in range(rows.shape[0]):
        i, first, n = rows[k], found.start[k], found.size[k]
        lo, hi = uncertain.lo[i, j], uncertain.hi[i, j]
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
            if last >= cursor and uncertain.value[last] == x:
                uncertain.weight[last] += often / total
            else:
                last += 1
                uncertain.value[last], uncertain.weight[last] = x, often / total
        outside += beyond / total
        cursor = finish(uncertain, i, j, cursor, last, final[k] or not boxed)
    return cursor, outside


@inner
def finish(uncertain, i, j, first, last, final):
    """Make cell (i, j) of the pools' sorted values from `first` to `last`. Returns the new cursor."""
    above = 0.0
    for m in range(last, first - 1, -1):
        above += uncertain.weight[m]
        uncertain.tail[m] = above
    uncertain.tail[first] = 1.0
    if final:
        uncertain.lo[i, j], uncertain.hi[i, j] = uncertain.value[first], uncertain.value[last]
    n = last - first + 1
    uncertain.size[i, j] = n
    if n == 1:
        uncertain.weight[first] = 1.0
    if n == 1 and uncertain.lo[i, j] == uncertain.hi[i, j]:
        uncertain.start[i, j] = ONE
        return first
    uncertain.start[i, j] = first
    return first + n
