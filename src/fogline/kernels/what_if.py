"""How would a cloud's probability move if one missing cell, its own or a rival's, were known?

P = sum over places x: weight(x) · product over rivals c of (1 - Pr{c beats x}). To know a cell of the cloud is to keep
the places with that value; to know one of a rival's is to change that rival's factor, and no other. Both are summed
over the values of the cell: what it would move on average is exact, and so are the values at which the cloud would
enter or leave. As a rival's value grows, P never does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints, Scratch, Sums
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats, beats_point, high_end, low_end, share, write_ends
from fogline.kernels.instances import (
    ROOM,
    beats_places,
    breaks_of,
    coarsen,
    distributed,
    empty_grid,
    merge_places,
    own_grid,
    place_weights,
    reaches_places,
    scratch_for,
)
from fogline.kernels.judge import words_of
from fogline.kernels.states import DOMINATED, IN, OUT
from fogline.kernels.static import longest_of, near_of
from fogline.kernels.sums import SURE, account, clear, left_of
from fogline.kernels.words import BLOCK, any_covers, covers

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
def look_at_rivals(uncertain, o, near, grid, places, scratch, why, k):
    """What all rivals leave of each place; the strongest are listed. Returns o's probability."""
    n = places.weight.shape[0]
    places.left[:], places.sure[:] = 1.0, 0
    for g in near:
        if not beats_places(uncertain, g, o, grid, scratch):
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
def without(uncertain, g, o, grid, places, scratch, alone):
    """What rivals other than g leave of each place, into `alone`; and whether another surely beats o's best place."""
    n = places.weight.shape[0]
    beats_places(uncertain, g, o, grid, scratch)
    others = False
    for x in range(n):
        p = max(scratch.chance[x], 0.0)
        sure = places.sure[x] - (1 if p >= 1.0 else 0)
        alone[x] = 0.0 if sure > 0 else places.weight[x] * places.left[x] / (1.0 if p >= 1.0 else 1.0 - p)
        others = sure > 0
    return others


@inner
def by_rivals_cell(uncertain, g, j, o, grid, places, others, probability, inside, threshold, scratch, alone, sums):
    """As `by_own_cell` for cell j of rival g; and the value at which o flips, its chance, and o's probability then.

    The value is NaN where o flips at none.
    """
    n = places.weight.shape[0]
    beats_but(uncertain, g, o, j, grid, scratch.chance, scratch.tie, scratch)
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
    first, count = uncertain.start[g, j], uncertain.size[g, j]
    for i in range(first, first + count):
        v, equal, last_tie = uncertain.value[i], 0.0, 0.0
        while passed < own and own_value(uncertain, o, grid, j, passed) <= v:
            below += sums[0, passed]
            if own_value(uncertain, o, grid, j, passed) == v:
                equal = sums[1, passed]
                last_tie = best_tie
            passed += 1
        p = min(max(base - below + equal, 0.0), 1.0)
        moves += uncertain.weight[i] * abs(p - probability)
        sure = others or (passed == own and best - last_tie >= 1.0)
        there = stands(p, sure, threshold)
        if inside and not there and np.isnan(value) and i > first:
            value, chance, then = v, uncertain.tail[i], p
        if not inside and there and i < first + count - 1:
            value, chance, then = v, 1.0 - uncertain.tail[i + 1], p
    return moves, value, chance, then


@inner
def own_value(uncertain, o, grid, j, y):
    """The y-th value of o's cell j."""
    return grid.value[grid.start[j] + y] if grid.start[j] >= 0 else uncertain.lo[o, j]


@inner
def look_at_cells(uncertain, o, near, grid, places, inside, threshold, scratch, why, k):
    """Which missing cell would move o most, and which of its rivals' would flip it."""
    d, n = uncertain.lo.shape[1], places.weight.shape[0]
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
            if uncertain.start[g, j] < 0 or uncertain.size[g, j] == 1:
                continue
            if not looked:
                others, looked = without(uncertain, g, o, grid, places, scratch, alone), True
            moves, value, chance, then = by_rivals_cell(
                uncertain, g, j, o, grid, places, others, probability, inside, threshold, scratch, alone, sums
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
    uncertain, d = live.uncertain, live.uncertain.lo.shape[1]
    why, scratch = no_answers(asked.shape[0], d), scratch_for(ROOM)
    space, some, lacks = np.empty((3, live.used), np.int64)
    weight, left, sure = np.empty(ROOM), np.empty(ROOM), np.empty(ROOM, np.int64)
    for k in range(asked.shape[0]):
        o = asked[k]
        grid = empty_grid(longest_of(uncertain, o) + d, d)
        why.front[k], m = near_of(lows, highs, o, opened, space)
        exact = grid_for(uncertain, o, -1, space[:m], ROOM, work, grid)
        n = place_weights(grid, weight)
        places = Places(weight[:n], left[:n], sure[:n])
        why.probability[k] = look_at_rivals(uncertain, o, space[:m], grid, places, scratch, why, k)
        look_at_cells(uncertain, o, space[:m], grid, places, inside[k], threshold, scratch, why, k)
        m = concerned(live, lows, highs, o, alive, sealer, space, lacks)
        for j in range(d):
            near = 0
            for r in range(m):
                if lacks[r] < 0 or (lacks[r] == j and inside[k]):  # to enter, its value grows
                    some[near] = space[r]
                    near += 1
            found = own_flip(uncertain, o, j, some[:near], inside[k], threshold, work, grid, weight, scratch)
            why.side[k, j], why.value[k, j], why.then[k, j] = found[0], found[1], found[2]
            exact = exact and found[3]
        why.exact[k] = exact
    return why


@kernel
def sealers(live, asked, opened):
    """(slots,) of each sealed cloud the one of `asked` that surely beats it, if it is the only open cloud to do so.

    -1 elsewhere. Should that one be worse, the sealed cloud would count.
    """
    uncertain, columns = live.uncertain, live.columns
    out = np.full(live.used, -1)
    for c in range(live.used):
        if columns.state[c] != DOMINATED:
            continue
        for o in asked:
            if beats(uncertain.lo, o, uncertain.hi, c):
                out[c] = o
                break
        if out[c] >= 0:
            for g in opened:
                if g != out[c] and beats(uncertain.lo, g, uncertain.hi, c):
                    out[c] = -1
                    break
    return out


# --- flips ---
# At which value of one of its cells would a cloud enter or leave the answer?
#
# As a function of its own value v in one attribute, all else as it is, a cloud's probability never falls as v grows.
# It
# changes only at the values that others have there: it is constant between two of them, and may have another value on
# each. So the values and the gaps between them, the *steps*, are searched by bisection for the first at which the
# cloud
# is in. Step 2k + 1 is the k-th value itself, 2k the gap below it.

NEVER, FROM, ABOVE = 0, 1, 2  # it flips at no value; it is in from that value on; it is in above that value
GONE = 1e-18  # a place of so little weight is given up


@inner
def beats_but(uncertain, g, o, skip, grid, at_least, equal, scratch):
    """Per place of o's grid, Pr{g has at least as much} and Pr{g has the same}, over all attributes but one.

    False if the first is zero everywhere.
    """
    a = b = 1.0
    for j in range(uncertain.lo.shape[1]):
        if grid.start[j] < 0 and j != skip:
            s, e = share(uncertain, g, j, uncertain.lo[o, j])
            a *= s
            b *= e
            if a == 0.0:
                return False
    at_least[0], equal[0] = a, b
    places = 1
    for j in range(uncertain.lo.shape[1]):
        if grid.start[j] < 0:
            continue
        n, first = grid.size[j], grid.start[j]
        for m in range(n):
            if j == skip:
                scratch.at_least[m] = scratch.equal[m] = 1.0
            else:
                scratch.at_least[m], scratch.equal[m] = share(uncertain, g, j, grid.value[first + m])
        for k in range(places - 1, -1, -1):
            a, b = at_least[k], equal[k]
            for m in range(n - 1, -1, -1):
                at_least[k * n + m] = a * scratch.at_least[m]
                equal[k * n + m] = b * scratch.equal[m]
        places *= n
    return True


@inner
def grid_for(uncertain, o, skip, near, room, work, grid):
    """o's places over all cells but one, merged exactly, or if more are left than fit, coarsely. Are they exact?"""
    most = max(min(room, work // max(near.shape[0], 1)), 1)
    places = merge_places(uncertain, o, near, grid)
    if skip >= 0:
        places /= grid.size[skip]
    if places <= most:
        exact = True
    else:
        cells, parts, exact = distributed(uncertain, o), 1, False
        while (parts + 2.0) ** cells <= most:
            parts += 1
        coarsen(uncertain, o, parts, grid)
    if skip >= 0:
        grid.start[skip], grid.size[skip] = -1, 1
    return exact


@inner
def left_at(uncertain, near, j, breaks, step, table, ties, weight, places, share_of, tie_of):
    """o's probability if its value in attribute j lies on a step; and whether some rival surely beats its best place.

    table, ties (places, rivals): Pr{a rival has at least as much elsewhere}, Pr{it has the same}.
    """
    m = near.shape[0]
    for r in range(m):
        share_of[r] = tie_of[r] = 0.0
        if step < 2 * breaks.shape[0]:
            share_of[r], tie_of[r] = share(uncertain, near[r], j, breaks[step >> 1])
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
def own_flip(uncertain, o, j, near, inside, threshold, work, grid, weight, scratch):
    """(FROM, ABOVE or NEVER, the value, the probability beyond it, whether that is exact) for o's attribute j."""
    exact = grid_for(uncertain, o, j, near, weight.shape[0], work, grid)
    places, m = place_weights(grid, weight), near.shape[0]
    table, ties = np.zeros((places, m)), np.zeros((places, m))
    for r in range(m):
        if beats_but(uncertain, near[r], o, j, grid, scratch.chance, scratch.tie, scratch):
            table[:, r], ties[:, r] = scratch.chance[:places], scratch.tie[:places]
    breaks = distinct(breaks_of(uncertain, near, j))
    share_of, tie_of = np.empty(m), np.empty(m)
    low, high = 0, 2 * breaks.shape[0]  # above all values it is in
    while low < high:
        middle = (low + high) >> 1
        p, sure = left_at(uncertain, near, j, breaks, middle, table, ties, weight, places, share_of, tie_of)
        if stands(p, sure, threshold):
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return NEVER, np.nan, np.nan, exact
    beyond = low - 1 if inside else low
    p, _ = left_at(uncertain, near, j, breaks, beyond, table, ties, weight, places, share_of, tie_of)
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


# --- asking ---
# If the true value of one missing cell were known, how many rows would enter or leave the answer?
#
# Only open clouds matter: a sealed one stays sealed whatever its cells turn out to be, since values lie in its box.
# Let c
# be open, v a value of its cell j, and all else as it is. What c does to a place x of another cloud o is then
# A (v > x_j), A - E (v = x_j) or nothing (v < x_j), where A and E are the chances that c is as good, and just as
# good, in
# the other attributes. So P(o | v) falls with v, and follows from o's places without c. P(c | v) is the part of c's
# own
# places that has v, and rises with v. Each value at which a cloud is on the other side of alpha than now counts with
# its
# weight: that is the exact expectation.
#
# A cloud that is out can get in by another one's cell only if it would be in without that one; the product over
# all rivals but the strongest at its best place shows for most that it would not, and nothing more is looked at.
#
# Sums over clouds are sums of integers (fixed point): the same bits in any order of the slots.

UNIT = 2.0**-40  # the fixed point of expected numbers


class Room(NamedTuple):
    """Room for looking at one cloud."""

    near: Ints  # its rivals
    ends: Floats  # (2, d) its worst and its best place
    sums: Sums  # of its places
    scratch: Scratch
    rest: Floats  # of one place: its weight, times the probability that no rival but one beats it
    fall: Floats  # per value of one cell: the sum of `rest` times the chance that the one is as good elsewhere, …
    tie: Floats  # … and just as good


@kernel
def expected_changes(live, opened, threshold, places):
    """(slots, d) how many clouds are expected to enter or leave if that one cell were known, in UNITs.

    Clouds of more than so many places, those merged that no rival distinguishes, are not counted among those that do.
    `threshold`: as in `Limits`.
    """
    uncertain, columns, d = live.uncertain, live.columns, live.uncertain.lo.shape[1]
    changes = np.zeros((live.used, d), np.int64)
    if threshold < 0.0:
        for o in opened:
            if columns.state[o] == IN:
                surely_beaten_then(live, o, opened, changes)
        return changes
    sums = Sums(np.empty((places, 2), np.int64), np.empty(places, np.int64))
    room = Room(
        np.empty(opened.shape[0], np.int64), np.empty((2, d)), sums, scratch_for(places),
        np.empty(places), np.empty(places), np.empty(places),
    )  # fmt: skip
    strong = words_of(columns.word_hi, opened)
    for o in opened:
        inside = columns.state[o] == IN
        m = rivals_to_ask(live, o, opened, strong, -1.0 if inside else threshold, room)
        if m < 0:
            continue
        near = room.near[:m]
        if columns.places[o] > 0:  # no more than `places`
            look(live, o, near, own_grid(uncertain, o), inside, threshold, room, changes)
        else:
            values = 0
            for j in range(d):
                values += uncertain.size[o, j]
            grid = empty_grid(values, d)
            if merge_places(uncertain, o, near, grid) <= places:
                look(live, o, near, grid, False, threshold, room, changes)
    return changes


@inner
def is_gap(uncertain, c, j):
    """May cell j of cloud c have more than one value?"""
    return uncertain.start[c, j] >= 0 and uncertain.size[c, j] > 1


@inner
def has_gaps(uncertain, c):
    """May any of its cells?"""
    for j in range(uncertain.lo.shape[1]):
        if is_gap(uncertain, c, j):
            return True
    return False


@inner
def rivals_to_ask(live, o, opened, strong, threshold, room):
    """The clouds that can beat o, into room.near: how many? -1: no single cell can bring o in.

    So it is if all rivals but any one of those with gaps keep even o's best place at or below the threshold, or one
    surely beats it.
    """
    uncertain, fence, word, ends = live.uncertain, live.fence, live.columns.word_lo[o], room.ends
    write_ends(uncertain, o, ends)
    m = 0
    left, strongest = 1.0, 1.0  # over all rivals but the strongest with gaps; that one
    end = opened.shape[0]
    while end > 0:
        begin = max(end - BLOCK, 0)
        if any_covers(strong, begin, end, word, fence):
            for r in range(end - 1, begin - 1, -1):
                g = opened[r]
                if g == o or not covers(strong[r], word, fence) or not beats(uncertain.hi, g, ends, 0):
                    continue
                room.near[m] = g
                m += 1
                if threshold < 0.0:
                    continue
                factor = 1.0 - beats_point(uncertain, g, ends, 1)
                if 0.0 < factor < strongest and has_gaps(uncertain, g):  # at 0 it beats it with every value
                    factor, strongest = strongest, factor
                left *= factor
                if left <= threshold:
                    return -1
        end = begin
    return m


@inner
def look(live, o, near, grid, kept, threshold, room, changes):
    """Add to the cells of o, and of its rivals, how likely their values put o on the other side of alpha.

    `kept`: o's sums are those of the live set.
    """
    uncertain, columns, scratch = live.uncertain, live.columns, room.scratch
    inside = columns.state[o] == IN
    places = place_weights(grid, scratch.weight)
    sums, at = room.sums, 0
    if kept:
        sums, at = live.sums, columns.at[o]
    else:
        clear(sums, 0, places)
        for g in near:
            if beats_places(uncertain, g, o, grid, scratch):
                account(scratch.chance, places, 1, sums, 0)
    for k in range(places):
        scratch.left[k] = scratch.weight[k] * left_of(sums, at + k)
    own_cells(uncertain, o, grid, places, inside, threshold, room, changes)
    for g in near:
        if has_gaps(uncertain, g) and beats_places(uncertain, g, o, grid, scratch):
            without, may_flip = leave_out(places, inside, threshold, room)
            if may_flip:
                for j in range(uncertain.lo.shape[1]):
                    if is_gap(uncertain, g, j):
                        flips = flipping(uncertain, g, j, o, grid, without, inside, threshold, room)
                        changes[g, j] += np.int64(np.rint(flips / UNIT))


@inner
def own_cells(uncertain, o, grid, places, inside, threshold, room, changes):
    """How likely is each cell of o to have a value at which o is on the other side?"""
    left, part = room.scratch.left, room.fall
    stride = places
    for j in range(uncertain.lo.shape[1]):
        if grid.start[j] < 0:
            continue
        n = grid.size[j]
        stride //= n
        part[:n] = 0.0
        for k in range(places):
            part[k // stride % n] += left[k]
        flips = 0.0
        for m in range(n):
            weight = grid.weight[grid.start[j] + m]
            if (part[m] > threshold * weight) != inside:
                flips += weight
        if is_gap(uncertain, o, j):
            changes[o, j] += np.int64(np.rint(flips / UNIT))


@inner
def leave_out(places, inside, threshold, room):
    """A rival's chances lie in scratch.chance; write to room.rest what is left of each place without it.

    A place that it surely beats it beats with every value that its cells may have, so there nothing counts as left.
    Returns their sum, and whether any value of the rival may put the cloud on the other side.
    """
    left, chance, rest = room.scratch.left, room.scratch.chance, room.rest
    without = untouched = 0.0
    for k in range(places):
        if chance[k] > 0.0:
            rest[k] = left[k] / (1.0 - chance[k]) if chance[k] < SURE else 0.0
        else:
            rest[k] = left[k]
            untouched += left[k]
        without += rest[k]
    return without, untouched <= threshold if inside else without > threshold


@inner
def flipping(uncertain, g, j, o, grid, without, inside, threshold, room):
    """How likely has cell j of rival g a value at which o is on the other side? `without`: P(o) without g."""
    scratch, rest, fall, tie = room.scratch, room.rest, room.fall, room.tie
    places = reaches_places(uncertain, g, o, grid, j, scratch)
    n, stride = 1, 1
    if grid.start[j] >= 0:
        n = grid.size[j]
        for q in range(j + 1, uncertain.lo.shape[1]):
            stride *= grid.size[q] if grid.start[q] >= 0 else 1
    fall[:n] = tie[:n] = 0.0
    for k in range(places):
        m = k // stride % n
        fall[m] += rest[k] * scratch.chance[k]
        tie[m] += rest[k] * scratch.tie[k]
    flips, left, m = 0.0, without, 0
    for k in range(uncertain.start[g, j], uncertain.start[g, j] + uncertain.size[g, j]):
        v, even = uncertain.value[k], 0.0
        while m < n and value_of(uncertain, o, grid, j, m) <= v:
            left -= fall[m]
            even = tie[m] if value_of(uncertain, o, grid, j, m) == v else 0.0
            m += 1
        if (left + even > threshold) != inside:
            flips += uncertain.weight[k]
    return flips


@inner
def value_of(uncertain, o, grid, j, m):
    """The m-th value of cell j."""
    return grid.value[grid.start[j] + m] if grid.start[j] >= 0 else uncertain.lo[o, j]


# --- Alpha 0: a cloud is in if none surely beats it -------------------------------------------------------------------


@inner
def surely_beaten_then(live, o, opened, changes):
    """Add to the cells of o, and of others, how likely their values let o be surely beaten. What is out stays out."""
    uncertain = live.uncertain
    d = uncertain.lo.shape[1]
    beaten = np.full(d, -np.inf)  # up to which value of its own cell o is surely beaten
    for g in opened:
        if g == o:
            continue
        behind, at = 0, -1  # in how many attributes g is not surely as good; the last of them
        for j in range(d):
            if not low_end(uncertain, g, j) >= high_end(uncertain, o, j):
                behind, at = behind + 1, j
        if behind > 1:
            continue
        for j in range(d):
            if behind == 1 and j != at:
                continue
            elsewhere = False  # is it surely better in another attribute?
            for q in range(d):
                elsewhere |= q != j and low_end(uncertain, g, q) > high_end(uncertain, o, q)
            if is_gap(uncertain, g, j):
                flips, best = 0.0, high_end(uncertain, o, j)
                for k in range(uncertain.start[g, j], uncertain.start[g, j] + uncertain.size[g, j]):
                    v = uncertain.value[k]
                    if v > best or (v == best and elsewhere):
                        flips += uncertain.weight[k]
                changes[g, j] += np.int64(np.rint(flips / UNIT))
            if is_gap(uncertain, o, j):
                worst = low_end(uncertain, g, j)
                beaten[j] = max(beaten[j], worst if elsewhere else np.nextafter(worst, -np.inf))
    for j in range(d):
        if is_gap(uncertain, o, j):
            flips = 0.0
            for k in range(uncertain.start[o, j], uncertain.start[o, j] + uncertain.size[o, j]):
                if uncertain.value[k] <= beaten[j]:
                    flips += uncertain.weight[k]
            changes[o, j] += np.int64(np.rint(flips / UNIT))
