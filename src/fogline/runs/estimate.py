"""How much memory will a run take? Estimated before it starts, on the first rows of its stream.

A sample goes the whole way of a row, in this process and without a trace. That shows how many rows come in how long a
time, how many of them are live, and how many bytes each takes (`pipeline.loaded`). What lies beyond the sample is
estimated: the window is rate times lifetime; live rows grow with the window as they did within the sample, by a power
of its logarithm, as skylines do; ids that were not met yet are as many as those met only once let expect (Good and
Turing). The rest are rough constants; `benchmarks/memory.py` shows how far off they are.

How much memory this machine has, and this process has had, Linux states; elsewhere it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time_ns
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats
from fogline.output.folder import LocalFolder
from fogline.pipeline.decode import SLICE, Decoder, slices, with_now
from fogline.pipeline.loaded import row_bytes, size_of
from fogline.pipeline.names import HEALTH
from fogline.pipeline.plan import Plan
from fogline.pipeline.plans import Plans
from fogline.rows.reader import life_of
from fogline.rows.table import usual_table
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.evaluation import Evaluation
from fogline.show import count_of, size_text

_TOTAL = re.compile(r"MemTotal:\s+(\d+) kB")
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")
_GROUP = Path("/sys/fs/cgroup/memory.max")  # what a container may use


def machine_memory() -> int | None:
    """Bytes of memory that there are for this process: of the machine, or of its container; None: it is not known."""
    total = _number(Path("/proc/meminfo"), _TOTAL)
    try:
        allowed = _GROUP.read_text().strip()
    except OSError:
        allowed = ""
    return min(total, int(allowed)) if total is not None and allowed.isdigit() else total


def peak_memory() -> int | None:
    """Bytes of memory that this process has had at most; None: it is not known."""
    return _number(Path("/proc/self/status"), _PEAK)


def _number(path: Path, pattern: re.Pattern[str]) -> int | None:
    try:
        found = pattern.search(path.read_text())
    except OSError:
        return None
    return None if found is None else 1024 * int(found[1])


SAMPLE = 20_000  # rows, …
STEP = 1_000  # … so many at a time
SECONDS = 2.0  # that an estimate may take, about
PROCESS = 300_000_000  # bytes of a process that has nothing to do: libraries, and compiled code
ROOM = 4.0  # times what groups hold: arrays have room to grow, and a state is saved beside the group
ROWS_AT_ONCE = 600  # bytes that a row of a batch takes on its way, if screening does not drop it
FULL = 0.9  # of the rows of a sample are live, where all are taken to be
_OUTSIDE = 0.01  # of the rows may have times that are far off


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is expected of one query."""

    rows: int  # of the sample
    window: float | None  # rows that have not expired; None: none ever does
    live: float  # rows that can still matter
    complete: int  # bytes of a live row without gaps
    each: float  # bytes of a live row as they are
    state: float  # bytes of all groups
    process: float  # bytes of the process, with a batch

    def sentence(self) -> str:
        """For people."""
        rows = "the only row" if self.rows == 1 else f"the first {count_of(self.rows, 'row')}"
        return f"Estimated memory: {size_text(self.process)} (from {rows})"


def estimate(
    plan: Plan, rows: Iterable[pa.RecordBatch], *, total: float | None, batch: int, seconds: float = np.inf
) -> Estimate | None:
    """What a run will take; `total`: how many rows are there; `batch`: rows of one batch. None: there are no rows.

    `seconds`: what has not been played through by then is left out of the sample.
    """
    sample, steps = list[pa.RecordBatch](), [_Step(0, 0, 0)]
    began, screened = perf_counter(), 0
    with TemporaryDirectory() as nowhere:
        evaluation = Evaluation(Plans.alone(plan), EmbeddedState(LocalFolder(nowhere)))
        for some in _steps(rows):
            for report in evaluation.take([some], time_ns() // 1000):
                screened += sum(pc.sum(table["screened"]).as_py() for kind, table in report if kind == HEALTH)
            groups = list(evaluation.groups())
            sizes = sum(g.group.live.alive for g in groups), sum(size_of(plan, g) for g in groups)
            steps.append(_Step(steps[-1].rows + some.num_rows, *sizes))
            sample.append(some)
            if perf_counter() - began > seconds:
                break
    count, now, size = steps[-1]
    if not count:
        return None
    half = min(steps, key=lambda step: abs(2 * step.rows - count))
    span = _span(plan, sample)
    window = _window(plan, count, span)
    reached = window if window is not None else max(total or count, count)
    live = _ids(plan, sample, reached) if plan.query.latest else _grown(half, steps[-1], reached)
    waiting = count / span * plan.lateness if span > 0 else 0.0
    each = size / now if now else float(row_bytes(plan))
    state = live * each + waiting * row_bytes(plan)
    at_once = min(batch, max(total or batch, count)) * (1 - screened / count)
    return Estimate(
        count,
        window,
        live,
        row_bytes(plan),
        each,
        state,
        PROCESS + ROOM * state + ROWS_AT_ONCE * at_once,
    )


class _Step(NamedTuple):
    """What there was after so many rows of the sample."""

    rows: int
    live: int
    size: int  # bytes


def _steps(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sample, some rows at a time."""
    left = SAMPLE
    for batch in rows:
        for begin in range(0, min(batch.num_rows, left), STEP):
            yield batch.slice(begin, min(STEP, left - begin))
        left -= batch.num_rows
        if left <= 0:
            return


def _span(plan: Plan, sample: list[pa.RecordBatch]) -> float:
    """How much time the sample takes, in units of the clock; rows whose times are far off do not count."""
    decoder, times = Decoder(plan), list[Floats]()
    for each in slices(with_now(sample, Plans.alone(plan), time_ns() // 1000), SLICE):
        rows = decoder.decode(each).rows
        taken = np.ones(len(rows.arrived), np.bool_)
        taken[list(rows.refused)] = False
        times.append(rows.arrived[taken])
    arrived = np.concatenate(times) if times else np.empty(0)
    if len(arrived) < 2:
        return 0.0
    low, high = np.quantile(arrived, (_OUTSIDE, 1 - _OUTSIDE))
    return float(high - low) / (1 - 2 * _OUTSIDE)


def _window(plan: Plan, count: int, span: float) -> float | None:
    """How many rows have not expired at a time."""
    query = plan.query
    if query.last is not None:
        return float(query.last)
    if query.longest_life is None or span <= 0:
        return None
    return count * life_of(query, plan.kind) / span


def _grown(half: _Step, whole: _Step, window: float) -> float:
    """Live rows of a window, from those after half of a sample and after all of it.

    >>> half, whole = _Step(500, 100, 0), _Step(1_000, 110, 0)
    >>> round(_grown(half, whole, 10_000)), _grown(half, whole, 900), _grown(half, _Step(1_000, 1_000, 0), 10_000)
    (143, 110.0, 10000.0)
    """
    count, now = whole.rows, whole.live
    if window <= count or not half.live or not now or half.rows < 2:
        return float(now)
    if now >= FULL * count:  # nearly all are: so they will be
        return now * window / count
    power = max(np.log(now / half.live), 0.0) / np.log(np.log(count) / np.log(half.rows))
    return float(min(now * (np.log(window) / np.log(count)) ** power, now * window / count))


def _ids(plan: Plan, sample: list[pa.RecordBatch], most: float) -> float:
    """How many ids there are, with those that have not come yet."""
    names = list(dict.fromkeys([*plan.query.by, plan.query.id]))
    keys = usual_table(pa.Table.from_batches(sample).select(names))  # Arrow groups by no rare type
    counted = keys.group_by(names).aggregate([([], "count_all")])
    times = counted["count_all"]
    rows, once = pc.sum(times).as_py(), pc.sum(pc.equal(times, 1)).as_py()
    unseen = once / rows  # the chance that the next row is of an id that was not met
    ids = counted.num_rows / (1 - unseen) if unseen < 1 else np.inf
    return float(max(min(ids, most), counted.num_rows))
