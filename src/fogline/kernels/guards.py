"""Which rows keep a row out, where any row may be replaced at any time?

A sealed row remembers one row that surely beats it; a row that is out remembers the few that together keep it at or
below alpha, or that they are many. Those are its *guards*. A guard stays good for as long as its row is current,
whatever becomes of the guard itself:

- P(o) is a product over all current rows, so over some of them it can only be greater. What some rows push to alpha or
  below stays there while they are current, be they open, out or sealed.
- Sealed rows are left out of every product, and nothing changes: whatever surely beats g is at least as good as g
  wherever g turns out to be, so it beats surely each place that g may beat. Among the rows that surely beat g one is
  not surely beaten itself, for that order is strict; it is open, and its factor is 0 wherever g's is less than 1.

So a row is looked at only when one of its guards leaves. Then the guard's own guard will do, if it stays: to beat
surely is transitive.
"""

from __future__ import annotations

import numpy as np

from fogline.kernels.compile import inner
from fogline.kernels.dominance import beats, beats_point, surely_beats, write_ends
from fogline.kernels.judge import FIRST, GROWTH, add_up, follow, kept_out, more_rivals, words_of
from fogline.kernels.places import ROOM, empty_grid, scratch_for
from fogline.kernels.sorting import argsort
from fogline.kernels.states import DEAD, HEAVY, IN, OUT, SEALED, is_vague
from fogline.kernels.sums import spared
from fogline.kernels.twins import in_order, same_box, side_by_side
from fogline.kernels.words import BLOCK, any_covers, covers

NONE, MANY = -1, -2  # in place of a guard: there is none; there are more than there is room for


# --- Sealed rows ------------------------------------------------------------------------------------------------------


@inner
def orphans(live, guards, out):
    """The sealed rows whose guard has died, into `out`; returns how many."""
    state, sure = live.columns.state, guards.sure
    n = 0
    for c in range(live.used):
        if state[c] == SEALED and state[sure[c]] == DEAD:
            out[n] = c
            n += 1
    return n


@inner
def inherited(live, guards, c):
    """A guard for c, whose own has died: that one's guard, or the row that replaced the last of them; or NONE.

    A dead row that was open has its heir, if any, in the place of its guard: a slot that is new, beyond those in use.
    """
    g = guards.sure[c]
    while g >= 0 and live.columns.state[g] == DEAD:
        g = guards.sure[g]
        if g >= live.used:
            return g if not is_vague(live.clouds, g) and beats(live.clouds.lo, g, live.clouds.hi, c) else NONE
    return g


@inner
def beater(live, c, slots, strong, begin):
    """One of slots[begin:] that surely beats c, or NONE; the last are tried first. `strong`: words of their `lo`."""
    lo, hi, word, fence = live.clouds.lo, live.clouds.hi, live.columns.word_hi[c], live.fence
    end = slots.shape[0]
    while end > begin:
        first = max(end - BLOCK, begin)
        if any_covers(strong, first, end, word, fence):
            for r in range(end - 1, first - 1, -1):
                if covers(strong[r], word, fence) and beats(lo, slots[r], hi, c):
                    return slots[r]
        end = first
    return NONE


@inner
def lo_sums(live, which):
    """Minus the sum of each row's worst values."""
    out = np.zeros(which.shape[0])
    for k in range(which.shape[0]):
        for j in range(live.clouds.lo.shape[1]):
            out[k] -= live.clouds.lo[which[k], j]
    return out


@inner
def unbeaten(live, guards, pending):
    """Those of some rows that none of them surely beats; the others get a guard among them. Of the same boxes one is
    compared, for all of them."""
    n, lo, hi = pending.shape[0], live.clouds.lo, live.clouds.hi
    order, first, some, m = in_order(lo, hi, pending), np.empty(n, np.int64), np.empty(n, np.int64), 0
    for k in range(n):
        c = pending[order[k]]
        if k == 0 or not same_box(lo, hi, some[m - 1], c):
            some[m] = c
            m += 1
        first[order[k]] = some[m - 1]
    out, kept = np.empty(n, np.int64), unbeaten_of(live, guards, some[:m])
    m = kept.shape[0]
    for k in range(m):
        out[n - m + k] = kept[k]
    for k in range(n):
        c = pending[k]
        if first[k] != c:
            guards.sure[c] = guards.sure[first[k]]
            if guards.sure[c] < 0:
                m += 1
                out[n - m] = c
    return out[n - m :]


@inner
def unbeaten_of(live, guards, pending):
    """`unbeaten`, of rows with different boxes.

    As in `admit.outlived`: with the sums of `lo` falling, only rows of an equal sum can beat one that came before them.
    The rows kept lie from the end of the list back, so that `beater` tries those of the greatest sums first.
    """
    n = pending.shape[0]
    sums = lo_sums(live, pending)
    kept, strong, least = np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n)
    m = n
    for k in argsort(sums):
        c = pending[k]
        g = beater(live, c, kept, strong, m)
        if g >= 0:
            guards.sure[c] = g
            continue
        last = m
        while last < n and least[last] == sums[k]:
            last += 1
        w = last
        for r in range(last - 1, m - 1, -1):
            if beats(live.clouds.lo, c, live.clouds.hi, kept[r]):
                guards.sure[kept[r]] = c
            else:
                w -= 1
                kept[w], strong[w], least[w] = kept[r], strong[r], least[r]
        m = w - 1
        kept[m], strong[m], least[m] = c, live.columns.word_lo[c], sums[k]
    return kept[m:]


# --- Rows that are out ------------------------------------------------------------------------------------------------


@inner
def unguarded(live, guards, opened, died):
    """Rows that are out and lost a guard are to be judged again; so are those with many guards, if any that died may
    have been one of them. `died`: slots that were open."""
    clouds, columns = live.clouds, live.columns
    for c in opened:
        if columns.state[c] != OUT or columns.until[c] == -np.inf:  # one that waits to be judged has no guards yet
            continue
        if guards.joint[c, 0] == MANY:
            for g in died:
                if covers(columns.word_hi[g], columns.word_lo[c], live.fence) and beats(clouds.hi, g, clouds.lo, c):
                    columns.until[c] = -np.inf
                    break
            continue
        for k in range(guards.joint.shape[1]):
            g = guards.joint[c, k]
            if g < 0:
                break
            if columns.state[g] == DEAD:
                columns.until[c] = -np.inf
                break


@inner
def likeliest_first(live, near, ends, chances):
    """Sort `near` by how likely each beats the best place, ends[1]; those chances into `chances`, in that order."""
    n = near.shape[0]
    keys, before = np.empty(n), near.copy()
    for k in range(n):
        keys[k] = -beats_point(live.clouds, near[k], ends, 1)
    order = argsort(keys)
    for k in range(n):
        near[k], chances[k] = before[order[k]], -keys[order[k]]


@inner
def remember(guards, o, near, taken):
    """The first `taken` of `near` guard o."""
    most = guards.joint.shape[1]
    for k in range(most):
        guards.joint[o, k] = MANY if taken > most else near[k] if k < taken else NONE


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
    """Does one of `near` surely beat o by their distributions? It guards o then: at alpha 0 just that keeps it out."""
    for k in range(near.shape[0]):
        if surely_beats(live.clouds, near[k], o):
            remember(guards, o, near[k:], 1)
            return True
    return False


@inner
def guard_out(live, guards, o, near, limits, coarse, scratch):
    """Do o's rivals keep it out, by less than all its places and all of them? Remembers the guards, if so.

    `near` lies with the likeliest first. Returns whether, and whether all its places were asked.
    """
    until, summed, taken = kept_out(live, o, near, limits, coarse, scratch)
    if until > -np.inf:
        remember(guards, o, near, taken)
    return until > -np.inf, summed


@inner
def few_guard_out(live, guards, o, opened, strong, limits, near, chances, ends, coarse, scratch):
    """As `judge.few_keep_out`, for rows that remember their guards: the rivals found so far, the likeliest first.

    Returns how many there are, whether they keep o out, and whether that was asked of all its places.
    """
    threshold, n = limits.threshold, opened.shape[0]
    write_ends(live.clouds, o, ends)
    m, end, left, until = 0, n, 1.0, np.inf
    most = FIRST * GROWTH if threshold >= 0.0 and live.columns.places[o] != 1 else n + 1
    while True:
        m, end, left, until = more_rivals(live, o, opened, strong, threshold, most, near, ends, m, end, left, until)
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


@inner
def follow_guarded(live, guards, o, first, cursor):
    """`judge.follow`: what guards one of two equal clouds guards the other; and each may be a guard of the other."""
    cursor = follow(live, o, first, cursor)
    live.columns.until[o] = -np.inf if live.columns.state[o] == IN else np.inf
    for k in range(guards.joint.shape[1]):
        guards.joint[o, k] = first if guards.joint[first, k] == o else guards.joint[first, k]
    return cursor


@inner
def judge_guarded(live, guards, opened, due, limits):
    """As `judge.judge`, for rows that remember their guards."""
    clouds, columns, threshold = live.clouds, live.columns, limits.threshold
    evaluations, heavy, cursor = 0, 0, live.filled
    scratch = scratch_for(max(limits.places, ROOM))
    space, coarse = np.empty(opened.shape[0], np.int64), empty_grid(ROOM + clouds.lo.shape[1], clouds.lo.shape[1])
    strong, ends = words_of(columns.word_hi, opened), np.empty((2, clouds.lo.shape[1]))
    chances = np.empty(opened.shape[0])
    due, again = side_by_side(clouds, due, due.shape[0] >= limits.many)
    first = 0  # the last cloud that was not the same as the one before
    for k in range(due.shape[0]):
        o = due[k]
        if again[k]:
            cursor = follow_guarded(live, guards, o, first, cursor)
            heavy += columns.state[o] == HEAVY
            continue
        first = o
        columns.state[o], columns.within[o], columns.until[o] = OUT, 0.0, np.inf
        m, out, summed = few_guard_out(live, guards, o, opened, strong, limits, space, chances, ends, coarse, scratch)
        near = space[:m]
        evaluations += summed
        if out:
            continue
        remember(guards, o, near, guards.joint.shape[1] + 1)
        if columns.places[o] == 0:
            columns.state[o] = HEAVY
            heavy += 1
        else:
            evaluations += 1
            cursor = add_up(live, o, near, threshold, cursor, scratch)
            columns.until[o] = np.inf if columns.state[o] != IN else -np.inf
    return evaluations, heavy, cursor
