"""How does a DataFrame become a DataFrame of changes?

Partitions are decoded and screened in parallel, then what is left of each group meets its state; where sensors are
remembered, rows go to the bucket of their sensor in between (but with lateness, when contexts wait until rows are due).
A stream goes through `transformWithStateInPandas`, a table through `applyInArrow`; the stages are those of
`fogline.pipeline`. Spark carries; it decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import CharType, StringType, VarcharType

from fogline.errors import FoglineError, QueryError
from fogline.files.layout import Layout
from fogline.impute.own import ImputeFunction
from fogline.impute.protocol import Imputer
from fogline.pipeline import stages
from fogline.pipeline.decode import NOW, asks_now, impute_piece, imputed, imputed_schema
from fogline.pipeline.exchange import BucketRows
from fogline.pipeline.names import CHANGES
from fogline.pipeline.plan import BUCKETS
from fogline.pipeline.plans import Plans, plans_of
from fogline.pipeline.report import schema_of
from fogline.pipeline.runner import Runners
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.shard import once
from fogline.queries import Asked, asked_of
from fogline.query import Query
from fogline.repository.repository import Repository, must_be_repository
from fogline.runs.profile import Profile, profiled
from fogline.runs.spill import Carrier, Spill
from fogline.saved import table_as_bytes, table_from_bytes
from fogline.spark.files import Read, reader
from fogline.spark.partitions import PARTITIONS, bucket_labels
from fogline.spark.processors import (
    SensorProcessor,
    ShardProcessor,
    bucket_rows,
    group_rows,
    packed_bucket,
    packed_groups,
)
from fogline.spark.session import must_keep_streams, warn_once
from fogline.spark.share import shared
from fogline.state.store import MemoryStore, StateStore

_GROUPS = "shard int, rows binary, event timestamp"
_BUCKETS = "bucket int, rows binary"
_RESULT = "kind string, part binary"

P = TypeVar("P")  # a plan, or plans
Stage = Callable[[P, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def watch(
    df: DataFrame,
    query: Query | Mapping[str, Query],
    repository: Repository | None = None,
    *,
    every: str = "tick",
    lateness: Any = 0,
    imputer: Imputer | ImputeFunction | None = None,
    ahead: Any = "auto",
    idle: Any = None,
    buckets: int | None = None,
    clock: str | None = None,
    hindsight: bool | None = None,
    explain: bool = False,
) -> DataFrame:
    """How the skyline changes: a stream or a table of changes, with the columns of `Monitor.advance`.

    `df`: a stream or a table. `query` may be several by their names, {"fire": …, "gas": …}: rows are read once for all,
    and each change has the name of its query in a first column, `query`. They agree on `id` and `time`; a query reports
    what it would report alone, and columns that only others have are null.

    `every`: "tick" reports the answer of every tick, "batch" only the one at the end of each micro-batch.
    `lateness`: how long the clock of a group is held back for rows that are on their way; a number where time is one,
    else a duration such as "30 seconds". What comes later still is late: it enters, at the clock.
    `imputer`: is asked first what a missing value may be: an `Imputer`, or a function, see `fogline.impute`.
    `ahead`: a row whose time runs ahead of its group by more than this is held until other ids follow, so that one
    wrong clock does not end the answer; a length of time, "off", or "auto": ten lifetimes, else a day for timestamps.
    `idle`: how far the clock of a silent group stays behind that of the query, so that its rows expire; a length of
    time. Without it a group's clock is moved by its own rows alone, and groups that lag lose nothing.
    `buckets`: into how many the sensors are dealt that a repository remembers, and on how many shards groups lie: so
    many tasks can work at once; by default as many as there are shuffle partitions, or a multiple of that which is
    eight or more. A checkpoint keeps the number it was begun with, as it keeps the number of partitions.
    `clock`: "number" or "timestamp", where times are texts and neither lifetime nor lateness shows what they mean.
    `hindsight`: revise what a missing value may be when its sensor has spoken again; by default where the repository
    has learnt it.
    `explain`: changes have one more column, `why`: JSON that explains the row at the end of its micro-batch, beside the
    last change of each row that is in then.
    """
    clocks = {"lateness": lateness, "ahead": ahead, "idle": idle, "clock": clock}
    how = {"every": every, "imputer": imputer, "buckets": buckets, "hindsight": hindsight, "explain": explain, **clocks}
    plans = plans_for(df, query, repository, **how)
    must_hold_numbers(df, asked_of(query))

    def changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in stages.opened(batches, CHANGES):
            yield from table.to_batches()

    return results(df, plans).mapInArrow(changes, from_arrow_schema(schema_of(plans, CHANGES), True))


def must_hold_numbers(df: DataFrame, asked: Asked) -> None:
    """An error, where an attribute is a column of texts: of a DataFrame they are cast first."""
    for name in asked.names:
        if name in df.columns and isinstance(kind := df.schema[name].dataType, StringType | CharType | VarcharType):
            raise QueryError(
                f"the attribute {name!r} is a column of type {kind.simpleString()}, and attributes are numbers; give "
                f"df.withColumn({name!r}, df[{name!r}].try_cast('double')): what is no number is then a missing value. "
                "(Make points of decimal commas first.)"
            )


def results(df: DataFrame, plans: Plans, spill: Spill | None = None, read: Read | None = None) -> DataFrame:
    """Changes, rejects and health in one pass, packed: `kind`, and `part`, a table that `pipeline.stages.opened` opens.

    `read` makes rows of what the DataFrame holds, such as paths of files; None: it holds rows.

    Of a stream: what is too much to be carried goes where `spill` points, see `runs.spill`.
    """
    if not df.isStreaming:
        return _pruned(df, plans, read).groupBy("shard").applyInArrow(_at_the_end(plans), _RESULT)
    must_keep_streams(df.sparkSession)
    warn_once(df.sparkSession)
    # The projection takes the event time away from the operator that follows: the watermark moves its timers, but there
    # is no column left by which it could drop late rows.
    keyed = _pruned(df, plans, read).withWatermark("event", "0 seconds").drop("event").groupBy("shard")
    return keyed.transformWithStateInPandas(ShardProcessor(plans, spill), _RESULT, "Update", "EventTime")


def _pruned(df: DataFrame, plans: Plans, read: Read | None) -> DataFrame:
    """What can matter of the rows: one value for each chunk and shard."""
    if not plans.deals:
        return with_now(df, plans).mapInArrow(staged(_pruned_here, plans, read), _GROUPS)
    buckets = dealt(df, plans, read).groupBy("bucket")
    if not df.isStreaming:
        return buckets.applyInArrow(_remembered(plans), _GROUPS)
    return buckets.transformWithStateInPandas(SensorProcessor(plans), _GROUPS, "Update", "None")


def _pruned_here(plans: Plans, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for chunk in stages.pruned(plans, batches):
        yield packed_groups(plans, chunk)


def dealt(df: DataFrame, plans: Plans, read: Read | None = None) -> DataFrame:
    """Decoded rows for the buckets of their sensors: one value for each chunk and bucket."""

    def in_buckets(plans: Plans, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for bucket, rows in stages.dealt(plans, batches):
            yield packed_bucket(plans, bucket, rows)

    return with_now(df, plans).mapInArrow(staged(in_buckets, plans, read), _BUCKETS)


def bucket_of(key: Any, plans: Plans) -> int:
    """Which bucket a key of `dealt` is."""
    return bucket_labels(plans.all_buckets).index(int(key))


def with_now(df: DataFrame, plans: Plans) -> DataFrame:
    """The rows with the machine's clock, if they are compared with it: one instant for a micro-batch, kept with it."""
    return df.withColumn(NOW, current_timestamp()) if asks_now(plans) else df


def rejects(df: DataFrame, query: Query, repository: Repository | None = None) -> DataFrame:
    """The rows that cannot be taken: `row`, as it came, in JSON, and the `reason`.

    A duplicate is among them if it stands near its original; the others are known only where the group's state is.
    """
    if not isinstance(query, Query):
        raise FoglineError("rejects looks at rows for one query; of several, `run` and `fogline run` report them all.")
    plans = plans_for(df, query, repository)
    return with_now(df, plans).mapInArrow(staged(stages.refused, plans.first), "row string, reason string")


def plans_for(
    df: DataFrame,
    query: Asked | Mapping[str, Query],
    repository: Repository | None = None,
    *,
    buckets: int | None = None,
    schema: pa.Schema | None = None,
    formers: Sequence[Repository | None] = (),
    **how: Any,
) -> Plans:
    """The plans for this DataFrame, or for rows of this schema; errors name what does not fit."""
    if not isinstance(df, DataFrame):
        raise FoglineError(f"watch takes a Spark DataFrame, not {type(df).__name__}; for other tables use fl.Monitor.")
    must_be_repository(repository)
    opened = None if repository is None else shared(repository, df.sparkSession)
    number = buckets_for(df.sparkSession) if buckets is None else buckets
    columns = to_arrow_schema(df.schema, timezone="UTC") if schema is None else schema
    before = [None if each is None else shared(each, df.sparkSession) for each in formers]
    return plans_of(asked_of(query), columns, opened=opened, buckets=number, formers=before, **how)


def buckets_for(spark: SparkSession) -> int:
    """How many buckets of sensors keep this session's tasks busy: a multiple of its partitions, eight or more."""
    partitions = max(1, int(spark.conf.get(PARTITIONS) or 0))
    return partitions * -(-BUCKETS // partitions)


def staged(
    stage: Stage[P], plan: P, read: Read | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A stage of `fogline.pipeline` as a function of the batches alone; `read` stands before it."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return stage(plan, batches if read is None else read(batches))

    return run


def _remembered(plans: Plans) -> Callable[[Any, pa.Table], pa.Table]:
    def remembered(key: Any, table: pa.Table) -> pa.Table:
        number, bucket = plans.of_bucket(bucket_of(key[0].as_py(), plans))
        come = bucket_rows(plans, number, table.column("rows").to_pylist())
        groups = SensorStage(plans.shared[number].plan).take(bucket, come, MemoryStore())
        return pa.Table.from_batches([packed_groups(plans, stages.Pruned(plans.shared[number], groups))])

    return remembered


def _at_the_end(plans: Plans) -> Callable[[Any, pa.Table], pa.Table]:
    def at_the_end(key: Any, table: pa.Table) -> pa.Table:
        schema, frames = pa.schema([("kind", pa.string()), ("part", pa.binary())]), list[dict[str, list[object]]]()
        runners, shard = Runners(plans), bucket_labels(plans.shards).index(int(key[0].as_py()))
        come = group_rows(plans, shard, table.column("rows").to_pylist())
        for report in once(runners.of_shard(shard), come):
            frames += Carrier(None).carry(runners.named(shard, report))
        return pa.Table.from_batches([pa.record_batch(each, schema=schema) for each in frames], schema)

    return at_the_end


# --- Imputing ---------------------------------------------------------------------------------------------------------
#
# What may each missing value of a DataFrame be, written out? The stage of `fogline.pipeline`, carried by Spark tasks.


def impute(df: DataFrame, query: Query, repository: Repository) -> DataFrame:
    """One row per possible value of each missing cell: by…, id, time, attribute, value, probability, rule."""
    plans = plans_for(df, query, repository, hindsight=False)  # what is known as a row comes
    plan = plans.first
    schema = from_arrow_schema(imputed_schema(plan), True)
    if not plan.remembers:
        return df.mapInArrow(staged(imputed, plan), schema)
    buckets = dealt(df, plans).groupBy("bucket")
    if not df.isStreaming:
        return buckets.applyInArrow(_remembered_by_sensor(plans), schema)
    must_keep_streams(df.sparkSession)
    packed = buckets.transformWithStateInPandas(ImputeProcessor(plans), "part binary", "Update", "None")
    return packed.mapInArrow(_opened, schema)


def _remembered_by_sensor(plans: Plans) -> Callable[[Any, pa.Table], pa.Table]:
    def remembered(key: Any, table: pa.Table) -> pa.Table:
        come = bucket_rows(plans, 0, table.column("rows").to_pylist())
        return _imputed(SensorStage(plans.first), bucket_of(key[0].as_py(), plans), come, MemoryStore())

    return remembered


def _imputed(stage: SensorStage, bucket: int, come: list[BucketRows], store: StateStore) -> pa.Table:
    rows, context = stage.impute(bucket, come, store)
    return imputed_schema(stage.plan).empty_table() if rows is None else impute_piece(stage.plan, rows, context)


def _opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column("part"):
            yield from table_from_bytes(part.as_buffer()).to_batches()


class ImputeProcessor(SensorProcessor):
    """Readings of a bucket of sensors have come, and gaps are to be imputed."""

    def _take(self, stage: SensorStage, number: int, bucket: int, come: list[BucketRows]) -> Any:
        return pd.DataFrame({"part": [table_as_bytes(_imputed(stage, bucket, come, self.store)).tobytes()]})


# --- Profile ----------------------------------------------------------------------------------------------------------
#
# Does a DataFrame fit its query and repository? The profile of `fogline.pipeline`, profiled by Spark tasks.


def profile(
    df: DataFrame,
    query: Query,
    repository: Repository | None = None,
    *,
    lateness: Any = 0,
    ahead: Any = "auto",
    clock: str | None = None,
    layout: Layout | None = None,
) -> Profile:
    """Read everything and count. What cannot be read at all is an error, as it would be for `watch`.

    `layout`: the DataFrame holds paths of files, which are read like this.
    """
    how: dict[str, Any] = {"lateness": lateness, "ahead": ahead, "clock": clock}
    if layout is not None:
        how |= {"schema": layout.schema, "clock": layout.clock or None, "versions": layout.versions or None}
    plans = plans_for(df, query, repository, **how)
    plan = plans.first
    read = None if layout is None else reader(layout)
    names = df.columns if layout is None else layout.columns.names

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(
            [{"found": json.dumps(profiled(plan, batches if read is None else read(batches)))}]
        )

    total = Profile(absent=[name for name in plan.extra if name not in names])
    for row in with_now(df, plans).mapInArrow(count, "found string").collect():
        total.add(json.loads(row["found"]))
    return total
