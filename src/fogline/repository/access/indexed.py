"""How are rows found through the index?

The index takes NaN in a centre for "any value will do", which is how determinants that a combination of rules does not
ask for are passed to it. A centre that lacks something it *should* have is no such question: it matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.repository.access.index import Index
from fogline.repository.access.protocol import Centres, Given, complete
from fogline.repository.history import History


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """Rows in grid cells under an R*-tree."""

    index: Index
    names: tuple[str, ...]

    def grown(self, then: str, more: History) -> IndexAccess:
        """The same with more rows, by R* insertion; the index itself is copied first."""
        index = Index.from_arrays({name: np.array(array) for name, array in self.index.arrays().items()})
        values = more.columns[then].values
        there = ~np.isnan(values)
        points = np.stack([more.columns[name].values[there] for name in self.names], axis=1)
        index.append(points, values[there])
        return IndexAccess(index, self.names)

    def describe(self) -> str:
        return f"R*-tree over {', '.join(self.names)}"

    def count(self, given: Given, centres: Centres) -> Ints:
        return np.where(complete(given, centres), self.index.count(*self._asked(given, centres)), 0)

    def bounds(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        low, high = self.index.bounds(*self._asked(given, centres))
        lacking = ~complete(given, centres)
        low[lacking], high[lacking] = np.nan, np.nan
        return low, high

    def find(self, given: Given, centres: Centres) -> tuple[Ints, Floats]:
        there = complete(given, centres)
        offsets, values = self.index.find(*self._asked(given, {name: centres[name][there] for name in given}))
        sizes = np.zeros(len(there), np.int64)
        sizes[there] = np.diff(offsets)
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))), values

    def _asked(self, given: Given, centres: Centres) -> tuple[Floats, Floats]:
        size = len(next(iter(centres.values())))
        anything = np.full(size, np.nan)
        centre = np.stack([centres[name] if name in given else anything for name in self.names], axis=1)
        return np.ascontiguousarray(centre), np.array([float(given.get(name, 0.0)) for name in self.names])
