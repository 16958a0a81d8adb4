"""What happens in many groups from their clocks on, tick by tick or at once?

As in `group`: at each tick what has expired leaves, the rows that arrived enter, the answer is taken. Ticks of
different groups have nothing to do with each other, so the first ticks of all are taken together, then the second ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.many import ManyChanges
from fogline.skyline.many import ComingRows, ManyGroups, joined_changes
from fogline.skyline.many_changes import Names, in_order

Step = tuple[Ints, Floats, ComingRows]  # groups, the instant of each group, the rows that arrive


def advance(
    groups: ManyGroups, now: Floats, rows: ComingRows, names: Names, *, ticks: bool
) -> tuple[ManyChanges, Ints]:
    """Everything up to `now` (groups,); no row is late. Returns what changed, group by group and tick by tick, and how
    many rows of each group had expired when they arrived."""
    expired = np.zeros(len(now), np.int64)
    found = []
    for which, tick, coming in _ticks(groups, now, rows) if ticks else _at_once(groups, now, rows):
        gone = coming.expires <= tick[coming.group]
        if gone.any():
            expired += np.bincount(coming.group[gone], minlength=len(now))
            coming = coming.part(~gone)
        found.append(in_order(groups, groups.step(which, tick, coming), names))
    if not found:
        return NOTHING, expired
    changes = joined_changes(found)
    if len(found) > 1:
        order = np.argsort(changes.group, kind="stable")
        changes = ManyChanges._make(each[order] for each in changes)
    return changes, expired


def _at_once(groups: ManyGroups, now: Floats, rows: ComingRows) -> Iterator[Step]:
    """One tick for all, of groups that have rows or in which one expires."""
    comes = np.bincount(rows.group, minlength=len(now)) > 0
    which = np.flatnonzero((comes | (groups.many.soon <= now)) & ~groups.odd)
    if len(which):
        order = np.lexsort((rows.expires, rows.group))  # the last to expire is found first then
        yield which, now, _of(rows.part(order), which, len(now))


def _ticks(groups: ManyGroups, now: Floats, rows: ComingRows) -> Iterator[Step]:
    """The next instant of each group at which a row arrives or expires, again and again."""
    rows = rows.part(np.lexsort((rows.arrived, rows.group)))
    at, end = (np.searchsorted(rows.group, np.arange(len(now)) + k) for k in (0, 1))
    arrived = np.append(rows.arrived, np.inf)
    while True:
        tick = np.minimum(np.where(at < end, arrived[at], np.inf), groups.many.soon)
        more = (tick <= now) & np.isfinite(tick)
        groups.odd |= more & groups.untidy()
        which = np.flatnonzero(more & ~groups.odd)
        if not len(which):
            return
        there = np.zeros(len(now), np.bool_)
        there[which] = True
        coming = there[rows.group] & (rows.arrived == tick[rows.group])
        yield which, tick, rows.part(coming)
        at = at + np.bincount(rows.group[coming], minlength=len(now))


def _of(rows: ComingRows, which: Ints, groups: int) -> ComingRows:
    """The rows of some groups."""
    there = np.zeros(groups, np.bool_)
    there[which] = True
    return rows if there.all() else rows.part(there[rows.group])


NOTHING = ManyChanges._make(
    np.empty(0, np.float64 if name in ("time", "probability", "within") else np.int64) for name in ManyChanges._fields
)
