"""How else could the samples of R be found than through the index I_j? (For comparison: the ladder of the lab.)

`Scan` looks at every row of R, as a system without any index must. `Column` has R sorted by the determinant, of which
there may be one alone: so are all rules of the paper's Table 7. Both find what `Index` finds.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Floats, Ints
from lab.case import LabError
from lab.kernels.paper import scan

INDEX, COLUMN, SCAN = "index", "column", "scan"


class Scan:
    """Every row of R, for each question anew."""

    def __init__(self, points: Floats, then: Floats) -> None:
        """points (n, k) determinants, then (n,)."""
        self.points, self.then = points, then

    def find(self, centre: Floats, radius: Floats) -> tuple[Ints, Floats]:
        """As `Index.find`: offsets (q + 1,) and the values, ascending for each centre (q, k). O(q · n)."""
        found = [np.sort(self._then(x, radius)) for x in centre]
        return np.cumsum([0, *map(len, found)]), np.concatenate([np.empty(0), *found])

    def count(self, centre: Floats, radius: Floats) -> Ints:
        """(q,) how many rows match."""
        return np.array([len(self._then(x, radius)) for x in centre], np.int64)

    def bounds(self, centre: Floats, radius: Floats) -> tuple[Floats, Floats]:
        """(q,) the least and greatest `then` of the matching rows; NaN where none matches."""
        found = [self._then(x, radius) for x in centre]
        low, high = ([float(how(each)) if len(each) else np.nan for each in found] for how in (np.min, np.max))
        return np.array(low), np.array(high)

    def _then(self, centre: Floats, radius: Floats) -> Floats:
        """The values of the matching rows."""
        found: Floats = self.then[scan(self.points, centre, radius)]
        return found


class Column(Scan):
    """R sorted by its one determinant: two bisections for each question."""

    def __init__(self, points: Floats, then: Floats) -> None:
        if points.shape[1] != 1:
            raise LabError(
                f"a sorted column has one determinant, and the rules have {points.shape[1]}; take the index."
            )
        order = np.argsort(points[:, 0], kind="stable")
        super().__init__(points[order], then[order])
        self.line = np.ascontiguousarray(self.points[:, 0])

    def _then(self, centre: Floats, radius: Floats) -> Floats:
        """Of the rows with abs(row - x) <= radius, by that very formula: x ± radius alone may miss one by rounding."""
        x, eps = centre[0], radius[0]
        if np.isnan(x):
            return self.then
        first, last = (int(self.line.searchsorted(x + side)) for side in (-eps, eps))
        while first > 0 and abs(self.line[first - 1] - x) <= eps:
            first -= 1
        while first < len(self.line) and self.line[first] < x and abs(self.line[first] - x) > eps:
            first += 1
        while last < len(self.line) and abs(self.line[last] - x) <= eps:
            last += 1
        while last > first and abs(self.line[last - 1] - x) > eps:
            last -= 1
        return self.then[first:last]
