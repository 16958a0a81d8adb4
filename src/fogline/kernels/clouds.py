"""How do clouds lie in memory, and how does a distribution get there?

Columns: one row of `lo` and `hi` per cloud, its box; a cell with a distribution points into three shared pools, sorted
by value. Values are oriented: larger is better. A missing cell without a distribution has `lo` NaN.

Invariant: where start >= 0, value[start : start + size] is strictly increasing, weight adds up to 1, and
tail[k] = Pr{value >= value[k]} with tail[first] exactly 1 (sure) and tail[last] exactly weight[last].
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import ONE, SHARED, Clouds, Floats, Ints, empty_clouds, unshared
from fogline.kernels.compile import inner, kernel
from fogline.kernels.sorting import argsort


@inner
def _sort(value, weight, start, size):
    """Sort a stretch of the pools by value: few in place, many by a sort that allocates."""
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
def _finish(clouds, start, size):
    """Sort a cell's values, merge equal ones, normalise the weights, add up the tails. Returns the size left."""
    value, weight, tail = clouds.value, clouds.weight, clouds.tail
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
def fill_cell(clouds, i, j, first, cursor):
    """Make cell (i, j) of what stands in the pools from `first` to `cursor`: none (NaN), one (known) or several values.

    Returns the new cursor: only several values stay in the pools.
    """
    count = cursor - first
    if count > 1:
        count = _finish(clouds, first, count)
    clouds.lo[i, j] = clouds.hi[i, j] = np.nan
    if count > 0:
        clouds.lo[i, j], clouds.hi[i, j] = clouds.value[first], clouds.value[first + count - 1]
    clouds.start[i, j] = first if count > 1 else ONE
    clouds.size[i, j] = max(count, 1)
    return first + count if count > 1 else first


@inner
def write_cells(source, rows, target, at, cursor, was, now):
    """Copy the chosen clouds into rows `at`, `at + 1`, … of `target` and its pools. Returns the new cursor.

    Where lists that cells share begin: `was` (d,) in the source, `now` (d,) in the target; they are not copied.
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
def copy_cells(source, rows, target, at, cursor):
    """`write_cells` for clouds that share nothing."""
    none = np.full(source.lo.shape[1], SHARED)
    return write_cells(source, rows, target, at, cursor, none, none)


@kernel
def extent(values):
    """(least, greatest) of some values. One call for what NumPy needs two for, each dearer."""
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


def own_values(clouds: Clouds, which: Ints, shared: Ints) -> int:
    """How many values some clouds have of their own."""
    start = clouds.start[which]
    return int(clouds.size[which][(start >= 0) & (start != shared)].sum())


def ends(clouds: Clouds, which: Ints) -> tuple[Floats, Floats]:
    """The least and the greatest value (n, d) of each cell of some clouds; of VAGUE cells, their bounds."""
    lo, hi, start, size = clouds.lo[which], clouds.hi[which], clouds.start[which], clouds.size[which]
    many = start >= 0
    lo[many], hi[many] = clouds.value[start[many]], clouds.value[start[many] + size[many] - 1]
    return lo, hi


def dense(clouds: Clouds, which: Ints, shared: Ints | None = None) -> Clouds:
    """A copy of some clouds with pools of just their size; cells whose list lies at `shared` (d,) become SHARED."""
    d = clouds.lo.shape[1]
    was = unshared(d) if shared is None else shared
    out = empty_clouds(len(which), d, own_values(clouds, which, was))
    copy_sharing(clouds, which, out, 0, 0, was, unshared(d))
    return out


@inner
def count_in(x, first, filled, value, often):
    """Add x to the sorted values from `first` on, of which there are some up to `filled`; returns the new end."""
    if filled > first and value[filled - 1] == x:
        often[filled - 1] += 1.0
        return filled
    value[filled], often[filled] = x, 1.0
    return filled + 1
