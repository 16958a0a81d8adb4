"""Does one cloud beat another, and how likely?

Larger is better in here. A cloud surely beats another if and only if its worst end beats the other's best one. The
ends are those of the present distributions; the box may be wider, and what it shows holds whatever is learnt later.
Attributes are independent, so Pr{g beats point x} = prod_j Pr{g_j >= x_j} - prod_j Pr{g_j = x_j}: linear in the number
of values, never an enumeration of g's places.
"""

from __future__ import annotations

from fogline.kernels.compile import inner, kernel


@kernel
def beats(a, i, b, k):
    """Is row i of `a` (., d) nowhere worse than row k of `b` (., d) and somewhere better?"""
    better = False
    for j in range(a.shape[1]):
        if not a[i, j] >= b[k, j]:  # also true for NaN: an unknown value never beats
            return False
        better |= a[i, j] > b[k, j]
    return better


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
    """The worst and the best place of a cloud, into `ends` (2, d)."""
    for j in range(ends.shape[1]):
        ends[0, j], ends[1, j] = low_end(uncertain, c, j), high_end(uncertain, c, j)


@inner
def surely_beats_other(uncertain, g, others, o):
    """`surely_beats`, of clouds that lie apart."""
    better = False
    for j in range(uncertain.lo.shape[1]):
        a, b = low_end(uncertain, g, j), high_end(others, o, j)
        if not a >= b:
            return False
        better |= a > b
    return better


@inner
def surely_beats(uncertain, g, o):
    """Does g beat o wherever the two turn out to be? Exactly: by the ends of their distributions, not by products."""
    return surely_beats_other(uncertain, g, uncertain, o)


@inner
def beats_point(uncertain, g, points, i):
    """Pr{cloud g beats row i of `points` (., d)}."""
    at_least = equal = 1.0
    for j in range(points.shape[1]):
        s, e = share(uncertain, g, j, points[i, j])
        at_least *= s
        equal *= e
        if at_least == 0.0:
            return 0.0
    return barely_beats(uncertain, g, points, i) if 2.0 * equal > at_least else at_least - equal


@inner
def barely_beats(uncertain, g, points, i):
    """`beats_point` without a difference: where g is likely to be just as good, that would cancel most digits.

    Over the attributes so far, `better` = at least as good everywhere and better somewhere, `equal` = just as good.
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
    """`share` for all values of a grid's cell j at once, by one walk along both lists."""
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
def beats_cloud(uncertain, g, o):
    """Pr{g beats o} for two clouds."""
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


chance_to_beat = kernel(beats_cloud.py_func)  # the same, to be called from Python


@inner
def corner_beats_cloud(corner, g, uncertain, o):
    """(Pr{corner[g] >= o everywhere}, Pr{corner[g] beats o}) for a corner of g as a point."""
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
