"""Imputing as Fogline does by itself: by what it finds in the history, rules or habits, and nothing else.

The same repository, the same memory and the same search that a monitor uses; every row at once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.impute.imputer import Imputer
from fogline.impute.rows import Kinds, Reader
from fogline.lab.case import AT, SENSOR
from fogline.lab.imputers.protocol import Cells
from fogline.model import Query
from fogline.repository.repository import Repository


class Ours:
    """See the module. Where the set has sensors, they are what the query's id names."""

    def fit(self, history: pa.Table, query: Query) -> None:
        self.named = AT in history.schema.names
        self.alone = self.named and SENSOR not in history.schema.names
        if self.named:
            query = Query(attributes=query.attributes, id=SENSOR, time=AT, lifetime=1, alpha=query.alpha)
        repository = Repository.fit(self._with_sensor(history), query)
        self.imputer = Imputer(repository, query)
        self.reader = Reader(query, self.imputer)
        self.memory = None if repository.habits is None else repository.habits.memory()

    def impute(self, rows: pa.Table) -> Cells:
        batch = self.reader.read(self._with_sensor(rows), Kinds()).batch
        if self.memory is not None:
            self.imputer.recall(self.memory, batch)
        none = np.empty(0, np.int64)
        row, attribute, size, value, weight = [none], [none], [none], [np.empty(0)], [np.empty(0)]
        for j, which, found in self.imputer.search(batch.known, np.isnan(batch.clouds.lo)):
            ends = np.cumsum(found.size)
            at = np.repeat(found.start - (ends - found.size), found.size) + np.arange(ends[-1])
            row.append(which)
            attribute.append(np.full(len(which), j))
            size.append(found.size)
            value.append(found.value[at])
            weight.append(found.often[at])
        offset = np.concatenate(([0], np.cumsum(np.concatenate(size))))
        return Cells(
            np.concatenate(row), np.concatenate(attribute), offset, np.concatenate(value), np.concatenate(weight)
        )

    def _with_sensor(self, rows: pa.Table) -> pa.Table:
        return rows.append_column(SENSOR, pa.repeat("", rows.num_rows)) if self.alone else rows
