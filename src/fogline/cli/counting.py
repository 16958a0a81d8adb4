"""How is a census taken, in this process or on Spark? The counts are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from fogline.cli.engine import Where
from fogline.cli.progress import Report, stages
from fogline.cli.terminal import remark
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.options import Options
from fogline.files.reading import batches
from fogline.flow.census import Census, counted
from fogline.flow.machine import NOW, asks_now
from fogline.flow.plan import Plan, make_plan
from fogline.model import Query
from fogline.repository.repository import Repository

READING = "reading the rows"


def census(
    stream: str,
    query: Query,
    options: Options,
    known: Repository | None,
    clock: str | None,
    where: Where,
    **how: Any,
) -> Census:
    """Count what is in these files. `how`: lateness and ahead."""
    if where.here:
        with stages(READING) as report:
            return _here(stream, query, options, known, clock, report, **how)
    with where.spark() as (spark, report):
        from fogline.spark import census as on_spark
        from fogline.spark import files
        from fogline.spark.progress import followed

        layout = files.settle(spark, stream, query, options, clock=clock, lateness=how["lateness"], remark=remark)
        with followed(spark, READING, report):
            return on_spark.census(files.listed(spark, stream), query, known, layout=layout, **how)


def _here(
    stream: str,
    query: Query,
    options: Options,
    known: Repository | None,
    clock: str | None,
    report: Report,
    **how: Any,
) -> Census:
    layout = layout_of(stream, query, options, clock=clock, lateness=how["lateness"], remark=remark)
    how |= {"clock": layout.clock or None, "versions": layout.versions or None}
    plan = make_plan(query, layout.schema, opened=None if known is None else lambda: known, **how)
    total, files = Census(absent=[name for name in plan.extra if name not in layout.columns.names]), files_of(stream)

    def rows() -> Iterator[pa.RecordBatch]:
        for k, file in enumerate(files):
            report(READING, k, len(files))
            yield from with_now(batches(str(file), layout), plan)
        report(READING, len(files), len(files))

    total.add(counted(plan, rows()))
    return total


def with_now(rows: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """The rows with the machine's clock, if they are compared with it."""
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC"))
    for batch in rows:
        yield batch.append_column(NOW, pa.repeat(now, batch.num_rows)) if asks_now(plan) else batch
