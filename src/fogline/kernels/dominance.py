"""Does one uncertain row dominate another, and how likely?

Larger is better in here. Attributes are independent, so for an instance x
Pr{g dominates x} = prod_j Pr{g_j >= x_j} - prod_j Pr{g_j = x_j}. That is linear in the number of values; g's instances
are never enumerated.

A row surely dominates another if and only if its worst instance dominates the other's best one. Worst and best are the
ends of the present distributions. A row's box may be wider; what boxes show holds whatever is learnt later.

What a tie means stands in `compare` alone, and of probabilities in the difference above.
"""

from __future__ import annotations

from fogline.kernels.compile import inner, kernel

BEHIND, EVEN, AHEAD = 0, 1, 2  # worse somewhere; as good everywhere; nowhere worse, and better somewhere


@inner
def compare(so_far, x, y):
    """How a row compares with another: `so_far` (EVEN or AHEAD), then in one attribute more, with x beside y."""
    if not x >= y:  # also true for NaN: an unknown value never dominates
        return BEHIND
    return AHEAD if x > y else so_far


@kernel
def dominates(a, i, b, k):
    """Does row i of `a` (., d) dominate row k of `b` (., d)?"""
    found = EVEN
    for j in range(a.shape[1]):
        found = compare(found, a[i, j], b[k, j])
        if found == BEHIND:
            return False
    return found == AHEAD


@inner
def share(uncertain, g, j, x):
    """(Pr{g_j >= x}, Pr{g_j = x})."""
    lo, hi = uncertain.lo[g, j], uncertain.hi[g, j]
    start = uncertain.start[g, j]
    if x > hi:
        return 0.0, 0.0
    if x < lo:
        return 1.0, 0.0
    if start < 0:
        return 1.0, 1.0  # lo = x = hi
    a, b = start, start + uncertain.size[g, j] - 1
    while a < b:
        mid = (a + b) >> 1
        if uncertain.value[mid] >= x:
            b = mid
        else:
            a = mid + 1
    v = uncertain.value[a]
    if v < x:
        return 0.0, 0.0  # beyond all values, though not beyond the box
    return uncertain.tail[a], (uncertain.weight[a] if v == x else 0.0)


@inner
def low_end(uncertain, c, j):
    """The least value of a cell."""
    start = uncertain.start[c, j]
    return uncertain.value[start] if start >= 0 else uncertain.lo[c, j]


@inner
def high_end(uncertain, c, j):
    """The greatest value of a cell."""
    start = uncertain.start[c, j]
    return uncertain.value[start + uncertain.size[c, j] - 1] if start >= 0 else uncertain.hi[c, j]


@inner
def write_ends(uncertain, c, ends):
    """The worst and the best instance of a row, into `ends` (2, d)."""
    for j in range(ends.shape[1]):
        ends[0, j], ends[1, j] = low_end(uncertain, c, j), high_end(uncertain, c, j)


@inner
def surely_dominates_other(uncertain, g, others, o):
    """`surely_dominates` for rows in two different sets of columns."""
    found = EVEN
    for j in range(uncertain.lo.shape[1]):
        found = compare(found, low_end(uncertain, g, j), high_end(others, o, j))
        if found == BEHIND:
            return False
    return found == AHEAD


@inner
def surely_dominates(uncertain, g, o):
    """Does g dominate o whatever values both turn out to have? Exact: by the ends of distributions, not by products."""
    return surely_dominates_other(uncertain, g, uncertain, o)


@inner
def dominates_point(uncertain, g, points, i):
    """Pr{row g dominates point i of `points` (., d)}."""
    at_least = equal = 1.0
    for j in range(points.shape[1]):
        s, e = share(uncertain, g, j, points[i, j])
        at_least *= s
        equal *= e
        if at_least == 0.0:
            return 0.0
    return barely_dominates(uncertain, g, points, i) if 2.0 * equal > at_least else at_least - equal


@inner
def barely_dominates(uncertain, g, points, i):
    """`dominates_point` as a sum: where g is likely to be just as good, the difference would cancel most digits.

    Over the attributes so far, `better` is the chance to be nowhere worse and somewhere better, `equal` to be equal.
    """
    better, equal = 0.0, 1.0
    for j in range(points.shape[1]):
        s, e = share(uncertain, g, j, points[i, j])
        better = better * s + equal * (beyond(uncertain, g, j, points[i, j]) if e > 0.0 else s)
        equal *= e
    return better


@inner
def beyond(uncertain, g, j, x):
    """Pr{g_j > x}, where g_j may be x."""
    a, end = uncertain.start[g, j], uncertain.start[g, j] + uncertain.size[g, j]
    if a < 0:
        return 0.0
    b = end
    while a < b:
        mid = (a + b) >> 1
        if uncertain.value[mid] > x:
            b = mid
        else:
            a = mid + 1
    return uncertain.tail[a] if a < end else 0.0


@inner
def shares(uncertain, g, j, grid, at_least, equal):
    """`share` for all values of the grid's cell j, by one walk along both lists of values."""
    first, n = uncertain.start[g, j], uncertain.size[g, j]
    start, size = grid.start[j], grid.size[j]
    if first < 0:
        x = uncertain.lo[g, j]
        for k in range(size):
            v = grid.value[start + k]
            at_least[k] = 1.0 if x >= v else 0.0
            equal[k] = 1.0 if x == v else 0.0
        return
    a, end = first, first + n
    for k in range(size):
        v = grid.value[start + k]
        while a < end and uncertain.value[a] < v:
            a += 1
        if a == end:
            at_least[k] = equal[k] = 0.0
        else:
            at_least[k] = uncertain.tail[a]
            equal[k] = uncertain.weight[a] if uncertain.value[a] == v else 0.0


@inner
def dominates_row(uncertain, g, o):
    """Pr{g dominates o} for two uncertain rows."""
    at_least = equal = 1.0
    for j in range(uncertain.lo.shape[1]):
        first, n = uncertain.start[o, j], uncertain.size[o, j]
        a = b = 0.0
        if first < 0:
            a, b = share(uncertain, g, j, uncertain.lo[o, j])
        else:
            for k in range(first, first + n):
                s, e = share(uncertain, g, j, uncertain.value[k])
                a += uncertain.weight[k] * s
                b += uncertain.weight[k] * e
        at_least *= a
        equal *= b
        if at_least == 0.0:
            return 0.0
    return max(at_least - equal, 0.0)


chance_to_dominate = kernel(dominates_row.py_func)  # the same, to be called from Python


@inner
def corner_dominates_row(corner, g, uncertain, o):
    """(Pr{point g is nowhere worse than row o}, Pr{it dominates o}) for point g of `corner` (., d)."""
    at_least = equal = 1.0
    for j in range(corner.shape[1]):
        x = corner[g, j]
        first, n = uncertain.start[o, j], uncertain.size[o, j]
        a = b = 0.0
        if first < 0:
            a = 1.0 if x >= uncertain.lo[o, j] else 0.0
            b = 1.0 if x == uncertain.lo[o, j] else 0.0
        else:
            for k in range(first, first + n):
                a += uncertain.weight[k] if x >= uncertain.value[k] else 0.0
                b += uncertain.weight[k] if x == uncertain.value[k] else 0.0
        at_least *= a
        equal *= b
    return at_least, at_least - equal
