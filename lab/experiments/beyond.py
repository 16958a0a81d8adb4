"""How far does it go: ten million rows, sixteen attributes, how many rows a second, and how many bytes?

Nothing here is in the paper. Windows grow and the cost of a row should hardly, for only the live set is kept. With more
attributes nearly every row is on the skyline, and no method is fast. With more rows per tick they share what each tick
costs by itself.

`memory` counts the arrays a system holds when the window is full, found by walking from it to everything it refers to:
the window or live set, candidate lists, pools of values. Slack that arrays grow into is counted, for it is kept. R and
what is learned from it is left out, being the same for all; so are Python's own objects beside the arrays. For Fogline
there is also the size of its snapshot: what a restart needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fogline.monitor import Monitor
from lab.case import ID, KINDS, TIME, mask
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import FEWEST, case_of, listed, whole_ticks
from lab.experiments.efficiency import sweep_measure
from lab.paper.generator import SEEDS, objects, seed_objects
from lab.race import FOGLINE, Pair, System, repository_of, system

BATCH = 10_000  # rows per tick of a huge window


# ---------------------------------------------------------------------------------------------------------- huge


def huge_trials(scope: Scope) -> list[Knobs]:
    windows = (20_000, 200_000) if scope.quick else (100_000, 1_000_000, 10_000_000)
    return [{"set": "uniform", "window": window} for window in windows]


def huge_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    """Rows are made as they are needed: ten million of them would not be a small table."""
    small = case_of("uniform", scope, window=300, ticks=0)
    lifetime = int(knobs["window"] or 0) // BATCH
    monitor = Monitor(replace(small.query, lifetime=lifetime), repository_of(FOGLINE, small))
    names = small.query.names
    seeds = seed_objects("uniform", len(names), SEEDS, np.random.default_rng([small.settings.seed, 10]))
    rng, seconds = np.random.default_rng(40), []
    for k in range(lifetime + 10):
        rows = np.ascontiguousarray(objects(seeds, BATCH, rng).T)
        gaps = mask(rows, small.settings.xi, small.settings.m, k)
        cells = {name: pa.array(rows[:, j], mask=gaps[:, j]) for j, name in enumerate(names)}
        order = np.arange(k * BATCH, (k + 1) * BATCH)
        table = pa.table({ID: order, TIME: np.full(BATCH, k), **cells})
        began = perf_counter()
        monitor.advance(k, table)
        if k >= lifetime:
            seconds.append(perf_counter() - began)
    whole, sizes = float(np.median(seconds)), monitor.stats()
    return [
        {"us_per_row": whole * 1e6 / BATCH, "rows_per_s": BATCH / whole, "live": sizes["live"],
         "answer": sizes["answer"], "state_mb": len(monitor.snapshot()) / 1e6}
    ]  # fmt: skip


def huge_read(frame: pd.DataFrame) -> Reading:
    ordered = frame.sort_values("window")
    parts = [
        f"|W| = {row['window']:,}: {row['us_per_row']:.2f} µs per row, {row['live']:,} live rows, state "
        f"{row['state_mb']:.2f} MB"
        for _, row in ordered.iterrows()
    ]
    first, last = ordered.iloc[0], ordered.iloc[-1]
    text = (
        f"{'; '.join(parts)}. A window {last['window'] / first['window']:,.0f} times as large costs "
        f"{last['us_per_row'] / first['us_per_row']:.2f} times as much per row."
    )
    return Reading("beyond the paper", text)


# ---------------------------------------------------------------------------------------------------------- wide


def wide_trials(scope: Scope) -> list[Knobs]:
    return [{"set": kind, "d": d, "seed": 1} for kind in KINDS for d in ((4, 16) if scope.quick else (4, 8, 12, 16))]


def wide_read(frame: pd.DataFrame) -> Reading:
    widest = frame["d"].max()
    rows = frame[frame["d"] == widest]
    parts = [
        f"{row['set']} {row['total_ms']:.3g} ms per tick with {row['live']:,} live rows and {row['answer']:,} answers"
        for _, row in rows.iterrows()
    ]
    return Reading("beyond the paper", f"With {widest} attributes: {'; '.join(parts)}.")


# ---------------------------------------------------------------------------------------------------------- rate


def rate_trials(scope: Scope) -> list[Knobs]:
    rates = (30, 1_000) if scope.quick else (10, 30, 100, 300, 1_000, 3_000, 10_000)
    return [{"set": kind, "theta": theta} for kind in KINDS for theta in rates]


def rate_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    """Whole ticks of a monitor: a row has to be read, and a change to be written."""
    theta = int(knobs["theta"] or 0)
    case = case_of(str(knobs["set"]), scope, theta=theta, ticks=max(FEWEST, min(100, 100_000 // theta)))
    took = whole_ticks(case, Monitor(case.query, repository_of(FOGLINE, case)))
    return [{"rows_per_s": theta / took * 1e3, "tick_ms": took}]


def rate_read(frame: pd.DataFrame) -> Reading:
    best = frame.loc[frame.groupby("set")["rows_per_s"].idxmax()]
    parts = [f"{row['rows_per_s']:,.0f} on {row['set']} (θ = {row['theta']:,})" for _, row in best.iterrows()]
    return Reading("beyond the paper", f"One core takes at most so many rows a second: {listed(parts)}.")


HUGE = Experiment(
    name="huge", title="Windows up to ten million rows", figure="beyond the paper",
    question="What does a row cost, and how large is the state, as the window grows?", claim="",
    trials=huge_trials, measure=huge_measure,
    plots=(
        Plot("Time per row", "window", "us_per_row", log_x=True, x_label="|W|", y_label="µs"),
        Plot("State (snapshot)", "window", "state_mb", log_x=True, x_label="|W|", y_label="MB"),
        Plot("Live rows", "window", "live", log_x=True, x_label="|W|"),
    ),
    read=huge_read,
)  # fmt: skip

WIDE = Experiment(
    name="wide", title="Up to sixteen attributes", figure="beyond the paper",
    question="What does a tick take when nearly every row is on the skyline?", claim="",
    trials=wide_trials, measure=sweep_measure,
    plots=(
        Plot("Time per tick", "d", "total_ms", "set", log_y=True, y_label="ms"),
        Plot("Live rows", "d", "live", "set", log_y=True),
    ),
    read=wide_read,
)  # fmt: skip

RATE = Experiment(
    name="rate", title="Rows per second on one core", figure="beyond the paper",
    question="How fast may rows come?", claim="",
    trials=rate_trials, measure=rate_measure,
    plots=(Plot("Rows per second", "theta", "rows_per_s", "set", log_x=True, log_y=True, x_label="θ"),),
    read=rate_read,
)  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- memory


SYSTEMS = (FOGLINE, "DD+skyline", "DD+skyline_forgetting", "mean+moocore")
WINDOWS = (5_000, 20_000, 80_000)
LARGE = 20_000  # beyond, lists of bits, which grow with the square of the window, and fronts anew take long
SMALL_ONLY = ("DD+skyline", "mean+moocore")


def memory_trials(scope: Scope) -> list[Knobs]:
    windows = (500, 2_000) if scope.quick else WINDOWS
    return [{"set": kind, "window": window} for kind in KINDS for window in windows]


def memory_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    window = int(knobs["window"] or 0)
    case = case_of(str(knobs["set"]), scope, window=window, ticks=1)
    rows: list[dict[str, Scalar]] = []
    for name in SYSTEMS:
        if name in SMALL_ONLY and window > LARGE:
            continue
        runner = Monitor(case.query, repository_of(name, case)) if name == FOGLINE else system(name, case)
        for k, arrived in case.ticks():
            runner.advance(k, arrived)
        snapshot = len(runner.snapshot()) / 1e3 if isinstance(runner, Monitor) else None
        rows.append({"system": name, "kilobytes": held(runner) / 1e3, "snapshot_kb": snapshot})
    return rows


def held(runner: Monitor | System) -> int:
    """Bytes of all arrays of a system, each counted once."""
    root: Any = runner
    if isinstance(runner, Monitor):
        root = [group.live.slots for group in runner.groups.values()]
    elif isinstance(runner, Pair):
        root = runner.maintainer
    found = {id(array): array.nbytes for array in _arrays(root, set())}
    return sum(found.values())


def _arrays(thing: Any, seen: set[int]) -> Iterator[np.ndarray[Any, Any]]:
    """Everything from here on that owns its numbers."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        if isinstance(thing.base, np.ndarray):
            yield from _arrays(thing.base, seen)
        else:
            yield thing
        return
    if isinstance(thing, list | tuple):
        parts = list(thing)
    elif isinstance(thing, dict):
        parts = list(thing.values())
    elif type(thing).__module__.startswith(("fogline.", "lab.")):
        names = [name for each in type(thing).__mro__ for name in getattr(each, "__slots__", ())]
        parts = [getattr(thing, name, None) for name in names] + list(getattr(thing, "__dict__", {}).values())
    else:
        return
    for part in parts:
        yield from _arrays(part, seen)


def memory_read(frame: pd.DataFrame) -> Reading:
    table = frame.pivot_table(index=["set", "window"], columns="system", values="kilobytes", sort=False)
    ratio = table.drop(columns=FOGLINE).div(table[FOGLINE], axis=0)
    parts = []
    for name, column in ratio.items():
        there = column.dropna()
        most = there.index.get_level_values("window").max()
        parts.append(f"{name} {there.min():,.3g} to {there.max():,.3g} times Fogline's (windows up to {most:,})")
    largest = frame["window"].max()
    kept = frame[(frame["system"] == FOGLINE) & (frame["window"] == largest)].groupby("set")["kilobytes"].mean()
    shown = ", ".join(f"{name} {size:,.0f} kB" for name, size in kept.items())
    return Reading("beyond the paper", f"With |W| = {largest:,} Fogline keeps {shown}. Others: {'; '.join(parts)}.")


MEMORY = Experiment(
    name="memory",
    title="Memory",
    figure="beyond the paper",
    question="How many bytes does each system keep when the window is full?",
    claim="",
    trials=memory_trials,
    measure=memory_measure,
    plots=(
        Plot(
            "Arrays held", "window", "kilobytes", "system", "set", log_x=True, log_y=True, x_label="|W|", y_label="kB"
        ),
        Plot("Fogline's snapshot", "window", "snapshot_kb", "set", where={"system": FOGLINE}, log_x=True, y_label="kB"),
    ),
    read=memory_read,
)
