"""How is a census taken, in this process or on Spark? The counts are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from fogline.cli.engine import Where
from fogline.cli.expecting import as_advice
from fogline.cli.progress import Report, stages
from fogline.cli.terminal import remark
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.options import Options
from fogline.files.reading import batches
from fogline.files.settled import Layout
from fogline.flow.census import Census, counted
from fogline.flow.embedded_files import ROWS
from fogline.flow.estimate import SAMPLE, estimate
from fogline.flow.machine import NOW, asks_now
from fogline.flow.plan import Plan, make_plan
from fogline.flow.starting import SECONDS
from fogline.kafka.address import Address
from fogline.kafka.config import Config
from fogline.kafka.layout import layout_of_topic
from fogline.kafka.sample import newest_rows
from fogline.kernels.compile import is_cold
from fogline.query import Query
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
    layout, files = (
        layout_of(stream, query, options, clock=clock, lateness=how["lateness"], remark=remark),
        files_of(stream),
    )

    def rows() -> Iterator[pa.RecordBatch]:
        for k, file in enumerate(files):
            report(READING, k, len(files))
            yield from batches(str(file), layout)
        report(READING, len(files), len(files))

    return _counted(rows(), layout, query, known, **how)


def census_of_topic(
    stream: str,
    query: Query,
    options: Options,
    known: Repository | None,
    clock: str | None,
    config: Config,
    **how: Any,
) -> Census:
    """Count what is in the newest messages of a topic. `how`: lateness and ahead."""
    also = () if known is None else known.determinants
    layout = layout_of_topic(query, options, also=also, clock=clock, lateness=how["lateness"])
    with stages(READING):
        return _counted(newest_rows(Address.of(stream), config, layout), layout, query, known, **how)


def _counted(
    rows: Iterable[pa.RecordBatch], layout: Layout, query: Query, known: Repository | None, **how: Any
) -> Census:
    how |= {"clock": layout.clock or None, "versions": layout.versions or None}
    plan = make_plan(query, layout.schema, opened=None if known is None else lambda: known, **how)
    total = Census(absent=[name for name in plan.extra if name not in layout.columns.names])
    first: list[pa.RecordBatch] = []

    def noted() -> Iterator[pa.RecordBatch]:
        held = 0
        for batch in rows:
            if held < SAMPLE:
                first.append(batch)
                held += batch.num_rows
            yield batch

    total.add(counted(plan, with_now(noted(), plan)))
    if not is_cold():  # else it would take a minute
        with as_advice():
            total.expected = estimate(plan, first, total=total.rows, batch=ROWS, seconds=SECONDS)
    return total


def with_now(rows: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """The rows with the machine's clock, if they are compared with it."""
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC"))
    for batch in rows:
        yield batch.append_column(NOW, pa.repeat(now, batch.num_rows)) if asks_now(plan) else batch
