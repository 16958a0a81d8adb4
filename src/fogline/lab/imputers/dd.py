"""Imputing by differential dependencies, every row at once (the paper's `DD`).

Fogline's own repository and its search, but eager: each incomplete row gets its whole distribution as it comes, whether
anybody surely beats it or not. Made fast by what makes Fogline fast: donors are found by bisection in sorted columns or
through the index, for all rows of a tick in one compiled call.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fogline.kernels.clouds import Floats
from fogline.lab.case import matrix
from fogline.lab.imputers.once import fit_once
from fogline.lab.imputers.protocol import Cells
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
        row, attribute, size, value, weight = [], [], [], [], []
        for j, name in enumerate(self.query.names):
            mine = np.flatnonzero(gaps[:, j])
            if not len(mine):
                continue
            centres = {given: self._known(rows, values, given, k)[mine] for given, k in self.asked[j]}
            found = self.repository.search(name, centres, len(mine))
            ends = np.cumsum(found.size)
            at = np.repeat(found.start - (ends - found.size), found.size) + np.arange(ends[-1])
            row.append(mine)
            attribute.append(np.full(len(mine), j))
            size.append(found.size)
            value.append(found.value[at])
            weight.append(found.often[at])
        if not row:
            none = np.empty(0, np.int64)
            return Cells(none, none, np.zeros(1, np.int64), np.empty(0), np.empty(0))
        offset = np.concatenate(([0], np.cumsum(np.concatenate(size))))
        return Cells(
            np.concatenate(row), np.concatenate(attribute), offset, np.concatenate(value), np.concatenate(weight)
        )

    def _determinants(self, then: str) -> tuple[str, ...]:
        return tuple(self.repository.lattices[then].determinants)

    def _known(self, rows: pa.Table, values: Floats, name: str, k: int) -> Floats:
        """A determinant's values, in the repository's terms."""
        if k >= 0:
            return values[:, k]
        return self.repository.history.columns[name].encode(rows.column(name).combine_chunks())
