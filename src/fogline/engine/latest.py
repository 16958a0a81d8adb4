"""Which rows are in, where each id has one current row and any of them may be replaced?

A row, or a removal, is taken at its time; a late one (before the clock) at the clock. It is *stale*, and ignored, if
something newer of its id is known: of a later time, or of the same time and a greater version. Otherwise it takes the
place of the id's row. What has expired leaves; it does not bring an older row back. Of what befalls one id at one tick
only the newest counts. Where time and version are the same, a removal does, and among rows the one that `rows.names`
prefers.

Nothing is forgotten: a row that surely dominates others may be gone tomorrow. So there is a slot per current row, and

- *dominated* rows, surely, by another, remember one such row, their guard;
- *out* ones, open but kept at or below alpha, remember the few that together keep them so, or that those are many;
- *in* are the members of the answer, with the sums of logarithms that are their probabilities.

When a row leaves (it is replaced, removed, or expires), those that it guarded look for another guard. No other row is
looked at but the members, whose sums follow. `kernels.latest` states why a guard stays good whatever becomes of it.

The changes are those of ids: one whose row is replaced and that stays in the answer is updated.

Invariant: the open rows are exactly those that no current row surely dominates. Hence every probability is a function
of the current rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fogline.arrays import (
    BOUNDS_ONLY,
    REPLACED,
    SHARED,
    Batch,
    Flags,
    Floats,
    Guards,
    Ints,
    LatestWork,
    Objects,
    Removals,
    UncertainRows,
)
from fogline.engine.bulk import arrivals_of
from fogline.engine.group import Group, Incoming, named_dominator
from fogline.engine.live import Changes, LiveSet
from fogline.engine.slots import NO_SLOTS, Slots, longer
from fogline.kernels.latest import OVER, hand_over_now, tick_latest
from fogline.kernels.states import DEAD, DOMINATED, HEAVY, OUT
from fogline.kernels.tick import DONE, FILL, GROW, report_changes
from fogline.kernels.uncertain import dense, extent
from fogline.kernels.words import words
from fogline.rows.names import Contents

if TYPE_CHECKING:
    from fogline.impute.chain import Chain

NO_VERSION = np.iinfo(np.int64).min
FORGET_FROM = 64  # fewer markers than this are not worth looking at


class Names:
    """Which row is current of each id of a group, and what came last of those that have none?

    An id is a number from its first row on. What befalls an id has a time and a version, its *stamp*; the id keeps the
    greatest one, and whatever has a smaller stamp is stale. An id without a current row, because it was removed or the
    row has expired, is a *marker*: its stamp still shows what is stale. Markers are forgotten once the clock has passed
    their time by `remember`. `numbers` is O(ids), all else O(ids) in arrays.

    Invariant: an id with a number has a slot, or is a marker. A marker that is due to be forgotten counts as forgotten,
    though it may lie here for a while.
    """

    def __init__(self, remember: float = np.inf) -> None:
        self.remember = remember
        self.number: dict[Any, int] = {}
        self.free: list[int] = []  # numbers that no id has any longer
        self.id: Objects = np.empty(16, object)
        self.slot: Ints = np.full(16, -1, np.int64)  # -1: none
        self.time: Floats = np.full(16, -np.inf)
        self.version: Ints = np.full(16, NO_VERSION, np.int64)
        self._place: Ints = np.empty(16, np.int64)  # room for `twice`
        self._kept = 0  # how many markers were left when some were last forgotten

    def numbers(self, ids: Objects) -> Ints:
        """The numbers of ids; those that have none get one."""
        names = ids.tolist()
        found = list(map(self.number.get, names))
        if None in found:
            found = [self._new(name) if n is None else n for name, n in zip(names, found, strict=True)]
        return np.array(found, np.int64)

    def _new(self, name: Any) -> int:
        if (n := self.number.get(name)) is not None:  # the same id, earlier in the same batch
            return n
        n = self.free.pop() if self.free else len(self.number)
        self.number[name] = n
        if n >= len(self.id):
            size = 2 * len(self.id)
            self.id, self._place = longer(self.id, size), longer(self._place, size)
            self.slot, self.time, self.version = (longer(a, size) for a in (self.slot, self.time, self.version))
            self.slot[n:], self.time[n:], self.version[n:] = -1, -np.inf, NO_VERSION
        self.id[n] = name
        return n

    def stale(self, number: Ints, time: Floats, version: Ints, clock: float) -> Flags:
        """What is older than the stamp of its id?"""
        last = self.time[number]
        older: Flags = (time < last) | ((time == last) & (version < self.version[number]))
        if older.any() and self.remember < np.inf:
            older &= (self.slot[number] >= 0) | ~self._over(last, clock)
        return older

    def twice(self, number: Ints) -> bool:
        """Does a number come twice?"""
        count = np.arange(len(number))
        self._place[number] = count
        return bool((self._place[number] != count).any())

    def stamp(self, number: Ints, time: Floats, version: Ints) -> None:
        """This befell these ids, none of them twice."""
        self.time[number], self.version[number] = time, version

    def markers(self, clock: float) -> Ints:
        """The numbers of the ids that are markers."""
        n = len(self.number) + len(self.free)
        without = np.flatnonzero((self.slot[:n] < 0) & (self.time[:n] > -np.inf))
        return without[~self._over(self.time[without], clock)]

    def _over(self, time: Floats, clock: float) -> Flags:
        """Has the clock passed these times by `remember`?"""
        return np.asarray(time + self.remember < clock)

    def forget(self, clock: float, living: int) -> None:
        """Forget the markers that are over, when they may have become many. `living`: how many ids have a row."""
        markers = len(self.number) - living
        if self.remember == np.inf or markers <= 2 * self._kept + FORGET_FROM:
            return
        n = len(self.number) + len(self.free)
        over = np.flatnonzero((self.slot[:n] < 0) & (self.time[:n] > -np.inf) & self._over(self.time[:n], clock))
        for name in self.id[over].tolist():
            self.free.append(self.number.pop(name))
        self.id[over], self.time[over], self.version[over] = None, -np.inf, NO_VERSION
        self._kept = markers - len(over)

    def moved(self, number: Ints) -> None:
        """The ids with these numbers lie in slots 0, 1, …"""
        self.slot[number] = np.arange(len(number))


# --- Slots and ticks --------------------------------------------------------------------------------------------------

GUARDS = 8  # so many are remembered of a row that is out
UNSORTED = 64  # fewer open slots than this are not worth sorting


class LatestSlots(Slots):
    """Slots that remember guards, and the number of their id."""

    def __init__(self, d: int, sum_limit: int, known: int = 0, shared: UncertainRows | None = None) -> None:
        super().__init__(d, sum_limit, known, shared)
        self.guards = Guards(np.full(16, -1, np.int32), np.full((16, GUARDS), -1, np.int32))
        self.number: Ints = np.empty(16, np.int64)  # of the id

    def make_room(self, rows: Batch, begin: Ints | None = None) -> None:
        """Make sure that all rows of a batch would fit, with their distributions."""
        super().make_room(rows)
        self._widen_guards()

    def begin_with(self, sizes: Ints, pool: int, ids: Any = object) -> None:
        """Room for so many rows, which are alive."""
        super().begin_with(sizes, pool, ids)
        self._widen_guards()

    def _widen_guards(self) -> None:
        size = len(self.uncertain.lo)
        if size > len(self.number):
            self.guards = Guards(*(longer(each, size) for each in self.guards))
            self.number = longer(self.number, size)

    def in_order(self, alive: Ints) -> Ints:
        """As they lie: which expires first is of no use here."""
        return alive

    def look_at_order(self) -> None:
        """They lie in no order of expiry."""
        self.last_expiry = np.inf

    def compact_with(self, some: Ints) -> Ints:
        """As `compact`, and slots have other numbers then, in the same order. Returns those of some slots."""
        alive, renumbered = self.alive(), np.full(self.used, -1, np.int32)
        renumbered[alive] = np.arange(len(alive))
        self.compact()
        size = len(self.uncertain.lo)
        out, dominated = (self.columns.state[: self.used] == state for state in (OUT, DOMINATED))
        sure, joint = (np.full((size, *each.shape[1:]), -1, np.int32) for each in self.guards)
        kept = self.guards.joint[alive[out]]
        sure[: self.used][dominated] = renumbered[self.guards.sure[alive[dominated]]]
        joint[: self.used][out] = np.where(kept >= 0, renumbered[kept], kept)
        self.guards = Guards(sure, joint)
        self.number = longer(self.number[alive], size)
        return renumbered[some].astype(np.int64)

    def write(self, which: Ints, uncertain: UncertainRows) -> None:
        """Give slots the distributions of these rows, in place of bounds."""
        s, n = self.uncertain, len(uncertain.value)
        if self.pool + n > len(s.value):
            size = max(2 * len(s.value), self.pool + n)
            s = s._replace(**{name: longer(getattr(s, name), size) for name in ("value", "weight", "tail")})
            self.uncertain = s
        end = slice(self.pool, self.pool + n)
        s.value[end], s.weight[end], s.tail[end] = uncertain.value, uncertain.weight, uncertain.tail
        own = np.where(uncertain.start >= 0, uncertain.start + self.pool, uncertain.start)
        s.start[which] = np.where(uncertain.start == SHARED, self.shared, own)
        s.lo[which], s.hi[which], s.size[which] = uncertain.lo, uncertain.hi, uncertain.size
        self.columns.instances[which] = self.instances_of(uncertain)
        self.columns.word_lo[which], self.columns.word_hi[which] = words(uncertain.lo, uncertain.hi, self.cuts)
        self.pool = end.stop


class Leaving(NamedTuple):
    """The rows that are replaced or removed at a tick."""

    slots: Ints
    successors: Ints  # the slots of the rows that replace them; -1: none does, OVER: one that has expired already


NONE_LEAVES = Leaving(NO_SLOTS, NO_SLOTS)


class LatestLiveSet(LiveSet):
    """The current rows of one group. `change` costs O(slots + (arrivals + orphans) · open) comparisons at worst."""

    by_id = True
    slots: LatestSlots
    opened: Ints = NO_SLOTS  # the open slots; those that dominate many are last, …
    _opened_since = 0  # … but for so many that opened since they were sorted

    def _new_slots(self, d: int, known: int, shared: UncertainRows | None, groups: int) -> LatestSlots:
        return LatestSlots(d, self.limits.sum_limit, known, shared)

    def compact(self) -> None:
        """Close the gaps between slots: they get other numbers, in the same order."""
        self.opened = self.slots.compact_with(self.opened)

    def change(self, now: float, rows: Batch | None, leaving: Leaving = NONE_LEAVES) -> tuple[Changes, Ints]:
        """One tick: rows leave, those that have expired too, others enter, what that concerns is judged.

        The rows get the next slots, in their order. Returns what changed, and the slots of the rows that expired.
        """
        groups = self.slots.groups
        groups["now"] = now
        rows = self._nothing if rows is None else rows
        groups["alive"] += len(rows.id) - len(leaving.slots)
        changes, expired = self._work(rows, leaving, report=True)
        groups["alive"] -= len(expired)
        self._sort_opened()
        return changes, expired

    def _work(self, rows: Batch, leaving: Leaving, *, report: bool) -> tuple[Changes, Ints]:
        """`tick_latest`, again and again until nothing is left to do; see there. Nearly always that is once."""
        s, groups = self.slots, self.slots.groups
        new = s.used
        groups["new"] = new
        pending = went = closed = NO_SLOTS
        before, after = self._reported(leaving)
        expired: Ints = NO_SLOTS
        while True:
            s.make_room(rows)
            coming = arrivals_of(rows, NO_SLOTS)
            turn = LatestWork(
                self.now, self.next_expiry, self.opened, *leaving, pending, went, closed, before, after, new, report
            )
            s.room_for_changes(2 * len(self.opened) + len(rows.id) + len(went) + len(closed))
            left, met, judged = tick_latest(s.live_arrays(), s.guards, coming, turn, self.limits, s.scratch, s.changes)
            pending, came, self.opened, went, gone, s.pool, groups["soon"] = met
            self._opened_since += len(came)
            if n := len(rows.id):
                s.source[s.used : s.used + n], s.used = np.arange(n), s.used + n
                s.name(rows, self._all)
            s.filled, sums, evaluations, end = judged
            groups["evaluations"] += evaluations
            expired = gone if len(gone) else expired
            if left == DONE:
                return s.changes[:end], expired
            rows, leaving = self._nothing, NONE_LEAVES
            if left == FILL:
                self._fill_in(pending)
                continue
            closed, went = np.concatenate((closed, went)), NO_SLOTS
            if left == GROW:
                s.room_for_sums(sums)
            else:
                return self._bracket_guarded(closed, before, after, report), expired

    def _reported(self, leaving: Leaving) -> tuple[Ints, Ints]:
        """Those of the rows leaving that are in the answer as reported and are replaced, and what replaces them."""
        was = ~np.isnan(self.slots.columns.reported[leaving.slots]) & (leaving.successors >= 0)
        return leaving.slots[was], leaving.successors[was]

    def _fill_in(self, which: Ints) -> None:
        """Of these slots those of which only bounds are known get their distributions."""
        s = self.slots
        bounds_only = which[(s.uncertain.start[which] == BOUNDS_ONLY).any(axis=1)]
        if len(bounds_only):
            rows, n = s.again(bounds_only), len(bounds_only)
            filled = self._known_better(rows, np.zeros(n, np.int64), np.ones(n, np.bool_))[0].uncertain
            s.write(bounds_only, dense(filled, np.arange(len(bounds_only))))

    def _bracket_guarded(self, closed: Ints, before: Ints, after: Ints, report: bool) -> Changes:
        """Judge the rows of very many instances; those that are out have many guards. Returns what changed."""
        s, c = self.slots, self.slots.columns
        heavy = self.opened[c.state[self.opened] == HEAVY]
        self._judge_heavy(0, self.opened)
        c.until[heavy[c.state[heavy] == OUT]] = np.inf
        which = np.concatenate((self.opened, closed)) if report else NO_SLOTS
        if report:
            hand_over_now(s.live_arrays(), before, after)
        new = int(s.groups["new"][0])
        s.room_for_changes(len(which))
        end = report_changes(s.live_arrays(), which, self.now, new, self.limits, True, s.changes)
        return s.changes[:end]

    def _sort_opened(self) -> None:
        """Now and then put those that dominate many last, where they are looked at first. It changes no answer."""
        n = len(self.opened)
        if n > UNSORTED and self._opened_since > n // 4:
            s, strength = self.slots, np.zeros(n, np.int64)
            for j, cuts in enumerate(s.cuts):
                strength += np.searchsorted(cuts, s.uncertain.lo[self.opened, j], "right")
            self.opened = self.opened[np.argsort(strength, kind="stable")]
            self._opened_since = 0

    def finish_load(self) -> None:
        """The columns of saved rows are filled. Members whose sums were not saved are judged anew."""
        super().finish_load()
        self.slots.look_at_order()

    def judge_due(self, which: Ints) -> None:
        """Judge the rows that wait for it, without a tick; `which` is its one group."""
        self._work(self._nothing, NONE_LEAVES, report=False)

    def reveal(self) -> None:
        """Fill in all of which only bounds are known, to be looked at; no probability changes by it.

        They are dominated, and stay so: a box never widens, and what such a row surely dominates, its guard does.
        """
        needed = self.counts.imputed
        self._fill_in(self.slots.alive())
        self.slots.groups["imputed"] = needed

    def shadows(self) -> Ints:
        """None: no row is kept out for life by one that may be replaced."""
        return NO_SLOTS

    def look_at_expiries(self) -> float:
        """When the first row expires: the rows from which that was known may have been replaced. O(slots)."""
        c, n = self.slots.columns, self.slots.used
        self.slots.groups["soon"] = np.where(c.state[:n] == DEAD, np.inf, c.expires[:n]).min(initial=np.inf)
        return self.next_expiry


# --- Groups -----------------------------------------------------------------------------------------------------------


class IdEvents(NamedTuple):
    """What befalls ids: rows, then removals."""

    number: Ints  # (n,) of the id
    time: Floats  # (n,)
    version: Ints  # (n,)
    row: Ints  # (n,) which row of the batch; -1: a removal

    def part(self, which: Ints | slice | Flags) -> IdEvents:
        """Some of them."""
        return IdEvents(self.number[which], self.time[which], self.version[which], self.row[which])


class LatestGroup(Group):
    """A skyline of the newest row of each id: it counts until it is replaced, removed, or expires."""

    live: LatestLiveSet

    def __init__(
        self, live: LatestLiveSet, remember: float = np.inf, *, points: bool = False, chain: Chain | None = None
    ) -> None:
        super().__init__(live, chain)
        self.names, self.points = Names(remember), points  # see `rows.names.Contents`
        self.removed = 0

    @property
    def markers(self) -> int:
        """How many ids have no row, and are remembered so that older rows are known to be stale. O(ids)."""
        return len(self.names.markers(self.clock))

    @property
    def remembers(self) -> bool:
        """Is there something to remember, though no row lives?"""
        return self.markers > 0

    @property
    def ids(self) -> int:
        """How many ids have a row, or left a marker."""
        return len(self.names.number)

    def counters(self) -> dict[str, int]:
        """What only this kind of group counts."""
        return {"stale": self.stale, "removed": self.removed}

    def sizes(self) -> dict[str, int]:
        """How many rows it has, of which kinds, and how many markers."""
        return super().sizes() | {"markers": self.markers}

    def knows(self, ids: Sequence[Any], time: Floats, version: Ints | None) -> Flags:
        """(n,) which of these rows are stale: older than what is known of their ids."""
        assert version is not None
        number = np.array([self.names.number.get(each, -1) for each in ids], np.int64)
        found, known = np.zeros(len(ids), np.bool_), number >= 0
        found[known] = self.names.stale(number[known], time[known], version[known], self.clock)
        return found

    def remembered(self) -> tuple[list[Any], Floats]:
        """The markers: ids whose last row has expired or was removed, and when something came of them last."""
        which = self.names.markers(self.clock)
        return self.names.id[which].tolist(), self.names.time[which]

    def end(self, now: float) -> None:
        """All up to `now` has happened."""
        super().end(now)
        self.names.forget(now, self.live.alive)

    def step(self, tick: float, come: Incoming) -> Changes:
        """One tick: what changed of the answer."""
        rows, _, removals = come
        events = None if rows is None and removals is None else self._events(rows, removals)
        live, names, slots = self.live, self.names, self.live.slots
        if live.tidy():
            names.moved(slots.number[: slots.used])
        if events is None or not len(events.number):
            report, expired = live.change(tick, None)
        else:
            if names.twice(events.number):
                events = events.part(self._newest_of_each(events, rows))
            first, (number, arrivals, leaving) = slots.used, self._take(tick, rows, events)
            report, expired = live.change(tick, arrivals, leaving)
            slots.number[first : slots.used] = number
            self._name_who_beats(report)
        names.slot[slots.number[expired]] = -1
        return report

    def _name_who_beats(self, changes: Changes) -> None:
        """Of rows that were replaced by ones that are not in: the row that surely beats the new one, if any does."""
        numbers = self.live.slots.number
        for k in np.flatnonzero(changes["reason"] == REPLACED).tolist():
            successor = int(self.names.slot[numbers[changes["slot"][k]]])
            if successor >= 0:
                changes["dominator"][k] = named_dominator(self.live, 0, successor, list)

    def _events(self, rows: Batch | None, removals: Removals | None) -> IdEvents:
        """What is taken of the rows and removals. What is stale is counted.

        Only what comes late can be: what comes at its tick is newer than all that was taken before. So it is compared
        by the clock as it was before the call.
        """
        parts = []
        if rows is not None:
            n = len(rows.id)
            version = np.zeros(n, np.int64) if rows.version is None else rows.version
            parts.append(IdEvents(self.names.numbers(rows.id), rows.arrived, version, np.arange(n)))
        if removals is not None:
            none = np.full(len(removals.id), -1)
            parts.append(IdEvents(self.names.numbers(removals.id), removals.time, removals.version, none))
        events = parts[0] if len(parts) == 1 else IdEvents(*(np.concatenate(both) for both in zip(*parts, strict=True)))
        self.newest = max(self.newest, extent(events.time)[1])
        stale = self.names.stale(events.number, events.time, events.version, self.clock)
        if stale.any():
            self.stale += int(np.count_nonzero(stale))
            events = events.part(~stale)
        return events

    def _take(self, tick: float, rows: Batch | None, events: IdEvents) -> tuple[Ints, Batch | None, Leaving]:
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
        successors = np.full(len(old), -1)
        first = self.live.slots.used
        successors[came] = np.arange(first, first + int(np.count_nonzero(came)))
        names.slot[events.number] = successors
        if over is not None:
            successors[over] = OVER
        left = old >= 0
        return events.number[came], rows, Leaving(old[left], successors[left])

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

    def _newest_of_each(self, events: IdEvents, rows: Batch | None) -> Ints:
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


def _contents(rows: Batch, points: bool) -> Contents:
    """What rows hold, larger being better: a number is what came, whichever way it was turned."""
    lo, hi = rows.uncertain.lo, rows.uncertain.hi
    came = (np.abs(rows.raw) == np.abs(lo)) & (lo == hi)
    return Contents(np.where(came, lo, np.nan), rows.expires, rows.uncertain, np.ones(lo.shape[1]), points)
