"""Which instant does a cell mean? The one reader, and the one writer, of the stream's clock.

Instants are float64: plain numbers, or microseconds since 1970 where the clock shows timestamps (exact up to 2^53; what
is finer is cut). A *kind* is the Arrow type the clock shows: int64, float64, or timestamp('us') with a zone or without;
None as long as nothing but nulls has come.

Texts are read by one rule wherever they come from: what the clock already shows decides. Where it shows nothing yet, a
column whose texts are all numbers means numbers, any other one means timestamps (ISO 8601). A text that is not an
instant of the clock refuses its row.
"""

from __future__ import annotations

import math
import numbers
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats
from fogline.errors import ClockError, RowsError
from fogline.kernels.clouds import all_within
from fogline.rows.text import is_text, read_numbers

Reasons = dict[int, str]  # row -> why it is rejected
INTEGER, REAL, STAMP = pa.int64(), pa.float64(), pa.timestamp("us")
EXACT = 2.0**53  # integers up to here are exact as float64


class Times(NamedTuple):
    """A column of instants."""

    value: Floats  # (n,) NaN = missing
    kind: pa.DataType | None
    refused: Reasons


def read_times(column: Any, name: str, kind: pa.DataType | None = None) -> Times:
    """A column of instants, an Arrow array or a list; `kind` is what the clock shows so far."""
    if not isinstance(column, pa.Array):
        column = list(column)
        if not column or not all(cell is None or isinstance(cell, str) for cell in column):
            return _python_times(column, name)
        column = pa.array(column, pa.string())
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        when = column.to_numpy(zero_copy_only=False).astype("datetime64[us]")
        micros = np.where(np.isnat(when), np.nan, when.astype(np.int64).astype(np.float64))
        return Times(micros, pa.timestamp("us", getattr(column.type, "tz", None)), {})
    if pa.types.is_integer(column.type):
        return _numeric(column.to_numpy(zero_copy_only=False).astype(np.float64), INTEGER, name)
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        column = column if pa.types.is_floating(column.type) else column.cast(REAL)
        return _numeric(np.array(column.to_numpy(zero_copy_only=False), np.float64), REAL, name)
    if is_text(column.type):
        return _texts(column, name, kind)
    return _python_times(column.to_pylist(), name)


def _numeric(value: Floats, kind: pa.DataType | None, name: str) -> Times:
    """Numbers as times; beyond 2^53 neighbouring ones could no longer be distinguished."""
    refused: Reasons = {}
    if not all_within(value, EXACT) and (large := np.abs(value) > EXACT).any():
        reason = f"{name!r} is beyond 2^53 and would be rounded; use timestamps or a coarser unit"
        refused = dict.fromkeys(np.flatnonzero(large & np.isfinite(value)).tolist(), reason)
    return Times(value, kind, refused)


def _texts(column: pa.Array, name: str, kind: pa.DataType | None) -> Times:
    bare = pc.utf8_trim_whitespace(column)
    blank = pc.equal(bare, "").fill_null(True).to_numpy(zero_copy_only=False)
    if blank.all():
        return Times(np.full(len(column), np.nan), None, {})
    if kind is None or not pa.types.is_timestamp(kind):
        value, bad = read_numbers(bare)
        if kind is not None or not bad.any():
            times = _numeric(value, kind or REAL, name)
            return Times(value, times.kind, _not_a("number", column, bad, name) | times.refused)
    return _stamps(column, bare, blank, name, kind)


def _stamps(column: pa.Array, bare: pa.Array, blank: Any, name: str, kind: pa.DataType | None) -> Times:
    """Texts as timestamps: all at once if they are plain, else one by one."""
    for shown in (STAMP, pa.timestamp("us", "UTC")) if kind is None else (kind,):
        try:
            cast = pc.if_else(pa.array(~blank), bare, None).cast(shown)
            return Times(read_times(cast, name).value, shown, {})
        except pa.ArrowInvalid:
            continue
    value, bad, zone = np.full(len(column), np.nan), np.zeros(len(column), np.bool_), getattr(kind, "tz", None)
    for i in np.flatnonzero(~blank).tolist():
        try:
            found = instant(bare[i].as_py())
        except (ValueError, OverflowError):
            found = None
        if found is not None and kind is None:  # the first text that can be read decides whether there are zones
            kind, zone = found[1], found[1].tz
        if found is None or (found[1].tz is None) != (zone is None):
            bad[i] = True
        else:
            value[i] = found[0]
    return Times(value, kind or STAMP, _not_a("timestamp", column, bad, name))


def _not_a(what: str, column: pa.Array, bad: Any, name: str) -> Reasons:
    return {i: f"{name!r} is {column[i].as_py()!r}, which is not a {what}" for i in np.flatnonzero(bad).tolist()}


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
    times = _numeric(value, _one_kind(kinds, name), name)
    return Times(value, times.kind, refused | times.refused)


def is_missing(cell: object) -> bool:
    """None, NaN, or one of pandas' marks for a missing value."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or str(cell) in ("<NA>", "NaT")


def instant(cell: Any) -> tuple[float, pa.DataType] | None:
    """A Python value as an instant and its kind; None when it is missing; ValueError when it is neither.

    >>> instant("1970-01-01T00:00:01")
    (1000000.0, TimestampType(timestamp[us]))
    """
    if type(cell) is int:
        return float(cell), INTEGER
    if is_missing(cell):
        return None
    if isinstance(cell, bool | np.bool_):
        raise ValueError(cell)
    if isinstance(cell, numbers.Integral):
        return float(cell), INTEGER
    if isinstance(cell, numbers.Real | Decimal):
        return float(cell), REAL
    if isinstance(cell, np.datetime64):
        return float(cell.astype("datetime64[us]").astype(np.int64)), STAMP
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
        found = " and ".join(sorted(f"{kind}" if pa.types.is_timestamp(kind) else "numbers" for kind in kinds))
        raise RowsError(f"{name!r} mixes {found}; one stream has one clock.")
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
        return pa.array(value, REAL)
    whole = pa.array(value.astype(np.int64), INTEGER)
    return whole.cast(kind) if pa.types.is_timestamp(kind) else whole


def show_time(value: float, kind: pa.DataType | None) -> Any:
    """One instant as the user sees it."""
    return write_times(np.array([value]), kind)[0].as_py()


def time_text(value: float, kind: pa.DataType | None) -> str:
    """One instant in words, of whatever year; microseconds are named only where there are any.

    >>> time_text(12.0, INTEGER), time_text(0.5, REAL), time_text(1.7e18, STAMP)
    ('12', '0.5', '55840-11-08 22:13:20')
    """
    if kind is not None and pa.types.is_timestamp(kind):
        if not abs(value) < 2.0**63:
            return f"{value:g} microseconds"
        return str(np.datetime64(int(value), "us")).replace("T", " ").removesuffix(".000000")
    return f"{value:.17g}" if abs(value) >= EXACT or value != int(value) else f"{int(value)}"


def as_instant(text: Any, kind: pa.DataType) -> pa.Scalar:
    """An instant as a person writes it, in the terms of a clock."""
    cell = pa.array([text]) if isinstance(text, str) else [text]
    try:
        read = read_times(cell, "the instant", kind if isinstance(text, str) else None)
    except RowsError:
        read = Times(np.array([np.nan]), None, {})
    stamps = pa.types.is_timestamp(kind)
    if read.kind is None or np.isnan(read.value[0]) or pa.types.is_timestamp(read.kind) != stamps:
        wanted = "a timestamp such as 2024-05-01T12:00:00" if stamps else "a number"
        raise ClockError(f"{text!r} is no instant of this stream, whose clock shows {kind}; write {wanted}.")
    return write_times(read.value, kind)[0] if stamps else pa.scalar(float(read.value[0]))
