"""Sorting, and what follows from an order: equal boxes and rows side by side, rows that come twice, edges of a chunk.

Kernels never call `np.sort`: Numba gives its inner loops the same names as those of `np.argsort`, so machine code that
different processes have kept may be linked to the wrong one of the two, and an argsort then returns values instead of
indices. `argsort` and `ascending` also compile in a tenth of the time.

Equal boxes are found by sorting a number made of all their bits, then comparing neighbours. Where such numbers collide
two equal ones may be missed; two that differ are never taken for equal.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner, kernel

RUN = 8  # keys that are put in order by insertion before runs are merged
SHORT = 16  # values for which that is done
MIX = np.uint64(0x9E3779B97F4A7C15)


@inner
def _after(x, y):
    """Does x come after y? NaN comes last. Without a branch."""
    return (x > y) | ((x != x) & (y == y))


@inner
def _sort_run(keys, order, begin, end):
    for k in range(begin + 1, end):
        i, at = order[k], k
        while at > begin and _after(keys[order[at - 1]], keys[i]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@inner
def _merge_runs(keys, source, target, begin, middle, end):
    a, b = begin, middle
    for k in range(begin, end):
        if b == end or (a < middle and not _after(keys[source[a]], keys[source[b]])):
            target[k] = source[a]
            a += 1
        else:
            target[k] = source[b]
            b += 1


@inner
def argsort(keys):
    """The indices that put the keys in ascending order, equal ones as they came; NaN last."""
    n = keys.shape[0]
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    for begin in range(0, n, RUN):
        _sort_run(keys, order, begin, min(begin + RUN, n))
    width = RUN
    while width < n:
        for begin in range(0, n, 2 * width):
            _merge_runs(keys, order, other, begin, min(begin + width, n), min(begin + 2 * width, n))
        order, other = other, order
        width *= 2
    return order


@inner
def _insert(values, out):
    for k in range(values.shape[0]):
        x, at = values[k], k
        while at > 0 and _after(out[at - 1], x):
            out[at] = out[at - 1]
            at -= 1
        out[at] = x


@inner
def _merge(source, target, begin, middle, end):
    a, b = begin, middle
    for k in range(begin, end):
        if b == end or (a < middle and not _after(source[a], source[b])):
            target[k] = source[a]
            a += 1
        else:
            target[k] = source[b]
            b += 1


@inner
def ascending(values):
    """The values, sorted; NaN last. Fast where many of them come in order already."""
    n, width, out = values.shape[0], SHORT, np.empty_like(values)
    for begin in range(0, n, SHORT):
        _insert(values[begin : begin + SHORT], out[begin : begin + SHORT])
    if n > SHORT:
        other = np.empty_like(values)
        while width < n:
            for begin in range(0, n, 2 * width):
                _merge(out, other, begin, min(begin + width, n), min(begin + 2 * width, n))
            out, other = other, out
            width *= 2
    return out


@inner
def mixed(mark, bits):
    """A hash of another hash and some bits."""
    mark = (mark ^ bits) * MIX
    return mark ^ (mark >> np.uint64(29))


@inner
def in_order(lo, hi, which):
    """The indices that put the boxes `which` in an order in which equal ones are side by side."""
    low, high = lo.view(np.uint64), hi.view(np.uint64)
    marks = np.zeros(which.shape[0])
    for k in range(which.shape[0]):
        mark = np.uint64(0)
        for j in range(lo.shape[1]):
            mark = mixed(mixed(mark, low[which[k], j]), high[which[k], j])
        marks[k] = np.float64(mark >> np.uint64(11))
    return argsort(marks)


@inner
def same_box(lo, hi, a, b):
    """Do boxes a and b have the same corners?"""
    for j in range(lo.shape[1]):
        if lo[a, j] != lo[b, j] or hi[a, j] != hi[b, j]:
            return False
    return True


@inner
def same_row(uncertain, a, b):
    """Do rows a and b have the same cells?"""
    if not same_box(uncertain.lo, uncertain.hi, a, b):
        return False
    for j in range(uncertain.lo.shape[1]):
        one, two, size = uncertain.start[a, j], uncertain.start[b, j], uncertain.size[a, j]
        if one == two:
            continue
        if one < 0 or two < 0 or size != uncertain.size[b, j]:
            return False
        for k in range(size):
            if (
                uncertain.value[one + k] != uncertain.value[two + k]
                or uncertain.weight[one + k] != uncertain.weight[two + k]
            ):
                return False
    return True


@inner
def longest(boxes, which):
    """For each of the boxes `which`, the equal one that expires last: only that one need be compared."""
    order, best = in_order(boxes.lo, boxes.hi, which), which.copy()
    begin = 0
    for end in range(1, which.shape[0] + 1):
        first = which[order[begin]]
        if end < which.shape[0] and same_box(boxes.lo, boxes.hi, first, which[order[end]]):
            continue
        for k in range(begin, end):
            if boxes.expires[which[order[k]]] > boxes.expires[first]:
                first = which[order[k]]
        for k in range(begin, end):
            best[order[k]] = first
        begin = end
    return best


@inner
def distinct_of(which, best):
    """Those of `which` that `longest` chose."""
    out, m = np.empty(which.shape[0], np.int64), 0
    for k in range(which.shape[0]):
        if which[k] == best[k]:
            out[m] = which[k]
            m += 1
    return out[:m]


@inner
def side_by_side(uncertain, which, wanted):
    """The rows `which` with equal ones side by side, and for each whether it equals the one before.

    Not `wanted`: in the order given, and none counts as equal.
    """
    again = np.zeros(which.shape[0], np.bool_)
    if not wanted:
        return which, again
    order, out = in_order(uncertain.lo, uncertain.hi, which), np.empty(which.shape[0], np.int64)
    for k in range(which.shape[0]):
        out[k] = which[order[k]]
        again[k] = k > 0 and same_row(uncertain, out[k - 1], out[k])
    return out, again


@kernel
def repeats(group, name, arrived):
    """Which rows have the group, name and arrival of an earlier row? Two arrays: the row, and the first such row.

    By an open hash table, at most half full.
    """
    n = arrived.shape[0]
    room = 16
    while room < 2 * n:
        room *= 2
    table = np.full(room, -1, np.int64)
    found, first = np.empty(n, np.int64), np.empty(n, np.int64)
    bits = arrived.view(np.int64)
    m = 0
    for i in range(n):
        h = np.uint64(name[i]) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(bits[i]) * np.uint64(0xC2B2AE3D27D4EB4F)
        h ^= np.uint64(group[i]) * np.uint64(0x165667B19E3779F9)
        h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)  # plain numbers have zeros in their last bits
        at = np.int64((h ^ (h >> np.uint64(32))) & np.uint64(room - 1))
        while table[at] >= 0:
            k = table[at]
            if name[k] == name[i] and arrived[k] == arrived[i] and group[k] == group[i]:
                found[m], first[m] = i, k
                m += 1
                break
            at = (at + 1) & (room - 1)
        if table[at] < 0:
            table[at] = i
    return found[:m], first[:m]


@kernel
def newest(group, arrived, groups):
    """(groups,) the greatest time of each group's rows; -inf where there is none."""
    out = np.full(groups, -np.inf)
    for i in range(group.shape[0]):
        out[group[i]] = max(out[group[i]], arrived[i])
    return out


@kernel
def borders(group, arrived, groups, crowd):
    """Which rows lie between their group's first and last instant, and which at one of these? Two arrays of flags.

    The first instant is that of the group's first row, or, if many rows are earlier (they came in no order), the
    earliest one. An instant of more than `crowd` rows is no border.
    """
    first, least, most = np.full(groups, np.nan), np.full(groups, np.inf), np.full(groups, -np.inf)
    rows, before = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    at_least, at_most = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    for i in range(group.shape[0]):
        g, t = group[i], arrived[i]
        if rows[g] == 0:
            first[g] = t
        rows[g] += 1
        before[g] += t <= first[g]
        if t < least[g]:
            least[g], at_least[g] = t, 0
        if t > most[g]:
            most[g], at_most[g] = t, 0
        at_least[g] += t == least[g]
        at_most[g] += t == most[g]
    for g in range(groups):
        if at_least[g] > crowd:
            least[g] = -np.inf
        if 4 * before[g] > rows[g] or before[g] > crowd:
            first[g] = least[g]
        if at_most[g] > crowd:
            most[g] = np.inf
    inside, edge = np.empty(group.shape[0], np.bool_), np.empty(group.shape[0], np.bool_)
    for i in range(group.shape[0]):
        g, t = group[i], arrived[i]
        inside[i] = first[g] < t < most[g]
        edge[i] = t == first[g] or t == least[g] or t == most[g]
    return inside, edge
