"""What happens in groups, tick by tick, and what changed?

At each tick everything that has expired leaves, then what comes is taken: rows enter, ids are removed, gaps that are
known better are revised; then the answer is taken. An instant at which nothing comes and nothing of the live set
expires changes nothing, so it need not be visited. What comes late, before the clock, is taken at the clock.

There is one way through the ticks, `Group.advance`. Which rows count is up to the kind of group: every row, until it
expires or enough newer ones have come (`WindowGroup`), or of each id the newest (`engine.latest.LatestGroup`).

Changes are reported in the order of group, arrival and id. Of several open rows that surely dominate a leaver, the
first in the order of (arrival, id) is named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from fogline.arrays import DOMINATED_BY, Batch, Delta, Flags, Floats, Ints, Removals, Revisions
from fogline.engine.live import COMPACT_FROM, WASTE, Changes, LiveSet, ManyLiveSets
from fogline.engine.window import CountWindow, moved_expiries, named_in
from fogline.kernels.tick import NO_DOMINATOR, sure_dominators
from fogline.kernels.uncertain import extent

if TYPE_CHECKING:
    from fogline.impute.chain import Chain

EVERY = slice(None)
Timed = TypeVar("Timed", Batch, Revisions, Removals)


class Incoming(NamedTuple):
    """What comes to a group: rows, gaps of earlier rows that are known better, removals of ids. None: nothing such."""

    rows: Batch | None = None
    revisions: Revisions | None = None
    removals: Removals | None = None


NOTHING = Incoming()


class Group(ABC):
    """One independent skyline."""

    live: LiveSet
    window: CountWindow | None = None  # where only so many rows count; None: that is no matter

    def __init__(self, live: LiveSet, chain: Chain | None = None) -> None:
        self.live = live
        self.chain = chain  # what fills its gaps
        self.late = self.expired_on_arrival = self.stale = 0
        self.clock = -np.inf  # up to when it has been advanced
        self.newest = -np.inf  # the last instant at which something came

    def advance(self, clock: float, now: float, come: Incoming = NOTHING, ticks: bool = True) -> list[Delta]:
        """Everything from `clock` to `now`, tick by tick or at once: which rows count then does not depend on that."""
        deltas = []
        rows, revisions, removals = come
        come = Incoming(
            rows if rows is not None and len(rows.id) else None,
            revisions if revisions is not None and len(revisions.id) else None,
            removals if removals is not None and len(removals.id) else None,
        )
        for tick, part in self.ticks(clock, now, come) if ticks else self._at_once(clock, now, come):
            changes = self.step(tick, part)
            if len(changes):
                deltas.append(as_delta(tick, changes, self.live))
        self.end(now)
        return deltas

    def ticks(self, clock: float, now: float, come: Incoming) -> Iterator[tuple[float, Incoming]]:
        """The instants at which something happens, with what comes at each."""
        rows, revisions, removals = come
        at: dict[float, slice] = {}
        gone: dict[float, slice] = {}
        revised: dict[float, slice] = {}
        if rows is not None:
            rows, at = self._by_tick(rows, rows.arrived, clock)
        if removals is not None:
            removals, gone = self._by_tick(removals, removals.time, clock)
        if revisions is not None:
            order, revised = by_instant(np.clip(revisions.time, clock, now))
            revisions = part_of(revisions, order)
        for tick in sorted(at | gone | revised) if gone or revised else at:
            yield from self._expiries(tick)
            some = None if rows is None or tick not in at else part_of(rows, at[tick])
            better = None if revisions is None or tick not in revised else part_of(revisions, revised[tick])
            left = None if removals is None or tick not in gone else part_of(removals, gone[tick])
            yield tick, Incoming(some, better, left)
        yield from self._expiries(now, including=True)

    def _by_tick(self, come: Timed, time: Floats, clock: float) -> tuple[Timed, dict[float, slice]]:
        """What comes in the order of its ticks, and where each of these lies; what is late is counted."""
        if extent(time)[0] < clock:
            self.late += int(np.count_nonzero(time < clock))
            time = taken_at(time, clock)
        order, where = by_instant(time)
        return part_of(come, order), where

    def _at_once(self, clock: float, now: float, come: Incoming) -> Iterator[tuple[float, Incoming]]:
        """One tick for all."""
        rows, _, removals = come
        for time in (None if rows is None else rows.arrived, None if removals is None else removals.time):
            self.late += 0 if time is None else int(np.count_nonzero(time < clock))
        if any(each is not None for each in come) or (self.window is None and self.live.next_expiry <= now):
            yield now, come if rows is None else come._replace(rows=self.for_one_tick(rows))

    def _expiries(self, until: float, *, including: bool = False) -> Iterator[tuple[float, Incoming]]:
        """The instants before `until` at which rows expire."""
        if self.window is not None:
            return
        live = self.live
        while live.next_expiry < until or (including and live.next_expiry == until < np.inf):
            soon = live.next_expiry
            if live.look_at_expiries() == soon:
                yield soon, NOTHING

    # --- What the kinds of groups differ in ---------------------------------------------------------------------------

    @abstractmethod
    def step(self, tick: float, come: Incoming) -> Changes:
        """One tick: what changed of the answer."""

    @abstractmethod
    def knows(self, ids: Sequence[Any], time: Floats, version: Ints | None) -> Flags:
        """(n,) which of these rows, from before the clock, bring nothing new: rows like these, or newer, were there."""

    @abstractmethod
    def remembered(self) -> tuple[list[Any], Floats]:
        """The ids and times of the last rows that are remembered though they may not be live."""

    def for_one_tick(self, rows: Batch) -> Batch:
        """The rows in the order in which one tick takes them fastest."""
        return rows

    def end(self, now: float) -> None:
        """All up to `now` has happened."""
        self.clock = now

    def ignore(self, time: Floats) -> None:
        """Count rows of these times, which bring nothing new."""
        self.stale += len(time)
        self.late += int(np.count_nonzero(time < self.clock))

    @property
    def remembers(self) -> bool:
        """Is there something to remember, though no row lives?"""
        return self.window is not None

    @property
    def ids(self) -> int:
        """How many ids are remembered, whether or not they have a row."""
        return 0

    def counters(self) -> dict[str, int]:
        """What only this kind of group counts."""
        return {}

    def sizes(self) -> dict[str, int]:
        """How many rows it has, of which kinds."""
        return {name: each[0].item() for name, each in self.live.sizes().items()}


def taken_at(time: Floats, clock: float) -> Floats:
    """(n,) the instants at which rows or removals of these times are taken: what is late, at the clock."""
    return np.maximum(time, clock)


def part_of(come: Timed, which: Ints | slice) -> Timed:
    """Some of what comes."""
    return come if which is EVERY else come.part(which)


class WindowGroup(Group):
    """A skyline of every row that came: it counts until it expires or, with `last`, until that many newer ones came."""

    def __init__(self, live: LiveSet, last: int | None = None, chain: Chain | None = None) -> None:
        super().__init__(live, chain)
        self.window = None if last is None else CountWindow(last)
        self._newest_ids: set[Any] = set()  # of the rows of the newest instant: only there can a copy come in time
        self._unread: list[Iterable[Any]] = []  # ids that are still to be put among those; seldom does anything ask

    def step(self, tick: float, come: Incoming) -> Changes:
        """One tick: what changed of the answer."""
        rows, revisions, _ = come
        if rows is None:
            return self.live.tick(tick if self.window is None else self.window.now, None, revisions)
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

    def for_one_tick(self, rows: Batch) -> Batch:
        """By expiry: the last to expire is found first then."""
        return rows.part(np.argsort(rows.expires, kind="stable"))

    def _move(self, base: int, moved: Floats) -> None:
        c, n = self.live.slots.columns, self.live.slots.used
        c.expires[:n] = moved_expiries(c.expires[:n], base, moved)
        c.until[:n] = moved_expiries(c.until[:n], base, moved)
        self.live.slots.last_expiry = np.inf  # the newcomer stands in the middle

    def remember(self, newest: float, ids: Iterable[Any]) -> None:
        """Rows of these ids arrived then; ids of earlier instants are not kept."""
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

    def knows(self, ids: Sequence[Any], time: Floats, version: Ints | None = None) -> Flags:
        """(n,) which of these rows have entered. O((rows + live) · log rows), for all rows of a call at once.

        Rows that were forgotten earlier than the newest instant are not remembered.
        """
        newest = time == self.newest
        out, older = np.zeros(len(time), np.bool_), np.flatnonzero(~newest)
        if len(older) < len(time):
            names = self.newest_ids
            out[newest] = [ids[k] in names for k in np.flatnonzero(newest).tolist()]
        if len(older):
            some = [ids[k] for k in older.tolist()]
            out[older] = self._still_there(some, time[older])
        return out

    def remembered(self) -> tuple[list[Any], Floats]:
        """Those of the queue, where a window counts rows; else those of the newest instant."""
        if self.window is not None:
            arrived, ids = self.window.keys()
            return ids.tolist(), arrived
        names = list(self.newest_ids)
        return names, np.full(len(names), self.newest)

    def _still_there(self, ids: Sequence[Any], arrived: Floats) -> Flags:
        if self.window is not None:
            return self.window.holds(ids, arrived)
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


# --- Many groups ------------------------------------------------------------------------------------------------------

Step = tuple[Ints, Floats, Batch, Ints]  # groups, the instant of each group, the rows that arrive and their groups
Named = Callable[[Any], list[Any]]  # the ids of some rows, as they are compared


def advance_all(
    groups: ManyLiveSets, now: Floats, rows: Batch, group: Ints, named: Named, *, ticks: bool
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
        found.append(sorted_changes(groups, groups.step(which, tick[which], coming, begin), named))
    if not found:
        return groups.slots.changes[:0], expired, odd
    changes = np.concatenate(found)
    return changes[np.argsort(changes["group"], kind="stable")], expired, odd


def _at_once(groups: ManyLiveSets, now: Floats, rows: Batch, group: Ints) -> Iterator[Step]:
    """One tick for all, of groups that have rows or in which one expires."""
    comes = np.bincount(group, minlength=len(now)) > 0
    which = np.flatnonzero(comes | (groups.slots.groups["soon"] <= now))
    if len(which):
        order = np.lexsort((rows.expires, group))  # the last to expire is found first then
        yield which, now, rows.part(order), group


def _ticks(groups: ManyLiveSets, now: Floats, rows: Batch, group: Ints, odd: Flags) -> Iterator[Step]:
    """The next instant of each group at which a row arrives or expires, again and again."""
    rows = rows.part(np.lexsort((rows.arrived, group)))
    at, end = (np.searchsorted(group, np.arange(len(now)) + k) for k in (0, 1))
    arrived, records = np.append(rows.arrived, np.inf), groups.slots.groups
    while True:
        tick = np.minimum(np.where(at < end, arrived[at], np.inf), records["soon"])
        more = (tick <= now) & np.isfinite(tick)
        odd |= more & (records["used"] > COMPACT_FROM) & (records["used"] > WASTE * records["alive"])
        which = np.flatnonzero(more & ~odd)
        if not len(which):
            return
        there = np.zeros(len(now), np.bool_)
        there[which] = True
        coming = there[group] & (rows.arrived == tick[group])
        yield which, tick, rows.part(coming), group[coming]
        at = at + np.bincount(group[coming], minlength=len(now))


# --- What changed -----------------------------------------------------------------------------------------------------


def sorted_changes(groups: ManyLiveSets, changes: Changes, named: Named) -> Changes:
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
            changes["dominator"][k] = named_dominator(groups, int(changes["group"][k]), int(changes["slot"][k]), named)
    return changes


def named_dominator(groups: ManyLiveSets, g: int, slot: int, named: Named) -> int:
    """The first of the open rows that surely dominate the one in a slot, or what that became by a revision.

    Slots are the group's own. Negative: there is none.
    """
    s, live = groups.slots, groups.slots.live_arrays(g)
    first, new = int(s.groups["first"][g]), int(s.groups["new"][g])
    uncertain, o, begin = live.uncertain, slot, new if slot < new else 0
    returned = groups.returned if isinstance(groups, LiveSet) else None
    if returned is not None and slot in returned[0]:
        uncertain, o, begin = returned[1], int(np.flatnonzero(returned[0] == slot)[0]), 0
    found = sure_dominators(live, uncertain, o, begin)
    if len(found) < groups.k:
        return NO_DOMINATOR
    ids = dict(zip(found.tolist(), named(s.id[first + found]), strict=True))
    return min(found.tolist(), key=lambda each: (live.columns.arrived[each], ids[each]), default=NO_DOMINATOR)


def as_delta(tick: float, changes: Changes, live: LiveSet) -> Delta:
    """What changed at a tick of one group."""
    s = live.slots
    if live.returned is not None:  # a row that was revised lay elsewhere: see `named_dominator`
        changes["dominator"][changes["reason"] == DOMINATED_BY] = NO_DOMINATOR
    changes = sorted_changes(live, changes, list)
    return s.delta(changes["slot"], tick, columns_of(changes), changes["dominator"])


def columns_of(changes: Changes) -> tuple[Ints, Ints, Floats, Floats]:
    """The columns of changes that `Slots.delta` takes."""
    return changes["change"], changes["reason"], changes["probability"], changes["within"]
