"""Which rows of a chunk lack a value, and which come twice?"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import kernel


@kernel
def repeats(group, name, arrived):
    """Which rows have the group, name and arrival of an earlier one? An open hash table, at most half full."""
    n = arrived.shape[0]
    room = 16
    while room < 2 * n:
        room *= 2
    table = np.full(room, -1, np.int64)
    found = np.empty(n, np.int64)
    bits = arrived.view(np.int64)
    m = 0
    for i in range(n):
        h = np.uint64(name[i]) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(bits[i]) * np.uint64(0xC2B2AE3D27D4EB4F)
        h ^= np.uint64(group[i]) * np.uint64(0x165667B19E3779F9)
        at = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(room - 1))
        while table[at] >= 0:
            k = table[at]
            if name[k] == name[i] and arrived[k] == arrived[i] and group[k] == group[i]:
                found[m] = i
                m += 1
                break
            at = (at + 1) & (room - 1)
        if table[at] < 0:
            table[at] = i
    return found[:m]


@kernel
def newest(group, arrived, groups):
    """(groups,) the greatest time of each group's rows; -inf where there is none."""
    out = np.full(groups, -np.inf)
    for i in range(group.shape[0]):
        out[group[i]] = max(out[group[i]], arrived[i])
    return out
