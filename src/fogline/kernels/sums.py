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
from fogline.kernels.dominance import beats
from fogline.kernels.places import beats_places, own_grid, place_weights, scratch_for
from fogline.kernels.states import IN, OUT
from fogline.kernels.words import covers

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
def meets(live, some, m, sign, scratch):
    """Add or take away the clouds `some` from member m's sums. Did any of them concern it?"""
    clouds, columns = live.clouds, live.columns
    touched = False
    for g in some:
        if not covers(columns.word_hi[g], columns.word_lo[m], live.fence) or not beats(clouds.hi, g, clouds.lo, m):
            continue
        if columns.places[m] == 0:
            touched = True
        elif beats_places(clouds, g, m, own_grid(clouds, m), scratch):
            account(scratch.chance, columns.places[m], sign, live.sums, columns.at[m])
            touched = True
    return touched


@inner
def shift(live, used, came, went, limits):
    """Some open clouds came, some went: what does that do to the members? Those that fall are to be judged again.

    So are members with too many places to keep sums for, when anything that can beat them came or went.
    """
    columns = live.columns
    scratch = scratch_for(limits.places)
    for m in range(used):
        if columns.state[m] != IN:
            continue
        touched = meets(live, came, m, 1, scratch)
        touched |= meets(live, went, m, -1, scratch)
        if not touched:
            continue
        places = columns.places[m]
        if places > 0:
            place_weights(own_grid(live.clouds, m), scratch.weight)
            columns.probability[m] = total(scratch.weight, places, live.sums, columns.at[m])
        if places == 0 or columns.probability[m] <= limits.threshold:
            columns.state[m] = OUT
            columns.until[m] = -np.inf
