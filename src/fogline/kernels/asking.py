"""If the true value of one missing cell were known, how many rows would enter or leave the answer?

Only open clouds matter: a sealed one stays sealed whatever its cells turn out to be, since values lie in its box. Let c
be open, v a value of its cell j, and all else as it is. What c does to a place x of another cloud o is then
A (v > x_j), A - E (v = x_j) or nothing (v < x_j), where A and E are the chances that c is as good, and just as good, in
the other attributes. So P(o | v) falls with v, and follows from o's places without c. P(c | v) is the part of c's own
places that has v, and rises with v. Each value at which a cloud is on the other side of alpha than now counts with its
weight: that is the exact expectation.

A cloud that is out can get in by another one's cell only if it would be in without that one; the product over
all rivals but the strongest at its best place shows for most that it would not, and nothing more is looked at.

Sums over clouds are sums of integers (fixed point): the same bits in any order of the slots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Floats, Ints, Scratch, Sums
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats, beats_point, high_end, low_end, write_ends
from fogline.kernels.judge import words_of
from fogline.kernels.merged import merge_places
from fogline.kernels.places import beats_places, empty_grid, own_grid, place_weights, reaches_places, scratch_for
from fogline.kernels.states import IN
from fogline.kernels.sums import SURE, account, clear, left_of
from fogline.kernels.words import BLOCK, any_covers, covers

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
    clouds, columns, d = live.clouds, live.columns, live.clouds.lo.shape[1]
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
            look(live, o, near, own_grid(clouds, o), inside, threshold, room, changes)
        else:
            values = 0
            for j in range(d):
                values += clouds.size[o, j]
            grid = empty_grid(values, d)
            if merge_places(clouds, o, near, grid) <= places:
                look(live, o, near, grid, False, threshold, room, changes)
    return changes


@inner
def is_gap(clouds, c, j):
    """May cell j of cloud c have more than one value?"""
    return clouds.start[c, j] >= 0 and clouds.size[c, j] > 1


@inner
def has_gaps(clouds, c):
    """May any of its cells?"""
    for j in range(clouds.lo.shape[1]):
        if is_gap(clouds, c, j):
            return True
    return False


@inner
def rivals_to_ask(live, o, opened, strong, threshold, room):
    """The clouds that can beat o, into room.near: how many? -1: no single cell can bring o in.

    So it is if all rivals but any one of those with gaps keep even o's best place at or below the threshold, or one
    surely beats it.
    """
    clouds, fence, word, ends = live.clouds, live.fence, live.columns.word_lo[o], room.ends
    write_ends(clouds, o, ends)
    m = 0
    left, strongest = 1.0, 1.0  # over all rivals but the strongest with gaps; that one
    end = opened.shape[0]
    while end > 0:
        begin = max(end - BLOCK, 0)
        if any_covers(strong, begin, end, word, fence):
            for r in range(end - 1, begin - 1, -1):
                g = opened[r]
                if g == o or not covers(strong[r], word, fence) or not beats(clouds.hi, g, ends, 0):
                    continue
                room.near[m] = g
                m += 1
                if threshold < 0.0:
                    continue
                factor = 1.0 - beats_point(clouds, g, ends, 1)
                if 0.0 < factor < strongest and has_gaps(clouds, g):  # at 0 it beats it with every value
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
    clouds, columns, scratch = live.clouds, live.columns, room.scratch
    inside = columns.state[o] == IN
    places = place_weights(grid, scratch.weight)
    sums, at = room.sums, 0
    if kept:
        sums, at = live.sums, columns.at[o]
    else:
        clear(sums, 0, places)
        for g in near:
            if beats_places(clouds, g, o, grid, scratch):
                account(scratch.chance, places, 1, sums, 0)
    for k in range(places):
        scratch.left[k] = scratch.weight[k] * left_of(sums, at + k)
    own_cells(clouds, o, grid, places, inside, threshold, room, changes)
    for g in near:
        if has_gaps(clouds, g) and beats_places(clouds, g, o, grid, scratch):
            without, may_flip = leave_out(places, inside, threshold, room)
            if may_flip:
                for j in range(clouds.lo.shape[1]):
                    if is_gap(clouds, g, j):
                        flips = flipping(clouds, g, j, o, grid, without, inside, threshold, room)
                        changes[g, j] += np.int64(np.rint(flips / UNIT))


@inner
def own_cells(clouds, o, grid, places, inside, threshold, room, changes):
    """How likely is each cell of o to have a value at which o is on the other side?"""
    left, part = room.scratch.left, room.fall
    stride = places
    for j in range(clouds.lo.shape[1]):
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
        if is_gap(clouds, o, j):
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
def flipping(clouds, g, j, o, grid, without, inside, threshold, room):
    """How likely has cell j of rival g a value at which o is on the other side? `without`: P(o) without g."""
    scratch, rest, fall, tie = room.scratch, room.rest, room.fall, room.tie
    places = reaches_places(clouds, g, o, grid, j, scratch)
    n, stride = 1, 1
    if grid.start[j] >= 0:
        n = grid.size[j]
        for q in range(j + 1, clouds.lo.shape[1]):
            stride *= grid.size[q] if grid.start[q] >= 0 else 1
    fall[:n] = tie[:n] = 0.0
    for k in range(places):
        m = k // stride % n
        fall[m] += rest[k] * scratch.chance[k]
        tie[m] += rest[k] * scratch.tie[k]
    flips, left, m = 0.0, without, 0
    for k in range(clouds.start[g, j], clouds.start[g, j] + clouds.size[g, j]):
        v, even = clouds.value[k], 0.0
        while m < n and value_of(clouds, o, grid, j, m) <= v:
            left -= fall[m]
            even = tie[m] if value_of(clouds, o, grid, j, m) == v else 0.0
            m += 1
        if (left + even > threshold) != inside:
            flips += clouds.weight[k]
    return flips


@inner
def value_of(clouds, o, grid, j, m):
    """The m-th value of cell j."""
    return grid.value[grid.start[j] + m] if grid.start[j] >= 0 else clouds.lo[o, j]


# --- Alpha 0: a cloud is in if none surely beats it -------------------------------------------------------------------


@inner
def surely_beaten_then(live, o, opened, changes):
    """Add to the cells of o, and of others, how likely their values let o be surely beaten. What is out stays out."""
    clouds = live.clouds
    d = clouds.lo.shape[1]
    beaten = np.full(d, -np.inf)  # up to which value of its own cell o is surely beaten
    for g in opened:
        if g == o:
            continue
        behind, at = 0, -1  # in how many attributes g is not surely as good; the last of them
        for j in range(d):
            if not low_end(clouds, g, j) >= high_end(clouds, o, j):
                behind, at = behind + 1, j
        if behind > 1:
            continue
        for j in range(d):
            if behind == 1 and j != at:
                continue
            elsewhere = False  # is it surely better in another attribute?
            for q in range(d):
                elsewhere |= q != j and low_end(clouds, g, q) > high_end(clouds, o, q)
            if is_gap(clouds, g, j):
                flips, best = 0.0, high_end(clouds, o, j)
                for k in range(clouds.start[g, j], clouds.start[g, j] + clouds.size[g, j]):
                    v = clouds.value[k]
                    if v > best or (v == best and elsewhere):
                        flips += clouds.weight[k]
                changes[g, j] += np.int64(np.rint(flips / UNIT))
            if is_gap(clouds, o, j):
                worst = low_end(clouds, g, j)
                beaten[j] = max(beaten[j], worst if elsewhere else np.nextafter(worst, -np.inf))
    for j in range(d):
        if is_gap(clouds, o, j):
            flips = 0.0
            for k in range(clouds.start[o, j], clouds.start[o, j] + clouds.size[o, j]):
                if clouds.value[k] <= beaten[j]:
                    flips += clouds.weight[k]
            changes[o, j] += np.int64(np.rint(flips / UNIT))
