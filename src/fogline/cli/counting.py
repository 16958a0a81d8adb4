"""How is a census taken, in this process or on Spark? The counts are the same."""

from __future__ import annotations

from typing import Any

from fogline.cli.engine import Where
from fogline.cli.local import read_rows
from fogline.cli.progress import stages
from fogline.cli.terminal import remark
from fogline.flow.census import Census, counted
from fogline.flow.plan import make_plan
from fogline.model import Query
from fogline.repository.repository import Repository


def census(stream: str, query: Query, known: Repository | None, clock: str | None, where: Where, **how: Any) -> Census:
    """Count what is in these files. `how`: lateness and ahead."""
    if where.here:
        with stages("reading the rows") as report:
            rows = read_rows(stream, query)
            plan = make_plan(query, rows.schema, opened=None if known is None else lambda: known, clock=clock, **how)
            total = Census(absent=[name for name in plan.extra if name not in rows.schema.names])
            total.add(counted(plan, rows.to_batches()))
            report("reading the rows", 1, 1)
            return total
    with where.spark() as (spark, report):
        from fogline.spark import census as on_spark
        from fogline.spark import files
        from fogline.spark.progress import followed

        shape = files.shape_of(spark, stream, query, clock=clock, lateness=how["lateness"], remark=remark)
        frame = files.table(spark, stream, shape)
        with followed(spark, "reading the rows", report):
            return on_spark.census(frame, query, known, clock=shape["clock"] or None, **how)
