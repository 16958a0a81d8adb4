"""What happens in groups, tick by tick, and what changed?

At each tick everything that has expired leaves, then the rows that arrived enter, then gaps that are known better are
revised, then the answer is taken. An instant at which nothing arrives, nothing is revised and nothing of the live set
expires changes nothing, so it need not be visited.

Changes are reported in the order of group, arrival and id. Of several open rows that surely dominate a leaver, the
first in the order of (arrival, id) is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from fogline.arrays import BEATEN, Batch, Delta, Flags, Floats, Ints, Revisions, UncertainRows
from fogline.engine.groups import SLACK, Changes, Groups, Live
from fogline.engine.revise import Fill, Note
from fogline.engine.window import CountWindow, moved_expiries, named_in
from fogline.kernels.static import as_good_as
from fogline.kernels.tick import NO_DOMINATOR, sure_dominators
from fogline.kernels.uncertain import extent
from fogline.rows.names import Contents, copies_of, stamp_names

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
        odd |= more & (records["used"] > SLACK) & (2 * records["alive"] < records["used"])
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
        if reason == BEATEN and changes["dominator"][k] < 0:
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
        changes["dominator"][changes["reason"] == BEATEN] = NO_DOMINATOR
    changes = in_order(live, changes, list)
    slot, reason = changes["slot"], changes["reason"]
    change, probability, within = (changes[name] for name in ("change", "probability", "within"))
    delta = Delta(tick, s.id[slot], s.columns.arrived[slot], change, probability, within, s.raw[slot], reason)
    if BEATEN not in reason.tolist():  # nearly always
        return delta
    dominator = changes["dominator"]
    named = (reason == BEATEN) & (dominator >= 0)
    ids, times = np.full(len(slot), None, object), np.full(len(slot), np.nan)
    ids[named], times[named] = s.id[dominator[named]], s.columns.arrived[dominator[named]]
    return delta._replace(rival=ids, rival_time=times)


# --- Copies -----------------------------------------------------------------------------------------------------------
#
# A copy has the group, id and arrival of another row. What has entered stays, as far as the live set remembers it. Of
# copies that come together one counts (`rows.names`).
#
# Other rows may have been dropped because of a copy, before they came here. If it is refused, that is no matter as long
# as another row could have dropped them as well: one that is nowhere worse, and there as long. If there is none, they
# need that copy: it is chosen of several, or kept beside the row that is there already (a *conflict*).


def entered(group: Group | None, id: Sequence[Any], arrived: Floats, clock: float) -> list[int]:
    """The positions of rows that have entered already. `clock`: up to when the group has been advanced."""
    if group is None or not len(id) or extent(arrived)[0] > clock:
        return []
    behind = np.flatnonzero(arrived <= clock)
    there = group.known([id[k] for k in behind.tolist()], arrived[behind])
    return [int(k) for k in behind[there]]


def duplicates(
    group: Group | None,
    id: Sequence[Any],
    arrived: Floats,
    clock: float,
    contents: Callable[[], Contents],
    covering: Flags | None = None,
) -> tuple[list[int], list[int]]:
    """The positions of rows of one group that are refused, and of conflicts, which are kept beside others.

    `clock`: up to when the group has been advanced; `covering`: rows because of which others were dropped.
    """
    again: set[int] = set()
    held = cache(contents)  # what rows hold is put together once
    for copies in copies_of(stamp_names(id, arrived, None), held):
        again.update(copies)
        again.remove(_chosen(copies, held(), covering))
    again.update(entered(group, id, arrived, clock))
    needed = [] if covering is None else [k for k in sorted(again) if covering[k]]
    kept = _conflicts(needed, again, group, (id, arrived), held()) if needed else []
    return sorted(again.difference(kept)), kept


def _conflicts(
    needed: list[int], again: set[int], group: Group | None, names: tuple[Sequence[Any], Floats], contents: Contents
) -> list[int]:
    """The copies whose place no row that stays can take. O(rows + needed · log live) where few live rows overlap."""
    covered = set(_covered(group, contents, needed))
    left = [k for k in needed if k not in covered]
    if not left:
        return []
    id, arrived = names
    copies: dict[Any, list[int]] = {}  # by name, those that stay
    for n, name in enumerate(zip(id, arrived.tolist(), strict=True)):
        if n not in again:
            copies.setdefault(name, []).append(n)
    kept: list[int] = []
    for k in left:
        there = copies.setdefault((id[k], float(arrived[k])), [])
        if not any(contents.as_good(n, k) for n in there):
            kept.append(k)
            there.append(k)
    return kept


def _chosen(copies: list[int], contents: Contents, covering: Flags | None) -> int:
    """The copy that stays: one that others need, if there is any."""
    best = copies[0]
    if covering is None or not covering[copies].any():
        return best
    needed = [k for k in copies if covering[k] and not contents.as_good(best, k)]
    return contents.best(needed) if needed and not covering[best] else best


def _covered(group: Group | None, contents: Contents, needed: list[int]) -> list[int]:
    """Those of the rows for which there is a live one that could have dropped whatever they did."""
    if group is None:
        return []
    slots = group.live.slots
    alive: Ints = slots.alive()
    there = np.column_stack((slots.uncertain.lo[alive], slots.columns.expires[alive]))
    found = as_good_as(there, np.column_stack((contents.uncertain.lo[needed], contents.expires[needed])))
    return [k for k, there_is in zip(needed, found.tolist(), strict=True) if there_is]
