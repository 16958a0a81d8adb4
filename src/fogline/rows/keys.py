"""Which group, or which sensor, does a row belong to?

Its key is the values of some columns as JSON: the same text for the same values, in any version and process. What can
name nothing (see `ids`) counts as missing here; such rows are refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Ints
from fogline.rows.ids import decimal_text, in_micros, nameable, plain_value, without_nan

Key = str
NO_COLUMNS = "[]"


def keyed(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[list[Key], Ints]:
    """The keys that occur in these columns, and (n,) which of them each row has."""
    if not names:
        return [NO_COLUMNS], np.zeros(batch.num_rows, np.int64)
    code, columns = np.zeros(batch.num_rows, np.int64), []
    for name in names:
        column = coded(_lettered(nameable(batch.column(name), name, {})))
        number = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        code = code * (len(column.dictionary) + 1) + number
        columns.append((number, [*column.dictionary.to_pylist(), None]))
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    keys = [json.dumps([values[number[i]] for number, values in columns]) for i in first]
    return keys, which.reshape(-1)


def key_columns(keys: Sequence[Key], kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns of these groups, in the types they came in."""
    values = zip(*map(json.loads, keys), strict=True)
    return [_column(list(each), kind) for each, kind in zip(values, kinds, strict=True)] if keys else []


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if each is None else bytes.fromhex(each) for each in values]).cast(kind)
    plain = pa.array(values, _letters(kind))
    if pa.types.is_timestamp(kind):
        return plain.cast(pa.timestamp("us")).cast(kind)
    return (plain.cast(pa.time64("us")) if kind == pa.time64("ns") else plain).cast(kind)


def _letters(kind: pa.DataType) -> pa.DataType:
    """The type in which JSON can hold values of this one."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date64(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if plain or pa.types.is_null(kind) else pa.string()


def _lettered(column: pa.Array) -> pa.Array:
    """The column in a type that JSON can hold; no negative zero."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if each is None else each.hex() for each in column.to_pylist()], pa.string())
    if pa.types.is_floating(column.type):
        return pc.add(column, 0.0)
    if pa.types.is_decimal(column.type):
        return pa.array([None if each is None else decimal_text(each) for each in column.to_pylist()], pa.string())
    return column.cast(_letters(column.type))


def grouped(column: pa.Array | list[Any]) -> Ints:
    """(n,) numbers that are equal where the values of a table's column are one key, by the rule for streams.

    What could name no group of a stream, infinities and values of several kinds, are keys of their own here.
    """
    if isinstance(column, list):
        numbers: dict[Any, int] = {}
        keys = [None if (plain := plain_value(each)) is None else (isinstance(plain, bool), plain) for each in column]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    found = coded(in_micros(column))
    return np.asarray(found.indices.fill_null(len(found.dictionary)).to_numpy(zero_copy_only=False), np.int64)


def coded(column: pa.Array) -> Any:
    """Dictionary-encoded; of floats NaN is null, and -0.0 is 0.0."""
    if pa.types.is_floating(column.type):
        column = without_nan(column)
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
