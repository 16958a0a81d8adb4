"""Tellers that come with the package; any function like them can take their place.

>>> import pyarrow as pa
>>> from fogline import Monitor, Query
>>> query = Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
>>> def in_doubt(rows: pa.RecordBatch) -> dict:
...     return {"gas": [[(0, 1), (10, 3)]] * rows.num_rows}
>>> monitor = Monitor(query, imputer=in_doubt)
>>> rows = [{"sensor": "a", "t": 1, "gas": 5, "oxygen": 19}, {"sensor": "b", "t": 1, "gas": None, "oxygen": 19}]
>>> monitor.advance(1, rows).column("probability").to_pylist()
[0.75]

What the sensor said last, and the mean over history, need no function: they are ways to fit a repository, with
`Repository.fit(history, query, method="last")` or `method="mean"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.errors import HistoryError
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
    spread = values.std(axis=0)
    return Neighbours(query.names, values, np.where(spread > 0, spread, 1.0), k)


@dataclass(frozen=True)
class Neighbours:
    """See `knn`. O(history · attributes) per row."""

    names: tuple[str, ...]
    values: Floats
    spread: Floats
    k: int

    def __call__(self, rows: pa.RecordBatch) -> dict[str, list[list[tuple[float, float]] | None]]:
        out: dict[str, list[list[tuple[float, float]] | None]] = {name: [] for name in self.names}
        for row in self._known(rows):
            far = np.nansum(((self.values - row) / self.spread) ** 2, axis=1)
            near = np.argpartition(far, self.k - 1)[: self.k]
            for j, name in enumerate(self.names):
                out[name].append([(float(v), 1.0) for v in np.sort(self.values[near, j])] if np.isnan(row[j]) else None)
        return out

    def _known(self, rows: pa.RecordBatch) -> Floats:
        """(n, d) single values; NaN where there is none."""
        out = np.full((rows.num_rows, len(self.names)), np.nan)
        for j, name in enumerate(self.names):
            column = rows.column(name)
            if pa.types.is_list(column.type):
                pairs = column.to_pylist()
                out[:, j] = [cell[0]["value"] if cell and len(cell) == 1 else np.nan for cell in pairs]
            else:
                out[:, j] = column.to_numpy(zero_copy_only=False)
        return out
