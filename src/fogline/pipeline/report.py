"""What is there to report of groups after a call, and in which tables?

Changes of the answer, rejects, and health: counters and sizes of each group in one batch. Each is a table under the
names of the stream, and travels packed, with its kind beside it. The kinds are also the folders of an output.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Delta, Floats
from fogline.engine.group import Group
from fogline.errors import QueryError
from fogline.impute.scores import Sums, to_plain
from fogline.pipeline.exchange import GroupRows
from fogline.pipeline.explain import GroupView, view_tables
from fogline.pipeline.limits import LARGE, group_text, large_table, text_of_query
from fogline.pipeline.names import (
    CHANGES,
    HEALTH,
    KINDS,
    NEAR,
    NEXT,
    REJECTS,
    SCORES,
    VIEWS,
    WHY,
    near_schema,
    next_schema,
)
from fogline.pipeline.plan import Plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.rejects import RejectedRow
from fogline.queries import QUERY
from fogline.query import Query
from fogline.rows.changes import Tables, change_schema
from fogline.rows.clock import write_times
from fogline.rows.names import KeyText, key_columns

COUNTERS = (
    "rows", "rejected", "held", "released", "late", "expired", "outside_limits", "incomplete", "screened", "waiting",
    "live", "answer", "conflicts", "inexact", "undecided", "revised", "unwatched", "sensors_forgotten",
)  # fmt: skip
CHANGED = ("stale", "removed", "markers")  # also counted where each id has one current row
CLIPPED = "clipped"  # probability that revised distributions had beyond what was given at first, added up over cells

_REJECTED = {"row": pa.string(), "reason": pa.string(), "file": pa.string(), "line": pa.int64()}  # as `RejectedRow`
BatchResult = list[tuple[str, pa.Table]]  # what a call reports: kind, table


def _kind_of(counted: tuple[str, ...]) -> pa.StructType:
    return pa.struct([*((name, pa.int64()) for name in counted), (CLIPPED, pa.float64()), (SCORES, pa.string())])


_COUNTED, _CHANGED = _kind_of(COUNTERS), _kind_of((*COUNTERS, *CHANGED))


def counts(come: Sequence[GroupRows], rejected: int, group: Group, waiting: int) -> dict[str, float]:
    """What health has of a group that these rows have reached."""
    return {
        "rows": sum(each.came for each in come),
        "rejected": rejected,
        "outside_limits": sum(each.outside_limits for each in come),
        "incomplete": sum(each.incomplete for each in come),
        "screened": sum(each.screened for each in come),
        "unwatched": sum(each.unwatched for each in come),
        "sensors_forgotten": sum(each.sensors_forgotten for each in come),
        "waiting": waiting,
        **group.sizes(),
    }


def changes_schema(plan: Plan) -> pa.Schema:
    """Of the changes that a stream's answer has."""
    changes = change_schema(plan.query, plan.kinds)
    return changes.append(pa.field(WHY, pa.string())) if plan.explain else changes


def rejects_schema(plan: Plan) -> pa.Schema:
    """Of the rejects of a call."""
    return pa.schema([*zip(group_columns(plan.query, REJECTS), plan.by, strict=True), *_REJECTED.items()])


def health_schema(plan: Plan) -> pa.Schema:
    """Of the health of a call."""
    head = [*zip(group_columns(plan.query, HEALTH), plan.by, strict=True), ("time", plan.kind)]
    return pa.schema([*head, *(_CHANGED if plan.query.latest else _COUNTED)])


class GroupReport(NamedTuple):
    """What one group has to report of a call."""

    key: KeyText
    deltas: list[Delta]
    rejects: list[RejectedRow]
    health: Mapping[str, float]
    scores: Sums
    clock: float
    view: GroupView | None = None  # what explains it, if that is asked for
    size: int = 0  # bytes that it takes, if that is near what it may take


def batch_result(plan: Plan, tables: Tables, reports: Sequence[GroupReport]) -> BatchResult:
    """The tables of one call, of all its groups in one; those without rows are left out."""
    groups = key_columns([each.key for each in reports], plan.by)
    parts: BatchResult = []
    if any(each.deltas for each in reports):
        by = list(zip(*(column.to_pylist() for column in groups), strict=True)) if groups else [()] * len(reports)
        deltas = [(key, delta) for key, each in zip(by, reports, strict=True) for delta in each.deltas]
        changes = tables.build(deltas, plan.kinds)
        if plan.explain:
            why = [each for report in reports if report.view is not None for each in report.view.why]
            changes = changes.append_column(WHY, pa.array(why, pa.string()))
        parts.append((CHANGES, changes))
    if rejects := [row for each in reports for row in each.rejects]:
        which = np.repeat(np.arange(len(reports)), [len(each.rejects) for each in reports])
        cells = zip(*rejects, strict=True)
        columns = {name: pa.array(each, kind) for (name, kind), each in zip(_REJECTED.items(), cells, strict=True)}
        named = zip(group_columns(plan.query, REJECTS), groups, strict=True)
        parts.append((REJECTS, pa.table({name: column.take(pa.array(which)) for name, column in named} | columns)))
    counted = _CHANGED if plan.query.latest else _COUNTED
    numbers = {f.name: [each.health.get(f.name, 0) for each in reports] for f in counted if f.name != SCORES}
    clocks = np.array([each.clock for each in reports])
    health = health_table(plan, groups, clocks, numbers, [each.scores for each in reports])
    shown = view_tables(plan, clocks.tolist(), [each.view for each in reports], groups) if plan.views else []
    if large := [(k, each.size) for k, each in enumerate(reports) if each.size]:
        by = [(name, column.to_pylist()) for name, column in zip(plan.query.by, groups, strict=True)]
        named_groups = [(group_text({name: values[k] for name, values in by}), size) for k, size in large]
        parts.append((LARGE, large_table(named_groups)))
    return [*parts, (HEALTH, health), *shown]


def health_table(
    plan: Plan, groups: Sequence[pa.Array], clocks: Floats, numbers: Mapping[str, Any], scores: Sequence[Sums]
) -> pa.Table:
    """Health of groups: their columns, their clocks, counters by name (those that are not there are 0), scores."""
    unknown = ~np.isfinite(clocks)
    time = write_times(np.where(unknown, 0.0, clocks), plan.kind, unknown if unknown.any() else None)
    columns = dict(zip(group_columns(plan.query, HEALTH), groups, strict=True)) | {"time": time}
    for field in _CHANGED if plan.query.latest else _COUNTED:
        if field.name == SCORES:
            values: Any = [json.dumps(to_plain(each)) if each else None for each in scores]
        else:
            values = numbers.get(field.name, np.zeros(len(clocks), field.type.to_pandas_dtype()))
        columns[field.name] = pa.array(values, field.type)
    return pa.table(columns)


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


# --- Several queries --------------------------------------------------------------------------------------------------
#
# Which columns have changes, rejects and health of several queries?
#
# Those of all queries, each once, behind the name of the query: what a query does not have is null. So all of them are
# rows of one table, and those of one query, without what is null, are what it would report alone.


def _near(plan: Plan) -> pa.Schema:
    return near_schema(plan.query, plan.kinds)


def _next(plan: Plan) -> pa.Schema:
    return next_schema(plan.query, plan.kinds)


_OF_ONE = {CHANGES: changes_schema, REJECTS: rejects_schema, HEALTH: health_schema, NEAR: _near, NEXT: _next}


def schema_of(plans: Plans, kind: str) -> pa.Schema:
    """The columns of a kind of what is reported."""
    if not plans.have_names:
        return _OF_ONE[kind](plans.first)
    head = ("time",) if kind == CHANGES else ()
    groups = [group_columns(each.query, kind) for _, each in plans.named]
    rest = [_OF_ONE[kind](each) for _, each in plans.named]
    return joined([pa.field(QUERY, pa.string())], rest, head, groups)


def joined(
    first: list[pa.Field], schemas: Iterable[pa.Schema], head: Iterable[str], groups: Iterable[list[str]]
) -> pa.Schema:
    """One schema of all columns: what stands at the head, then all columns of groups, then the rest."""
    schemas, fields = list(schemas), {field.name: field for field in first}
    known = {field.name: field for schema in reversed(schemas) for field in schema}
    order = [*head, *(name for each in groups for name in each), *(field.name for each in schemas for field in each)]
    for name in order:
        fields.setdefault(name, known[name])
    for schema in schemas:
        for field in schema:
            if field.type != fields[field.name].type:
                raise QueryError(
                    f"column {field.name!r} holds {fields[field.name].type} for one query and {field.type} for "
                    "another; run them apart."
                )
    return pa.schema(list(fields.values()))


class Naming:
    """Gives what a query reports the columns of all of them."""

    def __init__(self, plans: Plans) -> None:
        asked = KINDS if not plans.first.views else (*KINDS, *VIEWS)
        self.schemas = {kind: schema_of(plans, kind) for kind in asked}

    def named(self, name: str, result: BatchResult) -> BatchResult:
        """The tables of one call of a query's groups."""
        return [(kind, self._wide(name, kind, table)) for kind, table in result]

    def _wide(self, name: str, kind: str, table: pa.Table) -> pa.Table:
        if kind == LARGE:
            return large_table([(text_of_query(row["group"], name), row["bytes"]) for row in table.to_pylist()])
        schema, n = self.schemas[kind], table.num_rows
        there = dict(zip(table.schema.names, table.columns, strict=True))
        there[QUERY] = pa.repeat(pa.scalar(name), n)
        columns = [there[field.name] if field.name in there else pa.nulls(n, field.type) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)
