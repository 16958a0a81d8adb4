"""What happens in one group, tick by tick, where each id has one current row?

A row, or a removal, is taken at its time; a late one (before the clock) at the clock. It is *stale*, and ignored, if
something newer of its id is known: of a later time, or of the same time and a greater version. Otherwise it takes the
place of the id's row. What has expired leaves; it does not bring an older row back.

Of what befalls one id at one tick only the newest counts. Where time and version are the same, a removal does, and
among rows the one that `rows.copies` prefers, by what they hold and not by their order.

The changes are those of ids: one whose row is replaced and that stays in the answer is updated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Batch, Clouds, Delta, Flags, Floats, Ints, Removals
from fogline.kernels.clouds import extent
from fogline.kernels.current import OVER
from fogline.rows.copies import Contents
from fogline.skyline.current import Current, Leaving
from fogline.skyline.live import Report
from fogline.skyline.names import Names
from fogline.skyline.reasons import as_delta
from fogline.skyline.revision import Fill


class News(NamedTuple):
    """What befalls ids: rows, then removals."""

    number: Ints  # (n,) of the id
    time: Floats  # (n,)
    version: Ints  # (n,)
    row: Ints  # (n,) which row of the batch; -1: a removal

    def part(self, which: Ints | slice | Flags) -> News:
        """Some of them."""
        return News(self.number[which], self.time[which], self.version[which], self.row[which])


class LatestGroup:
    """One independent skyline of the newest row per id."""

    window = None  # rows leave when they are replaced, are removed, or expire; never because others came

    def __init__(
        self,
        d: int,
        alpha: float,
        places: int,
        known: int = 0,
        fill: Fill | None = None,
        shared: Clouds | None = None,
        remember: float = np.inf,
        points: bool = False,
    ) -> None:
        self.live = Current(d, alpha, places=places, known=known, fill=fill, shared=shared)
        self.names, self.points = Names(remember), points  # see `rows.copies.Contents`
        self.clock = -np.inf
        self.newest = -np.inf  # the last instant at which something came
        self.late = self.expired_on_arrival = self.stale = self.removed = 0

    @property
    def markers(self) -> int:
        """How many ids have no row, and are remembered so that older rows are known to be stale. O(ids)."""
        return len(self.names.markers(self.clock))

    def is_stale(self, ids: Sequence[Any], time: Floats, version: Ints) -> Flags:
        """(n,) what of these ids would be ignored now, being older than what is known of them."""
        number = np.array([self.names.number.get(each, -1) for each in ids], np.int64)
        found, known = np.zeros(len(ids), np.bool_), number >= 0
        found[known] = self.names.stale(number[known], time[known], version[known], self.clock)
        return found

    def ignore(self, time: Floats) -> None:
        """Count rows of these times, which are stale."""
        self.stale += len(time)
        self.late += int(np.count_nonzero(time < self.clock))

    def advance(
        self, clock: float, now: float, rows: Batch | None, ticks: bool = True, removals: Removals | None = None
    ) -> list[Delta]:
        """Everything from `clock` to `now`, tick by tick or at once."""
        deltas = []
        events = self._events(clock, rows, removals)
        for tick, some in self._ticks(clock, now, events) if ticks else self._at_once(now, events):
            report = self._step(tick, rows, some)
            if len(report[0]):
                deltas.append(as_delta(tick, report, self.live))
        self.clock = now
        self.names.forget(now, self.live.alive)
        return deltas

    def _events(self, clock: float, rows: Batch | None, removals: Removals | None) -> News | None:
        """What is taken of the rows and removals. What is stale is counted.

        That can be found out now: what comes at later ticks of the call is newer than all that is taken before.
        """
        parts = []
        if rows is not None and len(rows.id):
            n = len(rows.id)
            version = np.zeros(n, np.int64) if rows.version is None else rows.version
            parts.append(News(self.names.numbers(rows.id), rows.arrived, version, np.arange(n)))
        if removals is not None and len(removals.id):
            none = np.full(len(removals.id), -1)
            parts.append(News(self.names.numbers(removals.id), removals.time, removals.version, none))
        if not parts:
            return None
        events = parts[0] if len(parts) == 1 else News(*(np.concatenate(both) for both in zip(*parts, strict=True)))
        first, last = extent(events.time)
        self.late += int(np.count_nonzero(events.time < clock)) if first < clock else 0
        self.newest = max(self.newest, last)
        stale = self.names.stale(events.number, events.time, events.version, clock)
        if stale.any():
            self.stale += int(np.count_nonzero(stale))
            events = events.part(~stale)
        return events if len(events.number) else None

    def _ticks(self, clock: float, now: float, events: News | None) -> Iterator[tuple[float, News | None]]:
        """The instants at which something happens, with what comes at each."""
        if events is not None:
            for tick, some in _by_time(np.maximum(events.time, clock), events):
                yield from self._expiries(tick)
                yield tick, some
        yield from self._expiries(now, including=True)

    def _at_once(self, now: float, events: News | None) -> Iterator[tuple[float, News | None]]:
        """One tick for all: which rows are current at `now` does not depend on the way there."""
        if events is not None or self.live.next_expiry <= now:
            yield now, events

    def _expiries(self, until: float, *, including: bool = False) -> Iterator[tuple[float, None]]:
        live = self.live
        while live.next_expiry < until or (including and live.next_expiry == until < np.inf):
            soon = live.next_expiry
            live.look_at_expiries()
            if live.next_expiry == soon:
                yield soon, None

    def _step(self, tick: float, rows: Batch | None, events: News | None) -> Report:
        """One tick: what changed of the answer."""
        live, names, slots = self.live, self.names, self.live.slots
        if live.tidy():
            names.moved(slots.number[: slots.used])
        if events is None:
            report, expired = live.change(tick, None)
        else:
            if names.twice(events.number):
                events = events.part(self._newest_of_each(events, rows))
            first, (number, arrivals, leaving) = slots.used, self._take(tick, rows, events)
            report, expired = live.change(tick, arrivals, leaving)
            slots.number[first : slots.used] = number
        names.slot[slots.number[expired]] = -1
        return report

    def _take(self, tick: float, rows: Batch | None, events: News) -> tuple[Ints, Batch | None, Leaving]:
        """The numbers of the ids that get another row, those rows, and what leaves. Ids come once each."""
        names, came = self.names, events.row >= 0
        old = names.slot[events.number]
        names.stamp(events.number, events.time, events.version)
        self.removed += int(np.count_nonzero(~came & (old >= 0)))
        over: Flags | None = None
        if rows is not None:
            over = came & (rows.expires[events.row] <= tick)
            if over.any():  # it takes the place of the id's row all the same, and leaves at once
                self.expired_on_arrival += int(np.count_nonzero(over))
                came &= ~over
            which = events.row[came]
            if len(which) < len(rows.id) or (which[1:] < which[:-1]).any():  # else: all of them, as they came
                rows = rows.part(which)
        heirs = np.full(len(old), -1)
        first = self.live.slots.used
        heirs[came] = np.arange(first, first + int(np.count_nonzero(came)))
        names.slot[events.number] = heirs
        if over is not None:
            heirs[over] = OVER
        left = old >= 0
        return events.number[came], rows, Leaving(old[left], heirs[left])

    def check(self) -> None:
        """Assert that every current row has its id to itself, and is what its id points to. (Of guards: see `tree`.)"""
        s, names = self.live.slots, self.names
        alive = s.alive()
        assert np.array_equal(names.slot[s.number[alive]], alive), "an id points to another row"
        assert np.array_equal(names.time[s.number[alive]], s.columns.arrived[alive]), "an id has another stamp"
        assert all(names.number[name] == n for name, n in zip(s.id[alive], s.number[alive], strict=True)), "a wrong id"
        n = len(names.number) + len(names.free)
        assert np.count_nonzero(names.slot[:n] >= 0) == len(alive), "an id points to a row that is gone"
        assert all(names.id[k] == name for name, k in names.number.items()), "a number has another id"

    def _newest_of_each(self, events: News, rows: Batch | None) -> Ints:
        """Of each id the one event that counts, in the order in which they came."""
        number, time, version, row = events
        order = np.lexsort((row < 0, version, time, number))
        keys = [each[order] for each in (number, time, version, row < 0)]
        alike = np.logical_and.reduce([each[1:] == each[:-1] for each in keys])  # as the one before it
        ends = np.flatnonzero(np.append(np.diff(keys[0]) != 0, True))
        chosen = order[ends]
        for k, end in enumerate(ends.tolist()):
            begin = end
            while begin > 0 and alike[begin - 1]:
                begin -= 1
            if begin < end and not keys[3][end]:
                assert rows is not None
                copies = order[begin : end + 1]
                chosen[k] = copies[_contents(rows.part(row[copies]), self.points).best(range(len(copies)))]
        return np.sort(chosen)


def _by_time(enters: Floats, events: News) -> Iterator[tuple[float, News]]:
    """What comes at each instant, one after the other."""
    first, last = extent(enters)
    if first == last:  # as in most calls
        yield first, events
        return
    order = np.argsort(enters, kind="stable")
    events, enters = events.part(order), enters[order]
    cuts = np.concatenate(([0], np.flatnonzero(np.diff(enters)) + 1, [len(enters)]))
    for a, b in pairwise(cuts.tolist()):
        yield float(enters[a]), events.part(slice(a, b))


def _contents(rows: Batch, points: bool) -> Contents:
    """What rows hold, larger being better: a number is what came, whichever way it was turned."""
    lo, hi = rows.clouds.lo, rows.clouds.hi
    came = (np.abs(rows.raw) == np.abs(lo)) & (lo == hi)
    return Contents(np.where(came, lo, np.nan), rows.expires, rows.clouds, np.ones(lo.shape[1]), points)
