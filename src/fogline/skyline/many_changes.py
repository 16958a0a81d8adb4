"""In which order are the changes of many groups reported, and which rows beat those that left?

By group, and within one by (arrival, id); rivals as `reasons` names them. All of that nearly always without ids: only
rows that arrived at one instant are distinguished by those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fogline.arrays import BEATEN, Floats, Ints, LiveSet
from fogline.kernels.many import ManyChanges
from fogline.kernels.report import NO_RIVAL, sure_rivals
from fogline.skyline.many import ManyGroups

Names = Callable[[Ints], list[Any]]  # the ids of some rows


def in_order(groups: ManyGroups, changes: ManyChanges, names: Names) -> ManyChanges:
    """What changed at a tick that the groups have just had, by group, arrival and id, with all rivals."""
    many = groups.many
    arrived = many.columns.arrived[changes.slot]
    order = np.lexsort((arrived, changes.group))
    _by_name(order, arrived, changes, lambda which: names(many.source[changes.slot[which]]))
    changes = ManyChanges._make(each[order] for each in changes)
    for k in np.flatnonzero((changes.reason == BEATEN) & (changes.rival < 0)).tolist():
        changes.rival[k] = _first(groups, changes, k, names)
    return changes


def _by_name(order: Ints, arrived: Floats, changes: ManyChanges, names: Names) -> None:
    """Put changes of one group and arrival, which lie together, in the order of their ids."""
    a, b = order[:-1], order[1:]
    same = (changes.group[a] == changes.group[b]) & (arrived[a] == arrived[b])
    at = 0
    ties = np.flatnonzero(same).tolist()
    while at < len(ties):
        begin = ties[at]
        while at + 1 < len(ties) and ties[at + 1] == ties[at] + 1:
            at += 1
        some = order[begin : ties[at] + 2]
        ids = names(some)
        order[begin : ties[at] + 2] = some[sorted(range(len(some)), key=ids.__getitem__)]
        at += 1


def _first(groups: ManyGroups, changes: ManyChanges, k: int, names: Names) -> int:
    """The slot of the first of the open rows that surely beat the one that left; negative: there is none."""
    many, g, slot = groups.many, int(changes.group[k]), int(changes.slot[k])
    first, new = int(many.first[g]), int(many.new[g])
    live = live_set(groups, g)
    found = sure_rivals(live, live.clouds, slot - first, new if slot - first < new else 0) + first
    ids = dict(zip(found.tolist(), names(many.source[found]), strict=True))
    return min(found.tolist(), key=lambda each: (many.columns.arrived[each], ids[each]), default=NO_RIVAL)


def live_set(groups: ManyGroups, g: int) -> LiveSet:
    """One of the groups, as kernels see it."""
    many, part = groups.many, slice(int(groups.many.first[g]), int(groups.many.first[g + 1]))
    columns = type(many.columns)._make(each[part] for each in many.columns)
    return LiveSet(
        many.clouds.part(part), columns, many.raw[part], many.sums, many.cuts, many.fence, int(many.used[g]),
        *groups.ends, float(many.latest[g]), many.shared,
    )  # fmt: skip
