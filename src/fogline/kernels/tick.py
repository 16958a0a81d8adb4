"""What changed in the answer since it was last reported, and why did rows leave it?

A row that leaves has expired; or is *beaten*: a row of the window beats it wherever the two turn out to be; or is *less
likely*: several rows together, or one that need not beat it, took its probability to alpha or below. Where rows are
replaced, it may also be that its id has another row, or none.

The rival that is named of a beaten row is open: no row surely beats that one. There is such a row, for what surely
beats a sealed rival beats the row surely, too; and which rows are open is a matter of the window alone. Of several the
first to arrive is named, so that neither batches nor restarts, nor rows that were dropped on their way, change a name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.arrays import (
    BEATEN,
    BOUNDS_ONLY,
    ENTER,
    EXPIRED,
    LEAVE,
    LESS_LIKELY,
    NO_REASON,
    REMOVED,
    REPLACED,
    SHARED,
    UPDATE,
    Arrivals,
    Boxes,
    Columns,
    Ints,
    Limits,
    LiveSet,
    Sums,
    Turn,
    UncertainRows,
)
from fogline.kernels.admit import admit, conquer, count_up
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats, low_end, surely_beats, surely_beats_other, write_ends
from fogline.kernels.judge import judge
from fogline.kernels.sorting import argsort
from fogline.kernels.states import (
    DEAD,
    DOMINATED,
    HAS_EXPIRED,
    IN,
    IS_GONE,
    OUT,
    enter,
    expire_slots,
    has_bounds_only,
    unseal,
    waiting,
)
from fogline.kernels.sums import members_of, shift
from fogline.kernels.uncertain import write_cells
from fogline.kernels.words import covers, words

NO_RIVAL, TIED = -1, -2  # in place of a rival; TIED - slot: another arrived at the same time as this one


@inner
def changed(columns, which, tolerance):
    """Those of some slots whose part in the answer is not as reported, by arrival."""
    found = np.empty(which.shape[0], np.int64)
    m = 0
    for c in which:
        reported, inside = columns.reported[c] == columns.reported[c], columns.state[c] == IN
        if inside != reported or (inside and abs(columns.probability[c] - columns.reported[c]) > tolerance):
            found[m] = c
            m += 1
    out, arrived = np.empty(m, np.int64), np.empty(m)
    for k in range(m):
        arrived[k] = columns.arrived[found[k]]
    order = argsort(arrived)
    for k in range(m):
        out[k] = found[order[k]]
    return out


@inner
def rival_of(live, o, begin, end):
    """Of the open clouds in slots begin … end - 1 the first to arrive that surely beats o; NO_RIVAL; or TIED."""
    columns, word = live.columns, live.columns.word_lo[o]
    found, tied = NO_RIVAL, False
    for g in range(begin, end):
        if (
            columns.state[g] >= OUT
            and (found < 0 or columns.arrived[g] <= columns.arrived[found])
            and covers(columns.word_hi[g], word, live.fence)
            and surely_beats(live.uncertain, g, o)
        ):
            tied = found >= 0 and columns.arrived[g] == columns.arrived[found]
            found = g
    return TIED - found if tied else found


@inner
def why(live, o, new, used, latest):
    """Why did o leave, and the rival if it was beaten. `latest`: a row dies only because its id has another, or none.

    A rival is new itself, unless o is: what was open before and surely beat it would have kept it out before.
    """
    columns = live.columns
    if columns.state[o] == DEAD:
        if columns.until[o] == HAS_EXPIRED:
            return EXPIRED, NO_RIVAL
        if latest:
            return (REMOVED if columns.until[o] == IS_GONE else REPLACED), NO_RIVAL
    rival = rival_of(live, o, new if o < new else 0, used)
    return (BEATEN if rival != NO_RIVAL or columns.state[o] <= DOMINATED else LESS_LIKELY), rival


@inner
def report(live, which, new, used, limits, latest):
    """What changed of some slots, from now on counted as reported. Slots from `new` to `used` were filled just now.

    Returns (slots, arrived, change, probability, within, raw rows, reasons, rivals).
    """
    columns = live.columns
    slots = changed(columns, which, limits.tolerance)
    n, d = slots.shape[0], live.raw.shape[1]
    arrived, change, probability = np.empty(n), np.empty(n, np.int64), np.empty(n)
    within, raw = np.empty(n), np.empty((n, d))
    reason, rival = np.full(n, NO_REASON), np.full(n, NO_RIVAL)
    for k in range(n):
        c = slots[k]
        if columns.state[c] == IN:
            change[k] = UPDATE if columns.reported[c] == columns.reported[c] else ENTER
            probability[k] = columns.probability[c]
        else:
            change[k], probability[k] = LEAVE, np.nan
            reason[k], rival[k] = why(live, c, new, used, latest)
        columns.reported[c] = probability[k]
        arrived[k], within[k] = columns.arrived[c], columns.within[c]
        for j in range(d):
            raw[k, j] = live.raw[c, j]
    return slots, arrived, change, probability, within, raw, reason, rival


@kernel
def report_changes(live, which, new, limits, latest):
    """`report`, to be called from Python."""
    return report(live, which, new, live.used, limits, latest)


@kernel
def sure_rivals(live, uncertain, o, begin):
    """All of the open clouds, in slots from `begin` on, that surely beat cloud o of `clouds`."""
    out, m = np.empty(live.used, np.int64), 0
    for g in range(begin, live.used):
        if live.columns.state[g] >= OUT and surely_beats_other(live.uncertain, g, uncertain, o):
            out[m] = g
            m += 1
    return out[:m]


# --- revise ---
# Which slots does a revision concern, and may their boxes become what they are to become?
#
# A revised cloud leaves and comes again as a row does. Boxes never widen, so whatever was forgotten or sealed because
# of
# it stays so; but a cloud that it helped to keep out may be in now, and is judged again.

SAME, NARROWER, WIDER = 0, 1, 2


@kernel
def arrived_at(arrived, expires, now, times):
    """The rows, not expired at `now`, that arrived at one of the times, which are sorted: each once for every such
    time; and which time that is."""
    row, at = np.empty(times.shape[0], np.int64), np.empty(times.shape[0], np.int64)
    m = 0
    for c in range(arrived.shape[0]):
        t = arrived[c]
        if t < times[0] or t > times[-1] or expires[c] <= now:
            continue
        low, high = 0, times.shape[0] - 1
        while low < high:
            middle = (low + high) >> 1
            if times[middle] < t:
                low = middle + 1
            else:
                high = middle
        while low < times.shape[0] and times[low] == t:
            if m == row.shape[0]:
                row, at = np.append(row, np.empty_like(row)), np.append(at, np.empty_like(at))
            row[m], at[m] = c, low
            m += 1
            low += 1
    return row[:m], at[:m]


@inner
def can_beat(best, uncertain, o):
    """Is the place best[1] at least as good as o's worst one, and better somewhere?"""
    better = False
    for j in range(best.shape[1]):
        x = low_end(uncertain, o, j)
        if not best[1, j] >= x:
            return False
        better |= best[1, j] > x
    return better


@kernel
def release(live, which):
    """What the clouds `which` may have kept out is to be judged again: they are not what they were."""
    uncertain, columns = live.uncertain, live.columns
    ends = np.empty((2, uncertain.lo.shape[1]))
    for g in which:
        write_ends(uncertain, g, ends)
        word = columns.word_hi[g]
        for o in range(live.used):
            if (
                columns.state[o] == OUT
                and columns.until[o] > -np.inf
                and covers(word, columns.word_lo[o], live.fence)
                and beats(ends[1:], 0, uncertain.lo, o)
                and can_beat(ends, uncertain, o)
            ):
                columns.until[o] = -np.inf


@kernel
def compare_boxes(before, after, gaps):
    """Are the boxes of the cells `gaps` (n, d) the SAME as before they were filled, NARROWER, or WIDER in any cell?

    WIDER also where a box does not hold the values.
    """
    found = SAME
    for i in range(gaps.shape[0]):
        for j in range(gaps.shape[1]):
            if not gaps[i, j]:
                continue
            lo, hi, start = after.lo[i, j], after.hi[i, j], after.start[i, j]
            if not (lo >= before.lo[i, j] and hi <= before.hi[i, j] and lo <= hi):
                return WIDER
            if start >= 0:
                if not (after.value[start] >= lo and after.value[start + after.size[i, j] - 1] <= hi):
                    return WIDER
            elif start == BOUNDS_ONLY or (start != SHARED and lo < hi):
                return WIDER
            if lo > before.lo[i, j] or hi < before.hi[i, j]:
                found = NARROWER
    return found


# --- tick ---
# What happens at one tick?
#
# What has expired leaves, the rows enter, what they surely beat is forgotten or sealed, seals end; the members' sums
# follow; each cloud that is no longer known to be out is judged; what changed in the answer is collected. All of that
# is
# one call, for at thirty rows a tick calls cost more than work. A call that meets something unusual returns what is
# left
# to do, and is made again for the rest:
#
# - UNFILLED: clouds of which only bounds are known have lost their seals; they come again as rows, better known.
# - ROOM: there is no room for the sums that new members may need.
# - CROWD: so many clouds are to be judged that it pays to sort the others first.
# - HEAVY: clouds of very many places are to be bracketed, before anything is reported.
# - MET: as asked, nothing has been judged yet.
#
# `ladders` is None for a tick of few rows; otherwise the number of rows, or of clouds to be judged, from which on
# others
# are sorted first. The same function is compiled for either, each when it is needed: for None without any sorting.

DONE, MET, UNFILLED, ROOM, CROWD, HEAVY = 0, 1, 2, 3, 4, 5  # what a call leaves to do


@inner
def boxes_of(live):
    """The boxes of the slots in use."""
    uncertain, columns, n = live.uncertain, live.columns, live.used
    return Boxes(
        uncertain.lo[:n], uncertain.hi[:n], columns.expires[:n], columns.word_lo[:n], columns.word_hi[:n], live.fence
    )


@inner
def arriving(live, rows):
    """The boxes of the rows."""
    word_lo, word_hi = words(rows.uncertain.lo, rows.uncertain.hi, live.cuts)
    return Boxes(rows.uncertain.lo, rows.uncertain.hi, rows.expires, word_lo, word_hi, live.fence)


@inner
def room_for(before, more):
    """A list with room for more, and what it holds already."""
    out = np.empty(before.shape[0] + more, np.int64)
    for k in range(before.shape[0]):
        out[k] = before[k]
    return out


@inner
def counted_before(columns, origin, which):
    """Of rows that come again and get no slot: how many were counted as pruned before?"""
    total = 0
    if origin.shape[0]:
        for k in range(origin.shape[0]):
            total += origin[k] >= 0 and columns.counted[origin[k]]
        for i in which:
            total -= origin[i] >= 0 and columns.counted[origin[i]]
    return total


@inner
def meet(live, rows, turn, places, ladders):
    """The boxes' part of a tick. Room for all rows has been made.

    Returns the rows that got slots (used, used + 1, …), what opened, what was open and is no more, what comes again,
    the new end of the pools, the new `latest`, how many were forgotten, and how many of those were counted before.
    """
    columns, used, n = live.columns, live.used, rows.expires.shape[0]
    a, b = turn.came.shape[0], turn.went.shape[0]
    came, went = room_for(turn.came, n + used), room_for(turn.went, used)
    counts = np.zeros(3, np.int64)
    counts[2] = b + expire_slots(columns, used, turn.now, went[b:])
    boxes, there = arriving(live, rows), boxes_of(live)
    if rows.until.shape[0]:
        which, until = count_up(n), rows.until
    else:
        which, until = admit(there, boxes, live.latest < np.inf, ladders)
    if not turn.met:
        conquer(columns, there, boxes, which, went, counts, ladders)
    counts[1] += counted_before(columns, rows.origin, which)
    none = np.full(live.shared.shape[0], SHARED)
    pool = write_cells(rows.uncertain, which, live.uncertain, used, live.pool, none, live.shared)
    enter(live, rows, boxes, which, until, turn.now, places)
    latest = live.latest
    for k in range(which.shape[0]):
        expires = rows.expires[which[k]]
        latest = expires if expires >= latest else np.inf
        if columns.state[used + k] == OUT:
            came[a] = used + k
            a += 1
    bounds_only = np.empty(used, np.int64)
    opened, again = unseal(live, turn.now, came[a:], bounds_only)
    forgotten = counts[0] + n - which.shape[0]
    return which, came[: a + opened], went[: counts[2]], bounds_only[:again], pool, latest, forgotten, counts[1]


@inner
def work(live, rows, turn, limits, pruned, ladders):
    """One tick, or as much of it as can be done; see `tick`."""
    met = meet(live, rows, turn, limits.places, ladders)
    which, came, went, bounds_only = met[0], met[1], met[2], met[3]
    used, filled = live.used + which.shape[0], live.filled
    left = DONE
    alive = room = evaluations = heavy = 0
    first = np.inf
    if bounds_only.shape[0]:
        left = UNFILLED
    elif not turn.judge:
        left = MET
    else:
        if came.shape[0] or went.shape[0]:
            shift(live, members_of(live.columns, used), came, went, limits)
        due, opened, room, alive, first = waiting(live.columns, used, turn.now)
        if filled + room > live.sums.logs.shape[0]:
            left = ROOM
        elif ladders is None and due.shape[0] >= limits.many:
            left = CROWD
        elif due.shape[0]:
            evaluations, heavy, filled = judge(live, opened, due, limits, pruned, ladders)
            left = HEAVY if heavy else DONE
    there = count_up(used if left == DONE and turn.report else 0)
    changes = report(live, there, turn.new, used, limits, False)
    return left, met, (alive, first, filled, room, evaluations), changes


@kernel
def _tick(uncertain, columns, sums, live, row_uncertain, rows, turn, tuning):
    """`work`, its arguments as plain tuples: Numba takes three times as long to recognise named ones."""
    there = LiveSet(UncertainRows(*uncertain), Columns(*columns), live[0], Sums(*sums), *live[1:])
    limits, pruned, ladders = tuning
    return work(there, Arrivals(UncertainRows(*row_uncertain), *rows), Turn(*turn), Limits(*limits), pruned, ladders)


def tick(live: LiveSet, rows: Arrivals, turn: Turn, limits: Limits, pruned: Ints, ladders: int | None) -> Any:
    """One tick, or as much of it as can be done; see the module.

    Returns what is left to do; of the boxes' part the rows that got slots, what opened, what closed, what comes again,
    the end of the pools, `latest`, how many were forgotten and counted before; how many live, the first expiry, the
    end of the sums, how many of those are needed, how many probabilities were worked out; and the report.
    """
    uncertain, columns, raw, sums, *rest = live
    return _tick(
        tuple(uncertain), tuple(columns), tuple(sums), (raw, *rest), tuple(rows.uncertain), tuple(rows[1:]),
        tuple(turn),
        (tuple(limits), pruned, ladders),
    )  # fmt: skip


@kernel
def screen(live, rows, now, ladders):
    """A first look at rows with bounds: what was open and went, which rows can ever matter, until when they are surely
    beaten, and which of those must be known better. A row that is surely beaten, to the end or for a while, need not.

    Better known, a row has the same box; where it has a narrower one, it is looked at anew.
    """
    went = np.empty(live.used, np.int64)
    m = expire_slots(live.columns, live.used, now, went)
    which, until = admit(boxes_of(live), arriving(live, rows), live.latest < np.inf, ladders)
    needed = np.empty(which.shape[0], np.int64)
    n = 0
    for k in range(which.shape[0]):
        if until[k] <= now and has_bounds_only(rows.uncertain, which[k]):
            needed[n] = which[k]
            n += 1
    return went[:m], which, until, needed[:n]
