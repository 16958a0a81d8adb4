"""Imputing by differential dependencies, every row at once (the paper's `DD`).

Fogline's own repository and its search, but eager: each incomplete row gets its whole distribution as it comes, surely
beaten or not. Made fast by what makes Fogline fast: donors are found by bisection in sorted columns or through the
index, for all rows of a tick in one compiled call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Floats
from fogline.impute.fewer import fewer
from fogline.impute.imputer import Eager, Evidence
from fogline.model import Query
from fogline.repository.fit import VALUES
from fogline.repository.repository import Repository
from lab.imputers.fittable import gathered
from lab.imputers.once import fit_once


class DD(Eager):
    """Rules given or discovered: by the paper's method from attributes alone, or as Fogline does, with context.

    In a race like is held against like: distributions have at most as many values as Fogline's; `values` None: the
    paper's literal form, every donor's value.
    """

    def __init__(
        self,
        rules: Iterable[str] | None = None,
        *,
        method: str = "paper",
        context: bool = False,
        values: int | None = VALUES,
    ) -> None:
        kind = "DD" if values is not None else "DD-literal"
        super().__init__("DD-context" if context else kind if method == "paper" else f"DD-{method}")
        self.rules, self.method, self.context, self.values = rules, method, context, values

    def fit(self, history: pa.Table, query: Query) -> None:
        self.query = query
        known = history if self.context else history.select(list(query.names))
        if self.context and self.rules is None and self.method == "held-out":  # the only one that takes seconds
            self.repository = fit_once(known, query)
        else:
            self.repository = Repository.fit(known, query, rules=self.rules, method=self.method, values=self.values)
        self.repository = replace(self.repository, others={})  # rules alone

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        parts = []
        for j, name in enumerate(self.query.names):
            which = np.flatnonzero(rows.missing[:, j])
            if len(which):
                asked = self.repository.lattices[name].determinants
                centres = {given: self._values(rows, given)[which] for given in asked}
                found = self.repository.search(name, centres, len(which))
                parts.append((j, which, fewer(found, self.values)))
        return gathered(len(rows.values), parts)

    def _values(self, rows: Evidence, name: str) -> Floats:
        """(n,) a determinant, in the repository's terms."""
        if name in self.query.attributes:
            return rows.values[:, self.query.names.index(name)]
        return self.repository.history.columns[name].encode(rows.column(name))
