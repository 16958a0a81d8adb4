"""Which rows are in, when all of them are there at once?

For one group of rows that does not move. What a live set would keep for later (guards, sums, instants) is not made.
Only rows with very many places are left to it, and their group with them.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Batch, Floats, Ints, UncertainRows, objects
from fogline.engine.group import Group
from fogline.kernels.instances import ROOM
from fogline.kernels.static import OUT, Rivals, chances
from fogline.kernels.words import cut_points, fences, words
from fogline.query import TOLERANCE

_PLACES = 1_000_000  # up to which a probability is exact
_SAMPLE = 1000


def once(uncertain: UncertainRows, alpha: float) -> tuple[Ints, Floats, Floats]:
    """The rows that are in, ascending, their probabilities, and how far these may be off.

    O(rows²) word comparisons, and the places of what comes near the answer.
    """
    if np.prod(uncertain.size.astype(np.float64), axis=1).max(initial=1.0) > ROOM:
        return _by_live_set(uncertain, alpha)
    order = np.argsort(-_strength(uncertain), kind="stable")
    lo, hi = np.ascontiguousarray(uncertain.lo[order]), np.ascontiguousarray(uncertain.hi[order])
    step = max(1, len(lo) // _SAMPLE)
    worst, best = words(lo, hi, cut_points(lo[::step], hi[::step]))
    cells = uncertain._replace(lo=lo, hi=hi, start=uncertain.start[order], size=uncertain.size[order])
    rivals = Rivals(cells, worst, best, fences(lo.shape[1]))
    threshold = alpha + TOLERANCE if alpha > 0 else OUT
    chance = np.empty(len(order))
    chance[order] = chances(rivals, np.arange(len(order)), threshold, ROOM)
    which = np.flatnonzero(chance > threshold)
    return which, chance[which], np.zeros(len(which))


def _strength(uncertain: UncertainRows) -> Floats:
    """(n,) where a row's worst corner lies, on average: the greater, the more rows it ends."""
    d = uncertain.lo.shape[1]
    return np.asarray((uncertain.lo / d).sum(axis=1))


def _by_live_set(uncertain: UncertainRows, alpha: float) -> tuple[Ints, Floats, Floats]:
    """The same by one tick of a live set, which can bracket what cannot be summed."""
    n, d = uncertain.lo.shape
    zeros = np.zeros(n)
    rows = Batch(objects(list(range(n))), zeros, zeros + 1.0, uncertain.lo, np.empty((n, 0)), uncertain)
    deltas = Group(d, alpha, None, _PLACES).advance(-np.inf, 0.0, rows)
    if not deltas:
        return np.empty(0, np.int64), np.empty(0), np.empty(0)
    [delta] = deltas
    return delta.id.astype(np.int64), delta.probability, delta.within
