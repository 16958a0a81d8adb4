"""How does a sensor's value change from one reading to the next?

In history, in contexts like this one (how old the last value is, how it moved before, how the other attributes move
now), which *changes* followed? The distribution is the last value plus those changes. A differential dependency with
context determinants

    sensor, age, changes of the other attributes, … -> change of temperature

in which "close" is not one radius for all, but a box that trees found for each region of contexts (`kernels/forest`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fogline.arrays import Distributions, Floats, Ints
from fogline.kernels import forest
from fogline.kernels import sensors as kernels
from fogline.kernels.forest import Forest, ValueGrid


@dataclass(frozen=True)
class Transition:
    """Of one attribute: the changes, the values it may take, and how well it did on held-out rows."""

    changes: Forest
    grid: Floats  # values of the attribute that occurred, sorted
    step: float  # how near to one of them is the same
    error: float  # mean CRPS on held-out rows …
    without: float  # … and of what rules or the whole history would give instead

    @property
    def gain(self) -> float:
        """How much of the error it takes away."""
        return 1 - self.error / self.without if self.without else 0.0

    def distributions(
        self, last: Floats, features: Floats, gaps: Ints, low: float = -np.inf, high: float = np.inf
    ) -> Distributions:
        """Distributions for readings with these last values, features and numbers of gaps. O(trees · depth) each."""
        changes = forest.ask(self.changes, features)
        start, size, value, often = forest.spread(changes, last, gaps, self._grid(low, high))
        return Distributions(start, size, value, often, np.zeros(len(last), np.int64))

    def bounds(self, last: Floats, features: Floats, gaps: Ints, low: float, high: float) -> tuple[Floats, Floats]:
        """(n,) the least and greatest value that `distributions` gives."""
        least, most = forest.ends(forest.ask(self.changes, features), gaps)
        return self._moved(last, least, low, high), self._moved(last, most, low, high)

    def rough_bounds(self, last: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """(n,) between which values `distributions` stays whatever the features; found without asking the trees."""
        least, most = (np.full(len(last), end) for end in self.extremes)
        return self._moved(last, least, low, high), self._moved(last, most, low, high)

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The changes beyond which no leaf goes."""
        return float(self.changes.kept.min()), float(self.changes.kept.max())

    def _moved(self, last: Floats, by: Floats, low: float, high: float) -> Floats:
        return np.asarray(forest.moved(last, by, self._grid(low, high)))

    def _grid(self, low: float, high: float) -> ValueGrid:
        return ValueGrid(self.grid, float(self.step), float(low), float(high))


def by_attribute(context: Floats, d: int) -> Floats:
    """(n, d, PARTS) of a context (n, width)."""
    return context[:, : d * kernels.PARTS].reshape(len(context), d, kernels.PARTS)


def features(values: Floats, context: Floats, j: int) -> Floats:
    """(n, 6 + 3 (d - 1)) what may explain the change of attribute j: values (n, d), context (n, d, PARTS)."""
    return np.asarray(kernels.features(np.ascontiguousarray(values), np.ascontiguousarray(context), j))


def grid_of(values: Floats) -> tuple[Floats, float]:
    """The values that occurred, sorted, and how far apart they usually lie.

    >>> grid, step = grid_of(np.array([0.2, 0.1, np.nan, 0.2, 0.3]))
    >>> grid.tolist(), round(step, 3)
    ([0.1, 0.2, 0.3], 0.1)
    """
    grid = np.unique(values[~np.isnan(values)])
    return grid, float(np.median(np.diff(grid))) if len(grid) > 1 else 0.0
