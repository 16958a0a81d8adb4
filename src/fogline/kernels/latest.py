"""What happens at one tick, where each id has one current row, and which rows keep a row out?

Rows that are replaced, removed or expired die, the new ones enter; those and the rows that lost their guard look for
one among the open rows that stay, then among each other. The rest open, and what they surely dominate is no longer
open. The members' sums follow; rows that lost a guard, opened or fell are judged; what changed is written. As in
`tick`, all of that is one call, and a call that meets something unusual returns what is left to do:

- FILL: rows of which only bounds are known have no guard; they are pending until they are better known.
- GROW: there is no room for the sums that new members may need.
- BRACKET: rows of very many instances are to be bracketed, before anything is reported.

A dominated row remembers one row that surely dominates it; a row that is out remembers the few that together keep it at
or below alpha, or that they are many. Those are its *guards*. A guard stays good for as long as its row is current,
whatever becomes of the guard itself:

- P(o) is a product over all current rows, so over some of them it can only be greater. What some rows push to alpha or
  below stays there while they are current, be they open, out or dominated.
- Dominated rows are left out of every product, and nothing changes: whatever surely dominates g is at least as good as
  g wherever g turns out to be, so it surely dominates each instance that g may dominate. Among the rows that surely
  dominate g one is not surely dominated itself, for that order is strict; it is open, and its factor is 0 wherever g's
  is less than 1.

So a row is looked at only when one of its guards leaves. Then the guard's own guard will do, if it stays: to dominate
surely is transitive.

Invariant at the end: a dominated slot has a guard that is alive, has its distributions and surely dominates it; no
living slot surely dominates an open one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.arrays import (
    SHARED,
    Arrivals,
    Columns,
    Floats,
    Guards,
    LatestWork,
    Limits,
    LiveArrays,
    Sums,
    UncertainRows,
)
from fogline.kernels.admit import count_up
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import dominates
from fogline.kernels.instances import scratch_of
from fogline.kernels.judge import NO_GUARD, TOO_MANY, judge, words_of
from fogline.kernels.sorting import argsort, in_order, same_box, side_by_side
from fogline.kernels.states import (
    DEAD,
    DOMINATED,
    HAS_EXPIRED,
    HAS_SUCCESSOR,
    IN,
    IS_GONE,
    OUT,
    enter,
    has_bounds_only,
)
from fogline.kernels.sums import members_of, shift
from fogline.kernels.tick import BRACKET, DONE, FILL, GROW, arriving, changed, report, room_for
from fogline.kernels.uncertain import write_cells
from fogline.kernels.words import BLOCK, any_covered, any_covers, covers

# --- Dominated rows ---------------------------------------------------------------------------------------------------


@inner
def orphans(live, guards, out):
    """The dominated rows whose guard has died, into `out`; returns how many."""
    state, sure = live.columns.state, guards.sure
    n = 0
    for c in range(live.used):
        if state[c] == DOMINATED and state[sure[c]] == DEAD:
            out[n] = c
            n += 1
    return n


@inner
def inherited(live, guards, c):
    """A guard for c, whose own has died: that one's guard, or the row that replaced the last of them; or NO_GUARD.

    A dead row that was open has its successor, if any, as its guard: a new slot, beyond those in use.
    """
    g = guards.sure[c]
    while g >= 0 and live.columns.state[g] == DEAD:
        g = guards.sure[g]
        if g >= live.used:
            return (
                g
                if not has_bounds_only(live.uncertain, g) and dominates(live.uncertain.lo, g, live.uncertain.hi, c)
                else NO_GUARD
            )
    return g


@inner
def dominator(live, c, slots, strong, begin):
    """One of slots[begin:] that surely dominates c, or NO_GUARD; the last are tried first.

    `strong`: words of their `lo`.
    """
    lo, hi, word, fence = live.uncertain.lo, live.uncertain.hi, live.columns.word_hi[c], live.fence
    end = slots.shape[0]
    while end > begin:
        first = max(end - BLOCK, begin)
        if any_covers(strong, first, end, word, fence):
            for r in range(end - 1, first - 1, -1):
                if covers(strong[r], word, fence) and dominates(lo, slots[r], hi, c):
                    return slots[r]
        end = first
    return NO_GUARD


@inner
def lo_sums(live, which):
    """Minus the sum of each row's worst values."""
    out = np.zeros(which.shape[0])
    for k in range(which.shape[0]):
        for j in range(live.uncertain.lo.shape[1]):
            out[k] -= live.uncertain.lo[which[k], j]
    return out


@inner
def undominated(live, guards, pending):
    """Those of some rows that none of them surely dominates; the others get a guard among them.

    Of equal boxes one is compared, for all of them.
    """
    n, lo, hi = pending.shape[0], live.uncertain.lo, live.uncertain.hi
    order, first, some, m = in_order(lo, hi, pending), np.empty(n, np.int64), np.empty(n, np.int64), 0
    for k in range(n):
        c = pending[order[k]]
        if k == 0 or not same_box(lo, hi, some[m - 1], c):
            some[m] = c
            m += 1
        first[order[k]] = some[m - 1]
    out, kept = np.empty(n, np.int64), undominated_of(live, guards, some[:m])
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
def undominated_of(live, guards, pending):
    """`undominated`, of rows with different boxes.

    As in `admit.outlived`: with the sums of `lo` falling, only rows of an equal sum can dominate one that came before
    them. The rows kept lie from the end of the list back, so that `dominator` tries those of the greatest sums first.
    """
    n = pending.shape[0]
    sums = lo_sums(live, pending)
    kept, strong, least = np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n)
    m = n
    for k in argsort(sums):
        c = pending[k]
        g = dominator(live, c, kept, strong, m)
        if g >= 0:
            guards.sure[c] = g
            continue
        last = m
        while last < n and least[last] == sums[k]:
            last += 1
        w = last
        for r in range(last - 1, m - 1, -1):
            if dominates(live.uncertain.lo, c, live.uncertain.hi, kept[r]):
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
    uncertain, columns = live.uncertain, live.columns
    for c in opened:
        if columns.state[c] != OUT or columns.until[c] == -np.inf:  # one that waits to be judged has no guards yet
            continue
        if guards.joint[c, 0] == TOO_MANY:
            for g in died:
                if covers(columns.word_hi[g], columns.word_lo[c], live.fence) and dominates(
                    uncertain.hi, g, uncertain.lo, c
                ):
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


# --- Ticks ------------------------------------------------------------------------------------------------------------

OVER = -2  # in place of a successor: the row that replaced it has expired already


@inner
def end_left(live, guards, turn, went, w):
    """The rows that are replaced or removed die; one that was open, in `went` from w on, points to its successor."""
    columns = live.columns
    for k in range(turn.left.shape[0]):
        c = turn.left[k]
        if columns.state[c] >= OUT:
            went[w] = c
            w += 1
            guards.sure[c] = turn.successors[k]
        columns.state[c], columns.expires[c] = DEAD, -np.inf
        successor = turn.successors[k]
        columns.until[c] = HAS_SUCCESSOR if successor >= 0 else HAS_EXPIRED if successor == OVER else IS_GONE
    return w


@inner
def end_expired(live, guards, turn, went, w):
    """The rows that have expired die. Returns them, the new end of `went`, and the first expiry of the others."""
    columns = live.columns
    expired, n, first = np.empty(live.used, np.int64), 0, np.inf
    for c in range(live.used):
        if columns.state[c] == DEAD:
            continue
        if columns.expires[c] > turn.now:
            first = min(first, columns.expires[c])
            continue
        if columns.state[c] >= OUT:
            went[w] = c
            w += 1
            guards.sure[c] = NO_GUARD
        columns.state[c], columns.expires[c], columns.until[c] = DEAD, -np.inf, HAS_EXPIRED
        expired[n] = c
        n += 1
    return expired[:n], w, first


@inner
def let_in(live, rows, instances):
    """Fill the next slots with the rows, dominated for now. Returns the end of the pools and the first expiry."""
    n = rows.expires.shape[0]
    which, none = count_up(n), np.full(live.shared.shape[0], SHARED)
    pool = write_cells(rows.uncertain, which, live.uncertain, live.used, live.pool, none, live.shared)
    enter(live, rows, arriving(live, rows), which, np.full(n, np.inf), -np.inf, instances)
    first = np.inf
    for i in range(n):
        first = min(first, rows.expires[i])
    return pool, first


@inner
def staying(columns, opened):
    """The open slots that stay open."""
    out, n = np.empty(opened.shape[0], np.int64), 0
    for c in opened:
        if columns.state[c] >= OUT:
            out[n] = c
            n += 1
    return out[:n]


@inner
def look_for_guards(live, guards, turn, new, stay):
    """The slots that are dominated without a guard: those that are given, orphans and arrivals, unless one is found."""
    columns = live.columns
    given = turn.pending.shape[0]
    pending = room_for(turn.pending, live.used + new)
    n = given
    if turn.left.shape[0] or turn.first <= turn.now:
        n += orphans(live, guards, pending[n:])
    lost = n
    for k in range(new):
        pending[n] = live.used + k
        n += 1
    strong = words_of(columns.word_lo, stay)
    m = 0
    for k in range(n):
        c, g = pending[k], NO_GUARD
        if given <= k < lost:
            g = inherited(live, guards, c)
        if g < 0:
            g = dominator(live, c, stay, strong, 0)
        guards.sure[c] = g
        if g < 0:
            pending[m] = c
            m += 1
    return pending[:m]


@inner
def sift(live, guards, pending):
    """Pending slots look for guards among each other. Returns those without, those with bounds only last, and how
    many they are."""
    known, bounds_only = np.empty(pending.shape[0], np.int64), np.empty(pending.shape[0], np.int64)
    a = b = 0
    for c in pending:
        if has_bounds_only(live.uncertain, c):
            bounds_only[b] = c
            b += 1
        else:
            known[a] = c
            a += 1
    kept = undominated(live, guards, known[:a])
    strong, n = words_of(live.columns.word_lo, kept), kept.shape[0]
    out, m = room_for(kept, b), 0
    for c in bounds_only[:b]:
        guards.sure[c] = dominator(live, c, kept, strong, 0)
        if guards.sure[c] < 0:
            out[n + m] = c
            m += 1
    return out[: n + m], m


@inner
def hide(live, guards, came, stay, went, w):
    """What a row that has just opened surely dominates is no longer open. Lists it in `went` from w on.

    Returns the new end.
    """
    columns, uncertain, n = live.columns, live.uncertain, stay.shape[0]
    weak = words_of(columns.word_hi, stay)
    for g in came:
        word = columns.word_lo[g]
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            if not any_covered(weak, begin, end, word, live.fence):
                continue
            for r in range(begin, end):
                c = stay[r]
                if (
                    covers(word, weak[r], live.fence)
                    and columns.state[c] >= OUT
                    and dominates(uncertain.lo, g, uncertain.hi, c)
                ):
                    columns.state[c], columns.until[c], guards.sure[c] = DOMINATED, np.inf, g
                    went[w] = c
                    w += 1
    return w


@inner
def opening(live, guards, came, stay, went, w):
    """Rows that no other surely dominates open. Returns the open slots, and the end of `went`."""
    columns = live.columns
    w = hide(live, guards, came, stay, went, w)
    for c in came:
        columns.state[c], columns.until[c] = OUT, -np.inf
    rest = staying(columns, stay)
    opened = room_for(rest, came.shape[0])
    for k in range(came.shape[0]):
        opened[rest.shape[0] + k] = came[k]
    return opened, w


@inner
def due_among(columns, opened):
    """The open slots that are to be judged, and how many sums they may need."""
    out, n, room = np.empty(opened.shape[0], np.int64), 0, 0
    for c in opened:
        if columns.state[c] == OUT and columns.until[c] == -np.inf:
            out[n] = c
            n += 1
            room += columns.instances[c]
    return out[:n], room


@inner
def hand_over(live, before, after):
    """A member that replaces one of the same id is no enter: if it is the same row, what was reported holds on."""
    columns, raw = live.columns, live.raw
    for k in range(before.shape[0]):
        a, b = before[k], after[k]
        if columns.state[b] != IN or columns.reported[a] != columns.reported[a]:
            continue
        same = columns.arrived[a] == columns.arrived[b]
        for j in range(raw.shape[1]):
            same &= raw[a, j] == raw[b, j] or (raw[a, j] != raw[a, j] and raw[b, j] != raw[b, j])
        columns.reported[b] = columns.reported[a] if same else np.inf  # far from any probability: an update
        columns.reported[a] = np.nan


@inner
def collect(live, turn, opened, went, used, limits, changes):
    """Write what changed in the answer; only open slots, and those that were, can have changed. Returns how many."""
    found = np.empty(opened.shape[0] + went.shape[0] + turn.closed.shape[0], np.int64)
    end = 0
    for which in (opened, went, turn.closed):
        for k in range(changed(live.columns, which, limits.tolerance, found)):
            report(live, found[k], 0, turn.now, turn.new, used, True, changes, end)
            end += 1
    return end


@inner
def meet(live, guards, rows, turn, instances):
    """The boxes' part of a tick. Returns what is pending, what opened, the open slots, what was open and is no more,
    what expired, the end of the pools, and the first expiry."""
    n = rows.expires.shape[0]
    w = turn.went.shape[0]
    went = room_for(turn.went, turn.opened.shape[0])
    first, expired = turn.first, turn.left[:0]
    w = end_left(live, guards, turn, went, w)
    if turn.first <= turn.now:
        expired, w, first = end_expired(live, guards, turn, went, w)
    pool, soon = let_in(live, rows, instances)
    died = went[turn.went.shape[0] : w]
    stay = staying(live.columns, turn.opened)
    unguarded(live, guards, stay, died)
    pending, bounds_only = sift(live, guards, look_for_guards(live, guards, turn, n, stay))
    came, opened = pending[:0], stay
    if bounds_only == 0:
        came, pending = pending, came
        opened, w = opening(live, guards, came, stay, went, w)
    return pending, came, opened, went[:w], expired, pool, min(first, soon)


@inner
def work(live, guards, rows, turn, limits, room, changes):
    """One tick, or as much of it as can be done; see `tick_latest`."""
    met = meet(live, guards, rows, turn, limits.sum_limit)
    pending, came, opened, went = met[0], met[1], met[2], met[3]
    left, filled = DONE, live.filled
    sums = evaluations = heavy = end = 0
    if pending.shape[0]:
        left = FILL
    else:
        if came.shape[0] or went.shape[0]:
            members = np.empty(opened.shape[0], np.int64)
            n = members_of(live.columns, opened, members)
            shift(live, members[:n], came, went, limits, scratch_of(room))
        due, sums = due_among(live.columns, opened)
        if filled + sums > live.sums.logs.shape[0]:
            left = GROW
        elif due.shape[0]:
            due, again = side_by_side(live.uncertain, due, due.shape[0] >= limits.many)
            strong, near = words_of(live.columns.word_hi, opened), np.empty(opened.shape[0], np.int64)
            evaluations, heavy, filled = judge(live, guards, opened, strong, None, due, again, limits, None, near, room)
            left = BRACKET if heavy else DONE
    if left == DONE and turn.report:
        hand_over(live, turn.before, turn.after)
        end = collect(live, turn, opened, went, live.used + rows.expires.shape[0], limits, changes)
    return left, met, (filled, sums, evaluations, end)


hand_over_now = kernel(hand_over.py_func)  # the same, to be called from Python


@kernel
def _tick_latest(uncertain, columns, sums, live, row_uncertain, rows, turn, tuning):
    """`work`, its arguments as plain tuples: Numba takes three times as long to recognise named ones."""
    there = LiveArrays(UncertainRows(*uncertain), Columns(*columns), live[0], Sums(*sums), *live[1:])
    guards, limits, room, changes = tuning
    arrivals = Arrivals(UncertainRows(*row_uncertain), *rows)
    return work(there, Guards(*guards), arrivals, LatestWork(*turn), Limits(*limits), room, changes)


def tick_latest(
    live: LiveArrays, guards: Guards, rows: Arrivals, turn: LatestWork, limits: Limits, room: Floats, changes: Any
) -> Any:
    """One tick, or as much of it as can be done; see the module. What changed is written to `changes`.

    Returns what is left to do; of the boxes' part what is pending, what opened, the open slots, what was open and is no
    more, what expired, the end of the pools and the first expiry; the end of the sums, how many of those are needed,
    how many probabilities were worked out, and how many changes there are.
    """
    uncertain, columns, raw, sums, *rest = live
    return _tick_latest(
        tuple(uncertain), tuple(columns), tuple(sums), (raw, *rest), tuple(rows.uncertain), tuple(rows[1:]),
        tuple(turn), (tuple(guards), tuple(limits), room, changes),
    )  # fmt: skip
