"""What `check`, `fit`, `refit` and `impute` do, in this process or on Spark, with the same result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from time import time_ns
from typing import Any

import pyarrow as pa

from fogline.cli.engine import Where, as_advice
from fogline.cli.terminal import Report, remark, stages
from fogline.errors import FoglineError
from fogline.files.layout import layout_of
from fogline.files.listing import files_of, is_local
from fogline.files.options import Options
from fogline.files.reading import batches, delta_table, is_table, table
from fogline.files.settled import Layout
from fogline.files.writing import write_folder
from fogline.impute.written import completed, distributions
from fogline.kafka.client import Address, Config
from fogline.kafka.topic import layout_of_topic, newest_rows
from fogline.kernels.compile import is_cold
from fogline.pipeline.decode import with_now
from fogline.pipeline.plan import make_plan
from fogline.query import Query
from fogline.repository.history import in_order, read_history
from fogline.repository.repository import Repository
from fogline.runs.estimate import SAMPLE, SECONDS, estimate
from fogline.runs.profile import Profile, profiled
from fogline.runs.taken import ROWS
from fogline.sinks.places import expanded

READING = "reading the rows"


def profile(
    stream: str,
    query: Query,
    options: Options,
    known: Repository | None,
    clock: str | None,
    where: Where,
    **how: Any,
) -> Profile:
    """Count what is in these files. `how`: lateness and ahead."""
    if where.here:
        with stages(READING) as report:
            return _here(stream, query, options, known, clock, report, **how)
    with where.spark() as (spark, report):
        from fogline.spark import files
        from fogline.spark import pipeline as on_spark
        from fogline.spark.fitting import followed

        layout = files.settle(spark, stream, query, options, clock=clock, lateness=how["lateness"], remark=remark)
        with followed(spark, READING, report):
            return on_spark.profile(files.listed(spark, stream), query, known, layout=layout, **how)


def _here(
    stream: str,
    query: Query,
    options: Options,
    known: Repository | None,
    clock: str | None,
    report: Report,
    **how: Any,
) -> Profile:
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


def profile_of_topic(
    stream: str,
    query: Query,
    options: Options,
    known: Repository | None,
    clock: str | None,
    config: Config,
    **how: Any,
) -> Profile:
    """Count what is in the newest messages of a topic. `how`: lateness and ahead."""
    also = () if known is None else known.determinants
    layout = layout_of_topic(query, options, also=also, clock=clock, lateness=how["lateness"])
    with stages(READING):
        return _counted(newest_rows(Address.of(stream), config, layout), layout, query, known, **how)


def _counted(
    rows: Iterable[pa.RecordBatch], layout: Layout, query: Query, known: Repository | None, **how: Any
) -> Profile:
    how |= {"clock": layout.clock or None, "versions": layout.versions or None}
    plan = make_plan(query, layout.schema, opened=None if known is None else lambda: known, **how)
    total = Profile(absent=[name for name in plan.extra if name not in layout.columns.names])
    first: list[pa.RecordBatch] = []

    def noted() -> Iterator[pa.RecordBatch]:
        held = 0
        for batch in rows:
            if held < SAMPLE:
                first.append(batch)
                held += batch.num_rows
            yield batch

    total.add(profiled(plan, with_now(noted(), plan, time_ns() // 1000)))
    if not is_cold():  # else it would take a minute
        with as_advice():
            total.expected = estimate(plan, first, total=total.rows, batch=ROWS, seconds=SECONDS)
    return total


# --- fit and refit ----------------------------------------------------------------------------------------------------

WRITING = "writing the repository"


def fitted(
    history: str,
    query: Query,
    options: Options,
    output: Path,
    how: dict[str, Any],
    where: Where,
    sql: str | None = None,
) -> Repository:
    """A repository of these files, or of this table, written."""
    if where.here:
        with stages("reading the history") as report:
            rows = delta_table(history) if is_table(history) else table(history, query, options, remark)
            return _written(Repository.fit(rows, query, **how, progress=report), output, report)
    with where.spark() as (spark, report):
        from fogline.spark import files, tables
        from fogline.spark.fitting import fit

        if sql is not None:
            found = tables.answered(spark, expanded(history), sql)
        elif is_table(history):
            found = tables.delta(spark, history)
        else:
            found = files.table(spark, history, query, options, remark)
        return fit(found, query, **how, folder=output, progress=report)


def fitted_again(
    known: Repository, rows: str, query: Query, options: Options, newest: int | None, output: Path, where: Where
) -> Repository:
    """A repository fitted as it was first, from its history and the rows of more files, written."""
    if where.here:
        with stages("reading the rows") as report:
            return _again(known, table(rows, query, options, remark), query, newest, output, report)
    with where.spark() as (spark, report):
        from fogline.spark import files

        report("reading the rows", 0, 0)
        came = files.table(spark, rows, query, options, remark).toArrow()
        return _again(known, came, query, newest, output, report)


def _again(
    known: Repository, rows: pa.Table, query: Query, newest: int | None, output: Path, report: Report
) -> Repository:
    more = read_history(in_order(rows, query), query).like(known.history)
    past = known.history.joined(more).in_order(query, newest)
    return _written(known.refit(past, query, progress=report), output, report)


def _written(made: Repository, output: Path, report: Report) -> Repository:
    report(WRITING, 0, 0)
    made.save(output)
    return made


# --- impute -----------------------------------------------------------------------------------------------------------


def imputed(
    stream: str,
    query: Query,
    options: Options,
    known: Repository,
    output: str,
    where: Where,
    *,
    overwrite: bool,
    fill: bool = False,
) -> None:
    """What each missing value of these files may be, written; or, with `fill`, the rows with each gap filled."""
    if fill and not (where.here and is_local(output)):
        raise FoglineError(
            "--fill completes rows in this process: it needs files and output on this machine, less than 2 GB, and no "
            "--master; or join what impute writes with the rows."
        )
    if where.here and is_local(output):
        with stages("reading the rows") as report:
            rows = table(stream, query, options, remark)
            report("imputing", 0, 0)
            if fill:
                found, left = completed(rows, query, known)
                if left:
                    remark(
                        f"Rows that cannot be used, and stay as they are: {left:,}. `fogline check` names the reasons."
                    )
            else:
                found = distributions(rows, query, known)
            report("writing", 0, 0)
            write_folder(found, output, overwrite=overwrite)
        return
    with where.spark() as (spark, report):
        from fogline.spark import files
        from fogline.spark.fitting import followed
        from fogline.spark.pipeline import impute

        filled = impute(files.table(spark, stream, query, options, remark), query, known)
        with followed(spark, "imputing", report):
            files.write(filled, output, overwrite=overwrite)
