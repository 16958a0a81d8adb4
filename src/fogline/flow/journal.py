"""What is there to report of a group after a call, and in which tables?

Changes of the answer, rejects, and health: counters and sizes of one group in one batch. Each is a table under the
names of the stream, and travels packed, with its kind beside it. The kinds are also the folders of an output.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.flow.names import CHANGES as CHANGES
from fogline.flow.names import HEALTH as HEALTH
from fogline.flow.names import REJECTS as REJECTS
from fogline.flow.names import SCORES
from fogline.flow.plan import Plan
from fogline.flow.rejects import RejectedRow
from fogline.impute.scores import Sums, to_plain
from fogline.model import Query
from fogline.rows.changes import change_schema
from fogline.rows.clock import write_times
from fogline.rows.keys import Key, key_values

COUNTERS = (
    "rows", "rejected", "held", "released", "late", "expired", "outside_limits", "incomplete", "screened", "waiting",
    "live", "answer", "conflicts", "inexact", "undecided", "revised", "unwatched",
)  # fmt: skip
CHANGED = ("stale", "removed", "markers")  # also counted where each id has one current row
CLIPPED = "clipped"  # probability that revised distributions had beyond what was given at first, added up over cells

_REJECTED = {"row": pa.string(), "reason": pa.string(), "file": pa.string(), "line": pa.int64()}  # as `RejectedRow`
Journal = list[tuple[str, pa.Table]]  # kind, table


def _kind_of(counted: tuple[str, ...]) -> pa.StructType:
    return pa.struct([*((name, pa.int64()) for name in counted), (CLIPPED, pa.float64()), (SCORES, pa.string())])


_COUNTED, _CHANGED = _kind_of(COUNTERS), _kind_of((*COUNTERS, *CHANGED))


def changes_schema(plan: Plan) -> pa.Schema:
    """Of the changes that a stream's answer has."""
    return change_schema(plan.query, plan.kinds)


def rejects_schema(plan: Plan) -> pa.Schema:
    """Of the rejects of a call."""
    return pa.schema([*zip(group_columns(plan.query, REJECTS), plan.by, strict=True), *_REJECTED.items()])


def health_schema(plan: Plan) -> pa.Schema:
    """Of the health of a call."""
    head = [*zip(group_columns(plan.query, HEALTH), plan.by, strict=True), ("time", plan.kind)]
    return pa.schema([*head, *(_CHANGED if plan.query.latest else _COUNTED)])


def journal(
    plan: Plan,
    key: Key,
    changes: pa.Table | None,
    rejects: list[RejectedRow],
    health: Mapping[str, float],
    scores: Sums,
    clock: float,
) -> Journal:
    """The tables of one call; those without rows are left out."""
    parts: Journal = [(CHANGES, changes)] if changes is not None and changes.num_rows else []
    if rejects:
        cells = zip(*rejects, strict=True)
        columns = {name: pa.array(each, kind) for (name, kind), each in zip(_REJECTED.items(), cells, strict=True)}
        parts.append((REJECTS, _with_group(plan, key, columns)))
    time = write_times(np.array([clock]), plan.kind) if np.isfinite(clock) else pa.nulls(1, plan.kind)
    scored = json.dumps(to_plain(scores)) if scores else None
    kind = _CHANGED if plan.query.latest else _COUNTED
    row = {**health, CLIPPED: float(health.get(CLIPPED, 0.0)), SCORES: scored}
    columns = pa.array([{field.name: row.get(field.name, 0) for field in kind}], kind).flatten()  # all in one call
    numbers = dict(zip((field.name for field in kind), columns, strict=True))
    parts.append((HEALTH, _with_group(plan, key, {"time": time, **numbers})))
    return parts


def beside(name: str, taken: Container[str]) -> str:
    """The name of a group's column where others have names of their own."""
    return f"{name}_" if name in taken else name


def group_columns(query: Query, kind: str) -> list[str]:
    """What the group's columns are called in a table of this kind."""
    counted = (*COUNTERS, *(CHANGED if query.latest else ()))
    taken = {REJECTS: (*_REJECTED, "batch"), HEALTH: ("batch", "seconds", "time", *counted, CLIPPED, SCORES)}.get(
        kind, ()
    )
    return [beside(name, taken) for name in query.by]


def _with_group(plan: Plan, key: Key, columns: dict[str, Any]) -> pa.Table:
    n = len(next(iter(columns.values())))
    kind = REJECTS if "reason" in columns else HEALTH
    names = group_columns(plan.query, kind)
    group = {name: pa.repeat(value, n) for name, value in zip(names, key_values(key, plan.by), strict=True)}
    return pa.table(group | columns)
