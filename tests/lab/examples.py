"""Every imputer of the lab, fitted, with rows to look at: for contracts that hold for all imputers.

One history with sensors and times and one without; the rows come after it, some complete, some with one gap, some with
none of their attributes known.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import fogline as fl
from fogline.impute.protocol import Evidence
from lab.case import AT, ID, SENSOR, TIME, Case, Settings, build
from lab.imputers import IMPUTERS, fitted
from lab.imputers.fittable import FittableImputer, evidence_of

SENSORS, READINGS = 5, 160
DIRECTIONS = {"a": "max", "b": "min", "c": "max"}
SETTINGS = Settings(window=20, theta=10, history=(READINGS - 40) * SENSORS, ticks=18, xi=0.5)


def examples() -> Iterator[tuple[str, FittableImputer, fl.Query, Evidence]]:
    """A name, the imputer, the query it was fitted for, and rows it has not looked at yet."""
    for kind in ("sensors", "values only"):
        case = cases(kind == "sensors")
        for name in IMPUTERS:
            yield f"{name}, {kind}", fitted(name, case)[0], case.query, evidence_of(case.rows, case.query.names)


@cache
def cases(named: bool) -> Case:
    """Slow waves that differ from sensor to sensor; three attributes that know of each other."""
    rng = np.random.default_rng(5)
    at, sensor = np.repeat(np.arange(READINGS), SENSORS), np.tile(np.arange(SENSORS), READINGS)
    wave = np.sin(at / 20 + sensor)
    noise = rng.normal(0, 0.05, (3, len(at)))
    values = np.round(np.column_stack((5 + 3 * wave, 5 - 3 * wave, 2 + sensor / 2)) + noise.T, 2)
    past, rows = slice(0, SETTINGS.history), slice(SETTINGS.history, None)
    extra = {SENSOR: pa.array([f"s{k}" for k in sensor]), AT: pa.array(at * 60.0)} if named else {}
    columns = {name: values[past, j] for j, name in enumerate(DIRECTIONS)}
    history = pa.table({name: column[past] for name, column in extra.items()} | columns)
    kept = {name: column[rows] for name, column in extra.items()}
    case = build("waves", SETTINGS, DIRECTIONS, history, values[rows], kept)
    return _with_unknown_rows(case)


def _with_unknown_rows(case: Case) -> Case:
    """The same, with every 20th row lacking all attributes."""
    empty: NDArray[np.bool_] = np.arange(len(case.truth)) % 20 == 7
    cells = {name: pa.array(case.truth[:, j], mask=case.gaps[:, j] | empty) for j, name in enumerate(case.query.names)}
    kept = [name for name in case.rows.schema.names if name in (ID, TIME, SENSOR, AT)]
    rows = pa.table({name: case.rows.column(name) for name in kept} | cells)
    return Case(case.name, case.settings, case.query, case.history, case.rules, rows, case.truth)
