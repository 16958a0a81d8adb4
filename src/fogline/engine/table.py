"""Which rows of a table are in, when all of them are there at once and none comes or goes?

For one group. What a live set would keep for later (guards, sums, instants) is not made: `kernels.static.chances` takes
the dominators that end most rows first, and stops at the first few that keep a row out. Measured beside one tick of a
live set, which gives the same: 1,400 rows left of 10,000 take 0.025 s, not 0.87 s; 16,400 left of 100,000 take 0.24 s,
not 269 s. Only rows of very many instances are left to the live set, and their group with them.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import Batch, Flags, Floats, Ints, UncertainRows, objects
from fogline.engine.group import Incoming, WindowGroup
from fogline.engine.live import LiveSet
from fogline.engine.skyband import SkybandLiveSet
from fogline.kernels.instances import ROOM
from fogline.kernels.skyband import may_matter
from fogline.kernels.static import NOT_ABOVE, Dominators, chances
from fogline.kernels.words import cut_points, fences, words
from fogline.query import TOLERANCE

_SAMPLE = 1000  # rows that the cut points of words are chosen by


def once(uncertain: UncertainRows, alpha: float) -> tuple[Ints, Floats, Floats]:
    """The rows that are in, ascending, their probabilities, and how far these may be off.

    O(rows²) comparisons of words, and the instances of what comes near the answer.
    """
    if np.prod(uncertain.size.astype(np.float64), axis=1).max(initial=1.0) > ROOM:
        return _by_live_set(uncertain, alpha)
    d = uncertain.lo.shape[1]
    order = np.argsort(-(uncertain.lo / d).sum(axis=1), kind="stable")  # those with the best worst corner end most rows
    lo, hi = np.ascontiguousarray(uncertain.lo[order]), np.ascontiguousarray(uncertain.hi[order])
    step = max(1, len(lo) // _SAMPLE)
    worst, best = words(lo, hi, cut_points(lo[::step], hi[::step]))
    cells = uncertain._replace(lo=lo, hi=hi, start=uncertain.start[order], size=uncertain.size[order])
    threshold = alpha + TOLERANCE if alpha > 0 else NOT_ABOVE
    chance = np.empty(len(order))
    chance[order] = chances(Dominators(cells, worst, best, fences(d)), np.arange(len(order)), threshold, ROOM)
    which = np.flatnonzero(chance > threshold)
    return which, chance[which], np.zeros(len(which))


def in_skyband(uncertain: UncertainRows, alpha: float, k: int) -> tuple[Ints, Floats, Floats, Ints]:
    """The same, where fewer than k others may dominate a row, by one tick of a live set; and which are in for certain:
    under every value (CERTAIN) or under some (OPEN)."""
    d = uncertain.lo.shape[1]
    live = SkybandLiveSet(d, alpha, k, by_id=False)
    live.tick(0.0, _arriving(uncertain))
    slots = live.members()
    which = live.slots.id[slots].astype(np.int64)
    order = np.argsort(which)
    c, slots = live.slots.columns, slots[order]
    return which[order], c.probability[slots], c.within[slots], live.fronts(slots)


def may_be_in_skyband(uncertain: UncertainRows, k: int) -> Flags:
    """(n,) the rows but for those that k others surely dominate, by their boxes."""
    step, n = max(1, len(uncertain.lo) // _SAMPLE), len(uncertain.lo)
    lo, hi = np.ascontiguousarray(uncertain.lo), np.ascontiguousarray(uncertain.hi)
    worst, best = words(lo, hi, cut_points(lo[::step], hi[::step]))
    return np.asarray(may_matter(lo, hi, worst, best, np.zeros(n), fences(lo.shape[1]), k))


def _arriving(uncertain: UncertainRows) -> Batch:
    """The rows with their positions as ids, all at once."""
    n = len(uncertain.lo)
    zeros = np.zeros(n)
    return Batch(objects(list(range(n))), zeros, zeros + 1.0, uncertain.lo, np.empty((n, 0)), uncertain)


def _by_live_set(uncertain: UncertainRows, alpha: float) -> tuple[Ints, Floats, Floats]:
    """The same by one tick of a live set, which can bracket what cannot be summed."""
    d = uncertain.lo.shape[1]
    deltas = WindowGroup(LiveSet(d, alpha)).advance(-np.inf, 0.0, Incoming(_arriving(uncertain)))
    if not deltas:
        return np.empty(0, np.int64), np.empty(0), np.empty(0)
    [delta] = deltas
    return delta.id.astype(np.int64), delta.probability, delta.within
