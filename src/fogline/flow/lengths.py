"""How long is a while, in the units of a stream's clock?

Lateness, `ahead` and `idle` are lengths of the stream's own time: numbers where its times are numbers, else durations.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pyarrow as pa

from fogline.errors import QueryError
from fogline.query import Query, duration

AUTO, OFF = "auto", "off"
LIVES = 10  # the default of `ahead`, and of `idle` for a stream that is followed, is so many lifetimes
DAY = 86_400_000_000.0  # in microseconds; the default of `ahead` for timestamps without a lifetime
_UNITS = (("year", 365.2425 * DAY), ("day", DAY), ("hour", DAY / 24), ("minute", 6e7), ("second", 1e6))


def lateness_of(given: Any, query: Query, kind: pa.DataType) -> float:
    """How far the clock is held back."""
    held = _length(given, "lateness", query, kind)
    if not 0 <= held < math.inf:
        raise QueryError(f"lateness is {given!r}; the clock can only be held back, by a finite time.")
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
    if query.lifetime is None:
        return None
    length = query.lifetime_us
    found = LIVES * float(query.lifetime if length is None else length)  # type: ignore[arg-type]
    return found if 0 < found < math.inf else None


def _length(given: Any, name: str, query: Query, kind: pa.DataType) -> float:
    stamps, number = pa.types.is_timestamp(kind), isinstance(given, int | float) and not isinstance(given, bool)
    if number and given == 0:
        return 0.0
    if number is stamps or not isinstance(given, int | float | str | timedelta):
        have, want = ("timestamps", "a duration such as '30 seconds'") if stamps else ("numbers", "a number")
        raise QueryError(f"the times in {query.time!r} are {have}, so {name} is {want}, not {given!r}.")
    return float(given) if number else float(duration(given))  # type: ignore[arg-type]
