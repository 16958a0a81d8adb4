"""Which row beat the one that left?

`kernels.report` finds it; what that cannot know is ids. Of several open rows that surely beat a leaver the first in the
order of (arrival, id) is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fogline.arrays import BEATEN, Delta, Floats, Ints, Objects
from fogline.kernels.report import NO_RIVAL, sure_rivals

if TYPE_CHECKING:
    from fogline.skyline.live import Live, Report


def as_delta(tick: float, report: Report, live: Live) -> Delta:
    """A report, which lies by arrival, in the order of (arrival, id)."""
    slots, arrived, change, probability, within, raw, reason, rival = report
    ids = live.slots.id[slots]
    delta = Delta(tick, ids, arrived, change, probability, within, raw, *_named(live, slots, reason, rival))
    if len(slots) == 1:
        return delta
    keys = list(zip(arrived.tolist(), ids.tolist(), strict=True))
    if keys == sorted(keys):
        return delta
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__))
    moved: list[Any] = [None if column is None else column[order] for column in delta[1:]]
    return Delta(tick, *moved)


def _named(live: Live, slots: Ints, reason: Ints, rival: Ints) -> tuple[Ints, Objects | None, Floats | None]:
    """The reasons, and the ids and arrivals of the rivals."""
    codes = reason.tolist()
    if BEATEN not in codes:  # nearly always
        return reason, None, None
    ids, times = np.full(len(codes), None, object), np.full(len(codes), np.nan)
    columns = live.slots.columns
    for k in (k for k, code in enumerate(codes) if code == BEATEN):
        found = int(rival[k])
        if found < 0 or live.returned is not None:
            found = _first(live, int(slots[k]))
        if found >= 0:
            ids[k], times[k] = live.slots.id[found], columns.arrived[found]
    return reason, ids, times


def _first(live: Live, slot: int) -> int:
    """The first of the open rows that surely beat the one in a slot, or what that became by a revision."""
    s, clouds, o, begin = live.slots, live.slots.clouds, slot, live.new if slot < live.new else 0
    if live.returned is not None and slot in live.returned[0]:
        clouds, o, begin = live.returned[1], int(np.flatnonzero(live.returned[0] == slot)[0]), 0

    def key(g: int) -> tuple[float, Any]:
        return float(s.columns.arrived[g]), s.id[g]

    return min(sure_rivals(s.live_set(), clouds, o, begin).tolist(), key=key, default=NO_RIVAL)
