"""What happens at one tick, where each id has one current row?

Rows that are replaced, removed or expired die, the new ones enter; those and the rows that lost their guard look for
one among the open rows that stay, then among each other. The rest open, and seal what they surely beat. The members'
sums follow; rows that lost a guard, opened or fell are judged; what changed is collected. As in `tick`, all of that is
one call, and a call that meets something unusual returns what is left to do:

- VAGUE: rows of which only bounds are known have no guard; they are pending until they are better known.
- ROOM: there is no room for the sums that new members may need.
- HEAVY: clouds of very many places are to be bracketed, before anything is reported.

Invariant at the end: a sealed slot has a guard that is alive, is not vague and surely beats it; no living slot surely
beats an open one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.arrays import SHARED, Arrivals, Clouds, Columns, Guards, Limits, LiveSet, Round, Sums
from fogline.kernels.clouds import write_cells
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import beats
from fogline.kernels.guards import NONE, beater, inherited, judge_guarded, orphans, unbeaten, unguarded
from fogline.kernels.judge import words_of
from fogline.kernels.ladder import count_up
from fogline.kernels.report import report
from fogline.kernels.states import DEAD, HAS_EXPIRED, HAS_HEIR, IN, IS_GONE, OUT, SEALED, enter, is_vague
from fogline.kernels.sums import shift
from fogline.kernels.tick import DONE, HEAVY, ROOM, VAGUE, arriving, room_for
from fogline.kernels.words import BLOCK, any_covered, covers

OVER = -2  # in place of an heir: the row that replaced it has expired already


@inner
def bury_left(live, guards, turn, went, w):
    """The rows that are replaced or removed die; one that was open points to its heir. Those go to `went` from w on."""
    columns = live.columns
    for k in range(turn.left.shape[0]):
        c = turn.left[k]
        if columns.state[c] >= OUT:
            went[w] = c
            w += 1
            guards.sure[c] = turn.heirs[k]
        columns.state[c], columns.expires[c] = DEAD, -np.inf
        heir = turn.heirs[k]
        columns.until[c] = HAS_HEIR if heir >= 0 else HAS_EXPIRED if heir == OVER else IS_GONE
    return w


@inner
def bury_expired(live, guards, turn, went, w):
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
            guards.sure[c] = NONE
        columns.state[c], columns.expires[c], columns.until[c] = DEAD, -np.inf, HAS_EXPIRED
        expired[n] = c
        n += 1
    return expired[:n], w, first


@inner
def let_in(live, rows, places):
    """Fill the next slots with the rows, sealed for now. Returns the end of the pools and the first expiry."""
    n = rows.expires.shape[0]
    which, none = count_up(n), np.full(live.shared.shape[0], SHARED)
    pool = write_cells(rows.clouds, which, live.clouds, live.used, live.pool, none, live.shared)
    enter(live, rows, arriving(live, rows), which, np.full(n, np.inf), -np.inf, places)
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
    """The slots that are sealed without a guard: those that are given, orphans and arrivals, unless one is found."""
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
        c, g = pending[k], NONE
        if given <= k < lost:
            g = inherited(live, guards, c)
        if g < 0:
            g = beater(live, c, stay, strong, 0)
        guards.sure[c] = g
        if g < 0:
            pending[m] = c
            m += 1
    return pending[:m]


@inner
def sift(live, guards, pending):
    """Pending slots look for guards among each other. Returns those without, those that are vague last, and how many
    are."""
    known, vague = np.empty(pending.shape[0], np.int64), np.empty(pending.shape[0], np.int64)
    a = b = 0
    for c in pending:
        if is_vague(live.clouds, c):
            vague[b] = c
            b += 1
        else:
            known[a] = c
            a += 1
    kept = unbeaten(live, guards, known[:a])
    strong, n = words_of(live.columns.word_lo, kept), kept.shape[0]
    out, m = room_for(kept, b), 0
    for c in vague[:b]:
        guards.sure[c] = beater(live, c, kept, strong, 0)
        if guards.sure[c] < 0:
            out[n + m] = c
            m += 1
    return out[: n + m], m


@inner
def seal(live, guards, came, stay, went, w):
    """What a row that has just opened surely beats is sealed. Lists it in `went` from w on; returns the new end."""
    columns, clouds, n = live.columns, live.clouds, stay.shape[0]
    weak = words_of(columns.word_hi, stay)
    for g in came:
        word = columns.word_lo[g]
        for begin in range(0, n, BLOCK):
            end = min(begin + BLOCK, n)
            if not any_covered(weak, begin, end, word, live.fence):
                continue
            for r in range(begin, end):
                c = stay[r]
                if covers(word, weak[r], live.fence) and columns.state[c] >= OUT and beats(clouds.lo, g, clouds.hi, c):
                    columns.state[c], columns.until[c], guards.sure[c] = SEALED, np.inf, g
                    went[w] = c
                    w += 1
    return w


@inner
def opening(live, guards, came, stay, went, w):
    """Rows that no other surely beats open. Returns the open slots, and the end of `went`."""
    columns = live.columns
    w = seal(live, guards, came, stay, went, w)
    for c in came:
        columns.state[c], columns.until[c] = OUT, -np.inf
    rest = staying(columns, stay)
    opened = room_for(rest, came.shape[0])
    for k in range(came.shape[0]):
        opened[rest.shape[0] + k] = came[k]
    return opened, w


@inner
def members_among(columns, opened):
    """The members of the answer."""
    out, n = np.empty(opened.shape[0], np.int64), 0
    for c in opened:
        if columns.state[c] == IN:
            out[n] = c
            n += 1
    return out[:n]


@inner
def due_among(columns, opened):
    """The open slots that are to be judged, and how many sums they may need."""
    out, n, room = np.empty(opened.shape[0], np.int64), 0, 0
    for c in opened:
        if columns.state[c] == OUT and columns.until[c] == -np.inf:
            out[n] = c
            n += 1
            room += columns.places[c]
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
def collect(live, turn, opened, went, used, limits):
    """What changed in the answer; only open slots, and those that were, can have changed."""
    n = opened.shape[0]
    which = room_for(opened, went.shape[0] + turn.closed.shape[0])
    for c in went:
        which[n] = c
        n += 1
    for c in turn.closed:
        which[n] = c
        n += 1
    return report(live, which, turn.new, used, limits, True)


@inner
def meet(live, guards, rows, turn, places):
    """The boxes' part of a tick. Returns what is pending, what opened, the open slots, what was open and is no more,
    what expired, the end of the pools, and the first expiry."""
    n = rows.expires.shape[0]
    w = turn.went.shape[0]
    went = room_for(turn.went, turn.opened.shape[0])
    first, expired = turn.first, turn.left[:0]
    w = bury_left(live, guards, turn, went, w)
    if turn.first <= turn.now:
        expired, w, first = bury_expired(live, guards, turn, went, w)
    pool, soon = let_in(live, rows, places)
    died = went[turn.went.shape[0] : w]
    stay = staying(live.columns, turn.opened)
    unguarded(live, guards, stay, died)
    pending, vague = sift(live, guards, look_for_guards(live, guards, turn, n, stay))
    came, opened = pending[:0], stay
    if vague == 0:
        came, pending = pending, came
        opened, w = opening(live, guards, came, stay, went, w)
    return pending, came, opened, went[:w], expired, pool, min(first, soon)


@inner
def work(live, guards, rows, turn, limits):
    """One tick, or as much of it as can be done; see `current`."""
    met = meet(live, guards, rows, turn, limits.places)
    pending, came, opened, went = met[0], met[1], met[2], met[3]
    left, filled = DONE, live.filled
    room = evaluations = heavy = 0
    if pending.shape[0]:
        left = VAGUE
    else:
        if came.shape[0] or went.shape[0]:
            shift(live, members_among(live.columns, opened), came, went, limits)
        due, room = due_among(live.columns, opened)
        if filled + room > live.sums.logs.shape[0]:
            left = ROOM
        elif due.shape[0]:
            evaluations, heavy, filled = judge_guarded(live, guards, opened, due, limits)
            left = HEAVY if heavy else DONE
    if left == DONE and turn.report:
        hand_over(live, turn.before, turn.after)
        changes = collect(live, turn, opened, went, live.used + rows.expires.shape[0], limits)
    else:
        changes = report(live, opened[:0], 0, 0, limits, True)
    return left, met, (filled, room, evaluations), changes


hand_over_now = kernel(hand_over.py_func)  # the same, to be called from Python


@kernel
def _current(clouds, columns, sums, live, row_clouds, rows, turn, tuning):
    """`work`, its arguments as plain tuples: Numba takes three times as long to recognise named ones."""
    there = LiveSet(Clouds(*clouds), Columns(*columns), live[0], Sums(*sums), *live[1:])
    guards, limits = tuning
    return work(there, Guards(*guards), Arrivals(Clouds(*row_clouds), *rows), Round(*turn), Limits(*limits))


def current(live: LiveSet, guards: Guards, rows: Arrivals, turn: Round, limits: Limits) -> Any:
    """One tick, or as much of it as can be done; see the module.

    Returns what is left to do; of the boxes' part what is pending, what opened, the open slots, what was open and is no
    more, what expired, the end of the pools and the first expiry; the end of the sums, how many of those are needed,
    how many probabilities were worked out; and the report.
    """
    clouds, columns, raw, sums, *rest = live
    return _current(
        tuple(clouds), tuple(columns), tuple(sums), (raw, *rest), tuple(rows.clouds), tuple(rows[1:]), tuple(turn),
        (tuple(guards), tuple(limits)),
    )  # fmt: skip
