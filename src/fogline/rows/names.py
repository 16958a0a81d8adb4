"""Names of rows and groups, keys, and copies: which rows are the same.

Ids and group keys stay the values they came as; a missing one (null, NaN) is None, and -0.0 is 0.0. Types are widened
to the largest of their family, so that later values of the stream fit. Numbers that mean the same are the same, 5, 5.0
and Decimal("5.00"), and are shown in the stream's kind. A value that can name nothing (infinite, outside the years 1
to 9999, of another kind than the rest of the stream: a text or a truth value beside numbers) refuses its row.

A *key* is the values of some columns as JSON: the same text for the same values, in any version and process.

Rows with one group, id and time (and version, where there is one) share a *stamp*, and are *copies*. Of copies that
come together one counts, by what they hold and not by their order: the one that is better in the first attribute in
which they differ, a number before a gap or a distribution; then the one that expires later; then a distribution before
a gap, and the better of two distributions, from their worst values on. A rejected row is no copy, so copies are kept in
that order: the first that is not rejected counts.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import ONE, Flags, Floats, Ints, UncertainRows
from fogline.errors import RowsError
from fogline.query import as_real
from fogline.rows.cells import REAL, Reasons, is_missing
from fogline.rows.clock import INTEGER, micros_of
from fogline.show import quoted

_LONGEST = timedelta.max.days * 86_400  # seconds
_PER_SECOND = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}
NAMELESS = "which can name nothing"

KeyText = str  # a group's key, as it is written
NO_COLUMNS = "[]"
DUPLICATE = "a row with this id and time is there already"  # the reason of a reject


@dataclass(frozen=True, slots=True)
class Kinds:
    """The Arrow types that a stream has shown so far; its answers are given in them. None: only nulls have come."""

    time: pa.DataType | None = None
    id: pa.DataType | None = None
    by: tuple[pa.DataType | None, ...] = ()
    version: pa.DataType | None = None
    kept: tuple[tuple[str, pa.DataType | None], ...] = ()  # of other columns that come along: see `rows.kept`


def read_objects(
    column: Any, name: str, refused: Reasons, kind: pa.DataType | None = None
) -> tuple[list[Any], pa.DataType | None]:
    """Ids or group keys: Python values, and their Arrow type (None: only nulls); `kind`: the stream's so far."""
    if not isinstance(column, pa.Array):
        return _python_objects(column, name, refused, kind)
    column = nameable(column, name, refused)
    own, values = plain_type(column.type), column.to_pylist()
    if own != kind and is_number(own) and is_number(kind):
        return [_fitting(each, i, name, refused, kind) for i, each in enumerate(values)], kind
    return values, own


def nameable(column: pa.Array, name: str, refused: Reasons) -> pa.Array:
    """The column with null where a value can name nothing: rows with such values are refused."""
    if pa.types.is_integer(column.type) or pa.types.is_string(column.type):  # nearly always
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type) or pa.types.is_interval(column.type):
        raise RowsError(f"{name!r} has type {column.type}; a row is named by a single value.")
    if pa.types.is_floating(column.type):
        column = without_nan(column)
    wrong = _unnameable(column)
    if wrong is None or not wrong.any():
        return in_micros(column)
    why = "infinite" if pa.types.is_floating(column.type) else "out of range"
    for i in np.flatnonzero(wrong).tolist():
        refused.setdefault(i, f"{name!r} is {why}, {NAMELESS}")
    return in_micros(pc.if_else(pa.array(wrong), None, column))


def without_nan(column: pa.Array) -> pa.Array:
    """Floats as names: null for NaN, and no negative zero."""
    return without_sign_of_zero(pc.if_else(pc.is_nan(column), None, column))


def in_micros(column: pa.Array) -> pa.Array:
    """Instants and times of day without their nanoseconds; other values as they are."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.cast(pa.time64("us"), safe=False) if column.type == pa.time64("ns") else column


def without_sign_of_zero(column: pa.Array) -> pa.Array:
    """Names as they came, but for -0.0, which is 0.0."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_floating(kind.value_type):
        return without_sign_of_zero(column.dictionary_decode())
    return pc.add(column, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else column


def _unnameable(column: pa.Array) -> Flags | None:
    """(n,) which values are there, but none that Python or JSON could hold; None: this type has no such."""
    kind = column.type
    if pa.types.is_floating(kind):
        return np.asarray(pc.is_inf(column).fill_null(False).to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return micros_of(column)[1]
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        whole = column.cast(pa.int32() if pa.types.is_time32(kind) else INTEGER).fill_null(0)
        number = whole.to_numpy(zero_copy_only=False).astype(np.float64) / _PER_SECOND[kind.unit]
        limit = _LONGEST if pa.types.is_duration(kind) else 86_400
        return np.asarray((np.abs(number) >= limit) | ((number < 0) & pa.types.is_time(kind)))
    return None


def _python_objects(
    column: Any, name: str, refused: Reasons, kind: pa.DataType | None
) -> tuple[list[Any], pa.DataType | None]:
    values = [plain_value(each) for each in column]
    types: dict[int, pa.DataType] = {}
    for i, each in enumerate(values):
        if each is not None:
            found = _type_of(each)
            if found is None:
                refused.setdefault(i, f"{name!r} is {quoted(each)}, {NAMELESS}")
                values[i] = None
            else:
                types[i] = found
    joined = kind if kind is not None or not types else Counter(types.values()).most_common(1)[0][0]
    for i, own in types.items():
        try:
            joined = join_types(joined, own, name)
        except RowsError:
            values[i] = _fitting(values[i], i, name, refused, joined)
    return values, joined


def plain_value(value: Any) -> Any:
    """A value without NumPy's type; None: it is missing."""
    if is_missing(value) or (isinstance(value, Decimal) and value.is_nan()):
        return None
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")
    if isinstance(value, datetime) and hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)  # of pandas': nanoseconds are cut, as of columns
    plain = value.item() if isinstance(value, np.generic) else value
    return plain + 0.0 if isinstance(plain, float) else plain


def is_number(kind: pa.DataType | None) -> bool:
    """Does this type hold numbers, and no truth values?"""
    known = kind is not None
    return known and bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _fitting(value: Any, i: int, name: str, refused: Reasons, kind: Any) -> Any:
    """The same number in the stream's kind; a value that is none there refuses its row."""
    if value is None:
        return None
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    found = _as_number(value, kind) if number and is_number(kind) else None
    if found is None:
        refused.setdefault(i, f"{name!r} is {quoted(value)}; one stream has one kind of value there: {kind}")
    return found


def _as_number(value: float | Decimal, kind: pa.DataType) -> Any:
    """None: no number of this kind is the same."""
    if pa.types.is_floating(kind):
        return as_real(value)
    if pa.types.is_decimal(kind):
        return _as_decimal(Decimal(value), kind.scale)
    whole = int(value) if value == int(value) else None
    low, high = (0, 2**64 - 1) if pa.types.is_uint64(kind) else (-(2**63), 2**63 - 1)
    return whole if whole is not None and low <= whole <= high else None


def _as_decimal(value: Decimal, scale: int) -> Decimal | None:
    with localcontext(prec=76):
        try:
            return value if value == round(value, scale) else None
        except InvalidOperation:  # more digits than the type has
            return None


def _type_of(value: Any) -> pa.DataType | None:
    """The type of a value that can name a row or a group; None if it cannot."""
    if isinstance(value, float) and math.isinf(value):
        return None
    try:
        shown = pa.scalar(value).type
        plain = plain_type(shown)
        if plain is None or pa.types.is_nested(plain) or pa.types.is_decimal256(shown) or pa.types.is_interval(plain):
            return None
        if shown != plain:
            pa.scalar(value, plain)  # does it fit?
        return plain
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return None


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
    raise RowsError(
        f"{name!r} holds {old} and {new}; one stream has one kind of value there: convert it in the source."
    )


# --- Keys -------------------------------------------------------------------------------------------------------------


_CODES = 2**62  # as many as an int64 holds


def keyed(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[list[KeyText], Ints]:
    """The keys that occur in these columns, and (n,) which of them each row has.

    What names nothing counts as missing here; the reader refuses such rows.
    """
    if not names:
        return [NO_COLUMNS], np.zeros(batch.num_rows, np.int64)
    code, codes, columns = np.zeros(batch.num_rows, np.int64), 1, []  # all codes are below `codes`
    for name in names:
        column = coded(_lettered(nameable(batch.column(name), name, {})))
        number = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        size = len(column.dictionary) + 1
        if codes * size > _CODES:  # numbered anew, there are at most as many as rows
            found, code = np.unique(code, return_inverse=True)
            code, codes = code.reshape(-1), len(found)
        code, codes = code * size + number, codes * size
        columns.append((number, [*column.dictionary.to_pylist(), None]))
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    keys = [json.dumps([values[number[i]] for number, values in columns]) for i in first]
    return keys, which.reshape(-1)


def key_columns(keys: Sequence[KeyText], kinds: Sequence[pa.DataType]) -> list[pa.Array]:
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

    What names no group of a stream (infinities, values of several kinds) is a key of its own here.
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


# --- Copies -----------------------------------------------------------------------------------------------------------


class Contents(NamedTuple):
    """What rows hold, beside their names."""

    raw: Floats  # (n, d) as it came
    expires: Floats  # (n,)
    uncertain: UncertainRows
    signs: Floats  # (d,)
    points: bool = True  # whether a single value that did not come counts as one: a user's imputer gave it at once

    def part(self, which: list[int] | Ints) -> Contents:
        """Those of some rows."""
        return Contents(self.raw[which], self.expires[which], self.uncertain.part(which), self.signs, self.points)

    def rank(self, i: int) -> tuple[Any, ...]:
        """Greater for the copy that counts. The boxes of gaps do not matter."""
        uncertain = self.uncertain
        point = (uncertain.start[i] == ONE) & (uncertain.lo[i] == uncertain.hi[i])
        known = (self.raw[i] * self.signs == uncertain.lo[i]) | (point if self.points else False)
        numbers = np.where(known, uncertain.lo[i], -np.inf)
        pools = []
        for start, size in zip(uncertain.start[i].tolist(), uncertain.size[i].tolist(), strict=True):
            many = slice(start, start + size) if start >= 0 else slice(0, 0)
            pools.append((uncertain.value[many].tolist(), uncertain.weight[many].tolist()))
        came = np.where(np.isnan(self.raw[i]), -np.inf, self.raw[i] * self.signs)  # of equal ones: beyond its limits
        return numbers.tolist(), float(self.expires[i]), pools, came.tolist()

    def best(self, copies: Iterable[int]) -> int:
        """The copy that counts; of equal ones the first."""
        return max(copies, key=self.rank)

    def as_good(self, n: int, c: int) -> bool:
        """Does row n surely dominate, and for as long, whatever row c of the same instant surely dominates?"""
        lo = self.uncertain.lo
        return bool(self.expires[n] >= self.expires[c] and (lo[n] >= lo[c]).all())


Copies = list[list[int]]  # for each stamp that several rows share: their positions, the best first


def copies_of(names: Iterable[Any], contents: Callable[[], Contents]) -> Copies:
    """The rows that share a stamp; `names`: the stamp of each row. O(n), and sorting copies."""
    found: dict[Any, list[int]] = {}
    for i, name in enumerate(names):
        found.setdefault(name, []).append(i)
    several = [which for which in found.values() if len(which) > 1]
    if not several:
        return []
    held = contents()
    return [sorted(which, key=held.rank, reverse=True) for which in several]


def stamps(copies: Copies, n: int) -> Ints:
    """(n,) a number for each stamp that rows share; -1: no other row has this one's."""
    out = np.full(n, -1)
    for number, which in enumerate(copies):
        out[which] = number
    return out


def in_order(time: Floats, version: Ints | None, copies: Copies) -> Ints:
    """The rows in the order of their times; of one instant the greatest version first, of copies the best first."""
    order = np.argsort(time, kind="stable") if version is None else np.lexsort((~version, time))
    if copies:
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        for which in copies:
            order[np.sort(position[which])] = which
    return order


def others(copies: Copies, able: Flags | None = None) -> Ints:
    """The rows that do not count, since a copy does: the first that is `able` (None: all are)."""
    out: list[int] = []
    for which in copies:
        fine = which if able is None else [k for k in which if able[k]]
        out += fine[1:]
    return np.array(sorted(out), np.int64)


def stamp_names(names: Sequence[Any], time: Floats, version: Ints | None) -> Iterable[Any]:
    """The stamps of rows; none, where no two rows have one name."""
    if len(set(names)) == len(names):
        return ()
    return zip(names, time.tolist(), [0] * len(names) if version is None else version.tolist(), strict=True)
