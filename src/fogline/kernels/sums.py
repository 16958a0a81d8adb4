"""What is a member's probability, and what do others that come and go do to it?

P(o) sums, over o's own instances, the product of 1 - Pr{g dominates it} over the open rows g that can do so at all.
Those products are kept as *integer sums of logarithms*. Integers add and subtract exactly in any order, so a row that
goes is taken out by subtracting what was added: no division, no drift, and a probability depends only on what is in the
window, never on history. A factor below 1e-12 counts as zero and is counted apart.

Two words of 64 bits hold a sum: whole units of 2^-27, and what is left of each logarithm in units of 2^-59. No carry
goes from one to the other: each word is a sum by itself.

Range. A logarithm is above -28, and a remainder is at most half a unit of the first word, 2^31 of the second. So for
fewer than 2^31 dominators the words stay below 28 · 2^27 · 2^31 < 2^63, and 2^31 · 2^31 < 2^63: neither can overflow.

Error of P, for n dominators. Let L be the sum at an instance, and u = 2^-53, the rounding of a float.
- Each logarithm is rounded by at most 2^-60, so L by n · 2^-60. Since exp(L) <= 1 and weights add up to 1, P is off by
  no more: 8.7e-12 for 10^7 dominators.
- log1p, the two words as one float, and exp are off by a few u · |L|, and |L| exp(L) < 0.37: below 1e-15.
- A chance p that is off by r · p changes P by at most r times Pr{just one dominates it} <= r, whatever n is. A
  chance is a product of tails, and where ties would cancel it is summed otherwise (`barely_dominates`), so r is a few
  u per attribute and per value that a tail adds up: 1e-11 for lists of 10^5 values.
- Factors that count as zero: 1e-12. Adding up instances: u for each, 1.1e-10 for a million.
Together that is below 1e-9 for 10^7 dominators, and for more.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner
from fogline.kernels.dominance import dominates, high_end, low_end, surely_dominates
from fogline.kernels.instances import dominates_instances, instance_weights, own_grid
from fogline.kernels.sorting import same_box
from fogline.kernels.states import IN, OUT
from fogline.kernels.words import covers, words

UNIT = 2.0**27  # the first word counts in units of 1 / UNIT, …
FINER = 2.0**32  # … and the second one in so many parts of it
SURE = 1.0 - 1e-12  # dominated at least this likely: the factor is zero
UP = 1.0 + 2.0**-51  # more than what three roundings take away: a product of such factors is an upper bound


@inner
def two_words(x):
    """x in fixed point."""
    units = x * UNIT
    whole = np.rint(units)
    return np.int64(whole), np.int64(np.rint((units - whole) * FINER))


@inner
def as_float(first, second):
    """The number that two words stand for."""
    return first / UNIT + second / (UNIT * FINER)


@inner
def add_to(sums, k, x):
    """Add x to the k-th of some sums (n, 2)."""
    first, second = two_words(x)
    sums[k, 0] += first
    sums[k, 1] += second


@inner
def number(sums, k):
    """The k-th of some sums (n, 2)."""
    return as_float(sums[k, 0], sums[k, 1])


@inner
def spared(p):
    """1 - p, rounded so that a product of such factors is no less than the true one."""
    return (1.0 - max(p, 0.0)) * UP


@inner
def left_by(uncertain, g, o, grid, instances, scratch):
    """Multiply what is left of each instance of o (`scratch.left`) by the probability that g does not dominate it.

    Returns the sum of what is left then; -1: g dominates no instance.
    """
    if not dominates_instances(uncertain, g, o, grid, scratch):
        return -1.0
    left = 0.0
    for k in range(instances):
        scratch.left[k] *= spared(scratch.chance[k])
        left += scratch.left[k]
    return left


@inner
def account(chance, instances, sign, sums, at):
    """Add (sign 1) or take away (sign -1) a dominator's factors from a member's sums."""
    for k in range(instances):
        if chance[k] >= SURE:
            sums.zeros[at + k] += sign
        elif chance[k] > 0.0:
            first, second = two_words(np.log1p(-chance[k]))
            sums.logs[at + k, 0] += sign * first
            sums.logs[at + k, 1] += sign * second


@inner
def clear(sums, at, instances):
    """No dominator is in these sums."""
    for k in range(at, at + instances):
        sums.logs[k, 0] = sums.logs[k, 1] = sums.zeros[k] = 0


@inner
def left_of(sums, k):
    """The probability that nothing dominates the instance of sum k."""
    return np.exp(number(sums.logs, k)) if sums.zeros[k] == 0 else 0.0


@inner
def total(weight, instances, sums, at):
    """The probability that the sums stand for."""
    out = 0.0
    for k in range(instances):
        out += weight[k] * left_of(sums, at + k)
    return min(out, 1.0)


@inner
def absorb(live, g, m, sign, scratch):
    """Add row g to member m's sums (sign 1) or take it away (-1). Did that concern it? Without sums it may have."""
    instances = live.columns.instances[m]
    if instances == 0:
        return True
    if not dominates_instances(live.uncertain, g, m, own_grid(live.uncertain, m), scratch):
        return False
    account(scratch.chance, instances, sign, live.sums, live.columns.at[m])
    return True


@inner
def refresh(live, m, threshold, scratch):
    """Work out member m's probability from its sums; if it falls to the threshold, it is to be judged again."""
    columns, instances = live.columns, live.columns.instances[m]
    if instances > 0:
        instance_weights(own_grid(live.uncertain, m), scratch.weight)
        columns.probability[m] = total(scratch.weight, instances, live.sums, columns.at[m])
    if instances == 0 or columns.probability[m] <= threshold:
        columns.state[m] = OUT
        columns.until[m] = -np.inf


@inner
def best_instances(uncertain, came, went):
    """The best instance (n, d) of each row that came, then of each that went; is it that of the one before, too?"""
    a, d = came.shape[0], uncertain.lo.shape[1]
    best, again = np.empty((a + went.shape[0], d)), np.empty(a + went.shape[0], np.bool_)
    for k in range(best.shape[0]):
        g = came[k] if k < a else went[k - a]
        for j in range(d):
            best[k, j] = high_end(uncertain, g, j)
        again[k] = k > 0 and same_box(best, best, k - 1, k)
    return best, again


@inner
def members_of(columns, which, out):
    """Those of some slots that are in the answer, into `out`; returns how many."""
    n = 0
    for c in which:
        if columns.state[c] == IN:
            out[n] = c
            n += 1
    return n


@inner
def shift(live, members, came, went, limits, scratch):
    """Some open rows came, some went: what does that do to the members? Those that fall are to be judged again.

    So are members with too many instances to keep sums for, when anything that can dominate them came or went. At alpha
    0 (a negative threshold) those are that one which came surely dominates: no probability shows that.
    """
    uncertain, columns, d = live.uncertain, live.columns, live.uncertain.lo.shape[1]
    worst = np.empty((1, d))
    best, again = best_instances(uncertain, came, went)
    strong, _ = words(best, best, live.cuts)
    for m in members:
        touched = looked = near = False
        for k in range(best.shape[0]):
            if not again[k]:  # of equal ones one is compared
                near = covers(strong[k], columns.word_lo[m], live.fence) and dominates(best, k, uncertain.lo, m)
                if near and not looked:
                    looked = True
                    for j in range(d):
                        worst[0, j] = low_end(uncertain, m, j)
                near = near and dominates(best, k, worst, 0)
            if near:
                g, sign = (came[k], 1) if k < came.shape[0] else (went[k - came.shape[0]], -1)
                touched |= absorb(live, g, m, sign, scratch)  # seldom: a call with so many arrays is not for every pair
                if limits.threshold < 0.0 and sign > 0 and surely_dominates(uncertain, g, m):
                    columns.state[m], columns.until[m] = OUT, -np.inf
        if touched:
            refresh(live, m, limits.threshold, scratch)
