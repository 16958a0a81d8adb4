"""How fast can the rivals be?

What the paper's competitors need in a loop, compiled like our own parts and on the same memory layout, with the same
factorised dominance: they differ from Fogline in what they do, not in how well it is written.

Candidate lists (after Ding, Lian, Chen, Jin 2012): a kept cloud has a row of bits, one per slot, that says who can beat
it at all. `lasting` is an upper bound of its probability over those alone that expire no earlier; at or below alpha the
cloud leaves the candidates for good, but still counts against others.

Invariant: bit (b, a) of a candidate b and a kept cloud a is set if and only if a's `hi` beats b's `lo`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Floats, Ints
from fogline.kernels.bracket import narrow
from fogline.kernels.clouds import copy_cells, fill_cell
from fogline.kernels.compile import kernel
from fogline.kernels.dominance import beats, beats_point
from fogline.kernels.merged import all_places, merge_places
from fogline.kernels.places import beats_places, coarsen, distributed, empty_grid, own_grid, place_weights, scratch_for

MANY = 65_536  # places; beyond, those that nobody in the list can tell apart are merged first
COARSE = 256  # places; beyond, a bound over so few is tried first
EXACT, WIDTH = 1_000_000, 1e-3  # merged places that are worked out exactly; how narrow a bracket is beyond


class Lists(NamedTuple):
    """What candidate lists know of each slot, beside its cloud."""

    expires: Floats  # -inf: the slot is free
    lasting: Floats
    probability: Floats  # of a member
    candidate: NDArray[np.bool_]  # may still become an answer
    inside: NDArray[np.bool_]  # is one
    due: NDArray[np.bool_]  # to be worked out again
    who: NDArray[np.uint64]  # (slots, slots / 64) bit g of row o: g can beat o


# --- Distributions into clouds ----------------------------------------------------------------------------------------


@kernel
def write_cells(row, attribute, offset, value, weight, signs, clouds, cursor):
    """Write the distributions of missing cells, oriented, into the clouds and their pools. Returns the new cursor."""
    for k in range(row.shape[0]):
        i, j = row[k], attribute[k]
        first = cursor
        for at in range(offset[k], offset[k + 1]):
            clouds.value[cursor] = value[at] * signs[j] + 0.0
            clouds.weight[cursor] = weight[at]
            cursor += 1
        cursor = fill_cell(clouds, i, j, first, cursor)
    return cursor


# --- Sensors ----------------------------------------------------------------------------------------------------------


@kernel
def carry(values, sensor, known, otherwise):
    """Fill gaps (n, d) in place with the sensor's previous value, then remember the row's own; row by row.

    known (sensors, d) is that memory, NaN where there is none: then `otherwise` (d,).
    """
    n, d = values.shape
    for i in range(n):
        s = sensor[i]
        for j in range(d):
            if np.isnan(values[i, j]):
                values[i, j] = otherwise[j] if np.isnan(known[s, j]) else known[s, j]
            else:
                known[s, j] = values[i, j]


@kernel
def speed_level(speed, width, levels):
    """Between which marks a speed lies, counted from 0; the middle one is standing still."""
    half = levels // 2
    return min(max(int(np.rint(speed / width)), -half), half) + half


@kernel
def steer(values, sensor, at, known, when, speed, best, width, otherwise, low, high, horizon):
    """Fill gaps (n, d) in place from where the sensor was and how fast it moved, then remember the row's own values.

    known, when, speed (sensors, d): last value, its time, the speed that led there (NaN: none). best (d, levels): the
    likeliest next speed by the level of the last one; beyond `horizon` nobody knows a speed.
    """
    n, d = values.shape
    levels = best.shape[1]
    for i in range(n):
        s = sensor[i]
        for j in range(d):
            passed = at[i] - when[s, j]
            there = not np.isnan(known[s, j])
            if np.isnan(values[i, j]):
                guess = otherwise[j]
                if there:
                    guess = known[s, j]
                    if not np.isnan(speed[s, j]) and 0 < passed <= horizon:
                        guess += best[j, speed_level(speed[s, j], width[j], levels)] * passed
                values[i, j] = min(max(guess, low[j]), high[j])
                continue
            if there and passed > 0:
                speed[s, j] = (values[i, j] - known[s, j]) / passed if passed <= horizon else np.nan
            known[s, j], when[s, j] = values[i, j], at[i]


@kernel
def speed_counts(values, sensor, at, sensors, width, levels, horizon):
    """How often each speed (d, levels), and each change from one speed to the next (d, 2 · levels - 1), occurs."""
    n, d = values.shape
    speeds, turns = np.zeros((d, levels)), np.zeros((d, 2 * levels - 1))
    last, level = np.full(sensors, -1), np.full((sensors, d), -1)
    for i in range(n):
        s = sensor[i]
        passed = at[i] - at[last[s]] if last[s] >= 0 else np.inf
        for j in range(d):
            if not 0 < passed <= horizon:
                level[s, j] = -1
                continue
            now = speed_level((values[i, j] - values[last[s], j]) / passed, width[j], levels)
            speeds[j, now] += 1.0
            if level[s, j] >= 0:
                turns[j, now - level[s, j] + levels - 1] += 1.0
            level[s, j] = now
        last[s] = i
    return speeds, turns


# --- Candidate lists --------------------------------------------------------------------------------------------------


@kernel
def expire_lists(lists, used, now):
    """Free the slots of those that have expired; whoever could be beaten by one of them is to be worked out again."""
    gone = np.zeros(lists.who.shape[1], np.uint64)
    any_ = False
    for g in range(used):
        if -np.inf < lists.expires[g] <= now:
            free_slot(lists, g)
            gone[g >> 6] |= np.uint64(1) << np.uint64(g & 63)
            any_ = True
    if not any_:
        return
    words = (used + 63) >> 6
    for o in range(used):
        if lists.candidate[o]:
            for w in range(words):
                if lists.who[o, w] & gone[w]:
                    lists.due[o] = True
                    break


@kernel
def free_slot(lists, g):
    """Nobody is there any more."""
    lists.expires[g] = -np.inf
    lists.candidate[g] = lists.inside[g] = lists.due[g] = False


@kernel
def set_bit(who, o, g, on):
    """Write bit g of row o."""
    bit = np.uint64(1) << np.uint64(g & 63)
    if on:
        who[o, g >> 6] |= bit
    else:
        who[o, g >> 6] &= ~bit


@kernel
def surely_beaten(clouds, expires, used, i, rows, row_expires):
    """Does a kept cloud that expires no earlier surely beat row i of `rows`?"""
    for k in range(used):
        if expires[k] >= row_expires and beats(clouds.lo, k, rows.hi, i):
            return True
    return False


@kernel
def join_lists(clouds, lists, used, i, threshold, forget):
    """A cloud has come into slot i: write who can beat whom, and with `forget` drop whom it surely beats for life.

    Only candidates need a list. A newcomer can only lower probabilities: only members are to be worked out again.
    """
    lists.candidate[i] = lists.due[i] = True
    lists.inside[i], lists.lasting[i] = False, 1.0
    lists.who[i] = 0
    for k in range(used):
        if k == i or lists.expires[k] == -np.inf:
            continue
        mine = (forget or lists.candidate[k]) and beats(clouds.hi, i, clouds.lo, k)
        if forget and mine and lists.expires[i] >= lists.expires[k] and beats(clouds.lo, i, clouds.hi, k):
            free_slot(lists, k)
            continue
        if lists.candidate[k]:
            set_bit(lists.who, k, i, mine)
            if mine:
                lists.due[k] |= lists.inside[k]
                last(clouds, lists, i, k, threshold)
        if lists.candidate[i] and beats(clouds.hi, k, clouds.lo, i):
            set_bit(lists.who, i, k, True)
            last(clouds, lists, k, i, threshold)


@kernel
def last(clouds, lists, g, o, threshold):
    """g can beat o: if it lives as long, o's bound for life falls, perhaps so low that o is no candidate any more."""
    if lists.expires[g] >= lists.expires[o]:
        lists.lasting[o] *= 1.0 - beats_point(clouds, g, clouds.hi, o)
        if lists.lasting[o] <= threshold:
            lists.candidate[o] = lists.inside[o] = lists.due[o] = False


@kernel
def take_rows(clouds, lists, used, free, pool, rows, expires, threshold, forget):
    """Let rows in, one after the other. Returns their slots (-1: surely beaten), the slots in use, the pool."""
    slots = np.full(expires.shape[0], -1)
    taken = 0
    for i in range(expires.shape[0]):
        if forget and surely_beaten(clouds, lists.expires, used, i, rows, expires[i]):
            continue
        if taken < free.shape[0]:
            slot = free[taken]
            taken += 1
        else:
            slot = used
            used += 1
        pool = copy_cells(rows, np.array([i]), clouds, slot, pool)
        lists.expires[slot] = expires[i]
        join_lists(clouds, lists, used, slot, threshold, forget)
        slots[i] = slot
    return slots, used, pool


@kernel
def listed(lists, o, used, near):
    """Who of those alive can beat o, into `near`; returns how many."""
    m = 0
    for w in range((used + 63) >> 6):
        word = lists.who[o, w]
        g = w << 6
        while word:
            if word & np.uint64(1) and lists.expires[g] > -np.inf:
                near[m] = g
                m += 1
            word >>= np.uint64(1)
            g += 1
    return m


@kernel
def corner_bound(clouds, o, near, threshold):
    """P at o's best corner, which P(o) cannot exceed; it stops at or below `threshold`."""
    bound = 1.0
    for g in near:
        bound *= 1.0 - beats_point(clouds, g, clouds.hi, o)
        if bound <= threshold:
            break
    return bound


@kernel
def work_out(clouds, o, near, threshold, grid, scratch):
    """P(o), its cells having these values, over those in `near`; or any number at or below `threshold` once P is."""
    left, p = scratch.left, scratch.chance
    places = place_weights(grid, left)
    total = 1.0
    for g in near:
        if not beats_places(clouds, g, o, grid, scratch):
            continue
        total = 0.0
        for k in range(places):
            left[k] *= 1.0 - max(p[k], 0.0)
            total += left[k]
        if total <= threshold:
            break
    return min(total, 1.0)


@kernel
def coarse_bound(clouds, o, near, threshold, scratch):
    """What P(o) cannot exceed: each of a few runs of o's values stands at its best."""
    d = clouds.lo.shape[1]
    parts = max(int(COARSE ** (1.0 / distributed(clouds, o))) - 1, 1)
    grid = empty_grid((parts + 1) * d, d)
    coarsen(clouds, o, parts, grid)
    return work_out(clouds, o, near, threshold, grid, scratch)


@kernel
def work_out_many(clouds, o, near, threshold):
    """P(o) of a cloud of very many places, as Fogline does it: places that nobody in `near` tells apart are one."""
    grid = empty_grid(clouds.size[o].sum(), clouds.lo.shape[1])
    if merge_places(clouds, o, near, grid) <= EXACT:
        return all_places(clouds, o, near, grid)
    edge = threshold if threshold > 0 else np.nan  # alpha is 0: only narrow it
    low, high = narrow(clouds, o, near, grid, edge, WIDTH)
    return (low + high) / 2


@kernel
def places_of(clouds, o):
    """How many places a cloud has (as a float: they may be very many)."""
    places = 1.0
    for j in range(clouds.lo.shape[1]):
        places *= clouds.size[o, j]
    return places


@kernel
def any_surely(clouds, o, near):
    """Does any of `near` surely beat o?"""
    for g in near:
        if beats(clouds.lo, g, clouds.hi, o):
            return True
    return False


@kernel
def refresh_lists(clouds, lists, used, threshold):
    """Work out every candidate that is due. Returns how many that were, and who is in the answer."""
    near, inside = np.empty(used, np.int64), np.empty(used, np.int64)
    scratch = scratch_for(MANY)
    worked = n = 0
    for o in range(used):
        if lists.due[o]:
            mine = near[: listed(lists, o, used, near)]
            chance = corner_bound(clouds, o, mine, threshold)
            places = places_of(clouds, o)
            if chance > threshold >= 0 and places > 2 * COARSE and not lists.inside[o]:
                chance = coarse_bound(clouds, o, mine, threshold, scratch)
            if chance > threshold and places <= MANY:
                chance = work_out(clouds, o, mine, threshold, own_grid(clouds, o), scratch)
            elif chance > threshold:
                chance = work_out_many(clouds, o, mine, threshold)
            sealed = threshold < 0 and any_surely(clouds, o, mine)  # alpha is 0: boxes decide, not a tiny number
            lists.probability[o], lists.inside[o], lists.due[o] = chance, chance > threshold and not sealed, False
            worked += 1
        if lists.inside[o]:
            inside[n] = o
            n += 1
    return worked, inside[:n]


def empty_lists(slots: int) -> Lists:
    """Room for so many clouds (a multiple of 64)."""
    return Lists(
        expires=np.full(slots, -np.inf),
        lasting=np.ones(slots),
        probability=np.zeros(slots),
        candidate=np.zeros(slots, np.bool_),
        inside=np.zeros(slots, np.bool_),
        due=np.zeros(slots, np.bool_),
        who=np.zeros((slots, slots // 64), np.uint64),
    )


def free_slots(lists: Lists, used: int) -> Ints:
    """The slots that nobody has."""
    return np.flatnonzero(np.isneginf(lists.expires[:used]))
