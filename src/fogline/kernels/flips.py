"""At which value of one of its cells would a cloud enter or leave the answer?

As a function of its own value v in one attribute, all else as it is, a cloud's probability never falls as v grows. It
changes only at the values that others have there: it is constant between two of them, and may have another value on
each. So the values and the gaps between them, the *steps*, are searched by bisection for the first at which the cloud
is in. Step 2k + 1 is the k-th value itself, 2k the gap below it.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner
from fogline.kernels.dominance import share
from fogline.kernels.merged import breaks_of, merge_places
from fogline.kernels.places import coarsen, distributed, place_weights

NEVER, FROM, ABOVE = 0, 1, 2  # it flips at no value; it is in from that value on; it is in above that value
GONE = 1e-18  # a place of so little weight is given up


@inner
def beats_but(clouds, g, o, skip, grid, at_least, equal, scratch):
    """Per place of o's grid, Pr{g has at least as much} and Pr{g has the same}, over all attributes but one.

    False if the first is zero everywhere.
    """
    a = b = 1.0
    for j in range(clouds.lo.shape[1]):
        if grid.start[j] < 0 and j != skip:
            s, e = share(clouds, g, j, clouds.lo[o, j])
            a *= s
            b *= e
            if a == 0.0:
                return False
    at_least[0], equal[0] = a, b
    places = 1
    for j in range(clouds.lo.shape[1]):
        if grid.start[j] < 0:
            continue
        n, first = grid.size[j], grid.start[j]
        for m in range(n):
            if j == skip:
                scratch.at_least[m] = scratch.equal[m] = 1.0
            else:
                scratch.at_least[m], scratch.equal[m] = share(clouds, g, j, grid.value[first + m])
        for k in range(places - 1, -1, -1):
            a, b = at_least[k], equal[k]
            for m in range(n - 1, -1, -1):
                at_least[k * n + m] = a * scratch.at_least[m]
                equal[k * n + m] = b * scratch.equal[m]
        places *= n
    return True


@inner
def grid_for(clouds, o, skip, near, room, work, grid):
    """o's places over all cells but one, merged exactly, or if more are left than fit, coarsely. Are they exact?"""
    most = max(min(room, work // max(near.shape[0], 1)), 1)
    places = merge_places(clouds, o, near, grid)
    if skip >= 0:
        places /= grid.size[skip]
    if places <= most:
        exact = True
    else:
        cells, parts, exact = distributed(clouds, o), 1, False
        while (parts + 2.0) ** cells <= most:
            parts += 1
        coarsen(clouds, o, parts, grid)
    if skip >= 0:
        grid.start[skip], grid.size[skip] = -1, 1
    return exact


@inner
def left_at(clouds, near, j, breaks, step, table, ties, weight, places, share_of, tie_of):
    """o's probability if its value in attribute j lies on a step; and whether some rival surely beats its best place.

    table, ties (places, rivals): Pr{a rival has at least as much elsewhere}, Pr{it has the same}.
    """
    m = near.shape[0]
    for r in range(m):
        share_of[r] = tie_of[r] = 0.0
        if step < 2 * breaks.shape[0]:
            share_of[r], tie_of[r] = share(clouds, near[r], j, breaks[step >> 1])
            if step & 1 == 0:
                tie_of[r] = 0.0
    total, sure = 0.0, False
    for x in range(places):
        left = weight[x]
        for r in range(m):
            left *= 1.0 - max(table[x, r] * share_of[r] - ties[x, r] * tie_of[r], 0.0)
            if left < GONE:
                left = 0.0
                break
        total += left
    for r in range(m):
        sure |= table[places - 1, r] * share_of[r] - ties[places - 1, r] * tie_of[r] >= 1.0
    return min(total, 1.0), sure


@inner
def stands(probability, sure, threshold):
    """Is a cloud in? At alpha 0 it is, unless a rival surely beats it."""
    return not sure if threshold < 0.0 else probability > threshold


@inner
def own_flip(clouds, o, j, near, inside, threshold, work, grid, weight, scratch):
    """(FROM, ABOVE or NEVER, the value, the probability beyond it, whether that is exact) for o's attribute j."""
    exact = grid_for(clouds, o, j, near, weight.shape[0], work, grid)
    places, m = place_weights(grid, weight), near.shape[0]
    table, ties = np.zeros((places, m)), np.zeros((places, m))
    for r in range(m):
        if beats_but(clouds, near[r], o, j, grid, scratch.chance, scratch.tie, scratch):
            table[:, r], ties[:, r] = scratch.chance[:places], scratch.tie[:places]
    breaks = distinct(breaks_of(clouds, near, j))
    share_of, tie_of = np.empty(m), np.empty(m)
    low, high = 0, 2 * breaks.shape[0]  # above all values it is in
    while low < high:
        middle = (low + high) >> 1
        p, sure = left_at(clouds, near, j, breaks, middle, table, ties, weight, places, share_of, tie_of)
        if stands(p, sure, threshold):
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return NEVER, np.nan, np.nan, exact
    beyond = low - 1 if inside else low
    p, _ = left_at(clouds, near, j, breaks, beyond, table, ties, weight, places, share_of, tie_of)
    return FROM if low & 1 else ABOVE, breaks[(low - 1) >> 1], p, exact


@inner
def distinct(ascending):
    """Each value once."""
    m = 0
    out = np.empty_like(ascending)
    for k in range(ascending.shape[0]):
        if m == 0 or ascending[k] != out[m - 1]:
            out[m] = ascending[k]
            m += 1
    return out[:m]
