"""In which order do keys stand?

Kernels never sort by `np.sort`: Numba gives its inner loops the names of those of `np.argsort`, so machine code that
different processes have kept may be linked to the wrong one of the two, and an argsort gives values for places. These
two also compile in a tenth of the time that either takes.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner

RUN = 8  # keys that are put in order by insertion before runs are merged


@inner
def _after(x, y):
    """Does x stand after y? NaN stands last."""
    return x > y or (x != x and y == y)


@inner
def _sort_run(keys, order, begin, end):
    for k in range(begin + 1, end):
        i, at = order[k], k
        while at > begin and _after(keys[order[at - 1]], keys[i]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@inner
def _merge_runs(keys, source, target, begin, middle, end):
    a, b = begin, middle
    for k in range(begin, end):
        if b == end or (a < middle and not _after(keys[source[a]], keys[source[b]])):
            target[k] = source[a]
            a += 1
        else:
            target[k] = source[b]
            b += 1


@inner
def argsort(keys):
    """The places of the keys in ascending order, equal ones in the order they come; NaN last."""
    n = keys.shape[0]
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    for begin in range(0, n, RUN):
        _sort_run(keys, order, begin, min(begin + RUN, n))
    width = RUN
    while width < n:
        for begin in range(0, n, 2 * width):
            _merge_runs(keys, order, other, begin, min(begin + width, n), min(begin + 2 * width, n))
        order, other = other, order
        width *= 2
    return order


@inner
def ascending(values):
    """The values, sorted; NaN last."""
    out = np.empty_like(values)
    order = argsort(values)
    for k in range(values.shape[0]):
        out[k] = values[order[k]]
    return out
