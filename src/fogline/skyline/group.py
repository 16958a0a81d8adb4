"""What happens in one group, tick by tick, and what changed?

At each tick everything that has expired leaves, then the rows that arrived enter, then the answer is taken. An instant
at which nothing arrives and nothing of the live set expires changes nothing, so it need not be visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from fogline.arrays import Batch, Delta, Floats
from fogline.kernels.boxes import news, tell
from fogline.kernels.clouds import extent
from fogline.model import TOLERANCE
from fogline.skyline.live import Fill, Live
from fogline.skyline.window import Order, moved_expiries


class Group:
    """One independent skyline."""

    def __init__(
        self, d: int, alpha: float, last: int | None, places: int, known: int = 0, fill: Fill | None = None
    ) -> None:
        self.live = Live(d, alpha, places=places, known=known, fill=fill)
        self.order = None if last is None else Order(last)
        self.late = 0
        self.expired_on_arrival = 0
        self.newest = -np.inf  # the last instant at which a row arrived, …
        self.newest_ids: set[Any] = set()  # … and whose they were: only there can a duplicate come in time

    def advance(self, clock: float, now: float, rows: Batch | None, ticks: bool = True) -> list[Delta]:
        """Everything from `clock` to `now`, tick by tick or at once."""
        deltas = []
        for tick, arrivals in self.ticks(clock, now, rows) if ticks else self._at_once(clock, now, rows):
            self._step(tick, arrivals)
            delta = self.changes(tick)
            if delta is not None:
                deltas.append(delta)
        return deltas

    def ticks(self, clock: float, now: float, rows: Batch | None) -> Iterator[tuple[float, Batch | None]]:
        """The instants at which something happens, with the rows of each; late rows enter at the clock."""
        first, last = extent(rows.arrived) if rows is not None else (np.inf, -np.inf)
        if rows is not None and first < clock:
            self.late += int(np.count_nonzero(rows.arrived < clock))
            yield clock, rows.part(np.flatnonzero(rows.arrived <= clock))
            rows = rows.part(np.flatnonzero(rows.arrived > clock))
            first = np.nan
        if rows is not None and len(rows.id):
            if first == last:
                yield from self._expiries(first)
                yield first, rows
            else:
                rows = rows.part(np.argsort(rows.arrived, kind="stable"))
                cuts = np.concatenate(([0], np.flatnonzero(np.diff(rows.arrived)) + 1, [len(rows.id)]))
                for a, b in pairwise(cuts.tolist()):
                    yield from self._expiries(float(rows.arrived[a]))
                    yield float(rows.arrived[a]), rows.part(slice(a, b))
        yield from self._expiries(now, including=True)

    def _at_once(self, clock: float, now: float, rows: Batch | None) -> Iterator[tuple[float, Batch | None]]:
        """One tick for all: what is in the window at `now` does not depend on the way there."""
        if rows is not None:
            self.late += int(np.count_nonzero(rows.arrived < clock))
            yield now, rows.part(np.argsort(rows.expires, kind="stable"))  # whoever beats last is found first then
        elif self.order is None and self.live.next_expiry <= now:
            yield now, None

    def _expiries(self, until: float, *, including: bool = False) -> Iterator[tuple[float, None]]:
        if self.order is not None:
            return
        while (soon := self.live.next_expiry) < until or (including and soon == until < np.inf):
            yield soon, None

    def _step(self, tick: float, rows: Batch | None) -> None:
        if rows is None:
            self.live.expire(tick)
            return
        self._remember(rows)
        if self.order is not None:
            before = self.order.base()
            expires, moved = self.order.place(rows.arrived, rows.id)
            if moved is not None:
                self._move(before, moved)
            rows, tick = rows._replace(expires=expires), self.order.now
        if extent(rows.expires)[0] <= tick:
            gone = rows.expires <= tick
            self.expired_on_arrival += int(np.count_nonzero(gone))
            rows = rows.part(np.flatnonzero(~gone))
        self.live.insert(tick, rows)

    def _move(self, base: int, moved: Floats) -> None:
        c, n = self.live.slots.columns, self.live.slots.used
        c.expires[:n] = moved_expiries(c.expires[:n], base, moved)
        c.until[:n] = moved_expiries(c.until[:n], base, moved)
        self.live.slots.latest = np.inf  # the newcomer stands in the middle

    def _remember(self, rows: Batch) -> None:
        newest = extent(rows.arrived)[1]
        if newest > self.newest:
            self.newest, self.newest_ids = newest, set()
        if newest == self.newest:
            self.newest_ids.update(rows.id[rows.arrived == newest].tolist())

    def has(self, name: Any, arrived: float) -> bool:
        """Is this row known already? Rows that were forgotten earlier than the newest instant are not remembered."""
        if arrived == self.newest:
            return name in self.newest_ids
        if self.order is not None:
            return self.order.has(name, arrived)
        s = self.live.slots
        alive = s.alive()
        return bool(np.any((s.columns.arrived[alive] == arrived) & (s.id[alive] == name)))

    def changes(self, tick: float) -> Delta | None:
        """What the world does not know yet. O(live)."""
        s, c = self.live.slots, self.live.slots.columns
        which = news(c, s.used, TOLERANCE)
        if not len(which):
            return None
        which = s.by_key(which)
        return Delta(tick, s.id[which], *tell(c, s.raw, which))
