"""Does a cell fit the type that its column had when the stream began?

Columns are cast as a whole; only where that fails, cell by cell. Numbers, truth values and instants become texts that
mean the same; a cell that does not fit is null, and its row is marked.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Flags
from fogline.files.canonical import in_zone
from fogline.query import UNHELD
from fogline.rows.cells import is_text, reals
from fogline.rows.names import is_number

_STAMP, _ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")
_WORDS = {pa.int64(): "whole number", pa.float64(): "number", pa.bool_(): "truth value"}


def word_for(kind: pa.DataType) -> str:
    """What values of a type are called."""
    return "timestamp" if pa.types.is_timestamp(kind) else _WORDS.get(kind, str(kind))


def unfit(own: pa.DataType, kind: pa.DataType) -> str:
    """Why a cell of one type does not fit a column of the other."""
    return UNHELD if is_number(own) and pa.types.is_floating(kind) else f"which is no {word_for(kind)}"


def settled_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column of this type is carried: no dictionaries, instants in microseconds and in UTC."""
    if pa.types.is_dictionary(kind):
        return settled_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return _STAMP if kind.tz is None else _ZONED
    if is_text(kind) or pa.types.is_null(kind):
        return pa.string()
    return kind


def joined_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type for both: whole numbers become numbers, and what does not go together texts."""
    if one == other:
        return one
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    numeric = [pa.types.is_integer(each) or pa.types.is_floating(each) for each in (one, other)]
    if all(numeric):
        return pa.float64()
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return _ZONED
    return pa.string()


def cast(column: pa.Array, kind: pa.DataType, zone: str | None = None) -> tuple[pa.Array, Flags | None]:
    """The column in this type, and (n,) which cells do not fit; None: all do.

    >>> cast(pa.array(["7", "x"]), pa.int64())[0].to_pylist()
    [7, None]
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == kind:
        return column, None
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind), None
    if pa.types.is_floating(kind) and (pa.types.is_decimal(column.type) or pa.types.is_integer(column.type)):
        values, unheld = reals(column)
        return (values if unheld is None else pc.if_else(pa.array(unheld), None, values)).cast(kind, safe=False), unheld
    try:
        return _whole(column, kind, zone), None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _singly(column, kind)


def _whole(column: pa.Array, kind: pa.DataType, zone: str | None) -> pa.Array:
    own = column.type
    if pa.types.is_timestamp(own):
        if pa.types.is_timestamp(kind) and own.tz is None and kind.tz is not None:
            return in_zone(column.cast(_STAMP, safe=False), zone).cast(kind)
        if pa.types.is_timestamp(kind):
            return column.cast(kind, safe=False)  # nanoseconds are cut
        if is_text(kind):
            plain = column.cast(pa.timestamp("us", own.tz), safe=False)
            plain = in_zone(plain, zone) if own.tz is None else plain
            return pc.binary_join_element_wise(plain.cast(_ZONED).cast(_STAMP).cast(kind), "Z", "")
    if is_text(kind) and pa.types.is_nested(own):
        raise pa.ArrowNotImplementedError(str(own))
    if pa.types.is_floating(kind) and pa.types.is_floating(own):
        return column.cast(kind, safe=False)
    return column.cast(kind)


def _singly(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Flags]:
    """Cell by cell, for columns of which some cell does not fit."""
    bad, cells = np.zeros(len(column), np.bool_), []
    for i, cell in enumerate(column):
        value = None
        try:
            given = cell.as_py()
            if given is not None:
                value = as_text(given) if is_text(kind) else pa.scalar(given).cast(kind).as_py()
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            bad[i] = True
        cells.append(value)
    return pa.array(cells, kind), bad


def as_text(value: Any) -> str | None:
    """A JSON value as text, as its file would have it.

    >>> as_text(True), as_text(2.0), as_text({"z": 1}), as_text("a")
    ('true', '2.0', '{"z": 1}', 'a')
    """
    if value is None or isinstance(value, str):
        return value
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)  # as below, but ten times as fast
    return json.dumps(value, default=str, ensure_ascii=False)
