"""Does a DataFrame fit its query and repository? The census of `fogline.flow`, counted by Spark tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from fogline.flow.census import Census, counted
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.spark.pipeline import plan_for, with_now


def census(
    df: DataFrame,
    query: Query,
    repository: Repository | None = None,
    *,
    lateness: Any = 0,
    ahead: Any = "auto",
    clock: str | None = None,
) -> Census:
    """Read everything and count. What cannot be read at all is an error, as it would be for `watch`."""
    plan = plan_for(df, query, repository, lateness=lateness, ahead=ahead, clock=clock)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"found": json.dumps(counted(plan, batches))}])

    total = Census(absent=[name for name in plan.extra if name not in df.columns])
    for row in with_now(df, plan).mapInArrow(count, "found string").collect():
        total.add(json.loads(row["found"]))
    return total
