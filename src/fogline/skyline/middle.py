"""Where does a cloud lie, on average?"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Clouds, Floats


def means(clouds: Clouds) -> Floats:
    """(n, d) the mean of each cell's values."""
    middle = clouds.lo.copy()
    for i, j in zip(*np.nonzero(clouds.start >= 0), strict=True):
        some = slice(clouds.start[i, j], clouds.start[i, j] + clouds.size[i, j])
        middle[i, j] = clouds.value[some] @ clouds.weight[some]
    return middle
