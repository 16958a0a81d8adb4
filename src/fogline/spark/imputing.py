"""What may each missing value of a DataFrame be, written out? The stage of `fogline.flow`, carried by Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.flow.imputing import impute_piece, imputed, imputed_schema
from fogline.flow.plan import Plan
from fogline.flow.sensors import SensorStage
from fogline.model import Query
from fogline.packing import table_as_bytes, table_from_bytes
from fogline.repository.repository import Repository
from fogline.spark.pipeline import dealt, plan_for, staged


def impute(df: DataFrame, query: Query, repository: Repository) -> DataFrame:
    """One row per possible value of each missing cell: by…, id, time, attribute, value, probability, rule."""
    plan = plan_for(df, query, repository)
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
        return _imputed(SensorStage(plan), key[0].as_py(), None, packets)[0]

    return remembered


def _imputed(stage: SensorStage, bucket: int, state: bytes | None, packets: list[bytes]) -> tuple[pa.Table, bytes]:
    found = stage.remember(bucket, state, packets)
    if found.piece is None:
        return imputed_schema(stage.plan).empty_table(), found.state
    return impute_piece(stage.plan, found.piece, found.context), found.state


def _opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column("part"):
            yield from table_from_bytes(part.as_buffer()).to_batches()


class ImputeProcessor(StatefulProcessor):
    """Readings of a bucket of sensors have come."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("sensors", "saved binary")

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        packets = [bytes(each) for frame in rows for each in frame["packet"]]
        found = self.state.get()
        table, state = _imputed(
            SensorStage(self.plan), int(key[0]), None if found is None else bytes(found[0]), packets
        )
        self.state.update((state,))
        yield pd.DataFrame({"part": [table_as_bytes(table).tobytes()]})

    def close(self) -> None:
        """Nothing is held."""
