"""What has each sensor read lately?

The living part of a repository: the newest values of every sensor's attributes, which join as they pass, whatever else
their rows lack, and leave when newer ones need the place or when they are too old (`retention`); a sensor that has none
left leaves too, and so do those silent longest where there are too many (`bound`). A sensor is named by the query's
groups and id.

Small, because of a sensor's own past the newest readings matter most. A row sees only readings that are older than
itself and that have arrived with it or before: within a call rows are taken in the order of their times, and a late row
finds its place. So where rows come in order the cut of the stream into batches does not matter.

Whether a row counts may depend on what its sensor has read: a gap that only that can fill, and copies of which the best
that has no such gap counts. `settle` decides it on the way, row by row in the order of time (`Candidates`).

Where there is hindsight, the state also keeps the open gaps of earlier rows (`gaps`), and reports which of them a
reading revises. A late row sees the next readings that are there already, as one that was revised at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels import sensors as kernel
from fogline.kernels.gaps import Openings, SensorsLeaving
from fogline.kernels.sensors import TAKEN, Candidates, Newest, Readings, Recent
from fogline.repository.sensors.bound import RowsInTurn, SensorBound, SensorPlaces, clock_of, clocks, groups_of, too_old
from fogline.repository.sensors.gaps import GapList, Gaps, Hiding, OpenGaps, Revised, no_gaps, nothing
from fogline.rows.names import decimal_text
from fogline.saved import pack, unpack

READINGS = 8  # values kept of each attribute of each sensor
FEW = 1_000  # rows; for fewer it is not looked at what is too old
_UNWATCHED = OpenGaps(0).pool
_STAY = SensorsLeaving(np.empty(0, np.int64), np.empty(0, np.int64))
_NONE = -1
_LEAST = np.iinfo(np.int64).min

Name = tuple[Any, ...]


class Claims(NamedTuple):
    """Rows of a call of which it is still to be decided whether they count; `kernels.sensors.Candidates` in Python."""

    order: Ints  # (n,) the rows in the order of their times; of rows with one stamp the best first
    stamp: Ints  # (n,) rows that share a stamp have one number; -1: no other row has it
    needs: Flags | None  # (n, d) cells that only what the sensor has read can fill; None: there are none
    last: Flags  # (d,) of which attributes the last value fills a gap
    read: Flags  # (n,) which rows may be readings at all
    version: Ints | None  # (n,) where a later row may correct the sensor's newest one; None: the first one counts

    def part(self, which: Ints) -> Claims:
        """Of some of the rows, which are in order."""
        needs = None if self.needs is None else self.needs[which]
        version = None if self.version is None else self.version[which]
        numbers = {_NONE: _NONE}
        stamp = np.array([numbers.setdefault(k, len(numbers) - 1) for k in self.stamp[which].tolist()], np.int64)
        return Claims(np.arange(len(which)), stamp, needs, self.last, self.read[which], version)


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


def by_attribute(versions: Ints, d: int) -> Ints:
    """(s, d) versions of values; earlier versions of Fogline kept one of each sensor (s,)."""
    return np.array(versions) if versions.ndim == 2 else np.repeat(versions[:, None], d, axis=1)


class SensorState:
    """The newest readings of every sensor: `update` takes rows, and returns the context of those that want it."""

    def __init__(
        self,
        d: int,
        longest: float = np.inf,
        *,
        recent: Recent | None = None,
        most: int | None = None,
        hindsight: bool = False,
    ) -> None:
        self.d, self.longest, self.bound = d, longest, SensorBound(most)
        self.recent = recent or Recent(np.empty((0, d)), np.empty(0), np.empty(0, np.int64))
        self.gaps = OpenGaps(d) if hindsight else None
        self.width = d * kernel.PARTS + len(self.recent.span) * READINGS + (2 * d if hindsight else 0)
        self.number: dict[Name, int] = {}
        self.names: list[Name] = []  # in the order of their numbers
        self.times = np.full((0, d, READINGS), -np.inf)
        self.values = np.full((0, d, READINGS), np.nan)
        self.untouched = False  # whether it holds readings of the history, and none of the stream
        self.taken = 0  # rows since it was last looked at what is too old
        self.rows = np.full((0, READINGS), -np.inf)  # (s, k) the times of each sensor's newest rows, gaps or not
        self.versions: Ints | None = None  # (s, d) of each attribute's newest value, where rows are corrected

    def update(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None = None,
        hiding: Hiding | None = None,
    ) -> Floats:  # fmt: skip
        """(wanted, width) the contexts of the rows that are wanted, in the order of the rows; then they are known.

        values (n, d), NaN = missing; `code` (n,): row i is of the sensor names[code[i]], not names[i]. A context is
        d · PARTS numbers, READINGS values for each rule about the recent past and, with hindsight, (d, 2) the next
        value of each attribute and its age, where the row comes late. O(rows · READINGS · d).
        """
        none = Gaps(np.empty((0, self.d), np.bool_), np.empty(0))
        return self.watch(names, time, values, wanted, code, none, hiding)[0]

    def watch(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None, gaps: Gaps,
        hiding: Hiding | None = None,
    ) -> tuple[Floats, Revised]:  # fmt: skip
        """As `update`, and which open gaps the readings revise; then the gaps of these rows are open.

        A reading revises gaps if it is newer than every reading of its sensor so far: those of rows that arrived
        before it and expire after it, in the attributes that it has; each once. O(gaps of the sensor) more.
        `hiding`: values that may be hidden; it gets to know which are, and with which contexts.
        """
        return self.settle(names, time, values, wanted, code, gaps, None, hiding)[:2]

    def settle(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None, gaps: Gaps,
        claims: Claims | None, hiding: Hiding | None = None,
    ) -> tuple[Floats, Revised, Ints]:  # fmt: skip
        """As `watch`, and (n,) what becomes of each row (see `Candidates`): those that do not count leave no trace."""
        if claims is None or claims.needs is None or self.bound.holds(len(self.number) + len(set(names))):
            return self._settle(names, time, values, wanted, code, gaps, claims, hiding)
        return self._instant_by_instant(names, time, values, wanted, code, gaps, claims, hiding)

    def _instant_by_instant(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None, gaps: Gaps,
        claims: Claims, hiding: Hiding | None,
    ) -> tuple[Floats, Revised, Ints]:  # fmt: skip
        """The same where sensors leave on the way, and rows may not count: only those that do drive others out.

        No value is hidden then, to keep score.
        """
        n, order = len(time), claims.order
        own = [names[k if code is None else int(code[k])] for k in range(n)]
        context, fate, parts = np.full((n, self.width), np.nan), np.empty(n, np.int64), []
        for which in np.split(order, np.flatnonzero(np.diff(time[order])) + 1):
            some = gaps if not len(gaps.open) else Gaps(gaps.open[which], gaps.expires[which])
            of_rows = [own[k] for k in which.tolist()], time[which], values[which], wanted[which]
            found, revised, fate[which] = self._settle(*of_rows, None, some, claims.part(which), None)
            context[which[wanted[which]]] = found
            row = np.append(which, -1)[revised.row]
            parts.append(revised._replace(reading=which[revised.reading], row=row))
        if hiding is not None:
            hiding.hidden = hiding.hidden.part(np.empty(0, np.int64))
        revised = Revised(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        gap = (fate == TAKEN) & gaps.open.any(axis=1) if len(gaps.open) else np.zeros(n, np.bool_)
        opened = {(own[k], float(time[k])): k for k in np.flatnonzero(gap).tolist()}
        earlier = np.flatnonzero(revised.row < 0)  # some of these came in this call
        for k in earlier.tolist():
            revised.row[k] = opened.get((own[revised.reading[k]], float(revised.target[k])), -1)
        return context[wanted], revised, fate

    def _settle(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None, gaps: Gaps,
        claims: Claims | None, hiding: Hiding | None = None,
    ) -> tuple[Floats, Revised, Ints]:  # fmt: skip
        if self.untouched and len(time):
            self._older_than(float(time.min()))
        order = np.argsort(time, kind="stable") if claims is None else claims.order
        heard = self.bound.clock, self.bound.fresh
        places = self._places(names, time, values, code, order)
        last = self.last_heard(places.of_rows)
        out = np.empty((int(np.count_nonzero(wanted)), self.width))
        readings = Readings(places.of_rows, time[order], values[order], wanted[order])
        openings = Openings(gaps.open[order], gaps.expires[order]) if len(gaps.open) else Openings(*gaps)
        if self.gaps is not None:
            self.gaps.make_room(len(self.names), int(np.count_nonzero(openings.open.any(axis=1))))
        pool = _UNWATCHED if self.gaps is None else self.gaps.pool
        asked = nothing(self.width) if hiding is None else hiding.asked(order, self.width)
        newest, candidates = Newest(self.times, self.values), self._candidates(claims, len(order))
        rows = newest, self.recent, self.longest, pool, openings, candidates, places.leaving
        found = kernel.walk(readings, *rows, asked, out)
        if hiding is not None:
            hiding.answered(asked, order)
        self._close_ranks(places.leaving.sensor)
        if not (counts := candidates.fate == TAKEN).all():  # the others are no readings
            called = [names[k] for k in (order if code is None else code[order])[~counts].tolist()]
            self.bound.take_back(heard, called, self.number, self.last_heard)
            speaks = counts & ~np.isnan(readings.values).all(axis=1)
            self.bound.count(places.of_rows[speaks], readings.time[speaks], last[speaks])
            if len(places.leaving.sensor) and not self.bound.elsewhere:
                self.bound.clock, self.bound.fresh = clock_of(self._newest())
        self._leave(len(order))
        place, fate = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        place[order], fate[order] = np.cumsum(wanted[order]) - 1, candidates.fate
        used = int(found.used[0])
        row = np.append(order, -1)[found.row[:used]]  # -1 is the last
        revised = Revised(order[found.reading[:used]], found.target[:used], row, found.cells[:used])
        return out[place[wanted]], revised, fate

    def _candidates(self, claims: Claims | None, n: int) -> Candidates:
        """The claims as the kernel takes them. Without any, every row counts."""
        fate, none = np.full(n, TAKEN), np.empty((0, self.d), np.bool_)
        if claims is None:
            nowhere = np.empty((len(self.times), 0)), np.empty((0, self.d), np.int64)
            last, every = np.zeros(self.d, np.bool_), np.ones(n, np.bool_)
            return Candidates(np.full(n, _NONE), none, last, every, np.empty(0, np.int64), *nowhere, fate)
        order, versions = claims.order, np.empty((0, self.d), np.int64)
        if claims.version is not None:
            self.versions = versions = self.all_versions()
        needs = none if claims.needs is None else claims.needs[order]
        version = np.empty(0, np.int64) if claims.version is None else claims.version[order]
        cells = claims.stamp[order], needs, claims.last, claims.read[order], version
        return Candidates(*cells, self.rows, versions, fate)

    def all_versions(self) -> Ints:
        """(s, d) the versions, with room for every sensor."""
        known = np.empty((0, self.d), np.int64) if self.versions is None else self.versions
        more = len(self.times) - len(known)
        return np.concatenate((known, np.full((more, self.d), _LEAST))) if more > 0 else known

    def part(self, names: Iterable[Name]) -> SensorState:
        """A copy of what is known of these sensors, without their open gaps: to try something.

        Where rows of these sensors may drive others out, it is a copy of all sensors, and has the same bound.
        """
        asked, bound = dict.fromkeys(names), self.bound
        crowded = not bound.holds(len(self.number.keys() | asked.keys()))
        some = self.names if crowded else [name for name in asked if name in self.number]
        which = np.array([self.number[name] for name in some], np.int64)
        most = int(bound.most) if crowded else None
        found = SensorState(self.d, self.longest, recent=self.recent, most=most, hindsight=self.gaps is not None)
        found.holding(some, self.times[which], self.values[which])
        found.rows, found.untouched = self.rows[which], self.untouched
        found.versions = None if self.versions is None else self.all_versions()[which]
        found.bound.clock, found.bound.fresh = bound.clock, bound.fresh
        return found

    def close(
        self, names: Sequence[Name], arrived: Floats, code: Ints | None = None, cells: Flags | None = None
    ) -> None:
        """Forget the open gaps of these rows, or these of their cells (n, d)."""
        if self.gaps is not None and len(arrived):
            sensor = self._known(names)
            every = np.ones((len(arrived), self.d), np.bool_)
            self.gaps.close(sensor if code is None else sensor[code], arrived, every if cells is None else cells)

    def _leave(self, taken: int) -> None:
        """So many rows were taken: now and then what is too old leaves."""
        self.taken += taken
        if self.taken >= max(len(self.number), FEW):  # what it costs is shared by that many rows
            self.retire()

    def newest(self, names: Sequence[Name]) -> Floats:
        """(names,) the time of the last reading that the stream had of each sensor; -inf: it had none."""
        if self.untouched or not self.number:
            return np.full(len(names), -np.inf)
        return np.asarray(self._of_known(self._known(names), self.last_heard, -np.inf))

    def last_heard(self, which: Any) -> Floats:
        """When the sensors of these numbers were heard last, as far as that is remembered."""
        return np.asarray(self.times[which, :, 0].max(axis=-1, initial=-np.inf))

    def _known(self, names: Sequence[Name]) -> Ints:
        """(names,) the numbers of these sensors; -1: not known."""
        return np.array([self.number.get(name, -1) for name in names], np.int64)

    @staticmethod
    def _of_known(sensor: Ints, found: Callable[[Ints], Any], unknown: float) -> Any:
        """(n,) what is found of sensors, and for those that are not known (-1) this."""
        out = np.full(len(sensor), unknown)
        out[sensor >= 0] = found(sensor[sensor >= 0])
        return out

    def _places(
        self, names: Sequence[Name], time: Floats, values: Floats, code: Ints | None, order: Ints
    ) -> SensorPlaces:
        """Where the sensors of rows lie, in the order in which they are taken; there is room for all that come."""
        new = [name for name in names if name not in self.number]
        speaks = np.asarray(~np.isnan(values[order]).all(axis=1))
        if self.bound.holds(len(self.number) + len(new)) or self.bound.holds(len(self.number) + len(set(new))):
            found = np.fromiter(
                (self.number.setdefault(each, len(self.number)) for each in names), np.int64, len(names)
            )
            if new:
                self.names.extend(dict.fromkeys(new))
                self._grow()
                self.bound.changed()
            sensor = (found if code is None else found[code])[order]
            self.bound.count(sensor[speaks], time[order][speaks], self.last_heard(sensor[speaks]))
            return SensorPlaces(sensor, _STAY)
        called = [names[k] for k in (order if code is None else code[order]).tolist()]
        places = self.bound.place(RowsInTurn(called, time[order], speaks), self.number, self.names, self.last_heard)
        self._grow()
        return places

    def _grow(self) -> None:
        """Room for all that have names."""
        more = len(self.names) - len(self.times)
        if more > 0:
            room = max(more, len(self.times) // 2)  # grown by halves: few copies
            self.times = np.concatenate((self.times, np.full((room, self.d, READINGS), -np.inf)))
            self.values = np.concatenate((self.values, np.full((room, self.d, READINGS), np.nan)))
            self.rows = np.concatenate((self.rows, np.full((room, READINGS), -np.inf)))
        if self.versions is not None:
            self.versions = self.all_versions()

    def _close_ranks(self, left: Ints) -> None:
        """The last sensors take the places that others have left. O(places left)."""
        if not len(left):
            return
        stay, used = len(self.number), len(self.names)
        gone = set(left.tolist())
        into = np.array(sorted(k for k in gone if k < stay), np.int64)
        last = np.array([k for k in range(stay, used) if k not in gone], np.int64)
        for place, k in zip(into.tolist(), last.tolist(), strict=True):
            self.names[place], self.number[self.names[k]] = self.names[k], place
        del self.names[stay:]
        arrays: list[tuple[Any, float]] = [(self.times, -np.inf), (self.values, np.nan), (self.rows, -np.inf)]
        for array, empty in arrays if self.versions is None else [*arrays, (self.versions, _LEAST)]:
            array[into], array[stay:used] = array[last], empty
        if self.gaps is not None:
            self.gaps.move(last, into, stay)

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
        self.bound.begin(self._newest())
        if self.gaps is not None:
            self.gaps.load(no_gaps(self._newest(), self.d))

    def _newest(self) -> Floats:
        """(s,) when each sensor was heard last, as far as that is remembered."""
        return self.last_heard(slice(len(self.names)))

    def _keep(self, stay: Ints) -> None:
        gaps, names = self.open_gaps(), self.names
        self.names = [names[k] for k in stay.tolist()]
        self.number = {name: k for k, name in enumerate(self.names)}
        self.times, self.values, self.rows = self.times[stay], self.values[stay], self.rows[stay]
        self.versions = None if self.versions is None else self.versions[stay]
        self.bound.changed()
        if self.gaps is not None:
            self.gaps.load(gaps.part(stay))

    def retire(self) -> None:
        """What no row will see leaves: old readings, gaps of rows that are gone, and sensors that have none left.

        No answer changes by it.
        """
        self.taken = 0
        if self.untouched or not self.number:
            return
        (times, values), group = self.arrays(), groups_of(self.names)
        if self.gaps is not None:
            self.gaps.retire(clocks(times, group))
        if np.isinf(self.longest):
            return
        gone, rows = too_old(times, group, self.longest), self.rows[: len(times)]
        rows[rows < clocks(times, group)[:, None] - 2 * self.longest] = -np.inf
        times[gone], values[gone] = -np.inf, np.nan  # the oldest are the last: order stays
        there = (times[:, :, 0].max(axis=1) > -np.inf) | (rows[:, 0] > -np.inf)
        stay = np.flatnonzero(there if self.gaps is None else there | (self.gaps.pool.size[: len(there)] > 0))
        if len(stay) < len(times):
            self._keep(stay)

    @property
    def lost(self) -> int:
        """Rows with gaps that are not watched, since there were too many, or too many sensors."""
        return 0 if self.gaps is None else self.gaps.lost

    @property
    def forgotten(self) -> int:
        """Sensors that left with what they had read, since there were too many."""
        return self.bound.forgotten

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
        self.names = list(names)
        self.number = {name: k for k, name in enumerate(self.names)}
        self.times, self.values = np.array(times), np.array(values)
        self.rows = np.full((len(self.names), READINGS), -np.inf)
        self.bound.begin(self._newest())
        self.taken = max(len(names), FEW)  # it may have lain for long
        if self.gaps is not None:
            self.gaps.load(no_gaps(self._newest(), self.d) if gaps is None else gaps)
        return self

    def to_bytes(self) -> bytes:
        """Everything, in one bytes object; places without a reading take no room."""
        self.retire()
        times, values = self.arrays()
        there = times > -np.inf
        header = {
            "names": self.names,
            "untouched": self.untouched,
            "hindsight": self.gaps is not None,
            "lost": self.lost,
            "forgotten": self.forgotten,
        }
        arrays = {"count": there.sum(axis=2, dtype=np.uint8), "times": times[there], "values": values[there]}
        kept = {} if self.gaps is None else {f"gap_{k}": each for k, each in self.open_gaps()._asdict().items()}
        if self.versions is not None:
            kept["versions"] = self.versions[: len(times)]
        rows = self.rows[: len(times)]
        kept |= {"row_count": (rows > -np.inf).sum(axis=1, dtype=np.uint8), "row_times": rows[rows > -np.inf]}
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
        self.versions = by_attribute(arrays["versions"], self.d) if "versions" in arrays else None
        if "row_count" in arrays:  # earlier versions did not keep the times of rows
            self.rows[np.arange(READINGS) < arrays["row_count"][:, None]] = arrays["row_times"]
        self.bound.forgotten = header.get("forgotten", 0)  # earlier versions did not count them
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
        rows = self.rows[: len(times)]
        assert (rows[:, 1:] < rows[:, :-1])[rows[:, 1:] > -np.inf].all(), "rows out of order"
        assert self.number == {name: k for k, name in enumerate(self.names)}, "numbers of sensors"
        fresh = self._newest() == self.bound.clock
        assert not self.bound.elsewhere or self.bound.holds(len(self.names) - int(fresh.sum())), "too many sensors"
        if self.gaps is not None:
            self.gaps.make_room(len(self.number), 0)
            self.gaps.check(len(self.number))
