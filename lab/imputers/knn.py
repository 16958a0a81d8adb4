"""Which values do the nearest rows of R hold?

The ten rows of R that are nearest in the attributes a row has (Euclidean, on the scaled attributes) are its donors,
with equal weights: a distribution, as the maintainers of uncertain skylines want it. Made fast by one k-d tree
(SciPy's) for each set of known attributes, grown when it is first needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.impute.imputer import Eager, Evidence, listed
from fogline.model import Query
from lab.case import LabError, matrix

NEIGHBOURS = 10


class Knn(Eager):
    """See the module."""

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
