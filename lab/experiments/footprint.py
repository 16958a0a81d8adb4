"""How many bytes does each system keep?

Counted are the arrays a system holds when the window is full, found by walking from it to everything it refers to: the
window or live set, candidate lists, pools of values. Slack that arrays grow into is counted, for it is kept. R and what
is learned from it is left out, being the same for all; so are Python's own objects beside the arrays. For Fogline also
the size of its snapshot: what a restart needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from fogline.monitor import Monitor
from lab.case import KINDS
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import case_of
from lab.race import FOGLINE, Pair, System, repository_of, system

SYSTEMS = (FOGLINE, "DD+skyline", "DD+skyline_forgetting", "mean+moocore")
WINDOWS = (5_000, 20_000, 80_000)
LARGE = 20_000  # beyond, lists of bits, which grow with the square of the window, and fronts anew take long
SMALL_ONLY = ("DD+skyline", "mean+moocore")


def trials(scope: Scope) -> list[Knobs]:
    windows = (500, 2_000) if scope.quick else WINDOWS
    return [{"set": kind, "window": window} for kind in KINDS for window in windows]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
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


def read(frame: pd.DataFrame) -> Reading:
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
    trials=trials,
    measure=measure,
    plots=(
        Plot(
            "Arrays held", "window", "kilobytes", "system", "set", log_x=True, log_y=True, x_label="|W|", y_label="kB"
        ),
        Plot("Fogline's snapshot", "window", "snapshot_kb", "set", where={"system": FOGLINE}, log_x=True, y_label="kB"),
    ),
    read=read,
)
