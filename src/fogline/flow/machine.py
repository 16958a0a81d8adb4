"""Is a row's time later than the clock of this machine?

Where times are timestamps, a row that is ahead of the machine's clock by more than its group may be, and by more than a
day, is rejected by name: milliseconds read as seconds lie fifty thousand years ahead. The engine gives the machine's
clock with the rows, in a column of its own, the same for all rows of a batch and whenever the batch is done again.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.flow.lengths import DAY, length_text
from fogline.flow.plan import Plan
from fogline.flow.plans import AnyPlan
from fogline.rows.clock import read_times, time_text
from fogline.rows.reader import Decoded

NOW = "_fogline_now"
_YEARS = "outside the years"  # a reason that this one explains
_EARLIEST = 3652 * DAY  # 1980: a time that a sensor may well mean


def asks_now(plan: AnyPlan) -> bool:
    """Whether rows are compared with the machine's clock."""
    return pa.types.is_timestamp(plan.kind) and plan.ahead < math.inf


def without_now(rows: pa.Table | pa.RecordBatch) -> tuple[pa.Table | pa.RecordBatch, float]:
    """The rows without the column of the machine's clock, and what it shows, in microseconds; inf: it is not there."""
    at = rows.schema.get_field_index(NOW)
    if at < 0:
        return rows, math.inf
    now = read_times(pa.array(rows.column(at)[:1].to_pylist(), rows.schema.field(at).type), NOW).value
    return rows.remove_column(at), float(now[0]) if len(now) else math.inf


def refuse_future(rows: Decoded, plan: Plan, now: float) -> None:
    """Reject the rows that are later than the machine's clock by more than is allowed."""
    if now == math.inf or not asks_now(plan):
        return
    until, times = now + max(plan.ahead, DAY), _times(rows, plan)
    for i in np.flatnonzero(times > until).tolist():
        if i not in rows.refused or _YEARS in rows.refused[i]:
            t = float(times[i])
            guess = "; are milliseconds read as seconds?" if _EARLIEST <= t / 1000 <= until else ""
            far = length_text(t - now, plan.kind)
            rows.refused[i] = f"its time, {time_text(t, plan.kind)}, is {far} ahead of this machine's clock{guess}"


def _times(rows: Decoded, plan: Plan) -> Floats:
    """(n,) the times, those that are refused for their year included."""
    if not rows.refused:
        return rows.arrived
    column = rows.source.require(plan.query.time, "time column")
    if not (isinstance(column, pa.Array) and pa.types.is_timestamp(column.type)):
        return rows.arrived
    micros = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}[column.type.unit]
    return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) * micros, np.float64)
