"""Constraint-based imputing: which value keeps a sensor's movement likely? (the paper's `con`)

After Zhang, Song, Wang, "Sequential Data Cleaning: A Statistical Approach" (2016): how likely a value is, is told by
the speed at which the sensor must have moved to it and by how much that differs from the speed before. Both are
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

from fogline.arrays import Floats, Ints
from fogline.lab.case import AT, matrix
from fogline.lab.imputers.protocol import Cells, points
from fogline.lab.imputers.sensors import Sensors
from fogline.lab.kernels import speed_counts, steer
from fogline.model import Query

LEVELS = 101  # speeds told apart, standing still in the middle
SILENCE = 10.0  # intervals
QUANTILE = 0.995
SMOOTH = 0.5  # added to every count: nothing is impossible


class Con:
    """See the module."""

    def fit(self, history: pa.Table, query: Query) -> None:
        self.names, self.sensors = query.names, Sensors()
        self.history, self.begun = history, False
        if AT in history.schema.names:
            history = history.sort_by(AT)
        values, codes, at = matrix(history, self.names), self.sensors.codes(history), self.sensors.times(history)
        self.mean, self.low, self.high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
        self.horizon, self.width = _measure(values, codes, at)
        speeds, turns = speed_counts(values, codes, at, len(self.sensors.number), self.width, LEVELS, self.horizon)
        self.best = likeliest(speeds, turns) * self.width[:, None]
        self.known, self.when, self.speed = (np.empty((0, len(self.names))) for _ in range(3))

    def impute(self, rows: pa.Table) -> Cells:
        if not self.begun:
            self.begun = True
            past = self.sensors.before(self.history, rows)
            self._walk(past, matrix(past, self.names))
        values = matrix(rows, self.names)
        gaps = np.isnan(values)
        self._walk(rows, values)
        return points(gaps, values)

    def _walk(self, rows: pa.Table, values: Floats) -> None:
        codes, at = self.sensors.codes(rows), self.sensors.times(rows)
        self.known, self.when, self.speed = map(self.sensors.grown, (self.known, self.when, self.speed))
        steer(
            values, codes, at, self.known, self.when, self.speed, self.best, self.width, self.mean, self.low, self.high,
            self.horizon,
        )  # fmt: skip


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
