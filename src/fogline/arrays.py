"""In which arrays do rows, clouds and answers travel from room to room?

Columns, never objects with a field per row; the shape of each stands beside it. Values of clouds are oriented:
larger is better. A missing cell without a distribution has `lo` NaN.

Invariant: where start >= 0, value[start : start + size] is strictly increasing, weight adds up to 1, and
tail[k] = Pr{value >= value[k]} with tail[first] exactly 1 (sure) and tail[last] exactly weight[last].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
Objects = NDArray[Any]

ONE, VAGUE = -1, -2  # where a cell's values begin, if it has no list of them
CHANGES = ("enter", "leave", "update")  # by number
ENTER, LEAVE, UPDATE = 0, 1, 2


class Clouds(NamedTuple):
    """Many clouds in columns; a cell with more than one value points into three shared pools, sorted by value."""

    lo: Floats  # (n, d) lowest possible value
    hi: Floats  # (n, d) highest
    start: Ints  # (n, d) where the cell's values begin in the pools, ONE for a single value, VAGUE for bounds only
    size: Ints  # (n, d) how many values
    value: Floats  # (p,)
    weight: Floats  # (p,)
    tail: Floats  # (p,)

    def part(self, which: Any) -> Clouds:
        """Some of the clouds (a slice or indices); the pools are shared, not copied."""
        return Clouds(
            self.lo[which], self.hi[which], self.start[which], self.size[which], self.value, self.weight, self.tail
        )


class Columns(NamedTuple):
    """What the live set knows of each slot, beside its cloud."""

    arrived: Floats
    expires: Floats  # -inf: the slot is dead
    until: Floats  # SEALED: surely beaten until then; OUT: kept out until then
    probability: Floats  # of a member
    reported: Floats  # the probability last reported; NaN: not in the answer
    places: Ints  # 0: too many to keep sums for
    at: Ints  # where a member's sums begin
    word_lo: Words
    word_hi: Words
    state: NDArray[np.uint8]  # DEAD, SEALED, OUT or IN
    exact: Flags
    counted: Flags  # under one of the pruning counters


class Batch(NamedTuple):
    """Rows on their way in: their names, how long they stay, what came, and what it may mean."""

    id: Objects  # (n,)
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    raw: Floats  # (n, d) as it came, not oriented; NaN = was missing
    known: Floats  # (n, u) what imputers keep of a row, to be asked later; NaN = missing
    clouds: Clouds

    def part(self, which: Any) -> Batch:
        """Some of the rows (a slice or indices); the pools are shared, not copied."""
        return Batch(
            self.id[which],
            self.arrived[which],
            self.expires[which],
            self.raw[which],
            self.known[which],
            self.clouds.part(which),
        )


class Distributions(NamedTuple):
    """A distribution for each of q cells: value[start : start + size], values as the user sees them."""

    start: Ints  # (q,)
    size: Ints  # (q,)
    value: Floats  # (p,) ascending within a cell
    often: Floats  # (p,) how often each value occurs: positive, need not add up to 1
    source: Ints  # (q,) by which of its imputer's sources; see `Chain.sources`


class Delta(NamedTuple):
    """What changed in a group's answer at one tick, ordered by (arrival, id)."""

    time: float
    id: Objects  # (n,)
    arrived: Floats  # (n,)
    change: Ints  # (n,) see CHANGES
    probability: Floats  # (n,) NaN on leave
    exact: Flags  # (n,)
    raw: Floats  # (n, d)


def objects(values: list[Any]) -> Objects:
    """A list as an array of objects (never of texts or numbers, and never two-dimensional)."""
    out = np.empty(len(values), object)
    out[:] = values
    return out


def empty_clouds(rows: int, d: int, pool: int) -> Clouds:
    """Room for clouds, not yet filled."""
    return Clouds(
        lo=np.empty((rows, d)),
        hi=np.empty((rows, d)),
        start=np.full((rows, d), ONE, np.int64),
        size=np.ones((rows, d), np.int64),
        value=np.empty(pool),
        weight=np.empty(pool),
        tail=np.empty(pool),
    )


def no_rows(d: int) -> Batch:
    """A batch of nothing, for ticks at which something only expires."""
    none = np.empty(0)
    return Batch(np.empty(0, object), none, none, np.empty((0, d)), np.empty((0, 0)), empty_clouds(0, d, 0))
