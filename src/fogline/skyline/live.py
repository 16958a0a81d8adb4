"""Who can still matter, and who is in?

A cloud is forgotten for good once another one that expires no earlier surely beats it: it has probability 0 for the
rest of its life, and whatever it could beat, the other beats surely (DESIGN, fact 2). What is left, the live set, is

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

from dataclasses import dataclass

import numpy as np

from fogline.kernels.boxes import DEAD, IN, OUT, SEALED, conquer, outlived, reseal, screen
from fogline.kernels.clouds import Batch, Ints
from fogline.kernels.probability import HEAVY, bracket, corner_lemma, guards_of, judge, shift
from fogline.model import TOLERANCE
from fogline.skyline.slots import PLACES, Slots

WIDTH = 1e-3  # a bracket narrower than this is narrow enough


@dataclass(slots=True)
class Counts:
    """What happened so far. The first five count rows once each, under what pruned them first."""

    spatial: int = 0  # forgotten: surely beaten by one that lives as long (Lemma 1)
    max_corner: int = 0  # shadowed through its best corner (Lemma 2)
    min_corner: int = 0  # shadowed through its guard's worst corner (Lemma 3)
    guard: int = 0  # shadowed by a single guard that neither corner shows
    joint: int = 0  # shadowed by several guards together
    forgotten: int = 0
    evaluations: int = 0  # probabilities worked out over all places


class Live:
    """The live set of one group. `step` costs O(arrivals · live) word comparisons, and little else."""

    def __init__(self, d: int, alpha: float, *, places: int = 1_000_000) -> None:
        self.alpha = alpha
        self.threshold = alpha + TOLERANCE if alpha > 0 else -1.0  # alpha 0: whoever is open is in
        self.limit = places
        self.slots = Slots(d, min(PLACES, places))
        self.counts = Counts()
        self.now = -np.inf

    def next_expiry(self) -> float:
        """When does the first live cloud expire? (+inf: never.) O(live)."""
        s = self.slots
        return float(np.min(s.expires[: s.used], where=s.state[: s.used] > DEAD, initial=np.inf))

    def step(self, now: float, rows: Batch | None = None) -> None:
        """One tick: what has expired leaves, the rows enter, and everyone concerned is judged. See the module."""
        s, self.now = self.slots, now
        if s.used > 64 and 2 * np.count_nonzero(s.state[: s.used]) < s.used:
            s.compact(np.flatnonzero(s.state[: s.used] == IN))
        elif s.used > 4 * s.coded:
            s.recode(s.view())
        went = self.expire(now)
        came = np.empty(0, np.int64)
        if rows is not None and len(rows.id):
            came, closed = self.insert(rows)
            went = np.concatenate((went, closed))
        came = np.concatenate((came, self._unseal()))
        self._shift(came, went)
        self._judge(came)

    def expire(self, now: float) -> Ints:
        """Everything with expiry <= now leaves. Returns those that were open. O(live)."""
        s = self.slots
        gone = np.flatnonzero((s.expires[: s.used] <= now) & (s.state[: s.used] > DEAD))
        if not len(gone):
            return gone
        opened = gone[s.state[gone] >= OUT]
        s.bury(gone)
        return opened

    def insert(self, rows: Batch) -> tuple[Ints, Ints]:
        """Take rows in, unless they are surely beaten for life. Returns what opened, and what was open and is no more.

        O(rows · (kept rows + live)) word comparisons.
        """
        s = self.slots
        word_lo, word_hi = s.words_of(rows.clouds)
        lo, hi = rows.clouds.lo, rows.clouds.hi
        keep = outlived(lo, hi, rows.expires, word_lo, word_hi, s.guard, np.argsort(-lo.sum(axis=1), kind="stable"))
        if not keep.all():
            which = np.flatnonzero(keep)
            self._forget(len(keep) - len(which), spatial=len(keep) - len(which))
            rows, word_lo, word_hi = rows.part(which), word_lo[which], word_hi[which]
        until = screen(
            s.clouds, s.expires, s.word_lo, s.used, rows.clouds, rows.expires, word_lo, word_hi, s.guard
        )
        keep = until < rows.expires
        which = np.flatnonzero(keep)
        if len(which) < len(keep):
            self._forget(len(keep) - len(which), spatial=len(keep) - len(which))
            rows, word_lo, word_hi, until = rows.part(which), word_lo[which], word_hi[which], until[which]
            which = np.arange(len(which))
        died, closed = conquer(
            s.clouds, s.expires, s.until, s.state, s.word_hi, s.used, rows.clouds, rows.expires, word_lo, s.guard
        )
        self._forget(len(died), spatial=int(np.count_nonzero(~s.counted[died])))
        s.bury(died)
        new = s.append(rows, which, word_lo, word_hi)
        s.until[new] = until
        s.state[new] = np.where(until > self.now, SEALED, OUT)
        return new.start + np.flatnonzero(until <= self.now), closed

    def members(self) -> Ints:
        """The slots of the answer."""
        return np.flatnonzero(self.slots.state[: self.slots.used] == IN)

    def shadows(self) -> Ints:
        """The open clouds that are kept out for the rest of their lives."""
        s = self.slots
        return np.flatnonzero((s.state[: s.used] == OUT) & (s.until[: s.used] >= s.expires[: s.used]))

    def _forget(self, rows: int, *, spatial: int) -> None:
        self.counts.forgotten += rows
        self.counts.spatial += spatial

    def _unseal(self) -> Ints:
        """Seals that ended: beaten by somebody else for longer, or open now?"""
        s = self.slots
        woken = np.flatnonzero((s.until[: s.used] <= self.now) & (s.state[: s.used] == SEALED))
        if not len(woken):
            return woken
        until = reseal(s.clouds, s.expires, s.word_lo, s.word_hi, s.used, woken, s.guard)
        s.until[woken] = until
        opened = woken[until == -np.inf]
        s.state[opened] = OUT
        return opened

    def _shift(self, came: Ints, went: Ints) -> None:
        """Members feel who came and who went."""
        s = self.slots
        if not (len(came) or len(went)):
            return
        members = self.members()
        heavy = shift(
            s.clouds, s.word_lo, s.word_hi, s.guard, members, s.places, came, went,
            s.logs, s.zeros, s.at, s.probability, s.most_places,
        )  # fmt: skip
        s.state[heavy] = OUT  # to be judged again
        s.until[heavy] = -np.inf
        fallen = members[s.probability[members] <= self.threshold]
        s.state[fallen] = OUT
        s.until[fallen] = -np.inf

    def _judge(self, came: Ints) -> None:
        """Whoever is open and no longer known to be out is judged."""
        s = self.slots
        s.until[came] = -np.inf
        state = s.state[: s.used]
        which = np.flatnonzero((s.until[: s.used] <= self.now) & (state == OUT))
        if not len(which):
            return
        if s.sums > 4096 and s.sums > 2 * s.places[members := self.members()].sum():
            s.pack_sums(members)
        s.room_for_sums(int(s.places[which].sum()))
        opened = np.flatnonzero(state >= OUT)
        verdict, probability, until, evaluations, s.sums = judge(
            s.clouds, s.word_lo, s.word_hi, s.guard, opened, which, s.expires, s.places, self.threshold,
            s.logs, s.zeros, s.at, s.sums, s.most_places,
        )  # fmt: skip
        self.counts.evaluations += evaluations
        s.until[which], s.probability[which], s.exact[which] = until, probability, True
        s.state[which] = verdict
        for o in which[verdict == HEAVY]:
            self._bracket(int(o), opened)
        shadows = which[(s.state[which] == OUT) & (s.until[which] >= s.expires[which]) & ~s.counted[which]]
        for o in shadows:
            self._count_shadow(int(o), opened)

    def _bracket(self, o: int, opened: Ints) -> None:
        s = self.slots
        low, high, soonest = bracket(
            s.clouds, s.word_lo, s.word_hi, s.guard, opened, o, s.expires, self.threshold, self.limit, WIDTH
        )
        self.counts.evaluations += 1
        s.probability[o], s.exact[o] = (low + high) / 2, low == high
        inside = s.probability[o] > self.threshold
        s.state[o], s.until[o] = (IN, -np.inf) if inside else (OUT, soonest)

    def _count_shadow(self, o: int, opened: Ints) -> None:
        """Which lemma would have pruned it? Only guards that live as long count; without one it was several together."""
        s = self.slots
        s.counted[o] = True
        least = 1.0 - self.alpha - TOLERANCE
        lasting = opened[s.expires[opened] >= s.expires[o]]
        found = guards_of(s.clouds, s.word_lo, s.word_hi, s.guard, lasting, o, least)
        lemma = min((corner_lemma(s.clouds, g, o, least) for g in found), default=0)
        name = ("joint", "max_corner", "min_corner", "guard")[lemma]
        setattr(self.counts, name, getattr(self.counts, name) + 1)
