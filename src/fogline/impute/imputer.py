"""How does a row with gaps become a cloud?

The repository gives, for each missing cell, the values that matching rows of history hold and how often; imputed values
never feed other imputations. Before that it gives bounds, which are often enough: a row whose box is surely beaten
needs no distribution (paper: "imputation and query processing at the same time").
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.errors import HistoryError
from fogline.kernels.clouds import ONE, VAGUE, Clouds, Floats, Ints, empty_clouds
from fogline.kernels.sorted import pour
from fogline.model import Query
from fogline.repository.repository import Found, Repository


class Imputer:
    """Fills gaps from a repository, for one query."""

    def __init__(self, repository: Repository, query: Query) -> None:
        lacking = [name for name in query.names if name not in repository.lattices]
        if lacking:
            raise HistoryError(
                f"the repository was fitted for another query: it imputes {', '.join(sorted(repository.lattices))}, "
                f"not {', '.join(lacking)}."
            )
        self.repository, self.query = repository, query
        self.names = repository.determinants
        place = {name: k for k, name in enumerate(self.names)}
        self.mine = [k for k, name in enumerate(self.names) if name in query.attributes]  # determinants that are …
        self.theirs = [query.names.index(self.names[k]) for k in self.mine]  # … attributes, and which
        self.extra = [(k, name) for k, name in enumerate(self.names) if name not in query.attributes]
        self.asked = [  # per attribute: what its rules ask for, and where that stands in `known`
            [(name, place[name]) for name in repository.lattices[each].determinants] for each in query.names
        ]
        self.signs = np.array(query.signs)

    def known(self, column: Callable[[str], pa.Array | None], clouds: Clouds) -> Floats:
        """(n, u) what the rules may ask for. Of the skyline's attributes only single, plausible values count."""
        single = np.where(clouds.start < 0, clouds.lo * self.signs + 0.0, np.nan)
        out = np.full((len(single), len(self.names)), np.nan)
        out[:, self.mine] = single[:, self.theirs]
        for k, name in self.extra:
            if (values := column(name)) is not None:
                out[:, k] = self.repository.history.columns[name].encode(values)
        return out

    def hopeless(self, clouds: Clouds) -> dict[int, str]:
        """Rows that lack an attribute of which the history knows no value at all, with that as the reason."""
        out: dict[int, str] = {}
        for j, name in enumerate(self.query.names):
            if not len(self.repository.lattices[name].values):
                reason = f"{name!r} is missing, and the repository has no value for it"
                out |= dict.fromkeys(np.flatnonzero(np.isnan(clouds.lo[:, j])).tolist(), reason)
        return out

    def bound(self, clouds: Clouds, known: Floats, gaps: NDArray[np.bool_]) -> Clouds:
        """The clouds with bounds where `gaps` (n, d) says that a cell is missing; VAGUE where they are apart."""
        lo, hi, start = clouds.lo.copy(), clouds.hi.copy(), clouds.start.copy()
        for j, rows in self.missing(gaps):
            low, high = self.repository.bounds(self.query.names[j], self.centres(j, known, rows), len(rows))
            lo[rows, j], hi[rows, j] = (low, high) if self.signs[j] > 0 else (0.0 - high, 0.0 - low)
            start[rows, j] = np.where(low == high, ONE, VAGUE)
        return clouds._replace(lo=lo, hi=hi, start=start)

    def fill(self, clouds: Clouds, known: Floats, gaps: NDArray[np.bool_]) -> Clouds:
        """The clouds with distributions where `gaps` (n, d) says that a cell is missing."""
        found: list[tuple[int, Ints, Found]] = []
        for j, rows in self.missing(gaps):
            centres = self.centres(j, known, rows)
            found.append((j, rows, self.repository.search(self.query.names[j], centres, len(rows))))
        used = len(clouds.value)
        n, d = clouds.lo.shape
        out = empty_clouds(n, d, used + sum(int(each.size.sum()) for _, _, each in found))
        for name in ("lo", "hi", "start", "size"):
            getattr(out, name)[:] = getattr(clouds, name)
        for name in ("value", "weight", "tail"):
            getattr(out, name)[:used] = getattr(clouds, name)
        for j, rows, each in found:
            used = pour(each.start, each.size, each.value, each.often, rows, j, self.signs[j], out, used)
        return out

    def missing(self, gaps: NDArray[np.bool_]) -> list[tuple[int, Ints]]:
        """Per attribute that any row lacks, the rows that lack it."""
        return [(j, rows) for j in range(gaps.shape[1]) if len(rows := np.flatnonzero(gaps[:, j]))]

    def centres(self, j: int, known: Floats, rows: Ints) -> dict[str, Floats]:
        """What the rules for attribute j ask of these rows."""
        return {name: known[rows, k] for name, k in self.asked[j]}
