"""How do several threads work on one large tick?

The steps of `kernels.tick`, those that take long cut into shares (`kernels.shares`). What comes of them does not depend
on the number of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fogline.arrays import VAGUE, Arrivals, Batch, Boxes, Floats, Ints, Ladder, Words
from fogline.kernels import shares as kernels
from fogline.skyline.slots import Slots
from fogline.skyline.threads import cuts, in_shares, threads

if TYPE_CHECKING:
    from fogline.skyline.live import Live

ROWS = 512  # a tick of fewer rows is not shared, …
PAIRS = 2_000_000  # … nor one of fewer comparisons of one row with another, …
MANY = 8_192  # … nor one at which no row comes, of a smaller live set


def pays(slots: Slots, rows: int) -> bool:
    """Whether it may pay to share a tick of so many rows; of none: because many may have to be judged again."""
    if rows == 0:
        return slots.used >= MANY and threads() > 1
    return rows >= ROWS and rows * (rows + slots.used) >= PAIRS and threads() > 1


def meet(live: Live, rows: Batch, until: Floats, origin: Ints) -> tuple[Batch, Floats, Ints, Ints]:
    """The rows that can matter, until when they are surely beaten, their slots of origin, and what was open and is no
    more; what they surely beat knows it then. `until`: what is known of them; empty: nothing."""
    slots = live.slots
    slots.make_room(rows)
    went: Ints = np.empty(0, np.int64)
    if len(until):
        boxes = Boxes(*kernels.boxes_for(slots.live_set(), _arrivals(rows, origin)))
        which = np.arange(len(rows.id))
    else:
        went, which, until, boxes = _admitted(slots, _arrivals(rows, origin), live.now)
        rows, origin = live.without_dropped(rows, origin, which)
    there, some = slots.live_set(), kernels.distinct(boxes, which)
    [steps] = _ladders((-there.clouds.hi[: slots.used], there.columns.word_hi, np.arange(slots.used)))
    found = in_shares(_shares(len(some)), lambda a, b: kernels.beating(there, boxes, some[a:b], steps))
    expires = np.maximum.reduce(found) if found else np.full(slots.used, -np.inf)
    closed, died, before = kernels.conquered(tuple(slots.columns), expires)
    live.forgot(int(died), int(before))
    return rows, until, origin, np.concatenate((went, closed))


def screen(live: Live, rows: Arrivals) -> tuple[Ints, Ints, Floats, Ints]:
    """As `kernels.tick.screen`."""
    went, which, until, _ = _admitted(live.slots, rows, live.now)
    vague = (rows.clouds.start[which] == VAGUE).any(axis=1)
    return went, which, until, which[vague & (until <= live.now)]


def _admitted(slots: Slots, rows: Arrivals, now: float) -> tuple[Ints, Ints, Floats, Boxes]:
    """What was open and has expired, which rows can matter, until when each is surely beaten; and the boxes of all."""
    live = slots.live_set()
    went, boxes, best, some = kernels.begin(live, rows, now)
    among_rows, among_live = _ladders(
        (boxes.lo, boxes.word_lo, some), (live.clouds.lo, live.columns.word_lo, np.arange(slots.used))
    )
    until = np.empty(len(rows.expires))
    in_shares(
        _shares(len(some)), lambda a, b: kernels.beaten_until(live, boxes, some[a:b], among_rows, among_live, until)
    )
    until = until[best]
    which = np.flatnonzero(until < rows.expires)
    return went, which, until[which], boxes


def settle(live: Live, came: Ints, went: Ints) -> bool:
    """Members' sums follow what came and went; the clouds that are due are judged. Are there some to be bracketed?"""
    slots, limits, members = live.slots, live.limits, live.members()
    there = slots.live_set()
    if len(members) and (len(came) or len(went)):
        in_shares(_shares(len(members)), lambda a, b: kernels.shift_some(there, members[a:b], came, went, limits))
    due, opened, room, live.alive, live.next_expiry = kernels.due_now(tuple(slots.columns), slots.used, live.now)
    if not len(due):
        return False
    slots.room_for_sums(room)
    there = slots.live_set()
    bulk = len(due) >= limits.many
    strong, steps, due, again = kernels.before_judging(there, opened, due, bulk)
    ends, shares = np.cumsum(slots.columns.places[due]), _apart(_shares(len(due)), again.tolist())
    pruned = {a: np.zeros_like(live.counts.shadowed) for a, _ in shares}

    def judge(a: int, b: int) -> tuple[int, int, int]:
        at, some = slots.filled + (int(ends[a - 1]) if a else 0), slice(a, b)
        found: tuple[int, int, int] = kernels.judge_share(
            there, opened, strong, bulk, steps, due[some], again[some], limits, pruned[a], at
        )
        return found

    found = in_shares(shares, judge)
    for each in pruned.values():
        live.counts.shadowed += each
    live.counts.evaluations += sum(evaluations for evaluations, _, _ in found)
    slots.filled = max(end for _, _, end in found)
    return any(heavy for _, heavy, _ in found)


def _arrivals(rows: Batch, origin: Ints) -> Arrivals:
    return Arrivals(rows.clouds, rows.arrived, rows.expires, rows.raw, np.empty(0), origin)


def _ladders(*boxes: tuple[Floats, Words, Ints]) -> list[Ladder]:
    """Ladders of some boxes each: their corners, the corners' words, and which of them."""
    d = boxes[0][0].shape[1]
    steps = [
        Ladder(np.empty((d, len(some))), np.empty((d, len(some)), np.int64), np.empty((d, len(some)), np.uint64))
        for _, _, some in boxes
    ]

    def sort(a: int, b: int) -> None:
        for k, each in enumerate(boxes):
            first, end = max(a - k * d, 0), min(b - k * d, d)
            if first < end:
                kernels.sort_share(*each, steps[k], first, end)

    in_shares(_shares(d * len(boxes)), sort)
    return steps


def _shares(n: int) -> list[tuple[int, int]]:
    return cuts(n, threads())


def _apart(shares: list[tuple[int, int]], again: list[bool]) -> list[tuple[int, int]]:
    """The shares, moved so that clouds that are the same lie in one."""
    begins = []
    for begin, _ in shares:
        while begin < len(again) and again[begin]:
            begin += 1
        begins.append(begin)
    return [(a, b) for a, b in zip(begins, [*begins[1:], len(again)], strict=True) if b > a]
