"""What would a row's probability be if one cell, its own or a dominator's, were known?

P(o) = sum over o's instances x: weight(x) · product over dominators g of (1 - Pr{g dominates x}).

- To know a cell of o keeps the instances that have that value there: `own_cell`.
- To know cell j of a dominator g changes g's factor, and no other. Let A and E be the chances that g is as good, and
  just as good, as x in all attributes but j. With value v there, g dominates x with probability A if v > x_j, A - E if
  v = x_j, and 0 if v < x_j. Summed over x, P(o | v) follows from one walk along both lists of values: `others_cell`.
- Any value v may be put into cell j of o, also one that its distribution does not have. As a function of v, P is
  constant between two neighbouring values that others have there, and never falls; so it is bisected: `own_flip`.

From P(o | v) follow by how much a cell moves P on average and at which value o enters or leaves (`look_into`), and how
many rows are expected to enter or leave the answer if a cell were measured (`expected_changes`).

At alpha 0 (a negative threshold) a row is in unless another surely dominates it. No probability shows that exactly, so
there the ends of the distributions are compared: `elsewhere`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints, Scratch
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import (
    AHEAD,
    BEHIND,
    EVEN,
    compare,
    dominates,
    dominates_point,
    high_end,
    low_end,
    share,
    surely_dominates,
    write_ends,
)
from fogline.kernels.instances import (
    ROOM,
    breaks_of,
    coarsen,
    distributed,
    dominates_instances,
    empty_grid,
    gap_of,
    instance_weights,
    merge_instances,
    own_grid,
    reaches_instances,
    scratch_for,
    values_of,
)
from fogline.kernels.judge import words_of
from fogline.kernels.states import DOMINATED, IN, OUT
from fogline.kernels.static import near_of
from fogline.kernels.words import BLOCK, any_covers, covers

LISTED = 10  # dominators, and cells of dominators, that are listed
CLOSE = 1e-12  # what differs by less is alike: the first counts
NEVER, FROM, ABOVE = 0, 1, 2  # a row flips at no value; it is in from that value on; it is in above that value
GONE = 1e-18  # an instance of so little weight is given up
UNIT = 2.0**-40  # expected numbers are summed in this fixed point: the same bits in any order


class Why(NamedTuple):
    """What is found of q rows of d attributes; lists have at most LISTED entries, and slot -1 beyond their end."""

    probability: Floats  # (q,)
    exact: Ints  # (q,) whether all was worked out exactly
    front: Ints  # (q,) IMPOSSIBLE, OPEN or CERTAIN, see `near_of`
    dominator: Ints  # (q, LISTED) slots of dominators, the likeliest first
    chance: Floats  # (q, LISTED) how likely they dominate the row
    side: Ints  # (q, d) of its own cells: NEVER, FROM or ABOVE
    value: Floats  # (q, d) the value at which it flips
    then: Floats  # (q, d) its probability on the other side
    decisive: Ints  # (q, 2) slot and attribute of the missing cell that moves it most; -1: there is none
    moves: Floats  # (q,) by how much on average
    other: Ints  # (q, LISTED, 2) slots and attributes of dominators' cells that flip it, the likeliest first
    other_value: Floats  # (q, LISTED) of the values that flip it, the one nearest to those that do not
    other_chance: Floats  # (q, LISTED) how likely the cell has that value or one beyond
    other_then: Floats  # (q, LISTED) the row's probability at that value


class Instances(NamedTuple):
    """The instances of one row over a grid of its values, and what its dominators leave of them."""

    weight: Floats  # (n,)
    left: Floats  # (n,) the product over dominators of 1 - Pr{it dominates the instance}, but for those that surely do
    sure: Ints  # (n,) how many surely do


class Room(NamedTuple):
    """Room for looking at one row of at most so many instances."""

    weight: Floats
    left: Floats
    sure: Ints
    rest: Floats  # of each instance: its weight, times the probability that no dominator but one dominates it
    fall: Floats  # of each value of one cell: the sum of `rest` times the chance that the one is as good elsewhere …
    tie: Floats  # … and just as good
    then: Floats  # of each value of one cell: P(o) if that were known
    scratch: Scratch


@inner
def room_for(instances, longest):
    """Room for so many instances, and for cells of so many values."""
    return Room(
        np.empty(instances), np.empty(instances), np.empty(instances, np.int64),
        np.empty(instances), np.empty(instances),
        np.empty(instances), np.empty(longest), scratch_for(instances),
    )  # fmt: skip


# --- P(o | value) -----------------------------------------------------------------------------------------------------


@inner
def instances_of(uncertain, o, near, grid, room, chances):
    """o's instances after all dominators `near`; to `chances` (near,) how likely each of these dominates o."""
    n = instance_weights(grid, room.weight)
    weight, left, sure, chance = room.weight[:n], room.left[:n], room.sure[:n], room.scratch.chance
    left[:], sure[:] = 1.0, 0
    for r in range(near.shape[0]):
        chances[r] = 0.0
        if dominates_instances(uncertain, near[r], o, grid, room.scratch):
            for x in range(n):
                p = max(chance[x], 0.0)
                chances[r] += weight[x] * p
                if p >= 1.0:
                    sure[x] += 1
                else:
                    left[x] *= 1.0 - p
    return Instances(weight, left, sure)


@inner
def probability_of(found):
    """P(o)."""
    out = 0.0
    for x in range(found.weight.shape[0]):
        if found.sure[x] == 0:
            out += found.weight[x] * found.left[x]
    return min(out, 1.0)


@inner
def stride_of(grid, j):
    """How many instances lie between two that differ in nothing but cell j having the next value."""
    out = 1
    for i in range(j + 1, grid.start.shape[0]):
        if grid.start[i] >= 0:
            out *= grid.size[i]
    return out


@inner
def own_cell(grid, j, found, then):
    """P(o | its cell j has this value), times the value's weight, for each of the values, into `then`; how many?"""
    n, stride = grid.size[j], stride_of(grid, j)
    then[:n] = 0.0
    for x in range(found.weight.shape[0]):
        if found.sure[x] == 0:
            then[x // stride % n] += found.weight[x] * found.left[x]
    return n


@inner
def without(uncertain, g, o, grid, found, room):
    """What dominators but g leave of each instance, into room.rest.

    Returns P(o) without g, and the part of it that g leaves alone whatever its cells turn out to be.
    """
    dominates_instances(uncertain, g, o, grid, room.scratch)
    total = untouched = 0.0
    for x in range(found.weight.shape[0]):
        p, rest = max(room.scratch.chance[x], 0.0), 0.0
        if found.sure[x] == (p >= 1.0):  # no other surely does
            rest = found.weight[x] * found.left[x] / (1.0 if p >= 1.0 else 1.0 - p)
        room.rest[x] = rest
        total += rest
        untouched += rest if p == 0.0 else 0.0
    return total, untouched


@inner
def others_cell(uncertain, g, j, o, grid, total, room):
    """P(o | cell j of g has this value), for each of the cell's values, into room.then; how many?

    `without` wrote room.rest and returned `total`. As the value grows, P never does.
    """
    scratch, fall, tie = room.scratch, room.fall, room.tie
    instances = reaches_instances(uncertain, g, o, grid, j, scratch)
    n, stride = grid.size[j], stride_of(grid, j)
    fall[:n] = tie[:n] = 0.0
    for x in range(instances):
        y = x // stride % n
        fall[y] += room.rest[x] * scratch.chance[x]
        tie[y] += room.rest[x] * scratch.tie[x]
    first, count = uncertain.start[g, j], uncertain.size[g, j]
    fallen, y = 0.0, 0
    for k in range(count):
        v, even = uncertain.value[first + k], 0.0
        while y < n and value_of(uncertain, o, grid, j, y) <= v:
            fallen += fall[y]
            even = tie[y] if value_of(uncertain, o, grid, j, y) == v else 0.0
            y += 1
        room.then[k] = min(max(total - fallen + even, 0.0), 1.0)
    return count


@inner
def value_of(uncertain, o, grid, j, y):
    """The y-th value of o's cell j in the grid."""
    return grid.value[grid.start[j] + y] if grid.start[j] >= 0 else uncertain.lo[o, j]


@inner
def moved(then, weight, probability):
    """By how much P moves on average if a cell of these weights becomes known: the expected |P then - P|."""
    out = 0.0
    for k in range(weight.shape[0]):
        out += weight[k] * abs(then[k] - probability)
    return out


@inner
def flipped(then, weight, inside, threshold):
    """How likely does a cell of these weights have a value at which the row is on the other side of alpha?"""
    out = 0.0
    for k in range(weight.shape[0]):
        if (then[k] > threshold) != inside:
            out += weight[k]
    return out


@inner
def is_gap(uncertain, c, j):
    """May cell j of row c have more than one value?"""
    return uncertain.start[c, j] >= 0 and uncertain.size[c, j] > 1


@inner
def has_gaps(uncertain, c):
    """May any of its cells?"""
    for j in range(uncertain.lo.shape[1]):
        if is_gap(uncertain, c, j):
            return True
    return False


@inner
def weights_of(uncertain, c, j):
    """The weights of a cell's values."""
    return uncertain.weight[uncertain.start[c, j] : uncertain.start[c, j] + uncertain.size[c, j]]


@inner
def elsewhere(uncertain, g, o, j):
    """Does g, in all attributes but j, surely dominate o (AHEAD), or is it as good (EVEN)? Else BEHIND."""
    found = EVEN
    for i in range(uncertain.lo.shape[1]):
        if i != j:
            found = compare(found, low_end(uncertain, g, i), high_end(uncertain, o, i))
            if found == BEHIND:
                break
    return found


# --- Why is a row in, or out? -----------------------------------------------------------------------------------------


@kernel
def look_into(live, lows, highs, asked, inside, alive, opened, only, threshold, work):
    """What is to be stated of the rows `asked` (q,), `inside` (q,) of which are in; see `Why`.

    lows, highs (slots, d): the ends of all rows. `alive`, `opened`: the slots of all rows, and of the open ones, in an
    order that does not depend on where they lie, since products are rounded. `only` (slots,): see `sole_dominators`.
    `work`: how many instances times dominators are looked at together; rows that have more are looked at coarsely.
    """
    uncertain, d = live.uncertain, live.uncertain.lo.shape[1]
    why, room = no_answers(asked.shape[0], d), room_for(ROOM, max(uncertain.value.shape[0], ROOM))
    space, some, lacks = np.empty((3, live.used), np.int64)
    chances = np.empty(live.used)
    for k in range(asked.shape[0]):
        o = asked[k]
        grid = empty_grid(values_of(uncertain, o) + d, d)
        why.front[k], m = near_of(lows, highs, o, opened, space)
        near = space[:m]
        exact = grid_for(uncertain, o, -1, near, work, grid)
        found = instances_of(uncertain, o, near, grid, room, chances)
        why.probability[k] = probability_of(found)
        for r in range(m):
            if chances[r] > 0.0:
                list_dominator(why, k, near[r], min(chances[r], 1.0))
        look_at_cells(uncertain, o, near, grid, found, inside[k], threshold, room, why, k)
        m = concerned(live, lows, highs, o, alive, only, space, lacks)
        for j in range(d):
            n = 0
            for r in range(m):
                if lacks[r] < 0 or (lacks[r] == j and inside[k]):  # to enter, its value grows
                    some[n] = space[r]
                    n += 1
            found_flip = own_flip(uncertain, o, j, some[:n], inside[k], threshold, work, grid, room)
            why.side[k, j], why.value[k, j], why.then[k, j] = found_flip[0], found_flip[1], found_flip[2]
            exact = exact and found_flip[3]
        why.exact[k] = exact
    return why


@kernel
def sole_dominators(live, asked, opened):
    """(slots,) of each row that is dominated until later: the one of `asked` that alone of all open rows surely does.

    -1 elsewhere. Should that one be worse, the dominated row would count.
    """
    uncertain, columns = live.uncertain, live.columns
    out = np.full(live.used, -1)
    for c in range(live.used):
        if columns.state[c] != DOMINATED:
            continue
        for o in asked:
            if dominates(uncertain.lo, o, uncertain.hi, c):
                out[c] = o
                break
        if out[c] >= 0:
            for g in opened:
                if g != out[c] and dominates(uncertain.lo, g, uncertain.hi, c):
                    out[c] = -1
                    break
    return out


@inner
def no_answers(q, d):
    """Room for what is found."""
    return Why(
        np.zeros(q), np.ones(q, np.int64), np.zeros(q, np.int64), np.full((q, LISTED), -1), np.full((q, LISTED), -1.0),
        np.full((q, d), NEVER), np.zeros((q, d)), np.zeros((q, d)), np.full((q, 2), -1), np.zeros(q),
        np.full((q, LISTED, 2), -1), np.zeros((q, LISTED)), np.full((q, LISTED), -1.0), np.zeros((q, LISTED)),
    )  # fmt: skip


@inner
def rank(chances, chance):
    """Where a chance belongs among those that are listed, the greatest first; LISTED: nowhere."""
    at = LISTED
    while at > 0 and chance > chances[at - 1] + CLOSE:
        at -= 1
    return at


@inner
def list_dominator(why, k, g, chance):
    """List dominator g, if it is among the likeliest."""
    at = rank(why.chance[k], chance)
    if at < LISTED:
        why.chance[k, at + 1 :] = why.chance[k, at:-1].copy()
        why.dominator[k, at + 1 :] = why.dominator[k, at:-1].copy()
        why.chance[k, at], why.dominator[k, at] = chance, g


@inner
def list_other(why, k, g, j, value, chance, then):
    """List cell j of dominator g, if it is among those that flip the row most likely."""
    at = rank(why.other_chance[k], chance)
    if at < LISTED:
        for each in (why.other_value, why.other_chance, why.other_then):
            each[k, at + 1 :] = each[k, at:-1].copy()
        why.other[k, at + 1 :] = why.other[k, at:-1].copy()
        why.other[k, at, 0], why.other[k, at, 1] = g, j
        why.other_value[k, at], why.other_chance[k, at], why.other_then[k, at] = value, chance, then


@inner
def most_decisive(why, k, g, j, moves):
    """Cell j of row g moves the k-th row so much: is it the most so far?"""
    if moves > why.moves[k] + CLOSE:
        why.moves[k], why.decisive[k, 0], why.decisive[k, 1] = moves, g, j


@inner
def look_at_cells(uncertain, o, near, grid, found, inside, threshold, room, why, k):
    """Which missing cell moves o most, and which of its dominators' flip it."""
    d, probability = uncertain.lo.shape[1], why.probability[k]
    for j in range(d):
        if grid.start[j] >= 0:
            n, moves = own_cell(grid, j, found, room.then), 0.0
            for y in range(n):
                moves += abs(room.then[y] - grid.weight[grid.start[j] + y] * probability)
            most_decisive(why, k, o, j, moves)
    sure = 0
    for g in near:
        sure += threshold < 0.0 and surely_dominates(uncertain, g, o)
    for g in near:
        if not has_gaps(uncertain, g):
            continue
        total, _ = without(uncertain, g, o, grid, found, room)
        for j in range(d):
            if is_gap(uncertain, g, j):
                others_cell(uncertain, g, j, o, grid, total, room)
                most_decisive(why, k, g, j, moved(room.then, weights_of(uncertain, g, j), probability))
                others = sure > 0 and (sure > 1 or not surely_dominates(uncertain, g, o))
                flip = others_flip(uncertain, g, j, o, inside, others, threshold, room.then)
                if flip >= 0:
                    at = uncertain.start[g, j] + flip
                    chance = uncertain.tail[at] if inside else 1.0 - uncertain.tail[at + 1]
                    list_other(why, k, g, j, uncertain.value[at], chance, room.then[flip])


@inner
def others_flip(uncertain, g, j, o, inside, others, threshold, then):
    """Which value of g's cell j, of those that flip o, is nearest to those that do not? -1: none does, or all do.

    `others`: at alpha 0, whether a dominator other than g surely dominates o.
    """
    first, count = uncertain.start[g, j], uncertain.size[g, j]
    best, rest = high_end(uncertain, o, j), BEHIND
    if threshold < 0.0:
        rest = elsewhere(uncertain, g, o, j)
    out = -1
    for k in range(count):
        v = uncertain.value[first + k]
        stands = then[k] > threshold
        if threshold < 0.0:
            stands = not (others or (rest != BEHIND and compare(rest, v, best) == AHEAD))
        if inside and not stands and k > 0:
            return k
        if not inside and stands and k < count - 1:
            out = k
    return out


@inner
def concerned(live, lows, highs, o, alive, only, space, lacks):
    """The rows that count if one of o's values changes, into `space`; how many?

    `lacks`: the one attribute in which the row always has less than o, so that it counts if that value changes; -1:
    there is none, and it counts whichever does.
    """
    d, m, state = lows.shape[1], 0, live.columns.state
    for g in alive:
        if (state[g] < OUT and only[g] != o) or g == o:
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


@inner
def grid_for(uncertain, o, skip, near, work, grid):
    """o's values in all cells but one, merged exactly, or if more than fit are left, coarsely. Are they exact?"""
    most = max(min(ROOM, work // max(near.shape[0], 1)), 1)
    instances = merge_instances(uncertain, o, near, grid)
    if skip >= 0:
        instances /= grid.size[skip]
    exact = instances <= most
    if not exact:
        cells, parts = distributed(uncertain, o), 1
        while (parts + 2.0) ** cells <= most:
            parts += 1
        coarsen(uncertain, o, parts, grid)
    if skip >= 0:
        grid.start[skip], grid.size[skip] = -1, 1
    return exact


@inner
def own_flip(uncertain, o, j, near, inside, threshold, work, grid, room):
    """(FROM, ABOVE or NEVER, the value, P beyond it, whether that is exact) for o's attribute j.

    The values that others have there, and the gaps between, are steps: 2k + 1 is the k-th value itself, 2k the gap
    below it. P is constant on a step and never falls from one to the next.
    """
    exact = grid_for(uncertain, o, j, near, work, grid)
    instances, m = instance_weights(grid, room.weight), near.shape[0]
    at_least, equal, scratch = np.zeros((instances, m)), np.zeros((instances, m)), room.scratch
    for r in range(m):
        if reaches_instances(uncertain, near[r], o, grid, j, scratch) > 0:
            at_least[:, r], equal[:, r] = scratch.chance[:instances], scratch.tie[:instances]
    breaks = distinct(breaks_of(uncertain, near, j))
    weight, shares = room.weight[:instances], np.empty((2, m))
    low, high = 0, 2 * breaks.shape[0]  # above all values it is in
    if threshold < 0.0:
        low = high = first_free(uncertain, o, j, near, breaks)
    while low < high:
        middle = (low + high) >> 1
        if left_at(uncertain, near, j, breaks, middle, at_least, equal, weight, shares) > threshold:
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return NEVER, np.nan, np.nan, exact
    beyond = low - 1 if inside else low
    p = left_at(uncertain, near, j, breaks, beyond, at_least, equal, weight, shares)
    return FROM if low & 1 else ABOVE, breaks[(low - 1) >> 1], p, exact


@inner
def first_free(uncertain, o, j, near, breaks):
    """The first step of o's attribute j on which none of `near` surely dominates o."""
    out = 0
    for g in near:
        rest = elsewhere(uncertain, g, o, j)
        if rest != BEHIND:
            at = gap_of(breaks, low_end(uncertain, g, j))
            out = max(out, 2 * at + (2 if rest == AHEAD else 1))
    return out


@inner
def left_at(uncertain, near, j, breaks, step, at_least, equal, weight, shares):
    """P(o) if its value in attribute j lies on a step.

    at_least, equal (instances, near): how likely a dominator is as good, and just as good, in the other attributes.
    """
    for r in range(near.shape[0]):
        shares[0, r] = shares[1, r] = 0.0
        if step < 2 * breaks.shape[0]:
            shares[0, r], shares[1, r] = share(uncertain, near[r], j, breaks[step >> 1])
            if step & 1 == 0:
                shares[1, r] = 0.0
    total = 0.0
    for x in range(weight.shape[0]):
        left = weight[x]
        for r in range(near.shape[0]):
            left *= 1.0 - max(at_least[x, r] * shares[0, r] - equal[x, r] * shares[1, r], 0.0)
            if left < GONE:
                left = 0.0
                break
        total += left
    return min(total, 1.0)


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


# --- Which missing cells are worth a measurement? ---------------------------------------------------------------------


@kernel
def expected_changes(live, opened, threshold, instances):
    """(slots, d) how many rows are expected to enter or leave if that one cell were known, in UNITs.

    Only open rows matter: a row dominated until later stays so whatever its cells turn out to be, since values lie in
    its box. Rows of more than so many merged instances are not counted among those that enter or leave. `threshold`: as
    in `Limits`; `opened`: in an order that does not depend on where they lie.
    """
    uncertain, columns, d = live.uncertain, live.columns, live.uncertain.lo.shape[1]
    changes = np.zeros((live.used, d), np.int64)
    if threshold < 0.0:
        for o in opened:
            if columns.state[o] == IN:
                surely_dominated_then(uncertain, o, opened, changes)
        return changes
    room = room_for(instances, max(uncertain.value.shape[0], instances))
    strong, ends = words_of(columns.word_hi, opened), np.empty((2, d))
    space, chances = np.empty(opened.shape[0], np.int64), np.empty(opened.shape[0])
    for o in opened:
        inside = columns.state[o] == IN
        m = dominators_to_ask(live, o, opened, strong, -1.0 if inside else threshold, space, ends)
        if m < 0:
            continue
        grid = own_grid(uncertain, o)
        if columns.instances[o] == 0:  # own instances are too many
            grid = empty_grid(values_of(uncertain, o), d)
            if merge_instances(uncertain, o, space[:m], grid) > instances:
                continue
        count_flips(uncertain, o, space[:m], grid, inside, threshold, room, chances, changes)
    return changes


@inner
def count_flips(uncertain, o, near, grid, inside, threshold, room, chances, changes):
    """Add to the cells of o, and of its dominators, how likely their values put o on the other side of alpha."""
    found = instances_of(uncertain, o, near, grid, room, chances)
    for j in range(uncertain.lo.shape[1]):
        if grid.start[j] >= 0 and is_gap(uncertain, o, j):
            n, flips = own_cell(grid, j, found, room.then), 0.0
            for y in range(n):
                weight = grid.weight[grid.start[j] + y]
                if (room.then[y] > threshold * weight) != inside:
                    flips += weight
            add_expected(changes, o, j, flips)
    for r in range(near.shape[0]):
        g = near[r]
        if chances[r] == 0.0 or not has_gaps(uncertain, g):
            continue
        total, untouched = without(uncertain, g, o, grid, found, room)
        if untouched > threshold if inside else total <= threshold:
            continue  # no value of g flips o
        for j in range(uncertain.lo.shape[1]):
            if is_gap(uncertain, g, j):
                others_cell(uncertain, g, j, o, grid, total, room)
                add_expected(changes, g, j, flipped(room.then, weights_of(uncertain, g, j), inside, threshold))


@inner
def add_expected(changes, c, j, chance):
    """One row more enters or leaves with this probability."""
    changes[c, j] += np.int64(np.rint(chance / UNIT))


@inner
def dominators_to_ask(live, o, opened, strong, threshold, near, ends):
    """The rows that can dominate o, into `near`: how many? -1: no single cell can bring o in.

    So it is if all dominators but any one of those with gaps keep even o's best instance at or below the threshold, or
    one surely dominates it.
    """
    uncertain, fence, word = live.uncertain, live.fence, live.columns.word_lo[o]
    write_ends(uncertain, o, ends)
    m = 0
    left, strongest = 1.0, 1.0  # over all dominators but the strongest with gaps; that one
    end = opened.shape[0]
    while end > 0:
        begin = max(end - BLOCK, 0)
        if any_covers(strong, begin, end, word, fence):
            for r in range(end - 1, begin - 1, -1):
                g = opened[r]
                if g == o or not covers(strong[r], word, fence) or not dominates(uncertain.hi, g, ends, 0):
                    continue
                near[m] = g
                m += 1
                if threshold < 0.0:
                    continue
                factor = 1.0 - dominates_point(uncertain, g, ends, 1)
                if 0.0 < factor < strongest and has_gaps(uncertain, g):  # at 0 it dominates o with every value
                    factor, strongest = strongest, factor
                left *= factor
                if left <= threshold:
                    return -1
        end = begin
    return m


@inner
def surely_dominated_then(uncertain, o, opened, changes):
    """At alpha 0: add to the cells of o, and of others, how likely their values let another surely dominate o.

    What is out stays out.
    """
    d = uncertain.lo.shape[1]
    up_to = np.full(d, -np.inf)  # up to which value of its own cell o is surely dominated
    for g in opened:
        behind = 0  # in how many attributes g is not surely as good: if in two, no single cell decides
        for j in range(d):
            behind += not low_end(uncertain, g, j) >= high_end(uncertain, o, j)
        if g == o or behind > 1:
            continue
        for j in range(d):
            rest = elsewhere(uncertain, g, o, j)
            if rest == BEHIND:
                continue
            if is_gap(uncertain, g, j):
                best, first, weight = high_end(uncertain, o, j), uncertain.start[g, j], weights_of(uncertain, g, j)
                chance = 0.0
                for k in range(weight.shape[0]):
                    v = uncertain.value[first + k]
                    if compare(rest, v, best) == AHEAD:
                        chance += weight[k]
                add_expected(changes, g, j, chance)
            worst = low_end(uncertain, g, j)
            up_to[j] = max(up_to[j], worst if rest == AHEAD else np.nextafter(worst, -np.inf))
    for j in range(d):
        if is_gap(uncertain, o, j):
            first, weight = uncertain.start[o, j], weights_of(uncertain, o, j)
            chance = 0.0
            for k in range(weight.shape[0]):
                if uncertain.value[first + k] <= up_to[j]:
                    chance += weight[k]
            add_expected(changes, o, j, chance)
