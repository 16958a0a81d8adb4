"""What leaves a state of sensors: readings that are too old, and sensors when there are too many.

**Too old.** A row sees readings that are at most the retention older than itself. The clock of a group is the newest
time that two of its sensors have reached (of a single sensor, its newest time but one), so a single row from the future
moves nothing. A reading is too old when it lies two retentions behind the clock of its group: a row that is at most one
retention late sees the same with and without it. Groups that lag behind others lose nothing.

**Too many.** A row sees what its sensor has read before if that sensor is among the `most` that were read last before
the row's instant; of those read last at one instant, the ones whose names sort last. So sensors leave, the longest
silent first, when an instant is past: at the first row that is later than every reading so far. Until then a state may
hold as many more sensors as were read at that instant. A late row that brings one sensor too many drives one out at
once. Names and times alone decide which sensors these are, so where rows come in the order of their times it does not
matter how they are cut into calls, not even within an instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.gaps import SensorsLeaving

Name = tuple[Any, ...]
LastRead = Callable[[Any], Floats]  # of sensors, by their numbers, the times at which they were read last


def too_old(times: Floats, group: Ints, longest: float) -> Flags:
    """(s, d, k) which readings are too old; group (s,): of each sensor. O(s · d · k + s log s)."""
    return np.asarray((times > -np.inf) & (times < (clocks(times, group) - 2 * longest)[:, None, None]))


def clocks(times: Floats, group: Ints) -> Floats:
    """(s,) the clock of each sensor's group."""
    newest = times[:, :, 0].max(axis=1)
    before = np.where(times < newest[:, None, None], times, -np.inf).max(axis=(1, 2))
    order = np.lexsort((newest, group))
    last = np.flatnonzero(np.append(np.diff(group[order]) != 0, True))  # of each group, the sensor that was read last
    alone = np.diff(last, prepend=-1) == 1
    clock = np.empty(len(last))
    clock[alone] = before[order[last[alone]]]
    clock[~alone] = newest[order[last[~alone] - 1]]
    return np.asarray(clock[group])


def groups_of(names: Iterable[Name]) -> Ints:
    """(s,) the numbers of the sensors' groups: all but the last part of a name."""
    number: dict[Name, int] = {}
    return np.array([number.setdefault(name[:-1], len(number)) for name in names], np.int64)


def clock_of(last: Floats) -> tuple[float, int]:
    """The newest of these times, and how many sensors have it."""
    clock = float(last.max(initial=-np.inf))
    return clock, int(np.count_nonzero(last == clock)) if clock > -np.inf else 0


class SensorPlaces(NamedTuple):
    """The numbers of rows' sensors. A sensor that leaves and comes back within a call has a new one."""

    of_rows: Ints  # (n,) in the order in which rows are taken
    leaving: SensorsLeaving  # which sensors leave, and before which rows


class SensorBound:
    """Counts the sensors of a state, and knows which of them leaves next.

    The longest silent one comes first in a heap, in which a sensor lies by a time at which it was read, perhaps not the
    last: one that has been read since is put back by its last time. O(log sensors) a reading.
    """

    def __init__(self, most: int | None) -> None:
        self.most = np.inf if most is None else most
        self.elsewhere = 0  # sensors that count but lie in parts of the state that were not opened; none of them leaves
        self.forgotten = 0  # sensors that left with what they had read
        self.clock, self.fresh = -np.inf, 0  # the newest reading's time, and how many sensors were read then
        self._heap: list[tuple[float, tuple[str, ...], Name]] | None = None  # None: made when it is needed

    def holds(self, sensors: int) -> bool:
        """Whether there is room for so many, here."""
        return sensors + self.elsewhere <= self.most

    def begin(self, last: Floats) -> None:
        """The state holds sensors that were read last at these times (s,)."""
        self.clock, self.fresh = clock_of(last)
        self._heap = None

    def changed(self) -> None:
        """Sensors have come or gone without this object."""
        self._heap = None

    def count(self, sensor: Ints, time: Floats, last: Floats) -> None:
        """Readings come, there is room for all; `last`: when their sensors were read last, before the call."""
        newest = time.max(initial=-np.inf)
        if newest < self.clock or newest == -np.inf:
            return
        now = time == newest
        if newest > self.clock:
            self.clock, self.fresh = float(newest), len(np.unique(sensor[now]))
        else:
            self.fresh += len(np.unique(sensor[now & (last < newest)]))

    def take_back(
        self, before: tuple[float, int], names: Sequence[Name], number: dict[Name, int], last: LastRead
    ) -> None:
        """Rows of these sensors were no readings after all. `before`: `clock` and `fresh` before the call."""
        self.clock, self.fresh = before
        if self._heap is not None:  # they may lie there by a time at which they were not read
            for name in {*names} & number.keys():
                heappush(self._heap, (float(last(number[name])), _order(name), name))

    def place(
        self, called: Sequence[Name], time: Floats, speaks: Flags, number: dict[Name, int], names: list[Name],
        last: LastRead,
    ) -> SensorPlaces:  # fmt: skip
        """Take rows one by one, with their sensors' names; `speaks`: rows that have any value.

        `number` and `names` follow: the numbers of the sensors that stay, and the names of all numbers, free ones too.
        """
        call = _Call(self, number, names, last, called)
        at: list[int] = []
        gone: list[int] = []
        of_rows = np.empty(len(time), np.int64)
        for k, (name, now, has) in enumerate(zip(called, time.tolist(), speaks.tolist(), strict=True)):
            if now > self.clock:
                while not self.holds(len(number)):
                    at.append(k)
                    gone.append(call.leave())
            of_rows[k] = call.come(name, now, has)
            while now < self.clock and not self.holds(len(number) - self.fresh):
                at.append(k + 1)
                gone.append(call.leave())
        return SensorPlaces(of_rows, SensorsLeaving(np.array(at, np.int64), np.array(gone, np.int64)))

    def heap(self, names: Sequence[Name], last: LastRead) -> list[tuple[float, tuple[str, ...], Name]]:
        """All sensors, by a time at which they were read."""
        if self._heap is None:
            read = last(np.arange(len(names))).tolist()
            self._heap = [(at, _order(name), name) for at, name in zip(read, names, strict=True)]
            heapify(self._heap)
        return self._heap


class _Call:
    """One call of `place`: sensors come and leave, row by row."""

    def __init__(
        self, bound: SensorBound, number: dict[Name, int], names: list[Name], last: LastRead, called: Sequence[Name]
    ) -> None:
        self.bound, self.number, self.names, self.last = bound, number, names, last
        self.heap = bound.heap(names, last)
        known = np.array(sorted({number[name] for name in called if name in number}), np.int64)
        self.read: dict[int, float] = dict(zip(known.tolist(), last(known).tolist(), strict=True))

    def come(self, name: Name, now: float, speaks: bool) -> int:
        """A row of this sensor: the sensor's number."""
        k = self.number.get(name)
        if k is None:
            k = self.number[name] = len(self.names)
            self.names.append(name)
            self.read[k] = -np.inf
            heappush(self.heap, (-np.inf, _order(name), name))
        if speaks and now > self.read[k]:
            self.read[k] = now
            if now > self.bound.clock:
                self.bound.clock, self.bound.fresh = now, 1
            elif now == self.bound.clock:
                self.bound.fresh += 1
        return k

    def leave(self) -> int:
        """The sensor that has been silent longest leaves: its number."""
        while True:
            at, order, name = self.heap[0]
            if (k := self.number.get(name)) is None:  # it lay there twice, and has left
                heappop(self.heap)
                continue
            last = self.read[k] if k in self.read else float(self.last(k))
            if last > at:
                heapreplace(self.heap, (last, order, name))
                continue
            heappop(self.heap)
            del self.number[name]
            self.bound.fresh -= last == self.bound.clock > -np.inf
            self.bound.forgotten += last > -np.inf
            return k


def _order(name: Name) -> tuple[str, ...]:
    """A name as texts, which can be compared; a missing group comes first."""
    return tuple("" if part is None else f" {part}" for part in name)
