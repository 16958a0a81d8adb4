"""Which event time stands for an instant of the stream's clock?

Event times are milliseconds from 0 on. A timestamp is its own event time, cut to milliseconds. A number is mapped by
the bits of its float64, which are in the order of the numbers: 53 of them fit, negative numbers and fractions included,
so the unit of the numbers need not be known.

A slice of rows has reached the instant that half of its (group, id) pairs, and two at least, have reached: no id moves
the query's clock alone. Where rows are few, a slice may hold one pair only, time and again. So pairs of small slices
are remembered (`Farthest`): the clock is also where two of them have come together, in whatever slices and batches.
The engine that keeps one state for all groups does so; Spark has no state before its watermark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.kernels.heard import newest_of_each

FIRST = 64  # rows of a slice that nearly always show that it has many pairs
FEW = 4  # pairs of a slice: half of them are two, so it makes no difference how they are cut into slices
_CUT, _ZERO = 11, 2**63


def event(kind: pa.DataType, instant: float) -> int | None:
    """The event time, in milliseconds, that has surely been reached at `instant`; None before event times begin."""
    if not np.isfinite(instant):
        return None
    if pa.types.is_timestamp(kind):
        return int(instant // 1000) if instant >= 0 else None
    return _ordered(instant) >> _CUT


def together(group: Ints, ids: Words, arrived: Floats, taken: Flags | None) -> float:
    """The instant that half of the different (group, id) pairs, and two at least, have reached; -inf: there is none.

    `ids`: hashes; `taken`: rows that do not run ahead of the others; None: all.
    """
    if taken is not None:
        group, ids, arrived = group[taken], ids[taken], arrived[taken]
    newest = newest_of_each(group, ids, arrived)
    half = max(2, -(-len(newest) // 2))
    return float(np.partition(newest, -half)[-half]) if len(newest) >= half else -np.inf


class HeardPair(NamedTuple):
    """A (group, id) pair of which rows have come."""

    name: int  # a hash
    newest: float  # the time of its newest row
    since: float = -np.inf  # where the clock was when it was first heard


def few_pairs(group: Ints, ids: Words, arrived: Floats) -> list[tuple[int, HeardPair]]:
    """The (group, id) pairs of a slice of rows, each with its group; none, if there are more than a few."""
    names: Words = ids ^ (group.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    if len(np.unique(names[:FIRST])) > FEW:
        return []
    found, first, of = np.unique(names, return_index=True, return_inverse=True)
    if len(found) > FEW:
        return []
    newest = np.full(len(found), -np.inf)
    np.maximum.at(newest, of.reshape(-1), arrived)
    return [(int(group[k]), HeardPair(int(ids[k]), float(time))) for k, time in zip(first, newest, strict=True)]


@dataclass(frozen=True, slots=True)
class Farthest:
    """Where two pairs have come together, of all that were heard: the lesser time of the two that have come farthest.

    A function of the set of rows, however they are cut. But a pair that is `length` or more beyond the clock, and stays
    there while the clock moves on by twice that, is forgotten: its own clock is wrong, and it shall not stand by when
    another one is.
    """

    clock: float = -np.inf
    pairs: tuple[HeardPair, ...] = ()  # at most two, the farthest first

    def with_pairs(self, heard: Iterable[HeardPair], length: float) -> Farthest:
        """After more was heard."""
        known = {each.name: each for each in self.pairs}
        for each in heard:
            before = known.get(each.name)
            if before is None or each.newest > before.newest:
                known[each.name] = each._replace(since=self.clock if before is None else before.since)
        order = sorted(known.values(), key=lambda each: (-each.newest, each.name))[:2]
        clock = max(self.clock, order[1].newest) if len(order) == 2 else self.clock
        order = [each._replace(since=clock) if each.since == -np.inf else each for each in order]
        return Farthest(clock, tuple(each for each in order if not _given_up(each, clock, length)))

    def to_plain(self) -> list[Any]:
        """For JSON."""
        return [self.clock, [list(each) for each in self.pairs]]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Farthest:
        """The inverse of `to_plain`."""
        clock, pairs = plain
        return cls(clock, tuple(HeardPair(*each) for each in pairs))


def _given_up(pair: HeardPair, clock: float, length: float) -> bool:
    return pair.newest < clock or (pair.newest - clock >= length and clock - pair.since >= 2 * length)


def later(instant: float, idle: float) -> float:
    """The first instant of the query's clock at which a silent group's, `idle` behind it, has reached `instant`."""
    at = instant + idle
    while np.isfinite(at) and at - idle < instant:
        at = float(np.nextafter(at, np.inf))
    return at


def timer(kind: pa.DataType, instant: float) -> int | None:
    """The first event time, in milliseconds, at which `instant` has surely been reached; None if there is none."""
    if not np.isfinite(instant):
        return None
    if pa.types.is_timestamp(kind):
        return max(0, -int(-instant // 1000))
    return -(-_ordered(instant) >> _CUT)


def reached(kind: pa.DataType, watermark: int) -> float:
    """The instant that a watermark, in milliseconds, stands for; -inf as long as there is none."""
    if watermark <= 0:
        return -np.inf
    if pa.types.is_timestamp(kind):
        return float(watermark * 1000)
    places = (watermark << _CUT) - _ZERO
    value = float(np.uint64(abs(places)).view(np.float64))
    return (-value if places < 0 else value) if np.isfinite(value) else -np.inf


def _ordered(value: float) -> int:
    """A whole number from 0 on, in the order of the floats: how many floats away from zero, counted from the middle."""
    places = int(np.float64(abs(value)).view(np.uint64))
    return _ZERO - places if value < 0 else _ZERO + places
