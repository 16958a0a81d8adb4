"""What happens at one tick, in each of some groups that lie side by side?

What has expired leaves. The rows enter; what they surely dominate is forgotten, or is out of consideration until they
expire. Rows whose last sure dominator has expired are open again. The members' sums follow, each open row that is no
longer known to be out is judged, and what changed in the answer is written. Groups have nothing to do with each other.

All of that is one call, which changes the columns in place and returns two numbers: at thirty rows a tick, calls and
arrays that are handed over cost more than the work. Where a group meets something unusual, its record states what is
left to do, and a further call goes on:

- FILL: rows of which only bounds are known are no longer surely dominated; they come again as rows, better known.
- GROW: there is no room for the sums that new members may need, or for what changed.
- CROWD: so many rows are to be judged that they go another way (`shares`).
- BRACKET: rows of very many instances are to be bracketed, before anything is reported.
- MET: as asked, nothing has been judged yet.

A row that leaves the answer has expired; or another row surely dominates it; or is *less likely*: several rows
together, or one that need not dominate it, took its probability to alpha or below. Where rows are replaced, its id may
also have another row, or none. The dominator that is named is open. There is one, since what surely
dominates a dominated row dominates what that one does; and which rows are open follows from the window alone. Of
several the first to arrive is named, so no name depends on batches, restarts, or rows that were dropped on their way.

A revised row leaves and comes again. Boxes never widen, so whatever was forgotten or dominated because of it stays so;
but a row that it helped to keep out may be in now, and is judged again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.arrays import (
    BOUNDS_ONLY,
    CAME,
    DOMINATED_BY,
    DUE,
    ENTER,
    EXPIRED,
    LEAVE,
    LESS_LIKELY,
    NEAR,
    NO_REASON,
    OPENED,
    REMOVED,
    REPLACED,
    SHARED,
    UNFILLED,
    UPDATE,
    WENT,
    Arrivals,
    Boxes,
    Columns,
    Limits,
    LiveArrays,
    ManyLiveArrays,
    Sums,
    UncertainRows,
    Work,
)
from fogline.kernels.admit import admit, count_up, dominate
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import dominates, surely_dominates, surely_dominates_other, write_ends
from fogline.kernels.instances import scratch_of
from fogline.kernels.judge import judge, words_of
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
    reopen,
    waiting,
)
from fogline.kernels.sums import clear, members_of, shift
from fogline.kernels.uncertain import no_lists, write_cells
from fogline.kernels.words import covers, words

DONE, MET, FILL, GROW, CROWD, BRACKET = 0, 1, 2, 3, 4, 5  # what a call leaves to do
NO_DOMINATOR, TIED = -1, -2  # in place of a dominator; TIED - slot: another arrived at the same time as this one


# --- What changed -----------------------------------------------------------------------------------------------------


@inner
def first_dominator(live, o, begin, end):
    """Of the open rows in slots begin … end - 1 the first to arrive that surely dominates o; NO_DOMINATOR; or TIED."""
    columns, word = live.columns, live.columns.word_lo[o]
    found, tied = NO_DOMINATOR, False
    for g in range(begin, end):
        if (
            columns.state[g] >= OUT
            and (found < 0 or columns.arrived[g] <= columns.arrived[found])
            and covers(columns.word_hi[g], word, live.fence)
            and surely_dominates(live.uncertain, g, o)
        ):
            tied = found >= 0 and columns.arrived[g] == columns.arrived[found]
            found = g
    return TIED - found if tied else found


@inner
def why(live, o, new, used, latest):
    """Why did o leave, and which row dominates it, if that is why. `latest`: a dead row's id has another row, or none.

    A dominator is new itself, unless o is: what was open before and surely dominates it would have kept it out before.
    """
    columns = live.columns
    if columns.state[o] == DEAD:
        if columns.until[o] == HAS_EXPIRED:
            return EXPIRED, NO_DOMINATOR
        if latest:
            return (REMOVED if columns.until[o] == IS_GONE else REPLACED), NO_DOMINATOR
    dominator = first_dominator(live, o, new if o < new else 0, used)
    return (DOMINATED_BY if dominator != NO_DOMINATOR or columns.state[o] <= DOMINATED else LESS_LIKELY), dominator


@inner
def changed(columns, which, tolerance, out):
    """Those of some slots whose part in the answer is not as reported, into `out`; returns how many."""
    reported, state, probability = columns.reported, columns.state, columns.probability
    m = 0
    for c in which:
        before, inside = reported[c], state[c] == IN
        if inside != (before == before) or (inside and abs(probability[c] - before) > tolerance):
            out[m] = c
            m += 1
    return m


@inner
def report(live, c, g, now, new, used, latest, changes, end):
    """Write what changed of slot c, from now on counted as reported.

    Slots of group g from `new` to `used` were filled at this tick.
    """
    columns, before = live.columns, live.columns.reported[c]
    change, reason, dominator, probability = LEAVE, NO_REASON, NO_DOMINATOR, np.nan
    if columns.state[c] == IN:
        change, probability = UPDATE if before == before else ENTER, columns.probability[c]
    else:
        reason, dominator = why(live, c, new, used, latest)
    columns.reported[c] = probability
    row = changes[end]
    row.group, row.slot, row.change, row.reason, row.dominator = g, c, change, reason, dominator
    row.time, row.probability, row.within = now, probability, columns.within[c]


@kernel
def report_changes(live, which, now, new, limits, latest, changes):
    """`report` of those of the slots `which` of one group that have changed; returns how many these are."""
    found = np.empty(which.shape[0], np.int64)
    n = changed(live.columns, which, limits.tolerance, found)
    for k in range(n):
        report(live, found[k], 0, now, new, live.used, latest, changes, k)
    return n


@kernel
def sure_dominators(live, uncertain, o, begin):
    """All of the open rows, in slots from `begin` on, that surely dominate row o of `uncertain`."""
    out, m = np.empty(live.used, np.int64), 0
    for g in range(begin, live.used):
        if live.columns.state[g] >= OUT and surely_dominates_other(live.uncertain, g, uncertain, o):
            out[m] = g
            m += 1
    return out[:m]


# --- Revisions --------------------------------------------------------------------------------------------------------

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


@kernel
def release(live, which):
    """What the rows `which` may have kept out is to be judged again: they are not what they were."""
    uncertain, columns = live.uncertain, live.columns
    ends, worst = np.empty((2, uncertain.lo.shape[1])), np.empty((2, uncertain.lo.shape[1]))
    for g in which:
        write_ends(uncertain, g, ends)
        word = columns.word_hi[g]
        for o in range(live.used):
            if (
                columns.state[o] == OUT
                and columns.until[o] > -np.inf
                and covers(word, columns.word_lo[o], live.fence)
                and dominates(ends, 1, uncertain.lo, o)
            ):
                write_ends(uncertain, o, worst)
                if dominates(ends, 1, worst, 0):
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


# --- Ticks ------------------------------------------------------------------------------------------------------------


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
def room_for(before, more):
    """A list with room for more, and what it holds already."""
    out = np.empty(before.shape[0] + more, np.int64)
    for k in range(before.shape[0]):
        out[k] = before[k]
    return out


@inner
def live_arrays(these, g):
    """The arrays of one of the groups, as if it lay alone."""
    group, u, c = these.groups[g], these.uncertain, these.columns
    a = group.first
    b = a + group.room
    return LiveArrays(
        UncertainRows(u.lo[a:b], u.hi[a:b], u.start[a:b], u.size[a:b], u.value, u.weight, u.tail),
        Columns(
            c.arrived[a:b], c.expires[a:b], c.until[a:b], c.probability[a:b], c.reported[a:b], c.within[a:b],
            c.instances[a:b], c.at[a:b], c.word_lo[a:b], c.word_hi[a:b], c.state[a:b], c.counted[a:b],
        ),
        these.raw[a:b], these.sums, these.cuts, these.fence, group.used, these.ends[0], these.ends[1],
        group.last_expiry, these.shared,
    )  # fmt: skip


@inner
def rows_of(rows, g, screened):
    """The rows of one of the groups."""
    a, b, u = rows.begin[g], rows.begin[g + 1], rows.uncertain
    known, returning = (b if screened else a), (b if rows.origin.shape[0] else a)
    return Arrivals(
        UncertainRows(u.lo[a:b], u.hi[a:b], u.start[a:b], u.size[a:b], u.value, u.weight, u.tail),
        rows.arrived[a:b], rows.expires[a:b], rows.raw[a:b], rows.until[a:known], rows.origin[a:returning],
        rows.begin[g : g + 2], rows.screened[g : g + 1],
    )  # fmt: skip


@inner
def meet(live, rows, group, lists, ends, met, instances):
    """The boxes' part of a tick. Room for all rows has been made. Returns which rows got slots (used, used + 1, …).

    Lists what opened, what was open and is no more, and what comes again.
    """
    columns, used, n = live.columns, group.used, rows.expires.shape[0]
    came, went = lists[CAME], lists[WENT]
    group.went += expire_slots(columns, used, group.now, live.fence, went[group.went :])
    boxes = arriving(live, rows)
    if rows.until.shape[0]:
        which, until = count_up(n), rows.until
    else:
        which, until = admit(boxes_of(live), boxes, group.last_expiry < np.inf)
    if not met:
        dominate(columns, boxes_of(live), boxes, which, went, group)
    group.forgotten += n - which.shape[0]
    group.spatial += n - which.shape[0] - counted_before(columns, rows.origin, which)
    none = no_lists(live.shared.shape[0])
    ends[0] = write_cells(rows.uncertain, which, live.uncertain, used, ends[0], none, live.shared)
    enter(live, rows, boxes, which, until, group.now, instances)
    a = group.came
    for k in range(which.shape[0]):
        expires = rows.expires[which[k]]
        group.last_expiry = expires if expires >= group.last_expiry else np.inf
        if columns.state[used + k] == OUT:
            came[a] = used + k
            a += 1
    opened, again = reopen(live, used, group.now, came[a:], lists[UNFILLED])
    group.came, group.unfilled = a + opened, again
    return which


@inner
def update_answer(live, group, lists, ends, limits, pruned, room):
    """The members' sums follow what came and went; open rows that are no longer known to be out are judged."""
    columns, used = live.columns, group.used
    if group.came > 0 or group.went > 0:
        m = members_of(columns, range(used), lists[NEAR])
        came, went = lists[CAME, : group.came], lists[WENT, : group.went]
        shift(live, lists[NEAR, :m], came, went, limits, scratch_of(room))
        group.came = group.went = 0
    a, b = waiting(columns, group, lists[DUE], lists[OPENED])
    due, opened = lists[DUE, :a], lists[OPENED, :b]
    group.changes = 0
    if ends[1] + group.sums > live.sums.logs.shape[0]:
        return GROW
    if a > 0 and a >= limits.many:
        return CROWD
    if a > 0:
        strong, near = words_of(columns.word_hi, opened), lists[NEAR]
        evaluations, heavy, ends[1] = judge(live, None, opened, strong, None, due, None, limits, pruned, near, room)
        group.evaluations += evaluations
        if heavy:
            return BRACKET
    return DONE


@inner
def update_answer_of_points(live, group, lists, ends):
    """`update_answer` where no row has a distribution. What could dominate an open row would do so surely: it is in."""
    columns = live.columns
    group.came = group.went = 0
    a, _ = waiting(columns, group, lists[DUE], lists[OPENED])
    group.changes = 0
    if ends[1] + group.sums > live.sums.logs.shape[0]:
        return GROW
    for o in lists[DUE, :a]:
        columns.state[o], columns.until[o], columns.within[o] = IN, -np.inf, 0.0
        columns.probability[o], columns.at[o] = 1.0, ends[1]
        clear(live.sums, ends[1], 1)
        ends[1] += 1
    group.evaluations += a
    return DONE


@kernel
def _tick(uncertain, columns, sums, rest, row_uncertain, rows, work, limits, changes, end, distributed):
    """See `tick`. Arguments are plain tuples: Numba takes three times as long to recognise named ones.

    Compiled twice: where `distributed` is None, all that distributions need is left out, half of the time.
    """
    these = ManyLiveArrays(UncertainRows(*uncertain), Columns(*columns), Sums(*sums), *rest)
    coming, todo, bounds = Arrivals(UncertainRows(*row_uncertain), *rows), Work(*work), Limits(*limits)
    most = DONE
    for n in range(todo.which.shape[0]):
        g = todo.which[n]
        group = these.groups[g]
        first, used = group.first, group.used
        if todo.now.shape[0]:
            group.now, group.new = todo.now[n], used
        lists = these.lists[:, first : first + group.room]
        live = live_arrays(these, g)
        rows_there = rows_of(coming, g, coming.screened[g])
        which = meet(live, rows_there, group, lists, these.ends, todo.met, bounds.sum_limit)
        for k in range(which.shape[0]):
            these.source[first + used + k] = coming.begin[g] + which[k]
        group.used = used + which.shape[0]
        if group.unfilled > 0:
            group.left = FILL
        elif not todo.judge:
            group.left = MET
        elif distributed is None:
            group.left = update_answer_of_points(live, group, lists, these.ends)
        else:
            group.left = update_answer(live, group, lists, these.ends, bounds, these.pruned[g], these.scratch)
        if group.left == DONE and todo.report:
            found = lists[NEAR]
            group.changes = changed(live.columns, range(group.used), bounds.tolerance, found)
            if end + group.changes > changes.shape[0]:
                group.left = GROW
            else:
                for k in range(group.changes):
                    report(live, found[k], g, group.now, group.new, group.used, False, changes, end)
                    end += 1
        most = max(most, group.left)
    return most, end


def tick(
    groups: ManyLiveArrays, rows: Arrivals, work: Work, limits: Limits, changes: Any, end: int, distributed: bool
) -> tuple[int, int]:
    """A tick of some groups, or as much of it as can be done; see the module.

    `distributed`: may a row, of the groups or one that comes, have a distribution, or bounds only? Changes are written
    from `end` on. Returns the greatest of what is left to do, and where changes end.
    """
    uncertain, columns, sums, *rest = groups
    most, end = _tick(
        tuple(uncertain), tuple(columns), tuple(sums), tuple(rest), tuple(rows.uncertain), tuple(rows[1:]),
        tuple(work), tuple(limits), changes, end, True if distributed else None,
    )  # fmt: skip
    return most, end


@kernel
def _screen(uncertain, columns, sums, rest, row_uncertain, rows, which):
    these = ManyLiveArrays(UncertainRows(*uncertain), Columns(*columns), Sums(*sums), *rest)
    coming = Arrivals(UncertainRows(*row_uncertain), *rows)
    n = coming.arrived.shape[0]
    stay, until, needed = np.ones(n, np.bool_), np.full(n, -np.inf), np.zeros(n, np.bool_)
    for g in which:
        group, a, b = these.groups[g], coming.begin[g], coming.begin[g + 1]
        live, some = live_arrays(these, g), rows_of(coming, g, False)
        went = these.lists[WENT, group.first : group.first + group.room]
        group.went += expire_slots(live.columns, group.used, group.now, live.fence, went[group.went :])
        kept, ends = admit(boxes_of(live), arriving(live, some), live.last_expiry < np.inf)
        for i in range(a, b):
            stay[i] = False
        for k in range(kept.shape[0]):
            i = a + kept[k]
            stay[i], until[i] = True, ends[k]
            needed[i] = ends[k] <= group.now and has_bounds_only(coming.uncertain, i)
    return stay, until, needed


def screen(groups: ManyLiveArrays, rows: Arrivals, which: Any) -> Any:
    """A first look at the rows of groups that have rows with bounds only.

    Of each row: whether it can ever matter, until when it is surely dominated, and whether it must be known better. A
    row that is surely dominated, to the end or for a while, need not. Better known, a row has the same box; where it
    has a narrower one, it is looked at anew.
    """
    uncertain, columns, sums, *rest = groups
    return _screen(
        tuple(uncertain), tuple(columns), tuple(sums), tuple(rest), tuple(rows.uncertain), tuple(rows[1:]), which
    )


# --- Groups as they are saved -----------------------------------------------------------------------------------------


@kernel
def finish_load(columns, groups, zeros):
    """Set `last_expiry`, `soon` and `alive` of groups from the columns of their saved rows.

    Returns (groups,) which have rows to judge before anything comes.
    """
    columns = Columns(*columns)
    anew = np.zeros(groups.shape[0], np.bool_)
    for g in range(groups.shape[0]):
        group = groups[g]
        last, soon = -np.inf, np.inf
        for c in range(group.first, group.first + group.used):
            if columns.state[c] == IN and (columns.instances[c] == 0 or zeros[columns.at[c]] < 0):
                columns.state[c], columns.until[c] = OUT, -np.inf  # -1: sums of an earlier version, too coarse
            anew[g] |= columns.state[c] != IN and columns.until[c] <= group.now
            expires = columns.expires[c]
            last = expires if expires >= last else np.inf
            soon = min(soon, expires)
        group.last_expiry, group.soon, group.alive = last, soon, group.used
    return anew


@kernel
def count_answers(columns, groups, threshold):
    """(3, groups) how many rows of each are members, of how many only bounds are known, how many are undecided."""
    columns, n = Columns(*columns), groups.shape[0]
    out = np.zeros((3, n), np.int64)
    for g in range(n):
        for c in range(groups[g].first, groups[g].first + groups[g].used):
            if columns.state[c] == IN:
                out[0, g] += 1
            if columns.state[c] >= OUT and columns.within[c] > 0:
                out[1, g] += 1
                out[2, g] += abs(columns.probability[c] - threshold) <= columns.within[c]
    return out


@kernel
def living_slots(columns, groups, start, size, shared):
    """The slots of all living rows, group by group, how many values of their own each has, and how many sums."""
    columns, total = Columns(*columns), 0
    for g in range(groups.shape[0]):
        total += groups[g].used
    slots, values, sums = np.empty(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.int64)
    m = 0
    for g in range(groups.shape[0]):
        for c in range(groups[g].first, groups[g].first + groups[g].used):
            if columns.state[c] == DEAD:
                continue
            slots[m] = c
            for j in range(start.shape[1]):
                if start[c, j] >= 0 and start[c, j] != shared[j]:
                    values[m] += size[c, j]
            if columns.state[c] == IN:
                sums[m] = columns.instances[c]
            m += 1
    return slots[:m], values[:m], sums[:m]


@kernel
def rows_with_bounds(start):
    """(n,) of which rows are only bounds known?"""
    out = np.zeros(start.shape[0], np.bool_)
    for i in range(start.shape[0]):
        for j in range(start.shape[1]):
            out[i] |= start[i, j] == BOUNDS_ONLY
    return out
