"""How are `fit` and `refit` done, in this process or on Spark? The repository is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from fogline.cli.engine import Where
from fogline.cli.progress import Report, stages
from fogline.cli.terminal import remark
from fogline.files.options import Options
from fogline.files.reading import table
from fogline.files.tables import delta_table, is_table
from fogline.query import Query
from fogline.repository.history import in_order, read_history
from fogline.repository.repository import Repository
from fogline.sinks.places import expanded

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
    return _written(known.again(past, query, progress=report), output, report)


def _written(made: Repository, output: Path, report: Report) -> Repository:
    report(WRITING, 0, 0)
    made.save(output)
    return made
