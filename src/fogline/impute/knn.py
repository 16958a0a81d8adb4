"""Which values do the nearest rows of history hold?

>>> import pyarrow as pa
>>> from fogline import Monitor, Query
>>> query = Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
>>> history = pa.table({"gas": [0.0, 10.0, 10.0, 10.0], "oxygen": [19.0, 19.1, 18.9, 19.2]})
>>> monitor = Monitor(query, imputer=knn(history, query, k=4))
>>> rows = [{"sensor": "a", "t": 1, "gas": 5, "oxygen": 19}, {"sensor": "b", "t": 1, "gas": None, "oxygen": 19}]
>>> monitor.advance(1, rows).column("probability").to_pylist()
[0.75]

Useful for: histories without sensors and times whose attributes move together. Not useful for: many rows a second, it
looks at all of the history (or 20,000 rows of it) for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fogline.arrays import Distributions, Flags, Floats
from fogline.errors import HistoryError
from fogline.impute.imputer import Evidence, ends, listed
from fogline.model import Query
from fogline.repository.history import read_history

MOST, SEED = 20_000, 13


def knn(history: Any, query: Query, k: int = 10) -> Neighbours:
    """The values of the `k` rows of history that are nearest in all attributes a row has, each scaled by its spread."""
    if not isinstance(k, int) or k < 1:
        raise HistoryError(f"k is {k!r}; it counts neighbours, from 1 on.")
    columns = read_history(history, query).columns
    values = np.stack([columns[name].values for name in query.names], axis=1)
    values = values[~np.isnan(values).any(axis=1)]
    if len(values) < k:
        raise HistoryError(f"the history has {len(values)} complete rows, too few for {k} neighbours.")
    if len(values) > MOST:
        values = values[np.sort(np.random.default_rng(SEED).choice(len(values), MOST, replace=False))]
    return Neighbours(values, k)


class Neighbours:
    """See `knn`. Keeps the attributes a row has. O(history · attributes) per row."""

    lasting = True

    def __init__(self, values: Floats, k: int) -> None:
        spread = values.std(axis=0)
        self.values, self.spread, self.k = values, np.where(spread > 0, spread, 1.0), k
        self.name, self.width = f"{k} nearest neighbours", values.shape[1]

    def look(self, rows: Evidence) -> Floats:
        return rows.values

    def able(self, known: Floats, j: int) -> Flags:
        return np.ones(len(known), np.bool_)

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return ends(self.distributions(known, j))

    def distributions(self, known: Floats, j: int) -> Distributions:
        out = np.empty((len(known), self.k))
        for i, row in enumerate(known):
            far = np.nansum(((self.values - row) / self.spread) ** 2, axis=1)
            out[i] = self.values[np.argpartition(far, self.k - 1)[: self.k], j]
        return listed(out)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)
