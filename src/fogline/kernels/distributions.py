"""How do values that were found become distributions, and distributions cells of clouds?"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import kernel


@kernel
def distinct(offsets, values):
    """Sorted values as distinct ones with their frequencies: (start, size) of each list, values, counts."""
    n = offsets.shape[0] - 1
    start, size = np.zeros(n, np.int64), np.zeros(n, np.int64)
    out, counts = np.empty(values.shape[0]), np.empty(values.shape[0])
    at = 0
    for i in range(n):
        start[i] = at
        for k in range(offsets[i], offsets[i + 1]):
            if at > start[i] and out[at - 1] == values[k]:
                counts[at - 1] += 1.0
            else:
                out[at], counts[at] = values[k], 1.0
                at += 1
        size[i] = at - start[i]
    return start, size, out[:at].copy(), counts[:at].copy()


@kernel
def pour(found, rows, j, sign, clouds, cursor):
    """Write distributions into the cells (rows, j) of the clouds, oriented by the sign. Returns the new cursor."""
    for k in range(rows.shape[0]):
        i, first, n = rows[k], found.start[k], found.size[k]
        total = 0.0
        for m in range(first, first + n):
            total += found.often[m]
        for m in range(n):
            source = first + m if sign > 0 else first + n - 1 - m  # negated values rise the other way round
            clouds.value[cursor + m] = found.value[source] * sign + 0.0
            clouds.weight[cursor + m] = found.often[source] / total
        above = 0.0
        for m in range(cursor + n - 1, cursor - 1, -1):
            above += clouds.weight[m]
            clouds.tail[m] = above
        clouds.tail[cursor] = 1.0
        clouds.lo[i, j], clouds.hi[i, j] = clouds.value[cursor], clouds.value[cursor + n - 1]
        clouds.size[i, j] = n
        clouds.start[i, j] = cursor if n > 1 else -1
        cursor += n if n > 1 else 0
    return cursor
