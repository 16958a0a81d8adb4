"""Which values do the nearest rows of R hold?

The ten rows of R that are nearest in the attributes a row has (Euclidean, on the scaled attributes) are its donors,
with equal weights: a distribution, as the maintainers of uncertain skylines want it. Made fast by one k-d tree
(SciPy's) for each set of known attributes, grown when it is first needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fogline.lab.case import LabError, matrix
from fogline.lab.imputers.protocol import Cells
from fogline.model import Query

NEIGHBOURS = 10


class Knn:
    """See the module."""

    def __init__(self, k: int = NEIGHBOURS) -> None:
        self.k = k
        try:
            from scipy.spatial import cKDTree
        except ImportError:
            raise LabError("the imputer 'knn' needs SciPy; install scipy.") from None
        self.tree = cKDTree

    def fit(self, history: pa.Table, query: Query) -> None:
        self.names, self.past = query.names, matrix(history, query.names)
        self.k = min(self.k, len(self.past))
        self.trees: dict[bytes, Any] = {}

    def impute(self, rows: pa.Table) -> Cells:
        values = matrix(rows, self.names)
        gaps = np.isnan(values)
        row, attribute = np.nonzero(gaps)
        donors = np.empty((len(values), self.k), np.int64)
        which = np.flatnonzero(gaps.any(axis=1))
        patterns, pattern = np.unique(gaps[which], axis=0, return_inverse=True)
        for p, lacking in enumerate(patterns):
            mine = which[pattern.ravel() == p]
            donors[mine] = self._nearest(values[mine][:, ~lacking], lacking)
        value = self.past[donors[row], attribute[:, None]].ravel()
        offset = np.arange(len(row) + 1) * self.k
        return Cells(row, attribute, offset, np.ascontiguousarray(value), np.ones(len(value)))

    def _nearest(self, known: Any, lacking: Any) -> Any:
        """(n, k) rows of R."""
        if lacking.all():  # nothing is known: every so many-th row
            return np.linspace(0, len(self.past) - 1, self.k).astype(np.int64)
        key = lacking.tobytes()
        if key not in self.trees:
            self.trees[key] = self.tree(self.past[:, ~lacking])
        return self.trees[key].query(known, k=self.k)[1].reshape(len(known), self.k)
