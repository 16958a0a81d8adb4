"""What does hindsight cost?

Two monitors take the same ticks in turn; one revises gaps and one does not. Here a tick is an interval of the set's own
clock, in which every sensor is read about once. R ends before the stream begins.

Times are of the processor, so that other processes hardly matter, and the ratio is that of the sums over all measured
ticks. Boxes must hold whatever hindsight may find, so they are wider and more rows stay live. Both counts are given,
and how much of what hindsight found lay outside and was clipped.
"""

from __future__ import annotations

from time import process_time

import numpy as np
import pandas as pd
import pyarrow as pa

from fogline.arrays import Floats, Ints
from fogline.monitor import Monitor
from fogline.query import Query
from lab.case import AT, SENSOR, Settings, data_set_of, mask, matrix, read
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import between, sets, settings
from lab.imputers.fittable import fit_once

PACE = {"intel": 31.0, "beijing": 3_600.0, "room_climate": 4.0, "smart_building_rooms": 60.0}  # seconds of a tick
WITH, WITHOUT = "with", "without"
MOST = 1.5  # so much longer may a tick take
TICKS, WARM = 300, 20  # ticks that are measured, and before them


def trials(scope: Scope) -> list[Knobs]:
    return [{"set": name, "seed": seed} for name in sets(scope, PACE) for seed in range(1, 2 if scope.quick else 4)]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = str(knobs["set"])
    asked = settings(name, scope, seed=knobs["seed"])
    query, past, stream = stream_of(name, scope, asked)
    repository = fit_once(past, query)
    monitors = {
        WITH: Monitor(query, repository),
        WITHOUT: Monitor(query, repository, hindsight=False),
    }
    ticks, starts = np.unique(stream.column(AT).to_numpy(), return_index=True)
    ends = np.append(starts[1:], stream.num_rows)
    first = len(ticks) - min(WARM + (30 if scope.quick else TICKS), len(ticks) - 1)
    for monitor in monitors.values():
        monitor.advance(ticks[first - 1], stream.slice(0, starts[first]), every="batch")
    spent: dict[str, list[float]] = {which: [] for which in monitors}
    live: dict[str, list[int]] = {which: [] for which in monitors}
    for k in range(first, len(ticks)):
        rows = stream.slice(starts[k], ends[k] - starts[k])
        for which in (WITH, WITHOUT) if k % 2 else (WITHOUT, WITH):
            began = process_time()
            monitors[which].advance(ticks[k], rows)
            if k >= first + WARM:
                spent[which].append(process_time() - began)
                live[which].append(monitors[which].groups[()].live.alive)
    return [_line(which, monitor, np.array(spent[which]), live[which]) for which, monitor in monitors.items()]


def _line(which: str, monitor: Monitor, spent: Floats, live: list[int]) -> dict[str, Scalar]:
    assert monitor.chain is not None
    tally = monitor.chain.tally
    return {
        "hindsight": which, "mean_ms": float(spent.mean() * 1e3), "median_ms": float(np.median(spent) * 1e3),
        "total_ms": float(spent.sum() * 1e3), "live": float(np.mean(live)), "revised": tally.revised,
        "clipped_percent": 100 * tally.clipped / max(tally.revised, 1), "ticks": len(spent),
    }  # fmt: skip


def stream_of(name: str, scope: Scope, asked: Settings) -> tuple[Query, pa.Table, pa.Table]:
    """The query, R, and rows with gaps whose times are those of their ticks, one of each sensor."""
    assert scope.data is not None
    names, values, extra = read(data_set_of(name), scope.data, asked)
    at, sensor = np.asarray(extra[AT].to_numpy(), np.float64), extra[SENSOR].to_pylist()
    at = np.floor((at - at[0]) / PACE[name]) * PACE[name]
    keep = first_of_each(at, sensor)
    columns = {SENSOR: pa.array(sensor), AT: at, **{each: values[:, j] for j, each in enumerate(names)}}
    whole = pa.table(columns).take(pa.array(keep))
    per_tick = len(keep) / len(np.unique(at))
    query = Query(
        attributes=dict.fromkeys(names, "max"), id=SENSOR, time=AT, lifetime=asked.window / per_tick * PACE[name],
        alpha=asked.alpha,
    )  # fmt: skip
    past = whole.slice(0, asked.history)
    stream = whole.slice(asked.history, asked.window + int((TICKS + WARM) * per_tick))
    truth = matrix(stream, names)
    gaps = mask(truth, asked.xi, asked.m, asked.seed)
    for j, each in enumerate(names):
        cells = pa.array(truth[:, j], mask=gaps[:, j])
        stream = stream.set_column(stream.schema.get_field_index(each), each, cells)
    return query, past, stream


def first_of_each(at: Floats, sensor: list[str]) -> Ints:
    """The rows that are the first of their sensor in their tick, in order.

    >>> first_of_each(np.array([0.0, 0.0, 0.0, 31.0]), ["a", "b", "a", "a"]).tolist()
    [0, 1, 3]
    """
    _, code = np.unique(np.array(sensor), return_inverse=True)
    _, first = np.unique(np.column_stack((at, code)), axis=0, return_index=True)
    return np.sort(first)


def read_cost(frame: pd.DataFrame) -> Reading:
    parts, good = [], []
    for name, rows in frame.groupby("set", sort=False):
        by = rows.pivot_table(index="seed", columns="hindsight", values=["total_ms", "live", "clipped_percent"])
        if WITHOUT not in by["total_ms"] or WITH not in by["total_ms"]:
            continue
        ratio = by["total_ms"][WITH] / by["total_ms"][WITHOUT]
        good.append(bool(ratio.median() <= MOST))
        parts.append(
            f"{name}: {between(ratio, '{:.2f}')} times the time of a tick without, {by['live'][WITH].mean():,.0f} live "
            f"rows instead of {by['live'][WITHOUT].mean():,.0f}, {by['clipped_percent'][WITH].mean():.2f} % clipped"
        )
    if not parts:
        return Reading("beyond the paper", "Too little was measured to conclude anything.")
    wanted = f"At most {MOST:g} times on {sum(good)} of {len(good)} sets."
    return Reading("beyond the paper", f"Hindsight on {'; '.join(parts)}. {wanted}")


HINDSIGHT = Experiment(
    name="hindsight",
    title="What hindsight costs",
    figure="beyond the paper",
    question="How much longer is a tick, and how many more rows stay live, if gaps are revised?",
    claim="",
    trials=trials,
    measure=measure,
    plots=(
        Plot("Milliseconds per tick, mean", "set", "mean_ms", "hindsight", kind="bar", y_label="ms"),
        Plot("Live rows", "set", "live", "hindsight", kind="table"),
        Plot("Clipped, per cent of what hindsight found", "set", "clipped_percent", "hindsight", kind="table"),
    ),
    read=read_cost,
)
