"""Which rows can still matter, and which are in?

A cloud is forgotten for good once another one that expires no earlier surely beats it: it has probability 0 for the
rest of its life, and whatever it could beat, the other beats surely. What is left, the live set, is

- *sealed*: surely beaten by one that expires earlier. Until then it has probability 0 and changes no other;
- *out*: open, but kept at or below alpha by guards, one or several together, until the first of them expires.
  Kept out to the end of its life it is a *shadow*: never an answer, though it still counts against others;
- *in*: a member of the answer, with the sums of logarithms that are its probability.

So each cloud waits for one instant, `until`, and is looked at again only then; which clouds guard it is not kept.
That is safe because a guard leaves early only when something that lives at least as long surely beats it, and that
one then guards in its place; or because it is revised, and then what it may have guarded is judged again.

What is "surely" so is so by boxes, which hold whatever a revision may make of a distribution and never widen; so it
lasts. Probabilities, and who is in, are a matter of the present distributions.

Invariant: the open clouds are exactly those that no cloud of the window surely beats. Hence every probability is a
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
    SHARED,
    Arrivals,
    Batch,
    Floats,
    Ints,
    Limits,
    Revisions,
    Turn,
    UncertainRows,
    no_rows,
    unshared,
)
from fogline.engine import bulk as shared_work
from fogline.engine.revise import NO_SLOTS, Fill, Note, fill_within, revise
from fogline.engine.slots import PLACES, Slots
from fogline.errors import SnapshotError
from fogline.kernels import tick as tick_kernels
from fogline.kernels.bracket import Bounds, bracket
from fogline.kernels.states import DEAD, HEAVY, IN, OUT
from fogline.kernels.tick import report_changes, screen, tick
from fogline.kernels.uncertain import copy_sharing
from fogline.query import TOLERANCE

# slots, arrived, change, probability, within, raw, reason, rival
Report = tuple[Ints, Floats, Ints, Floats, Floats, Floats, Ints, Ints]
NOT_SCREENED = np.empty(0)
SHADOWED = ("max_corner", "min_corner", "guard", "joint")  # kept out for life: by Lemma 2, Lemma 3, one, several
SLACK = 64  # fewer slots than this are not worth closing gaps for
MANY = 256  # rows at once for which it pays to sort the others first
WIDTH = 1e-3  # a bracket narrower than this is narrow enough, …
WORK = 4_000_000  # … and no more is done for it: looks at a rival in a box, half a second or so


@dataclass(slots=True)
class Counts:
    """What happened so far. `spatial` and `shadowed` count rows once each, under what pruned them first."""

    spatial: int = 0  # forgotten: surely beaten by one that lives as long (Lemma 1)
    shadowed: Ints = field(default_factory=lambda: np.zeros(len(SHADOWED), np.int64))
    forgotten: int = 0
    evaluations: int = 0  # probabilities worked out over all places
    imputed: int = 0  # rows whose distributions were needed
    revised: int = 0  # live rows of which more became known

    def pruned(self) -> dict[str, int]:
        """Rows by the lemma that pruned them."""
        return {"spatial": self.spatial, **dict(zip(SHADOWED, self.shadowed.tolist(), strict=True))}


def limits_of(alpha: float, places: int) -> Limits:
    """What decides who is in; `places`: of a cloud that may be bracketed."""
    return Limits(
        threshold=alpha + TOLERANCE if alpha > 0 else -1.0,
        least=1.0 - alpha - TOLERANCE,
        tolerance=TOLERANCE,
        places=min(PLACES, places),
        many=MANY,
        exact=places,
    )


class Live:
    """The live set of one group. `step` costs O(arrivals · live) word comparisons, and little else."""

    def __init__(
        self,
        d: int,
        alpha: float,
        *,
        places: int = 1_000_000,
        known: int = 0,
        fill: Fill | None = None,
        note: Note | None = None,
        shared: UncertainRows | None = None,
    ) -> None:
        self.alpha = alpha
        self.limit = places
        self.fill = fill  # makes distributions of bounds, when it comes to that
        self.note = note  # adds to what is known of rows
        self.limits = limits_of(alpha, places)
        self.slots = self._new_slots(d, known, shared)
        self.counts = Counts()
        self.now = -np.inf
        self.alive = 0
        self.next_expiry = np.inf  # when the first live cloud expires
        self.new = 0  # slots from here on were filled at the present tick
        self.returned: tuple[Ints, UncertainRows] | None = (
            None  # the slots of rows that a revision took out, as they came again
        )
        self.settled: Callable[[float], None] | None = None  # is given the seconds that judging took: then in two calls
        self._nothing = no_rows(d)

    def _new_slots(self, d: int, known: int, shared: UncertainRows | None) -> Slots:
        return Slots(d, self.limits.places, known, shared)

    @property
    def least(self) -> float:
        """A cloud that beats another with this probability guards it."""
        return self.limits.least

    def step(self, now: float, rows: Batch | None = None, revisions: Revisions | None = None) -> Report:
        """One tick: what has expired leaves, the rows enter, live ones are revised, what that concerns is judged.

        Returns what changed. O(rows · (kept rows + live)) word comparisons for the boxes; probabilities only where
        something changed.
        """
        self._tidy()  # not later: the leave of a member that dies now is still to be reported
        self.now, self.new = float(now), self.slots.used  # an int would be another type to compile for
        self.returned = None
        went, until, origin = NO_SLOTS, NOT_SCREENED, NO_SLOTS
        if revisions is not None:
            assert self.fill is not None
            assert self.note is not None
            rows, origin, went, count = revise(self.slots, self.now, rows, revisions, self.fill, self.note)
            self.counts.revised += count
            self.returned = None if rows is None or not len(origin) else (origin, rows.uncertain)
        if rows is None:
            return self._settle(NO_SLOTS, went)
        if self.fill is not None and (rows.uncertain.start == BOUNDS_ONLY).any():
            gone, until, rows, origin = self._screen(rows, origin)
            went = np.concatenate((went, gone))
        return self._run(rows, until, NO_SLOTS, went, origin)

    def load(self, rows: Batch) -> None:
        """Give saved clouds slots, one each, in their order; the caller fills the columns, then calls `stand_up`."""
        s, which, uncertain = self.slots, np.arange(len(rows.id)), rows.uncertain
        sharing = uncertain.start == SHARED
        if sharing.any() and np.any(
            sharing & (uncertain.size != np.where(s.shared >= 0, s.lists.size[:1].sum(axis=0), -1))
        ):
            raise SnapshotError("the repository that this was saved with had other values; use the same one.")
        s.coded = len(which)  # cut points are chosen below
        s.make_room(rows)
        s.pool = copy_sharing(uncertain, which, s.uncertain, 0, s.pool, unshared(s.d), s.shared)
        s.raw[: len(which)] = rows.raw
        s.name(rows, which)
        s.columns.places[: s.used] = s.places_of(rows.uncertain)
        s.columns.within[: s.used] = 0.0
        s.recode(s.view())

    def stand_up(self, *, anew: bool) -> None:
        """The columns of saved clouds are filled. `anew`: some are to be judged; else all were when they were saved."""
        s, n = self.slots, self.slots.used
        c = s.columns
        if anew or (c.until[:n][c.state[:n] != IN] <= self.now).any():
            self.judge_due()
            return
        s.look_at_order()
        self.alive, self.next_expiry = n, float(c.expires[:n].min(initial=np.inf))

    def judge_due(self) -> None:
        """Judge the clouds that wait for it, without a tick."""
        self.slots.look_at_order()
        self._settle(NO_SLOTS, NO_SLOTS, report=False)

    def _settle(self, came: Ints, went: Ints, report: bool = True) -> Report:
        """Members' sums follow what came and what went; then the clouds no longer known to be out are judged."""
        return self._run(self._nothing, NOT_SCREENED, came, went, report=report)

    def _settled(self, came: Ints, went: Ints, report: bool, shared: bool) -> Report:
        """`_settle` after the rows have met the live set: by several threads, or timed."""
        if shared:
            return self._bracket(report, anew=shared_work.settle(self, came, went))
        began = perf_counter()
        changes = self._settle(came, went, report)
        if self.settled is not None:
            self.settled(perf_counter() - began)
        return changes

    def _run(
        self, rows: Batch, until: Floats, came: Ints, went: Ints, origin: Ints = NO_SLOTS, *, report: bool = True
    ) -> Report:
        """`tick`, again and again until nothing is left to do; see there. Nearly always that is once.

        `origin`: the slots that the rows come from, if they were there before.
        """
        s, known = self.slots, False
        shared = self.settled is None and shared_work.pays(s, len(rows.id))
        if shared and len(rows.id):
            rows, until, origin, gone = shared_work.meet(self, rows, until, origin)
            went, known = np.concatenate((went, gone)), True
        ladders = self._ladders(rows)
        while True:
            s.make_room(rows)
            judge = (rows is self._nothing or self.settled is None) and not shared
            turn = Turn(self.now, came, went, judge, self.new, report, known)
            arrivals = Arrivals(rows.uncertain, rows.arrived, rows.expires, rows.raw, until, origin)
            changes: Report
            left, met, judged, changes = tick(s.live_set(), arrivals, turn, self.limits, self.counts.shadowed, ladders)
            self._take(rows, met)
            self.alive, self.next_expiry, s.filled, room, evaluations = judged
            self.counts.evaluations += evaluations
            if left == tick_kernels.DONE:
                return changes
            rows, until, came, went, origin = self._nothing, NOT_SCREENED, NO_SLOTS, NO_SLOTS, NO_SLOTS
            known = False
            if left == tick_kernels.MET:
                return self._settled(met[1], met[2], report, shared)
            if left == tick_kernels.UNFILLED:
                rows, came, went, origin = self._again(met[3]), met[1], met[2], met[3]
            elif left == tick_kernels.ROOM:
                s.room_for_sums(room)
            elif left == tick_kernels.CROWD:
                ladders = self.limits.many
            else:
                return self._bracket(report)

    def without_dropped(self, rows: Batch, origin: Ints, which: Ints) -> tuple[Batch, Ints]:
        """The rows `which`; the others are forgotten."""
        if len(which) == len(rows.id):
            return rows, origin
        dropped = np.ones(len(rows.id), np.bool_)
        dropped[which] = False
        before = origin[dropped[: len(origin)] & (origin >= 0)]
        self.forgot(int(dropped.sum()), int(self.slots.columns.counted[before].sum()))
        return rows.part(which), origin[which] if len(origin) else origin

    def _ladders(self, rows: Batch) -> int | None:
        """From how many clouds on others are to be sorted first; None: there are not so many rows."""
        return self.limits.many if len(rows.id) >= self.limits.many else None

    def _take(self, rows: Batch, met: tuple[Any, ...]) -> None:
        """What a call of `tick` did to the slots."""
        s = self.slots
        which, _, _, _, s.pool, s.latest, forgotten, before = met
        s.name(rows, which)
        self.forgot(forgotten, before)

    def _again(self, bounds_only: Ints) -> Batch:
        """Clouds that lost their seals, on their way in again, better known."""
        rows = self.slots.again(bounds_only)
        self.slots.columns.expires[bounds_only] = -np.inf
        return self._known_better(rows)[0]

    def _screen(self, rows: Batch, origin: Ints) -> tuple[Ints, Floats, Batch, Ints]:
        """Rows with bounds only: drop the surely beaten, and fill those that no cloud surely beats now.

        Returns what was open and went, until when those left are surely beaten (nothing, where that must be looked at
        again: boxes are narrower now), the rows, and their slots of origin.
        """
        s = self.slots
        s.make_room(rows)
        arrivals = Arrivals(rows.uncertain, rows.arrived, rows.expires, rows.raw, NOT_SCREENED, origin)
        if shared_work.pays(s, len(rows.id)):
            went, which, until, needed = shared_work.screen(self, arrivals)
        else:
            went, which, until, needed = screen(s.live_set(), arrivals, self.now, self._ladders(rows))
        narrower = False
        if len(needed):
            rows, narrower = self._known_better(rows, needed)
        rows, origin = self.without_dropped(rows, origin, which)
        return went, NOT_SCREENED if narrower else until, rows, origin

    def forgot(self, rows: int, before: int) -> None:
        """So many rows were forgotten, some of which had been counted as pruned before."""
        self.counts.forgotten += rows
        self.counts.spatial += rows - before

    def _known_better(self, rows: Batch, which: Ints | None = None) -> tuple[Batch, bool]:
        """The rows with distributions in place of bounds (for some of them only); did any box become narrower?"""
        assert self.fill is not None
        gaps = rows.uncertain.start == BOUNDS_ONLY
        if which is not None:
            keep = np.zeros(len(gaps), np.bool_)
            keep[which] = True
            gaps &= keep[:, None]
        self.counts.imputed += int(np.count_nonzero(gaps.any(axis=1)))
        uncertain, narrower = fill_within(self.fill, rows.uncertain, rows.known, gaps)
        return rows._replace(uncertain=uncertain), narrower

    def _tidy(self) -> None:
        """Now and then close gaps and choose better cut points."""
        s = self.slots
        if s.used > SLACK and 2 * self.alive < s.used:
            s.compact(self.members())
        elif s.used > 4 * s.coded:
            s.recode(s.view())
        if s.filled > 2 * s.packed + 4096:
            s.pack_sums(self.members())

    def reveal(self) -> None:
        """Fill in all of which only bounds are known, to be looked at; no probability changes by it."""
        s, alive = self.slots, self.slots.alive()
        bounds_only = alive[(s.uncertain.start[alive] == BOUNDS_ONLY).any(axis=1)]
        if len(bounds_only):
            needed = self.counts.imputed
            s.columns.state[bounds_only] = DEAD
            self._run(self._again(bounds_only), NOT_SCREENED, NO_SLOTS, NO_SLOTS, bounds_only, report=False)
            self.counts.imputed = needed

    def members(self) -> Ints:
        """The slots of the answer."""
        return np.flatnonzero(self.slots.columns.state[: self.slots.used] == IN)

    def shadows(self) -> Ints:
        """The open clouds that are kept out for the rest of their lives."""
        c, n = self.slots.columns, self.slots.used
        return np.flatnonzero((c.state[:n] == OUT) & (c.until[:n] >= c.expires[:n]))

    def inexact(self) -> Ints:
        """The open clouds of which only bounds are known: members, and those kept out though alpha lies between."""
        c, n = self.slots.columns, self.slots.used
        return np.flatnonzero((c.state[:n] >= OUT) & (c.within[:n] > 0))

    def undecided(self) -> Ints:
        """Those whose bounds lie on either side of alpha: in or out, it was decided by their middle."""
        c, which = self.slots.columns, self.inexact()
        return which[np.abs(c.probability[which] - self.limits.threshold) <= c.within[which]]

    def bracket(self, o: int, among: Ints, *, until_out: bool = True) -> tuple[float, float, float]:
        """Bounds of a cloud's probability against some others, and the first expiry of those that can beat it.

        They are narrow, or as narrow as the work allowed makes them; `until_out`: or show that the cloud is out.
        """
        edge = self.limits.threshold if until_out and self.alpha > 0 else np.nan  # at alpha 0 no sum decides
        found = bracket(self.slots.live_set(), among, o, self.limit, Bounds(edge, WIDTH, WORK))
        low, high, soon = map(float, found)
        return low, high, soon

    def _bracket(self, report: bool, *, anew: bool = True) -> Report:
        """Judge the clouds of very many places, if there are any `anew`. Returns what changed."""
        s = self.slots
        if anew:
            opened = np.flatnonzero(s.columns.state[: s.used] >= OUT)
            self._judge_heavy(opened, opened[s.columns.state[opened] == HEAVY])
        there = np.arange(s.used if report else 0)
        changes: Report = report_changes(s.live_set(), there, self.new, self.limits, False)
        return changes

    def _judge_heavy(self, opened: Ints, heavy: Ints) -> None:
        """Judge clouds of very many places against all that are open, by bounds.

        A cloud whose bounds lie on either side of alpha is in if their middle is above it; see `undecided`.
        """
        s, c, threshold = self.slots, self.slots.columns, self.limits.threshold
        alike: dict[bytes, tuple[float, float, float]] = {}  # clouds of the same cells have the same bounds
        for o in heavy.tolist():
            cells = s.uncertain.lo[o].tobytes() + s.uncertain.start[o].tobytes()
            if cells not in alike:
                low, high, soon = self.bracket(o, opened)
                self.counts.evaluations += 1
                alike[cells] = low, high, min(soon, c.expires[o])  # each is a rival of the others
            else:
                low, high, soon = alike[cells]
            middle, half = (low + high) / 2, (high - low) / 2
            c.probability[o], c.within[o] = middle, half if half > TOLERANCE and high > threshold else 0.0
            c.state[o], c.until[o] = (IN, -np.inf) if middle > threshold else (OUT, soon)
