"""Cells of texts, written the usual way, then cast to the type of their column.

Texts come in and texts go out: "1,5" becomes "1.5" where the mark is a comma, "01.05.2024 12:00" in Berlin becomes
"2024-05-01 10:00:00Z", and "n/a" becomes null. What cannot be read stays as it is, so that the row is
refused with the cell of its file; where it would be read as something else, the reason is written behind it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Flags, Floats
from fogline.query import UNHELD
from fogline.rows.cells import is_null_word, is_text, read_numbers, reals
from fogline.rows.names import is_number

_COMMA = r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$"
_THOUSANDS = r"^\s*[+-]?\d{1,3}(\.\d{3})+(,\d+)?\s*$"
_COMMAS = r"^\s*[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*$"
_SURE_COMMAS = r"^\s*[+-]?\d{1,3}(,\d{3})*,\d{3}(,\d{3}|\.\d*)\s*$"
_POINT = r"^\s*[+-]?\d*\.\d*([eE][+-]?\d+)?\s*$"
_FRACTION = r"^(?P<before>.*\d)[.,](?P<digits>\d{1,9})(?P<after>\D*(?:[+-]\d\d:?\d\d)?)$"
_ISO = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
GUESSED = (
    "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%d.%m.%y %H:%M:%S", "%d.%m.%y %H:%M", "%d.%m.%Y, %H:%M:%S",
    "%d.%m.%Y %H:%M:%S.%f", "%d.%m.%Y %H:%M:%S,%f", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d",
    "%Y-%m-%d %H:%M:%S,%f",
)  # fmt: skip
SLASHED = tuple(f"{date}{time}" for time in (" %H:%M:%S", " %H:%M", "") for date in ("%d/%m/%Y", "%m/%d/%Y"))


def without_nulls(cells: pa.Array, more: Collection[str]) -> pa.Array:
    """A column in which null words are null, and so is what is stated; a number that is stated, however it is written.

    >>> without_nulls(pa.array(["1.5", "n/a", "-999.0", "x"]), ["-999", "x"]).to_pylist()
    ['1.5', None, None, None]
    """
    texts = is_text(cells.type)
    gone = is_null_word(cells, more) if texts else None
    marks = as_numbers(more)
    kind = cells.type
    if len(marks) and (texts or is_number(kind)):
        values = read_numbers(cells)[0] if texts else _floats(cells)
        near = _floats(pa.array(marks).cast(kind)) if pa.types.is_floating(kind) else marks  # as the column rounds
        marked = pa.array(np.isin(values, near))
        gone = marked if gone is None else pc.or_(gone, marked)
    return cells if gone is None or not pc.any(gone).as_py() else pc.if_else(gone, None, cells)


def _floats(numbers: pa.Array) -> Floats:
    found: Floats = numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def as_numbers(words: Collection[str]) -> Floats:
    """Those of these words that are numbers, with a point or a comma."""
    found = read_numbers(with_point(pa.array(list(words), pa.string()), strict=False))[0]
    return found[np.isfinite(found)]


def with_point(texts: pa.Array, *, strict: bool) -> pa.Array:
    """Numbers with a decimal comma as others write them; `strict`: 1.5 is none.

    >>> with_point(pa.array(["1,5", "1.234,5", "1.000", "7", "n/a"]), strict=True).to_pylist()
    ['1.5', '1234.5', '1000', '7', 'n/a']
    """
    thousands, comma = pc.match_substring_regex(texts, _THOUSANDS), pc.match_substring_regex(texts, _COMMA)
    if not strict:
        thousands = pc.and_(thousands, pc.match_substring(texts, ","))
    out = texts
    if pc.any(thousands).as_py():
        plain = pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")
        out = pc.if_else(thousands.fill_null(False), plain, out)
    if pc.any(comma).as_py():
        out = pc.if_else(comma.fill_null(False), pc.replace_substring(texts, ",", "."), out)
    if strict:
        point = pc.and_not(pc.match_substring_regex(texts, _POINT), thousands).fill_null(False)
        if pc.any(point).as_py():
            out = pc.if_else(point, _behind(texts, " (numbers here have a decimal comma)"), out)
    return out


def without_thousands(texts: pa.Array, *, shown: bool) -> pa.Array:
    """Numbers without the commas between their thousands; `shown`: also where a cell alone does not show what they are.

    >>> without_thousands(pa.array(["1,234.5", "-12,345", "1,5", "a,bcd"]), shown=True).to_pylist()
    ['1234.5', '-12345', '1,5', 'a,bcd']
    >>> without_thousands(pa.array(["1,234.5", "-12,345", "1,234,567"]), shown=False).to_pylist()
    ['1234.5', '-12,345', '1234567']
    """
    if not pc.any(pc.match_substring(texts, ",")).as_py():
        return texts
    grouped = pc.match_substring_regex(texts, _COMMAS if shown else _SURE_COMMAS).fill_null(False)
    return pc.if_else(grouped, pc.replace_substring(texts, ",", ""), texts) if pc.any(grouped).as_py() else texts


def as_instants(texts: pa.Array, time_format: str | None, zone: str | None) -> pa.Array:
    """Times as ISO 8601 in UTC: by the format, or as ISO without a zone; those that have a zone stay as they are."""
    bare = pc.utf8_trim_whitespace(texts)
    out = texts
    formats = ((time_format,) if time_format else ()) + (_ISO if zone else ())
    open_cells = bare
    for each in formats:
        cells = pc.replace_substring(open_cells, " ", "T", max_replacements=1) if each in _ISO else open_cells
        found = parsed(cells, f"{each}.%f" if each == _ISO[0] else each)
        if found.null_count < len(found):
            there = found.is_valid()
            out = pc.if_else(there, instants_as_texts(found, texts, zone), out)
            open_cells = pc.if_else(there, None, open_cells)
        if open_cells.null_count == len(open_cells):
            break
    return out


def parsed(texts: pa.Array, time_format: str) -> pa.Array:
    """(n,) timestamp('us'), with a zone if the format has one; null: it is none of that format. Finer parts are cut."""
    fraction = None
    whole = time_format
    for mark in (".%f", ",%f"):
        if mark in time_format:
            whole = time_format.replace(mark, "")
            cut = pc.extract_regex(texts, _FRACTION)
            there = cut.is_valid()
            before, digits, after = (pc.struct_field(cut, name) for name in ("before", "digits", "after"))
            texts = pc.if_else(there, pc.binary_join_element_wise(before, after, ""), texts)
            micros = pc.utf8_slice_codeunits(pc.binary_join_element_wise(digits, "000000", ""), 0, 6)
            fraction = pc.if_else(there, micros, "0").cast(pa.int64()).fill_null(0)
    found = pc.strptime(texts, format=whole, unit="us", error_is_null=True)
    found = _real(found, texts, whole)
    if fraction is None:
        return found
    return pc.add(found.cast(pa.int64()), fraction).cast(found.type)


def _real(found: pa.Array, texts: pa.Array, time_format: str) -> pa.Array:
    """Without days that no month has: the parser takes the 31st of February for the 2nd or 3rd of March. And without
    years of fewer than four digits, where the format has four: it takes 24 for the year 24."""
    zoned = found.type.tz is not None
    early = pc.less_equal(pc.day(found), 4 if zoned else 3).fill_null(False).to_numpy(zero_copy_only=False)
    wrong = np.zeros(len(found), np.bool_)
    rows = np.flatnonzero(early)
    if len(rows) and not zoned:
        padded = pc.replace_substring_regex(texts.take(rows), r"\b(\d)\b", r"0\1")
        written = pc.strftime(found.take(rows).cast(pa.timestamp("s")), format=time_format)
        rows = rows[pc.not_equal(padded, written).fill_null(False).to_numpy(zero_copy_only=False)]
    short = pc.less(pc.year(found), 1000).fill_null(False).to_numpy(zero_copy_only=False)
    for i in np.union1d(rows, np.flatnonzero(short)).tolist():
        try:
            datetime.strptime(texts[i].as_py(), time_format)
        except ValueError:
            wrong[i] = True
    return pc.if_else(pa.array(wrong), None, found) if wrong.any() else found


def instants_as_texts(found: pa.Array, texts: pa.Array, zone: str | None) -> pa.Array:
    """Timestamps as ISO 8601 in UTC. What clocks show twice is the earlier one, what they leave out none."""
    if found.type.tz is not None:
        return _in_utc(found.cast(pa.timestamp("us", "UTC")))
    zoned = read_in_zone(found, zone)
    out = _in_utc(zoned)
    left_out = pc.not_equal(pc.local_timestamp(zoned), found).fill_null(False)
    if not pc.any(left_out).as_py():
        return out
    return pc.if_else(left_out, _behind(texts, f" (clocks of {zone} leave this hour out)"), out)


def _in_utc(found: pa.Array) -> pa.Array:
    """As ISO 8601; whole seconds without parts."""
    texts = found.cast(pa.timestamp("us")).cast(pa.string())
    return _behind(pc.replace_substring(texts, ".000000", "", max_replacements=1), "Z")


def read_in_zone(found: pa.Array, zone: str | None) -> pa.Array:
    """Timestamps without a zone as instants: in this zone, else in UTC."""
    return pc.assume_timezone(found, zone or "UTC", ambiguous="earliest", nonexistent="latest")


def format_of(texts: pa.Array) -> str | None:
    """The usual format in which most of these times are written; None: none of them, or two would fit."""
    bare = pc.utf8_trim_whitespace(texts).drop_null()
    if not len(bare):
        return None

    def fitting(time_format: str) -> int:
        found = parsed(bare, time_format)
        return int(len(found) - found.null_count)

    best = max(GUESSED, key=fitting)
    if fitting(best) > len(bare) / 2:
        return best
    counted = sorted(((fitting(each), each) for each in SLASHED), reverse=True)
    (most, first), (second, _) = counted[:2]
    return first if most > len(bare) / 2 and most > second else None


def _behind(texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(texts, end, "")


# --- Cells in the type of their column --------------------------------------------------------------------------------
#
# Columns are cast as a whole; only where that fails, cell by cell. Numbers, truth values and instants become texts that
# mean the same; a cell that does not fit is null, and its row is marked.

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
            return read_in_zone(column.cast(_STAMP, safe=False), zone).cast(kind)
        if pa.types.is_timestamp(kind):
            return column.cast(kind, safe=False)  # nanoseconds are cut
        if is_text(kind):
            plain = column.cast(pa.timestamp("us", own.tz), safe=False)
            plain = read_in_zone(plain, zone) if own.tz is None else plain
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
