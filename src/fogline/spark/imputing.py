"""What may each missing value of a DataFrame be, written out?

Rows do not know each other here: every task maps the repository into memory and writes out the rows it gets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from fogline.flow.parcel import unpacked
from fogline.flow.plan import make_plan
from fogline.impute.table import Spreader
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.spark.remember import remembering
from fogline.spark.share import shared


def impute(df: DataFrame, query: Query, repository: Repository) -> DataFrame:
    """One row per possible value of each missing cell: by…, id, time, attribute, value, probability, rule."""
    empty = df.limit(0).toArrow()
    schema = Spreader(query, repository).spread(empty).schema  # what does not fit is said here, before any work
    for name, original in (("id", query.id), *((name, name) for name in query.by)):
        schema = schema.set(schema.get_field_index(name), pa.field(name, empty.schema.field(original).type))
    opened = shared(repository)

    def spread(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spreader = Spreader(query, opened(), remember=False)
        for batch in unpacked(batches) if plan.remembers else batches:
            yield from spreader.spread(batch).cast(schema).to_batches()

    plan = make_plan(query, empty.schema, opened=opened)
    rows = remembering(df, plan) if plan.remembers else df
    return rows.mapInArrow(spread, from_arrow_schema(schema))
