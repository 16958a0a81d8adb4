"""Which rows can still matter, and which are in, in each of some groups?

A row is forgotten for good once another one that expires no earlier surely dominates it: it has probability 0 for the
rest of its life, and whatever it could dominate, the other surely dominates. What is left, the live set, is

- *dominated* until a known instant: surely, by a row that expires earlier. Until then it has probability 0 and changes
  no other;
- *out*: open, but kept at or below alpha by guards, one or several together, until the first of them expires.
  Kept out to the end of its life it is a *shadow*: never an answer, though it still counts against others;
- *in*: a member of the answer, with the sums of logarithms that are its probability.

So each row waits for one instant, `until`, and is looked at again only then; which rows guard it is not kept. That is
safe because a guard leaves early only when something that lives at least as long surely dominates it, and that one then
guards in its place; or because it is revised, and then what it may have guarded is judged again.

What is "surely" so is so by boxes, which hold whatever a revision may make of a distribution and never widen; so it
lasts. Probabilities, and who is in, are a matter of the present distributions.

Invariant: the open rows are exactly those that no row of the window surely dominates. Hence every probability is a
function of the window alone, whatever the order, the batches or the restarts that led there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from fogline.arrays import (
    BOUNDS_ONLY,
    ONE,
    SHARED,
    UNFILLED,
    WENT,
    Arrivals,
    Batch,
    Flags,
    Floats,
    Ints,
    Limits,
    Revisions,
    UncertainRows,
    Work,
    no_rows,
    unshared,
)
from fogline.engine import bulk
from fogline.engine.bulk import arrivals_of
from fogline.engine.revise import Fill, Note, fill_within, revise
from fogline.engine.slots import NO_SLOTS, SUM_LIMIT, Slots, ranges
from fogline.errors import SnapshotError
from fogline.kernels import tick as kernels
from fogline.kernels.bracket import Bounds, bracket
from fogline.kernels.states import DEAD, HEAVY, IN, OUT
from fogline.kernels.uncertain import copy_sharing
from fogline.query import TOLERANCE

Changes = Any  # (n,) CHANGE
NO_INSTANTS: Floats = np.empty(0)
SHADOWED = ("max_corner", "min_corner", "guard", "joint")  # kept out for life: by Lemma 2, Lemma 3, one, several
COMPACT_FROM = 64  # fewer slots than this are not worth closing gaps for
WASTE = 2  # gaps are closed when there are so many slots for each row
EXACT_LIMIT = 1_000_000  # instances of a row; see `Limits`
MANY = 1_024  # rows to judge at once for which it pays to sort the others first, and to judge equal ones once
WIDTH = 1e-3  # a bracket narrower than this is narrow enough, …
WORK = 4_000_000  # … and no more is done for it: looks at a dominator in a box, half a second or so
COUNTED = ("spatial", "forgotten", "evaluations", "imputed", "revised")  # fields of a group's record


@dataclass(slots=True)
class Counts:
    """What happened in a group so far. `spatial` and `shadowed` count rows once each, under what pruned them first."""

    spatial: int = 0  # forgotten: surely dominated by one that lives as long (Lemma 1)
    shadowed: Ints = field(default_factory=lambda: np.zeros(len(SHADOWED), np.int64))
    forgotten: int = 0
    evaluations: int = 0  # probabilities worked out over all instances
    imputed: int = 0  # rows whose distributions were needed
    revised: int = 0  # live rows of which more became known

    def pruned(self) -> dict[str, int]:
        """Rows by the lemma that pruned them."""
        return {"spatial": self.spatial, **dict(zip(SHADOWED, self.shadowed.tolist(), strict=True))}


def limits_of(alpha: float, exact_limit: int) -> Limits:
    """What decides who is in; `exact_limit`: see `Limits`."""
    return Limits(
        threshold=alpha + TOLERANCE if alpha > 0 else -1.0,
        least=1.0 - alpha - TOLERANCE,
        tolerance=TOLERANCE,
        sum_limit=min(SUM_LIMIT, exact_limit),
        many=MANY,
        exact_limit=exact_limit,
    )


class ManyLiveSets:
    """The live sets of groups. `step` costs O(arrivals · live) word comparisons in each, and little else."""

    k = 1  # a row that so many others surely dominate has probability 0

    def __init__(
        self,
        d: int,
        alpha: float,
        *,
        groups: int = 1,
        exact_limit: int = EXACT_LIMIT,
        known: int = 0,
        fill: Fill | None = None,
        shared: UncertainRows | None = None,
    ) -> None:
        self.alpha = alpha
        self.fill = fill  # makes distributions of bounds, when it comes to that
        self.limits = limits_of(alpha, exact_limit)
        self.slots = self._new_slots(d, known, shared, groups)
        self.on_judged: Callable[[float], None] | None = None
        """For measuring: is given the seconds that judging took, which is then a call of its own."""
        self._nothing = no_rows(d)
        self._all, self._none = np.arange(groups), np.zeros(groups + 1, np.int64)  # all groups; rows of none
        self._unscreened = np.zeros(groups, np.bool_)
        self._no_arrivals = arrivals_of(self._nothing, self._none, screened=self._unscreened)

    def _new_slots(self, d: int, known: int, shared: UncertainRows | None, groups: int) -> Slots:
        return Slots(d, self.limits.sum_limit, known, shared, groups)

    # --- Ticks --------------------------------------------------------------------------------------------------------

    def step(self, which: Ints, now: Floats, rows: Batch, begin: Ints, origin: Ints = NO_SLOTS) -> Changes:
        """One tick of the groups `which`, at the instants `now` (of these groups). What has expired leaves, the rows
        enter, what that concerns is judged.

        `begin` (groups + 1,): where the rows of each group begin. `origin`: the slots that rows come from, of their
        group's own, if they were there before. Returns what changed, until the next step.
        """
        coming = arrivals_of(rows, begin, origin, screened=self._unscreened)
        if self.fill is not None and len(rows.arrived):
            bounds = kernels.rows_with_bounds(rows.uncertain.start)
            if bounds.any():
                self.slots.distributed = True
                self.slots.of.now[which] = now
                rows, coming = self._screen(rows, coming, bounds)
        return self._run(which, now, rows, coming)

    def _run(self, which: Ints, now: Floats, rows: Batch, coming: Arrivals, *, report: bool = True) -> Changes:
        """`tick`, again and again until nothing is left to do; see there. Nearly always that is once.

        `now`: of these groups; empty: they go on at the same instant. `coming`: the rows as kernels see them.
        """
        s, end, began = self.slots, 0, None
        work = Work(which, now, judge=self.on_judged is None, report=report, met=False)
        if len(self._all) == 1 and work.judge and bulk.large(len(rows.arrived)):
            s.of.now[:] = now
            rows, coming = bulk.meet(self, rows, coming)
            work = work._replace(judge=False, met=True)
        while True:
            s.distributed = s.distributed or len(rows.uncertain.value) > 0
            s.make_room(rows, coming.begin)
            most, end = kernels.tick(s.all_arrays(), coming, work, self.limits, s.changes, end, s.distributed)
            s.name(rows, work.which)
            if most == kernels.DONE:
                if began is not None and self.on_judged is not None:
                    self.on_judged(perf_counter() - began)
                return s.changes[:end]
            if most == kernels.MET:
                began = perf_counter()
            rows, coming, work = self._go_on(work, most, end)

    def _go_on(self, work: Work, most: int, end: int) -> tuple[Batch, Arrivals, Work]:
        """Do of a tick what no kernel does. Returns what a further call is to do, and with which rows.

        `most`: the greatest of what the groups have left to do; `end`: where changes end so far.
        """
        s, which = self.slots, work.which
        left = s.groups["left"][which]
        crowded = which if most == kernels.MET and self.on_judged is None else which[left == kernels.CROWD]
        heavy = [g for g in crowded.tolist() if bulk.update_answer(self, g)]
        for g in heavy + which[left == kernels.BRACKET].tolist():
            self._judge_heavy(g)
        if (grow := left == kernels.GROW).any():
            s.room_for_sums(int(s.groups["sums"][which[grow]].sum()))
            s.room_for_changes(end + int(s.groups["changes"][which[grow]].sum()))
        rows, coming = self._nothing, self._no_arrivals
        if (fill := left == kernels.FILL).any():
            rows, coming = self._again(which[fill])
        judge = work.judge or most == kernels.MET
        return rows, coming, Work(which[left != kernels.DONE], NO_INSTANTS, judge, work.report, met=False)

    def _screen(self, rows: Batch, coming: Arrivals, bounds: Flags) -> tuple[Batch, Arrivals]:
        """Rows with bounds only: drop the surely dominated, and fill those that no row surely dominates now.

        Of groups in which boxes are narrower now it is not known until when rows are surely dominated.
        """
        s, groups, origin = self.slots, self.slots.groups, coming.origin
        s.make_room(rows, coming.begin)
        group = np.repeat(self._all, np.diff(coming.begin))
        some = np.unique(group[bounds])
        if len(self._all) == 1 and bulk.large(len(rows.arrived)):
            stay, until, needed = bulk.screen(self, coming)
        else:
            stay, until, needed = kernels.screen(s.all_arrays(), coming, some)
        screened = np.zeros(len(groups), np.bool_)
        screened[some] = True
        if needed.any():
            rows, narrower = self._known_better(rows, group, needed)
            screened[narrower] = False
        if stay.all():
            return rows, arrivals_of(rows, coming.begin, origin, until, screened)
        gone = np.bincount(group[~stay], minlength=len(groups))
        groups["forgotten"] += gone
        groups["spatial"] += gone
        if len(origin):  # only one group has rows that come again
            before = origin[~stay]
            groups["spatial"] -= np.count_nonzero(s.columns.counted[before[before >= 0]])
            origin = origin[stay]
        begin = np.concatenate(([0], np.cumsum(np.bincount(group[stay], minlength=len(groups)))))
        rows = rows.part(np.flatnonzero(stay))
        return rows, arrivals_of(rows, begin, origin, until[stay], screened)

    def _known_better(self, rows: Batch, group: Ints, which: Flags) -> tuple[Batch, Ints]:
        """The rows, with distributions in place of bounds where `which`; and groups in which boxes became narrower."""
        assert self.fill is not None
        gaps = (rows.uncertain.start == BOUNDS_ONLY) & which[:, None]
        lacking = gaps.any(axis=1)
        self.slots.groups["imputed"] += np.bincount(group[lacking], minlength=len(self._all))
        uncertain, narrower = fill_within(self.fill, rows.uncertain, rows.known, gaps)
        if not narrower:
            return rows._replace(uncertain=uncertain), NO_SLOTS
        cells = gaps & ((uncertain.lo > rows.uncertain.lo) | (uncertain.hi < rows.uncertain.hi))
        return rows._replace(uncertain=uncertain), group[cells.any(axis=1)]

    def _again(self, which: Ints) -> tuple[Batch, Arrivals]:
        """The rows of these groups that are no longer surely dominated, on their way in again, better known."""
        s, groups = self.slots, self.slots.groups
        size, first = groups["unfilled"][which], groups["first"][which]
        group, own = np.repeat(which, size), s.work[UNFILLED][ranges(first, size)]
        slots = np.repeat(first, size) + own
        rows = s.again(slots)
        s.columns.expires[slots] = -np.inf
        begin = np.concatenate(([0], np.cumsum(np.bincount(group, minlength=len(groups)))))
        rows, _ = self._known_better(rows, group, np.ones(len(slots), np.bool_))
        return rows, arrivals_of(rows, begin, own)

    def _judge_heavy(self, g: int, opened: Ints | None = None) -> None:
        """Judge rows of very many instances against all that are open, by bounds.

        A row whose bounds lie on either side of alpha is in if their middle is above it; see `undecided`.
        """
        live = self.slots.live_arrays(g)
        c, cells_of, threshold = live.columns, live.uncertain, self.limits.threshold
        if opened is None:
            opened = np.flatnonzero(c.state[: live.used] >= OUT)
        alike: dict[bytes, tuple[float, float, float]] = {}  # rows of the same cells have the same bounds
        for o in opened[c.state[opened] == HEAVY].tolist():
            cells = cells_of.lo[o].tobytes() + cells_of.start[o].tobytes()
            if cells not in alike:
                low, high, soon = self.bracket(o, opened, g)
                self.slots.groups["evaluations"][g] += 1
                alike[cells] = low, high, min(soon, c.expires[o])  # each is a possible dominator of the others
            else:
                low, high, soon = alike[cells]
            middle, half = (low + high) / 2, (high - low) / 2
            c.probability[o], c.within[o] = middle, half if half > TOLERANCE and high > threshold else 0.0
            c.state[o], c.until[o] = (IN, -np.inf) if middle > threshold else (OUT, soon)

    def bracket(self, o: int, among: Ints, g: int = 0, *, until_out: bool = True) -> tuple[float, float, float]:
        """Bounds of a row's probability against some others, and the first expiry of those that can dominate it.

        They are narrow, or as narrow as the work allowed makes them; `until_out`: or show that the row is out.
        """
        edge = self.limits.threshold if until_out and self.alpha > 0 else np.nan  # at alpha 0 no sum decides
        found = bracket(self.slots.live_arrays(g), among, o, self.limits.exact_limit, Bounds(edge, WIDTH, WORK))
        low, high, soon = map(float, found)
        return low, high, soon

    # --- Groups as they are saved -------------------------------------------------------------------------------------

    def load(self, rows: Batch, sizes: Ints) -> None:
        """Give saved rows slots, in their order; the caller fills the columns, then calls `finish_load`.

        `sizes` (groups,): how many rows each group has.
        """
        s, uncertain, n = self.slots, rows.uncertain, len(rows.arrived)
        sharing = uncertain.start == SHARED
        if sharing.any() and np.any(
            sharing & (uncertain.size != np.where(s.shared >= 0, s.lists.size[:1].sum(axis=0), -1))
        ):
            raise SnapshotError("the repository that this was saved with had other values; use the same one.")
        s.coded = n  # cut points are chosen below
        s.begin_with(sizes, len(uncertain.value), rows.id.dtype)
        s.pool = copy_sharing(uncertain, np.arange(n), s.uncertain, 0, s.pool, unshared(s.d), s.shared)
        s.distributed = s.distributed or bool((uncertain.start != ONE).any())
        s.raw[:n], s.id[:n], s.known[:n] = rows.raw, rows.id, rows.known
        if rows.kept is not None:
            s.keep(slice(n), rows.kept)
        s.columns.instances[:n], s.columns.within[:n] = s.instances_of(uncertain), 0.0
        s.recode(uncertain)

    def finish_load(self) -> None:
        """What follows from the columns and sums of saved rows. Members whose sums were not saved are judged anew."""
        s = self.slots
        anew = kernels.finish_load(tuple(s.columns), s.groups, s.sums.zeros)
        if anew.any():
            self.judge_due(np.flatnonzero(anew))

    def judge_due(self, which: Ints) -> None:
        """Judge the rows of these groups that wait for it, without a tick."""
        self._run(which, NO_INSTANTS, self._nothing, self._no_arrivals, report=False)

    def sizes(self) -> dict[str, Ints]:
        """Of each group (groups,): how many rows live; are in the answer; of how many probabilities only bounds are
        known; and of how many these lie on either side of alpha, so that their middle decided."""
        s = self.slots
        members, inexact, undecided = kernels.count_answers(tuple(s.columns), s.groups, self.limits.threshold)
        return {"live": s.of.alive, "answer": members, "inexact": inexact, "undecided": undecided}


class LiveSet(ManyLiveSets):
    """The live set of one group, with what only a group of its own has: revisions, and looks from outside."""

    by_id = False  # whether each id has one current row, which may be replaced

    def __init__(
        self,
        d: int,
        alpha: float,
        *,
        exact_limit: int = EXACT_LIMIT,
        known: int = 0,
        fill: Fill | None = None,
        note: Note | None = None,
        shared: UncertainRows | None = None,
    ) -> None:
        super().__init__(d, alpha, exact_limit=exact_limit, known=known, fill=fill, shared=shared)
        self.note = note  # adds to what is known of rows
        self.returned: tuple[Ints, UncertainRows] | None = (
            None  # the slots of rows that a revision took out, as they came again
        )

    @property
    def now(self) -> float:
        """The instant of the last tick."""
        return float(self.slots.of.now[0])

    @property
    def alive(self) -> int:
        """How many rows live."""
        return int(self.slots.of.alive[0])

    @property
    def next_expiry(self) -> float:
        """When the first of them expires, or sooner."""
        return float(self.slots.of.soon[0])

    def look_at_expiries(self) -> float:
        """When the first of them expires."""
        return self.next_expiry

    @property
    def counts(self) -> Counts:
        """What happened so far."""
        record = self.slots.groups[0]
        return Counts(shadowed=self.slots.pruned[0], **{name: int(record[name]) for name in COUNTED})

    @property
    def least(self) -> float:
        """A row that dominates another with this probability guards it."""
        return self.limits.least

    def tick(self, now: float, rows: Batch | None = None, revisions: Revisions | None = None) -> Changes:
        """One tick: what has expired leaves, the rows enter, live ones are revised, what that concerns is judged.

        Returns what changed.
        """
        self.tidy()  # not later: the leave of a member that dies now is still to be reported
        s, origin, instants = self.slots, NO_SLOTS, np.array([now], np.float64)
        self.returned = None
        if revisions is not None:
            assert self.fill is not None
            assert self.note is not None
            rows, origin, went, count = revise(s, float(now), rows, revisions, self.fill, self.note)
            s.groups["revised"] += count
            s.work[WENT, : len(went)], s.groups["went"] = went, len(went)
            self.returned = None if rows is None or not len(origin) else (origin, rows.uncertain)
        if rows is None:
            return self.step(self._all, instants, self._nothing, self._none)
        return self.step(self._all, instants, rows, np.array([0, len(rows.arrived)]), origin)

    def tidy(self) -> bool:
        """Now and then close gaps and choose better cut points. Have slots got other numbers?"""
        s, used = self.slots, self.slots.used
        moves = used > COMPACT_FROM and used > WASTE * self.alive
        if moves:
            self.compact()
        elif used > 4 * s.coded:
            s.recode(s.view())
        if s.filled > 2 * s.packed + 4096:
            s.pack_sums()
        return moves

    def compact(self) -> None:
        """Close the gaps between slots: they get other numbers."""
        self.slots.compact()

    def reveal(self) -> None:
        """Fill in all of which only bounds are known, to be looked at; no probability changes by it."""
        s, alive = self.slots, self.slots.alive()
        which = alive[(s.uncertain.start[alive] == BOUNDS_ONLY).any(axis=1)]
        if len(which):
            needed = int(s.groups["imputed"][0])
            s.columns.state[which] = DEAD
            s.work[UNFILLED, : len(which)], s.groups["unfilled"] = which, len(which)
            self._run(self._all, NO_INSTANTS, *self._again(self._all), report=False)
            s.groups["imputed"] = needed

    def members(self) -> Ints:
        """The slots of the answer."""
        return np.flatnonzero(self.slots.columns.state[: self.slots.used] == IN)

    def shadows(self) -> Ints:
        """The open rows that are kept out for the rest of their lives."""
        c, n = self.slots.columns, self.slots.used
        return np.flatnonzero((c.state[:n] == OUT) & (c.until[:n] >= c.expires[:n]))

    def inexact(self) -> Ints:
        """The open rows of which only bounds are known: members, and those kept out though alpha lies between."""
        c, n = self.slots.columns, self.slots.used
        return np.flatnonzero((c.state[:n] >= OUT) & (c.within[:n] > 0))

    def undecided(self) -> Ints:
        """Those whose bounds lie on either side of alpha: in or out, it was decided by their middle."""
        c, which = self.slots.columns, self.inexact()
        return which[np.abs(c.probability[which] - self.limits.threshold) <= c.within[which]]
