"""Which known values are hidden for a moment, to see how well they would be imputed?

A row is chosen by a hash of its time and values: by the row alone, whatever batch it comes in. The same hash decides
whether the attribute's values just before are hidden as well, as if it had been silent, and how many of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Ints
from fogline.kernels.compile import inner, kernel

LONGEST_RUN = 4  # of the 8 values that are remembered; a context speaks of the 4 before


class Trials(NamedTuple):
    """Known values of n rows that may be hidden, at most one of a row; m of them are chosen by lot."""

    attribute: Ints  # (n,) which one; where that is not sure, the first that is looked at
    row: Ints  # (m,) ascending
    run: Ints  # (m,) so many values of the attribute before it are hidden as well …
    together: Flags  # (m,) … and what other attributes have read since the first of them
    sure: Flags  # (m,) whether it is hidden in any case; else if an attribute was silent, the others if it was for long


@inner
def mixed(x):
    """The same bits, well shaken: the end of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def hidden(time, values, share, after_silence):
    """About one row in `share` of which a value is hidden in any case, and one in `after_silence` of the others.

    time (n,), values (n, d), NaN = missing. A gap is never chosen: a row whose choice falls on one is left out. Every
    second run is of length 0.
    """
    n, d = values.shape
    attribute, row, run = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.int64)
    together, sure = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    bits, cell = time.view(np.uint64), np.empty(1)
    m = 0
    for i in range(n):
        h = mixed(bits[i])
        for j in range(d):
            cell[0] = values[i, j] if values[i, j] == values[i, j] else np.nan  # one NaN for all
            h = mixed(h ^ cell.view(np.uint64)[0])
        attribute[i] = j = np.int64((h >> np.uint64(32)) % np.uint64(d))
        if h % np.uint64(share) == np.uint64(0) and values[i, j] == values[i, j]:
            drawn = np.int64((h >> np.uint64(12)) % np.uint64(2 * LONGEST_RUN))
            row[m], run[m], sure[m] = i, max(drawn - LONGEST_RUN + 1, 0), True
            together[m] = (h >> np.uint64(20)) % np.uint64(2) == np.uint64(1)
            m += 1
        elif (h >> np.uint64(24)) % np.uint64(after_silence) == np.uint64(0):
            row[m] = i
            m += 1
    return Trials(attribute, row[:m].copy(), run[:m].copy(), together[:m].copy(), sure[:m].copy())


@kernel
def known_values(lo, raw, signs):
    """(n, d) attributes as the user sees them, where they came as single, plausible values; NaN elsewhere.

    lo (n, d): of the clouds, oriented; raw (n, d): as they came. What an imputer has filled in differs from raw.
    """
    n, d = lo.shape
    out = np.empty((n, d))
    for i in range(n):
        for j in range(d):
            came = lo[i, j] * signs[j] + 0.0
            out[i, j] = came if came == raw[i, j] else np.nan
    return out
