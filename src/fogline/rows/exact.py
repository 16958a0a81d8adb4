"""Which numbers of a column can float64 hold?

What is compared are floats. A value that would be taken for another one there is not compared at all: `as_real` has the
rule for a single number, and here it is for columns. Arrow's own cast of decimals is off by a bit now and then; texts
are read to the nearest float, so decimals go by way of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import EXACT, Flags, Floats
from fogline.question import as_real

_NARROW = 32  # bits; whole numbers of so many are exact
_DIGITS = 15
_POWERS = 10.0 ** np.arange(-60, 80)


def reals(column: pa.Array) -> tuple[pa.Array, Flags | None]:
    """Numbers or truth values as doubles, null where they are; and (n,) which are held by none. None: all are held.

    >>> reals(pa.array([2**53, 2**53 + 1]))[1]
    array([False,  True])
    """
    if pa.types.is_decimal(column.type):
        values = column.cast(pa.string()).cast(pa.float64())
        return values, _unheld(column, _long(column, values))
    values = column.cast(pa.float64(), safe=False)
    if not pa.types.is_integer(column.type) or column.type.bit_width <= _NARROW:
        return values, None
    large = np.abs(values.fill_null(0.0).to_numpy(zero_copy_only=False)) > EXACT
    return values, _unheld(column, large)


def unheld_texts(texts: pa.Array, values: Floats) -> Flags | None:
    """(n,) which texts are whole numbers that their floats do not hold; None: all are held."""
    return _unheld(texts, np.abs(np.nan_to_num(values)) > EXACT)


def _unheld(column: pa.Array, doubtful: Flags) -> Flags | None:
    """Of the doubtful ones, looked at one by one, those that no float holds."""
    bad = np.zeros(len(column), np.bool_)
    for i in np.flatnonzero(doubtful).tolist():
        bad[i] = as_real(column[i].as_py()) is None
    return bad if bad.any() else None


def _long(column: pa.Array, values: pa.Array) -> Flags:
    """(n,) decimals that may have more than 15 digits: all but those that rounding to 15 leaves as they are."""
    if column.type.precision <= _DIGITS:
        return np.zeros(len(column), np.bool_)
    size = np.abs(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    whole = np.searchsorted(_POWERS, size, side="right") - 61  # the power of ten below, or greater by one
    places = np.clip(_DIGITS - 1 - whole, -75, 75)
    try:
        same = pc.equal(pc.round_binary(column, pa.array(places, pa.int32())), column).fill_null(True)
    except pa.ArrowInvalid:  # what is rounded up may have a digit more than the type
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    large = size > EXACT
    return np.asarray(~same.to_numpy(zero_copy_only=False) | large)
