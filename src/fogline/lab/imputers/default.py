"""Imputing as Fogline does by itself: by what it finds in the history, rules or sensors, and nothing else.

The same repository, the same memory and the same search that a monitor uses; every row at once. Where R also holds what
comes later (the paper's protocol), sensors are remembered from before the stream only, as with `last` and `con`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import ONE, Batch, Clouds, Distributions, Floats, objects
from fogline.impute.chain import Chain
from fogline.impute.imputer import Eager, Evidence
from fogline.lab.case import AT, SENSOR
from fogline.lab.imputers.fittable import gathered
from fogline.lab.imputers.once import fit_once
from fogline.lab.imputers.sensor_numbers import before
from fogline.model import Query
from fogline.repository.sensors.state import SensorState


class FoglineDefault(Eager):
    """See the module. Where the set has sensors, they are what the query's id names; rows without one have the same."""

    def __init__(self) -> None:
        super().__init__("Fogline")

    def fit(self, history: pa.Table, query: Query) -> None:
        if AT in history.schema.names:
            query = Query(attributes=query.attributes, id=SENSOR, time=AT, lifetime=1, alpha=query.alpha)
            if SENSOR not in history.schema.names:
                history = history.append_column(SENSOR, pa.repeat("", history.num_rows))
        self.history, self.names = history, query.names
        self.chain = Chain(fit_once(history, query), query)
        self.memory: SensorState | None = None

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        if self.memory is None and self.chain.sensors is not None:
            self.memory = self._remembered(rows)
        found = self.chain.search(self._known(rows, self.memory), rows.missing)
        return gathered(len(rows.values), found)

    def _remembered(self, rows: Evidence) -> SensorState:
        """What the sensors sent before the first of these rows; R may also hold what they send later."""
        sensors = self.chain.sensors
        assert sensors is not None
        if pc.less_equal(pc.max(self.history.column(AT)), pc.min(rows.column(AT))).as_py():
            return sensors.state()
        memory = SensorState(len(sensors.names), sensors.longest, recent=sensors.state().recent)
        self._known(before(self.history, rows, self.names), memory)
        return memory

    def _known(self, rows: Evidence, memory: SensorState | None) -> Floats:
        """(n, width) what the chain will need of these rows; they are remembered."""
        clouds = _single(rows.values * self.chain.signs)
        known = self.chain.known(rows.column, clouds)
        if memory is not None:
            times, sensor = rows.column(AT), rows.column(SENSOR)
            assert times is not None, "the repository knows sensors, so R has times, and so has the stream"
            at = np.asarray(times.to_numpy(zero_copy_only=False), np.float64)
            names = objects([""] * len(at) if sensor is None else sensor.to_pylist())
            self.chain.recall(memory, Batch(names, at, at, rows.values, known, clouds))
        return known


def _single(values: Floats) -> Clouds:
    """Clouds of one value each, NaN where it is missing."""
    none = np.empty(0)
    return Clouds(values, values, np.full(values.shape, ONE), np.ones(values.shape, np.int64), none, none, none)
