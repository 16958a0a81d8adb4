"""Which values name rows and groups, and of which type?

Ids and group keys stay the values they came as; a missing one is None. Types are widened to the largest of their
family, so that later values of the stream fit.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import RowsError
from fogline.rows.clock import INTEGER, REAL, Reasons, is_missing


def read_objects(column: Any, name: str, refused: Reasons) -> tuple[list[Any], pa.DataType | None]:
    """Ids or group keys: Python values and their Arrow type (None: nothing but nulls)."""
    if isinstance(column, pa.Array):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        if pa.types.is_nested(column.type):
            raise RowsError(f"{name!r} has type {column.type}; a row is named by a single value.")
        return column.to_pylist(), plain_type(column.type)
    values = [None if is_missing(each) else each.item() if isinstance(each, np.generic) else each for each in column]
    kind = None
    for i, each in enumerate(values):
        if each is not None:
            try:
                kind = join_types(kind, plain_type(pa.scalar(each).type), name)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                refused.setdefault(i, f"{name!r} is {each!r}, which cannot name a row")
                values[i] = None
    return values, kind


def decimal_text(value: Decimal) -> str:
    """A decimal as a text, exactly, however many zeros it came with.

    >>> decimal_text(Decimal("5.00")), decimal_text(Decimal("0.10")), decimal_text(Decimal("100"))
    ('5', '0.1', '100')
    """
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_type(kind: pa.DataType) -> pa.DataType | None:
    """The widest of its family, so that later values fit."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return INTEGER
    if pa.types.is_floating(kind):
        return REAL
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind


def join_types(old: pa.DataType | None, new: pa.DataType | None, name: str) -> pa.DataType | None:
    """The type of ids or group keys that are of both; an error if there is none."""
    if old is None or new is None or old == new:
        return old or new
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return pa.decimal256(76, max(old.scale, new.scale))
    raise RowsError(f"{name!r} holds {old} and {new}; one stream has one kind of value there.")
