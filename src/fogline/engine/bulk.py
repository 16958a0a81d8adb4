"""How many threads share the work of a large tick, and how?

One, unless FOGLINE_THREADS or an engine (on Spark `spark.task.cpus`) allows more. A loop is cut into as many shares as
there are threads; each share is a compiled call that leaves Python's lock. Threads are started when they are first
needed, by the process that needs them: a process that was forked has none of its parent's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fogline.arrays import BOUNDS_ONLY, Arrivals, Batch, Boxes, Floats, Ints, Ladder, Words
from fogline.engine.slots import Slots
from fogline.errors import FoglineError
from fogline.kernels import shares as kernels

if TYPE_CHECKING:
    from fogline.engine.live import Live


VARIABLE = "FOGLINE_THREADS"
MOST = 1_024  # threads: more are a slip of the pen, and no system starts them
T = TypeVar("T")

_asked: list[int] = []  # what an engine allows
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process and number


def allow(number: int) -> None:
    """So many threads may be used by this process, unless the environment states otherwise."""
    _asked[:] = [max(1, number)]


def threads() -> int:
    """How many threads share the work."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return _asked[0] if _asked else 1
    if not given.isdecimal() or len(given) > len(str(MOST)) or not 1 <= int(given) <= MOST:
        raise FoglineError(f"{VARIABLE} is {given[:40]!r}; it must be a whole number, from 1 to {MOST:,}.")
    return int(given)


def cuts(n: int, shares: int) -> list[tuple[int, int]]:
    """So many numbers in even shares, none of them empty.

    >>> cuts(7, 3)
    [(0, 2), (2, 4), (4, 7)]
    """
    ends = [n * k // shares for k in range(shares + 1)]
    return [(a, b) for a, b in pairwise(ends) if b > a]


def in_shares(shares: list[tuple[int, int]], work: Callable[[int, int], T]) -> list[T]:
    """The work on each share, at the same time; what came of it, in the order of the shares."""
    if len(shares) < 2:
        return [work(a, b) for a, b in shares]
    this = os.getpid(), len(shares)
    if this not in _pools:
        _pools[this] = ThreadPoolExecutor(len(shares) - 1, thread_name_prefix="fogline")
    others = [_pools[this].submit(work, a, b) for a, b in shares[1:]]
    first = work(*shares[0])
    return [first, *(each.result() for each in others)]


# --- shared_work ---
# How do several threads work on one large tick?
#
# The steps of `kernels.tick`, those that take long cut into shares (`kernels.shares`). What comes of them does not
# depend
# on the number of threads.

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
    [steps] = _ladders((-there.uncertain.hi[: slots.used], there.columns.word_hi, np.arange(slots.used)))
    found = in_shares(_shares(len(some)), lambda a, b: kernels.beating(there, boxes, some[a:b], steps))
    expires = np.maximum.reduce(found) if found else np.full(slots.used, -np.inf)
    closed, died, before = kernels.conquered(tuple(slots.columns), expires)
    live.forgot(int(died), int(before))
    return rows, until, origin, np.concatenate((went, closed))


def screen(live: Live, rows: Arrivals) -> tuple[Ints, Ints, Floats, Ints]:
    """As `kernels.tick.screen`."""
    went, which, until, _ = _admitted(live.slots, rows, live.now)
    bounds_only = (rows.uncertain.start[which] == BOUNDS_ONLY).any(axis=1)
    return went, which, until, which[bounds_only & (until <= live.now)]


def _admitted(slots: Slots, rows: Arrivals, now: float) -> tuple[Ints, Ints, Floats, Boxes]:
    """What was open and has expired, which rows can matter, until when each is surely beaten; and the boxes of all."""
    live = slots.live_set()
    went, boxes, best, some = kernels.begin(live, rows, now)
    among_rows, among_live = _ladders(
        (boxes.lo, boxes.word_lo, some), (live.uncertain.lo, live.columns.word_lo, np.arange(slots.used))
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
    return Arrivals(rows.uncertain, rows.arrived, rows.expires, rows.raw, np.empty(0), origin)


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
