"""Which number does a text mean?

What looks like a plain number is read all at once; only the rest is looked at one by one, as Python reads floats.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Flags, Floats

_PLAIN = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def is_text(kind: pa.DataType) -> bool:
    """Does a column of this type hold texts?"""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view")


def read_numbers(texts: pa.Array) -> tuple[Floats, Flags]:
    """(n,) numbers, NaN where there is none; and where a text is neither blank nor a number.

    >>> read_numbers(pa.array(["1.5", " +2 ", "", None, "x"]))
    (array([1.5, 2. , nan, nan, nan]), array([False, False, False, False,  True]))
    """
    bare = pc.utf8_trim_whitespace(texts)
    plain = pc.match_substring_regex(bare, _PLAIN)
    values = np.array(pc.if_else(plain, bare, None).cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    bad = np.zeros(len(values), np.bool_)
    odd = pc.and_(pc.invert(plain), pc.not_equal(bare, "")).fill_null(False)
    for i in np.flatnonzero(odd.to_numpy(zero_copy_only=False)).tolist():
        try:
            values[i] = float(bare[i].as_py())
        except ValueError:
            bad[i] = True
    return values, bad
