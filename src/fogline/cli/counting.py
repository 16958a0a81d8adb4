"""How is a census taken, in this process or on Spark? The counts are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from fogline.cli.engine import Where
from fogline.cli.progress import stages
from fogline.cli.terminal import remark
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.reading import batches
from fogline.flow.census import Census, counted
from fogline.flow.machine import NOW, asks_now
from fogline.flow.plan import Plan, make_plan
from fogline.model import Query
from fogline.repository.repository import Repository


def census(stream: str, query: Query, known: Repository | None, clock: str | None, where: Where, **how: Any) -> Census:
    """Count what is in these files. `how`: lateness and ahead."""
    if where.here:
        with stages("reading the rows") as report:
            layout = layout_of(stream, query, options, clock=clock, lateness=how["lateness"], remark=remark)
            opened = None if known is None else lambda: known
            how |= {"clock": layout.clock or None, "versions": layout.versions or None}
            plan = make_plan(query, layout.schema, opened=opened, **how)
            total, files = Census(absent=[n for n in plan.extra if n not in layout.columns.names]), files_of(stream)
            for k, file in enumerate(files):
                report("reading the rows", k, len(files))
                total.add(counted(plan, with_now(batches(str(file), layout), plan)))
            report("reading the rows", len(files), len(files))
            return total
    with where.spark() as (spark, report):
        from fogline.spark import census as on_spark
        from fogline.spark import files
        from fogline.spark.progress import followed

        shape = files.shape_of(spark, stream, query, clock=clock, lateness=how["lateness"], remark=remark)
        frame = files.table(spark, stream, shape)
        with followed(spark, "reading the rows", report):
            return on_spark.census(frame, query, known, clock=shape["clock"] or None, **how)


def with_now(rows: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """The rows with the machine's clock, if they are compared with it."""
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC"))
    for batch in rows:
        yield batch.append_column(NOW, pa.repeat(now, batch.num_rows)) if asks_now(plan) else batch
