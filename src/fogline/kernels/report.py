"""What changed in the answer since it was last reported?"""

from __future__ import annotations

import numpy as np

from fogline.arrays import ENTER, LEAVE, UPDATE
from fogline.kernels.compile import inner, kernel
from fogline.kernels.sorting import argsort
from fogline.kernels.states import IN


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
def report(live, which, tolerance):
    """What changed of some slots, from now on counted as reported.

    Returns (slots, arrived, change, probability, within, raw rows).
    """
    columns = live.columns
    slots = changed(columns, which, tolerance)
    n, d = slots.shape[0], live.raw.shape[1]
    arrived, change, probability = np.empty(n), np.empty(n, np.int64), np.empty(n)
    within, raw = np.empty(n), np.empty((n, d))
    for k in range(n):
        c = slots[k]
        if columns.state[c] == IN:
            change[k] = UPDATE if columns.reported[c] == columns.reported[c] else ENTER
            probability[k] = columns.probability[c]
        else:
            change[k], probability[k] = LEAVE, np.nan
        columns.reported[c] = probability[k]
        arrived[k], within[k] = columns.arrived[c], columns.within[c]
        for j in range(d):
            raw[k, j] = live.raw[c, j]
    return slots, arrived, change, probability, within, raw


@kernel
def report_changes(live, which, tolerance):
    """`report`, to be called from Python."""
    return report(live, which, tolerance)
