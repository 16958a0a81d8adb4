"""Does a DataFrame fit its query and repository? The census of `fogline.flow`, counted by Spark tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from fogline.files.layout import Layout
from fogline.flow.census import Census, counted
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.spark.files import reader
from fogline.spark.pipeline import plan_for, with_now


def census(
    df: DataFrame,
    query: Query,
    repository: Repository | None = None,
    *,
    lateness: Any = 0,
    ahead: Any = "auto",
    clock: str | None = None,
    layout: Layout | None = None,
) -> Census:
    """Read everything and count. What cannot be read at all is an error, as it would be for `watch`.

    `layout`: the DataFrame holds paths of files, which are read like this.
    """
    how: dict[str, Any] = {"lateness": lateness, "ahead": ahead, "clock": clock}
    if layout is not None:
        how |= {"schema": layout.schema, "clock": layout.clock or None, "versions": layout.versions or None}
    plan = plan_for(df, query, repository, **how)
    read = None if layout is None else reader(layout)
    names = df.columns if layout is None else layout.columns.names

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(
            [{"found": json.dumps(counted(plan, batches if read is None else read(batches)))}]
        )

    total = Census(absent=[name for name in plan.extra if name not in names])
    for row in with_now(df, plan).mapInArrow(count, "found string").collect():
        total.add(json.loads(row["found"]))
    return total
