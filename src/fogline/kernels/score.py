"""How good is a guess that is a distribution?

By the continuous ranked probability score (CRPS), E|X - y| - E|X - X'| / 2: zero for a single value that is right, the
absolute error for any single value, and least on average for the true distribution. Discovery, transitions of sensors
and the scores of a running stream all use `crps`.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import kernel


@kernel
def crps(start, size, value, often, truth):
    """(q,) scores of distributions value[start : start + size], ascending; NaN where size is 0. O(values)."""
    out = np.full(truth.shape[0], np.nan)
    for i in range(truth.shape[0]):
        off = apart = below = count = 0.0
        for k in range(start[i], start[i] + size[i]):
            off += often[k] * abs(value[k] - truth[i])
            apart += often[k] * (value[k] * count - below)  # the distances to all smaller ones
            below += often[k] * value[k]
            count += often[k]
        if size[i] > 0:
            out[i] = off / count - apart / count / count
    return out


@kernel
def central(start, size, value, often, truth, share):
    """(q,) whether truths lie in the central `share` of distributions, ends included. O(values).

    The ends are the least values that have (1 - share) / 2, and (1 + share) / 2, of the weight up to them.
    """
    out = np.zeros(truth.shape[0], np.bool_)
    for i in range(truth.shape[0]):
        total = np.sum(often[start[i] : start[i] + size[i]])
        slack, count, below, above = 1e-9 * max(abs(truth[i]), 1.0), 0.0, False, False
        for k in range(start[i], start[i] + size[i]):
            before, count = count, count + often[k] / total
            if before < (1 - share) / 2 - 1e-9 <= count:
                below = value[k] <= truth[i] + slack
            if before < (1 + share) / 2 - 1e-9 <= count:
                above = value[k] >= truth[i] - slack
        out[i] = below and above
    return out


@kernel
def widest_stretch(key, then, radius):
    """The largest distance of `then` among rows whose sorted keys are within `radius`. O(n), by two monotone queues."""
    n = key.shape[0]
    least, most = np.empty(n, np.int64), np.empty(n, np.int64)  # queues of rows, the extreme first
    a = b = c = d = 0  # least[a:b], most[c:d]
    out = 0.0
    first = 0
    for k in range(n):
        while key[k] - key[first] > radius:
            first += 1
        while a < b and least[a] < first:
            a += 1
        while c < d and most[c] < first:
            c += 1
        while b > a and then[least[b - 1]] >= then[k]:
            b -= 1
        while d > c and then[most[d - 1]] <= then[k]:
            d -= 1
        least[b], most[d] = k, k
        b += 1
        d += 1
        out = max(out, then[most[c]] - then[k], then[k] - then[least[a]])
    return out
