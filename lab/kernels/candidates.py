"""Which clouds of a window may still become an answer, and which others can beat them?

Candidate lists (after Ding, Lian, Chen, Jin 2012): a kept cloud has a row of bits, one per slot, for those that can
beat it at all. `lasting` is an upper bound of its probability over those alone that expire no earlier; at or below
alpha the cloud leaves the candidates for good, but still counts against others.

Invariant: bit (b, a) of a candidate b and a kept cloud a is set if and only if a's `hi` beats b's `lo`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import SHARED, Flags, Floats, Ints, Words
from fogline.kernels.bracket import Bounds, narrow
from fogline.kernels.compile import kernel
from fogline.kernels.dominance import dominates, dominates_point
from fogline.kernels.instances import (
    coarsen,
    distributed,
    dominates_instances,
    empty_grid,
    instance_weights,
    instances_of,
    merge_instances,
    own_grid,
    scratch_for,
)
from fogline.kernels.sweep import all_instances
from fogline.kernels.uncertain import write_cells

MANY = 65_536  # places; beyond, those between which no cloud of the list distinguishes are merged first
COARSE = 256  # places; beyond, a bound over so few is tried first
EXACT = 1_000_000  # merged places that are worked out exactly; …
WIDTH, WORK = 1e-3, 4_000_000  # … how narrow a bracket is beyond, and how much work that may be


class CandidateLists(NamedTuple):
    """What is known of each slot, beside its cloud."""

    expires: Floats  # -inf: the slot is free
    lasting: Floats
    probability: Floats  # of a member
    candidate: Flags  # may still become an answer
    inside: Flags  # is one
    due: Flags  # to be worked out again
    rivals: Words  # (slots, slots / 64) bit g of row o: g can beat o


class Admission(NamedTuple):
    """What a row must pass to be kept."""

    threshold: float  # what the probability of a member exceeds
    forget: bool  # drop what another that expires no earlier surely beats


@kernel
def expire_lists(lists, used, now):
    """Free the slots of what has expired; each candidate that one of those could beat is to be worked out again."""
    gone = np.zeros(lists.rivals.shape[1], np.uint64)
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
                if lists.rivals[o, w] & gone[w]:
                    lists.due[o] = True
                    break


@kernel
def free_slot(lists, g):
    """The cloud in this slot is gone."""
    lists.expires[g] = -np.inf
    lists.candidate[g] = lists.inside[g] = lists.due[g] = False


@kernel
def set_bit(bits, o, g, on):
    """Write bit g of row o."""
    bit = np.uint64(1) << np.uint64(g & 63)
    if on:
        bits[o, g >> 6] |= bit
    else:
        bits[o, g >> 6] &= ~bit


@kernel
def surely_beaten(uncertain, expires, used, i, rows, row_expires):
    """Does a kept cloud that expires no earlier surely beat row i of `rows`?"""
    for k in range(used):
        if expires[k] >= row_expires and dominates(uncertain.lo, k, rows.hi, i):
            return True
    return False


@kernel
def join_lists(uncertain, lists, used, i, admission):
    """A cloud has come into slot i: write which can beat which, and with `forget` drop what it surely beats for life.

    Only candidates need a list. A newcomer can only lower probabilities: only members are to be worked out again.
    """
    lists.candidate[i] = lists.due[i] = True
    lists.inside[i], lists.lasting[i] = False, 1.0
    lists.rivals[i] = 0
    for k in range(used):
        if k == i or lists.expires[k] == -np.inf:
            continue
        can_beat = (admission.forget or lists.candidate[k]) and dominates(uncertain.hi, i, uncertain.lo, k)
        lasts = lists.expires[i] >= lists.expires[k]
        if admission.forget and can_beat and lasts and dominates(uncertain.lo, i, uncertain.hi, k):
            free_slot(lists, k)
            continue
        if lists.candidate[k]:
            set_bit(lists.rivals, k, i, can_beat)
            if can_beat:
                lists.due[k] |= lists.inside[k]
                lower_lasting(uncertain, lists, i, k, admission.threshold)
        if lists.candidate[i] and dominates(uncertain.hi, k, uncertain.lo, i):
            set_bit(lists.rivals, i, k, True)
            lower_lasting(uncertain, lists, k, i, admission.threshold)


@kernel
def lower_lasting(uncertain, lists, g, o, threshold):
    """g can beat o: if it lives as long, o's bound for life falls, perhaps so low that o is no candidate any more."""
    if lists.expires[g] >= lists.expires[o]:
        lists.lasting[o] *= 1.0 - dominates_point(uncertain, g, uncertain.hi, o)
        if lists.lasting[o] <= threshold:
            lists.candidate[o] = lists.inside[o] = lists.due[o] = False


@kernel
def take_rows(uncertain, lists, used, free, pool, rows, expires, admission):
    """Let rows in, one after the other. Returns their slots (-1: surely beaten), the slots in use, the pool."""
    slots, none = np.full(expires.shape[0], -1), np.full(uncertain.lo.shape[1], SHARED)
    taken = 0
    for i in range(expires.shape[0]):
        if admission.forget and surely_beaten(uncertain, lists.expires, used, i, rows, expires[i]):
            continue
        if taken < free.shape[0]:
            slot = free[taken]
            taken += 1
        else:
            slot = used
            used += 1
        pool = write_cells(rows, np.array([i]), uncertain, slot, pool, none, none)
        lists.expires[slot] = expires[i]
        join_lists(uncertain, lists, used, slot, admission)
        slots[i] = slot
    return slots, used, pool


@kernel
def living_rivals(lists, o, used, near):
    """Which of those alive can beat o, into `near`; returns how many."""
    m = 0
    for w in range((used + 63) >> 6):
        word = lists.rivals[o, w]
        g = w << 6
        while word:
            if word & np.uint64(1) and lists.expires[g] > -np.inf:
                near[m] = g
                m += 1
            word >>= np.uint64(1)
            g += 1
    return m


@kernel
def corner_bound(uncertain, o, near, threshold):
    """P at o's best corner, which P(o) cannot exceed; it stops at or below `threshold`."""
    bound = 1.0
    for g in near:
        bound *= 1.0 - dominates_point(uncertain, g, uncertain.hi, o)
        if bound <= threshold:
            break
    return bound


@kernel
def work_out(uncertain, o, near, threshold, grid, scratch):
    """P(o), its cells having these values, over those in `near`; or any number at or below `threshold` once P is."""
    left, chance = scratch.left, scratch.chance
    places = instance_weights(grid, left)
    total = 1.0
    for g in near:
        if not dominates_instances(uncertain, g, o, grid, scratch):
            continue
        total = 0.0
        for k in range(places):
            left[k] *= 1.0 - max(chance[k], 0.0)
            total += left[k]
        if total <= threshold:
            break
    return min(total, 1.0)


@kernel
def coarse_bound(uncertain, o, near, threshold, scratch):
    """What P(o) cannot exceed: each of a few runs of o's values stands at its best."""
    d = uncertain.lo.shape[1]
    parts = max(int(COARSE ** (1.0 / distributed(uncertain, o))) - 1, 1)
    grid = empty_grid((parts + 1) * d, d)
    coarsen(uncertain, o, parts, grid)
    return work_out(uncertain, o, near, threshold, grid, scratch)


@kernel
def work_out_many(uncertain, o, near, threshold):
    """P(o) of a cloud of very many places, as Fogline does it: places that `near` does not distinguish are one."""
    grid = empty_grid(uncertain.size[o].sum(), uncertain.lo.shape[1])
    if merge_instances(uncertain, o, near, grid) <= EXACT:
        return all_instances(uncertain, o, near, grid)
    edge = threshold if threshold > 0 else np.nan  # alpha is 0: only narrow it
    low, high = narrow(uncertain, o, near, grid, Bounds(edge, WIDTH, WORK))
    return (low + high) / 2


@kernel
def any_surely(uncertain, o, near):
    """Does any of `near` surely beat o?"""
    for g in near:
        if dominates(uncertain.lo, g, uncertain.hi, o):
            return True
    return False


@kernel
def refresh_lists(uncertain, lists, used, threshold):
    """Work out every candidate that is due. Returns how many that were, and which slots are in the answer."""
    near, inside = np.empty(used, np.int64), np.empty(used, np.int64)
    scratch = scratch_for(MANY)
    worked = n = 0
    for o in range(used):
        if lists.due[o]:
            rivals = near[: living_rivals(lists, o, used, near)]
            chance = chance_of(uncertain, o, rivals, threshold, lists.inside[o], scratch)
            sealed = threshold < 0 and any_surely(uncertain, o, rivals)  # alpha is 0: boxes decide, not a tiny number
            lists.probability[o], lists.inside[o], lists.due[o] = chance, chance > threshold and not sealed, False
            worked += 1
        if lists.inside[o]:
            inside[n] = o
            n += 1
    return worked, inside[:n]


@kernel
def chance_of(uncertain, o, rivals, threshold, inside, scratch):
    """P(o); or any number at or below `threshold` once P is. Cheap bounds come first, unless it was inside."""
    chance = corner_bound(uncertain, o, rivals, threshold)
    places = instances_of(uncertain, o)
    if chance > threshold >= 0 and places > 2 * COARSE and not inside:
        chance = coarse_bound(uncertain, o, rivals, threshold, scratch)
    if chance > threshold and places <= MANY:
        return work_out(uncertain, o, rivals, threshold, own_grid(uncertain, o), scratch)
    return work_out_many(uncertain, o, rivals, threshold) if chance > threshold else chance


def empty_lists(slots: int) -> CandidateLists:
    """Room for so many clouds (a multiple of 64)."""
    return CandidateLists(
        expires=np.full(slots, -np.inf),
        lasting=np.ones(slots),
        probability=np.zeros(slots),
        candidate=np.zeros(slots, np.bool_),
        inside=np.zeros(slots, np.bool_),
        due=np.zeros(slots, np.bool_),
        rivals=np.zeros((slots, slots // 64), np.uint64),
    )


def free_slots(lists: CandidateLists, used: int) -> Ints:
    """The slots that are not taken."""
    return np.flatnonzero(np.isneginf(lists.expires[:used]))
