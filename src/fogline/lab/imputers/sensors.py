"""Whose reading is it, and which readings came before?

Sensors get numbers as they appear. Rows without a sensor column come from one sensor; rows without a time are a tick
apart from row to row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats, Ints
from fogline.lab.case import AT, SENSOR


class Sensors:
    """Numbers for names, and a clock."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.count = 0

    def codes(self, rows: pa.Table) -> Ints:
        """(n,) the sensors' numbers; new names get new ones."""
        if SENSOR not in rows.schema.names:
            self.number.setdefault("", 0)
            return np.zeros(rows.num_rows, np.int64)
        number = self.number
        return np.array([number.setdefault(name, len(number)) for name in rows.column(SENSOR).to_pylist()], np.int64)

    def times(self, rows: pa.Table) -> Floats:
        """(n,) when the readings were taken."""
        if AT in rows.schema.names:
            return np.asarray(rows.column(AT).to_numpy(), np.float64)
        self.count += rows.num_rows
        return np.arange(self.count - rows.num_rows, self.count, dtype=np.float64)

    def before(self, history: pa.Table, rows: pa.Table) -> pa.Table:
        """The rows of R that are older than the first of these, in order; none if R does not tell."""
        if AT not in history.schema.names:
            return history.slice(0, 0)
        older = history.filter(pc.less(history.column(AT), pc.min(rows.column(AT))))
        return older.sort_by(AT)

    def grown(self, memory: Floats) -> Floats:
        """The same memory (sensors, d), with a line of NaN for each new sensor."""
        more = len(self.number) - len(memory)
        return memory if not more else np.concatenate((memory, np.full((more, memory.shape[1]), np.nan)))
