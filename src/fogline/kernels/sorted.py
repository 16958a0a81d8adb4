"""Which rows of a sorted table are close to a centre?

Rows are sorted by a leading code (equal or not) and then by one determinant, the key. Those that are close in the key
lie side by side and are found by bisection on `abs(a - x) <= radius` itself: the difference of floats is monotone, so
they are exactly the rows for which the definition holds. Other determinants are tested row by row among them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats
from fogline.kernels.compile import inner, kernel
from fogline.kernels.sorting import ascending


class Sorted(NamedTuple):
    """A table in order of (lead, key). All arrays read-only: they may be memory-mapped."""

    lead: Floats  # (n,) codes of an attribute that must be equal, or (0,) if there is none
    key: Floats  # (n,)
    others: Floats  # (n, k) the other determinants
    then: Floats  # (n,)


class Asked(NamedTuple):
    """What is asked of a sorted table, for each of q centres."""

    leads: Floats  # (q,) unused where the table has no lead
    keys: Floats  # (q,)
    radius: float  # of the key
    centre: Floats  # (q, k) in the other determinants
    radii: Floats  # (k,) negative: not asked for


@inner
def first_where_at_least(values, begin, end, x, radius):
    """The first of values[begin:end] that is not below x by more than `radius`."""
    while begin < end:
        middle = (begin + end) >> 1
        if x - values[middle] > radius:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def first_where_above(values, begin, end, x, radius):
    """The first of values[begin:end] that is above x by more than `radius`."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] - x > radius:
            end = middle
        else:
            begin = middle + 1
    return begin


@inner
def within(values, begin, end, x, radius):
    """An end, at most `end`, behind all values from `begin` on that are not above x by more than `radius`.

    Found in leaps that double: usually few rows are close, and what lies near is in the processor's cache.
    """
    leap = 8
    while begin + leap < end and not values[begin + leap] - x > radius:
        leap *= 2
    return min(begin + leap + 1, end)


@inner
def close_in_key(table, lead, key, radius):
    """The rows begin : end that are close to the key and have this lead, if there is one; none for a missing key."""
    begin, end = 0, table.key.shape[0]
    if np.isnan(key) or np.isnan(lead):
        return 0, 0
    if table.lead.shape[0] > 0:
        begin, end = (
            first_where_at_least(table.lead, begin, end, lead, 0.0),
            first_where_above(table.lead, begin, end, lead, 0.0),
        )
    first = first_where_at_least(table.key, begin, end, key, radius)
    return first, first_where_above(table.key, first, within(table.key, first, end, key, radius), key, radius)


@inner
def close(table, r, asked, i):
    """Is row r close to centre i in every other determinant that is asked for?"""
    for k in range(table.others.shape[1]):
        if asked.radii[k] >= 0 and not abs(table.others[r, k] - asked.centre[i, k]) <= asked.radii[k]:
            return False
    return True


@kernel
def count_close(table, asked):
    """(q,) how many rows are close to each centre."""
    out = np.zeros(asked.keys.shape[0], np.int64)
    all_close = not (asked.radii >= 0).any()
    for i in range(asked.keys.shape[0]):
        begin, end = close_in_key(table, asked.leads[i], asked.keys[i], asked.radius)
        if all_close:
            out[i] = end - begin
            continue
        for r in range(begin, end):
            out[i] += close(table, r, asked, i)
    return out


@kernel
def bound_close(table, asked):
    """(q,) the least and the greatest `then` of the close rows; NaN where there is none."""
    low, high = np.full(asked.keys.shape[0], np.nan), np.full(asked.keys.shape[0], np.nan)
    for i in range(asked.keys.shape[0]):
        begin, end = close_in_key(table, asked.leads[i], asked.keys[i], asked.radius)
        for r in range(begin, end):
            if close(table, r, asked, i):
                x = table.then[r]
                if not low[i] <= x:
                    low[i] = x
                if not high[i] >= x:
                    high[i] = x
    return low, high


@kernel
def find_close(table, asked):
    """The values of `then` of the close rows: (q + 1,) offsets, and the values, sorted for each centre."""
    n = asked.keys.shape[0]
    offsets = np.zeros(n + 1, np.int64)
    ends = np.empty((n, 2), np.int64)
    room = 0
    for i in range(n):
        ends[i, 0], ends[i, 1] = close_in_key(table, asked.leads[i], asked.keys[i], asked.radius)
        room += ends[i, 1] - ends[i, 0]
    values = np.empty(room)
    at = 0
    for i in range(n):
        begin = at
        for r in range(ends[i, 0], ends[i, 1]):
            if close(table, r, asked, i):
                values[at] = table.then[r]
                at += 1
        values[begin:at] = ascending(values[begin:at])
        offsets[i + 1] = at
    return offsets, values[:at].copy()
