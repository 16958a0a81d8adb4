"""Fogline's own live set, fed with clouds that are imputed already (the paper's `skyline_tree`).

Maintenance is meeting the newcomers, boxes against boxes; query is what the paper calls refinement: members feel who
came and went, and whoever is no longer known to be out is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from fogline.arrays import Batch
from fogline.lab.maintainers.protocol import Answer, Spent, answer_of
from fogline.model import Query
from fogline.skyline.group import Group
from fogline.skyline.live import Live

PLACES = 1_000_000


class Stopwatch:
    """Seconds spent in some functions since it was last read."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += perf_counter() - began

        return timed

    def read(self) -> float:
        """The seconds, and back to zero."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class Tree:
    """See the module."""

    def __init__(self, query: Query) -> None:
        self.group = Group(len(query.names), query.alpha, None, PLACES)
        self.query = Stopwatch()
        self.group.live.in_stages = True
        self.group.live._settle = self.query.around(self.group.live._settle)  # type: ignore[method-assign]
        self.clock, self.spent = -np.inf, Spent()

    def advance(self, now: float, rows: Batch) -> Answer:
        began = perf_counter()
        self.group.advance(self.clock, now, rows if len(rows.id) else None)
        self.clock = now
        took = perf_counter() - began
        query = self.query.read()
        self.spent = Spent(0.0, took - query, query)
        return members(self.group.live)

    def sizes(self) -> dict[str, int]:
        live = self.group.live
        return {"kept": live.alive, "answer": len(live.members()), "evaluations": live.counts.evaluations}


def members(live: Live) -> Answer:
    """The answer as the live set knows it. Nobody's time: it is there, and only written out."""
    who = live.members()
    return answer_of(live.slots.id[who].astype(np.int64), live.slots.columns.probability[who])
