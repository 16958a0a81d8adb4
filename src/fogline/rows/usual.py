"""Which of Arrow's many types is a column read as?

Arrow lays out the same values in many ways, and not every one of its functions takes every layout. Here those that are
rare become the usual one for the same values, before anything reads them: views of texts, texts and numbers that repeat
(run-end encoded; dictionaries of numbers), values with a name of their own (extension types). Most batches have none of
them, which is known after a look at their types.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import RowsError

_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


@lru_cache(maxsize=256)
def usual_type(kind: pa.DataType) -> pa.DataType:
    """The type that values of this one are read as.

    >>> usual_type(pa.string_view()), usual_type(pa.run_end_encoded(pa.int32(), pa.float64())), usual_type(pa.int8())
    (DataType(large_string), DataType(double), DataType(int8))
    """
    if isinstance(kind, pa.BaseExtensionType):
        return usual_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return usual_type(kind.value_type)
    if pa.types.is_dictionary(kind) and not (pa.types.is_string(kind.value_type) or pa.types.is_null(kind.value_type)):
        return usual_type(kind.value_type)
    return pa.float32() if pa.types.is_float16(kind) else _VIEWS.get(str(kind), kind)


_known: list[pa.Schema] = []  # the last schema that was as usual: batches of a stream share theirs


def usual(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, each column in its usual type."""
    if _known and batch.schema.equals(_known[0]):
        return batch
    came = batch
    for k, field in enumerate(batch.schema):
        if (kind := usual_type(field.type)) != field.type:
            batch = batch.set_column(k, pa.field(field.name, kind), usual_column(batch.column(k)))
    if batch is came:
        _known[:] = [batch.schema]
    return batch


def usual_table(table: pa.Table) -> pa.Table:
    """The table, each column in its usual type."""
    return pa.Table.from_batches([usual(each) for each in table.to_batches()], usual_schema(table.schema, ()))


def usual_schema(schema: pa.Schema, asked: Container[str]) -> pa.Schema:
    """The types of columns as they are read; an error, if one that is asked for cannot be."""
    for field in schema:
        if field.name in asked:
            check_readable(field.name, field.type)
    return pa.schema([pa.field(field.name, usual_type(field.type)) for field in schema])


@lru_cache(maxsize=256)
def check_readable(name: str, kind: pa.DataType) -> None:
    """An error, if no value of this type can be read here."""
    if pa.types.is_union(kind):
        raise RowsError(f"{name!r} has type {kind}, whose values are of several types; a column has one.")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            pa.scalar(0, kind).as_py()
        except Exception:  # of whatever knows the zones here
            raise RowsError(f"{name!r} is in the time zone {kind.tz!r}, which this machine does not know.") from None


def usual_column(column: pa.Array) -> pa.Array:
    """The column in its usual type."""
    kind = usual_type(column.type)
    while column.type != kind:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        elif pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        else:
            column = column.cast(kind)
    return column
