"""The paper's dominance, lemmas and skyline probability, compiled, over many objects in columns.

Formulas are those of `lab/paper/objects.py` and `lab/paper/pruning.py`, which state what each is in the paper. Objects
of W_t, or of the skyline tree, stand side by side; the one that is asked about is columns of one slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner, kernel
from fogline.query import TOLERANCE

SPATIAL, MAX_CORNER, MIN_CORNER = 1, 2, 3
ABOVE, BELOW, SURELY_BELOW = 0, 1, 2


class Objects(NamedTuple):
    """Imputed objects. Each attribute has its values in the pools, at start : start + size."""

    low: Floats  # (slots, d) o.min, NaN where a slot is free
    high: Floats  # (slots, d) o.max
    expires: Floats  # (slots,)
    start: Ints  # (slots, d)
    size: Ints  # (slots, d)
    values: Floats  # (pool,) ascending within an attribute
    weights: Floats  # (pool,) adding up to 1 within an attribute
    tail: Floats  # (pool,) Pr{A >= values}


# ------------------------------------------------------------------------------------------------------------ dominance


@inner
def reach(c, i, j, x):
    """Pr{A_j >= x} and Pr{A_j > x} of object i."""
    begin = c.start[i, j]
    end = begin + c.size[i, j]
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if c.values[middle] < x:
            low = middle + 1
        else:
            high = middle
    at_least = c.tail[low] if low < end else 0.0
    if low == end or c.values[low] != x:
        return at_least, at_least
    return at_least, c.tail[low + 1] if low + 1 < end else 0.0


@inner
def reaches(high, n, low, o):
    """high[n] >= low[o] in every attribute: may n dominate o, or equal it?"""
    for j in range(high.shape[1]):
        if not high[n, j] >= low[o, j]:  # also true of a free slot, which is NaN
            return False
    return True


@inner
def beyond(high, n, low, o):
    """Definition 4 for corners: high[n] ≺ low[o]."""
    some = False
    for j in range(high.shape[1]):
        if not high[n, j] >= low[o, j]:
            return False
        some |= high[n, j] > low[o, j]
    return some


@inner
def over_point(c, n, at, o):
    """Pr{n ≺ x} for the corner x = at[o]."""
    at_least = equal = 1.0
    for j in range(at.shape[1]):
        reached, above = reach(c, n, j, at[o, j])
        at_least *= reached
        equal *= reached - above
        if at_least == 0.0:
            return 0.0
    return at_least - equal


@inner
def point_over(low, n, c, o):
    """Pr{x ≺ o} for the corner x = low[n]."""
    at_most = equal = 1.0
    for j in range(low.shape[1]):
        reached, above = reach(c, o, j, low[n, j])
        at_most *= 1.0 - above
        equal *= reached - above
    return at_most - equal


@inner
def chance(c, n, b, o):
    """Eq. 2: Pr{n ≺ o}, a product over attributes."""
    if not reaches(c.high, n, b.low, o):
        return 0.0
    if beyond(c.low, n, b.high, o):
        return 1.0
    at_least = equal = 1.0
    for j in range(c.low.shape[1]):
        p = q = 0.0
        for k in range(b.start[o, j], b.start[o, j] + b.size[o, j]):
            reached, above = reach(c, n, j, b.values[k])
            p += b.weights[k] * reached
            q += b.weights[k] * (reached - above)
        at_least *= p
        equal *= q
    return at_least - equal


@inner
def enough(p, alpha):
    """Pr >= 1 - α."""
    return alpha > 0 and p >= 1 - alpha - TOLERANCE


@inner
def likely_pair(c, n, b, o, alpha):
    """Pr{n ≺ o} >= 1 - α."""
    if not reaches(c.high, n, b.low, o):
        return False
    return beyond(c.low, n, b.high, o) or enough(chance(c, n, b, o), alpha)


@kernel
def dominance(a, b):
    """Eq. 2 for two objects alone."""
    return chance(a, 0, b, 0)


@kernel
def is_likely(a, b, alpha):
    """Pr{a ≺ b} >= 1 - α for two objects alone."""
    return likely_pair(a, 0, b, 0, alpha)


# --------------------------------------------------------------------------------------------------------------- lemmas


@inner
def prunes(c, n, b, o, lemma, alpha):
    """Does n prune o by this lemma? The caller has looked at when they expire."""
    if lemma == SPATIAL:
        return beyond(c.low, n, b.high, o)
    if lemma == MAX_CORNER:
        return enough(over_point(c, n, b.high, o), alpha)
    return enough(point_over(c.low, n, b, o), alpha)


@kernel
def pruned_by(c, used, o, alpha, lemmas):
    """The first of the lemmas (l,) by which some object prunes o, each tried with all objects; 0 if there is none."""
    near, m = np.empty(used, np.int64), 0
    for n in range(used):
        if c.expires[n] >= o.expires[0] and reaches(c.high, n, o.low, 0):
            near[m] = n
            m += 1
    for lemma in lemmas:
        for n in near[:m]:
            if prunes(c, n, o, 0, lemma, alpha):
                return lemma
    return 0


# ----------------------------------------------------------------------------------------------------- one against many


@kernel
def find(c, used, o, side):
    """Which objects may dominate o (ABOVE), may be dominated by it (BELOW), or surely are, or equal it?"""
    out, m = np.empty(used, np.int64), 0
    for n in range(used):
        if side == ABOVE:
            hit = reaches(c.high, n, o.low, 0)
        elif side == BELOW:
            hit = reaches(o.high, 0, c.low, n)
        else:
            hit = reaches(o.low, 0, c.high, n)
        if hit:
            out[m] = n
            m += 1
    return out[:m]


@kernel
def find_likely(c, used, o, side, alpha):
    """Which objects dominate o with 1 - α (ABOVE), or are dominated by it (BELOW)?"""
    out, m = np.empty(used, np.int64), 0
    for n in range(used):
        if likely_pair(c, n, o, 0, alpha) if side == ABOVE else likely_pair(o, 0, c, n, alpha):
            out[m] = n
            m += 1
    return out[:m]


@kernel
def find_expired(c, used, now):
    """Which objects have expired?"""
    out, m = np.empty(used, np.int64), 0
    for n in range(used):
        if c.expires[n] <= now and c.low[n, 0] == c.low[n, 0]:
            out[m] = n
            m += 1
    return out[:m]


# ---------------------------------------------------------------------------------------------------------- probability


@kernel
def corner_probability(c, near, o):
    """The skyline probability of o.min over the objects `near`."""
    left = 1.0
    for n in near:
        left *= 1.0 - over_point(c, n, o.low, 0)
        if left == 0.0:
            break
    return left


@kernel
def product_over_objects(c, near, o):
    """Eq. 4: Σ over instances of o_il.p · Π over the objects `near` of (1 - Pr{c ≺ o_il})."""
    d, instances, widest = o.low.shape[1], 1, 1
    for j in range(d):
        instances *= o.size[0, j]
        widest = max(widest, o.size[0, j])
    left, digit = np.ones(instances), np.zeros(d, np.int64)
    reached, equal = np.empty((d, widest)), np.empty((d, widest))
    for k in range(instances):
        for j in range(d):
            left[k] *= o.weights[o.start[0, j] + digit[j]]
        step(digit, o.size)
    for n in near:
        if beyond(c.low, n, o.high, 0):
            return 0.0
        for j in range(d):
            for k in range(o.size[0, j]):
                r, above = reach(c, n, j, o.values[o.start[0, j] + k])
                reached[j, k], equal[j, k] = r, r - above
        for k in range(instances):
            p = q = 1.0
            for j in range(d):
                p *= reached[j, digit[j]]
                q *= equal[j, digit[j]]
            left[k] *= 1.0 - (p - q)
            step(digit, o.size)
    return left.sum()


@inner
def step(digit, size):
    """The next instance: which value of each attribute it has. After the last comes the first."""
    for j in range(digit.shape[0]):
        digit[j] += 1
        if digit[j] < size[0, j]:
            return
        digit[j] = 0


# ------------------------------------------------------------------------------------------------------- a scan of R


@kernel
def scan(points, centre, radius):
    """(n,) which rows of R are within the radii of the first centre? NaN is the wildcard. Every row is looked at."""
    out, m = np.empty(points.shape[0], np.int64), 0
    for r in range(points.shape[0]):
        inside = True
        for j in range(points.shape[1]):
            x = centre[j]
            if x == x and not abs(points[r, j] - x) <= radius[j]:
                inside = False
                break
        if inside:
            out[m] = r
            m += 1
    return out[:m]
