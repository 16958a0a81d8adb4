"""How do clouds lie in memory, and how does a distribution get there?

Columns: one row of `lo` and `hi` per cloud; a cell with more than one value points into three shared pools, sorted by
value. Values are oriented: larger is better. A missing cell without a distribution has `lo` NaN.

Invariant: where start >= 0, value[start : start + size] is strictly increasing, weight adds up to 1, and
tail[k] = Pr{value >= value[k]} with tail[first] exactly 1 (sure) and tail[last] exactly weight[last].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fogline.kernels.compile import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FINE, BAD_NUMBER, BAD_WEIGHT = 0, 1, 2  # what `gather` thinks of a cell


class Clouds(NamedTuple):
    """Many clouds in columns."""

    lo: Floats  # (n, d) lowest possible value
    hi: Floats  # (n, d) highest
    start: Ints  # (n, d) where the cell's values begin in the pools, -1 for a single value
    size: Ints  # (n, d) how many values
    value: Floats  # (p,)
    weight: Floats  # (p,)
    tail: Floats  # (p,)


class Columns(NamedTuple):
    """What the live set knows of each slot, beside its cloud."""

    arrived: Floats
    expires: Floats  # -inf: the slot is dead
    until: Floats  # SEALED: surely beaten until then; OUT: kept out until then
    probability: Floats  # of a member
    reported: Floats  # what the world was last told; NaN: not in the answer
    places: Ints  # 0: too many to keep sums for
    at: Ints  # where a member's sums begin
    word_lo: NDArray[np.uint64]
    word_hi: NDArray[np.uint64]
    state: NDArray[np.uint8]  # DEAD, SEALED, OUT or IN
    exact: NDArray[np.bool_]
    counted: NDArray[np.bool_]  # under one of the pruning counters


class Batch(NamedTuple):
    """Rows on their way in: what they are called, how long they stay, what came, and what it may mean."""

    id: NDArray[Any]  # (n,) objects
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    raw: Floats  # (n, d) as it came, not oriented; NaN = was missing
    clouds: Clouds

    def part(self, which: Any) -> Batch:
        """Some of the rows (a slice or indices); the pools are shared, not copied."""
        c = self.clouds
        clouds = c._replace(lo=c.lo[which], hi=c.hi[which], start=c.start[which], size=c.size[which])
        return Batch(self.id[which], self.arrived[which], self.expires[which], self.raw[which], clouds)


@kernel
def gather(begin, end, values, weights, sign, low, high, j, raw, clouds, cursor, code, outside):
    """Write a column of lists into the cells (:, j) and the pools from `cursor` on.

    Values outside [low, high] are dropped; equal values are merged; weights are normalised. `code` (n,) gets FINE,
    BAD_NUMBER or BAD_WEIGHT, `outside` (n,) how many values were outside. Returns the new cursor, and whether
    `code` and `outside` are worth a look.
    """
    bad = off = 0
    for i in range(begin.shape[0]):
        start = cursor
        code[i] = FINE
        outside[i] = 0
        for k in range(begin[i], end[i]):
            v, w = values[k], weights[k]
            if not np.isfinite(v):
                code[i] = BAD_NUMBER
            elif not (w > 0 and np.isfinite(w)):
                code[i] = BAD_WEIGHT
            elif not low <= v <= high:
                outside[i] += 1
            else:
                clouds.value[cursor] = v * sign + 0.0  # + 0.0: there is no negative zero
                clouds.weight[cursor] = w
                cursor += 1
        bad += code[i]
        off += outside[i]
        size = cursor - start
        if size > 1:
            size = _settle(clouds.value, clouds.weight, clouds.tail, start, size)
            cursor = start + size
        raw[i, j] = clouds.lo[i, j] = clouds.hi[i, j] = np.nan
        if size > 0:
            clouds.lo[i, j] = clouds.value[start]
            clouds.hi[i, j] = clouds.value[start + size - 1]
        if size <= 1:
            raw[i, j] = clouds.lo[i, j] * sign + 0.0
            cursor = start
            start = -1
        clouds.start[i, j] = start
        clouds.size[i, j] = max(size, 1)
    return cursor, bad > 0, off > 0


@kernel
def _settle(value, weight, tail, start, size):
    """Sort a cell's values, merge equal ones, normalise the weights, add up the tails. Returns the size left."""
    order = np.argsort(value[start : start + size])
    v, w = value[start : start + size][order], weight[start : start + size][order]
    m = 0
    total = 0.0
    for k in range(size):
        total += w[k]
        if m > 0 and v[k] == value[start + m - 1]:
            weight[start + m - 1] += w[k]
        else:
            value[start + m] = v[k]
            weight[start + m] = w[k]
            m += 1
    above = 0.0
    for k in range(start + m - 1, start - 1, -1):
        weight[k] /= total
        above += weight[k]
        tail[k] = above
    if m > 1:
        tail[start] = 1.0
    return m


@kernel
def copy_cells(source, rows, target, at, cursor):
    """Copy the chosen clouds into rows `at`, `at + 1`, … of `target` and its pools. Returns the new cursor."""
    d = source.lo.shape[1]
    for k in range(rows.shape[0]):
        i = rows[k]
        for j in range(d):
            target.lo[at + k, j] = source.lo[i, j]
            target.hi[at + k, j] = source.hi[i, j]
            target.size[at + k, j] = source.size[i, j]
            start = source.start[i, j]
            if start < 0:
                target.start[at + k, j] = -1
                continue
            target.start[at + k, j] = cursor
            for m in range(source.size[i, j]):
                target.value[cursor + m] = source.value[start + m]
                target.weight[cursor + m] = source.weight[start + m]
                target.tail[cursor + m] = source.tail[start + m]
            cursor += source.size[i, j]
    return cursor


def empty_clouds(rows: int, d: int, pool: int) -> Clouds:
    """Room for clouds, not yet filled."""
    return Clouds(
        lo=np.empty((rows, d)),
        hi=np.empty((rows, d)),
        start=np.full((rows, d), -1, np.int64),
        size=np.ones((rows, d), np.int64),
        value=np.empty(pool),
        weight=np.empty(pool),
        tail=np.empty(pool),
    )


def no_rows(d: int) -> Batch:
    """A batch of nothing, for ticks at which something only expires."""
    return Batch(np.empty(0, object), np.empty(0), np.empty(0), np.empty((0, d)), empty_clouds(0, d, 0))
