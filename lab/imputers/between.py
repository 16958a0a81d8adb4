"""What lies between a sensor's last value and its next one?

Two rivals of equal right: like Fogline with hindsight they are fed revisions. Before the sensor is read again a gap is
its last value, as with `last`; then `linear` draws a line between the two readings, and `nearest` takes the one that is
nearer in time. Both sides unknown: the mean over R. A first box spans many times the range of R, so nothing is clipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats, Revisions
from fogline.impute.imputer import Evidence, points
from fogline.kernels.sensors import AGE, LAST, PARTS
from fogline.model import Query
from lab.case import matrix

WAYS = ("linear", "nearest")
BEYOND = 100.0  # ranges of R on either side of it: no line between two readings leaves that


class Between:
    """Keeps of each attribute the last value, its age, the next value, and how much later that came."""

    lasting = True

    def __init__(self, way: str, history: pa.Table, query: Query) -> None:
        self.name, self.d = way, len(query.names)
        self.width = 4 * self.d
        past = matrix(history, query.names)
        self.mean, low, high = past.mean(axis=0), past.min(axis=0), past.max(axis=0)
        apart = BEYOND * np.maximum(high - low, 1.0)
        self.low, self.high = low - apart, high + apart

    def look(self, rows: Evidence) -> Floats:
        n = len(rows.values)
        known = np.full((n, self.d, 4), np.nan)
        if rows.context is not None:
            past = rows.context[:, : self.d * PARTS].reshape(n, self.d, PARTS)
            known[:, :, 0], known[:, :, 1] = past[:, :, LAST], past[:, :, AGE]
            known[:, :, 2:] = rows.context[:, -2 * self.d :].reshape(n, self.d, 2)
        return known.reshape(n, self.width)

    def note(self, known: Floats, revisions: Revisions) -> Floats:
        """What was read next, once."""
        out = known.copy()
        values, ages = out[:, 2::4], out[:, 3::4]
        new = np.isnan(ages) & ~np.isnan(revisions.values)
        values[new] = revisions.values[new]
        ages[new] = np.broadcast_to((revisions.time - revisions.target)[:, None], new.shape)[new]
        return out

    def first(self, known: Floats) -> Floats:
        """The last values only."""
        out = known.copy()
        out[:, 2::4] = out[:, 3::4] = np.nan
        return out

    def able(self, known: Floats, j: int) -> Flags:
        return np.ones(len(known), np.bool_)

    def open(self, known: Floats, j: int) -> Flags:
        return np.asarray(np.isnan(known[:, 4 * j + 3]))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        value = self._value(known, j)
        return value, value.copy()

    def reach(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        value, opened = self._value(known, j), self.open(known, j)
        return np.where(opened, self.low[j], value), np.where(opened, self.high[j], value)

    def distributions(self, known: Floats, j: int) -> Distributions:
        return points(self._value(known, j))

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def _value(self, known: Floats, j: int) -> Floats:
        """(n,) the value that is imputed."""
        last, age, then, later = known[:, 4 * j : 4 * j + 4].T
        whole = age + later
        if self.name == WAYS[0]:
            with np.errstate(divide="ignore", invalid="ignore"):
                between = np.where(whole > 0, last + (then - last) * (age / whole), last)
        else:
            between = np.where(later < age, then, last)
        one = np.where(np.isnan(last), then, last)  # one side, if there is only one
        value = np.where(np.isnan(last) | np.isnan(then), one, between)
        return np.asarray(np.where(np.isnan(value), self.mean[j], value))
