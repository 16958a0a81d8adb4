"""Imputing as Fogline does by itself: by what it finds in the history, rules or sensors, and nothing else.

The same repository, the same state of sensors and the same search that a monitor uses; every row at once. Where R
also holds what comes later (the paper's protocol), sensors are remembered from before the stream only, as with `last`
and `con`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Distributions, Floats
from fogline.impute.chain import chain_of
from fogline.impute.imputer import Eager, Evidence
from fogline.lab.case import AT, SENSOR
from fogline.lab.imputers.fittable import gathered
from fogline.lab.imputers.once import fit_once
from fogline.lab.imputers.sensor_numbers import before
from fogline.model import Query
from fogline.repository.sensors.state import SensorState, sensor_names


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
        chain = chain_of(fit_once(history, query), query)
        assert chain is not None
        self.chain = chain
        self.state: SensorState | None = None

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        if self.state is None and self.chain.sensors is not None:
            self.state = self._remembered(rows)
        answers = self.chain.search(self._known(rows, self.state), rows.missing)
        return gathered(len(rows.values), ((each.attribute, each.rows, each.found) for each in answers))

    def _remembered(self, rows: Evidence) -> SensorState:
        """What the sensors sent before the first of these rows; R may also hold what they send later."""
        sensors = self.chain.sensors
        assert sensors is not None
        if pc.less_equal(pc.max(self.history.column(AT)), pc.min(rows.column(AT))).as_py():
            return sensors.state()
        state = sensors.empty_state()
        self._known(before(self.history, rows, self.names), state)
        return state

    def _known(self, rows: Evidence, state: SensorState | None) -> Floats:
        """(n, width) what the chain keeps of these rows; they join the state."""
        if state is None:
            return self.chain.evidence(rows)
        times, sensor = rows.column(AT), rows.column(SENSOR)
        assert times is not None, "the repository knows sensors, so R has times, and so has the stream"
        at = np.asarray(times.to_numpy(zero_copy_only=False), np.float64)
        names = sensor_names([""] * len(at) if sensor is None else sensor.to_pylist())
        context = self.chain.contexts(state, names, at, rows.values, np.asarray(rows.missing.any(axis=1)))
        return self.chain.evidence(Evidence(rows.values, rows.missing, rows.source, rows.which, context))
