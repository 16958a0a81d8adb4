"""What has each sensor read lately?

The living part of a repository: the newest values of every sensor's attributes, which join as they pass, whatever else
their rows lack, and leave when newer ones need the place or when they are too old (`retention`); a sensor that has none
left leaves too. A sensor is named by the query's groups and id.

Small, because of a sensor's own past the newest readings matter most. A row sees only readings that are older than
itself and that have arrived with it or before: within a call rows are taken in the order of their times, and a late row
finds its place. So where rows come in order the cut of the stream into batches does not matter.

Where there is hindsight, the state also keeps the open gaps of earlier rows (`gaps`), and reports which of them a
reading revises. A late row sees the next readings that are there already, as one that was revised at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels import sensors as kernel
from fogline.kernels.gaps import Openings
from fogline.kernels.sensors import Newest, Readings, Recent
from fogline.packing import pack, unpack
from fogline.repository.sensors.gaps import GapList, Gaps, OpenGaps, Revised, no_gaps
from fogline.repository.sensors.retention import clocks, groups_of, too_old
from fogline.rows.ids import decimal_text

READINGS = 8  # values kept of each attribute of each sensor
MOST = 100_000  # sensors of one state; beyond, those that have been silent longest go
_UNWATCHED = OpenGaps(0).pool

Name = tuple[Any, ...]


def sensor_names(ids: Sequence[Any], keys: Sequence[tuple[Any, ...]] | None = None) -> list[Name]:
    """What sensors are called: by their groups, if there are any, and their ids, as texts.

    >>> sensor_names([5, "5", 5.0, None])
    [('5',), ('5',), ('5',), (None,)]
    """
    plain = [_plain(each) for each in ids]
    if keys is None:
        return [(each,) for each in plain]
    return [(*(_plain(part) for part in key), each) for key, each in zip(keys, plain, strict=True)]


def _plain(value: Any) -> str | None:
    """A value as a text, the same whether it came as a whole number, as 5.0 or as "5"."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return decimal_text(value)
    return str(int(value)) if value == int(value) else str(float(value))


class SensorState:
    """The newest readings of every sensor: `update` takes rows, and returns the context of those that want it."""

    def __init__(
        self,
        d: int,
        longest: float = np.inf,
        *,
        recent: Recent | None = None,
        most: int = MOST,
        hindsight: bool = False,
    ) -> None:
        self.d, self.longest, self.most = d, longest, most
        self.recent = recent or Recent(np.empty((0, d)), np.empty(0), np.empty(0, np.int64))
        self.gaps = OpenGaps(d) if hindsight else None
        self.width = d * kernel.PARTS + len(self.recent.span) * READINGS + (2 * d if hindsight else 0)
        self.number: dict[Name, int] = {}
        self.times = np.full((0, d, READINGS), -np.inf)
        self.values = np.full((0, d, READINGS), np.nan)
        self.untouched = False  # whether it holds readings of the history, and none of the stream
        self.taken = 0  # rows since it was last looked at what is too old
        self.versions: Ints | None = None  # (s,) of each sensor's newest reading, where rows have versions

    def update(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None = None
    ) -> Floats:
        """(wanted, width) the contexts of the rows that are wanted, in the order of the rows; then they are known.

        values (n, d), NaN = missing; `code` (n,): row i is of the sensor names[code[i]], not names[i]. A context is
        d · PARTS numbers, READINGS values for each rule about the recent past and, with hindsight, (d, 2) the next
        value of each attribute and its age, where the row comes late. O(rows · READINGS · d).
        """
        return self.watch(names, time, values, wanted, code, Gaps(np.empty((0, self.d), np.bool_), np.empty(0)))[0]

    def watch(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None, gaps: Gaps
    ) -> tuple[Floats, Revised]:
        """As `update`, and which open gaps the readings revise; then the gaps of these rows are open.

        A reading revises gaps if it is newer than every reading of its sensor so far: those of rows that arrived
        before it and expire after it, in the attributes that it has; each once. O(gaps of the sensor) more.
        """
        if self.untouched and len(time):
            self._older_than(float(time.min()))
        order = np.argsort(time, kind="stable")
        sensor = self._numbers(names) if code is None else self._numbers(names)[code]
        out = np.empty((int(np.count_nonzero(wanted)), self.width))
        readings = Readings(sensor[order], time[order], values[order], wanted[order])
        openings = Openings(gaps.open[order], gaps.expires[order]) if len(gaps.open) else Openings(*gaps)
        if self.gaps is not None:
            self.gaps.make_room(len(self.number), int(np.count_nonzero(openings.open.any(axis=1))))
        pool = _UNWATCHED if self.gaps is None else self.gaps.pool
        found = kernel.walk(readings, Newest(self.times, self.values), self.recent, self.longest, pool, openings, out)
        self._leave(len(order))
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(wanted[order]) - 1
        used = int(found.used[0])
        row = np.append(order, -1)[found.row[:used]]  # -1 is the last
        revised = Revised(order[found.reading[:used]], found.target[:used], row, found.cells[:used])
        return out[place[wanted]], revised

    def make_way(self, names: Sequence[Name], time: Floats, values: Floats, version: Ints | None = None) -> None:
        """Forget what these readings correct; to be called before they are taken by `update` or `watch`.

        A reading of the instant of its sensor's newest one takes the place of that one's values, unless its version is
        smaller. Of readings that come together the newest, and among those the greatest version, is to come first. (Of
        older instants what is there stays.) O(rows · d).
        """
        if self.untouched and len(time):
            self._older_than(float(time.min()))
        sensor, spoke = self._numbers(names), ~np.isnan(values).all(axis=1)
        newest = self.times[sensor, :, 0].max(axis=1)
        replaces = spoke & (time == newest)
        if version is not None:
            if self.versions is None or len(self.versions) < len(self.times):
                known = np.empty(0, np.int64) if self.versions is None else self.versions
                none = np.full(len(self.times) - len(known), np.iinfo(np.int64).min)
                self.versions = np.concatenate((known, none))
            replaces &= version >= self.versions[sensor]
            last = np.flatnonzero(spoke & ((time > newest) | replaces))
            last = last[np.lexsort((version[last], time[last]))]
            self.versions[sensor[last]] = version[last]  # the last of a sensor stays
        if replaces.any():
            for j in range(self.d):
                again = np.flatnonzero(replaces & ~np.isnan(values[:, j]) & (self.times[sensor, j, 0] == newest))
                which = np.unique(sensor[again])
                for array, empty in ((self.times, -np.inf), (self.values, np.nan)):
                    array[which, j, :-1], array[which, j, -1] = array[which, j, 1:], empty

    def close(
        self, names: Sequence[Name], arrived: Floats, code: Ints | None = None, cells: Flags | None = None
    ) -> None:
        """Forget the open gaps of these rows, or these of their cells (n, d)."""
        if self.gaps is not None and len(arrived):
            sensor = np.array([self.number.get(name, -1) for name in names], np.int64)
            every = np.ones((len(arrived), self.d), np.bool_)
            self.gaps.close(sensor if code is None else sensor[code], arrived, every if cells is None else cells)

    def _leave(self, taken: int) -> None:
        """So many rows were taken: sensors that are too many leave, now and then also what is too old."""
        if len(self.number) > self.most:
            self._forget()
        self.taken += taken
        if self.taken >= len(self.number):  # what it costs is shared by that many rows
            self.retire()

    def newest(self, names: Sequence[Name]) -> Floats:
        """(names,) the time of the last reading that the stream had of each sensor; -inf: it had none."""
        if self.untouched or not self.number:
            return np.full(len(names), -np.inf)
        last, there = self.times[:, :, 0].max(axis=1, initial=-np.inf), [self.number.get(name, -1) for name in names]
        return np.where(np.array(there) < 0, -np.inf, last[there])

    def _numbers(self, names: Sequence[Name]) -> Ints:
        number = self.number
        found = np.fromiter((number.setdefault(name, len(number)) for name in names), np.int64, len(names))
        more = len(number) - len(self.times)
        if more > 0:
            room = max(more, len(self.times) // 2)  # grown by halves: few copies
            self.times = np.concatenate((self.times, np.full((room, self.d, READINGS), -np.inf)))
            self.values = np.concatenate((self.values, np.full((room, self.d, READINGS), np.nan)))
        return found

    def _older_than(self, now: float) -> None:
        """Readings of the history from times that the stream has yet to reach are not known yet."""
        self.untouched = False
        if not len(self.times) or self.times.max() < now:
            return
        gone = self.times >= now
        self.times[gone], self.values[gone] = -np.inf, np.nan
        order = np.argsort(-self.times, axis=2, kind="stable")
        self.times = np.take_along_axis(self.times, order, axis=2)
        self.values = np.take_along_axis(self.values, order, axis=2)
        if self.gaps is not None:
            self.gaps.load(no_gaps(self._newest(), self.d))

    def _newest(self) -> Floats:
        """(s,) when each sensor was heard last, as far as that is remembered."""
        return np.asarray(self.arrays()[0][:, :, 0].max(axis=1, initial=-np.inf))

    def _forget(self) -> None:
        """The half that was heard last stays."""
        count = len(self.number)
        stay = np.sort(np.argsort(-self.times[:count, :, 0].max(axis=1), kind="stable")[: self.most // 2])
        self._keep(stay)

    def _keep(self, stay: Ints) -> None:
        names, gaps = list(self.number), self.open_gaps()
        self.number = {names[k]: i for i, k in enumerate(stay.tolist())}
        self.times, self.values = self.times[stay], self.values[stay]
        self.versions = None if self.versions is None else self.versions[stay]
        if self.gaps is not None:
            self.gaps.load(gaps.part(stay))

    def retire(self) -> None:
        """What no row will see leaves: old readings, gaps of rows that are gone, and sensors that have none left.

        No answer changes by it.
        """
        self.taken = 0
        if self.untouched or not self.number:
            return
        (times, values), group = self.arrays(), groups_of(self.number)
        if self.gaps is not None:
            self.gaps.retire(clocks(times, group))
        if np.isinf(self.longest):
            return
        gone = too_old(times, group, self.longest)
        times[gone], values[gone] = -np.inf, np.nan  # the oldest are the last: order stays
        there = times[:, :, 0].max(axis=1) > -np.inf
        stay = np.flatnonzero(there if self.gaps is None else there | (self.gaps.pool.size[: len(there)] > 0))
        if len(stay) < len(times):
            self._keep(stay)

    @property
    def lost(self) -> int:
        """Rows with gaps that are not watched, since there were too many."""
        return 0 if self.gaps is None else self.gaps.lost

    def open_gaps(self) -> GapList:
        """The open gaps, and when sensors were heard last, in the order of the names."""
        if self.gaps is None:
            return no_gaps(self._newest(), self.d)
        self.gaps.make_room(len(self.number), 0)
        return self.gaps.list(len(self.number))

    def arrays(self) -> tuple[Floats, Floats]:
        """Times and values (s, d, READINGS), in the order of the names."""
        count = len(self.number)
        return self.times[:count], self.values[:count]

    def holding(self, names: Sequence[Name], times: Floats, values: Floats, gaps: GapList | None = None) -> SensorState:
        """This state with other readings and gaps: those of `arrays` and `open_gaps`."""
        self.number = {name: k for k, name in enumerate(names)}
        self.times, self.values = np.array(times), np.array(values)
        self.taken = len(names)  # it may have lain for long
        if self.gaps is not None:
            self.gaps.load(no_gaps(self._newest(), self.d) if gaps is None else gaps)
        return self

    def to_bytes(self) -> bytes:
        """Everything, in one bytes object; places without a reading take no room."""
        self.retire()
        times, values = self.arrays()
        there = times > -np.inf
        header = {
            "names": [*self.number],
            "untouched": self.untouched,
            "hindsight": self.gaps is not None,
            "lost": self.lost,
        }
        arrays = {"count": there.sum(axis=2, dtype=np.uint8), "times": times[there], "values": values[there]}
        kept = {} if self.gaps is None else {f"gap_{k}": each for k, each in self.open_gaps()._asdict().items()}
        if self.versions is not None:
            kept["versions"] = self.versions[: len(times)]
        return pack(header, {**arrays, **kept})

    def load(self, saved: bytes) -> SensorState:
        """This state with what `to_bytes` saved of another of its kind."""
        header, arrays = unpack(saved, "state of sensors")
        there = np.arange(READINGS) < arrays["count"][:, :, None]
        times, values = np.full(there.shape, -np.inf), np.full(there.shape, np.nan)
        times[there], values[there] = arrays["times"], arrays["values"]
        gaps = GapList(*(arrays[f"gap_{name}"] for name in GapList._fields)) if header["hindsight"] else None
        self.holding([tuple(each) for each in header["names"]], times, values, gaps)
        self.untouched = header["untouched"]
        self.versions = np.array(arrays["versions"]) if "versions" in arrays else None
        if self.gaps is not None:
            self.gaps.lost = header["lost"]
        return self

    def check(self) -> None:
        """Assert that each attribute's values are in order, the newest first, and the places without one empty."""
        times, values = self.arrays()
        there = times > -np.inf
        assert (times[:, :, 1:] < times[:, :, :-1])[there[:, :, 1:]].all(), "values out of order"
        assert not np.any(there[:, :, 1:] & ~there[:, :, :-1]), "a value behind an empty place"
        assert np.array_equal(np.isnan(values), ~there), "an empty place with a value, or one without"
        assert sorted(self.number.values()) == list(range(len(self.number))), "numbers of sensors"
        if self.gaps is not None:
            self.gaps.make_room(len(self.number), 0)
            self.gaps.check(len(self.number))
