"""The whole skyline of the window, anew at every tick, by moocore.

What a user with a good Pareto library would do: compiled C on one matrix that is kept in place; nothing else is
remembered. It knows points only, so it goes with imputers that give single values; every member then has probability 1.
Equal rows do not beat each other: `keep_weakly`.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from fogline.arrays import Batch
from fogline.model import Query
from lab.case import LabError
from lab.maintainers.protocol import TickAnswer, TickTimes, answer_of

FIRST = 1024


class Recompute:
    """See the module. A tick costs O(window · log^(d-2) window), or thereabouts."""

    def __init__(self, query: Query) -> None:
        try:
            import moocore
        except ImportError:
            raise LabError("the maintainer 'moocore' needs the package moocore; install it.") from None
        self.nondominated: Any = moocore.is_nondominated
        self.spent = TickTimes()
        self.used = 0
        self.point, self.expires, self.id = np.empty((FIRST, len(query.names))), np.empty(FIRST), np.empty(FIRST, int)

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        began = perf_counter()
        if (rows.clouds.start != -1).any():
            raise LabError("moocore knows points only; take an imputer that gives single values, such as 'mean'.")
        self._drop(now)
        self._take(now, rows)
        between = perf_counter()
        here = np.empty(0, np.int64)
        if self.used:
            here = np.flatnonzero(self.nondominated(self.point[: self.used], maximise=True, keep_weakly=True))
        answer = answer_of(self.id[here], np.ones(len(here)))
        self.spent = TickTimes(0.0, between - began, perf_counter() - between)
        return answer

    def sizes(self) -> dict[str, int]:
        return {"kept": self.used}

    def _drop(self, now: float) -> None:
        """Rows that expired make room; the others move up, in their order."""
        left = np.flatnonzero(self.expires[: self.used] > now)
        if len(left) == self.used:
            return
        for column in (self.point, self.expires, self.id):
            column[: len(left)] = column[left]
        self.used = len(left)

    def _take(self, now: float, rows: Batch) -> None:
        stay = np.flatnonzero(rows.expires > now)
        end = self.used + len(stay)
        if end > len(self.id):
            size = 2 * end
            self.point = np.resize(self.point, (size, self.point.shape[1]))
            self.expires, self.id = np.resize(self.expires, size), np.resize(self.id, size)
        self.point[self.used : end] = rows.clouds.lo[stay]
        self.expires[self.used : end], self.id[self.used : end] = rows.expires[stay], rows.id[stay].astype(np.int64)
        self.used = end
