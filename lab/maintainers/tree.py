"""Fogline's own live set, fed with clouds that are imputed already (the paper's `skyline_tree`).

Maintenance is meeting the newcomers, boxes against boxes; query is what the paper calls refinement: members feel what
came and went, and what is no longer known to be out is judged.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from fogline.arrays import Batch
from fogline.model import Query
from fogline.skyline.group import Group
from fogline.skyline.live import Live
from lab.maintainers.protocol import TickAnswer, TickTimes, answer_of
from lab.stopwatch import Stopwatch

PLACES = 1_000_000


class Tree:
    """See the module."""

    def __init__(self, query: Query) -> None:
        self.group = Group(len(query.names), query.alpha, None, PLACES)
        self.judging = Stopwatch()
        self.group.live.settled = self.judging.add
        self.clock, self.spent = -np.inf, TickTimes()

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        began = perf_counter()
        self.group.advance(self.clock, now, rows if len(rows.id) else None)
        self.clock = now
        took = perf_counter() - began
        query = self.judging.read()
        self.spent = TickTimes(0.0, took - query, query)
        return members(self.group.live)

    def sizes(self) -> dict[str, int]:
        live = self.group.live
        return {"kept": live.alive, "answer": len(live.members()), "evaluations": live.counts.evaluations}


def members(live: Live) -> TickAnswer:
    """The answer as the live set knows it. Not timed: it is there, and only written out."""
    slots = live.members()
    return answer_of(live.slots.id[slots].astype(np.int64), live.slots.columns.probability[slots])
