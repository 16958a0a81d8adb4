"""What happens at one tick?

What has expired leaves, the rows enter, what they surely beat is forgotten or sealed, seals end; the members' sums
follow; each cloud that is no longer known to be out is judged; what changed in the answer is collected. All of that is
one call, for at thirty rows a tick calls cost more than work. A call that meets something unusual returns what is left
to do, and is made again for the rest:

- VAGUE: clouds of which only bounds are known have lost their seals; they come again as rows, better known.
- ROOM: there is no room for the sums that new members may need.
- CROWD: so many clouds are to be judged that it pays to sort the others first.
- HEAVY: clouds of very many places are to be bracketed, before anything is reported.
- MET: as asked, nothing has been judged yet.

`ladders` is None for a tick of few rows; otherwise the number of rows, or of clouds to be judged, from which on others
are sorted first. The same function is compiled for either, each when it is needed: for None without any sorting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.arrays import SHARED, Arrivals, Boxes, Clouds, Columns, Ints, Limits, LiveSet, Sums, Turn
from fogline.kernels.admit import admit
from fogline.kernels.clouds import write_cells
from fogline.kernels.compile import inner, kernel
from fogline.kernels.conquer import conquer
from fogline.kernels.judge import judge
from fogline.kernels.ladder import count_up
from fogline.kernels.report import report
from fogline.kernels.states import OUT, bury, enter, is_vague, unseal, waiting
from fogline.kernels.sums import members_of, shift
from fogline.kernels.words import words

DONE, MET, VAGUE, ROOM, CROWD, HEAVY = 0, 1, 2, 3, 4, 5  # what a call leaves to do


@inner
def boxes_of(live):
    """The boxes of the slots in use."""
    clouds, columns, n = live.clouds, live.columns, live.used
    return Boxes(
        clouds.lo[:n], clouds.hi[:n], columns.expires[:n], columns.word_lo[:n], columns.word_hi[:n], live.fence
    )


@inner
def arriving(live, rows):
    """The boxes of the rows."""
    word_lo, word_hi = words(rows.clouds.lo, rows.clouds.hi, live.cuts)
    return Boxes(rows.clouds.lo, rows.clouds.hi, rows.expires, word_lo, word_hi, live.fence)


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
    counts[2] = b + bury(columns, used, turn.now, went[b:])
    boxes, there = arriving(live, rows), boxes_of(live)
    if rows.until.shape[0]:
        which, until = count_up(n), rows.until
    else:
        which, until = admit(there, boxes, live.latest < np.inf, ladders)
    if not turn.met:
        conquer(columns, there, boxes, which, went, counts, ladders)
    counts[1] += counted_before(columns, rows.origin, which)
    none = np.full(live.shared.shape[0], SHARED)
    pool = write_cells(rows.clouds, which, live.clouds, used, live.pool, none, live.shared)
    enter(live, rows, boxes, which, until, turn.now, places)
    latest = live.latest
    for k in range(which.shape[0]):
        expires = rows.expires[which[k]]
        latest = expires if expires >= latest else np.inf
        if columns.state[used + k] == OUT:
            came[a] = used + k
            a += 1
    vague = np.empty(used, np.int64)
    opened, again = unseal(live, turn.now, came[a:], vague)
    forgotten = counts[0] + n - which.shape[0]
    return which, came[: a + opened], went[: counts[2]], vague[:again], pool, latest, forgotten, counts[1]


@inner
def work(live, rows, turn, limits, pruned, ladders):
    """One tick, or as much of it as can be done; see `tick`."""
    met = meet(live, rows, turn, limits.places, ladders)
    which, came, went, vague = met[0], met[1], met[2], met[3]
    used, filled = live.used + which.shape[0], live.filled
    left = DONE
    alive = room = evaluations = heavy = 0
    first = np.inf
    if vague.shape[0]:
        left = VAGUE
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
def _tick(clouds, columns, sums, live, row_clouds, rows, turn, tuning):
    """`work`, its arguments as plain tuples: Numba takes three times as long to recognise named ones."""
    there = LiveSet(Clouds(*clouds), Columns(*columns), live[0], Sums(*sums), *live[1:])
    limits, pruned, ladders = tuning
    return work(there, Arrivals(Clouds(*row_clouds), *rows), Turn(*turn), Limits(*limits), pruned, ladders)


def tick(live: LiveSet, rows: Arrivals, turn: Turn, limits: Limits, pruned: Ints, ladders: int | None) -> Any:
    """One tick, or as much of it as can be done; see the module.

    Returns what is left to do; of the boxes' part the rows that got slots, what opened, what closed, what comes again,
    the end of the pools, `latest`, how many were forgotten and counted before; how many live, the first expiry, the
    end of the sums, how many of those are needed, how many probabilities were worked out; and the report.
    """
    clouds, columns, raw, sums, *rest = live
    return _tick(
        tuple(clouds), tuple(columns), tuple(sums), (raw, *rest), tuple(rows.clouds), tuple(rows[1:]), tuple(turn),
        (tuple(limits), pruned, ladders),
    )  # fmt: skip


@kernel
def screen(live, rows, now, ladders):
    """A first look at rows with bounds: what was open and went, which rows can ever matter, until when they are surely
    beaten, and which of those must be known better. A row that is surely beaten, to the end or for a while, need not.

    Better known, a row has the same box; where it has a narrower one, it is looked at anew.
    """
    went = np.empty(live.used, np.int64)
    m = bury(live.columns, live.used, now, went)
    which, until = admit(boxes_of(live), arriving(live, rows), live.latest < np.inf, ladders)
    needed = np.empty(which.shape[0], np.int64)
    n = 0
    for k in range(which.shape[0]):
        if until[k] <= now and is_vague(rows.clouds, which[k]):
            needed[n] = which[k]
            n += 1
    return went[:m], which, until, needed[:n]
