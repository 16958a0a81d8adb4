"""What may a missing cell be, by the other attributes of its row?

What trees over them have learnt (`repository/others.py`), for attributes that they explain better than rules do. A row
of which no other attribute is known is left to the next imputer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.impute.determinants import Determinants
from fogline.impute.imputer import Evidence, nothing, spread
from fogline.model import Query
from fogline.repository.history import Column
from fogline.repository.others import ByOthers

OTHERS = "other attributes"


class Others:
    """Keeps the determinants of a row, in history's terms, and how many attributes it lacks."""

    name, lasting = OTHERS, True

    def __init__(self, learnt: Mapping[str, ByOthers], columns: Mapping[str, Column], query: Query) -> None:
        self.learnt = [learnt.get(name) for name in query.names]
        names = dict.fromkeys(name for each in self.learnt if each is not None for name in each.given)
        self.asked = Determinants(list(names), columns, query)
        self.width = self.asked.width + 1
        self.limits = [query.limits.get(name, (-np.inf, np.inf)) for name in query.names]

    def look(self, rows: Evidence) -> Floats:
        gaps = rows.missing.sum(axis=1).astype(np.float64)
        return np.concatenate((self.asked.look(rows), gaps[:, None]), axis=1)

    def able(self, known: Floats, j: int) -> Flags:
        if self.learnt[j] is None:
            return np.zeros(len(known), np.bool_)
        return np.asarray(~np.isnan(self._given(known, j)).all(axis=1))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        low, high = np.full(len(known), np.nan), np.full(len(known), np.nan)
        able, learnt = self.able(known, j), self.learnt[j]
        if learnt is not None and able.any():
            rows = known[able]
            low[able], high[able] = (
                learnt.rough_bounds(*self.limits[j])
                if rough
                else learnt.bounds(self._given(rows, j), _gaps(rows), *self.limits[j])
            )
        return low, high

    def distributions(self, known: Floats, j: int) -> Distributions:
        able, learnt = self.able(known, j), self.learnt[j]
        if learnt is None or not able.any():
            return nothing(len(known))
        rows = known[able]
        return spread(learnt.distributions(self._given(rows, j), _gaps(rows), *self.limits[j]), able)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def _given(self, known: Floats, j: int) -> Floats:
        learnt = self.learnt[j]
        assert learnt is not None
        return known[:, [self.asked.at[name] for name in learnt.given]]


def _gaps(known: Floats) -> Ints:
    return known[:, -1].astype(np.int64)
