"""What happens in one group, tick by tick, and what changed?

At each tick everything that has expired leaves, then the rows that arrived enter, then gaps that are known better are
revised, then the answer is taken. An instant at which nothing arrives, nothing is revised and nothing of the live set
expires changes nothing, so it need not be visited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fogline.arrays import Batch, Clouds, Delta, Flags, Floats, Revisions
from fogline.kernels.clouds import extent
from fogline.skyline.live import Live, Report
from fogline.skyline.reasons import as_delta
from fogline.skyline.revision import Fill, Note
from fogline.skyline.window import CountWindow, moved_expiries, named_in

Tick = tuple[float, Batch | None, Revisions | None]  # an instant, the rows that arrive then, what is revised


class Group:
    """One independent skyline."""

    def __init__(
        self,
        d: int,
        alpha: float,
        last: int | None,
        places: int,
        known: int = 0,
        fill: Fill | None = None,
        shared: Clouds | None = None,
        note: Note | None = None,
    ) -> None:
        self.live = Live(d, alpha, places=places, known=known, fill=fill, note=note, shared=shared)
        self.window = None if last is None else CountWindow(last)
        self.late = 0
        self.expired_on_arrival = 0
        self.newest = -np.inf  # the last instant at which a row arrived, …
        self._newest_ids: set[Any] = set()  # … and the ids of its rows: only there can a duplicate come in time
        self._unread: list[Iterable[Any]] = []  # ids that are still to be put among those; seldom does anything ask

    def advance(
        self, clock: float, now: float, rows: Batch | None, ticks: bool = True, revisions: Revisions | None = None
    ) -> list[Delta]:
        """Everything from `clock` to `now`, tick by tick or at once."""
        deltas = []
        way = self.ticks if ticks else self._at_once
        for tick, arrivals, revised in way(clock, now, rows, revisions if _any(revisions) else None):
            report = self._step(tick, revised) if arrivals is None else self._enter(tick, arrivals, revised)
            if len(report[0]):
                deltas.append(as_delta(tick, report, self.live))
        return deltas

    def ticks(self, clock: float, now: float, rows: Batch | None, revisions: Revisions | None = None) -> Iterator[Tick]:
        """The instants at which something happens, with the rows of each and the revisions after they have entered.

        Late rows enter at the clock, and late revisions happen there.
        """
        if revisions is not None:
            yield from self._revised_ticks(clock, now, rows, revisions)
        elif rows is not None:
            first, last = extent(rows.arrived)
            if first < clock:
                self.late += int(np.count_nonzero(rows.arrived < clock))
                yield clock, rows.part(np.flatnonzero(rows.arrived <= clock)), None
                rows = rows.part(np.flatnonzero(rows.arrived > clock))
                first = np.nan
            if first == last:
                yield from self._expiries(first)
                yield first, rows, None
            elif len(rows.id):
                yield from self._one_by_one(rows.part(np.argsort(rows.arrived, kind="stable")))
        yield from self._expiries(now, including=True)

    def _one_by_one(self, rows: Batch) -> Iterator[Tick]:
        """The rows, which lie by arrival, instant by instant."""
        cuts = np.concatenate(([0], np.flatnonzero(np.diff(rows.arrived)) + 1, [len(rows.id)]))
        for a, b in pairwise(cuts.tolist()):
            yield from self._expiries(float(rows.arrived[a]))
            yield float(rows.arrived[a]), rows.part(slice(a, b)), None

    def _revised_ticks(self, clock: float, now: float, rows: Batch | None, revisions: Revisions) -> Iterator[Tick]:
        """The rows and the revisions instant by instant."""
        first, last = extent(revisions.time)
        if rows is not None and clock <= first == last <= now and extent(rows.arrived) == (first, last):
            yield from self._expiries(first)
            yield first, rows, revisions
            return
        then = np.clip(revisions.time, clock, now)
        enters = np.empty(0) if rows is None else np.maximum(rows.arrived, clock)
        if rows is not None:
            self.late += int(np.count_nonzero(rows.arrived < clock))
        ticks = np.unique(np.concatenate((enters, then)))
        row, event = np.argsort(enters, kind="stable"), np.argsort(then, kind="stable")
        ends = (np.searchsorted(sorted_, ticks, "right").tolist() for sorted_ in (enters[row], then[event]))
        a = b = 0
        for tick, c, d in zip(ticks.tolist(), *ends, strict=True):
            yield from self._expiries(tick)
            arrivals = rows.part(row[a:c]) if rows is not None and c > a else None
            yield tick, arrivals, revisions.part(event[b:d]) if d > b else None
            a, b = c, d

    def _at_once(self, clock: float, now: float, rows: Batch | None, revisions: Revisions | None) -> Iterator[Tick]:
        """One tick for all: what is in the window at `now` does not depend on the way there."""
        if rows is not None:
            self.late += int(np.count_nonzero(rows.arrived < clock))
            rows = rows.part(np.argsort(rows.expires, kind="stable"))  # the last to expire is found first then
            yield now, rows, revisions
        elif revisions is not None or (self.window is None and self.live.next_expiry <= now):
            yield now, None, revisions

    def _expiries(self, until: float, *, including: bool = False) -> Iterator[tuple[float, None, None]]:
        if self.window is not None:
            return
        while (soon := self.live.next_expiry) < until or (including and soon == until < np.inf):
            yield soon, None, None

    def _step(self, tick: float, revisions: Revisions | None) -> Report:
        """A tick at which no row arrives."""
        return self.live.step(tick if self.window is None else self.window.now, None, revisions)

    def _enter(self, tick: float, rows: Batch, revisions: Revisions | None) -> Report:
        first, last = extent(rows.arrived)
        self.remember(last, rows.id if first == last else rows.id[rows.arrived == last])
        if self.window is not None:
            before = self.window.base()
            expires, moved = self.window.place(rows.arrived, rows.id)
            if moved is not None:
                self._move(before, moved)
            rows, tick = rows._replace(expires=expires), self.window.now
        if extent(rows.expires)[0] <= tick:
            gone = rows.expires <= tick
            self.expired_on_arrival += int(np.count_nonzero(gone))
            rows = rows.part(np.flatnonzero(~gone))
        return self.live.step(tick, rows, revisions)

    def _move(self, base: int, moved: Floats) -> None:
        c, n = self.live.slots.columns, self.live.slots.used
        c.expires[:n] = moved_expiries(c.expires[:n], base, moved)
        c.until[:n] = moved_expiries(c.until[:n], base, moved)
        self.live.slots.latest = np.inf  # the newcomer stands in the middle

    def remember(self, newest: float, ids: Iterable[Any]) -> None:
        """Rows of these ids arrived then; what is older than the newest instant is not kept."""
        if newest > self.newest:
            self.newest, self._newest_ids, self._unread = newest, set(), []
        if newest == self.newest:
            self._unread.append(ids)

    @property
    def newest_ids(self) -> set[Any]:
        """The ids of the rows that arrived at the newest instant."""
        while self._unread:
            self._newest_ids.update(self._unread.pop())
        return self._newest_ids

    def known(self, ids: Sequence[Any], arrived: Floats) -> Flags:
        """(n,) which of these rows are there already. O((rows + live) · log rows), for all rows of a call at once.

        Rows that were forgotten earlier than the newest instant are not remembered.
        """
        newest = arrived == self.newest
        out, older = np.zeros(len(arrived), np.bool_), np.flatnonzero(~newest)
        if len(older) < len(arrived):
            names = self.newest_ids
            out[newest] = [ids[k] in names for k in np.flatnonzero(newest).tolist()]
        if len(older):
            some = [ids[k] for k in older.tolist()]
            out[older] = self._still_there(some, arrived[older])
        return out

    def _still_there(self, ids: Sequence[Any], arrived: Floats) -> Flags:
        if self.window is not None:
            return self.window.known(ids, arrived)
        s = self.live.slots
        alive = s.alive()
        return named_in(ids, arrived, s.id[alive], s.columns.arrived[alive])


def _any(revisions: Revisions | None) -> bool:
    return revisions is not None and len(revisions.id) > 0
