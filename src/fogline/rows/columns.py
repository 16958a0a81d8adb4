"""What does one column hold, whatever it came in?

A column is an Arrow array or a list of Python values. Attributes become Arrow arrays of doubles or of (value, weight)
lists, times and ids plain values; cells that cannot be read get a reason each and disturb nobody else.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats
from fogline.errors import RowsError
from fogline.kernels.clouds import all_within
from fogline.rows.text import read_numbers

Reasons = dict[int, str]  # row -> why it is refused
INTEGER, REAL = pa.int64(), pa.float64()
EXACT = 2.0**53  # integers up to here are exact as float64
PAIRS = pa.list_(pa.struct([("value", REAL), ("weight", REAL)]))


def read_cells(column: Any, name: str, refused: Reasons) -> pa.Array:
    """An attribute's column as doubles, or as lists of (value, weight) when any cell is a distribution."""
    if not isinstance(column, pa.Array):
        return _python_cells(column, name, refused)
    kind = column.type
    if kind in (REAL, PAIRS):
        return column
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _pairs_of(column, name)
    if pa.types.is_dictionary(kind):
        return read_cells(column.dictionary_decode(), name, refused)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values, bad = read_numbers(column)
        for i in np.flatnonzero(bad).tolist():
            refused.setdefault(i, f"{name!r} is {column[i].as_py()!r}, which is not a number")
        return pa.array(values)
    return _reals(column, name)


def _reals(column: pa.Array, name: str) -> pa.Array:
    try:
        return column.cast(REAL, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise RowsError(f"attribute {name!r} has type {column.type}, which holds no numbers.") from None


def _pairs_of(column: pa.Array, name: str) -> pa.Array:
    """Lists whose pairs are not written as we write them: other names first, other number types, large lists."""
    inner = column.type.value_type
    if not pa.types.is_struct(inner) or min(inner.get_field_index("value"), inner.get_field_index("weight")) < 0:
        raise RowsError(
            f"attribute {name!r} has type {column.type}; a distribution is list<struct<value: double, weight: double>>."
        )
    there = column.is_valid()
    offsets = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0)).cast(pa.int32())
    flat = dict(zip((each.name for each in inner), column.flatten().flatten(), strict=True))
    fields = [_reals(flat["value"], name), _reals(flat["weight"], name)]
    pairs = pa.StructArray.from_arrays(fields, fields=list(PAIRS.value_type))
    ends = pa.concat_arrays([pa.array([0], pa.int32()), offsets])
    return pa.ListArray.from_arrays(ends, pairs, mask=pc.invert(there))


def _python_cells(cells: Iterable[Any], name: str, refused: Reasons) -> pa.Array:
    """Python values: numbers, None, NaN, text that reads as a number, or lists of (value, weight) pairs."""
    cells = list(cells)
    if not any(_is_list(cell) for cell in cells):
        return pa.array([_number(cell, i, name, refused) for i, cell in enumerate(cells)], REAL)
    lists = [[{"value": v, "weight": w} for v, w in _pairs(cell, i, name, refused)] for i, cell in enumerate(cells)]
    return pa.array(lists, PAIRS)


def _is_list(cell: object) -> bool:
    if isinstance(cell, np.ndarray):
        return cell.ndim > 0
    return isinstance(cell, Sequence) and not isinstance(cell, str | bytes)


def _is_missing(cell: object) -> bool:
    """None, NaN, or one of pandas' ways to say so."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or str(cell) in ("<NA>", "NaT")


def _number(cell: Any, i: int, name: str, refused: Reasons) -> float:
    if cell is None:
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        if (isinstance(cell, str) and not cell.strip()) or _is_missing(cell):
            return math.nan
        refused.setdefault(i, f"{name!r} is {cell!r}, which is not a number")
        return math.nan


def _pairs(cell: Any, i: int, name: str, refused: Reasons) -> list[tuple[float, float]]:
    if not _is_list(cell):
        value = _number(cell, i, name, refused)
        return [] if math.isnan(value) else [(value, 1.0)]
    out = []
    for pair in cell:
        try:
            value, weight = (pair["value"], pair["weight"]) if isinstance(pair, dict) else pair
            out.append((float(value), float(weight)))
        except (TypeError, ValueError, KeyError, OverflowError):
            refused.setdefault(i, f"{name!r} holds {pair!r}, which is not a (value, weight) pair")
            return []
    return out


@dataclass(frozen=True, slots=True)
class Times:
    """Instants as float64: plain numbers, or microseconds since 1970 when `kind` is a timestamp (exact to 2^53)."""

    value: Floats  # (n,) NaN = missing
    kind: pa.DataType | None  # int64, float64 or timestamp('us', zone); None: nothing but nulls
    refused: Reasons


def read_times(column: Any, name: str) -> Times:
    """A column of instants."""
    if isinstance(column, pa.Array):
        kind = column.type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            when = column.to_numpy(zero_copy_only=False).astype("datetime64[us]")
            micros = np.where(np.isnat(when), np.nan, when.astype(np.int64).astype(np.float64))
            return Times(micros, pa.timestamp("us", getattr(kind, "tz", None)), {})
        if pa.types.is_integer(kind):
            return _plain_times(column.to_numpy(zero_copy_only=False).astype(np.float64), INTEGER, name)
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            column = column if pa.types.is_floating(kind) else column.cast(REAL)
            return _plain_times(np.array(column.to_numpy(zero_copy_only=False), np.float64), REAL, name)
        column = column.to_pylist()
    return _python_times(list(column), name)


def _plain_times(value: Floats, kind: pa.DataType, name: str) -> Times:
    """Numbers as times; beyond 2^53 neighbouring ones could no longer be told apart."""
    refused: Reasons = {}
    if not all_within(value, EXACT) and (large := np.abs(value) > EXACT).any():
        reason = f"{name!r} is beyond 2^53 and would be rounded; use timestamps or a coarser unit"
        refused = dict.fromkeys(np.flatnonzero(large & np.isfinite(value)).tolist(), reason)
    return Times(value, kind, refused)


def _python_times(cells: list[Any], name: str) -> Times:
    refused: Reasons = {}
    value = np.full(len(cells), np.nan)
    kinds: set[pa.DataType] = set()
    for i, cell in enumerate(cells):
        try:
            read = instant(cell)
        except (ValueError, OverflowError):
            refused[i] = f"{name!r} is {cell!r}, which is neither a number nor a timestamp"
            continue
        if read is not None:
            value[i] = read[0]
            kinds.add(read[1])
    times = _plain_times(value, _one_kind(kinds, name), name)
    return Times(value, times.kind, refused | times.refused)


def instant(cell: Any) -> tuple[float, pa.DataType] | None:
    """A Python value as an instant and its kind; None when it is missing; ValueError when it is neither."""
    if type(cell) is int:
        return float(cell), INTEGER
    if _is_missing(cell):
        return None
    if isinstance(cell, bool | np.bool_):
        raise ValueError(cell)
    if isinstance(cell, numbers.Integral):
        return float(cell), INTEGER
    if isinstance(cell, numbers.Real | Decimal):
        return float(cell), REAL
    if isinstance(cell, np.datetime64):
        return float(cell.astype("datetime64[us]").astype(np.int64)), pa.timestamp("us")
    if isinstance(cell, str):
        cell = datetime.fromisoformat(cell)
    if isinstance(cell, date) and not isinstance(cell, datetime):
        cell = datetime(cell.year, cell.month, cell.day)
    if not isinstance(cell, datetime):
        raise ValueError(cell)
    zone = None if cell.tzinfo is None else "UTC"
    since = cell.replace(tzinfo=UTC) if cell.tzinfo is None else cell.astimezone(UTC)
    days = (since.date() - date(1970, 1, 1)).days
    micros = ((days * 24 + since.hour) * 60 + since.minute) * 60_000_000 + since.second * 1_000_000 + since.microsecond
    return float(micros), pa.timestamp("us", zone)


def _one_kind(kinds: set[pa.DataType], name: str) -> pa.DataType | None:
    if kinds == {INTEGER, REAL}:
        return REAL
    if len(kinds) > 1:
        told = " and ".join(sorted(f"{kind}" if pa.types.is_timestamp(kind) else "numbers" for kind in kinds))
        raise RowsError(f"{name!r} mixes {told}; one stream has one clock.")
    return next(iter(kinds), None)


def join_kinds(old: pa.DataType | None, new: pa.DataType | None, name: str) -> pa.DataType | None:
    """The kind of a clock that has seen both. Numbers, timestamps with and without a zone do not mix; zones do."""
    if old is new or new is None or old is None:
        return old or new
    if getattr(old, "tz", None) and getattr(new, "tz", None):
        return old
    return _one_kind({old, new}, name)


def write_times(value: Floats, kind: pa.DataType | None) -> pa.Array:
    """Instants as they came: the inverse of `read_times`."""
    if kind is None or pa.types.is_floating(kind):
        return pa.array(value, pa.float64())
    whole = pa.array(value.astype(np.int64), pa.int64())
    return whole.cast(kind) if pa.types.is_timestamp(kind) else whole


def read_objects(column: Any, name: str, refused: Reasons) -> tuple[list[Any], pa.DataType | None]:
    """Ids or group keys: Python values and their Arrow type (None: nothing but nulls)."""
    if isinstance(column, pa.Array):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        if pa.types.is_nested(column.type):
            raise RowsError(f"{name!r} has type {column.type}; a row is named by a single value.")
        return column.to_pylist(), _plain_type(column.type)
    values = [None if _is_missing(each) else each.item() if isinstance(each, np.generic) else each for each in column]
    kind = None
    for i, each in enumerate(values):
        if each is not None:
            try:
                kind = join_types(kind, _plain_type(pa.scalar(each).type), name)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                refused.setdefault(i, f"{name!r} is {each!r}, which cannot name a row")
                values[i] = None
    return values, kind


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
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
