"""On which sets, with which settings, and for how long does an experiment run?

The paper's defaults throughout. A quick run has a tenth of the window and a part of R. Sets that are too short for the
paper's window get one that fits, in both kinds of run. Times are medians over ticks, in milliseconds, so that another
process that runs now and then does not change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from fogline.monitor import Monitor
from lab.case import APART, KINDS, Case, Settings, available, data_set_of, is_whole, real, synthetic
from lab.experiment import Scalar, Scope
from lab.maintainers import TickTimes
from lab.race import System

SYNTHETIC = KINDS + APART
REAL = ("intel", "gas", "bid", "pump", "beijing")
STAND_INS = ("sp500",)
QUICK: Mapping[str, int] = {"window": 2_000, "history": 12_000, "ticks": 20}
COPIES = 60_000  # rows of R in quick runs of synthetic sets: fewer, and some seeds would have no copy in R
SHORT: Mapping[str, Mapping[str, int]] = {  # slices of 4,131, 19,447 and 119,955 rows; not so where the whole is there
    "gas": {"window": 1_500, "history": 1_500, "ticks": 30},
    "pump": {"window": 5_000, "history": 10_000, "ticks": 50},
    "sp500": {"history": 80_000},
}
STEP = 40_000  # rows between the beginnings of two windows of a set
STANDS = " The set sp500, daily prices, stands in for the paper's Bid."
SETTLING = 3  # ticks before the first that is measured are taken like it
SECONDS = 5.0  # so long is a slow system measured at most …
FEWEST = 5  # … but never fewer ticks


def sets(scope: Scope, wanted: Iterable[str] = (*KINDS, *REAL, *STAND_INS)) -> list[str]:
    """Those of the sets that can be had."""
    here = set(available(scope.data))
    here -= {name for name in STAND_INS if "bid" in here}  # nothing need stand in for what is there
    return [name for name in wanted if name in KINDS or name in here]


def settings(name: str, scope: Scope, **knobs: Any) -> Settings:
    """The defaults for a set, and the knobs that are turned."""
    base: dict[str, Any] = {"ticks": 100} | dict(QUICK if scope.quick else {})
    if scope.quick and name in SYNTHETIC:
        base["history"] = COPIES
    for key, most in ({} if name in SHORT and is_whole(name, scope.data) else SHORT.get(name, {})).items():
        base[key] = min(base.get(key, most), most)
    return Settings(**(base | knobs))


def case_of(name: str, scope: Scope, **knobs: Any) -> Case:
    """The case of a set."""
    made = settings(name, scope, **knobs)
    if name in SYNTHETIC:
        return synthetic(name, made)
    assert scope.data is not None, f"{name} is a real set, and there is no folder"
    return real(name, scope.data, made)


def case_at(name: str, scope: Scope, place: int, **knobs: Any) -> Case:
    """The case of a set that begins `place` steps later."""
    if not place:
        return case_of(name, scope, **knobs)
    made = settings(name, scope, **knobs)
    first = made.history if made.protocol == "honest" else 0
    return case_of(name, scope, **knobs, start=first + place * (STEP // (10 if scope.quick else 1)))


def kind_of(name: str) -> str:
    """What to call a set in a report."""
    if name in SYNTHETIC:
        return "synthetic"
    stands_for = data_set_of(name).stands_for
    return "real" if stands_for is None else f"in place of {stands_for}"


def pace(case: Case, runner: System, seconds: float = SECONDS) -> dict[str, Scalar]:
    """Fill the window unmeasured, go on to the end of the case or until time is up; how long a tick took."""
    spent: list[TickTimes] = []
    total = 0.0
    fill = getattr(runner, "fill", runner.advance)  # without an answer, where that is quicker
    for k, rows in case.ticks():
        if k < case.full - SETTLING:
            fill(k, rows)
            continue
        runner.advance(k, rows)
        if k >= case.full:
            spent.append(runner.spent)
            total += runner.spent.total
            if total > seconds and len(spent) >= FEWEST:
                break
    return milliseconds(spent)


def whole_ticks(case: Case, monitor: Monitor) -> float:
    """Milliseconds of a monitor's tick once the window is full: rows read, changes written, and all between."""
    seconds = []
    for k, rows in case.ticks():
        began = perf_counter()
        monitor.advance(k, rows)
        if k >= case.full:
            seconds.append(perf_counter() - began)
    return float(np.median(seconds)) * 1e3


def milliseconds(spent: list[TickTimes]) -> dict[str, Scalar]:
    """Medians per tick. `maintenance` is the paper's: with imputation."""
    parts = np.array([(each.imputation, each.maintenance, each.query) for each in spent]) * 1e3
    imputation, upkeep, query = np.median(parts, axis=0).tolist()
    kept = float(np.median(parts[:, :2].sum(axis=1)))
    total = parts.sum(axis=1)
    return {
        "imputation_ms": imputation, "upkeep_ms": upkeep, "maintenance_ms": kept, "query_ms": query,
        "total_ms": float(np.median(total)), "mean_ms": float(total.mean()),
        "border_ms": float(np.median([each.border for each in spent])) * 1e3, "ticks": len(spent),
    }  # fmt: skip


def listed(parts: Iterable[object]) -> str:
    """a, b and c."""
    *first, last = map(str, parts)
    return f"{', '.join(first)} and {last}" if first else last


def between(numbers: pd.Series, form: str = "{:.2g}") -> str:
    """The range of some numbers: '3 to 5', or one of them if they look the same."""
    low, high = form.format(numbers.min()), form.format(numbers.max())
    return low if low == high else f"{low} to {high}"
