"""What is a member's probability, and what do others that come and go do to it?

P(o) sums, over o's own places, the product of 1 - Pr{g beats place} over the open clouds g that can beat it at all.
Those products are kept as *integer sums of logarithms* (fixed point, 2^-42). Integers add and subtract exactly in any
order, so a rival that goes is taken out by subtracting what was added: no division, no drift, and a probability
depends only on what is in the window, never on history. A factor below 1e-12 counts as zero and is counted apart.
Rounding: 1.2e-13 per rival in the exponent. Range: 70,000 rivals that each all but surely beat the same place.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner
from fogline.kernels.dominance import beats, high_end, low_end, surely_beats
from fogline.kernels.places import beats_places, own_grid, place_weights, scratch_for
from fogline.kernels.states import IN, OUT
from fogline.kernels.twins import same_box
from fogline.kernels.words import covers, words

SCALE = 2.0**42
SURE = 1.0 - 1e-12  # beaten at least this likely: the factor is zero


@inner
def logarithm(p):
    """The fixed-point logarithm of 1 - p, for p below SURE."""
    return np.int64(np.rint(np.log1p(-p) * SCALE))


@inner
def account(chance, places, sign, sums, at):
    """Add (sign 1) or take away (sign -1) a rival's factors from a member's sums."""
    for k in range(places):
        if chance[k] >= SURE:
            sums.zeros[at + k] += sign
        elif chance[k] > 0.0:
            sums.logs[at + k] += sign * logarithm(chance[k])


@inner
def total(weight, places, sums, at):
    """The probability that the sums stand for."""
    out = 0.0
    for k in range(places):
        if sums.zeros[at + k] == 0:
            out += weight[k] * np.exp(sums.logs[at + k] / SCALE)
    return min(out, 1.0)


@inner
def absorb(live, g, m, sign, scratch):
    """Add cloud g to member m's sums (sign 1) or take it away (-1). Did that concern it? Without sums it may have."""
    places = live.columns.places[m]
    if places == 0:
        return True
    if not beats_places(live.clouds, g, m, own_grid(live.clouds, m), scratch):
        return False
    account(scratch.chance, places, sign, live.sums, live.columns.at[m])
    return True


@inner
def refresh(live, m, threshold, scratch):
    """Work out member m's probability from its sums; if it falls to the threshold, it is to be judged again."""
    columns, places = live.columns, live.columns.places[m]
    if places > 0:
        place_weights(own_grid(live.clouds, m), scratch.weight)
        columns.probability[m] = total(scratch.weight, places, live.sums, columns.at[m])
    if places == 0 or columns.probability[m] <= threshold:
        columns.state[m] = OUT
        columns.until[m] = -np.inf


@inner
def best_places(clouds, came, went):
    """The best place (n, d) of each cloud that came, then of each that went; is it that of the one before, too?"""
    a, d = came.shape[0], clouds.lo.shape[1]
    best, again = np.empty((a + went.shape[0], d)), np.zeros(a + went.shape[0], np.bool_)
    for k in range(best.shape[0]):
        g = came[k] if k < a else went[k - a]
        for j in range(d):
            best[k, j] = high_end(clouds, g, j)
        again[k] = k > 0 and same_box(best, best, k - 1, k)
    return best, again


@inner
def members_of(columns, used):
    """The slots of the answer."""
    out, n = np.empty(used, np.int64), 0
    for c in range(used):
        if columns.state[c] == IN:
            out[n] = c
            n += 1
    return out[:n]


@inner
def shift(live, members, came, went, limits):
    """Some open clouds came, some went: what does that do to the members? Those that fall are to be judged again.

    So are members with too many places to keep sums for, when anything that can beat them came or went; and at alpha 0
    (a negative threshold) those that one which came beats surely: no probability shows that exactly.
    """
    clouds, columns, d = live.clouds, live.columns, live.clouds.lo.shape[1]
    scratch, worst = scratch_for(limits.places), np.empty((1, d))
    best, again = best_places(clouds, came, went)
    strong, _ = words(best, best, live.cuts)
    for m in members:
        touched = looked = near = False
        for k in range(best.shape[0]):
            if not again[k]:  # of equal ones one is compared
                near = covers(strong[k], columns.word_lo[m], live.fence) and beats(best, k, clouds.lo, m)
                if near and not looked:
                    looked = True
                    for j in range(d):
                        worst[0, j] = low_end(clouds, m, j)
                near = near and beats(best, k, worst, 0)
            if near:
                g, sign = (came[k], 1) if k < came.shape[0] else (went[k - came.shape[0]], -1)
                touched |= absorb(live, g, m, sign, scratch)  # seldom: a call with so many arrays is not for every pair
                if limits.threshold < 0.0 and sign > 0 and surely_beats(clouds, g, m):
                    columns.state[m], columns.until[m] = OUT, -np.inf
        if touched:
            refresh(live, m, limits.threshold, scratch)
