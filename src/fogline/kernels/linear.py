"""What would a value be if everything depended on everything else in straight lines?

The mean of one attribute given whichever of the others are known: that of the normal distribution with these means and
correlations. A row's answer is worked out from its own values alone, in a fixed order, so it has the same bits whatever
rows are asked about with it.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner, kernel

RIDGE = 1e-6  # added to each variance: attributes may be copies of each other


@kernel
def expected(lines, rows):
    """(n,) the last attribute's mean given rows (n, f), NaN = unknown; lines: mean, scale (f + 1,), correlation."""
    n, f = rows.shape
    out = np.empty(n)
    weight, before = np.zeros(f), np.zeros(f, np.bool_)
    for i in range(n):
        same = i > 0
        for k in range(f):
            there = not np.isnan(rows[i, k])
            same = same and there == before[k]
            before[k] = there
        if not same:
            _solve(lines.correlation, before, weight)
        moved = 0.0
        for k in range(f):
            if before[k]:
                moved += weight[k] * ((rows[i, k] - lines.mean[k]) / lines.scale[k])
        out[i] = lines.mean[f] + lines.scale[f] * moved
    return out


@inner
def _solve(correlation, there, weight):
    """Weights of the attributes that are there: by Cholesky's decomposition of their correlations."""
    f = there.shape[0]
    which = np.flatnonzero(there)
    m = which.shape[0]
    root, right = np.zeros((m, m)), np.zeros(m)
    for a in range(m):
        for b in range(a + 1):
            left = correlation[which[a], which[b]] + (RIDGE if a == b else 0.0)
            for c in range(b):
                left -= root[a, c] * root[b, c]
            root[a, b] = np.sqrt(max(left, RIDGE)) if a == b else left / root[b, b]
        right[a] = correlation[which[a], f]
        for c in range(a):
            right[a] -= root[a, c] * right[c]
        right[a] /= root[a, a]
    for a in range(m - 1, -1, -1):
        for c in range(a + 1, m):
            right[a] -= root[c, a] * right[c]
        right[a] /= root[a, a]
    weight[:] = 0.0
    for a in range(m):
        weight[which[a]] = right[a]
