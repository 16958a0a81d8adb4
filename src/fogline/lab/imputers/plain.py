"""What would one do without thinking?

`mean`: the attribute's mean over R. `last`: the previous value that the same sensor sent of this attribute (before the
stream began, in R, as far as R is older), else the mean. Both are one compiled walk, or none, over the rows of a tick.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.lab.case import matrix
from fogline.lab.imputers.protocol import Cells, points
from fogline.lab.imputers.sensors import Sensors
from fogline.lab.kernels import carry
from fogline.model import Query


class Mean:
    """The attribute's mean over R."""

    def fit(self, history: pa.Table, query: Query) -> None:
        self.names = query.names
        self.mean = matrix(history, query.names).mean(axis=0)

    def impute(self, rows: pa.Table) -> Cells:
        gaps = np.isnan(matrix(rows, self.names))
        return points(gaps, np.broadcast_to(self.mean, gaps.shape))


class Last:
    """The sensor's previous value."""

    def fit(self, history: pa.Table, query: Query) -> None:
        self.names, self.history = query.names, history
        self.mean = matrix(history, query.names).mean(axis=0)
        self.sensors: Sensors | None = None

    def impute(self, rows: pa.Table) -> Cells:
        if self.sensors is None:
            self._begin(rows)
        assert self.sensors is not None
        values = matrix(rows, self.names)
        gaps = np.isnan(values)
        self._walk(rows, values)
        return points(gaps, values)

    def _begin(self, rows: pa.Table) -> None:
        self.sensors = Sensors()
        self.known = np.empty((0, len(self.names)))
        past = self.sensors.before(self.history, rows)
        self._walk(past, matrix(past, self.names))

    def _walk(self, rows: pa.Table, values: Floats) -> None:
        assert self.sensors is not None
        codes = self.sensors.codes(rows)
        self.known = self.sensors.grown(self.known)
        carry(values, codes, self.known, self.mean)
