"""Which rows are in, where each id has one current row and any of them may be replaced?

Nothing is forgotten: a row that surely beats others may be gone tomorrow. So there is a slot per current row, and

- *sealed* rows, surely beaten by another, remember one such row, their guard;
- *out* ones, open but kept at or below alpha, remember the few that together keep them so, or that those are many;
- *in* are the members of the answer, with the sums of logarithms that are their probabilities.

When a row leaves (it is replaced, removed, or expires), those that it guarded look for another guard; no other row is
looked at, but the members, whose sums follow. Why a guard stays good whatever becomes of it: see `kernels.guards`.

Invariant: the open rows are exactly those that no current row surely beats. Hence, as in `live`, every probability is a
function of the current rows alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import SHARED, VAGUE, Arrivals, Batch, Clouds, Guards, Ints, Revisions, Round
from fogline.kernels.clouds import dense
from fogline.kernels.current import current, hand_over_now
from fogline.kernels.report import report_changes
from fogline.kernels.states import DEAD, HEAVY, OUT, SEALED
from fogline.kernels.tick import DONE, ROOM
from fogline.kernels.tick import VAGUE as PENDING
from fogline.kernels.words import words
from fogline.skyline.live import NOT_SCREENED, SLACK, Live, Report
from fogline.skyline.revision import NO_SLOTS
from fogline.skyline.slots import Slots, longer

GUARDS = 8  # so many are remembered of a row that is out
WASTE = 2  # gaps are closed when there are so many slots for each row
UNSORTED = 64  # fewer open slots than this are not worth sorting


class CurrentSlots(Slots):
    """Slots that remember guards, and the number of their id."""

    def __init__(self, d: int, places: int, known: int = 0, shared: Clouds | None = None) -> None:
        super().__init__(d, places, known, shared)
        self.guards = Guards(np.full(16, -1, np.int32), np.full((16, GUARDS), -1, np.int32))
        self.number: Ints = np.empty(16, np.int64)  # of the id

    def make_room(self, rows: Batch) -> None:
        """Make sure that all rows of a batch would fit, with their distributions."""
        super().make_room(rows)
        size = len(self.clouds.lo)
        if size > len(self.number):
            self.guards = Guards(*(longer(each, size) for each in self.guards))
            self.number = longer(self.number, size)

    def in_order(self, alive: Ints) -> Ints:
        """As they lie: which expires first is of no use here."""
        return alive

    def look_at_order(self) -> None:
        """They lie in no order of expiry."""
        self.latest = np.inf

    def compact_with(self, members: Ints, some: Ints) -> Ints:
        """As `compact`, and slots have other numbers then, in the same order. Returns those of some slots."""
        alive, renumbered = self.alive(), np.full(self.used, -1, np.int32)
        renumbered[alive] = np.arange(len(alive))
        self.compact(members)
        size = len(self.clouds.lo)
        out, sealed = (self.columns.state[: self.used] == state for state in (OUT, SEALED))
        sure, joint = (np.full((size, *each.shape[1:]), -1, np.int32) for each in self.guards)
        kept = self.guards.joint[alive[out]]
        sure[: self.used][sealed] = renumbered[self.guards.sure[alive[sealed]]]
        joint[: self.used][out] = np.where(kept >= 0, renumbered[kept], kept)
        self.guards = Guards(sure, joint)
        self.number = longer(self.number[alive], size)
        return renumbered[some].astype(np.int64)

    def write(self, which: Ints, clouds: Clouds) -> None:
        """Give slots the distributions of these clouds, in place of bounds."""
        s, n = self.clouds, len(clouds.value)
        if self.pool + n > len(s.value):
            size = max(2 * len(s.value), self.pool + n)
            s = s._replace(**{name: longer(getattr(s, name), size) for name in ("value", "weight", "tail")})
            self.clouds = s
        end = slice(self.pool, self.pool + n)
        s.value[end], s.weight[end], s.tail[end] = clouds.value, clouds.weight, clouds.tail
        own = np.where(clouds.start >= 0, clouds.start + self.pool, clouds.start)
        s.start[which] = np.where(clouds.start == SHARED, self.shared, own)
        s.lo[which], s.hi[which], s.size[which] = clouds.lo, clouds.hi, clouds.size
        self.columns.places[which] = self.places_of(clouds)
        self.columns.word_lo[which], self.columns.word_hi[which] = words(clouds.lo, clouds.hi, self.cuts)
        self.pool = end.stop


class Leaving(NamedTuple):
    """The rows that are replaced or removed at a tick."""

    slots: Ints
    heirs: Ints  # the slots of the rows that replace them; -1: none does, OVER: one that has expired already


NONE_LEAVES = Leaving(NO_SLOTS, NO_SLOTS)


class Current(Live):
    """The current rows of one group. `step` costs O(slots + (arrivals + orphans) · open) word comparisons at worst."""

    slots: CurrentSlots
    opened: Ints = NO_SLOTS  # the open slots; those that beat many are last, …
    _opened_since = 0  # … but for so many that opened since they were sorted

    def _new_slots(self, d: int, known: int, shared: Clouds | None) -> CurrentSlots:
        return CurrentSlots(d, self.limits.places, known, shared)

    def tidy(self) -> bool:
        """Now and then close gaps and choose better cut points. Have slots got other numbers?"""
        s, moved = self.slots, False
        if s.used > SLACK and s.used > WASTE * self.alive:
            self.opened = s.compact_with(self.members(), self.opened)
            moved = True
        elif s.used > 4 * s.coded:
            s.recode(s.view())
        if s.filled > 2 * s.packed + 4096:
            s.pack_sums(self.members())
        return moved

    def step(self, now: float, rows: Batch | None = None, revisions: Revisions | None = None) -> Report:
        """Not here: rows that enter take the place of others, see `change`."""
        raise TypeError("current rows are replaced, not only added; use change(), or LatestGroup.")

    def change(self, now: float, rows: Batch | None, leaving: Leaving = NONE_LEAVES) -> tuple[Report, Ints]:
        """One tick: rows leave, those that have expired too, others enter, what that concerns is judged.

        The rows get the next slots, in their order. Returns what changed, and the slots of the rows that expired.
        """
        self.now = float(now)  # an int would be another type to compile for
        rows = self._nothing if rows is None else rows
        self.alive += len(rows.id) - len(leaving.slots)
        changes, expired = self._work(rows, leaving, report=True)
        self.alive -= len(expired)
        self._sort_opened()
        return changes, expired

    def _work(self, rows: Batch, leaving: Leaving, *, report: bool) -> tuple[Report, Ints]:
        """`current`, again and again until nothing is left to do; see there. Nearly always that is once."""
        s = self.slots
        self.new = s.used
        pending = went = closed = NO_SLOTS
        before, after = self._reported(leaving)
        expired: Ints = NO_SLOTS
        while True:
            s.make_room(rows)
            arrivals = Arrivals(rows.clouds, rows.arrived, rows.expires, rows.raw, NOT_SCREENED, NO_SLOTS)
            turn = Round(
                self.now,
                self.next_expiry,
                self.opened,
                *leaving,
                pending,
                went,
                closed,
                before,
                after,
                self.new,
                report,
            )
            changes: Report
            left, met, judged, changes = current(s.live_set(), s.guards, arrivals, turn, self.limits)
            pending, came, self.opened, went, gone, s.pool, self.next_expiry = met
            self._opened_since += len(came)
            s.name(rows, np.arange(len(rows.id)))
            s.filled, room, evaluations = judged
            self.counts.evaluations += evaluations
            expired = gone if len(gone) else expired
            if left == DONE:
                return changes, expired
            rows, leaving = self._nothing, NONE_LEAVES
            if left == PENDING:
                self._fill_in(pending)
                continue
            closed, went = np.concatenate((closed, went)), NO_SLOTS
            if left == ROOM:
                s.room_for_sums(room)
            else:
                return self._bracket_guarded(closed, before, after, report), expired

    def _reported(self, leaving: Leaving) -> tuple[Ints, Ints]:
        """Those of the rows leaving that are in the answer as reported and are replaced, and what replaces them."""
        was = ~np.isnan(self.slots.columns.reported[leaving.slots]) & (leaving.heirs >= 0)
        return leaving.slots[was], leaving.heirs[was]

    def _fill_in(self, which: Ints) -> None:
        """Of these slots those of which only bounds are known get their distributions."""
        s = self.slots
        vague = which[(s.clouds.start[which] == VAGUE).any(axis=1)]
        if len(vague):
            filled = self._known_better(s.again(vague))[0].clouds
            s.write(vague, dense(filled, np.arange(len(vague))))

    def _bracket_guarded(self, closed: Ints, before: Ints, after: Ints, report: bool) -> Report:
        """Judge the clouds of very many places; those that are out have many guards. Returns what changed."""
        s, c = self.slots, self.slots.columns
        heavy = self.opened[c.state[self.opened] == HEAVY]
        self._judge_heavy(self.opened, heavy)
        c.until[heavy[c.state[heavy] == OUT]] = np.inf
        which = np.concatenate((self.opened, closed)) if report else NO_SLOTS
        if report:
            hand_over_now(s.live_set(), before, after)
        changes: Report = report_changes(s.live_set(), which, self.new, self.limits, True)
        return changes

    def _sort_opened(self) -> None:
        """Now and then put those that beat many last, where they are looked at first. It changes no answer."""
        n = len(self.opened)
        if n > UNSORTED and self._opened_since > n // 4:
            s, strength = self.slots, np.zeros(n, np.int64)
            for j, cuts in enumerate(s.cuts):
                strength += np.searchsorted(cuts, s.clouds.lo[self.opened, j], "right")
            self.opened = self.opened[np.argsort(strength, kind="stable")]
            self._opened_since = 0

    def load(self, rows: Batch) -> None:
        """Give saved rows slots, one each, in their order; the caller fills the columns, then calls `stand_up`."""
        super().load(rows)
        self.alive = len(rows.id)
        self.next_expiry = float(rows.expires.min(initial=np.inf))

    def stand_up(self, *, anew: bool) -> None:
        """The columns of saved rows are filled. `anew`: some are to be judged; else all were when they were saved."""
        self.slots.look_at_order()
        if anew:
            self.judge_due()

    def judge_due(self) -> None:
        """Judge the rows that wait for it, without a tick."""
        self._work(self._nothing, NONE_LEAVES, report=False)

    def reveal(self) -> None:
        """Fill in all of which only bounds are known, to be looked at; no probability changes by it.

        They are sealed, and stay so: a box never widens, and whatever such a row surely beats, its guard does.
        """
        needed = self.counts.imputed
        self._fill_in(self.slots.alive())
        self.counts.imputed = needed

    def shadows(self) -> Ints:
        """None: no row is kept out for life by one that may be replaced."""
        return NO_SLOTS

    def look_at_expiries(self) -> None:
        """Work out when the first row expires: the rows from which that was known may have been replaced. O(slots)."""
        c, n = self.slots.columns, self.slots.used
        self.next_expiry = float(np.where(c.state[:n] == DEAD, np.inf, c.expires[:n]).min(initial=np.inf))
