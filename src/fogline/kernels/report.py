"""What changed in the answer since it was last reported, and why did rows leave it?

A row that leaves has expired; or is *beaten*: a row of the window beats it wherever the two turn out to be; or is *less
likely*: several rows together, or one that need not beat it, took its probability to alpha or below. Where rows are
replaced, it may also be that its id has another row, or none.

The rival that is named of a beaten row is open: no row surely beats that one. There is such a row, for what surely
beats a sealed rival beats the row surely, too; and which rows are open is a matter of the window alone. Of several the
first to arrive is named, so that neither batches nor restarts, nor rows that were dropped on their way, change a name.
"""

from __future__ import annotations

import numpy as np

from fogline.arrays import BEATEN, ENTER, EXPIRED, LEAVE, LESS_LIKELY, NO_REASON, REMOVED, REPLACED, UPDATE
from fogline.kernels.compile import inner, kernel
from fogline.kernels.dominance import surely_beats, surely_beats_other
from fogline.kernels.sorting import argsort
from fogline.kernels.states import DEAD, HAS_EXPIRED, IN, IS_GONE, OUT, SEALED
from fogline.kernels.words import covers

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
            and surely_beats(live.clouds, g, o)
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
    return (BEATEN if rival != NO_RIVAL or columns.state[o] <= SEALED else LESS_LIKELY), rival


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
def sure_rivals(live, clouds, o, begin):
    """All of the open clouds, in slots from `begin` on, that surely beat cloud o of `clouds`."""
    out, m = np.empty(live.used, np.int64), 0
    for g in range(begin, live.used):
        if live.columns.state[g] >= OUT and surely_beats_other(live.clouds, g, clouds, o):
            out[m] = g
            m += 1
    return out[:m]
