"""Candidate lists over an uncertain sliding window (the paper's `skyline`).

After Ding, Lian, Chen, Jin, "Continuous monitoring of skylines over uncertain data streams" (2012): of the window, only
what may become an answer before it expires is a candidate, and each candidate has the list of those that can beat it;
when its list changes, its probability is worked out from the list again. Rows that are no candidates stay in the
window: they still count against others.

Nothing is left to make it slow. Lists are rows of bits. A newcomer can only lower probabilities, so it concerns members
alone, and a row that is out is looked at again only when one of its list expires. Working out begins with cheap bounds
and stops as soon as one is at or below alpha; dominance is factorised, and of very many places those that no rival
distinguishes are merged, as in Fogline. All of it is compiled.

With `forget` it also has Fogline's main idea, which is not in that paper: what another that expires no earlier surely
beats is dropped, and no probability changes by it. What then is left to Fogline: imputing late, comparing boxes by
words, knowing until when a row is out, and keeping a member's probability without working it out again.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from fogline.arrays import ONE, Batch, Clouds, Ints, empty_clouds
from fogline.kernels.clouds import copy_cells
from fogline.model import Query
from lab.kernels.candidates import (
    Admission,
    CandidateLists,
    empty_lists,
    expire_lists,
    free_slots,
    refresh_lists,
    take_rows,
)
from lab.maintainers.protocol import TickAnswer, TickTimes, answer_of, threshold_of

FIRST = 256


class Candidates:
    """See the module. A tick costs O(rows · kept) box comparisons, and the probabilities of what changed."""

    def __init__(self, query: Query, *, forget: bool = False) -> None:
        """`forget`: drop what another that expires no earlier surely beats, as Fogline does, for less to compare."""
        self.d, self.admission = len(query.names), Admission(threshold_of(query), forget)
        self.spent = TickTimes()
        self.used = self.pool = self.live = self.worked = 0
        self.clouds: Clouds = empty_clouds(FIRST, self.d, FIRST)
        self.lists: CandidateLists = empty_lists(FIRST)
        self.id = np.empty(FIRST, np.int64)

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        began = perf_counter()
        expire_lists(self.lists, self.used, now)
        if len(rows.id):
            self._take(now, rows)
        between = perf_counter()
        self.worked, inside = refresh_lists(self.clouds, self.lists, self.used, self.admission.threshold)
        answer = answer_of(self.id[inside], self.lists.probability[inside])
        self.spent = TickTimes(0.0, between - began, perf_counter() - between)
        return answer

    def sizes(self) -> dict[str, int]:
        kept = self.used - len(free_slots(self.lists, self.used))
        return {"kept": kept, "candidates": int(np.count_nonzero(self.lists.candidate)), "worked_out": self.worked}

    def _take(self, now: float, rows: Batch) -> None:
        rows = rows.part(np.flatnonzero(rows.expires > now))
        free = free_slots(self.lists, self.used)
        self._make_room(len(rows.id), len(rows.clouds.value), free)
        slots, self.used, self.pool = take_rows(
            self.clouds, self.lists, self.used, free, self.pool, rows.clouds, rows.expires, self.admission
        )
        kept = slots >= 0
        self.id[slots[kept]] = rows.id[kept].astype(np.int64)

    def _make_room(self, rows: int, values: int, free: Ints) -> None:
        """Slots and pools for so many more; values of those that are gone are squeezed out first."""
        slots = len(self.id)
        if self.used + rows > slots:
            slots = 64 * -(-max(2 * slots, self.used + rows) // 64)
        if slots == len(self.id) and self.pool + values <= len(self.clouds.value):
            return
        old, self.clouds.start[free] = self.clouds, ONE
        alive = old.start[: self.used]
        need = int(old.size[: self.used][alive >= 0].sum()) + values
        self.clouds = empty_clouds(slots, self.d, 2 * need + FIRST)
        self.pool = copy_cells(old, np.arange(self.used), self.clouds, 0, 0)
        if slots > len(self.id):
            self._more_slots(slots)

    def _more_slots(self, slots: int) -> None:
        old, self.lists = self.lists, empty_lists(slots)
        for column, before in zip(self.lists[:-1], old[:-1], strict=True):
            column[: len(before)] = before
        self.lists.rivals[: old.rivals.shape[0], : old.rivals.shape[1]] = old.rivals
        self.id = np.concatenate((self.id, np.empty(slots - len(self.id), np.int64)))
