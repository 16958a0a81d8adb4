"""Which columns have changes, rejects and health of several queries?

Those of all queries, each once, behind the name of the query: what a query does not have is null. So all of them are
rows of one table, and those of one query, without what is null, are what it would report alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from fogline.errors import QueryError
from fogline.flow.journal import (
    CHANGES,
    HEALTH,
    REJECTS,
    Journal,
    changes_schema,
    group_columns,
    health_schema,
    rejects_schema,
)
from fogline.flow.limits import LARGE, large_table, of_query
from fogline.flow.names import KINDS, NEAR, NEXT, VIEWS
from fogline.flow.plan import Plan
from fogline.flow.plans import AnyPlan, Plans
from fogline.flow.view_columns import near_schema, next_by, next_schema
from fogline.queries import QUERY


def _near(plan: Plan) -> pa.Schema:
    return near_schema(plan.query, plan.kinds)


def _next(plan: Plan) -> pa.Schema:
    return next_schema(plan.query, plan.kinds)


_OF_ONE = {CHANGES: changes_schema, REJECTS: rejects_schema, HEALTH: health_schema, NEAR: _near, NEXT: _next}


def schema_of(plan: AnyPlan, kind: str) -> pa.Schema:
    """The columns of a kind of what is reported."""
    if isinstance(plan, Plan):
        return _OF_ONE[kind](plan)
    head = ("time",) if kind == CHANGES else ()
    groups = [next_by(each.query) if kind == NEXT else group_columns(each.query, kind) for _, each in plan.named]
    rest = [_OF_ONE[kind](each) for _, each in plan.named]
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

    def __init__(self, plan: Plans) -> None:
        asked = KINDS if not plan.first.views else (*KINDS, *VIEWS)
        self.schemas = {kind: schema_of(plan, kind) for kind in asked}

    def named(self, name: str, journal: Journal) -> Journal:
        """The tables of one call of a query's keeper."""
        return [(kind, self._wide(name, kind, table)) for kind, table in journal]

    def _wide(self, name: str, kind: str, table: pa.Table) -> pa.Table:
        if kind == LARGE:
            return large_table([(of_query(row["group"], name), row["bytes"]) for row in table.to_pylist()])
        schema, n = self.schemas[kind], table.num_rows
        there = dict(zip(table.schema.names, table.columns, strict=True))
        there[QUERY] = pa.repeat(pa.scalar(name), n)
        columns = [there[field.name] if field.name in there else pa.nulls(n, field.type) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)
