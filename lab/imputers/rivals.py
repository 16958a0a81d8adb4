"""How do others fill gaps: the mean, the last value, `con`, `mul`, nearest neighbours, scikit-learn?

Each is written to be fast, so that a race compares ideas: what is learnt from R is learnt once, and the rows of a tick
are filled by one array operation or one compiled walk.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.impute.protocol import Eager, Evidence, listed
from fogline.query import Query
from lab.case import AT, LabError, mask, matrix
from lab.imputers.fittable import SensorNumbers, before, evidence_of, single_values
from lab.kernels.sensors import Movement, SpeedModel, carry, move_on, speed_counts


class MeanOfHistory(Eager):
    """The attribute's mean over R."""

    def __init__(self) -> None:
        super().__init__("mean")

    def fit(self, history: pa.Table, query: Query) -> None:
        self.mean = matrix(history, query.names).mean(axis=0)

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        return single_values(rows.missing, np.broadcast_to(self.mean, rows.missing.shape))


class LastOfSensor(Eager):
    """The previous value that the same sensor sent of this attribute (before the stream begins, from R, as far as R is
    older); without one, the mean over R.
    """

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


# ------------------------------------------------------------------------------------------------------------------ con


LEVELS = 101  # of speed, standing still in the middle
SILENCE = 10.0  # intervals
QUANTILE = 0.995
SMOOTH = 0.5  # added to every count: nothing is impossible


class Con(Eager):
    """Constraint-based imputing: which value keeps a sensor's movement likely? (the paper's `con`)

    After Zhang, Song, Wang, "Sequential Data Cleaning: A Statistical Approach" (2016). How likely a value is depends on
    the speed at which the sensor must have moved to it, and on how much that speed differs from the one before. Both
    are counted in R, for each attribute over each sensor's own readings, on a grid of speeds up to the constraint (the
    99.5 % quantile). The missing value is where their product is greatest.

    The original repairs a whole sequence, also from what comes after a gap; a stream cannot wait, so only the past
    counts. After ten ordinary intervals of silence no speed is known, and the last value stands. The likeliest next
    speed depends on the last one alone, so it is a table, made when fitting.
    """

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


# ------------------------------------------------------------------------------------------------------------------ mul


DRAWS, STEPS = 20, 10


class Mul(Eager):
    """Multiple imputation: twenty draws, averaged (the paper's `mul`).

    Chained equations after van Buuren (2007) and Royston (2004). Every attribute has a conditional model given all the
    others: Bayesian linear regression on R with the usual uninformative prior. Twenty chains, each with its own draw of
    every model's coefficients and spread, start from values of R. In turn, each missing attribute is drawn given the
    present values of the rest. The average of the twenty last draws, within the range of R, is the imputed value. Where
    one cell of a row is missing, its first draw already has the right distribution.

    R is complete, so the models are fitted once. The twenty chains of all rows of a tick are one array.
    """

    def __init__(self, *, seed: int = 1) -> None:
        super().__init__("mul")
        self.seed = seed

    def fit(self, history: pa.Table, query: Query) -> None:
        self.past = matrix(history, query.names)
        self.rng = np.random.default_rng([self.seed, 30])
        self.low, self.high = self.past.min(axis=0), self.past.max(axis=0)
        d = len(query.names)
        self.weights = np.zeros((d, DRAWS, d + 1))  # of a row and a one; an attribute's own is 0
        self.spread = np.empty((d, DRAWS))
        for j in range(d):
            others = [k for k in range(d) if k != j]
            self.weights[j][:, [*others, d]], self.spread[j] = self._draw_models(self.past[:, others], self.past[:, j])

    def _draw_models(self, others: Floats, then: Floats) -> tuple[Floats, Floats]:
        """(draws, others + 1) coefficients, constant last, and (draws,) standard deviations, from the posterior."""
        x = np.column_stack((others, np.ones(len(others))))
        inverse = np.linalg.pinv(x.T @ x)
        best = inverse @ (x.T @ then)
        free = max(len(then) - x.shape[1], 1)
        left = float(np.sum((then - x @ best) ** 2))
        spread = np.sqrt(left / self.rng.chisquare(free, DRAWS))
        root = np.linalg.cholesky(inverse + 1e-12 * np.eye(len(inverse)))
        return best + spread[:, None] * (self.rng.standard_normal((DRAWS, len(best))) @ root.T), spread

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        values = rows.values.copy()
        which = np.flatnonzero(rows.missing.any(axis=1))
        if len(which):
            values[which] = self._chains(values[which], rows.missing[which])
        return single_values(rows.missing, values)

    def _chains(self, values: Floats, gaps: Flags) -> Floats:
        """(n, d) rows with the averages of their chains in their gaps."""
        n, d = values.shape
        state = np.ones((DRAWS, n, d + 1))
        state[:, :, :d] = values
        start = self.past[self.rng.integers(len(self.past), size=(DRAWS, n))]
        state[:, :, :d][:, gaps] = start[:, gaps]
        lacking = [(j, np.flatnonzero(gaps[:, j])) for j in range(d) if gaps[:, j].any()]
        for _ in range(1 if gaps.sum(axis=1).max() == 1 else STEPS):
            for j, rows in lacking:
                middle = np.einsum("crk,ck->cr", state[:, rows], self.weights[j])
                noise = self.rng.standard_normal(middle.shape) * self.spread[j][:, None]
                state[:, rows, j] = np.clip(middle + noise, self.low[j], self.high[j])
        return np.asarray(state[:, :, :d].mean(axis=0))


# --------------------------------------------------------------------------------------------------- nearest neighbours


NEIGHBOURS = 10


class Knn(Eager):
    """The ten rows of R that are nearest in the attributes a row has (Euclidean, scaled attributes), with equal
    weights.

    There is one k-d tree (SciPy's) for each set of known attributes, made when it is first needed.
    """

    def __init__(self, k: int = NEIGHBOURS) -> None:
        super().__init__("knn")
        self.k = k
        try:
            from scipy.spatial import cKDTree
        except ImportError:
            raise LabError("the imputer 'knn' needs SciPy; install scipy.") from None
        self.tree = cKDTree

    def fit(self, history: pa.Table, query: Query) -> None:
        self.past = matrix(history, query.names)
        self.k = min(self.k, len(self.past))
        self.trees: dict[bytes, Any] = {}

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        missing = rows.missing
        donors = np.zeros((len(missing), self.k), np.int64)
        which = np.flatnonzero(missing.any(axis=1))
        patterns, pattern = np.unique(missing[which], axis=0, return_inverse=True)
        for p, lacking in enumerate(patterns):
            alike = which[pattern.ravel() == p]
            donors[alike] = self._nearest(rows.values[alike][:, ~lacking], lacking)
        return {j: listed(np.where(missing[:, j, None], self.past[donors, j], np.nan)) for j in range(missing.shape[1])}

    def _nearest(self, known: Floats, lacking: Flags) -> Ints:
        """(n, k) rows of R; of rows of which nothing is known (k,), every so many-th."""
        if lacking.all():
            return np.linspace(0, len(self.past) - 1, self.k).astype(np.int64)
        key = lacking.tobytes()
        if key not in self.trees:
            self.trees[key] = self.tree(self.past[:, ~lacking])
        return np.asarray(self.trees[key].query(known, k=self.k)[1], np.int64).reshape(len(known), self.k)


# --------------------------------------------------------------------------------------------------------- scikit-learn


HIDDEN = 0.2


class Iterative(Eager):
    """scikit-learn's IterativeImputer with its defaults: Bayesian ridge regressions in turn, fitted to R.

    R is complete, and the imputer learns only of attributes that it has seen missing. So for the fit one cell is hidden
    in each fifth row of R.
    """

    def __init__(self, *, seed: int = 1) -> None:
        super().__init__("iterative")
        self.seed = seed
        try:
            import_module("sklearn.experimental.enable_iterative_imputer")  # without it there is none to import
            from sklearn.impute import IterativeImputer
        except ImportError:
            raise LabError("the imputer 'iterative' is scikit-learn's; install scikit-learn.") from None
        self.model = IterativeImputer(random_state=seed)

    def fit(self, history: pa.Table, query: Query) -> None:
        past = matrix(history, query.names)
        past[mask(past, HIDDEN, 1, self.seed)] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged: ten rounds are the library's default
            self.model.fit(past)

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        values = rows.values.copy()
        which = np.flatnonzero(rows.missing.any(axis=1))
        if len(which):
            values[which] = self.model.transform(values[which])
        return single_values(rows.missing, values)
