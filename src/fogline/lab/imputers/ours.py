"""Imputing as Fogline does by itself: by what it finds in the history, rules or sensors, and nothing else.

The same repository, the same memory and the same search that a monitor uses; every row at once. Where R also holds what
comes later (the paper's protocol), sensors are remembered from before the stream only, as with `last` and `con`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.impute.chain import Chain
from fogline.lab.case import AT, SENSOR
from fogline.lab.imputers.once import fit_once
from fogline.lab.imputers.protocol import Cells, cells_of
from fogline.lab.imputers.sensors import Sensors
from fogline.model import Query
from fogline.repository.sensors.state import SensorState
from fogline.rows.reader import Kinds, Reader


class Ours:
    """See the module. Where the set has sensors, they are what the query's id names."""

    def fit(self, history: pa.Table, query: Query) -> None:
        self.named = AT in history.schema.names
        self.alone = self.named and SENSOR not in history.schema.names
        if self.named:
            query = Query(attributes=query.attributes, id=SENSOR, time=AT, lifetime=1, alpha=query.alpha)
        self.history = self._with_sensor(history)
        self.imputer = Chain(fit_once(self.history, query), query)
        self.reader = Reader(query, self.imputer)
        self.memory: SensorState | None = None

    def impute(self, rows: pa.Table) -> Cells:
        rows = self._with_sensor(rows)
        batch = self.reader.read(rows, Kinds()).batch
        if self.imputer.sensors is not None:
            if self.memory is None:
                self.memory = self._remembered(rows)
            self.imputer.recall(self.memory, batch)
        return cells_of(self.imputer.search(batch.known, np.isnan(batch.clouds.lo)))

    def _remembered(self, rows: pa.Table) -> SensorState:
        """What the sensors said before the first of these rows; R may also hold what they say later."""
        sensors = self.imputer.sensors
        assert sensors is not None
        if pc.less_equal(pc.max(self.history.column(AT)), pc.min(rows.column(AT))).as_py():
            return sensors.state()
        memory = SensorState(len(sensors.names), sensors.longest)
        past = self.reader.read(Sensors().before(self.history, rows), Kinds()).batch
        self.imputer.recall(memory, past)
        return memory

    def _with_sensor(self, rows: pa.Table) -> pa.Table:
        return rows.append_column(SENSOR, pa.repeat("", rows.num_rows)) if self.alone else rows
