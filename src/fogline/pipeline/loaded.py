"""What is a group between two batches, which parts of it lie beside its state, and how large is it?

Beside the state lie the log of a large group in which the newest row of each id counts (`changelog`), and rows that
wait, where they are many.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from fogline.engine.group import Group
from fogline.engine.slots import TYPES
from fogline.kernels.states import IN
from fogline.kernels.uncertain import own_values
from fogline.pipeline.clock_guard import Ahead
from fogline.pipeline.exchange import RowBlock, concat, from_arrays, to_arrays
from fogline.pipeline.plan import Plan
from fogline.rows.names import KeyText
from fogline.state.format import from_value, to_value
from fogline.state.store import StateStore, must_get


class LoggedUpdate(NamedTuple):
    """An update of a changelog."""

    part: int  # of the store
    mark: str  # of the group after it
    rows: int


@dataclass(frozen=True, slots=True)
class Log:
    """Where a group lies."""

    base: str  # the mark of the group in the base
    size: int  # bytes of the base
    updates: tuple[LoggedUpdate, ...]  # in their order; the first may be older than the base

    @property
    def mark(self) -> str:
        """Of the group now."""
        return self.updates[-1].mark if self.updates else self.base

    def after(self, mark: str) -> tuple[LoggedUpdate, ...]:
        """The updates since the group had this mark."""
        marks = [update.mark for update in self.updates]
        return self.updates[marks.index(mark) + 1 :] if mark in marks else self.updates

    def to_plain(self) -> list[Any]:
        """For a header."""
        return [self.base, self.size, [list(each) for each in self.updates]]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Log:
        """The inverse of `to_plain`."""
        base, size, updates = plain
        return cls(base, size, tuple(LoggedUpdate(*each) for each in updates))


# --- Rows that wait ---------------------------------------------------------------------------------------------------
#
# They wait for the clock of their group. A few lie in the group's state. Where there are more, they lie beside it, in
# segments of time, a sixteenth of the lateness long: what comes joins the newest segments, what becomes due lies in the
# oldest, and those between are neither read nor written.

SEGMENTS = 16  # in all of the lateness
FEW = 2_000  # rows that lie in the state itself

_WAITING = "waiting"  # in the store
_WHAT = "segment of rows that wait"


class Segment(NamedTuple):
    """Rows that wait beside the state."""

    part: int  # of the store
    at: float  # the segment's number, counted in time
    rows: int
    first: float  # the least arrival


def open_segments(
    plan: Plan, segments: Sequence[Segment], clock: float, store: StateStore, key: KeyText
) -> tuple[list[RowBlock], list[Segment]]:
    """The rows of segments that the clock has reached, which leave the store; and the other segments."""
    reached = [segment for segment in segments if segment.first <= clock]
    if not reached:
        return [], list(segments)
    blocks = [_read(plan, segment, store, key) for segment in reached]
    for segment in reached:
        store.delete(_WAITING, key, segment.part)
    return blocks, [segment for segment in segments if segment.first > clock]


def put_away(
    plan: Plan, rows: RowBlock | None, segments: list[Segment], store: StateStore, key: KeyText
) -> tuple[RowBlock | None, list[Segment]]:
    """A few rows stay where they are, more go into their segments: what stays, and the segments then."""
    if rows is None or len(rows.arrived) <= FEW:
        return rows, segments
    by_time = {segment.at: segment for segment in segments}
    at = np.floor(rows.arrived / (plan.lateness / SEGMENTS))
    for each in np.unique(at).tolist():
        block, segment = rows.part(np.flatnonzero(at == each)), by_time.get(each)
        if segment is not None:
            block = concat([_read(plan, segment, store, key), block])  # those that came first lie first
        part = _free(by_time.values()) if segment is None else segment.part
        store.put(_WAITING, key, part, to_value({}, to_arrays(block, plan.signs)))
        by_time[each] = Segment(part, each, len(block.arrived), float(block.arrived.min()))
    return None, list(by_time.values())


def _read(plan: Plan, segment: Segment, store: StateStore, key: KeyText) -> RowBlock:
    return from_arrays(from_value(must_get(store, _WAITING, key, segment.part), _WHAT)[1], plan.signs, plan.width)


def _free(segments: Iterable[Segment]) -> int:
    """The least number that no segment has."""
    taken = {segment.part for segment in segments}
    return next(k for k in range(len(taken) + 1) if k not in taken)


# --- Groups that stay loaded ------------------------------------------------------------------------------------------
#
# A group need not be loaded from its state again in the worker that saved it a moment ago, if the state is still the
# one that was saved: its digest is kept beside it, and a worker keeps the last few groups it saved by their digests. A
# digest that differs (another worker was faster, a task was retried, the query began again) finds nothing, and the
# state is loaded. So the cache saves time and changes nothing that is reported. A group that is large has a state of
# its own; small ones stay loaded where there are a few, by the digest of their block.

LARGE = 16_000  # bytes of state that would make a block too heavy for the others in it; it lies under its own key
MOST = 128_000_000  # bytes of groups that stay loaded


@dataclass(slots=True)
class LoadedGroup:
    """A group between two calls."""

    group: Group
    clock: float
    waiting: RowBlock | None  # rows that are ahead of the clock
    timer: int | None  # in milliseconds of event time
    ahead: Ahead = field(default_factory=Ahead)  # what runs ahead of it
    segments: list[Segment] = field(default_factory=list)  # in which more such rows lie
    sensors: bytes | None = None  # what its sensors have read, where rows get their contexts here; None: as in history
    log: Log | None = None  # where the group lies, if not in its state

    @property
    def empty(self) -> bool:
        """Whether no row of it lives, waits or is held."""
        return self.group.live.alive == 0 and self.waiting is None and not self.segments and self.ahead.held is None

    @property
    def waits(self) -> int:
        """How many rows wait."""
        return (0 if self.waiting is None else len(self.waiting.arrived)) + sum(each.rows for each in self.segments)


Mark = tuple[bytes, bytes]  # the digests of a state and of the plan it belongs to


class Cache:
    """What stays loaded, for all runs of a process, whichever threads they are in."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Mark, tuple[Any, int]] = OrderedDict()  # with their bytes
        self.size = 0  # of all of them
        self.lock = Lock()  # held while entries and their size change

    def put(self, mark: Mark, loaded: Any, size: int) -> None:
        """The oldest goes; the last stays, however large it is."""
        with self.lock:
            self._drop(mark)
            self.entries[mark] = loaded, min(size, MOST)
            self.size += min(size, MOST)
            while self.size > MOST:
                self._drop(next(iter(self.entries)))

    def pop(self, mark: Mark) -> Any:
        """What was kept; None: it is not there."""
        with self.lock:
            return self._drop(mark)

    def clear(self) -> None:
        """Nothing is kept."""
        with self.lock:
            self.entries.clear()
            self.size = 0

    def _drop(self, mark: Mark) -> Any:
        loaded, size = self.entries.pop(mark, (None, 0))
        self.size -= size
        return loaded


_cached = Cache()


def digest(state: bytes) -> bytes:
    """A digest by which a state is known from others."""
    return blake2b(state, digest_size=16).digest()


def put(mark: Mark, loaded: Any, size: int) -> None:
    """Keep what takes so many bytes when it is loaded. O(1), and once more when it goes."""
    _cached.put(mark, loaded, size)


def pop(mark: Mark) -> Any:
    """What was kept; None: it is not there. It is not any more: its next state will be another."""
    return _cached.pop(mark)


# --- Sizes ------------------------------------------------------------------------------------------------------------
#
# How many bytes a loaded group takes. Counted by what it holds, not by what its arrays have room for: the same for the
# same rows, whichever engine and worker has it. It is what a limit on state is compared with (`pipeline.limits`), and
# what an estimate multiplies (`runs.estimate`).

NAME = 72  # bytes of an id, with what refers to it
VALUE = 24  # of one value of a distribution: value, weight, tail
SUM = 24  # of one place of a member
ID = 160  # of an id that has a current row, or left a marker: name, number, place, time, version
CELLS = 40  # of one attribute of a row: lo, hi, raw, where its distribution begins, how long it is
COLUMNS: int = sum(np.dtype(kind).itemsize for kind in TYPES.values())  # of one row: times, probabilities, words


def row_bytes(plan: Plan) -> int:
    """Of a live row without gaps."""
    return NAME + int(COLUMNS) + CELLS * len(plan.query.names) + 8 * int(plan.width)


def size_of(plan: Plan, loaded: LoadedGroup) -> int:
    """Of all that a group has between calls. O(live rows)."""
    slots = loaded.group.live.slots
    alive = slots.alive()
    places = int(slots.columns.instances[alive][slots.columns.state[alive] == IN].sum())
    return _rows(plan, loaded) + own_values(slots.uncertain, alive, slots.shared) * VALUE + places * SUM


def at_most(plan: Plan, loaded: LoadedGroup) -> int:
    """No less than that: values and sums of rows that are gone may be among it. O(1)."""
    slots = loaded.group.live.slots
    return _rows(plan, loaded) + slots.pool * VALUE + slots.filled * SUM


def _rows(plan: Plan, loaded: LoadedGroup) -> int:
    """Of all but distributions and sums."""
    group = loaded.group
    queue = 0 if group.window is None else group.window.size
    held = 0 if loaded.ahead.held is None else len(loaded.ahead.held.arrived)
    sensors = 0 if loaded.sensors is None else len(loaded.sensors)
    rows = group.live.alive + loaded.waits + held
    return rows * row_bytes(plan) + group.ids * ID + queue * NAME + sensors
