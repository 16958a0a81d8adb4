"""What does scikit-learn's IterativeImputer give?

Its default, Bayesian ridge regressions in turn, fitted to R; the stream's rows are transformed tick by tick. R is
complete, and the imputer learns only of attributes it has seen missing, so one cell in each fifth row of R is hidden
for the fit. As fast as the library is.
"""

from __future__ import annotations

import warnings
from importlib import import_module

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions
from fogline.impute.imputer import Eager, Evidence
from fogline.model import Query
from lab.case import LabError, mask, matrix
from lab.imputers.fittable import single_values

HIDDEN = 0.2


class Iterative(Eager):
    """See the module."""

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
