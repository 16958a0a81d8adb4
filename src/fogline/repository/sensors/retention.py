"""Which readings are so old that no row will see them?

A row sees readings that are at most the retention older than itself. The clock of a group is the newest time that two
of its sensors have reached (where there is only one, its own newest time but one), so that a single row from the future
moves nothing. Readings that lie two retentions behind the clock of their group are too old: a row that is at most one
retention late sees the same with and without them. Groups that lag behind others lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fogline.arrays import Flags, Floats, Ints


def too_old(times: Floats, group: Ints, longest: float) -> Flags:
    """(s, d, k) which of these readings, whose sensors are in the groups (s,). O(s d k), and sorting sensors."""
    return np.asarray((times > -np.inf) & (times < (clocks(times, group) - 2 * longest)[:, None, None]))


def clocks(times: Floats, group: Ints) -> Floats:
    """(s,) the clock of each sensor's group."""
    newest = times[:, :, 0].max(axis=1)
    before = np.where(times < newest[:, None, None], times, -np.inf).max(axis=(1, 2))
    order = np.lexsort((newest, group))
    last = np.flatnonzero(np.append(np.diff(group[order]) != 0, True))  # of each group, the sensor that was heard last
    alone = np.diff(last, prepend=-1) == 1
    clock = np.empty(len(last))
    clock[alone] = before[order[last[alone]]]
    clock[~alone] = newest[order[last[~alone] - 1]]
    return np.asarray(clock[group])


def groups_of(names: Iterable[tuple[object, ...]]) -> Ints:
    """(s,) numbers of the groups that sensors of these names are in: all but the last part of a name."""
    number: dict[tuple[object, ...], int] = {}
    return np.array([number.setdefault(name[:-1], len(number)) for name in names], np.int64)
