"""Which open rows are in, and until when are the others surely out?

Cheap bounds come first: the best corner; then a few values per cell; then all. P over any subset of the possible
dominators is an upper bound. So the first few that push it to the threshold are enough, and they hold until the first
of them expires: guards act together. Products that serve as bounds are rounded up (`spared`): what they show, the sums
show too.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.admit import fewest_boxes, sorted_corners
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import (
    corner_dominates_row,
    dominates,
    dominates_point,
    dominates_row,
    surely_dominates,
    write_ends,
)
from fogline.kernels.instances import (
    coarsen,
    distributed,
    dominates_instances,
    grid_of,
    instance_weights,
    instances_of,
    own_grid,
    parts_for,
    scratch_of,
)
from fogline.kernels.sorting import argsort, ascending, side_by_side
from fogline.kernels.states import HEAVY, IN, OUT
from fogline.kernels.sums import account, clear, left_by, spared, total
from fogline.kernels.words import BLOCK, any_covers, covers

COARSE = 8  # values per cell in the cheap upper bound
FIRST = 64  # possible dominators that are tried before others are looked for; …
GROWTH = 8  # … then so many times as many, and so on


# --- Possible dominators ----------------------------------------------------------------------------------------------


@inner
def dominators(live, o, among, strong, threshold, near, ends):
    """The rows among some that can dominate o, into `near`; stops as soon as they keep even o's best instance out.

    `strong` holds the words of their best corners, side by side; `ends` is room for o's worst and best instance (2, d).
    Returns how many, and until when they keep it out (-inf: they do not). This is the joint form of max-corner pruning.
    """
    write_ends(live.uncertain, o, ends)
    n = among.shape[0]
    m, _, left, until = more_dominators(live, o, among, strong, threshold, n + 1, near, ends, 0, n, 1.0, np.inf)
    return m, until if left <= threshold else -np.inf


@inner
def more_dominators(live, o, among, strong, threshold, most, near, ends, m, end, left, until):
    """Go on with `dominators`, from `end` down, until there are `most` or a few more.

    So far there are m, they leave so much of o's best instance, and the first of those that count expires then.
    """
    uncertain, columns, fence = live.uncertain, live.columns, live.fence
    word = columns.word_lo[o]
    while end > 0 and m < most:
        begin = max(end - BLOCK, 0)
        if any_covers(strong, begin, end, word, fence):
            for r in range(end - 1, begin - 1, -1):
                g = among[r]
                if g == o or not covers(strong[r], word, fence) or not dominates(uncertain.hi, g, ends, 0):
                    continue
                near[m] = g
                m += 1
                p = dominates_point(uncertain, g, ends, 1)
                if p > 0.0:
                    left *= spared(p)
                    until = min(until, columns.expires[g])
                    if left <= threshold:
                        return m, end, left, until
        end = begin
    return m, end, left, until


@inner
def is_crowded(steps, ends):
    """Are so many others as good as o's worst instance somewhere that it does not pay to sort them?"""
    _, m = fewest_boxes(steps.value, ends, 0)
    return m >= FIRST * GROWTH and 2 * m >= steps.slot.shape[1]


@inner
def dominators_on(live, o, steps, threshold, near, ends):
    """As `dominators`, by sorted columns of best corners. In the same order: the last slot first."""
    uncertain, columns, fence = live.uncertain, live.columns, live.fence
    write_ends(uncertain, o, ends)
    j, m = fewest_boxes(steps.value, ends, 0)
    words, word = steps.word[j], columns.word_lo[o]
    n = 0
    for begin in range(0, m, BLOCK):
        end = min(begin + BLOCK, m)
        if any_covers(words, begin, end, word, fence):
            for r in range(begin, end):
                g = steps.slot[j, r]
                if g != o and covers(words[r], word, fence) and dominates(uncertain.hi, g, ends, 0):
                    near[n] = -g
                    n += 1
    found = ascending(near[:n])
    left, until = 1.0, np.inf
    for k in range(n):
        g = -found[k]
        near[k] = g
        p = dominates_point(uncertain, g, ends, 1)
        if p > 0.0:
            left *= spared(p)
            until = min(until, columns.expires[g])
            if left <= threshold:
                return k + 1, until
    return n, -np.inf


@inner
def words_of(words, which):
    """Some of the words, side by side."""
    out = np.empty(which.shape[0], np.uint64)
    for k in range(which.shape[0]):
        out[k] = words[which[k]]
    return out


# --- Bounds -----------------------------------------------------------------------------------------------------------


@inner
def upper_bound(live, o, near, threshold, grid, scratch):
    """Until when do the rows in `near`, taken in order, keep P(o) at or below `threshold`? (-inf: they do not.)

    Also returns how many of them were taken.
    """
    instances = instance_weights(grid, scratch.left)
    until = np.inf
    for taken in range(near.shape[0]):
        g = near[taken]
        left = left_by(live.uncertain, g, o, grid, instances, scratch)
        if left < 0.0:
            continue
        until = min(until, live.columns.expires[g])
        if left <= threshold:
            return until, taken + 1
    return -np.inf, near.shape[0]


@inner
def coarse_upper_bound(live, o, near, threshold, grid, scratch):
    """`upper_bound` over few values per cell, then over more, where that is less work than over all."""
    cells, instances = distributed(live.uncertain, o), live.columns.instances[o]
    finest = parts_for(cells)
    parts = min(COARSE, finest)
    for _ in range(2):
        if parts >= 2 and not 0 < instances <= 2 * parts**cells and threshold >= 0:
            coarsen(live.uncertain, o, parts, grid)
            until, taken = upper_bound(live, o, near, threshold, grid, scratch)
            if until > -np.inf:
                return until, taken
        parts = finest
    return -np.inf, near.shape[0]


@inner
def lemma(uncertain, expires, near, o, least):
    """What prunes o? 0 max-corner (Lemma 2), 1 min-corner (Lemma 3), 2 a guard that neither shows, 3 several together.

    Only those that expire no earlier than o count: Lemma 1 (spatial) has been tried before.
    """
    found = 3
    ends, corner = np.empty((2, uncertain.lo.shape[1])), np.empty((2, uncertain.lo.shape[1]))
    write_ends(uncertain, o, ends)
    for g in near:
        if expires[g] < expires[o]:
            continue
        if dominates_point(uncertain, g, ends, 1) >= least:
            return 0
        if found == 1 or corner_dominates_row(uncertain.hi, g, uncertain, o)[0] < least:
            continue
        write_ends(uncertain, g, corner)
        if corner_dominates_row(corner, 0, uncertain, o)[1] >= least:
            found = 1
        elif found == 3 and dominates_row(uncertain, g, o) >= least:
            found = 2
    return found


lemma_of = kernel(lemma.py_func)  # the same, to be called from Python


# --- Verdicts ---------------------------------------------------------------------------------------------------------


@inner
def kept_out(live, o, near, limits, coarse, scratch):
    """Until when are `near` sure to keep o out (-inf: they are not), and was that asked of all its instances?

    A row without sums that was in is likely to be so again, and no bound shows it: all its instances are summed.
    (Not where they are so many that it may be bracketed: what decides then must not depend on what was reported.) Also
    returns how many of them, in their order, were taken.
    """
    threshold = limits.threshold
    if (
        live.columns.instances[o] == 0
        and not np.isnan(live.columns.reported[o])
        and instances_of(live.uncertain, o) <= limits.exact_limit
    ):
        return -np.inf, False, 0
    until, taken = coarse_upper_bound(live, o, near, threshold, coarse, scratch)
    if until > -np.inf or live.columns.instances[o] <= 1:
        return until, False, taken
    until, taken = upper_bound(live, o, near, threshold, own_grid(live.uncertain, o), scratch)
    return until, True, taken


@inner
def few_keep_out(live, o, opened, strong, limits, near, ends, coarse, scratch):
    """`dominators`, and `kept_out` whenever there are some more of them.

    Where distributions overlap widely, thousands can dominate o, and a few dozen of them keep it out. Returns how many
    there are, until when they keep o out (-inf: they do not), and whether that was asked of all its instances.
    """
    threshold, n = limits.threshold, opened.shape[0]
    write_ends(live.uncertain, o, ends)
    m, end, left, until = 0, n, 1.0, np.inf
    most = (
        FIRST if threshold >= 0.0 and live.columns.instances[o] != 1 else n + 1
    )  # of one instance, that is the best one
    while True:
        m, end, left, until = more_dominators(live, o, opened, strong, threshold, most, near, ends, m, end, left, until)
        if left <= threshold:
            return m, until, False
        if end == 0:
            return m, -np.inf, False
        soon, summed, _ = kept_out(live, o, near[:m], limits, coarse, scratch)
        if soon > -np.inf:
            return m, soon, summed
        most *= GROWTH


@inner
def surely_out(live, o, near):
    """Until when does a row in `near` surely dominate o? (-inf: none does.) At alpha 0 just that keeps a row out."""
    until = -np.inf
    for g in near:
        if live.columns.expires[g] > until and surely_dominates(live.uncertain, g, o):
            until = live.columns.expires[g]
    return until


@inner
def shut_out(live, o, near, until, least, pruned):
    """o is kept out until then; if that is for life, it is counted once in `pruned` (4,)."""
    live.columns.until[o] = until
    if is_new_shadow(live.columns, o):
        live.columns.counted[o] = True
        pruned[lemma(live.uncertain, live.columns.expires, near, o, least)] += 1


@inner
def is_new_shadow(columns, o):
    """Is o kept out for life, and not yet counted?"""
    return columns.state[o] == OUT and columns.until[o] >= columns.expires[o] and not columns.counted[o]


@inner
def add_up(live, o, near, threshold, cursor, scratch):
    """Write o's sums to the pools from `cursor` on, its probability and its state. Returns the new end of the sums.

    `static.summed` sums as this does; here it also matters which dominator that touches an instance expires first.
    """
    columns, sums, grid = live.columns, live.sums, own_grid(live.uncertain, o)
    instances = columns.instances[o]
    columns.at[o] = cursor
    clear(sums, cursor, instances)
    soonest = np.inf
    for g in near:
        if dominates_instances(live.uncertain, g, o, grid, scratch):
            account(scratch.chance, instances, 1, sums, cursor)
            soonest = min(soonest, columns.expires[g])
    instance_weights(grid, scratch.weight)
    columns.probability[o] = total(scratch.weight, instances, sums, cursor)
    if columns.probability[o] > threshold:
        columns.state[o], columns.until[o] = IN, -np.inf
        return cursor + instances
    columns.until[o] = soonest  # the two ways of multiplying differ in the last digits; the sums decide
    return cursor


# --- The same, where guards are remembered ----------------------------------------------------------------------------
#
# Where any row may be replaced, a row that is out waits for no instant: it remembers the few rows that together keep it
# out, or that those are many (see `latest`).

NO_GUARD, TOO_MANY = -1, -2  # in place of a guard: there is none; there are more than there is room for


@inner
def likeliest_first(live, near, ends, chances):
    """Sort `near` by how likely each dominates the best instance, ends[1]; `chances` gets those, in that order."""
    n = near.shape[0]
    keys, before = np.empty(n), near.copy()
    for k in range(n):
        keys[k] = -dominates_point(live.uncertain, near[k], ends, 1)
    order = argsort(keys)
    for k in range(n):
        near[k], chances[k] = before[order[k]], -keys[order[k]]


@inner
def remember(guards, o, near, taken):
    """The first `taken` of `near` guard o."""
    most = guards.joint.shape[1]
    for k in range(most):
        guards.joint[o, k] = TOO_MANY if taken > most else near[k] if k < taken else NO_GUARD


@inner
def enough(chances, threshold):
    """How many of the chances, in their order, push what is left to the threshold; all, if it takes all."""
    left = 1.0
    for k in range(chances.shape[0]):
        left *= spared(chances[k])
        if left <= threshold:
            return k + 1
    return chances.shape[0]


@inner
def guarded_surely(live, guards, o, near):
    """Does one of `near` surely dominate o by their distributions? Then it guards o: at alpha 0 only that does."""
    for k in range(near.shape[0]):
        if surely_dominates(live.uncertain, near[k], o):
            remember(guards, o, near[k:], 1)
            return True
    return False


@inner
def guard_out(live, guards, o, near, limits, coarse, scratch):
    """Do o's dominators keep it out, by less than all its instances and all of them? Remembers the guards, if so.

    `near` lies with the likeliest first. Returns whether, and whether all its instances were asked.
    """
    until, summed, taken = kept_out(live, o, near, limits, coarse, scratch)
    if until > -np.inf:
        remember(guards, o, near, taken)
    return until > -np.inf, summed


@inner
def few_guard_out(live, guards, o, opened, strong, limits, near, ends, coarse, scratch):
    """As `few_keep_out`, for rows that remember their guards: the dominators found so far, the likeliest first.

    Returns how many there are, whether they keep o out, and whether that was asked of all its instances.
    """
    threshold, n = limits.threshold, opened.shape[0]
    chances = np.empty(n)
    write_ends(live.uncertain, o, ends)
    m, end, left, until = 0, n, 1.0, np.inf
    most = FIRST * GROWTH if threshold >= 0.0 and live.columns.instances[o] != 1 else n + 1
    while True:
        m, end, left, until = more_dominators(live, o, opened, strong, threshold, most, near, ends, m, end, left, until)
        if threshold < 0.0:
            return m, guarded_surely(live, guards, o, near[:m]), False
        likeliest_first(live, near[:m], ends, chances)
        if left <= threshold:
            remember(guards, o, near[:m], enough(chances[:m], threshold))
            return m, True, False
        out, summed = guard_out(live, guards, o, near[:m], limits, coarse, scratch)
        if out or end == 0:
            return m, out, summed
        most *= GROWTH


# --- The loop ---------------------------------------------------------------------------------------------------------


@inner
def follow(live, guards, o, first, cursor):
    """Row o is the same as `first`, which has just been judged: so is it. Returns the new end of the sums.

    Each may dominate the other, and one that keeps the other out does so only as long as it lives; what guards one of
    them guards the other.
    """
    columns, sums, instances = live.columns, live.sums, live.columns.instances[first]
    columns.state[o], columns.probability[o], columns.within[o] = columns.state[first], columns.probability[first], 0.0
    if guards is None:
        columns.until[o] = columns.until[first] if instances == 1 else min(columns.until[first], columns.expires[first])
    else:
        columns.until[o] = -np.inf if columns.state[o] == IN else np.inf
        for k in range(guards.joint.shape[1]):
            guards.joint[o, k] = first if guards.joint[first, k] == o else guards.joint[first, k]
    if columns.state[o] == IN:
        columns.at[o] = cursor
        for k in range(instances):
            for word in range(2):
                sums.logs[cursor + k, word] = sums.logs[columns.at[first] + k, word]
            sums.zeros[cursor + k] = sums.zeros[columns.at[first] + k]
        return cursor + instances
    return cursor


@inner
def keep_out(live, o, opened, strong, steps, limits, pruned, near, ends, coarse, scratch):
    """Do others keep o out? Then it is written until when, and whether that is for life.

    Returns how many of `near` can dominate it, whether they keep it out, and whether all its instances were asked.
    """
    threshold, summed = limits.threshold, False
    if steps is None:
        m, until, summed = few_keep_out(live, o, opened, strong, limits, near, ends, coarse, scratch)
    else:
        write_ends(live.uncertain, o, ends)
        if steps.slot.shape[1] > 0 and not is_crowded(steps, ends):
            m, until = dominators_on(live, o, steps, threshold, near, ends)
        else:
            m, until, summed = few_keep_out(live, o, opened, strong, limits, near, ends, coarse, scratch)
    if threshold < 0.0:
        until = surely_out(live, o, near[:m])
    elif until == -np.inf:
        until, summed, _ = kept_out(live, o, near[:m], limits, coarse, scratch)
    if until > -np.inf:
        shut_out(live, o, near[:m], until, limits.least, pruned)
    return m, until > -np.inf, summed


@inner
def judge(live, guards, opened, strong, steps, due, again, limits, pruned, near, room):
    """Judge the rows `due` against all that are open. Members' sums are written from the end of those in use on.

    Writes state (OUT, IN, HEAVY), probability and until; returns how many probabilities were worked out, how many rows
    are HEAVY, and the new end of the sums. `strong`: the words of what is open, side by side. `steps`: their corners in
    sorted columns, where dominators are looked for; None, or of no rows: they are not sorted. `again`: equal rows lie
    side by side, and these are as the one before. `pruned` (4,) counts rows that are kept out for life, or `guards` are
    remembered; the other is None. `near` (open slots,) and `room` (see `scratch_of`) are worked in.
    """
    columns, d = live.columns, live.uncertain.lo.shape[1]
    evaluations, heavy, cursor = 0, 0, live.filled
    scratch, coarse, ends = scratch_of(room), grid_of(room, d), np.empty((2, d))
    m = first = 0  # possible dominators of, and, the last row that was not the same as the one before
    kind, expiry = -1, 0.0
    for k in range(due.shape[0]):
        o = due[k]
        if again is not None and again[k]:
            cursor = follow(live, guards, o, first, cursor)
            heavy += columns.state[o] == HEAVY
            if pruned is not None and is_new_shadow(columns, o):
                if kind < 0 or columns.expires[o] != expiry:  # for equal rows that live as long it is the same
                    kind = lemma(live.uncertain, columns.expires, near[:m], o, limits.least)
                    expiry = columns.expires[o]
                columns.counted[o] = True
                pruned[kind] += 1
            continue
        first, kind = o, -1
        columns.state[o], columns.within[o] = OUT, 0.0
        out = summed = False
        if pruned is not None:
            m, out, summed = keep_out(live, o, opened, strong, steps, limits, pruned, near, ends, coarse, scratch)
        if guards is not None:
            columns.until[o] = np.inf
            m, out, summed = few_guard_out(live, guards, o, opened, strong, limits, near, ends, coarse, scratch)
        evaluations += summed
        if out:
            continue
        if columns.instances[o] == 0:
            columns.state[o] = HEAVY
            heavy += 1
        else:
            evaluations += 1
            cursor = add_up(live, o, near[:m], limits.threshold, cursor, scratch)
        if guards is not None:
            remember(guards, o, near, guards.joint.shape[1] + 1)
            columns.until[o] = -np.inf if columns.state[o] == IN else np.inf
    return evaluations, heavy, cursor


@inner
def corners_of(live, opened, due, bulk):
    """What is open in sorted columns, and what is due, equal rows side by side; not `bulk`: neither."""
    steps = sorted_corners(live.uncertain.hi, live.columns.word_hi, opened if bulk else opened[:0])
    due, again = side_by_side(live.uncertain, due, bulk)
    return steps, due, again


@kernel
def guards_of(live, others, o, least):
    """Which of `others` guard o, that is, dominate it with probability at least `least`?"""
    uncertain, columns = live.uncertain, live.columns
    found = np.empty(others.shape[0], np.int64)
    m = 0
    for g in others:
        if (
            g == o
            or not covers(columns.word_hi[g], columns.word_lo[o], live.fence)
            or not dominates(uncertain.hi, g, uncertain.lo, o)
        ):
            continue
        if dominates_row(uncertain, g, o) >= least:
            found[m] = g
            m += 1
    return found[:m]
