"""What would one do without thinking?

`mean`: the attribute's mean over R. `last`: the previous value that the same sensor sent of this attribute (before the
stream began, in R, as far as R is older), else the mean. Both are one compiled walk, or none, over the rows of a tick.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Floats
from fogline.impute.imputer import Eager, Evidence
from fogline.model import Query
from lab.case import matrix
from lab.imputers.fittable import single_values
from lab.imputers.sensor_numbers import SensorNumbers, before
from lab.kernels.sensors import carry


class MeanOfHistory(Eager):
    """The attribute's mean over R."""

    def __init__(self) -> None:
        super().__init__("mean")

    def fit(self, history: pa.Table, query: Query) -> None:
        self.mean = matrix(history, query.names).mean(axis=0)

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        return single_values(rows.missing, np.broadcast_to(self.mean, rows.missing.shape))


class LastOfSensor(Eager):
    """The sensor's previous value."""

    def __init__(self) -> None:
        super().__init__("last")

    def fit(self, history: pa.Table, query: Query) -> None:
        self.names, self.history = query.names, history
        self.mean = matrix(history, query.names).mean(axis=0)
        self.sensors: SensorNumbers | None = None

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        if self.sensors is None:
            self.sensors, self.last = SensorNumbers(), np.empty((0, len(self.names)))
            self._walk(self.sensors, before(self.history, rows, self.names))
        return single_values(rows.missing, self._walk(self.sensors, rows))

    def _walk(self, sensors: SensorNumbers, rows: Evidence) -> Floats:
        """(n, d) the rows with what their sensors sent last in their gaps."""
        values, codes = rows.values.copy(), sensors.codes(rows)
        self.last = sensors.grown(self.last)
        carry(values, codes, self.last, self.mean)
        return values
