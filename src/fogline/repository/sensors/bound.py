"""Which readings are so old that no row will see them?

A row sees readings that are at most the retention older than itself. The clock of a group is the newest time that two
of its sensors have reached (where there is only one, its own newest time but one), so that a single row from the future
moves nothing. Readings that lie two retentions behind the clock of their group are too old: a row that is at most one
retention late sees the same with and without them. Groups that lag behind others lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.gaps import SensorsLeaving


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


# --- bound ---
# Which sensors leave a state when there are too many?
#
# A row sees what its sensor has read before if that sensor is among the `most` that were heard last before the row's
# instant; of those heard last at one instant, the ones whose names come last. So sensors leave, the longest silent
# first,
# when an instant is past: at the first row that is later than every reading so far. Until then a state may hold as
# many
# sensors more as were heard at that instant. A late row that brings a sensor too many drives one out at once.
#
# Which sensors these are follows from names and times alone. So where rows come in the order of their times it does
# not
# depend on how they are cut into calls, not even within an instant.
#
# The longest silent one is found by a queue, in which a sensor lies by a time at which it was heard, perhaps not the
# last: a sensor that comes first in it and has been heard since is put back by its last time. O(log sensors) a
# reading.

Name = tuple[Any, ...]
LastHeard = Callable[[Any], Floats]  # when sensors, by their places, were heard last


class SensorPlaces(NamedTuple):
    """Where the sensors of rows lie. One that leaves and comes back within a call has a new place."""

    of_rows: Ints  # (n,) in the order in which rows are taken
    leaving: SensorsLeaving  # before which rows which places are left


class RowsInTurn(NamedTuple):
    """Rows in the order in which they are taken."""

    names: Sequence[Name]  # of their sensors
    time: Floats  # (n,)
    speaks: Flags  # (n,) which have any value


class SensorBound:
    """Counts the sensors of a state, and knows which of them leaves next."""

    def __init__(self, most: int | None) -> None:
        self.most = np.inf if most is None else most
        self.elsewhere = 0  # sensors that count, and lie in parts of the state that were not opened: none leaves next
        self.forgotten = 0  # sensors that left with what they had read
        self.clock, self.fresh = -np.inf, 0  # the newest reading's time, and how many sensors were heard then
        self._queue: list[tuple[float, tuple[str, ...], Name]] | None = None  # None: to be made when it is needed

    def begin(self, last: Floats) -> None:
        """The sensors of the state were heard at these times (s,), and nothing else is known of them."""
        self.clock, self.fresh = clock_of(last)
        self._queue = None

    def take_back(
        self, heard: tuple[float, int], names: Sequence[Name], number: dict[Name, int], last: LastHeard
    ) -> None:
        """Rows of these sensors were no readings after all. `heard`: the clock, and who was fresh, before the call."""
        self.clock, self.fresh = heard
        if self._queue is not None:  # they may lie there by a time at which they were not heard
            for name in {*names} & number.keys():
                heappush(self._queue, (float(last(number[name])), _order(name), name))

    def count(self, sensor: Ints, time: Floats, last: Floats) -> None:
        """Readings of sensors in these places come, heard `last` before the call; there is room for all."""
        newest = time.max(initial=-np.inf)
        if newest < self.clock or newest == -np.inf:
            return
        now = time == newest
        if newest > self.clock:
            self.clock, self.fresh = float(newest), len(np.unique(sensor[now]))
        else:
            self.fresh += len(np.unique(sensor[now & (last < newest)]))

    def changed(self) -> None:
        """Sensors have come or gone by another way."""
        self._queue = None

    def holds(self, sensors: int) -> bool:
        """Whether there is room for so many, here."""
        return sensors + self.elsewhere <= self.most

    def place(self, rows: RowsInTurn, number: dict[Name, int], names: list[Name], last: LastHeard) -> SensorPlaces:
        """Where the sensors of rows lie, taken one by one; `number` and `names` follow.

        number: the places of sensors that stay; names: those of all places, those that are left too.
        """
        turn = _Turn(self, number, names, last, rows.names)
        at: list[int] = []
        gone: list[int] = []
        of_rows = np.empty(len(rows.time), np.int64)
        for k, (name, now, speaks) in enumerate(zip(rows.names, rows.time.tolist(), rows.speaks.tolist(), strict=True)):
            if now > self.clock:
                while not self.holds(len(number)):
                    at.append(k)
                    gone.append(turn.leave())
            of_rows[k] = turn.come(name, now, speaks)
            while now < self.clock and not self.holds(len(number) - self.fresh):
                at.append(k + 1)
                gone.append(turn.leave())
        return SensorPlaces(of_rows, SensorsLeaving(np.array(at, np.int64), np.array(gone, np.int64)))

    def queue(self, names: Sequence[Name], last: LastHeard) -> list[tuple[float, tuple[str, ...], Name]]:
        """All sensors, by when they were heard last or earlier."""
        if self._queue is None:
            heard = last(np.arange(len(names))).tolist()
            self._queue = [(at, _order(name), name) for at, name in zip(heard, names, strict=True)]
            heapify(self._queue)
        return self._queue


class _Turn:
    """One call: sensors come and leave, row by row."""

    def __init__(
        self, bound: SensorBound, number: dict[Name, int], names: list[Name], last: LastHeard, called: Sequence[Name]
    ) -> None:
        self.bound, self.number, self.names, self.last = bound, number, names, last
        self.queue = bound.queue(names, last)
        known = np.array(sorted({number[name] for name in called if name in number}), np.int64)
        self.heard: dict[int, float] = dict(zip(known.tolist(), last(known).tolist(), strict=True))

    def come(self, name: Name, now: float, speaks: bool) -> int:
        """A row of this sensor: its place."""
        place = self.number.get(name)
        if place is None:
            place = self.number[name] = len(self.names)
            self.names.append(name)
            self.heard[place] = -np.inf
            heappush(self.queue, (-np.inf, _order(name), name))
        if speaks and now > self.heard[place]:
            self.heard[place] = now
            if now > self.bound.clock:
                self.bound.clock, self.bound.fresh = now, 1
            elif now == self.bound.clock:
                self.bound.fresh += 1
        return place

    def leave(self) -> int:
        """The sensor that has been silent longest leaves its place."""
        while True:
            at, order, name = self.queue[0]
            if (place := self.number.get(name)) is None:  # it lay there twice, and has left
                heappop(self.queue)
                continue
            last = self.heard[place] if place in self.heard else float(self.last(place))
            if last > at:
                heapreplace(self.queue, (last, order, name))
                continue
            heappop(self.queue)
            del self.number[name]
            self.bound.fresh -= last == self.bound.clock > -np.inf
            self.bound.forgotten += last > -np.inf
            return place


def clock_of(last: Floats) -> tuple[float, int]:
    """The newest of these times, and how many have it."""
    clock = float(last.max(initial=-np.inf))
    return clock, int(np.count_nonzero(last == clock)) if clock > -np.inf else 0


def _order(name: Name) -> tuple[str, ...]:
    """Names as texts, which can be compared; a missing group comes first."""
    return tuple("" if part is None else f" {part}" for part in name)
