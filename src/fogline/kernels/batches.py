"""Which rows of a chunk come twice, and which stand where it was cut?"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import kernel


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
