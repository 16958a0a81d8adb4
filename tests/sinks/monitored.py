"""What a run reports to its sinks, made of a Monitor's changes: tests of sinks need no engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import fogline as fl
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import Reported
from fogline.output.sink import RunInfo, Sink
from fogline.rows.changes import member_key

QUERY = fl.Query(attributes={"x": "max", "y": "min"}, id="i", time="t", lifetime=6, by=["g"])
MARK = "the mark of a run"


@dataclass(frozen=True)
class Batch:
    """What is put, and the answer after it."""

    changes: pa.Table
    rejects: pa.Table
    health: pa.Table
    answer: pa.Table


@cache
def _made() -> tuple[Batch, ...]:
    monitor, rng, out = fl.Monitor(QUERY), np.random.default_rng(5), []
    for number in range(8):
        count = 30
        t = number * 4 + np.arange(count) // 8
        rows = pa.table({"i": rng.integers(0, 9, count), "g": rng.choice(["n", "s"], count), "t": t,
                         "x": rng.integers(0, 9, count).astype(float), "y": rng.uniform(0, 1, count)})  # fmt: skip
        changes = monitor.advance(int(t[-1]), rows)
        rejects = pa.table({"g": ["n"], "row": ["{}"], "reason": ["garbage"], "batch": [number]})
        health = pa.table({"batch": [number], "seconds": [0.1], "g": ["n"], "rows": [count]})
        out.append(Batch(changes, rejects, health, monitor.answer()))
    return tuple(out)


def batches() -> list[Batch]:
    return list(_made())


def info(made: list[Batch], mark: str = MARK, last: int | None = None, remark: Any = print) -> RunInfo:
    first = made[0]
    schemas = {"changes": first.changes.schema, "rejects": first.rejects.schema, "health": first.health.schema}
    return RunInfo(mark, QUERY, schemas, tuple(member_key(QUERY)), last, remark)


def begin(sink: Any, made: list[Batch], **how: Any) -> None:
    sink.begin(info(made, **how))


def put(sink: Sink, number: int, batch: Batch) -> None:
    """In more than one record batch, as large batches come."""
    here = LocalFolder(".")
    changes = pa.concat_tables([batch.changes.slice(0, 7), batch.changes.slice(7)])
    kinds = {"changes": changes, "rejects": batch.rejects, "health": batch.health}
    sink.put(number, *(Reported(here, kind, number, table, []) for kind, table in kinds.items()))


def rows_of(found: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    """Rows that can be compared, in an order of their own."""
    return sorted((tuple(row.values()) for row in found.select(names).to_pylist()), key=repr)
