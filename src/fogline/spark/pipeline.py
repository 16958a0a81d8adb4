"""How does a DataFrame become a DataFrame of changes?

Two stages: partitions are screened in parallel (`screen.py`), then what is left of each group meets its state
(`processor.py`). A stream goes through `transformWithStateInPandas`, a table through `applyInArrow`; the logic is the
same. Spark carries; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from fogline.errors import FoglineError
from fogline.flow.parcel import Parcel, unpacked
from fogline.flow.plan import Plan, make_plan
from fogline.flow.screening import refusals, screened
from fogline.impute.function import ImputeFunction
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.spark.processor import (
    COUNTERS,
    SCORES,
    Keeper,
    Watcher,
    changes_of_journal,
    changes_schema,
    journal_schema,
)
from fogline.spark.remember import remembering
from fogline.spark.session import warn_once
from fogline.spark.share import shared

Opened = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_STAGE = "group string, parcel binary, event timestamp"


def watch(
    df: DataFrame,
    query: Query,
    repository: Repository | None = None,
    *,
    every: str = "tick",
    lateness: Any = 0,
    imputer: ImputeFunction | None = None,
) -> DataFrame:
    """How the skyline changes: time, by…, id, arrived, change, probability, exact, attributes. Of a stream or a table.

    `every`: "tick" tells the answer of every tick, "batch" only the one at the end of each micro-batch.
    `lateness`: how long the clock of a group is held back for rows that are on their way; a number where time is one,
    else a duration such as "30 seconds". What comes later still is late: it enters, at the clock.
    `imputer`: a function that is asked first what a missing value may be, see `fogline.impute.knn`.
    """
    plan = plan_for(df, query, repository, every=every, lateness=lateness, imputer=imputer)
    told = _told(df, plan)
    if not df.isStreaming:
        return _shown(plan, told).where("kind = 'change'").select("change.*")

    def changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in unpacked(batches):
            yield from changes_of_journal(plan, pa.Table.from_batches([batch])).to_batches()

    return told.mapInArrow(changes, from_arrow_schema(changes_schema(plan), True))


def journal(
    df: DataFrame,
    query: Query,
    repository: Repository | None = None,
    *,
    every: str = "tick",
    lateness: Any = 0,
    imputer: ImputeFunction | None = None,
) -> DataFrame:
    """Changes, rejects and health in one pass, for those who write them to several places.

    Columns: `kind` ("change", "reject" or "health"), `by` (the group's columns, if there are any), and the structs
    `change` (as `watch` tells it), `reject` (row as JSON, reason) and `health` (time, and numbers for one group in one
    micro-batch), of which the one that `kind` names is filled.
    """
    plan = plan_for(df, query, repository, every=every, lateness=lateness, imputer=imputer)
    told = _told(df, plan)
    if df.isStreaming:
        told = told.mapInArrow(unpacked, from_arrow_schema(journal_schema(plan), True))
    return _shown(plan, told)


def _told(df: DataFrame, plan: Plan) -> DataFrame:
    """The journal: of a table as rows, of a stream packed."""
    parcels = df.mapInArrow(_screening(plan), _STAGE)
    if plan.remembers:
        parcels = remembering(df, plan).mapInArrow(_screening(plan, unpacked), _STAGE)
    if not df.isStreaming:
        return parcels.groupBy("group").applyInArrow(_at_the_end(plan), from_arrow_schema(journal_schema(plan), True))
    warn_once(df.sparkSession)
    # The projection takes the event time away from the operator that follows: the watermark moves its timers, but there
    # is no column left by which it could drop late rows.
    keyed = parcels.withWatermark("event", "0 seconds").select("group", "parcel").groupBy("group")
    return keyed.transformWithStateInPandas(Watcher(plan), "journal binary", "Update", "EventTime")


def rejects(df: DataFrame, query: Query, repository: Repository | None = None) -> DataFrame:
    """The rows that cannot be taken: `row`, as it came, in JSON, and the `reason`.

    A duplicate is among them if it stands near its original; the others are known only where the group's state is.
    """
    plan = plan_for(df, query, repository)

    def refused(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return refusals(plan, batches)

    return df.mapInArrow(refused, "row string, reason string")


def plan_for(df: DataFrame, query: Query, repository: Repository | None = None, **how: Any) -> Plan:
    """The plan for this DataFrame; errors name what does not fit."""
    if not isinstance(df, DataFrame):
        raise FoglineError(f"watch takes a Spark DataFrame, not {type(df).__name__}; a Monitor takes the others.")
    if repository is not None and not isinstance(repository, Repository):
        raise FoglineError(
            f"repository is {type(repository).__name__}; use Repository.fit(…) or Repository.load(folder)."
        )
    opened = None if repository is None else shared(repository)
    return make_plan(query, to_arrow_schema(df.schema, timezone="UTC"), opened=opened, **how)


def _screening(plan: Plan, opened: Opened = iter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def screening(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return screened(plan, opened(batches))

    return screening


def _at_the_end(plan: Plan) -> Callable[[Any, pa.Table], pa.Table]:
    def at_the_end(key: Any, table: pa.Table) -> pa.Table:
        parcels = [Parcel.from_bytes(each.as_py()) for each in table.column("parcel")]
        return Keeper(plan).take(key[0].as_py(), None, parcels, end=True).journal

    return at_the_end


def _shown(plan: Plan, told: DataFrame) -> DataFrame:
    """The journal under the names of the stream."""
    query = plan.query
    by = [F.col(f"by_{k}").alias(name) for k, name in enumerate(query.by)]
    attributes = [F.col(f"attribute_{j}").alias(name) for j, name in enumerate(query.names)]
    change = ["time", *by, "id", "arrived", "change", "probability", "exact", *attributes]
    structs = {
        "change": F.struct(*change),
        "reject": F.struct("row", "reason"),
        "health": F.struct("time", *COUNTERS, SCORES),
    }
    filled = [F.when(F.col("kind") == kind, struct).alias(kind) for kind, struct in structs.items()]
    return told.select("kind", *([F.struct(*by).alias("by")] if by else []), *filled)
