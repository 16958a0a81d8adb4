"""Which known values are hidden for a moment, to see how well they would be imputed?

A row is chosen by a hash of its time and values: by the row alone, whatever batch it comes in.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner, kernel


@inner
def mixed(x):
    """The same bits, well shaken: the end of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def hidden(time, values, share):
    """The rows, about one in `share`, of which a value is hidden, and which one.

    time (n,), values (n, d), NaN = missing. A gap is never chosen: a row whose choice falls on one is left out.
    """
    n, d = values.shape
    rows, which = np.empty(n, np.int64), np.empty(n, np.int64)
    bits, cell = time.view(np.uint64), np.empty(1)
    m = 0
    for i in range(n):
        h = mixed(bits[i])
        for j in range(d):
            cell[0] = values[i, j] if values[i, j] == values[i, j] else np.nan  # one NaN for all
            h = mixed(h ^ cell.view(np.uint64)[0])
        if h % np.uint64(share) == np.uint64(0):
            j = np.int64((h >> np.uint64(32)) % np.uint64(d))
            if values[i, j] == values[i, j]:
                rows[m], which[m] = i, j
                m += 1
    return rows[:m].copy(), which[:m].copy()


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
