"""Instants, versions, and which clock a stream shows: they are read and written here alone.

Instants are float64: plain numbers, or microseconds since 1970 where the clock shows timestamps (exact up to 2^53; what
is finer is cut). A *kind* is the Arrow type that the clock shows: int64, float64, or timestamp('us') with a zone or
without; None as long as nothing but nulls has come.

Texts are read by one rule wherever they come from: what the clock already shows decides. Where it shows nothing yet, a
column means numbers if more of its texts are numbers than timestamps (ISO 8601), else timestamps. A text with a zone is
the instant that it names, one without counts as UTC; both go together on one clock. A cell that is no instant of the
clock, or lies outside the years 1 to 9999, refuses its row and no other.

Versions order rows of one id and time: whole numbers of 64 bits, or timestamps in microseconds; a stream has one of the
two. Texts are read as what the stream has shown so far, at first as what most of them are. A missing version is the
least. What is no version refuses its row and no other.
"""

from __future__ import annotations

import numbers
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import DAY, EARLIEST, EXACT, LATEST, Flags, Floats, Ints
from fogline.errors import ClockError, RowsError
from fogline.queries import Asked
from fogline.query import is_short
from fogline.rows.cells import REAL, Reasons, is_missing, is_null_word, is_text, read_numbers, reals
from fogline.show import quoted

INTEGER, STAMP, ZONED = pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")
CLOCKS = {"number": REAL, "timestamp": ZONED}  # what times that are texts may mean

_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1, "day": 86_400_000_000}  # of a unit; nanoseconds are cut
_EDGE = -(2**63) // 1000 + int(DAY), 2**63 // 1000 - int(DAY)  # what nanoseconds reach, in any zone: 1677 to 2262
_EPOCH, _MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_UNREADABLE = (ValueError, OverflowError, TypeError)

LEAST = -(2**63)  # of a row without a version
_GREATEST = 2**63 - 1
_WHOLE = re.compile(r"([+-]?\d{1,400})(\.0*)?")  # the second as whole numbers with gaps are often written


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
            return _python_times(column, name, kind)
        column = pa.array([cell if cell is None else cell.encode("utf-8", "replace").decode() for cell in column])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        micros, far = micros_of(column)
        reason = f"{name!r} is outside the years 1 to 9999"
        shown = pa.timestamp("us", getattr(column.type, "tz", None))
        return Times(micros, shown, dict.fromkeys(np.flatnonzero(far).tolist(), reason))
    if pa.types.is_integer(column.type):
        return _numeric(column.to_numpy(zero_copy_only=False).astype(np.float64), INTEGER, name)
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        column = reals(column)[0]
        return _numeric(np.array(column.to_numpy(zero_copy_only=False), np.float64), REAL, name)
    if is_text(column.type):
        return _texts(column, name, kind)
    if pa.types.is_null(column.type):
        return Times(np.full(len(column), np.nan), None, {})
    raise RowsError(f"{name!r} has type {column.type}; a clock shows numbers or timestamps.")


def micros_of(column: pa.Array) -> tuple[Floats, Flags]:
    """(n,) timestamps or dates in microseconds since 1970, NaN = missing; and which lie outside the years 1 to 9999."""
    kind, null = column.type, column.is_null().to_numpy(zero_copy_only=False)
    plain = column.cast(pa.int32()).cast(INTEGER) if pa.types.is_date32(kind) else column.cast(INTEGER)
    whole = plain.fill_null(0).to_numpy(zero_copy_only=False)
    unit = "day" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    scale = _MICROS.get(unit, 1)
    whole = whole // 1000 if unit == "ns" else whole
    first, last = _EDGE if unit == "ns" else (int(EARLIEST) // scale, int(LATEST) // scale)
    far = (whole < first) | (whole > last)
    gone = null | far
    return np.where(gone, np.nan, np.where(gone, 0, whole) * float(scale)), far & ~null


def _numeric(value: Floats, kind: pa.DataType | None, name: str) -> Times:
    """Numbers as times; beyond 2^53 neighbouring ones could no longer be distinguished."""
    refused: Reasons = {}
    if not _exact(value) and (large := np.abs(value) > EXACT).any():
        reason = f"{name!r} is beyond 2^53 and would be rounded; use timestamps or a coarser unit"
        refused = dict.fromkeys(np.flatnonzero(large & np.isfinite(value)).tolist(), reason)
    return Times(value, kind, refused)


def _exact(value: Floats) -> bool:
    """Whether all are exact; a single one, as a person writes it, is looked at without a compiler."""
    if len(value) == 1:
        return bool(abs(value[0]) <= EXACT)
    from fogline.kernels.uncertain import all_within

    return bool(all_within(value, EXACT))


def _texts(column: pa.Array, name: str, kind: pa.DataType | None) -> Times:
    bare = pc.utf8_trim_whitespace(column)
    blank = pc.or_(is_null_word(bare), bare.is_null()).to_numpy(zero_copy_only=False)
    if blank.all():
        return Times(np.full(len(column), np.nan), None, {})
    if kind is not None and pa.types.is_timestamp(kind):
        return _stamps(column, bare, blank, name, kind)
    value, bad = read_numbers(bare)
    times = _numeric(value, kind or REAL, name)
    found = Times(value, times.kind, _not_a("number", column, bad, name) | times.refused)
    if kind is not None or not bad.any():
        return found
    stamps = _stamps(column, bare, blank, name, None)
    if np.isnan(value).all() and np.isnan(stamps.value).all():  # they show no kind of clock
        return Times(value, None, _not_a("number nor a timestamp", column, ~blank, name, "neither a"))
    return found if int(bad.sum()) < len(stamps.refused) else stamps


def _stamps(column: pa.Array, bare: pa.Array, blank: Any, name: str, kind: pa.DataType | None) -> Times:
    """Texts as timestamps: all at once if they are plain and all with a zone, or all without; else one by one."""
    for shown in (STAMP, ZONED):
        try:
            cast = pc.if_else(pa.array(~blank), bare, None).cast(shown)
            return read_times(cast, name)._replace(kind=kind or shown)
        except pa.ArrowInvalid:
            continue
    value, bad, zoned = np.full(len(column), np.nan), np.zeros(len(column), np.bool_), False
    for i in np.flatnonzero(~blank).tolist():
        try:
            value[i], shown = _stamp(bare[i].as_py())
            zoned |= shown.tz is not None
        except _UNREADABLE:
            bad[i] = True
    return Times(value, kind or (ZONED if zoned else STAMP), _not_a("timestamp", column, bad, name))


def _stamp(cell: str | datetime) -> tuple[float, pa.DataType]:
    """A timestamp, or a text that is one, as microseconds; ValueError or OverflowError if it is none."""
    when = datetime.fromisoformat(cell) if isinstance(cell, str) else cell
    shown = STAMP if when.tzinfo is None else ZONED
    micros = float(((when.replace(tzinfo=UTC) if when.tzinfo is None else when) - _EPOCH) // _MICRO)
    if not EARLIEST <= micros <= LATEST:
        raise OverflowError(cell)
    return micros, shown


def _not_a(what: str, column: pa.Array, bad: Any, name: str, no: str = "not a") -> Reasons:
    which = np.flatnonzero(bad).tolist()
    return {i: f"{name!r} is {quoted(column[i].as_py())}, which is {no} {what}" for i in which}


def _python_times(cells: list[Any], name: str, kind: pa.DataType | None) -> Times:
    """Values of any sort: those that are instants of the clock, which is what most of them show where it is new."""
    refused: Reasons = {}
    found: dict[int, tuple[float, pa.DataType]] = {}
    for i, cell in enumerate(cells):
        try:
            read = instant(cell, kind)
        except _UNREADABLE:
            refused[i] = f"{name!r} is {quoted(cell)}, which is neither a number nor a timestamp"
            continue
        if read is not None:
            found[i] = read
    counted = Counter(_family(own) for _, own in found.values())
    family = counted.most_common(1)[0][0] if kind is None and counted else None if kind is None else _family(kind)
    value, kinds = np.full(len(cells), np.nan), set()
    for i, (micros, own) in found.items():
        if _family(own) == family:
            value[i] = micros
            kinds.add(own)
        else:
            refused[i] = f"{name!r} is {quoted(cells[i])}, but this clock shows {family}"
    times = _numeric(value, _one_kind(kinds, name), name)
    return Times(value, times.kind, refused | times.refused)


def meaning_of(texts: list[str | None]) -> str | None:
    """What most of these texts are, "number" or "timestamp"; None: none of them is either.

    >>> meaning_of(["2024-05-01T12:00:00Z", "n/a"]), meaning_of(["1", "2.5"]), meaning_of(["soon"])
    ('timestamp', 'number', None)
    """
    read = read_times(texts, "")
    if read.kind is None or np.isnan(read.value).all():
        return None
    return "timestamp" if pa.types.is_timestamp(read.kind) else "number"


def meant_by(query: Asked, lateness: Any) -> str | None:
    """What times that are texts mean by the rest of the query: "number" or "timestamp"; None: nothing shows it."""
    if query.clock_meaning is not None or not lateness:
        return query.clock_meaning
    return "number" if isinstance(lateness, int | float) else "timestamp"


def _family(kind: pa.DataType) -> str:
    """The kinds that go together on one clock, as text."""
    if not pa.types.is_timestamp(kind):
        return "numbers"
    return "timestamps without a zone" if kind.tz is None else "timestamps with a zone"


def instant(cell: Any, kind: pa.DataType | None = None) -> tuple[float, pa.DataType] | None:
    """A Python value as an instant and its kind; None: it is missing; ValueError or OverflowError: it is none.

    `kind`: what the clock shows; a text means that.

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
    if isinstance(cell, str) and kind is not None:
        return _stamp(cell.strip())[0] if pa.types.is_timestamp(kind) else float(cell), kind
    if isinstance(cell, np.datetime64):
        if not EARLIEST / DAY <= int(cell.astype("datetime64[D]").astype(np.int64)) <= LATEST / DAY:
            raise OverflowError(cell)
        return float(cell.astype("datetime64[us]").astype(np.int64)), STAMP
    if isinstance(cell, date) and not isinstance(cell, datetime):
        cell = datetime(cell.year, cell.month, cell.day)
    if not isinstance(cell, str | datetime):
        raise ValueError(cell)
    return _stamp(cell)


def _one_kind(kinds: set[pa.DataType], name: str) -> pa.DataType | None:
    if kinds == {INTEGER, REAL}:
        return REAL
    if len(kinds) > 1:
        found = " and ".join(sorted(f"{kind}" if pa.types.is_timestamp(kind) else "numbers" for kind in kinds))
        raise RowsError(f"{name!r} mixes {found}; one stream has one clock.")
    return next(iter(kinds), None)


def join_kinds(old: pa.DataType | None, new: pa.DataType | None, name: str) -> pa.DataType | None:
    """The kind of a clock that has seen both. Numbers, timestamps with and without a zone do not mix; zones do."""
    if old is new or new is None or old is None or old == new:
        return old or new
    if getattr(old, "tz", None) and getattr(new, "tz", None):
        return old
    return _one_kind({old, new}, name)


def write_times(value: Floats, kind: pa.DataType | None, missing: Flags | None = None) -> pa.Array:
    """Instants as they came: the inverse of `read_times`; null where they are `missing`."""
    if kind is None or kind == REAL:
        return pa.array(value, REAL, mask=missing)
    numbers = (value if missing is None else np.where(missing, 0.0, value)).astype(np.int64)
    whole = pa.array(numbers, mask=missing)
    return whole if kind == INTEGER else whole.view(kind)


def in_zone(times: Any, zone: str | None) -> Any:
    """An array of instants as clocks of a zone show them; where it is empty as UTC without a zone, where None as is."""
    if zone is None or not pa.types.is_timestamp(times.type) or times.type.tz is None:
        return times
    return times.cast(pa.timestamp("us", zone)) if zone else times.cast(ZONED).cast(STAMP)


def all_in_zone(rows: pa.Table, zone: str | None) -> pa.Table:
    """Rows, with all their timestamps as clocks of a zone show them."""
    for k, field in enumerate(rows.schema):
        rows = rows.set_column(k, field.name, in_zone(rows[field.name], zone))
    return rows


def show_time(value: float, kind: pa.DataType | None) -> Any:
    """One instant as the user sees it."""
    return write_times(np.array([value]), kind)[0].as_py()


def time_text(value: float, kind: pa.DataType | None) -> str:
    """One instant as text, of whatever year; microseconds are named only where there are any.

    >>> time_text(12.0, INTEGER), time_text(0.5, REAL), time_text(1.7e18, STAMP)
    ('12', '0.5', '55840-11-08 22:13:20')
    """
    if kind is not None and pa.types.is_timestamp(kind):
        if not abs(value) < 2.0**63:
            return f"{value:g} microseconds"
        return str(np.datetime64(int(value), "us")).replace("T", " ").removesuffix(".000000")
    return f"{value:.17g}" if abs(value) >= EXACT or value != int(value) else f"{int(value)}"


def as_instant(text: Any, kind: pa.DataType) -> pa.Scalar:
    """An instant as a person writes it, as a clock of this kind shows it."""
    try:
        read = read_times([text], "the instant", kind if isinstance(text, str) else None)
    except RowsError:
        read = Times(np.array([np.nan]), None, {})
    stamps = pa.types.is_timestamp(kind)
    if read.kind is None or np.isnan(read.value[0]) or pa.types.is_timestamp(read.kind) != stamps:
        wanted = "a timestamp such as 2024-05-01T12:00:00" if stamps else "a number"
        raise ClockError(f"{text!r} is no instant of this stream, whose clock shows {kind}; write {wanted}.")
    return write_times(read.value, kind)[0] if stamps else pa.scalar(float(read.value[0]))


# --- Versions ---------------------------------------------------------------------------------------------------------


class Versions(NamedTuple):
    """A column of versions."""

    value: Ints  # (n,) LEAST where it is missing
    kind: pa.DataType | None  # int64 or timestamp[us]; None: nothing but nulls


def read_versions(column: Any, name: str, kind: pa.DataType | None, refused: Reasons) -> Versions:
    """A column of versions, an Arrow array or a list; `kind` is what the stream has shown so far.

    >>> read_versions([3, None, "2"], "v", None, {}).value.tolist()[::2]
    [3, 2]
    """
    if isinstance(column, pa.Array):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        own = column.type
        if pa.types.is_integer(own) and not pa.types.is_uint64(own):
            _must_be(kind, INTEGER, name)
            return Versions(column.cast(INTEGER).fill_null(LEAST).to_numpy(zero_copy_only=False), INTEGER)
        if pa.types.is_timestamp(own) or pa.types.is_date(own):
            _must_be(kind, STAMP, name)
            return _stamp_versions(column, name, refused)
        numeric = pa.types.is_integer(own) or pa.types.is_floating(own) or pa.types.is_decimal(own)
        if not (numeric or is_text(own) or pa.types.is_null(own)):
            raise RowsError(f"{name!r} has type {own}; a version is a whole number or a timestamp.")
        if is_text(own) and (found := _plain_versions(column, kind)) is not None:
            return found
        column = column.to_pylist()
    return _versions(list(column), name, kind, refused)


def _must_be(kind: pa.DataType | None, shown: pa.DataType, name: str) -> None:
    if kind not in (None, shown):
        raise RowsError(f"{name!r} holds {shown}, and held {kind} before; one stream has one kind of version.")


def _plain_versions(column: pa.Array, kind: pa.DataType | None) -> Versions | None:
    """Texts that are all plain whole numbers, as most are; None: they are to be looked at one by one."""
    bare = pc.utf8_trim_whitespace(column.cast(pa.large_string()))  # not every kind of text can be trimmed
    try:
        whole = pc.if_else(pc.equal(bare, ""), None, bare).cast(INTEGER)
    except pa.ArrowInvalid:
        return None
    if kind not in (None, INTEGER) or whole.null_count == len(whole):
        return None
    if pc.any(pc.match_substring(bare, "x", ignore_case=True)).as_py():  # Arrow reads 0x10, and others do not
        return None
    return Versions(whole.fill_null(LEAST).to_numpy(zero_copy_only=False), INTEGER)


def _stamp_versions(column: pa.Array, name: str, refused: Reasons) -> Versions:
    micros, far = micros_of(column)
    for i in np.flatnonzero(far).tolist():
        refused.setdefault(i, f"{name!r} is outside the years 1 to 9999")
    missing = np.isnan(micros)
    return Versions(np.where(missing, LEAST, np.where(missing, 0, micros).astype(np.int64)), STAMP)


def _versions(cells: list[Any], name: str, kind: pa.DataType | None, refused: Reasons) -> Versions:
    """Values of any sort, one by one: those that are of the stream's kind, which is what most show where it is new."""
    value = np.full(len(cells), LEAST, np.int64)
    there = [
        i for i, cell in enumerate(cells) if not is_missing(cell) and not (isinstance(cell, str) and not cell.strip())
    ]
    found = {i: _version(cells[i]) for i in there}
    shown = [own for own, _ in found.values() if own is not None]
    if kind is None and shown:
        kind = max((INTEGER, STAMP), key=shown.count)
    for i in there:
        own, number = found[i]
        if own is None or own != kind:
            reason = (
                "neither a whole number of 64 bits nor a timestamp" if own is None else f"no {_word(kind)} as others"
            )
            refused.setdefault(i, f"the version {name!r} is {quoted(cells[i])}, which is {reason}")
        else:
            value[i] = number
    return Versions(value, kind)


def _word(kind: pa.DataType | None) -> str:
    return "whole number" if kind == INTEGER else "timestamp"


def _version(cell: Any) -> tuple[pa.DataType | None, int]:
    """The kind of one version, and its number; None: it is none."""
    if isinstance(cell, bool | np.bool_):
        return None, 0
    if isinstance(cell, str) and (whole := _WHOLE.fullmatch(cell.strip())):
        cell = int(whole[1])
    if isinstance(cell, float | np.floating) and abs(float(cell)) <= EXACT and float(cell).is_integer():
        cell = int(cell)  # a column of whole numbers with gaps often comes so; beyond 2^53 it would have been rounded
    if isinstance(cell, Decimal) and is_short(cell) and cell == cell.to_integral_value():
        cell = int(cell)
    if isinstance(cell, numbers.Integral):
        return (INTEGER, int(cell)) if LEAST <= int(cell) <= _GREATEST else (None, 0)
    try:
        read = instant(cell, STAMP if isinstance(cell, str) else None)
    except (ValueError, OverflowError, TypeError):
        return None, 0
    if read is None or not pa.types.is_timestamp(read[1]):
        return None, 0
    return STAMP, int(read[0])
