"""What may each missing value of a DataFrame be, written out? The stage of `fogline.flow`, carried by Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from fogline.flow.cells import Cells, MemoryCells
from fogline.flow.imputing import impute_piece, imputed, imputed_schema
from fogline.flow.plan import Plan
from fogline.flow.plans import Kin
from fogline.flow.sensors import SensorStage
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.saved import table_as_bytes, table_from_bytes
from fogline.spark.pipeline import bucket_of, dealt, plan_for, staged
from fogline.spark.processors import SensorProcessor


def impute(df: DataFrame, query: Query, repository: Repository) -> DataFrame:
    """One row per possible value of each missing cell: by…, id, time, attribute, value, probability, rule."""
    plan = plan_for(df, query, repository, hindsight=False)  # what is known as a row comes
    schema = from_arrow_schema(imputed_schema(plan), True)
    if not plan.remembers:
        return df.mapInArrow(staged(imputed, plan), schema)
    buckets = dealt(df, plan).groupBy("bucket")
    if not df.isStreaming:
        return buckets.applyInArrow(_remembered(plan), schema)
    packed = buckets.transformWithStateInPandas(ImputeProcessor(plan), "part binary", "Update", "None")
    return packed.mapInArrow(_opened, schema)


def _remembered(plan: Plan) -> Callable[[Any, pa.Table], pa.Table]:
    def remembered(key: Any, table: pa.Table) -> pa.Table:
        packets = [each.as_py() for each in table.column("packet")]
        return _imputed(SensorStage(plan), bucket_of(key[0].as_py(), plan), None, packets, MemoryCells())[0]

    return remembered


def _imputed(
    stage: SensorStage, bucket: int, state: bytes | None, packets: list[bytes], cells: Cells
) -> tuple[pa.Table, bytes | None]:
    piece, context, then = stage.impute(bucket, state, packets, cells)
    if piece is None:
        return imputed_schema(stage.plan).empty_table(), then
    return impute_piece(stage.plan, piece, context), then


def _opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column("part"):
            yield from table_from_bytes(part.as_buffer()).to_batches()


class ImputeProcessor(SensorProcessor):
    """Readings of a bucket of sensors have come, and gaps are to be imputed."""

    def _take(
        self, kin: Kin, stage: SensorStage, bucket: int, state: bytes | None, packets: list[bytes]
    ) -> tuple[Any, Any]:
        table, then = _imputed(stage, bucket, state, packets, self.cells)
        return pd.DataFrame({"part": [table_as_bytes(table).tobytes()]}), then
