"""Which distribution do the leaves of a forest make together, all of their targets counted?

Evenly spaced quantiles of what all trees keep for a row, none cut off: rows that do not follow on each other do not err
together, so small chances are worth what they say. (`forest.spread` cuts the outer ones, for sensors.)
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.clouds import count_in
from fogline.kernels.compile import kernel
from fogline.kernels.forest import POINTS, on_grid, points_for


@kernel
def quantiles(targets, base, gaps, grid):
    """Distributions of base (n,) + targets (n, k), sorted: start, size, value, often. gaps (n,): cells a row lacks."""
    n, width = targets.shape
    start, size = np.empty(n, np.int64), np.empty(n, np.int64)
    value, often = np.empty(n * POINTS), np.empty(n * POINTS)
    filled = 0
    for i in range(n):
        start[i] = filled
        points = points_for(gaps[i])
        for k in range(points):
            x = on_grid(base[i] + targets[i, (2 * k + 1) * width // (2 * points)], grid)
            filled = count_in(x, start[i], filled, value, often)
        size[i] = filled - start[i]
    return start, size, value[:filled].copy(), often[:filled].copy()


@kernel
def outermost(targets, base, gaps, grid):
    """(n,) the least and the greatest value that `quantiles` gives."""
    n, width = targets.shape
    least, most = np.empty(n), np.empty(n)
    for i in range(n):
        points = points_for(gaps[i])
        least[i] = on_grid(base[i] + targets[i, width // (2 * points)], grid)
        most[i] = on_grid(base[i] + targets[i, (2 * points - 1) * width // (2 * points)], grid)
    return least, most
