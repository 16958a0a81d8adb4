"""How do many small groups have a tick each, in one call?

Their live sets lie side by side in the same arrays, each with room for the rows that come; pools and sums are common,
and end where the last group's do. So a group is a stretch of slots, and what happens to it is what `tick` does with a
group that stands alone: the same code, over that stretch. What costs for a small group is not the work but the calls
and the arrays around it, and those are made once for all.

A group that meets something unusual is left for the caller: see `tick`. Room for sums is made here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import BOUNDS_ONLY, Arrivals, Columns, Floats, Ints, LiveSet, Sums, Turn, UncertainRows
from fogline.kernels.admit import admit
from fogline.kernels.compile import inner, kernel
from fogline.kernels.states import DEAD, IN, OUT, expire_slots, has_bounds_only
from fogline.kernels.tick import ROOM, UNFILLED, arriving, boxes_of, work


class ManyLive(NamedTuple):
    """The live sets of groups, side by side."""

    uncertain: UncertainRows
    columns: Columns
    raw: Floats
    sums: Sums
    cuts: Floats  # the same for all: they decide how fast boxes are compared, never what is true
    fence: Any
    shared: Ints
    first: Ints  # (groups + 1,) where the slots of each begin
    used: Ints  # (groups,) how many of them are alive or dead, …
    alive: Ints  # … and how many live
    new: Ints  # (groups,) slots from here on, of a group's own, were filled at the present tick
    latest: Floats  # (groups,) as in `LiveSet`
    soon: Floats  # (groups,) the first expiry
    source: Ints  # (slots,) which row a slot holds
    came: Ints  # (slots,) of a group whose tick is not done yet, by its own count: slots that opened, …
    went: Ints  # … that were closed, …
    bounds_only: Ints  # … and that come again, better known
    came_size: Ints  # (groups,) how many they are
    went_size: Ints
    bounds_only_size: Ints
    shadowed: Ints  # (groups, 4) and what has been counted; see `skyline.live.Counts`
    spatial: Ints
    forgotten: Ints
    evaluations: Ints


class ManyChanges(NamedTuple):
    """What changed in the answers of groups."""

    group: Ints
    slot: Ints  # among those of all groups
    time: Floats
    change: Ints
    reason: Ints
    rival: Ints  # such a slot, too; negative: see `report`
    probability: Floats
    within: Floats


@inner
def _live(many, g, sums, pool, filled):
    """One group, as it would see itself alone."""
    a, b, uncertain, c = many.first[g], many.first[g + 1], many.uncertain, many.columns
    return LiveSet(
        UncertainRows(
            uncertain.lo[a:b], uncertain.hi[a:b], uncertain.start[a:b], uncertain.size[a:b],
            uncertain.value, uncertain.weight, uncertain.tail,
        ),
        Columns(
            c.arrived[a:b], c.expires[a:b], c.until[a:b], c.probability[a:b], c.reported[a:b], c.within[a:b],
            c.places[a:b], c.at[a:b], c.word_lo[a:b], c.word_hi[a:b], c.state[a:b], c.counted[a:b],
        ),
        many.raw[a:b], sums, many.cuts, many.fence, many.used[g], pool, filled, many.latest[g], many.shared,
    )  # fmt: skip


@inner
def _rows(rows, a, b, screened, returns):
    """Some of the rows."""
    uncertain = rows.uncertain
    u, o = (b if screened else a), (b if returns else a)
    return Arrivals(
        UncertainRows(
            uncertain.lo[a:b], uncertain.hi[a:b], uncertain.start[a:b], uncertain.size[a:b],
            uncertain.value, uncertain.weight, uncertain.tail,
        ),
        rows.arrived[a:b], rows.expires[a:b], rows.raw[a:b], rows.until[a:u], rows.origin[a:o],
    )  # fmt: skip


@inner
def _grown(sums, filled, more):
    """Sums with room for more."""
    size = max(2 * sums.logs.shape[0], filled + more)
    logs, zeros = np.zeros((size, 2), np.int64), np.zeros(size, np.int64)
    logs[:filled], zeros[:filled] = sums.logs[:filled], sums.zeros[:filled]
    return Sums(logs, zeros)


@kernel
def stand_up(many, now):
    """The columns of saved clouds are filled: sets `latest` and the first expiry of each group.

    Returns which groups a Python object must load: clouds are to be judged before anything comes.
    """
    columns, groups = many.columns, many.used.shape[0]
    odd = np.zeros(groups, np.bool_)
    for g in range(groups):
        latest, soon = -np.inf, np.inf
        for c in range(many.first[g], many.first[g] + many.used[g]):
            if columns.state[c] == IN:
                odd[g] |= columns.places[c] == 0 or many.sums.zeros[columns.at[c]] < 0
            else:
                odd[g] |= columns.until[c] <= now[g]
            expires = columns.expires[c]
            latest = expires if expires >= latest else np.inf
            soon = min(soon, expires)
        many.latest[g], many.soon[g] = latest, soon
    return odd


@kernel
def screen_many(many, rows, begin, which, now):
    """A first look at the rows of groups that have rows with bounds; see `screen`.

    Of each row: whether it can matter, until when it is surely beaten, and whether it must be known better.
    """
    n = rows.arrived.shape[0]
    stay, until, needed = np.ones(n, np.bool_), np.full(n, -np.inf), np.zeros(n, np.bool_)
    for g in which:
        a, b = begin[g], begin[g + 1]
        live, some = _live(many, g, many.sums, 0, 0), _rows(rows, a, b, False, False)
        many.went_size[g] = expire_slots(live.columns, live.used, now[g], many.went[many.first[g] : many.first[g + 1]])
        kept, beaten = admit(boxes_of(live), arriving(live, some), live.latest < np.inf, None)
        for i in range(a, b):
            stay[i] = False
        for k in range(kept.shape[0]):
            i = a + kept[k]
            stay[i], until[i] = True, beaten[k]
            needed[i] = beaten[k] <= now[g] and has_bounds_only(rows.uncertain, i)
    return stay, until, needed


@kernel
def tick_many(many, rows, source, begin, which, now, screened, returns, ends, limits, changes, end):
    """One tick of each of the groups `which`, or as much of it as can be done.

    `begin` (groups + 1,): where the rows of each group begin; `source`: whose row each is, for its slot; `ends`: of the
    pools, and of the sums. What changed is written from `end` on.

    Returns what is left to do of each, the ends, the sums, and where what changed ends.
    """
    pool, filled, sums = ends[0], ends[1], many.sums
    left_of = np.zeros(which.shape[0], np.int64)
    none = np.empty(0, np.int64)
    for n in range(which.shape[0]):
        g = which[n]
        first, a, b = many.first[g], begin[g], begin[g + 1]
        live, some = _live(many, g, sums, pool, filled), _rows(rows, a, b, screened[g], returns)
        came = many.came[first : first + many.came_size[g]]
        went = many.went[first : first + many.went_size[g]]
        many.came_size[g] = many.went_size[g] = 0
        turn = Turn(now[g], came, went, True, many.new[g], True, False)
        while True:
            left, met, judged, found = work(live, some, turn, limits, many.shadowed[g], None)
            for k in range(met[0].shape[0]):
                many.source[first + many.used[g] + k] = source[a + met[0][k]]
            many.used[g] += met[0].shape[0]
            pool, many.latest[g] = met[4], met[5]
            many.forgotten[g] += met[6]
            many.spatial[g] += met[6] - met[7]
            many.alive[g], many.soon[g], filled = judged[0], judged[1], judged[2]
            many.evaluations[g] += judged[4]
            if left != ROOM:
                break
            sums = _grown(sums, filled, judged[3])
            live, some = _live(many, g, sums, pool, filled), _rows(rows, a, a, False, False)
            turn = Turn(now[g], none, none, True, many.new[g], True, False)
        left_of[n] = left
        if left == UNFILLED:
            many.came_size[g], many.went_size[g] = met[1].shape[0], met[2].shape[0]
            many.bounds_only_size[g] = met[3].shape[0]
            many.came[first : first + met[1].shape[0]] = met[1]
            many.went[first : first + met[2].shape[0]] = met[2]
            many.bounds_only[first : first + met[3].shape[0]] = met[3]
        for k in range(found[0].shape[0]):
            changes.group[end], changes.slot[end], changes.time[end] = g, first + found[0][k], now[g]
            changes.change[end], changes.reason[end] = found[2][k], found[6][k]
            changes.probability[end], changes.within[end] = found[3][k], found[4][k]
            changes.rival[end] = first + found[7][k] if found[7][k] >= 0 else found[7][k]
            end += 1
    return left_of, pool, filled, sums, end


@kernel
def count_many(many, threshold):
    """(3, groups) how many clouds of each are members, of how many only bounds are known, how many are undecided."""
    columns, groups = many.columns, many.used.shape[0]
    out = np.zeros((3, groups), np.int64)
    for g in range(groups):
        for c in range(many.first[g], many.first[g] + many.used[g]):
            if columns.state[c] == IN:
                out[0, g] += 1
            if columns.state[c] >= OUT and columns.within[c] > 0:
                out[1, g] += 1
                out[2, g] += abs(columns.probability[c] - threshold) <= columns.within[c]
    return out


@kernel
def live_slots(many):
    """The slots of all living clouds, group by group, how many values of their own each has, and how many sums."""
    columns, uncertain = many.columns, many.uncertain
    total = 0
    for n in many.used:
        total += n
    slots, values, sums = np.empty(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.int64)
    m = 0
    for g in range(many.used.shape[0]):
        for c in range(many.first[g], many.first[g] + many.used[g]):
            if columns.state[c] == DEAD:
                continue
            slots[m] = c
            for j in range(uncertain.start.shape[1]):
                if uncertain.start[c, j] >= 0 and uncertain.start[c, j] != many.shared[j]:
                    values[m] += uncertain.size[c, j]
            if columns.state[c] == IN:
                sums[m] = columns.places[c]
            m += 1
    return slots[:m], values[:m], sums[:m]


@kernel
def rows_with_bounds_only(start):
    """(n,) of which clouds are only bounds known?"""
    out = np.zeros(start.shape[0], np.bool_)
    for i in range(start.shape[0]):
        for j in range(start.shape[1]):
            out[i] |= start[i, j] == BOUNDS_ONLY
    return out
