"""How long is a while, in the units of a stream's clock?

Lateness, `ahead` and `idle` are lengths of the stream's own time: numbers where its times are numbers, else durations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.errors import QueryError
from fogline.kernels.heard import newest_of_each
from fogline.query import Query, duration

AUTO, OFF = "auto", "off"
LIVES = 10  # the default of `ahead`, and of `idle` for a stream that is followed, is so many lifetimes
DAY = 86_400_000_000.0  # in microseconds; the default of `ahead` for timestamps without a lifetime
_UNITS = (("year", 365.2425 * DAY), ("day", DAY), ("hour", DAY / 24), ("minute", 6e7), ("second", 1e6))


def lateness_of(given: Any, query: Query, kind: pa.DataType) -> float:
    """How far the clock is held back."""
    held = _length(given, "lateness", query, kind)
    if not 0 <= held < math.inf:
        raise QueryError(f"lateness is {given!r}; it is a finite length of time, 0 or more.")
    return held


def ahead_of(given: Any, query: Query, kind: pa.DataType) -> float:
    """How far a row may run ahead of its group; inf: as far as it likes."""
    if given is None or given == OFF:
        return math.inf
    if given == AUTO:
        return _lives(query) or (DAY if pa.types.is_timestamp(kind) else math.inf)
    length = _length(given, "ahead", query, kind)
    if not 0 < length < math.inf:
        raise QueryError(f"ahead is {given!r}; it is a finite length of time above 0, or {OFF!r}.")
    return length


def idle_of(given: Any, query: Query, kind: pa.DataType) -> float | None:
    """How far the clock of a silent group stays behind that of the query; None: others do not move it."""
    if given is None or given == "never":
        return None
    if given == AUTO:
        return _lives(query)
    length = _length(given, "idle", query, kind)
    if not 0 <= length < math.inf:
        raise QueryError(f"idle is {given!r}; it is a finite length of time from 0 on, or 'never'.")
    return length


def length_text(length: float, kind: pa.DataType) -> str:
    """A length in words.

    >>> length_text(3e3, pa.int64()), length_text(9e10, pa.timestamp("us")), length_text(1.5e6, pa.timestamp("us"))
    ('3000', '25 hours', '1.5 seconds')
    """
    if not pa.types.is_timestamp(kind):
        return f"{length:.15g}"
    for unit, size in _UNITS:
        if length >= 2 * size or unit == "second":
            number = f"{length / size:,.{1 if length < 100 * size else 0}f}".removesuffix(".0")
            return f"{number} {unit}{'' if number == '1' else 's'}"
    raise AssertionError


def _lives(query: Query) -> float | None:
    """Some lifetimes, where there is one."""
    found = LIVES * (query.longest_life or 0.0)
    return found if 0 < found < math.inf else None


def _length(given: Any, name: str, query: Query, kind: pa.DataType) -> float:
    stamps, number = pa.types.is_timestamp(kind), isinstance(given, int | float) and not isinstance(given, bool)
    if number and given == 0:
        return 0.0
    if number is stamps or not isinstance(given, int | float | str | timedelta):
        have, want = ("timestamps", "a duration such as '30 seconds'") if stamps else ("numbers", "a number")
        raise QueryError(f"the times in {query.time!r} are {have}, so {name} is {want}, not {given!r}.")
    return float(given) if number else float(duration(given))  # type: ignore[arg-type]


# --- Event times ------------------------------------------------------------------------------------------------------
#
# Which event time stands for an instant of the stream's clock?
#
# Event times are milliseconds from 0 on. A timestamp is its own event time, cut to milliseconds. A number is mapped by
# the bits of its float64, which are in the order of the numbers: 53 of them fit, negative numbers and fractions
# included, so the unit of the numbers need not be known.
#
# A slice of rows has reached the instant that half of its (group, id) pairs, and two at least, have reached: no id
# moves the query's clock alone. Where rows are few, a slice may hold one pair only, time and again. So pairs of small
# slices are remembered (`Farthest`): the clock is also where two of them have come together, in whatever slices and
# batches. The engine that keeps one state for all groups does so; Spark has no state before its watermark.

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
