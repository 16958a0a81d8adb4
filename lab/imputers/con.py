"""Constraint-based imputing: which value keeps a sensor's movement likely? (the paper's `con`)

After Zhang, Song, Wang, "Sequential Data Cleaning: A Statistical Approach" (2016): how likely a value is depends on
the speed at which the sensor must have moved to it and on how much that differs from the speed before. Both are
counted in R, per attribute over each sensor's own readings, on a grid of speeds up to the constraint (the 99.5 %
quantile); the missing value is where their product is greatest. The original repairs a whole sequence, also from what
comes after a gap; a stream cannot wait, so only the past counts here. Beyond ten ordinary intervals of silence no speed
is known, and the last value stands.

Made fast: the likeliest next speed depends on the last one alone, so it is a table, made when fitting; a tick is one
compiled walk.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Floats, Ints
from fogline.impute.imputer import Eager, Evidence
from fogline.model import Query
from lab.case import AT
from lab.imputers.fittable import evidence_of, single_values
from lab.imputers.sensor_numbers import SensorNumbers, before
from lab.kernels.sensors import Movement, SpeedModel, move_on, speed_counts

LEVELS = 101  # of speed, standing still in the middle
SILENCE = 10.0  # intervals
QUANTILE = 0.995
SMOOTH = 0.5  # added to every count: nothing is impossible


class Con(Eager):
    """See the module."""

    def __init__(self) -> None:
        super().__init__("con")

    def fit(self, history: pa.Table, query: Query) -> None:
        self.names, self.sensors = query.names, SensorNumbers()
        self.history, self.begun = history, False
        past = evidence_of(history.sort_by(AT) if AT in history.schema.names else history, self.names)
        values, codes, at = past.values, self.sensors.codes(past), self.sensors.times(past)
        horizon, width = _measure(values, codes, at)
        speeds, turns = speed_counts(values, codes, at, len(self.sensors.number), width, LEVELS, horizon)
        best = likeliest(speeds, turns) * width[:, None]
        self.model = SpeedModel(best, width, horizon, values.mean(axis=0), values.min(axis=0), values.max(axis=0))
        self.last = Movement(*(np.empty((0, len(self.names))) for _ in range(3)))

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        if not self.begun:
            self.begun = True
            self._walk(before(self.history, rows, self.names))
        return single_values(rows.missing, self._walk(rows))

    def _walk(self, rows: Evidence) -> Floats:
        """(n, d) the rows with where their sensors are by now in their gaps."""
        values, codes, at = rows.values.copy(), self.sensors.codes(rows), self.sensors.times(rows)
        self.last = Movement(*map(self.sensors.grown, self.last))
        move_on(values, codes, at, self.last, self.model)
        return values


def _measure(values: Floats, codes: Ints, at: Floats) -> tuple[float, Floats]:
    """Until when a speed is known, and how wide a level of speed is for each attribute."""
    order = np.lexsort((at, codes))
    same = codes[order][1:] == codes[order][:-1]
    passed = np.diff(at[order])
    moved = np.diff(values[order], axis=0)
    good = same & (passed > 0)
    horizon = SILENCE * float(np.median(passed[good])) if good.any() else 0.0
    good &= passed <= horizon
    if not good.any():
        return horizon, np.ones(values.shape[1])
    limit = np.quantile(np.abs(moved[good] / passed[good, None]), QUANTILE, axis=0)
    return horizon, np.where(limit > 0, limit, 1.0) / (LEVELS // 2)


def likeliest(speeds: Floats, turns: Floats) -> Floats:
    """(d, levels) the level, from the middle, that is the likeliest after each level."""
    d, levels = speeds.shape
    speed, turn = np.log(speeds + SMOOTH), np.log(turns + SMOOTH)
    level = np.arange(levels)
    change = level[None, :] - level[:, None] + levels - 1  # from row to column
    together = speed[:, None, :] + turn[:, change]
    return np.asarray(together.argmax(axis=2) - levels // 2, np.float64).reshape(d, levels)
