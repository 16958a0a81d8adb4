"""What would a user of other libraries get?

The same tasks, side by side: the skyline of a complete table, of a complete window at every tick, and of a table with
gaps, which all but Fogline need to have filled first. And the NaN table: what they answer when gaps are left.

Each library is given the table with gaps and nothing else, and everything counts: learning how to fill gaps is part of
the time. There are several tables of each kind, since the skyline of one may be eight rows.

paretoset, moocore and pymoo work out a front from scratch and know neither windows nor gaps. A library that is not
installed is reported as missing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fogline.arrays import Floats, Ints
from fogline.monitor import Monitor
from fogline.query import Query
from fogline.synthetic import TOP, points
from fogline.tables import skyline
from lab.case import ID, KINDS, TIME, mask
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import listed

FOGLINE = "fogline"
LIBRARIES = ("paretoset", "moocore", "pymoo", FOGLINE)
FILLS = ("SimpleImputer", "KNNImputer", "IterativeImputer")
SLOW = ("KNNImputer",)  # once is enough
TASKS = ("static", "window", "gaps")
FIVE = np.array([(1.0, 1.0), (np.nan, 0.0), (2.0, 2.0), (0.0, np.nan), (0.5, 3.0)])
D = 4
REAL = {  # sets whose rows are of no sensor, and what to take from them: the more the better
    "nba_players": ("points", "rebounds", "assists", "steals", "blocks"),
    "production_plant": ("l_1", "l_2", "l_3", "l_4", "l_5"),
}
TABLES = 10  # of each kind, with gaps
Front = Callable[[Floats], Ints]


def front_of(library: str) -> Front:
    """The rows that none beats, all attributes minimised. ImportError: it is not installed."""
    if library == "paretoset":
        paretoset: Any = import_module("paretoset").paretoset
        return lambda rows: np.flatnonzero(paretoset(rows, sense=["min"] * rows.shape[1], distinct=False))
    if library == "moocore":
        nondominated: Any = import_module("moocore").is_nondominated
        return lambda rows: np.flatnonzero(nondominated(rows, keep_weakly=True))
    if library == "pymoo":
        sort: Any = import_module("pymoo.util.nds.non_dominated_sorting").NonDominatedSorting()
        return lambda rows: np.sort(sort.do(rows, only_non_dominated_front=True))
    return lambda rows: np.asarray(skyline(_table(rows), _query(rows.shape[1]))[ID].to_numpy())


def trials(scope: Scope) -> list[Knobs]:
    here = [] if scope.data is None else [name for name in REAL if (Path(scope.data) / f"{name}.parquet").exists()]
    made: list[Knobs] = [{"task": task, "set": kind} for task in TASKS for kind in KINDS]
    return made + [{"task": "gaps", "set": name} for name in here]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    kind = str(knobs["set"])
    n = 2_000 if scope.quick else 20_000
    if knobs["task"] == "gaps":
        few = n // 10 if scope.quick else n // 4
        return [row for k in range(1 if scope.quick else TABLES) for row in _gaps(_tables(kind, few, k, scope.data), k)]
    table = _drawn(kind, n + 200 * 30)
    act = _static if knobs["task"] == "static" else _window
    rows: list[dict[str, Scalar]] = []
    for library in LIBRARIES:
        try:
            ms, size = act(library, table, n)
        except ImportError:
            rows.append({"library": library, "missing": True, "ms": None, "answer": None, "f": None})
            continue
        rows.append({"library": library, "missing": False, "ms": ms, "answer": size, "f": None})
    return rows


def _drawn(kind: str, n: int, seed: int = 0) -> Floats:
    """Rows of one of the synthetic kinds; less is better for these libraries."""
    drawn = points(kind, D, n, np.random.default_rng([60, seed] if seed else [60])).T
    return np.ascontiguousarray(1 - drawn / TOP)


def _tables(name: str, n: int, seed: int, folder: Path | None) -> Floats:
    """Complete rows (n, d) of a kind, or some of a real set; less is better."""
    if name not in REAL:
        return _drawn(name, n, seed)
    table = pq.read_table(Path(folder or ".") / f"{name}.parquet", columns=list(REAL[name]))
    rows = np.stack([np.asarray(column.to_numpy(), np.float64) for column in table.columns], axis=1)
    rows = rows[np.isfinite(rows).all(axis=1)]
    return np.ascontiguousarray(-rows[np.random.default_rng([61, seed]).choice(len(rows), n, replace=False)])


def _static(library: str, points: Floats, n: int) -> tuple[float, int]:
    front, rows = front_of(library), np.ascontiguousarray(points[:n])
    took, found = zip(*(_timed(front, rows) for _ in range(4)), strict=True)
    return float(np.median(took[1:])), len(found[0])


def _window(library: str, points: Floats, n: int, theta: int = 30, ticks: int = 20) -> tuple[float, int]:
    """A window of n rows that moves by `theta` a tick."""
    lifetime = n // theta
    n = lifetime * theta
    if library != FOGLINE:
        front = front_of(library)
        parts = [np.ascontiguousarray(points[k * theta : k * theta + n]) for k in range(ticks + 1)]
        took, found = zip(*(_timed(front, part) for part in parts), strict=True)
        return float(np.median(took[1:])), len(found[-1])
    monitor = Monitor(_query(D, lifetime))
    tables = [_table(points[k : k + theta], k, k // theta) for k in range(0, n + ticks * theta, theta)]
    ticked = [_timed(monitor.advance, k, table)[0] for k, table in enumerate(tables)]
    return float(np.median(ticked[-ticks:])), monitor.answer().num_rows


def _gaps(points: Floats, seed: int = 0) -> list[dict[str, Scalar]]:
    """A table in which three rows of ten lack a value. Of three runs the quickest counts."""
    holes = mask(points, 0.3, 1, seed + 1)
    seen = np.where(holes, np.nan, points)
    true = front_of("moocore")(points)
    rows: list[dict[str, Scalar]] = []
    for name in (*FILLS, FOGLINE):
        _filled(name, seen[:100])  # what is imported or compiled first is not part of the task
        took, answers = zip(*(_timed(_filled, name, seen) for _ in range(1 if name in SLOW else 3)), strict=True)
        ms, found = min(took), answers[0]
        hits = len(np.intersect1d(found, true))
        f = 2 * hits / (len(found) + len(true))
        label = name if name == FOGLINE else f"{name} + moocore"
        rows.append({"library": label, "missing": False, "ms": ms, "answer": len(found), "f": f})
    return rows


def _filled(name: str, seen: Floats) -> Ints:
    if name == FOGLINE:
        return front_of(FOGLINE)(seen)
    import_module("sklearn.experimental.enable_iterative_imputer")
    fill = getattr(import_module("sklearn.impute"), name)()
    return front_of("moocore")(np.ascontiguousarray(fill.fit_transform(seen)))


def _timed(action: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Milliseconds, and what came of it."""
    began = perf_counter()
    out = action(*given)
    return (perf_counter() - began) * 1e3, out


def _query(d: int, lifetime: int = 1) -> Query:
    return Query(attributes={f"a{j}": "min" for j in range(d)}, id=ID, time=TIME, lifetime=lifetime)


def _table(rows: Floats, first: int = 0, tick: int = 0) -> pa.Table:
    cells = {f"a{j}": pa.array(column, mask=np.isnan(column)) for j, column in enumerate(rows.T)}
    return pa.table({ID: np.arange(first, first + len(rows)), TIME: np.full(len(rows), tick), **cells})


def read(frame: pd.DataFrame) -> Reading:
    parts = []
    for task, rows in frame[~frame["missing"]].groupby("task", sort=False):
        mean = rows.groupby("library", sort=False)[["ms", "f"]].mean()
        shown = [
            f"{name} {line['ms']:.3g} ms" + ("" if pd.isna(line["f"]) else f" (F {line['f']:.3f})")
            for name, line in mean.iterrows()
        ]
        parts.append(f"{task}: {', '.join(shown)}")
    ahead = _ahead(frame[frame["task"] == "gaps"]) if "gaps" in set(frame["task"]) else ""
    missing = sorted(set(frame[frame["missing"]]["library"]))
    note = f" Not installed: {listed(missing)}." if missing else ""
    return Reading("beyond the paper", f"Means over the sets. {'; '.join(parts)}.{ahead}{note}")


def _ahead(rows: pd.DataFrame) -> str:
    """Set by set, against the best way to fill gaps."""
    mean = rows.groupby(["set", "library"])[["ms", "f"]].mean()
    rival = f"{FILLS[-1]} + moocore"
    parts = []
    for name in rows["set"].unique():
        own, other = mean.loc[(name, FOGLINE)], mean.loc[(name, rival)]
        parts.append(f"{name} {own['f']:.3f} against {other['f']:.3f}, {own['ms'] / other['ms']:.2g}× the time")
    return f" F against {rival}: {'; '.join(parts)}."


# ----------------------------------------------------------------------------------------------------------- NaN


def nan_trials(scope: Scope) -> list[Knobs]:
    return [{"library": library} for library in LIBRARIES]


def nan_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    """What is answered of each of the five rows: in, out, or with which probability."""
    library = str(knobs["library"])
    try:
        front = front_of(library)
    except ImportError:
        return [_nan_row(k, "", missing=True) for k in range(len(FIVE))]
    if library == FOGLINE:
        query = Query.from_dict(_query(2).to_dict() | {"alpha": 0.01})
        answer = skyline(_table(FIVE), query).to_pylist()
        chance = {row[ID]: float(row["probability"]) for row in answer}
        return [_nan_row(k, f"{chance.get(k, 0.0):.4f}", chance.get(k, 0.0)) for k in range(len(FIVE))]
    try:
        found = set(front(FIVE).tolist())
    except (ValueError, TypeError) as error:
        return [_nan_row(k, f"refused: {error}") for k in range(len(FIVE))]
    return [_nan_row(k, "in" if k in found else "out", float(k in found)) for k in range(len(FIVE))]


def _nan_row(k: int, answer: str, chance: float | None = None, *, missing: bool = False) -> dict[str, Scalar]:
    shown = ", ".join("nan" if np.isnan(value) else f"{value:g}" for value in FIVE[k])
    return {"row": f"({shown})", "answer": answer, "chance": chance, "missing": missing}


def nan_read(frame: pd.DataFrame) -> Reading:
    """(0, nan) has the least first value of all: no known row beats it, whatever is missing."""
    here = frame[~frame["missing"]]
    lost = here[(here["row"] == "(0, nan)") & (here["chance"].fillna(0) < 0.5)]["library"].tolist()
    kept = here[(here["row"] == "(0, nan)") & (here["chance"].fillna(0) >= 0.5)]["library"].tolist()
    rows = here[here["library"] == FOGLINE]
    answers = ", ".join(f"{row['row']} {row['answer']}" for _, row in rows.iterrows())
    text = (
        f"(0, nan) has the least first value, and no complete row beats it whatever is missing; {listed(lost)} "
        f"{'leave' if len(lost) > 1 else 'leaves'} it out without a word"
        if lost
        else "(0, nan), which no complete row beats whatever is missing, is left out by none"
    )
    return Reading(
        "beyond the paper", f"{text}; kept by {listed(kept) if kept else 'none'}. Fogline answers: {answers}."
    )


PEERS = Experiment(
    name="peers", title="Other libraries, side by side", figure="beyond the paper",
    question="What do the usual libraries take for the same tasks?", claim="",
    trials=trials, measure=measure,
    plots=(
        Plot("The skyline of a table", "set", "ms", "library", where={"task": "static"}, kind="bar", y_label="ms"),
        Plot("One tick of a window", "set", "ms", "library", where={"task": "window"}, kind="bar", y_label="ms"),
        Plot("A table with gaps: time", "set", "ms", "library", where={"task": "gaps"}, kind="table", y_label="ms"),
        Plot("A table with gaps: F-score", "set", "f", "library", where={"task": "gaps"}, kind="table"),
    ),
    read=read,
)  # fmt: skip

NAN = Experiment(
    timed=False, name="nan", title="What is answered when a value is missing", figure="beyond the paper",
    question="Which library answers what on five rows with two gaps, both attributes minimised?", claim="",
    trials=nan_trials, measure=nan_measure,
    plots=(Plot("In the answer (1), out (0), or with which probability", "row", "chance", "library", kind="table"),),
    read=nan_read,
)  # fmt: skip
