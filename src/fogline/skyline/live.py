"""Who can still matter, and who is in?

A cloud is forgotten for good once another one that expires no earlier surely beats it: it has probability 0 for the
rest of its life, and whatever it could beat, the other beats surely. What is left, the live set, is

- *sealed*: surely beaten by one that expires earlier. Until then it has probability 0 and changes no other;
- *out*: open, but kept at or below alpha by guards, one or several together, until the first of them expires.
  Kept out to the end of its life it is a *shadow*: never an answer, though it still counts against others;
- *in*: a member of the answer, with the sums of logarithms that are its probability.

So each cloud waits for one instant, `until`, and is looked at again only then; nobody remembers who its guards are.
That is safe because a guard leaves early only when something that lives at least as long surely beats it, and that
one then guards in its place.

Invariant: the open clouds are exactly those that no cloud of the window surely beats. Hence every probability is a
function of the window alone, whatever the order, the batches or the restarts that led there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import VAGUE, Batch, Clouds, Floats, Ints, no_rows
from fogline.kernels.boxes import DEAD, IN, OUT, is_vague, meet, screen
from fogline.kernels.bracket import bracket
from fogline.kernels.clouds import copy_cells
from fogline.kernels.probability import HEAVY, judge, settle
from fogline.model import TOLERANCE
from fogline.skyline.slots import PLACES, Slots

Fill = Callable[[Clouds, Floats, NDArray[np.bool_]], Clouds]  # clouds, what is known of their rows, which cells to fill
NOBODY = np.empty(0, np.int64)
NEVER = np.empty(0)
SHADOWED = ("max_corner", "min_corner", "guard", "joint")  # kept out for life: by Lemma 2, Lemma 3, one, several
SLACK = 64  # fewer slots than this are not worth closing gaps for
MANY = 256  # rows at once for which it pays to sort the others first
WIDTH = 1e-3  # a bracket narrower than this is narrow enough


@dataclass(slots=True)
class Counts:
    """What happened so far. `spatial` and `shadowed` count rows once each, under what pruned them first."""

    spatial: int = 0  # forgotten: surely beaten by one that lives as long (Lemma 1)
    shadowed: Ints = field(default_factory=lambda: np.zeros(len(SHADOWED), np.int64))
    forgotten: int = 0
    evaluations: int = 0  # probabilities worked out over all places
    imputed: int = 0  # rows whose distributions were needed

    def pruned(self) -> dict[str, int]:
        """Rows by the lemma that pruned them."""
        return {"spatial": self.spatial, **dict(zip(SHADOWED, self.shadowed.tolist(), strict=True))}


class Live:
    """The live set of one group. `step` costs O(arrivals · live) word comparisons, and little else."""

    def __init__(
        self, d: int, alpha: float, *, places: int = 1_000_000, known: int = 0, fill: Fill | None = None
    ) -> None:
        self.alpha = alpha
        self.threshold = alpha + TOLERANCE if alpha > 0 else -1.0  # alpha 0: whoever is open is in
        self.edge = self.threshold if alpha > 0 else np.nan  # what a bracket must exclude; at alpha 0 only narrow it
        self.least = 1.0 - alpha - TOLERANCE  # who beats it this likely guards a cloud
        self.limit = places
        self.many = MANY
        self.fill = fill  # makes distributions of bounds, when it comes to that
        self.slots = Slots(d, min(PLACES, places), known)
        self.counts = Counts()
        self.now = -np.inf
        self.alive = 0
        self.next_expiry = np.inf  # when the first live cloud expires
        self.settled: Callable[[float], None] | None = None  # is given the seconds that each tick's judging took
        self._nothing = no_rows(d)

    def step(self, now: float, rows: Batch | None = None) -> None:
        """One tick: what has expired leaves, the rows enter, and everyone concerned is judged. See the module.

        O(rows · (kept rows + live)) word comparisons for the boxes; probabilities only where something changed.
        """
        self._tidy()  # not later: the leave of a member that dies now is still to be reported
        self.now = now
        came, went = self._meet(self._nothing if rows is None else rows)
        began = perf_counter()
        self._settle(came, went)
        if self.settled is not None:
            self.settled(perf_counter() - began)

    def insert(self, now: float, rows: Batch) -> None:
        """A tick at which rows arrive."""
        self.step(now, rows)

    def expire(self, now: float) -> None:
        """A tick at which something only expires."""
        self.step(now)

    def load(self, rows: Batch) -> None:
        """Give saved clouds slots, one each, in their order; the caller fills the columns, then calls `wake`."""
        s, which = self.slots, np.arange(len(rows.id))
        s.make_room(rows)
        s.pool = copy_cells(rows.clouds, which, s.clouds, 0, 0)
        s.name(rows, which)
        s.columns.places[: s.used] = s.places_of(rows.clouds)
        s.columns.exact[: s.used] = True
        s.recode(s.view())

    def wake(self) -> None:
        """Judge those who wait for it, without a tick."""
        self.slots.look_at_order()
        self._settle(NOBODY, NOBODY)

    def _meet(self, rows: Batch) -> tuple[Ints, Ints]:
        """Boxes first: they settle most rows for good. Returns who opened, and who was open and is no more."""
        early, sealed = NOBODY, NEVER
        if self.fill is not None and len(rows.id) and (rows.clouds.start == VAGUE).any():
            early, sealed, rows = self._screen(rows)
        came, went, vague = self._meet_boxes(rows, sealed)
        went = np.concatenate((early, went)) if len(early) else went
        if len(vague):  # they come again, better known
            again = self.slots.again(vague)
            self.slots.columns.expires[vague] = -np.inf
            more, less = self._meet(self._known_better(again))
            came, went = np.concatenate((came, more)), np.concatenate((went, less))
        return came, went

    def _meet_boxes(self, rows: Batch, sealed: Floats) -> tuple[Ints, Ints, Ints]:
        s = self.slots
        s.make_room(rows)
        which, s.pool, s.latest, came, went, vague, forgotten, before = meet(
            s.clouds, s.columns, s.used, s.pool, s.latest, self.now, rows.clouds, rows.arrived, rows.expires, sealed,
            s.cuts, s.fence, s.most_places, self.many,
        )  # fmt: skip
        s.name(rows, which)
        self.counts.forgotten += forgotten
        self.counts.spatial += forgotten - before
        return came, went, vague

    def _screen(self, rows: Batch) -> tuple[Ints, Floats, Batch]:
        """Rows with bounds only: drop the surely beaten, and fill those that nobody surely beats now."""
        s = self.slots
        s.make_room(rows)
        went, which, until, needed = screen(
            s.clouds, s.columns, s.used, s.latest, self.now, rows.clouds, rows.expires, s.cuts, s.fence, self.many
        )
        self.counts.forgotten += len(rows.id) - len(which)
        self.counts.spatial += len(rows.id) - len(which)
        if len(needed):
            rows = self._known_better(rows, needed)
        return went, until, rows if len(which) == len(rows.id) else rows.part(which)

    def _known_better(self, rows: Batch, which: Ints | None = None) -> Batch:
        """The rows with distributions in place of bounds (for some of them only)."""
        assert self.fill is not None
        gaps = rows.clouds.start == VAGUE
        if which is not None:
            keep = np.zeros(len(gaps), np.bool_)
            keep[which] = True
            gaps &= keep[:, None]
        self.counts.imputed += int(np.count_nonzero(gaps.any(axis=1)))
        return rows._replace(clouds=self.fill(rows.clouds, rows.known, gaps))

    def _settle(self, came: Ints, went: Ints) -> None:
        """Members feel who came and who went; then whoever is no longer known to be out is judged."""
        s = self.slots
        due, opened, room, self.alive, self.next_expiry = settle(
            s.clouds, s.columns, s.used, s.fence, came, went, s.logs, s.zeros, self.threshold, s.most_places, self.now
        )
        if len(due):
            s.room_for_sums(room)
            self._judge(due, opened)

    def _tidy(self) -> None:
        """Now and then close gaps and choose better cut points."""
        s = self.slots
        if s.used > SLACK and 2 * self.alive < s.used:
            s.compact(self.members())
        elif s.used > 4 * s.coded:
            s.recode(s.view())
        if s.sums > 2 * s.packed + 4096:
            s.pack_sums(self.members())

    def reveal(self) -> None:
        """Fill in all of which only bounds are known, to be looked at; no probability changes by it."""
        s = self.slots
        vague = np.array([c for c in s.alive() if is_vague(s.clouds, c)], np.int64)
        if len(vague):
            needed, again = self.counts.imputed, s.again(vague)
            s.columns.state[vague], s.columns.expires[vague] = DEAD, -np.inf
            self._settle(*self._meet(self._known_better(again)))
            self.counts.imputed = needed

    def members(self) -> Ints:
        """The slots of the answer."""
        return np.flatnonzero(self.slots.columns.state[: self.slots.used] == IN)

    def shadows(self) -> Ints:
        """The open clouds that are kept out for the rest of their lives."""
        c, n = self.slots.columns, self.slots.used
        return np.flatnonzero((c.state[:n] == OUT) & (c.until[:n] >= c.expires[:n]))

    def _judge(self, due: Ints, opened: Ints) -> None:
        """Those of whom it is no longer known that they are out."""
        s, c = self.slots, self.slots.columns
        evaluations, heavy, s.sums = judge(
            s.clouds,
            c,
            s.fence,
            opened,
            due,
            self.threshold,
            self.least,
            self.counts.shadowed,
            s.logs,
            s.zeros,
            s.sums,
            s.most_places,
            self.many,
        )
        self.counts.evaluations += evaluations
        if heavy:
            for o in due[c.state[due] == HEAVY]:
                self._bracket(int(o), opened)

    def _bracket(self, o: int, opened: Ints) -> None:
        s, c = self.slots, self.slots.columns
        low, high, soon = bracket(s.clouds, c, s.fence, opened, o, self.edge, self.limit, WIDTH)
        self.counts.evaluations += 1
        c.probability[o], c.exact[o] = (low + high) / 2, low == high
        inside = c.probability[o] > self.threshold
        c.state[o], c.until[o] = (IN, -np.inf) if inside else (OUT, soon)
