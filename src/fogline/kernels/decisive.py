"""How would a cloud's probability move if one missing cell, its own or a rival's, were known?

P = sum over places x: weight(x) · product over rivals c of (1 - Pr{c beats x}). To know a cell of the cloud is to keep
the places with that value; to know one of a rival's is to change that rival's factor, and no other. Both are summed
over the values of the cell: what it would move on average is exact, and so are the values at which the cloud would
enter or leave. As a rival's value grows, P never does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.flips import NEVER, beats_but, grid_for, own_flip, stands
from fogline.kernels.fronts import longest_of, near_of
from fogline.kernels.places import ROOM, beats_places, empty_grid, place_weights, scratch_for
from fogline.kernels.states import OUT, SEALED

MOST = 10  # rivals, and cells of rivals, that are listed
CLOSE = 1e-12  # what differs by less is alike: the first counts


class Why(NamedTuple):
    """What is found of q clouds: d attributes, at most MOST of what is listed, slots -1 where there are fewer."""

    probability: Floats  # (q,)
    exact: Ints  # (q,) whether all was worked out exactly
    front: Ints  # (q,) see `kernels.fronts`
    rival: Ints  # (q, MOST) slots, those most likely to beat it first
    chance: Floats  # (q, MOST) how likely they do
    side: Ints  # (q, d) of its own cells: NEVER, FROM or ABOVE, see `kernels.flips`
    value: Floats  # (q, d)
    then: Floats  # (q, d) its probability on the other side
    decisive: Ints  # (q, 2) slot and attribute of the cell that would move it most; -1: there is none
    moves: Floats  # (q,) by how much on average
    other: Ints  # (q, MOST, 2) slots and attributes of rivals' cells that would flip it, the likeliest first
    other_value: Floats  # (q, MOST) the value of the cell nearest to those at which it stays as it is
    other_chance: Floats  # (q, MOST) how likely the cell has that value or one beyond
    other_then: Floats  # (q, MOST) its probability at that value


class Places(NamedTuple):
    """The places of one cloud, and what is left of them."""

    weight: Floats  # (places,)
    left: Floats  # (places,) the product over rivals of 1 - Pr{it beats the place}, but for those that surely do, …
    sure: Ints  # (places,) … and how many these are


@inner
def no_answers(q, d):
    """Room for what is found."""
    return Why(
        np.zeros(q), np.ones(q, np.int64), np.zeros(q, np.int64), np.full((q, MOST), -1), np.full((q, MOST), -1.0),
        np.full((q, d), NEVER), np.zeros((q, d)), np.zeros((q, d)), np.full((q, 2), -1), np.zeros(q),
        np.full((q, MOST, 2), -1), np.zeros((q, MOST)), np.full((q, MOST), -1.0), np.zeros((q, MOST)),
    )  # fmt: skip


@inner
def rank(chances, chance):
    """Where a chance belongs among those that are listed, the greatest first; MOST: nowhere."""
    at = MOST
    while at > 0 and chance > chances[at - 1] + CLOSE:
        at -= 1
    return at


@inner
def list_rival(why, k, g, chance):
    at = rank(why.chance[k], chance)
    if at < MOST:
        why.chance[k, at + 1 :] = why.chance[k, at:-1].copy()
        why.rival[k, at + 1 :] = why.rival[k, at:-1].copy()
        why.chance[k, at], why.rival[k, at] = chance, g


@inner
def list_other(why, k, g, j, value, chance, then):
    at = rank(why.other_chance[k], chance)
    if at < MOST:
        for each in (why.other_value, why.other_chance, why.other_then):
            each[k, at + 1 :] = each[k, at:-1].copy()
        why.other[k, at + 1 :] = why.other[k, at:-1].copy()
        why.other[k, at, 0], why.other[k, at, 1] = g, j
        why.other_value[k, at], why.other_chance[k, at], why.other_then[k, at] = value, chance, then


@inner
def look_at_rivals(clouds, o, near, grid, places, scratch, why, k):
    """What all rivals leave of each place; the strongest are listed. Returns o's probability."""
    n = places.weight.shape[0]
    places.left[:], places.sure[:] = 1.0, 0
    for g in near:
        if not beats_places(clouds, g, o, grid, scratch):
            continue
        chance = 0.0
        for x in range(n):
            p = max(scratch.chance[x], 0.0)
            chance += places.weight[x] * p
            if p >= 1.0:
                places.sure[x] += 1
            else:
                places.left[x] *= 1.0 - p
        if chance > 0.0:
            list_rival(why, k, g, min(chance, 1.0))
    total = 0.0
    for x in range(n):
        if places.sure[x] == 0:
            total += places.weight[x] * places.left[x]
    return min(total, 1.0)


@inner
def stride_of(grid, j):
    """How many places lie between two that differ in nothing but cell j having the next value."""
    out = 1
    for i in range(j + 1, grid.start.shape[0]):
        if grid.start[i] >= 0:
            out *= grid.size[i]
    return out


@inner
def by_own_cell(grid, places, j, probability, sums):
    """By how much o's probability moves on average if its own cell j becomes known."""
    n, stride = grid.size[j], stride_of(grid, j)
    sums[:n] = 0.0
    for x in range(places.weight.shape[0]):
        if places.sure[x] == 0:
            sums[(x // stride) % n] += places.weight[x] * places.left[x]
    moves = 0.0
    for y in range(n):
        moves += abs(sums[y] - grid.weight[grid.start[j] + y] * probability)
    return moves


@inner
def without(clouds, g, o, grid, places, scratch, alone):
    """What rivals other than g leave of each place, into `alone`; and whether another surely beats o's best place."""
    n = places.weight.shape[0]
    beats_places(clouds, g, o, grid, scratch)
    others = False
    for x in range(n):
        p = max(scratch.chance[x], 0.0)
        sure = places.sure[x] - (1 if p >= 1.0 else 0)
        alone[x] = 0.0 if sure > 0 else places.weight[x] * places.left[x] / (1.0 if p >= 1.0 else 1.0 - p)
        others = sure > 0
    return others


@inner
def by_rivals_cell(clouds, g, j, o, grid, places, others, probability, inside, threshold, scratch, alone, sums):
    """As `by_own_cell` for cell j of rival g; and the value at which o flips, its chance, and o's probability then.

    The value is NaN where o flips at none.
    """
    n = places.weight.shape[0]
    beats_but(clouds, g, o, j, grid, scratch.chance, scratch.tie, scratch)
    own, stride = (grid.size[j], stride_of(grid, j)) if grid.start[j] >= 0 else (1, n)
    sums[:, :own] = 0.0
    base = 0.0
    for x in range(n):
        y = (x // stride) % own
        base += alone[x]
        sums[0, y] += alone[x] * scratch.chance[x]
        sums[1, y] += alone[x] * scratch.tie[x]
    best, best_tie = scratch.chance[n - 1], scratch.tie[n - 1]
    moves, below, passed = 0.0, 0.0, 0
    value, chance, then = np.nan, 0.0, 0.0
    first, count = clouds.start[g, j], clouds.size[g, j]
    for i in range(first, first + count):
        v, equal, last_tie = clouds.value[i], 0.0, 0.0
        while passed < own and own_value(clouds, o, grid, j, passed) <= v:
            below += sums[0, passed]
            if own_value(clouds, o, grid, j, passed) == v:
                equal = sums[1, passed]
                last_tie = best_tie
            passed += 1
        p = min(max(base - below + equal, 0.0), 1.0)
        moves += clouds.weight[i] * abs(p - probability)
        sure = others or (passed == own and best - last_tie >= 1.0)
        there = stands(p, sure, threshold)
        if inside and not there and np.isnan(value) and i > first:
            value, chance, then = v, clouds.tail[i], p
        if not inside and there and i < first + count - 1:
            value, chance, then = v, 1.0 - clouds.tail[i + 1], p
    return moves, value, chance, then


@inner
def own_value(clouds, o, grid, j, y):
    """The y-th value of o's cell j."""
    return grid.value[grid.start[j] + y] if grid.start[j] >= 0 else clouds.lo[o, j]


@inner
def look_at_cells(clouds, o, near, grid, places, inside, threshold, scratch, why, k):
    """Which missing cell would move o most, and which of its rivals' would flip it."""
    d, n = clouds.lo.shape[1], places.weight.shape[0]
    probability, alone = why.probability[k], np.empty(n)
    sums = np.empty((2, n))
    for j in range(d):
        if grid.start[j] >= 0:
            moves = by_own_cell(grid, places, j, probability, sums[0])
            if moves > why.moves[k] + CLOSE:
                why.moves[k], why.decisive[k, 0], why.decisive[k, 1] = moves, o, j
    for g in near:
        others, looked = False, False
        for j in range(d):
            if clouds.start[g, j] < 0 or clouds.size[g, j] == 1:
                continue
            if not looked:
                others, looked = without(clouds, g, o, grid, places, scratch, alone), True
            moves, value, chance, then = by_rivals_cell(
                clouds, g, j, o, grid, places, others, probability, inside, threshold, scratch, alone, sums
            )
            if moves > why.moves[k] + CLOSE:
                why.moves[k], why.decisive[k, 0], why.decisive[k, 1] = moves, g, j
            if not np.isnan(value):
                list_other(why, k, g, j, value, chance, then)


@inner
def concerned(live, lows, highs, o, alive, sealer, space, lacks):
    """The clouds that count if one of o's values changes, into `space`; how many?

    `lacks`: the one attribute in which the cloud always has less than o, so that it counts if that value changes; -1:
    there is none, and it counts whichever does.
    """
    d, m, state = lows.shape[1], 0, live.columns.state
    for g in alive:
        if (state[g] < OUT and sealer[g] != o) or g == o:
            continue
        few, which = 0, -1
        for j in range(d):
            if highs[g, j] < lows[o, j]:
                few += 1
                which = j
                if few > 1:
                    break
        if few < 2:
            space[m], lacks[m] = g, which
            m += 1
    return m


@kernel
def look_into(live, lows, highs, asked, inside, alive, opened, sealer, threshold, work):
    """What is to be stated of the clouds `asked` (q,), `inside` (q,) of which are in; see `Why`.

    lows, highs (slots, d): the ends of all clouds. `alive`, `opened`: the slots of all clouds, and of the open
    ones, in an order that does not depend on where they lie, since products are rounded; `sealer` (slots,): of a
    sealed cloud the one open cloud that surely beats it; -1: there are several, or it is not sealed. `work`: how many
    places times rivals are looked at together; rows that have more are looked at coarsely.
    """
    clouds, d = live.clouds, live.clouds.lo.shape[1]
    why, scratch = no_answers(asked.shape[0], d), scratch_for(ROOM)
    space, some, lacks = np.empty((3, live.used), np.int64)
    weight, left, sure = np.empty(ROOM), np.empty(ROOM), np.empty(ROOM, np.int64)
    for k in range(asked.shape[0]):
        o = asked[k]
        grid = empty_grid(longest_of(clouds, o) + d, d)
        why.front[k], m = near_of(lows, highs, o, opened, space)
        exact = grid_for(clouds, o, -1, space[:m], ROOM, work, grid)
        n = place_weights(grid, weight)
        places = Places(weight[:n], left[:n], sure[:n])
        why.probability[k] = look_at_rivals(clouds, o, space[:m], grid, places, scratch, why, k)
        look_at_cells(clouds, o, space[:m], grid, places, inside[k], threshold, scratch, why, k)
        m = concerned(live, lows, highs, o, alive, sealer, space, lacks)
        for j in range(d):
            near = 0
            for r in range(m):
                if lacks[r] < 0 or (lacks[r] == j and inside[k]):  # to enter, its value grows
                    some[near] = space[r]
                    near += 1
            found = own_flip(clouds, o, j, some[:near], inside[k], threshold, work, grid, weight, scratch)
            why.side[k, j], why.value[k, j], why.then[k, j] = found[0], found[1], found[2]
            exact = exact and found[3]
        why.exact[k] = exact
    return why


@kernel
def sealers(live, asked, opened):
    """(slots,) of each sealed cloud the one of `asked` that surely beats it, if it is the only open cloud to do so.

    -1 elsewhere. Should that one be worse, the sealed cloud would count.
    """
    clouds, columns = live.clouds, live.columns
    out = np.full(live.used, -1)
    for c in range(live.used):
        if columns.state[c] != SEALED:
            continue
        for o in asked:
            if beats(clouds.lo, o, clouds.hi, c):
                out[c] = o
                break
        if out[c] >= 0:
            for g in opened:
                if g != out[c] and beats(clouds.lo, g, clouds.hi, c):
                    out[c] = -1
                    break
    return out
