"""What has each sensor read lately?

The living part of a repository: the newest values of every sensor's attributes, which join as they pass, whatever else
their rows lack, and leave when newer ones need the place or when they are too old (`retention`); a sensor that has none
left leaves too. A sensor is named by the query's groups and id.

Small, because of a sensor's own past the newest readings matter most. A row sees only readings that are older than
itself and that have arrived with it or before: within a call rows are taken in the order of their times, and a late row
finds its place. So where rows come in order the cut of the stream into batches does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels import sensors as kernel
from fogline.kernels.sensors import Newest, Readings, Recent
from fogline.packing import pack, unpack
from fogline.repository.sensors.retention import groups_of, too_old
from fogline.rows.ids import decimal_text

READINGS = 8  # values kept of each attribute of each sensor
MOST = 100_000  # sensors of one state; beyond, those that have been silent longest go

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

    def __init__(self, d: int, longest: float = np.inf, *, recent: Recent | None = None, most: int = MOST) -> None:
        self.d, self.longest, self.most = d, longest, most
        self.recent = recent or Recent(np.empty((0, d)), np.empty(0), np.empty(0, np.int64))
        self.width = d * kernel.PARTS + len(self.recent.span) * READINGS
        self.number: dict[Name, int] = {}
        self.times = np.full((0, d, READINGS), -np.inf)
        self.values = np.full((0, d, READINGS), np.nan)
        self.untouched = False  # whether it holds readings of the history, and none of the stream
        self.taken = 0  # rows since it was last looked at what is too old

    def update(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None = None
    ) -> Floats:
        """(wanted, width) the contexts of the rows that are wanted, in the order of the rows; then they are known.

        values (n, d), NaN = missing; `code` (n,): row i is of the sensor names[code[i]], not names[i]. A context is
        d · PARTS numbers, and READINGS values for each rule about the recent past. O(rows · READINGS · d).
        """
        if self.untouched and len(time):
            self._older_than(float(time.min()))
        order = np.argsort(time, kind="stable")
        sensor = self._numbers(names) if code is None else self._numbers(names)[code]
        out = np.empty((int(np.count_nonzero(wanted)), self.width))
        readings = Readings(sensor[order], time[order], values[order], wanted[order])
        kernel.walk(readings, Newest(self.times, self.values), self.recent, self.longest, out)
        if len(self.number) > self.most:
            self._forget()
        self.taken += len(order)
        if self.taken >= len(self.number):  # now and then: what it costs is shared by that many rows
            self.retire()
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(wanted[order]) - 1
        return out[place[wanted]]

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

    def _forget(self) -> None:
        """The half that was heard last stays."""
        count = len(self.number)
        stay = np.sort(np.argsort(-self.times[:count, :, 0].max(axis=1), kind="stable")[: self.most // 2])
        self._keep(stay)

    def _keep(self, stay: Ints) -> None:
        names = list(self.number)
        self.number = {names[k]: i for i, k in enumerate(stay.tolist())}
        self.times, self.values = self.times[stay], self.values[stay]

    def retire(self) -> None:
        """Readings that no row will see leave, and sensors that have none left: no answer changes by it."""
        self.taken = 0
        if self.untouched or not self.number or np.isinf(self.longest):
            return
        times, values = self.arrays()
        gone = too_old(times, groups_of(self.number), self.longest)
        times[gone], values[gone] = -np.inf, np.nan  # the oldest are the last: order stays
        stay = np.flatnonzero(times[:, :, 0].max(axis=1) > -np.inf)
        if len(stay) < len(times):
            self._keep(stay)

    def arrays(self) -> tuple[Floats, Floats]:
        """Times and values (s, d, READINGS), in the order of the names."""
        count = len(self.number)
        return self.times[:count], self.values[:count]

    def holding(self, names: Sequence[Name], times: Floats, values: Floats) -> SensorState:
        """This state with other readings: those of `arrays`."""
        self.number = {name: k for k, name in enumerate(names)}
        self.times, self.values = np.array(times), np.array(values)
        self.taken = len(names)  # it may have lain for long
        return self

    def to_bytes(self) -> bytes:
        """Everything, in one bytes object; places without a reading take no room."""
        self.retire()
        times, values = self.arrays()
        there = times > -np.inf
        header = {"names": [*self.number], "untouched": self.untouched}
        return pack(
            header, {"count": there.sum(axis=2, dtype=np.uint8), "times": times[there], "values": values[there]}
        )

    def load(self, saved: bytes) -> SensorState:
        """This state with what `to_bytes` saved of another of its kind."""
        header, arrays = unpack(saved, "state of sensors")
        there = np.arange(READINGS) < arrays["count"][:, :, None]
        times, values = np.full(there.shape, -np.inf), np.full(there.shape, np.nan)
        times[there], values[there] = arrays["times"], arrays["values"]
        self.holding([tuple(each) for each in header["names"]], times, values)
        self.untouched = header["untouched"]
        return self

    def check(self) -> None:
        """Assert that each attribute's values are in order, the newest first, and the places without one empty."""
        times, values = self.arrays()
        there = times > -np.inf
        assert (times[:, :, 1:] < times[:, :, :-1])[there[:, :, 1:]].all(), "values out of order"
        assert not np.any(there[:, :, 1:] & ~there[:, :, :-1]), "a value behind an empty place"
        assert np.array_equal(np.isnan(values), ~there), "an empty place with a value, or one without"
        assert sorted(self.number.values()) == list(range(len(self.number))), "numbers of sensors"
