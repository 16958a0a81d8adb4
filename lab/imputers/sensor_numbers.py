"""Whose reading is it, and which readings came before?

Sensors get numbers as they appear. Rows without a sensor column come from one sensor; rows without a time are a tick
apart from row to row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats, Ints
from fogline.impute.imputer import Evidence
from fogline.repository.sensors.state import Name, sensor_names
from lab.case import AT, SENSOR
from lab.imputers.fittable import evidence_of


class SensorNumbers:
    """Numbers for names, and a clock."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.count = 0

    def codes(self, rows: Evidence) -> Ints:
        """(n,) the sensors' numbers; new names get new ones."""
        names = rows.column(SENSOR)
        if names is None:
            self.number.setdefault("", 0)
            return np.zeros(len(rows.values), np.int64)
        number = self.number
        return np.array([number.setdefault(name, len(number)) for name in names.to_pylist()], np.int64)

    def times(self, rows: Evidence) -> Floats:
        """(n,) when the readings were taken."""
        if (at := rows.column(AT)) is not None:
            return np.asarray(at.to_numpy(zero_copy_only=False), np.float64)
        first, self.count = self.count, self.count + len(rows.values)
        return np.arange(first, self.count, dtype=np.float64)

    def grown(self, memory: Floats) -> Floats:
        """The same memory (sensors, d), with a line of NaN for each new sensor."""
        more = len(self.number) - len(memory)
        return memory if not more else np.concatenate((memory, np.full((more, memory.shape[1]), np.nan)))


def names_of(rows: Evidence) -> list[Name]:
    """What the state of sensors calls them."""
    names = rows.column(SENSOR)
    return sensor_names([""] * len(rows.values) if names is None else names.to_pylist())


def times_of(rows: Evidence) -> Floats:
    """(n,) when readings were taken, of rows that have a time."""
    at = rows.column(AT)
    assert at is not None, "sensors are remembered only where R has times, and then the stream has"
    return np.asarray(at.to_numpy(zero_copy_only=False), np.float64)


def before(history: pa.Table, rows: Evidence, names: tuple[str, ...]) -> Evidence:
    """The rows of R that are older than the first of these, in order; none if R has no times."""
    if AT not in history.schema.names:
        return evidence_of(history.slice(0, 0), names)
    older = history.filter(pc.less(history.column(AT), pc.min(rows.column(AT))))
    return evidence_of(older.sort_by(AT), names)
