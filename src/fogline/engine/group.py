"""What happens in groups, tick by tick, and what changed?

At each tick everything that has expired leaves, then the rows that arrived enter, then gaps that are known better are
revised, then the answer is taken. An instant at which nothing arrives, nothing is revised and nothing of the live set
expires changes nothing, so it need not be visited.

Changes are reported in the order of group, arrival and id. Of several open rows that surely dominate a leaver, the
first in the order of (arrival, id) is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fogline.arrays import DOMINATED_BY, Batch, Delta, Flags, Floats, Ints, Revisions, UncertainRows
from fogline.engine.groups import COMPACT_FROM, Changes, Groups, Live
from fogline.engine.revise import Fill, Note
from fogline.engine.window import CountWindow, moved_expiries, named_in
from fogline.kernels.tick import NO_DOMINATOR, sure_dominators
from fogline.kernels.uncertain import extent

EVERY = slice(None)
Tick = tuple[float, Batch | None, Revisions | None]  # an instant, the rows that arrive then, what is revised


class Group:
    """One independent skyline."""

    def __init__(
        self,
        d: int,
        alpha: float,
        last: int | None,
        instances: int,
        known: int = 0,
        fill: Fill | None = None,
        shared: UncertainRows | None = None,
        note: Note | None = None,
    ) -> None:
        self.live = Live(d, alpha, instances=instances, known=known, fill=fill, note=note, shared=shared)
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
            changes = self._step(tick, revised) if arrivals is None else self._enter(tick, arrivals, revised)
            if len(changes):
                deltas.append(as_delta(tick, changes, self.live))
        return deltas

    def ticks(self, clock: float, now: float, rows: Batch | None, revisions: Revisions | None = None) -> Iterator[Tick]:
        """The instants at which something happens, with the rows of each and the revisions after they have entered.

        Late rows enter at the clock, and late revisions happen there.
        """
        enter: dict[float, slice] = {}
        revised: dict[float, slice] = {}
        if rows is not None and len(rows.id):
            enters = rows.arrived
            if extent(enters)[0] < clock:
                self.late += int(np.count_nonzero(enters < clock))
                enters = np.maximum(enters, clock)
            order, enter = by_instant(enters)
            rows = rows.part(order)
        if revisions is not None:
            order, revised = by_instant(np.clip(revisions.time, clock, now))
            revisions = revisions.part(order)
        for tick in sorted(enter | revised) if revised else enter:
            yield from self._expiries(tick)
            yield (
                tick,
                rows.part(enter[tick]) if rows is not None and tick in enter else None,
                revisions.part(revised[tick]) if revisions is not None and tick in revised else None,
            )
        yield from self._expiries(now, including=True)

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

    def _step(self, tick: float, revisions: Revisions | None) -> Changes:
        """A tick at which no row arrives."""
        return self.live.tick(tick if self.window is None else self.window.now, None, revisions)

    def _enter(self, tick: float, rows: Batch, revisions: Revisions | None) -> Changes:
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
        return self.live.tick(tick, rows, revisions)

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


def by_instant(when: Floats) -> tuple[Ints | slice, dict[float, slice]]:
    """The order of events by their instants `when` (n,), and where in that order those of each instant lie.

    Events of one instant keep their order; the instants ascend.
    """
    first, last = extent(when)
    if first == last:  # as in most calls
        return EVERY, {first: EVERY}
    order = np.argsort(when, kind="stable")
    when = when[order]
    cuts = [0, *(np.flatnonzero(np.diff(when)) + 1).tolist(), len(when)]
    return order, {float(when[a]): slice(a, b) for a, b in pairwise(cuts)}


def _any(revisions: Revisions | None) -> bool:
    return revisions is not None and len(revisions.id) > 0


# --- Many groups ------------------------------------------------------------------------------------------------------

Step = tuple[Ints, Floats, Batch, Ints]  # groups, the instant of each group, the rows that arrive and their groups
Named = Callable[[Any], list[Any]]  # the ids of some rows, as they are compared


def advance_all(
    groups: Groups, now: Floats, rows: Batch, group: Ints, named: Named, *, ticks: bool
) -> tuple[Changes, Ints, Flags]:
    """Everything up to `now` (groups,), tick by tick or at once; no row is late. `group`: of each row, ascending.

    The first ticks of all groups are taken together, then the second ones. Returns what changed, group by group and
    tick by tick; how many rows of each group had expired when they arrived; and which groups are not done, since gaps
    are to be closed between their slots: their order would be another.
    """
    n = len(now)
    expired, odd, found = np.zeros(n, np.int64), np.zeros(n, np.bool_), []
    steps = _ticks(groups, now, rows, group, odd) if ticks else _at_once(groups, now, rows, group)
    for which, tick, coming, own in steps:
        gone = coming.expires <= tick[own]
        if gone.any():
            expired += np.bincount(own[gone], minlength=n)
            coming, own = coming.part(~gone), own[~gone]
        begin = np.concatenate(([0], np.cumsum(np.bincount(own, minlength=n))))
        found.append(in_order(groups, groups.step(which, tick[which], coming, begin), named))
    if not found:
        return groups.slots.changes[:0], expired, odd
    changes = np.concatenate(found)
    return changes[np.argsort(changes["group"], kind="stable")], expired, odd


def _at_once(groups: Groups, now: Floats, rows: Batch, group: Ints) -> Iterator[Step]:
    """One tick for all, of groups that have rows or in which one expires."""
    comes = np.bincount(group, minlength=len(now)) > 0
    which = np.flatnonzero(comes | (groups.slots.groups["soon"] <= now))
    if len(which):
        order = np.lexsort((rows.expires, group))  # the last to expire is found first then
        yield which, now, rows.part(order), group


def _ticks(groups: Groups, now: Floats, rows: Batch, group: Ints, odd: Flags) -> Iterator[Step]:
    """The next instant of each group at which a row arrives or expires, again and again."""
    rows = rows.part(np.lexsort((rows.arrived, group)))
    at, end = (np.searchsorted(group, np.arange(len(now)) + k) for k in (0, 1))
    arrived, records = np.append(rows.arrived, np.inf), groups.slots.groups
    while True:
        tick = np.minimum(np.where(at < end, arrived[at], np.inf), records["soon"])
        more = (tick <= now) & np.isfinite(tick)
        odd |= more & (records["used"] > COMPACT_FROM) & (2 * records["alive"] < records["used"])
        which = np.flatnonzero(more & ~odd)
        if not len(which):
            return
        there = np.zeros(len(now), np.bool_)
        there[which] = True
        coming = there[group] & (rows.arrived == tick[group])
        yield which, tick, rows.part(coming), group[coming]
        at = at + np.bincount(group[coming], minlength=len(now))


# --- What changed -----------------------------------------------------------------------------------------------------


def in_order(groups: Groups, changes: Changes, named: Named) -> Changes:
    """A copy of what the groups' last tick changed, by group, arrival and id, with all dominators that have a name."""
    s, n = groups.slots, len(changes)
    if n > 1:
        slot = s.groups["first"][changes["group"]] + changes["slot"]
        names = zip(changes["group"].tolist(), s.columns.arrived[slot].tolist(), named(s.id[slot]), strict=True)
        changes = changes[sorted(range(n), key=list(names).__getitem__)]
    else:
        changes = changes.copy()
    for k, reason in enumerate(changes["reason"].tolist()):
        if reason == DOMINATED_BY and changes["dominator"][k] < 0:
            changes["dominator"][k] = first_dominator(groups, int(changes["group"][k]), int(changes["slot"][k]), named)
    return changes


def first_dominator(groups: Groups, g: int, slot: int, named: Named) -> int:
    """The first of the open rows that surely dominate the one in a slot, or what that became by a revision.

    Slots are the group's own. Negative: there is none.
    """
    s, live = groups.slots, groups.slots.live_set(g)
    first, new = int(s.groups["first"][g]), int(s.groups["new"][g])
    uncertain, o, begin = live.uncertain, slot, new if slot < new else 0
    returned = groups.returned if isinstance(groups, Live) else None
    if returned is not None and slot in returned[0]:
        uncertain, o, begin = returned[1], int(np.flatnonzero(returned[0] == slot)[0]), 0
    found = sure_dominators(live, uncertain, o, begin)
    ids = dict(zip(found.tolist(), named(s.id[first + found]), strict=True))
    return min(found.tolist(), key=lambda each: (live.columns.arrived[each], ids[each]), default=NO_DOMINATOR)


def as_delta(tick: float, changes: Changes, live: Live) -> Delta:
    """What changed at a tick of one group."""
    s = live.slots
    if live.returned is not None:  # a row that was revised lay elsewhere: see `first_dominator`
        changes["dominator"][changes["reason"] == DOMINATED_BY] = NO_DOMINATOR
    changes = in_order(live, changes, list)
    slot, reason = changes["slot"], changes["reason"]
    change, probability, within = (changes[name] for name in ("change", "probability", "within"))
    delta = Delta(tick, s.id[slot], s.columns.arrived[slot], change, probability, within, s.raw[slot], reason)
    if DOMINATED_BY not in reason.tolist():  # nearly always
        return delta
    dominator = changes["dominator"]
    named = (reason == DOMINATED_BY) & (dominator >= 0)
    ids, times = np.full(len(slot), None, object), np.full(len(slot), np.nan)
    ids[named], times[named] = s.id[dominator[named]], s.columns.arrived[dominator[named]]
    return delta._replace(rival=ids, rival_time=times)
