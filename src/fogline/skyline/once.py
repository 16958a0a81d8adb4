"""Which rows are in, when all of them are there at once?

For one group of rows that does not move. What a live set would keep for later (guards, sums, instants) is not made.
Only rows with very many places are left to it, and their group with them.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Batch, Clouds, Floats, Ints, objects
from fogline.kernels.once import OUT, Rivals, chances
from fogline.kernels.places import ROOM
from fogline.kernels.words import cut_points, fences, words
from fogline.model import TOLERANCE
from fogline.skyline.group import Group

_PLACES = 1_000_000  # up to which a probability is exact
_SAMPLE = 1000


def once(clouds: Clouds, alpha: float) -> tuple[Ints, Floats, Floats]:
    """The rows that are in, ascending, their probabilities, and how far these may be off.

    O(rows²) word comparisons, and the places of what comes near the answer.
    """
    if np.prod(clouds.size.astype(np.float64), axis=1).max(initial=1.0) > ROOM:
        return _by_live_set(clouds, alpha)
    order = np.argsort(-_strength(clouds), kind="stable")
    lo, hi = np.ascontiguousarray(clouds.lo[order]), np.ascontiguousarray(clouds.hi[order])
    step = max(1, len(lo) // _SAMPLE)
    worst, best = words(lo, hi, cut_points(lo[::step], hi[::step]))
    cells = clouds._replace(lo=lo, hi=hi, start=clouds.start[order], size=clouds.size[order])
    rivals = Rivals(cells, worst, best, fences(lo.shape[1]))
    threshold = alpha + TOLERANCE if alpha > 0 else OUT
    chance = np.empty(len(order))
    chance[order] = chances(rivals, np.arange(len(order)), threshold, ROOM)
    which = np.flatnonzero(chance > threshold)
    return which, chance[which], np.zeros(len(which))


def _strength(clouds: Clouds) -> Floats:
    """(n,) where a row's worst corner lies, on average: the greater, the more rows it ends."""
    d = clouds.lo.shape[1]
    return np.asarray((clouds.lo / d).sum(axis=1))


def _by_live_set(clouds: Clouds, alpha: float) -> tuple[Ints, Floats, Floats]:
    """The same by one tick of a live set, which can bracket what cannot be summed."""
    n, d = clouds.lo.shape
    zeros = np.zeros(n)
    rows = Batch(objects(list(range(n))), zeros, zeros + 1.0, clouds.lo, np.empty((n, 0)), clouds)
    deltas = Group(d, alpha, None, _PLACES).advance(-np.inf, 0.0, rows)
    if not deltas:
        return np.empty(0, np.int64), np.empty(0), np.empty(0)
    [delta] = deltas
    return delta.id.astype(np.int64), delta.probability, delta.within
