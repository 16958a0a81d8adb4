"""Open gaps: gaps of earlier rows that a sensor's next reading may still revise. And values that are hidden.

A gap waits for the first reading of its sensor that is newer than all so far and has the attribute, until its row
expires. It is revised once and then final (see `arrays.UncertainRows`, whose boxes never widen). The number is bounded:
of a sensor in a long outage the newest MOST_OF_ONE rows are watched, and MOST_GAPS rows in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels import gaps as kernel
from fogline.kernels.gaps import FREE, LEFT, LOST, NONE, Pool
from fogline.kernels.sensors import HiddenValues, Trials
from fogline.query import Query

MOST_OF_ONE = 1_000  # rows with open gaps of one sensor; few outages are longer
MOST_GAPS = 1_000_000  # rows with open gaps of one state


class Gaps(NamedTuple):
    """The gaps of a call's rows that may be revised."""

    open: Flags  # (n, d)
    expires: Floats  # (n,) when each row expires


def gaps_of(query: Query, missing: Flags, expires: Floats) -> Gaps:
    """The gaps (n, d) of rows. In a count window rows expire by number, so the time is not known: infinity."""
    return Gaps(missing, expires if query.last is None else np.full(len(expires), np.inf))


class Revised(NamedTuple):
    """Which gaps the readings of a call revise, in the order of the readings' times."""

    reading: Ints  # (m,) the reading's number in the call
    target: Floats  # (m,) the arrival of the row with the gap; the sensor is the reading's
    row: Ints  # (m,) that row's number in the call; -1: it came earlier
    cells: Flags  # (m, d) which of its cells

    def part(self, which: Any) -> Revised:
        """Some of them (a slice, flags or indices)."""
        return Revised(self.reading[which], self.target[which], self.row[which], self.cells[which])


class GapList(NamedTuple):
    """Open gaps, sensor by sensor, the latest first: to save, split and join. Its fields name saved arrays."""

    size: Ints  # (s,) how many each sensor has
    heard: Floats  # (s,) the time of its newest reading, -inf = none
    time: Floats  # (g,)
    expires: Floats  # (g,)
    cells: Flags  # (g, d)

    def part(self, which: Ints) -> GapList:
        """Those of some sensors, in this order."""
        size, ends = self.size[which], np.cumsum(self.size)
        begin = (ends - self.size)[which]
        at = np.repeat(begin - (np.cumsum(size) - size), size) + np.arange(int(size.sum()))
        return GapList(size, self.heard[which], self.time[at], self.expires[at], self.cells[at])


def joined(lists: Sequence[GapList]) -> GapList:
    """Lists of different sensors as one."""
    return GapList(*(np.concatenate(parts) for parts in zip(*lists, strict=True)))


def no_gaps(newest: Floats, d: int) -> GapList:
    """Sensors (s,) without gaps, with the times of their newest readings."""
    none = np.empty(0)
    return GapList(np.zeros(len(newest), np.int64), np.asarray(newest), none, none, np.empty((0, d), np.bool_))


class OpenGaps:
    """The open gaps of all sensors of a state, by the sensors' numbers. See `kernels.gaps`."""

    def __init__(self, d: int, *, of_one: int = MOST_OF_ONE, most: int = MOST_GAPS) -> None:
        self.d, self.of_one, self.most = d, of_one, most
        self.account = np.array([NONE, 0, 0])
        self.load(no_gaps(np.empty(0), d))

    @property
    def lost(self) -> int:
        """Rows whose gaps are not watched, because there were too many."""
        return int(self.account[LOST])

    @lost.setter
    def lost(self, rows: int) -> None:
        self.account[LOST] = rows

    def load(self, saved: GapList) -> None:
        """Hold these gaps and no others."""
        n = len(saved.time)
        link = np.arange(1, n + 1)
        ends = np.cumsum(saved.size)
        last = ends[saved.size > 0] - 1
        link[last] = NONE
        head = np.where(saved.size > 0, ends - saved.size, NONE)
        self.pool = Pool(
            head, saved.size.astype(np.int64), np.array(saved.heard), link, np.array(saved.time),
            np.array(saved.expires), np.array(saved.cells).reshape(n, self.d), np.full(n, NONE),
            self.account, self.of_one,
        )  # fmt: skip
        self.account[FREE], self.account[LEFT] = NONE, 0

    def make_room(self, sensors: int, gaps: int) -> None:
        """Make room for so many sensors, and free slots for so many gaps, up to `most` in all."""
        p = self.pool
        if sensors > len(p.head):
            more = sensors - len(p.head)
            p = p._replace(
                head=np.append(p.head, np.full(more, NONE)),
                size=np.append(p.size, np.zeros(more, np.int64)),
                newest=np.append(p.newest, np.full(more, -np.inf)),
            )
        size, lacking = len(p.time), gaps - int(p.account[LEFT])
        if lacking > 0 and size < self.most:
            more = min(max(lacking, size // 2, 16), self.most - size)
            fresh = np.arange(size + 1, size + more + 1)
            fresh[-1] = p.account[FREE]
            p = p._replace(
                link=np.append(p.link, fresh),
                time=_longer(p.time, more),
                expires=_longer(p.expires, more),
                cells=np.concatenate((p.cells, np.zeros((more, self.d), np.bool_))),
                row=np.append(p.row, np.full(more, NONE)),
            )
            p.account[FREE], p.account[LEFT] = size, p.account[LEFT] + more
        self.pool = p

    def list(self, sensors: int) -> GapList:
        """The gaps of the first so many sensors."""
        p = self.pool
        head, size = p.head[:sensors], p.size[:sensors]
        at = kernel.slots_of(head, p.link, size)
        return GapList(size.copy(), p.newest[:sensors].copy(), p.time[at], p.expires[at], p.cells[at])

    def close(self, sensor: Ints, arrived: Floats, cells: Flags) -> None:
        """Close these cells (n, d) of rows, by their sensors (-1: unknown) and times."""
        kernel.shut(self.pool, sensor, arrived, cells)

    def move(self, places: Ints, into: Ints, stay: int) -> None:
        """Move sensors from these numbers `into` others; from `stay` on, numbers are free and have no gaps."""
        p = self.pool
        for array, empty in ((p.head, NONE), (p.size, 0), (p.newest, -np.inf)):
            array[into], array[stay:] = array[places], empty

    def retire(self, clock: Floats) -> None:
        """Drop the gaps of rows that expired a lifetime before their sensor's clock; clock (s,)."""
        found = self.list(len(clock))
        if len(found.time):
            sensor = np.repeat(np.arange(len(clock)), found.size)
            stay = ~(2 * found.expires - found.time <= clock[sensor])
            if not stay.all():
                size = np.bincount(sensor[stay], minlength=len(clock)).astype(np.int64)
                self.load(GapList(size, found.heard, found.time[stay], found.expires[stay], found.cells[stay]))

    def check(self, sensors: int) -> None:
        """Assert the invariant, and that every slot is either free or in one list."""
        p, found = self.pool, self.list(sensors)
        at = kernel.slots_of(p.head[:sensors], p.link, p.size[:sensors])
        assert len(np.unique(at)) == len(at), "a gap in two lists"
        assert found.cells.any(axis=1).all(), "a gap without an open cell"
        assert (found.size <= self.of_one).all(), "too many gaps of a sensor"
        sensor = np.repeat(np.arange(sensors), found.size)
        falls = found.time[1:] <= found.time[:-1]
        assert falls[sensor[1:] == sensor[:-1]].all(), "gaps out of order"
        assert (p.row == NONE).all(), "the number of a row of another call"
        free, slot = 0, int(p.account[FREE])
        while slot >= 0:
            free, slot = free + 1, int(p.link[slot])
        assert free == p.account[LEFT], "free slots"
        assert free + len(at) == len(p.time), "slots lost"


def _longer(array: NDArray[np.float64], more: int) -> Floats:
    return np.concatenate((array, np.zeros(more)))


class Hidden(NamedTuple):
    """Values that are hidden to keep score (`impute.scores`), at most one of a row."""

    row: Ints  # (m,)
    attribute: Ints  # (m,)
    single: Flags  # (m,) whether no value before it is hidden and the attribute was not silent
    context: Floats | None  # (m, w) the context it would have; None: sensors are not remembered

    def part(self, which: Ints | Flags) -> Hidden:
        """Some of them."""
        context = None if self.context is None else self.context[which]
        return Hidden(self.row[which], self.attribute[which], self.single[which], context)


class Hiding:
    """The values of a call that may be hidden, and those that are (`hidden`), at most `most`.

    Without sensors the latter are those that are sure. Else the state of sensors decides: it gets `asked`, and what it
    found is passed to `answered`. `at` (d,): the numbers that the rows' attributes have in the state.
    """

    def __init__(self, trials: Trials, most: int, at: Ints) -> None:
        self.trials, self.most, self.at = trials, most, at
        which = np.flatnonzero(trials.sure)[:most]
        row = trials.row[which]
        self.hidden = Hidden(row, trials.attribute[row], np.ones(len(row), np.bool_), None)

    def asked(self, order: Ints, width: int) -> HiddenValues:
        """For a state with contexts of this width; order (n,): the rows in the order of their times."""
        attribute, row, run, together, sure = self.trials
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        turn = np.argsort(place[row])
        what = self.at[attribute[order]], place[row][turn], run[turn], together[turn], sure[turn]
        cells = np.empty(self.most, np.int64), np.empty(self.most, np.int64), np.empty(self.most, np.bool_)
        return HiddenValues(*what, *cells, np.empty((self.most, width)), np.zeros(1, np.int64))

    def answered(self, asked: HiddenValues, order: Ints) -> None:
        """Take over what the state found."""
        used = int(asked.used[0])
        number = np.zeros(int(self.at.max()) + 1, np.int64)
        number[self.at] = np.arange(len(self.at))
        row, attribute = order[asked.reading[:used]], number[asked.which[:used]]
        self.hidden = Hidden(row, attribute, asked.single[:used], asked.context[:used])


def nothing_hidden(width: int) -> HiddenValues:
    """No value may be hidden."""
    none, never = np.empty(0, np.int64), np.empty(0, np.bool_)
    lots = none, none, none, never, never
    return HiddenValues(*lots, none, none, never, np.empty((0, width)), np.zeros(1, np.int64))
