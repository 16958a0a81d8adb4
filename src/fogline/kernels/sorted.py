"""Which rows of a sorted table are close to a centre?

Rows lie in order of a leading code (equal or not) and then of one determinant, the key. The close ones in the key are a
stretch, found by bisection on `abs(a - x) <= radius` itself: the difference of floats is monotone, so the stretch is
exactly the rows for which the definition holds. What other determinants ask for is tested row by row within it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats
from fogline.kernels.compile import kernel
from fogline.kernels.sorting import ascending


class Sorted(NamedTuple):
    """A table in order of (lead, key). All arrays read-only: they may be memory-mapped."""

    lead: Floats  # (n,) codes of an attribute that must be equal, or (0,) if there is none
    key: Floats  # (n,)
    others: Floats  # (n, k) the other determinants
    then: Floats  # (n,)


@kernel
def first_where_at_least(values, begin, end, x, radius):
    """The first of values[begin:end] that is not below x by more than `radius`."""
    while begin < end:
        middle = (begin + end) >> 1
        if x - values[middle] > radius:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def first_where_above(values, begin, end, x, radius):
    """The first of values[begin:end] that is above x by more than `radius`."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] - x > radius:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def stretch(table, lead, key, radius):
    """The rows (begin, end) that are close to the key and have this lead, if there is one; none to a missing key."""
    begin, end = 0, table.key.shape[0]
    if np.isnan(key) or np.isnan(lead):
        return 0, 0
    if table.lead.shape[0] > 0:
        begin, end = (
            first_where_at_least(table.lead, begin, end, lead, 0.0),
            first_where_above(table.lead, begin, end, lead, 0.0),
        )
    return first_where_at_least(table.key, begin, end, key, radius), first_where_above(
        table.key, begin, end, key, radius
    )


@kernel
def close(others, r, centre, i, radii):
    """Is row r close to the centre in every other determinant that is asked for (radius >= 0)?"""
    for k in range(others.shape[1]):
        if radii[k] >= 0 and not abs(others[r, k] - centre[i, k]) <= radii[k]:
            return False
    return True


@kernel
def count_close(table, leads, keys, radius, centre, radii):
    """(q,) how many rows are close to each centre."""
    out = np.zeros(keys.shape[0], np.int64)
    all_close = not (radii >= 0).any()
    for i in range(keys.shape[0]):
        begin, end = stretch(table, leads[i], keys[i], radius)
        if all_close:
            out[i] = end - begin
            continue
        for r in range(begin, end):
            out[i] += close(table.others, r, centre, i, radii)
    return out


@kernel
def bound_close(table, leads, keys, radius, centre, radii):
    """(q,) the least and the greatest `then` of the close rows; NaN where there is none."""
    low, high = np.full(keys.shape[0], np.nan), np.full(keys.shape[0], np.nan)
    for i in range(keys.shape[0]):
        begin, end = stretch(table, leads[i], keys[i], radius)
        for r in range(begin, end):
            if close(table.others, r, centre, i, radii):
                x = table.then[r]
                if not low[i] <= x:
                    low[i] = x
                if not high[i] >= x:
                    high[i] = x
    return low, high


@kernel
def find_close(table, leads, keys, radius, centre, radii):
    """The values of `then` of the close rows: (q + 1,) offsets, and the values, sorted for each centre."""
    n = keys.shape[0]
    offsets = np.zeros(n + 1, np.int64)
    ends = np.empty((n, 2), np.int64)
    room = 0
    for i in range(n):
        ends[i, 0], ends[i, 1] = stretch(table, leads[i], keys[i], radius)
        room += ends[i, 1] - ends[i, 0]
    values = np.empty(room)
    at = 0
    for i in range(n):
        begin = at
        for r in range(ends[i, 0], ends[i, 1]):
            if close(table.others, r, centre, i, radii):
                values[at] = table.then[r]
                at += 1
        values[begin:at] = ascending(values[begin:at])
        offsets[i + 1] = at
    return offsets, values[:at].copy()


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
def pour(found_start, found_size, found_value, found_count, rows, j, sign, clouds, cursor):
    """Write distributions that were found into the cells (rows, j) of the clouds, oriented. Returns the new cursor."""
    for k in range(rows.shape[0]):
        i, first, n = rows[k], found_start[k], found_size[k]
        total = 0.0
        for m in range(first, first + n):
            total += found_count[m]
        for m in range(n):
            source = first + m if sign > 0 else first + n - 1 - m  # negated values rise the other way round
            clouds.value[cursor + m] = found_value[source] * sign + 0.0
            clouds.weight[cursor + m] = found_count[source] / total
        above = 0.0
        for m in range(cursor + n - 1, cursor - 1, -1):
            above += clouds.weight[m]
            clouds.tail[m] = above
        clouds.tail[cursor] = 1.0
        clouds.lo[i, j], clouds.hi[i, j] = clouds.value[cursor], clouds.value[cursor + n - 1]
        clouds.size[i, j] = n
        clouds.start[i, j] = cursor if n > 1 else -1
        cursor += n if n > 1 else 0
    return cursor
