"""Which event time stands for an instant of the stream's clock?

Event times are milliseconds from 0 on. A timestamp is its own event time, cut to milliseconds. A number is mapped by
the bits of its float64, which are in the order of the numbers: 53 of them fit, negative numbers and fractions included,
so the unit of the numbers need not be known.

A chunk has reached the instant that a tenth of its ids, and two at least, have reached: no id moves the query's clock
alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.kernels.heard import newest_of_each

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
