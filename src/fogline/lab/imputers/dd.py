"""Imputing by differential dependencies, every row at once (the paper's `DD`).

Fogline's own repository and its search, but eager: each incomplete row gets its whole distribution as it comes, whether
anybody surely beats it or not. Made fast by what makes Fogline fast: donors are found by bisection in sorted columns or
through the index, for all rows of a tick in one compiled call.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.lab.case import matrix
from fogline.lab.imputers.once import fit_once
from fogline.lab.imputers.protocol import Cells, cells_of
from fogline.model import Query
from fogline.repository.repository import Repository


class DD:
    """Rules given or discovered: by the paper's method from attributes alone, or as Fogline does, with context."""

    def __init__(self, rules: Iterable[str] | None = None, *, method: str = "paper", context: bool = False) -> None:
        self.rules, self.method, self.context = rules, method, context

    def fit(self, history: pa.Table, query: Query) -> None:
        self.query = query
        known = history if self.context else history.select(list(query.names))
        if self.context and self.rules is None and self.method == "held-out":  # the only one that takes seconds
            self.repository = fit_once(known, query)
        else:
            self.repository = Repository.fit(known, query, rules=self.rules, method=self.method)
        self.asked = [  # per attribute: the determinants its rules ask for; attributes by number, others by name
            [(name, query.names.index(name) if name in query.names else -1) for name in self._determinants(each)]
            for each in query.names
        ]

    def impute(self, rows: pa.Table) -> Cells:
        values = matrix(rows, self.query.names)
        gaps = np.isnan(values)
        found = []
        for j, name in enumerate(self.query.names):
            mine = np.flatnonzero(gaps[:, j])
            if len(mine):
                centres = {given: self._known(rows, values, given, k)[mine] for given, k in self.asked[j]}
                found.append((j, mine, self.repository.search(name, centres, len(mine))))
        return cells_of(found)

    def _determinants(self, then: str) -> tuple[str, ...]:
        return tuple(self.repository.lattices[then].determinants)

    def _known(self, rows: pa.Table, values: Floats, name: str, k: int) -> Floats:
        """A determinant's values, in the repository's terms."""
        if k >= 0:
            return values[:, k]
        return self.repository.history.columns[name].encode(rows.column(name).combine_chunks())
