"""How is a large tick worked out, and how do several threads share the work?

It takes the steps of `kernels.tick`. Those that take long are cut into shares (`kernels.shares`), and boxes and rows
are sorted first. That pays from some ten thousand rows on (`python -m benchmarks.threads`); fewer go the short way.
What comes of it does not depend on the way, nor on the number of shares.

One thread works, unless FOGLINE_THREADS or an engine (on Spark `spark.task.cpus`) allows more. A loop is cut into as
many shares as there are threads; each share is a compiled call that leaves Python's lock. Threads are started when they
are first needed, by the process that needs them: a process that was forked has none of its parent's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fogline.arrays import (
    BOUNDS_ONLY,
    CAME,
    DUE,
    OPENED,
    WENT,
    Arrivals,
    Batch,
    Boxes,
    Flags,
    Floats,
    Ints,
    SortedCorners,
    Words,
)
from fogline.engine.slots import NO_SLOTS
from fogline.errors import FoglineError
from fogline.kernels import shares as kernels
from fogline.kernels.states import IN

if TYPE_CHECKING:
    from fogline.engine.live import ManyLiveSets

NOT_SCREENED: Floats = np.empty(0)
ROWS = (
    32_768  # arriving rows, times threads, for which it pays to sort: with a few hundred it took 2 to 10 times as long
)
VARIABLE = "FOGLINE_THREADS"
MOST_THREADS = 1_024  # threads: more are a slip of the pen, and no system starts them
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
    if not given.isdecimal() or len(given) > len(str(MOST_THREADS)) or not 1 <= int(given) <= MOST_THREADS:
        raise FoglineError(f"{VARIABLE} is {given[:40]!r}; it must be a whole number, from 1 to {MOST_THREADS:,}.")
    return int(given)


def large(n: int) -> bool:
    """Does it pay to sort so many arriving rows, and those that are there, before they are compared?"""
    return n * threads() >= ROWS


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


def meet(live: ManyLiveSets, rows: Batch, coming: Arrivals) -> tuple[Batch, Arrivals]:
    """The rows of one group that can matter, and until when they are surely dominated.

    What they surely dominate knows it then.
    """
    slots = live.slots
    slots.make_room(rows)
    if coming.screened[0]:
        boxes = _whole(kernels.boxes_for(slots.live_arrays(), coming), slots.fence)
        which = np.arange(len(rows.arrived))
    else:
        until, boxes = _admitted(live, coming)
        which = np.flatnonzero(until < rows.expires)
        rows, until, origin = _without_dropped(live, rows, until, coming.origin, which)
        coming = arrivals_of(rows, np.array([0, len(which)]), origin, until, np.ones(1, np.bool_))
    there, some, used = slots.live_arrays(), kernels.distinct(boxes, which), slots.used
    [steps] = _sorted((-there.uncertain.hi[:used], there.columns.word_hi, np.arange(used)))
    found = in_shares(_shares(len(some)), lambda a, b: kernels.dominating(there, boxes, some[a:b], steps))
    if found:
        expires = np.maximum.reduce(found)
        kernels.end_or_hide_all(tuple(slots.columns), expires, slots.fence, slots.work[WENT], slots.groups)
    return rows, coming


def _without_dropped(
    live: ManyLiveSets, rows: Batch, until: Floats, origin: Ints, which: Ints
) -> tuple[Batch, Floats, Ints]:
    """The rows `which`; the others are forgotten."""
    if len(which) == len(rows.arrived):
        return rows, until, origin
    dropped = np.ones(len(rows.arrived), np.bool_)
    dropped[which] = False
    before = origin[dropped[: len(origin)] & (origin >= 0)]
    groups = live.slots.groups
    groups["forgotten"] += np.count_nonzero(dropped)
    groups["spatial"] += np.count_nonzero(dropped) - np.count_nonzero(live.slots.columns.counted[before])
    return rows.part(which), until[which], origin[which] if len(origin) else origin


def screen(live: ManyLiveSets, rows: Arrivals) -> tuple[Flags, Floats, Flags]:
    """As `kernels.tick.screen`, of one group."""
    until, _ = _admitted(live, rows)
    stay = until < rows.expires
    bounds_only = (rows.uncertain.start == BOUNDS_ONLY).any(axis=1)
    return stay, until, stay & bounds_only & (until <= live.slots.groups["now"][0])


def _admitted(live: ManyLiveSets, rows: Arrivals) -> tuple[Floats, Boxes]:
    """What has expired leaves. Until when each row is surely dominated, and the boxes of all."""
    slots = live.slots
    there, used = slots.live_arrays(), slots.used
    found, best, some = kernels.begin(there, rows, slots.work[WENT], slots.groups)
    boxes = _whole(found, slots.fence)
    among_rows, among_live = _sorted(
        (boxes.lo, boxes.word_lo, some), (there.uncertain.lo, there.columns.word_lo, np.arange(used))
    )
    until = np.empty(len(rows.expires))
    in_shares(
        _shares(len(some)), lambda a, b: kernels.dominated_until(there, boxes, some[a:b], among_rows, among_live, until)
    )
    return until[best], boxes


def update_answer(live: ManyLiveSets, g: int) -> bool:
    """As `kernels.tick.update_answer`, of group g. Are rows to be bracketed?"""
    slots, limits = live.slots, live.limits
    groups, there = slots.groups, slots.live_arrays(g)
    first, columns = int(groups["first"][g]), there.columns
    work = slots.work[:, first : first + int(groups["room"][g])]
    came, went = work[CAME, : groups["came"][g]], work[WENT, : groups["went"][g]]
    members = np.flatnonzero(columns.state[: there.used] == IN)
    if len(members) and (len(came) or len(went)):
        in_shares(_shares(len(members)), lambda a, b: kernels.shift_share(there, members[a:b], came, went, limits))
    groups["came"][g] = groups["went"][g] = 0
    n, m = kernels.due_now(tuple(columns), groups[g : g + 1], work[DUE], work[OPENED])
    due, opened = work[DUE, :n], work[OPENED, :m]
    if not n:
        return False
    slots.room_for_sums(int(groups["sums"][g]))
    there = slots.live_arrays(g)
    strong, steps, due, again = kernels.before_judging(there, opened, due, n >= limits.many)
    ends, shares = np.cumsum(columns.instances[due]), _apart(_shares(n), again.tolist())
    pruned = {a: np.zeros_like(slots.pruned[g]) for a, _ in shares}

    def judge(a: int, b: int) -> tuple[int, int, int]:
        share, some = there._replace(filled=slots.filled + (int(ends[a - 1]) if a else 0)), slice(a, b)
        found: tuple[int, int, int] = kernels.judge_share(
            share, opened, strong, steps, due[some], again[some], limits, pruned[a]
        )
        return found

    found = in_shares(shares, judge)
    for each in pruned.values():
        slots.pruned[g] += each
    groups["evaluations"][g] += sum(evaluations for evaluations, _, _ in found)
    slots.filled = max(end for _, _, end in found)
    return any(heavy for _, heavy, _ in found)


def arrivals_of(
    rows: Batch, begin: Ints, origin: Ints = NO_SLOTS, until: Floats = NOT_SCREENED, screened: Flags | None = None
) -> Arrivals:
    """Rows as kernels see them; screened: None: of no group."""
    screened = np.zeros(max(len(begin) - 1, 0), np.bool_) if screened is None else screened
    return Arrivals(rows.uncertain, rows.arrived, rows.expires, rows.raw, until, origin, begin, screened)


def _whole(found: Boxes, fence: np.uint64) -> Boxes:
    """Boxes as a kernel returns them: its words are plain integers then, and the fence may be too large for one."""
    return Boxes(*found)._replace(fence=fence)


def _sorted(*boxes: tuple[Floats, Words, Ints]) -> list[SortedCorners]:
    """Sorted columns of some boxes each: their corners, the corners' words, and which of them."""
    d = boxes[0][0].shape[1]
    steps = [
        SortedCorners(np.empty((d, len(some))), np.empty((d, len(some)), np.int64), np.empty((d, len(some)), np.uint64))
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
    """The shares, moved so that rows that are the same lie in one."""
    begins = []
    for begin, _ in shares:
        while begin < len(again) and again[begin]:
            begin += 1
        begins.append(begin)
    return [(a, b) for a, b in zip(begins, [*begins[1:], len(again)], strict=True) if b > a]
