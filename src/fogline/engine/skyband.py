"""Which rows do fewer than k others dominate, where k > 1?

A row is in when the probability that fewer than k others dominate it is above alpha: the k-skyband. The skyline is that
of k = 1, and has ways of its own (`engine.live`, `engine.latest`), which rest on one dominator being enough. Here one
live set serves both kinds of groups, and simple counts take the place of guards and sums of logarithms.

**What may be forgotten.** n is *above* q if n surely dominates q and expires no earlier. A row with k rows above it has
probability 0 for the rest of its life, and forgetting all such rows, in any order, changes no other probability:

1. To be above is transitive and never both ways, as sure dominance is a strict order and expiries are ordered.
2. Of the rows above a row q, with k of them or more, k have fewer than k rows above them: put them in an order in which
   a row comes after all that are above it. What is above the i-th of them is above q too, hence among the i - 1 before
   it. So the first k have fewer than k above, for which they are never forgotten: k rows that are kept are above q.
3. Let x be an instance of any row, and let q dominate it, wherever q turns out to be. The k kept rows above q dominate
   that instance of q whatever values they have, hence x, and they are in the window as long as q. So x is dominated by
   at least k rows with q and without it: whether fewer than k do is the same.
4. What is above q stays so: boxes never widen, and it lives as long. So q need not come back.

The same argument without the expiries: a row that k rows of the window surely dominate now is *dominated*. It has
probability 0, and can be left out of all other rows' counts. So probabilities are a function of the *open* rows, those
that fewer than k rows surely dominate. For k = 1 this is what `engine.live` states. In a part of the stream k rows
above q are k rows above it in the whole; one is not enough, which is why parts are pruned by k rows, too.

**What is kept of a row**: how many living rows surely dominate it by their boxes, and how many of these are above it.
Both are whole numbers: rows that come are added, rows that go are subtracted, O(slots) comparisons of words each.

A tick: rows leave, others enter, rows with k above them are forgotten; rows of which only bounds are known get their
distributions when they are open. Then every open row that a row which came or went may dominate is judged anew
(`kernels.skyband`), and what changed is reported. Where each id has one current row nothing is forgotten.

A row that leaves the answer is *beaten* if k open rows surely dominate it now; the first to arrive of all that do is
named.

Invariant: the open rows are those that fewer than k rows of the window surely dominate, by their boxes; each has the
probability that follows from the open rows alone, whatever the order, the batches or the restarts that led there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import BOUNDS_ONLY, Batch, Flags, Floats, Guards, Ints, Revisions, UncertainRows
from fogline.engine.bulk import arrivals_of
from fogline.engine.latest import NONE_LEAVES, LatestLiveSet, LatestSlots, Leaving
from fogline.engine.live import EXACT_LIMIT, WIDTH, Changes
from fogline.engine.revise import Fill, Note, revise
from fogline.engine.slots import NO_SLOTS, longer
from fogline.kernels.bracket import Bounds
from fogline.kernels.latest import OVER, hand_over_now
from fogline.kernels.skyband import (
    chances_in_band,
    concerned,
    count_dominators,
    dominators_in_band,
    judge_band,
    may_matter,
    report_band,
    write_arrivals,
)
from fogline.kernels.states import DEAD, DOMINATED, HAS_EXPIRED, HAS_SUCCESSOR, IN, IS_GONE, OUT
from fogline.kernels.static import CERTAIN, IMPOSSIBLE, OPEN
from fogline.kernels.words import words

ROWS = 256  # of so many rows at once it is looked among themselves first which can matter
WORK = 64_000_000  # looks at a dominator in an instance, some tenths of a second


class Dominators(NamedTuple):
    """How many living rows surely dominate each slot's row, by their boxes; `above`: of those that expire no earlier.

    Of dead slots it does not matter.
    """

    sure: Ints
    above: Ints


class SkybandSlots(LatestSlots):
    """Slots that know how many rows dominate theirs. No row has guards here."""

    def __init__(self, d: int, known: int = 0, shared: UncertainRows | None = None) -> None:
        super().__init__(d, 0, known, shared)  # 0: no sums are kept
        self.dominators = Dominators(np.zeros(16, np.int64), np.zeros(16, np.int64))

    def _widen_guards(self) -> None:
        size = len(self.uncertain.lo)
        if size > len(self.number):
            self._relay(np.arange(len(self.number)), size)

    def _relay(self, kept: Ints, size: int) -> None:
        """The slots `kept` come first, with room for so many."""
        self.number = longer(self.number[kept], size)
        self.dominators = Dominators(*(longer(each[kept], size) for each in self.dominators))
        self.guards = Guards(*(np.full((size, *each.shape[1:]), -1, np.int32) for each in self.guards))

    def compact_with(self, some: Ints) -> Ints:
        """As `compact`, and slots have other numbers then, in the same order. Returns those of some slots."""
        alive, renumbered = self.alive(), np.full(self.used, -1, np.int64)
        renumbered[alive] = np.arange(len(alive))
        self.compact()
        self._relay(alive, len(self.uncertain.lo))
        return renumbered[some]


class SkybandLiveSet(LatestLiveSet):
    """The rows of one group that may be dominated by fewer than k others.

    A tick costs O((arrivals + leavers) · slots) comparisons of words, and O(open · instances · k) for each row that is
    judged: all that what came or went may dominate.
    """

    slots: SkybandSlots

    def __init__(
        self,
        d: int,
        alpha: float,
        k: int,
        *,
        by_id: bool,
        exact_limit: int = EXACT_LIMIT,
        known: int = 0,
        fill: Fill | None = None,
        note: Note | None = None,
        shared: UncertainRows | None = None,
    ) -> None:
        super().__init__(d, alpha, exact_limit=exact_limit, known=known, fill=fill, note=note, shared=shared)
        self.k = k
        self.by_id = by_id  # each id has one current row, which may be replaced: nothing is forgotten
        self.limits = self.limits._replace(sum_limit=0)

    def _new_slots(self, d: int, known: int, shared: UncertainRows | None, groups: int) -> SkybandSlots:
        return SkybandSlots(d, known, shared)

    @property
    def goal(self) -> Bounds:
        """How far the probability of a row of very many instances is narrowed."""
        return Bounds(self.limits.threshold, WIDTH, WORK)

    # --- Ticks --------------------------------------------------------------------------------------------------------

    def tick(self, now: float, rows: Batch | None = None, revisions: Revisions | None = None) -> Changes:
        """One tick: what has expired leaves, the rows enter, live ones are revised, what that concerns is judged.

        Returns what changed.
        """
        self.tidy()  # not later: the leave of a member that dies now is still to be reported
        s, origin, went, self.returned = self.slots, NO_SLOTS, NO_SLOTS, None
        lives = s.columns.expires.copy() if revisions is not None else s.columns.expires
        if revisions is not None:
            assert self.fill is not None
            assert self.note is not None
            rows, origin, went, count = revise(s, float(now), rows, revisions, self.fill, self.note)
            s.groups["revised"] += count
            self._count(went, lives[went], -1)
        return self._step(now, rows, NONE_LEAVES, origin, went)[0]

    def change(self, now: float, rows: Batch | None, leaving: Leaving = NONE_LEAVES) -> tuple[Changes, Ints]:
        """One tick: rows leave, those that have expired too, others enter, what that concerns is judged.

        The rows get the next slots, in their order. Returns what changed, and the slots of the rows that expired.
        """
        return self._step(now, rows, leaving, NO_SLOTS, NO_SLOTS)

    def _step(
        self, now: float, rows: Batch | None, leaving: Leaving, origin: Ints, revised: Ints
    ) -> tuple[Changes, Ints]:
        """`origin`: the slots that rows come from, if they were there before; `revised`: open slots that they left."""
        s, c = self.slots, self.slots.columns
        s.groups["now"], s.groups["new"] = now, 0
        before, after = self._reported(leaving)
        opened = np.concatenate((self.opened, revised))
        died, expired = self._end(now, leaving)
        self._count(died, c.expires[died], -1)
        c.expires[died] = -np.inf
        came = NO_SLOTS if rows is None else self._enter(rows, origin)
        self._forget(came)
        self._open()
        self._judge(opened)
        if self.by_id:
            hand_over_now(s.live_arrays(), before, after)
        s.room_for_changes(s.used)
        n = report_band(
            s.live_arrays(), self.opened, now, self.k, self.limits.tolerance, self.by_id, s.changes
        )  # a row leaves once: its slot is not looked at again
        self._look_around()
        return s.changes[:n], expired

    def _end(self, now: float, leaving: Leaving) -> tuple[Ints, Ints]:
        """The rows that are replaced or removed die, and those that have expired. Returns all, and the latter."""
        c, n = self.slots.columns, self.slots.used
        some, successors = leaving
        c.state[some] = DEAD
        c.until[some] = np.where(successors >= 0, HAS_SUCCESSOR, np.where(successors == OVER, HAS_EXPIRED, IS_GONE))
        expired = np.flatnonzero((c.expires[:n] <= now) & (c.state[:n] != DEAD))
        c.state[expired], c.until[expired] = DEAD, HAS_EXPIRED
        return np.concatenate((some, expired)), expired

    def _enter(self, rows: Batch, origin: Ints) -> Ints:
        """Give the rows slots, but for those that others of them keep from ever mattering. Returns the slots."""
        s = self.slots
        s.make_room(rows)
        if len(rows.arrived) >= ROWS and not self.by_id and not len(origin):
            rows = self._without_beaten(rows)
            s.make_room(rows)
        n = len(rows.arrived)
        s.pool = write_arrivals(s.live_arrays(), arrivals_of(rows, NO_SLOTS, origin), 0)
        came = np.arange(s.used, s.used + n)
        s.source[came], s.used = np.arange(n), s.used + n
        s.name(rows, self._all)
        self._count(came, s.columns.expires[came], 1)
        return came

    def _without_beaten(self, rows: Batch) -> Batch:
        """The rows, without those that k of them surely dominate as long as they live."""
        lo, hi = rows.uncertain.lo, rows.uncertain.hi
        stay = may_matter(lo, hi, *words(lo, hi, self.slots.cuts), rows.expires, self.slots.fence, self.k)
        gone = len(stay) - int(np.count_nonzero(stay))
        self.slots.groups["forgotten"] += gone
        self.slots.groups["spatial"] += gone
        return rows.part(np.flatnonzero(stay)) if gone else rows

    def _count(self, which: Ints, lives: Floats, sign: int) -> None:
        """Rows come (1) or go (-1): how many dominate the others, and them."""
        if len(which):
            s = self.slots
            count_dominators(s.live_arrays(), *s.dominators, which, lives, sign)

    def _forget(self, came: Ints) -> None:
        """Forget the rows that have k above them; without arrivals none has more than before."""
        if self.by_id or not len(came):
            return
        s, c, n = self.slots, self.slots.columns, self.slots.used
        gone = np.flatnonzero((s.dominators.above[:n] >= self.k) & (c.state[:n] != DEAD))
        if len(gone):
            c.state[gone], c.until[gone] = DEAD, IS_GONE
            self._count(gone, c.expires[gone], -1)
            c.expires[gone] = -np.inf
            s.groups["forgotten"] += len(gone)
            s.groups["spatial"] += len(gone)

    def _open(self) -> None:
        """Rows that fewer than k surely dominate are open, as soon as their distributions are known; others are not.

        What becomes known may narrow a box, which then dominates more.
        """
        s, lacking = self.slots, NO_SLOTS
        while True:
            c, n = s.columns, s.used
            is_open: Flags = (s.dominators.sure[:n] < self.k) & (c.state[:n] != DEAD)
            self.opened = np.flatnonzero(is_open)
            if s.distributed or self.fill is not None:
                lacking = self.opened[(s.uncertain.start[self.opened] == BOUNDS_ONLY).any(axis=1)]
            if not len(lacking):
                break
            self._count(lacking, c.expires[lacking], -1)
            self._fill_in(lacking)
            self._count(lacking, s.columns.expires[lacking], 1)
            self._forget(lacking)
        hidden = ~is_open & (c.state[:n] != DEAD)
        c.state[:n][hidden], c.probability[:n][hidden], c.within[:n][hidden] = DOMINATED, 0.0, 0.0
        c.until[:n][c.state[:n] != DEAD] = -np.inf

    def _judge(self, before: Ints) -> None:
        """Judge what opened, and what rows that opened, or that were open `before` and died, may dominate."""
        s, c = self.slots, self.slots.columns
        came = self.opened[c.state[self.opened] == DOMINATED]
        moved = np.concatenate((came, before[c.state[before] == DEAD]))
        if not len(moved):
            return
        due = concerned(s.live_arrays(), self.opened, moved) | (c.state[self.opened] == DOMINATED)
        s.groups["evaluations"] += judge_band(
            s.live_arrays(), self.opened[due], self.opened, self.k, self.limits, self.goal
        )

    def _look_around(self) -> None:
        """Count who lives, and find the first expiry."""
        c, n = self.slots.columns, self.slots.used
        living = c.state[:n] != DEAD
        self.slots.groups["alive"] = np.count_nonzero(living)
        self.slots.groups["soon"] = c.expires[:n][living].min(initial=np.inf)

    # --- Looks from outside -------------------------------------------------------------------------------------------

    def chances(self, which: Ints) -> tuple[Floats, Floats]:
        """Lower and upper bounds of the probabilities of rows in the slots `which`; equal, where they are exact."""
        found = chances_in_band(self.slots.live_arrays(), which, self.opened, self.k, self.limits, self.goal)
        return found[:, 0], found[:, 1]

    def fronts(self, which: Ints) -> Ints:
        """(n,) whether rows are in under every value (CERTAIN), under none (IMPOSSIBLE), or under some (OPEN).

        Fewer than k may dominate it, k surely do, or neither. What is not open need not be counted: if it may dominate
        a row, the k that surely dominate it may, and are open.
        """
        may, sure = dominators_in_band(self.slots.live_arrays(), which, self.opened).T
        return np.where(may < self.k, CERTAIN, np.where(sure >= self.k, IMPOSSIBLE, OPEN))

    def reveal(self) -> None:
        """Fill in all of which only bounds are known, to be looked at; no probability changes by it.

        A box may become narrower, and others be forgotten for it. None of those is open: what such a row surely
        dominates then, the k that surely dominate it do.
        """
        s, alive = self.slots, self.slots.alive()
        lacking = alive[(s.uncertain.start[alive] == BOUNDS_ONLY).any(axis=1)]
        self._count(lacking, s.columns.expires[lacking], -1)
        super().reveal()
        self._count(lacking, s.columns.expires[lacking], 1)
        self._forget(lacking)
        self._look_around()

    # --- Saved --------------------------------------------------------------------------------------------------------

    def finish_load(self) -> None:
        """The columns of saved rows are filled; how many dominate each is counted anew. O(live²) words."""
        s, n = self.slots, self.slots.used
        s.look_at_order()
        self._count(np.arange(n), s.columns.expires[:n], 1)
        self.opened = np.flatnonzero(s.columns.state[:n] >= OUT)
        s.columns.until[:n] = -np.inf
        self._look_around()

    # --- The invariant ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariant: counts, states and probabilities are what the rows that are there make them."""
        s, c, alive = self.slots, self.slots.columns, self.slots.alive()
        lo, hi = s.uncertain.lo[alive], s.uncertain.hi[alive]
        assert np.all(c.expires[alive] > self.now), "an expired row is still there"
        assert len(alive) == self.alive, "rows are counted wrongly"
        for o, best in zip(alive.tolist(), hi, strict=True):
            by: Flags = (lo >= best).all(axis=1) & (lo > best).any(axis=1)
            above = int(np.count_nonzero(by & (c.expires[alive] >= c.expires[o])))
            assert s.dominators.sure[o] == np.count_nonzero(by), f"{s.id[o]} has another number of dominators"
            assert s.dominators.above[o] == above, f"{s.id[o]} has another number of rows above it"
            assert self.by_id or above < self.k, f"{s.id[o]} should have been forgotten"
            assert (c.state[o] >= OUT) == (np.count_nonzero(by) < self.k), f"{s.id[o]} is open, or is not, wrongly"
        assert np.array_equal(self.opened, alive[c.state[alive] >= OUT]), "the list of open slots is wrong"
        assert not np.any(s.uncertain.start[self.opened] == BOUNDS_ONLY), "an open row has only bounds"
        low, high = self.chances(self.opened)
        middle, threshold = (low + high) / 2, self.limits.threshold
        inside = c.state[self.opened] == IN
        if threshold >= 0:
            assert np.array_equal(inside, middle > threshold), "a row is in or out, and should not be"
        else:
            assert np.array_equal(inside, self.fronts(self.opened) != IMPOSSIBLE), "at alpha 0 sure dominators decide"
        members = self.opened[inside]
        assert np.array_equal(c.probability[members], middle[inside]), "a probability has other bits worked out anew"
