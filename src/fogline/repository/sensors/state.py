"""What each sensor has read lately: the living part of a repository.

The state holds the newest values of every sensor's attributes. Values join as rows pass, whatever else the rows lack.
They leave when newer ones need the place or when they are too old; a sensor that has none left leaves, too, and so do
those silent longest where there are too many (`bound`). A sensor is named by its group and id.

A row sees only readings that are older than itself and came with it or before. Within a call rows are taken in the
order of their times; a late row finds its place. So where rows come in order, it does not matter how the stream is cut
into calls.

Whether a row counts may depend on what its sensor has read: it may have a gap that only that can fill, and then
another row of its stamp counts. `take` decides it row by row, in the order of time (`Candidates`). Only rows that count
are readings, and only they drive other sensors out. So where there are too many sensors, rows are taken instant by
instant: what the rows of one that do not count have changed is undone (`SensorBound.take_back`) before the next.

With hindsight the state also keeps the open gaps of earlier rows (`gaps`), and reports which of them a reading revises.
A late row sees the next readings that are there already, as if it had been revised at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels import sensors as kernel
from fogline.kernels.gaps import Openings, SensorsLeaving
from fogline.kernels.sensors import TAKEN, Candidates, Kept, Readings, Recent
from fogline.repository.sensors.bound import Name as Name
from fogline.repository.sensors.bound import SensorBound, SensorPlaces, clock_of, clocks, groups_of, too_old
from fogline.repository.sensors.gaps import GapList, Gaps, Hiding, OpenGaps, Revised, no_gaps, nothing_hidden
from fogline.rows.names import decimal_text
from fogline.saved import pack, unpack

READINGS = 8  # values kept of each attribute of each sensor
FEW = 1_000  # rows; after fewer it is not looked at what is too old
_UNWATCHED = OpenGaps(0).pool
_STAY = SensorsLeaving(np.empty(0, np.int64), np.empty(0, np.int64))
_LEAST = np.iinfo(np.int64).min


class SensorRows(NamedTuple):
    """Rows of one call, as a state of sensors takes them."""

    names: Sequence[Name]  # of sensors
    time: Floats  # (n,)
    values: Floats  # (n, d) NaN = missing
    wanted: Flags  # (n,) whose contexts are wanted
    code: Ints | None = None  # (n,) row i is of the sensor names[code[i]]; None: of names[i]
    gaps: Gaps | None = None  # those that a later reading may revise; None: there are none
    order: Ints | None = None  # (n,) the rows by time, as they are taken; None: those of one instant as they come
    candidates: Candidates | None = None  # how it is decided which rows count; None: all do
    hiding: Hiding | None = None  # values that may be hidden, to keep score; learns which are

    def name(self, which: Ints) -> list[Name]:
        """The sensors of some rows."""
        return [self.names[k] for k in (which if self.code is None else self.code[which]).tolist()]

    def part(self, which: Ints) -> SensorRows:
        """Some of the rows, in the order in which they are taken; no value is hidden."""
        gaps = None if self.gaps is None else Gaps(self.gaps.open[which], self.gaps.expires[which])
        candidates = None if self.candidates is None else self.candidates.part(which).numbered()
        cells = self.time[which], self.values[which], self.wanted[which]
        return SensorRows(self.name(which), *cells, None, gaps, np.arange(len(which)), candidates)


class SensorResult(NamedTuple):
    """What a state found for the rows that it took."""

    context: Floats  # (wanted, width) of the rows that are wanted, in their order
    revised: Revised  # the open gaps that they revise
    fate: Ints  # (n,) what becomes of each row, see `Candidates`


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
    """(s, d) versions of values; earlier versions of Fogline kept one per sensor (s,)."""
    return np.array(versions) if versions.ndim == 2 else np.repeat(versions[:, None], d, axis=1)


class SensorState:
    """The newest readings of every sensor. `take` takes rows, and returns the contexts of those that want one.

    A context is d · PARTS numbers about the row's own attributes (`kernels.sensors`), READINGS values for each rule
    about the recent past and, with hindsight, (d, 2) the next value of each attribute and how much later it came, where
    the row comes late.
    """

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
        self.rows = np.full((0, READINGS), -np.inf)  # (s, k) the times of each sensor's newest rows, gaps or not
        self.versions: Ints | None = None  # (s, d) of each attribute's newest value; None: rows are not corrected
        self.untouched = False  # whether it holds readings of the history, and none of the stream
        self.taken = 0  # rows since it was last looked at what is too old

    # --- taking rows ---

    def update(
        self, names: Sequence[Name], time: Floats, values: Floats, wanted: Flags, code: Ints | None = None
    ) -> Floats:
        """Take rows that all count and have no gaps to be revised: (wanted, width) their contexts. See `SensorRows`."""
        return self.take(SensorRows(names, time, values, wanted, code)).context

    def take(self, rows: SensorRows) -> SensorResult:
        """Take rows: those that count become readings, and their gaps are open; the others leave no trace.

        A reading revises open gaps if it is newer than every reading of its sensor so far: those of rows that arrived
        before it and expire after it, in the attributes that it has, each once.
        O(rows · READINGS · d + gaps of their sensors).
        """
        asked = rows.candidates
        if asked is None or not len(asked.needs) or self.bound.holds(len(self.number) + len(set(rows.names))):
            return self._take(rows)
        return self._take_by_instants(rows)

    def _take_by_instants(self, rows: SensorRows) -> SensorResult:
        """The same where sensors leave on the way and rows may not count: only rows that count drive others out.

        No value is hidden then, to keep score.
        """
        n, order = len(rows.time), rows.order
        assert order is not None
        context, fate, parts = np.full((n, self.width), np.nan), np.empty(n, np.int64), []
        for which in np.split(order, np.flatnonzero(np.diff(rows.time[order])) + 1):
            found, revised, fate[which] = self._take(rows.part(which))
            context[which[rows.wanted[which]]] = found
            row = np.append(which, -1)[revised.row]
            parts.append(revised._replace(reading=which[revised.reading], row=row))
        if rows.hiding is not None:
            rows.hiding.hidden = rows.hiding.hidden.part(np.empty(0, np.int64))
        revised = Revised(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        earlier = np.flatnonzero(revised.row < 0)  # some of these rows came in this call
        if rows.gaps is not None and len(earlier):
            own = rows.name(np.arange(n))
            opened = np.flatnonzero((fate == TAKEN) & rows.gaps.open.any(axis=1)).tolist()
            came = {(own[k], float(rows.time[k])): k for k in opened}
            for k in earlier.tolist():
                revised.row[k] = came.get((own[revised.reading[k]], float(revised.target[k])), -1)
        return SensorResult(context[rows.wanted], revised, fate)

    def _take(self, rows: SensorRows) -> SensorResult:
        """All rows at once: there is room for their sensors, or no row has a gap that only their past can fill."""
        time, values, n = rows.time, rows.values, len(rows.time)
        if self.untouched and n:
            self._older_than(float(time.min()))
        order = np.argsort(time, kind="stable") if rows.order is None else rows.order
        before = self.bound.clock, self.bound.fresh
        places = self._places(rows, order)
        last = self.last_read(places.of_rows)
        readings = Readings(places.of_rows, time[order], values[order], rows.wanted[order], np.empty(n, np.int64))
        none = Openings(np.empty((0, self.d), np.bool_), np.empty(0))
        openings = none if rows.gaps is None else Openings(rows.gaps.open[order], rows.gaps.expires[order])
        if self.gaps is not None:
            self.gaps.make_room(len(self.names), int(np.count_nonzero(openings.open.any(axis=1))))
        pool = _UNWATCHED if self.gaps is None else self.gaps.pool
        hidden = nothing_hidden(self.width) if rows.hiding is None else rows.hiding.asked(order, self.width)
        out = np.empty((int(np.count_nonzero(rows.wanted)), self.width))
        kept, candidates = self._decided_by(rows.candidates, order)
        how = self.recent, self.longest, pool, openings, candidates, places.leaving
        found = kernel.walk(readings, kept, *how, hidden, out)
        if rows.hiding is not None:
            rows.hiding.answered(hidden, order)
        self._close_ranks(places.leaving.sensor)
        if not (counts := readings.fate == TAKEN).all():  # the others are no readings
            self.bound.take_back(before, rows.name(order[~counts]), self.number, self.last_read)
            speaks = counts & ~np.isnan(readings.values).all(axis=1)
            self.bound.count(places.of_rows[speaks], readings.time[speaks], last[speaks])
            if len(places.leaving.sensor) and not self.bound.elsewhere:
                self.bound.clock, self.bound.fresh = clock_of(self._newest())
        self._retire_sometimes(n)
        place, fate = np.empty(n, np.int64), np.empty(n, np.int64)
        place[order], fate[order] = np.cumsum(rows.wanted[order]) - 1, readings.fate
        used = int(found.used[0])
        row = np.append(order, -1)[found.row[:used]]  # -1 is the last
        revised = Revised(order[found.reading[:used]], found.target[:used], row, found.cells[:used])
        return SensorResult(out[place[rows.wanted]], revised, fate)

    def _decided_by(self, candidates: Candidates | None, order: Ints) -> tuple[Kept, Candidates]:
        """What is kept of sensors, and the candidates in the order in which they are taken. Without any, all count."""
        if candidates is None:
            n, none = len(order), np.empty(0, np.int64)
            every = np.full(n, -1), np.empty((0, self.d), np.bool_), np.zeros(self.d, np.bool_), np.ones(n, np.bool_)
            unkept = np.empty((len(self.times), 0)), np.empty((0, self.d), np.int64)
            return Kept(self.times, self.values, *unkept), Candidates(*every, none)
        versions = np.empty((0, self.d), np.int64)
        if len(candidates.version):
            self.versions = versions = self.all_versions()
        return Kept(self.times, self.values, self.rows, versions), candidates.part(order)

    def _places(self, rows: SensorRows, order: Ints) -> SensorPlaces:
        """The numbers of the rows' sensors, in the order in which rows are taken; there is room for all that come."""
        names, code, time = rows.names, rows.code, rows.time[order]
        new = [name for name in names if name not in self.number]
        speaks = np.asarray(~np.isnan(rows.values[order]).all(axis=1))
        if self.bound.holds(len(self.number) + len(new)) or self.bound.holds(len(self.number) + len(set(new))):
            found = np.fromiter(
                (self.number.setdefault(each, len(self.number)) for each in names), np.int64, len(names)
            )
            if new:
                self.names.extend(dict.fromkeys(new))
                self._grow()
                self.bound.changed()
            sensor = (found if code is None else found[code])[order]
            self.bound.count(sensor[speaks], time[speaks], self.last_read(sensor[speaks]))
            return SensorPlaces(sensor, _STAY)
        places = self.bound.place(rows.name(order), time, speaks, self.number, self.names, self.last_read)
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
        """The last sensors get the numbers that others have left. O(numbers left)."""
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

    def close(
        self, names: Sequence[Name], arrived: Floats, code: Ints | None = None, cells: Flags | None = None
    ) -> None:
        """Close the open gaps of these rows, or only these of their cells (n, d)."""
        if self.gaps is not None and len(arrived):
            sensor = self._known(names)
            every = np.ones((len(arrived), self.d), np.bool_)
            self.gaps.close(sensor if code is None else sensor[code], arrived, every if cells is None else cells)

    # --- what is known ---

    def newest(self, names: Sequence[Name]) -> Floats:
        """(names,) the time of the last reading that the stream had of each sensor; -inf: it had none."""
        out = np.full(len(names), -np.inf)
        if not self.untouched and self.number:
            sensor = self._known(names)
            known = sensor >= 0
            out[known] = self.last_read(sensor[known])
        return out

    def last_read(self, which: Any) -> Floats:
        """When the sensors of these numbers were read last, as far as that is kept."""
        return np.asarray(self.times[which, :, 0].max(axis=-1, initial=-np.inf))

    def _newest(self) -> Floats:
        """(s,) the same of all sensors."""
        return self.last_read(slice(len(self.names)))

    def _known(self, names: Sequence[Name]) -> Ints:
        """(names,) the numbers of these sensors; -1: not known."""
        return np.array([self.number.get(name, -1) for name in names], np.int64)

    def all_versions(self) -> Ints:
        """(s, d) the versions, with room for every sensor."""
        known = np.empty((0, self.d), np.int64) if self.versions is None else self.versions
        more = len(self.times) - len(known)
        return np.concatenate((known, np.full((more, self.d), _LEAST))) if more > 0 else known

    def arrays(self) -> tuple[Floats, Floats]:
        """Times and values (s, d, READINGS), in the order of the names."""
        count = len(self.number)
        return self.times[:count], self.values[:count]

    def open_gaps(self) -> GapList:
        """The open gaps, in the order of the names."""
        if self.gaps is None:
            return no_gaps(self._newest(), self.d)
        self.gaps.make_room(len(self.number), 0)
        return self.gaps.list(len(self.number))

    @property
    def lost(self) -> int:
        """Rows whose gaps are not watched, because there were too many gaps or sensors."""
        return 0 if self.gaps is None else self.gaps.lost

    @property
    def forgotten(self) -> int:
        """Sensors that left with what they had read, because there were too many."""
        return self.bound.forgotten

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

    # --- what leaves ---

    def _retire_sometimes(self, rows: int) -> None:
        """So many rows were taken: now and then what is too old leaves."""
        self.taken += rows
        if self.taken >= max(len(self.number), FEW):  # what it costs is shared by that many rows
            self.retire()

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

    def _keep(self, stay: Ints) -> None:
        """Only these sensors stay."""
        gaps, names = self.open_gaps(), self.names
        self.names = [names[k] for k in stay.tolist()]
        self.number = {name: k for k, name in enumerate(self.names)}
        self.times, self.values, self.rows = self.times[stay], self.values[stay], self.rows[stay]
        self.versions = None if self.versions is None else self.versions[stay]
        self.bound.changed()
        if self.gaps is not None:
            self.gaps.load(gaps.part(stay))

    def _older_than(self, now: float) -> None:
        """The stream begins: readings of the history from `now` on are not known yet."""
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

    # --- saving ---

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
        """Assert that values are in order, newest first, that places without one are empty, and that numbers agree."""
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
