"""In which order do keys stand?

Kernels never sort by `np.sort`: Numba gives its inner loops the names of those of `np.argsort`, so machine code that
different processes have kept may be linked to the wrong one of the two, and an argsort gives values for places. These
two also compile in a tenth of the time that either takes.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner, kernel

RUN = 8  # keys that are put in order by insertion before runs are merged


@inner
def _after(x, y):
    """Does x stand after y? NaN stands last."""
    return x > y or (x != x and y == y)


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
    """The places of the keys in ascending order, equal ones in the order they come; NaN last."""
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
def ascending(values):
    """The values, sorted; NaN last."""
    out = np.empty_like(values)
    order = argsort(values)
    for k in range(values.shape[0]):
        out[k] = values[order[k]]
    return out


# --- twins ---
# Which boxes, or clouds, are the same? What holds for one of them need not be found again for the others.
#
# They are sorted by a number made of all their bits, then compared with their neighbours: two that are the same may
# be
# missed (where such numbers collide), never are two taken for the same that are not.

MIX = np.uint64(0x9E3779B97F4A7C15)


@inner
def mixed(mark, bits):
    """A number made of another and some bits."""
    mark = (mark ^ bits) * MIX
    return mark ^ (mark >> np.uint64(29))


@inner
def in_order(lo, hi, which):
    """Where in `which` boxes stand, such that those that are the same stand side by side."""
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
    """Have boxes a and b the same corners?"""
    for j in range(lo.shape[1]):
        if lo[a, j] != lo[b, j] or hi[a, j] != hi[b, j]:
            return False
    return True


@inner
def same_cloud(uncertain, a, b):
    """Have clouds a and b the same cells?"""
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
    """For each of the boxes `which`, the one of the same corners that expires last: only that one need be compared."""
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
    """Those of `which` that are the best of their kind."""
    out, m = np.empty(which.shape[0], np.int64), 0
    for k in range(which.shape[0]):
        if which[k] == best[k]:
            out[m] = which[k]
            m += 1
    return out[:m]


@inner
def side_by_side(uncertain, which, wanted):
    """The clouds `which`, those that are the same side by side; and for each whether it is the same as the one before.

    Not `wanted`: as they are, and none counts as the same.
    """
    again = np.zeros(which.shape[0], np.bool_)
    if not wanted:
        return which, again
    order, out = in_order(uncertain.lo, uncertain.hi, which), np.empty(which.shape[0], np.int64)
    for k in range(which.shape[0]):
        out[k] = which[order[k]]
        again[k] = k > 0 and same_cloud(uncertain, out[k - 1], out[k])
    return out, again


# --- batches ---
# Which rows of a chunk come twice, and which stand where it was cut?


@kernel
def repeats(group, name, arrived):
    """Which rows have the group, name and arrival of an earlier one, and of which? Two arrays: row, the first such row.

    An open hash table, at most half full.
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
    """Of each row: does it come after the group's beginning and before its last instant? Is it at either of these?

    Two arrays of flags. A group begins with its first row, late ones that follow being before that; where many are, the
    rows are in no order, and it begins with its earliest instant. An instant of over `crowd` rows is no border.
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
