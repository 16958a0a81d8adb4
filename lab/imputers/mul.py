"""Multiple imputation: twenty draws, averaged (the paper's `mul`).

Chained equations after van Buuren (2007) and Royston (2004): every attribute has a conditional model given all the
others, here Bayesian linear regression on R with the usual uninformative prior. Twenty chains, each with its own draw
of every model's coefficients and spread, start from values of R (the attribute's prior distribution); in turn, each
missing attribute is drawn given the present values of the rest. The average of the twenty last draws, within the range
of R, is the imputed value. Where one cell of a row is missing, its first draw is already from the right distribution.

Made fast: R is complete, so the models are fitted once; the twenty chains of all rows of a tick are one array.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats
from fogline.impute.imputer import Eager, Evidence
from fogline.model import Query
from lab.case import matrix
from lab.imputers.fittable import single_values

DRAWS, STEPS = 20, 10


class Mul(Eager):
    """See the module."""

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
