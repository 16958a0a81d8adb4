"""Where does a row lie in the index?

Settled when the first rows come: the grid begins at their least values, and what they lack stands outside their range.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints

MISSING = np.iinfo(np.int64).min  # the grid coordinate of a missing determinant
FAR = 2.0**62  # grid coordinates stop here: beyond it cells are as wide as they need to be


class Space(NamedTuple):
    """The grid over k determinants."""

    origin: Floats  # (k,)
    side: Floats  # (k,) of a cell
    scale: Floats  # (k,) extent of the data, positive

    @classmethod
    def around(cls, points: Floats, side: Floats) -> Space:
        """A grid for these rows (n, k), NaN = missing."""
        absent = np.isnan(points)
        lo = np.where(absent, np.inf, points).min(axis=0, initial=np.inf)
        hi = np.where(absent, -np.inf, points).max(axis=0, initial=-np.inf)
        lo, hi = np.where(lo <= hi, lo, 0.0), np.where(lo <= hi, hi, 0.0)
        with np.errstate(over="ignore"):
            extent = np.minimum(hi - lo, np.finfo(float).max)
        return cls(lo, side, np.where(extent > 0, extent, 1.0))

    def cells(self, points: Floats) -> Ints:
        """(n, k) grid coordinates."""
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.clip(np.floor((points - self.origin) / self.side), -FAR, FAR)
        return np.where(np.isnan(points), MISSING, np.where(np.isnan(points), 0.0, steps).astype(np.int64))

    def spots(self, points: Floats) -> Floats:
        """(n, k) the rows' places in the tree: a missing determinant stands apart from the data it was built of.

        Should later rows come to stand there too, boxes prune a little less; answers look at the values themselves.
        """
        with np.errstate(over="ignore"):
            apart = self.origin - self.scale
        return np.where(np.isnan(points), np.where(np.isfinite(apart), apart, self.origin), points)
