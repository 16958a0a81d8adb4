"""Which columns of a row does an imputer ask for, in history's terms?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fogline.arrays import Floats
from fogline.impute.imputer import Evidence
from fogline.model import Query
from fogline.repository.history import Column


class Determinants:
    """Attributes of the query as they were decoded, other columns as the history would have them."""

    def __init__(self, names: Sequence[str], columns: Mapping[str, Column], query: Query) -> None:
        self.columns, self.width = columns, len(names)
        self.at = {name: k for k, name in enumerate(names)}
        self.attributes = [(k, query.names.index(name)) for name, k in self.at.items() if name in query.attributes]
        self.others = [(k, name) for name, k in self.at.items() if name not in query.attributes]

    def look(self, rows: Evidence) -> Floats:
        """(n, width) NaN where a column is missing."""
        out = np.full((len(rows.values), self.width), np.nan)
        for k, j in self.attributes:
            out[:, k] = rows.values[:, j]
        for k, name in self.others:
            if (column := rows.column(name)) is not None:
                out[:, k] = self.columns[name].encode(column)
        return out
