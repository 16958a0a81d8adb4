"""Which of Arrow's many types is a column read as?

Arrow lays out the same values in many ways, and not every one of its functions takes every layout. Here those that are
rare become the usual one for the same values, before anything reads them: views of texts, texts and numbers that repeat
(run-end encoded; dictionaries of numbers), values with a name of their own (extension types). Most batches have none of
them, which is known after a look at their types.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Hashable, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Ints
from fogline.errors import QueryError, RowsError, did_you_mean
from fogline.rows.clock import Reasons, is_missing
from fogline.rows.numbers import is_text, mended

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


# --- joined ---
# How do several record batches become one, however much text they hold?
#
# A column of text counts its letters in 32 bits: Arrow joins 2 GB of it, and gives back several columns where there
# is
# more. Such a column becomes one that counts in 64 bits, so that no row is left behind. What cannot be joined even
# then
# (much text within lists) is refused with words.

LIMIT = 2**31 - 1  # bytes that 32 bits can count
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def joined(parts: Sequence[pa.RecordBatch] | pa.Table) -> pa.RecordBatch:
    """All rows of some record batches (of at least one), or of a table, in order. Copies nothing if there is one."""
    batches = parts.to_batches() if isinstance(parts, pa.Table) else parts
    if len(batches) == 1:
        return batches[0]
    schema = parts.schema if isinstance(parts, pa.Table) else batches[0].schema
    if not batches:
        return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)
    if not len(schema):
        return batches[0].slice(0, 0)
    columns = [joined_column([batch.column(k) for batch in batches], name) for k, name in enumerate(schema.names)]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def joined_column(parts: Sequence[pa.Array], name: str) -> pa.Array:
    """All cells of some arrays (of at least one), in order."""
    if len(parts) == 1:
        return parts[0]
    large = _LARGE.get(parts[0].type)
    kinds = {each.type for each in parts}
    if large is not None and (large in kinds or sum(each.nbytes for each in parts) > LIMIT):
        kinds, parts = {large}, [each.cast(large) for each in parts]
    elif len(kinds) > 1:  # some were joined before, and hold much text
        parts = [each.cast(parts[0].type) for each in parts]
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid as error:
        raise RowsError(
            f"the {sum(len(each) for each in parts)} cells of column {name!r} ({parts[0].type}) cannot be put "
            f"together: {error}.\nTake fewer rows at once, or leave the column out."
        ) from error


# --- clean ---
# Which rows hold bytes that are no text?
#
# A column of texts may hold any bytes: files are written by many hands. A row that has such bytes where the query
# looks
# is refused; there they are replaced by U+FFFD, so that no later step stumbles over them.


class Cleaner:
    """Cleans the columns `asked` of record batches, most of which have the same columns."""

    def __init__(self, asked: Collection[str | None]) -> None:
        self.asked = asked
        self.schema: pa.Schema | None = None
        self.texts: list[tuple[int, str]] = []  # where texts lie in it, of the columns asked

    def clean(self, batch: pa.RecordBatch, refused: Reasons) -> pa.RecordBatch:
        """The batch with texts that are texts; rows with others are refused."""
        if self.schema is None or not batch.schema.equals(self.schema):
            self.schema = batch.schema
            named = [(k, field) for k, field in enumerate(self.schema) if field.name in self.asked]
            self.texts = [(k, field.name) for k, field in named if _holds_texts(field.type)]
        for k, name in self.texts:
            column, changed = mended(batch.column(k))
            if changed is not None:
                batch = batch.set_column(k, pa.field(name, column.type), column)
                for i in np.flatnonzero(changed).tolist():
                    refused.setdefault(i, f"{name!r} holds bytes that are not UTF-8 text")
        return batch


def _holds_texts(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


# --- source ---
# Columns by name, whatever the rows came in: an Arrow table, a pandas frame or a list of dicts.


class RowSource:
    """Columns by name, whatever the rows came in."""

    def __init__(self, rows: Any, columns: Container[str] | None = None) -> None:
        """`columns`: those that are asked for; of a table in pieces the others are not put together. None: all."""
        self.batch: pa.RecordBatch | None = None  # all of it, when it came as Arrow
        self.known: list[str] = []
        self.dicts = False
        self.column: Callable[[str], Any]
        self.row: Callable[[int], Mapping[str, Any]]
        if isinstance(rows, pa.RecordBatch | pa.Table):
            self._arrow(rows, columns)
        elif hasattr(rows, "columns") and hasattr(rows, "iloc"):
            self._pandas(rows)
        elif isinstance(rows, Sequence) and not isinstance(rows, str) and all(isinstance(row, Mapping) for row in rows):
            self._dicts(rows)
        else:
            raise RowsError(
                f"rows come as an Arrow table, a pandas frame or a list of dicts, not as {type(rows).__name__}."
            )

    def _arrow(self, rows: Any, columns: Container[str] | None) -> None:
        self.known, self.length = list(rows.schema.names), rows.num_rows
        self.row = lambda i: row_of(rows, i)
        batch = rows
        if isinstance(rows, pa.Table):
            parts = rows.to_batches()
            batch = parts[0] if len(parts) == 1 else joined(self._asked(rows, columns))
        self.batch = usual(batch)
        self.column = self.batch.column

    def _asked(self, rows: pa.Table, columns: Container[str] | None) -> pa.Table:
        asked = [k for k, name in enumerate(self.known) if columns is None or name in columns]
        return rows.select(asked) if asked else rows

    def _pandas(self, frame: Any) -> None:
        if not frame.columns.is_unique:
            raise RowsError("the frame has several columns of one name.")
        self.length, self.known = len(frame), [str(name) for name in frame.columns]
        self.column = lambda name: _from_series(frame[name])
        self.row = lambda i: {name: frame[name].iloc[i] for name in self.known}

    def _dicts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.dicts = True
        self.length, self.known = len(rows), list(dict.fromkeys(str(name) for row in rows for name in row))
        self.column = lambda name: [row.get(name) for row in rows]
        self.row = lambda i: rows[i]

    @property
    def names(self) -> list[str]:
        """The columns there are."""
        return self.known if self.batch is None else list(self.batch.schema.names)

    def optional(self, name: str) -> pa.Array | None:
        """The column as Arrow, if there is one."""
        if self.batch is not None:
            return self.batch.column(name) if name in self.batch.schema.names else None
        if name not in self.known:
            return None
        column = self.column(name)
        try:
            return column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # a mixture: as words
            return pa.array([None if each is None else str(each) for each in column])

    def require(self, name: str, role: str, *, sparse: bool = False) -> Any:
        """The column, or an error that lists those there are. `sparse`: a dict leaves out what it does not have."""
        if sparse and self.dicts and name not in self.known:
            return [None] * self.length
        try:
            if self.batch is not None:
                column = self.batch.column(name)
                check_readable(name, column.type)
                return column
            if name in self.known:
                return self.column(name)
        except KeyError:
            if self.batch is not None and name in self.batch.schema.names:
                raise RowsError(f"the table has several columns {name!r}.") from None
        known = sorted(name for name in self.known if not name.startswith(("_fogline_", "_corrupt_record", "fogline ")))
        raise QueryError(f"the stream has no {role} {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")


def _from_series(series: Any) -> Any:
    if series.dtype == object:
        return series.tolist()
    column = pa.array(series, from_pandas=True)
    if isinstance(column, pa.ChunkedArray):
        return joined_column(column.chunks or [pa.array([], column.type)], str(series.name))
    return column


# --- frames ---
# In which kind of table did rows come, and how are some of them given back in the same kind?
#
# A pandas frame keeps its index, a Polars frame its types, an Arrow table its schema, a list of dicts its dicts. What
# can
# hand over its columns by Arrow's interchange (`__arrow_c_stream__`: a DuckDB relation, for instance) comes back as
# an
# Arrow table. Columns are looked at by their names as they are: a pandas frame may have numbers for names.

# Beside other kinds Arrow would make numbers of these, and bytes of texts.
_ALONE = bool, np.bool_, date, timedelta, np.datetime64, np.timedelta64, bytes
_LISTS = {list, tuple, np.ndarray}  # (value, weight) pairs, of which Arrow would make lists of lists

Cells = Any  # an Arrow array; or a list of Python values, where Arrow has no type for them


class Frame(ABC):
    """A table in the kind it came in."""

    names: list[Any]
    length: int

    @abstractmethod
    def column(self, name: Hashable) -> Cells:
        """A column; NaN of a frame may still be NaN."""

    @abstractmethod
    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        """Some of the rows, with columns beside theirs."""

    def label(self, i: int) -> str:
        """What a row is called."""
        return f"row {i}"

    def once(self) -> list[Any]:
        """The names that are there once."""
        return [name for name in self.names if self.names.count(name) == 1]


class _Arrow(Frame):
    def __init__(self, table: pa.Table) -> None:
        self.table, self.names, self.length = table, list(table.schema.names), table.num_rows

    def column(self, name: Hashable) -> Cells:
        column = self.table.column(name)
        return joined_column(column.chunks or [pa.array([], column.type)], str(name))

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        try:
            part = self.table.take(pa.array(which))
        except pa.ArrowNotImplementedError:  # of a column that is laid out in a rare way
            part = usual_table(self.table).take(pa.array(which))
        for name, values in added.items():
            part = part.append_column(name, pa.array(values))
        return part


class _Pandas(Frame):
    def __init__(self, frame: Any) -> None:
        self.frame, self.names, self.length = frame, list(frame.columns), len(frame)

    def column(self, name: Hashable) -> Cells:
        series = self.frame[name]
        if series.dtype == object:
            return _column(series.tolist())
        try:
            column = pa.array(series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):  # no Arrow type
            return list(series)
        if isinstance(column, pa.ChunkedArray):
            return joined_column(column.chunks or [pa.array([], column.type)], str(name))
        return column

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        part = self.frame.iloc[which].copy()
        for name, values in added.items():
            part[name] = values
        return part

    def label(self, i: int) -> str:
        label = self.frame.index[i]
        return f"row {label.item() if isinstance(label, np.generic) else label!r}"


class _Polars(Frame):
    def __init__(self, frame: Any) -> None:
        self.frame, self.names, self.length = frame, list(frame.columns), frame.height

    def column(self, name: Hashable) -> Cells:
        column = self.frame.get_column(name)
        return column.to_list() if str(column.dtype).startswith("Object") else column.to_arrow()

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        part, series = self.frame[which.tolist()], sys.modules["polars"].Series
        return part.with_columns(*(series(name, pa.array(values)) for name, values in added.items()))


class _Dicts(Frame):
    def __init__(self, rows: list[Mapping[Any, Any]]) -> None:
        self.rows, self.length = rows, len(rows)
        self.names = list(dict.fromkeys(name for row in rows for name in row))

    def column(self, name: Hashable) -> Cells:
        return _column([row.get(name) for row in self.rows])

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        plain = {name: np.asarray(values).tolist() for name, values in added.items()}
        return [
            {**self.rows[k], **{name: values[i] for name, values in plain.items()}}
            for i, k in enumerate(which.tolist())
        ]


def _column(values: list[Any]) -> Cells:
    """Python's values as Arrow, where that keeps what they are: else as they came.

    Arrow would cut the nanoseconds of pandas' instants, take True for 1.0 beside floats, and pairs for lists.
    """
    kinds = {type(each) for each in values if not is_missing(each)}
    if kinds & _LISTS or (len(kinds) > 1 and any(issubclass(kind, _ALONE) for kind in kinds)):
        return values
    try:
        column = pa.array(values, from_pandas=True)
        fine = (each for each in values if not is_missing(each))
        if any(getattr(each, "nanosecond", 0) or getattr(each, "nanoseconds", 0) for each in fine):
            kind = column.type
            column = pa.array(values, pa.duration("ns") if pa.types.is_duration(kind) else pa.timestamp("ns", kind.tz))
        return column
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # of several kinds, or of no type of Arrow's
        return values


def opened(table: Any) -> Frame:
    """The table, whatever its kind; an error in one sentence for what is none."""
    kind = type(table)
    home = kind.__module__.partition(".")[0]
    if isinstance(table, pa.Table):
        return _Arrow(table)
    if isinstance(table, pa.RecordBatch):
        return _Arrow(pa.Table.from_batches([table]))
    if home == "polars" and kind.__name__ in ("DataFrame", "LazyFrame"):
        return _Polars(table.collect() if kind.__name__ == "LazyFrame" else table)
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return _Pandas(table)
    if isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
        return _Dicts(list(table))
    if home == "pyspark":
        raise QueryError("that is a DataFrame of Spark; give df.toArrow(), or ask fl.spark for an answer on a cluster.")
    if hasattr(table, "__arrow_c_stream__"):
        return _Arrow(pa.table(table))
    if isinstance(table, np.ndarray):
        raise QueryError("an array has no names of columns; give it some: pandas.DataFrame(array, columns=[…]).")
    if isinstance(table, Mapping):
        raise QueryError("that is a dict, and no table; where it holds columns, give pyarrow.table(columns).")
    raise QueryError(
        f"that is {_article(kind.__name__)}, and no table; give a pandas, Polars or Arrow table, a DuckDB relation "
        "or a list of dicts."
    )


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


# --- show ---
# How is a row shown as it came, whatever is in it?
#
# Arrow holds values that Python has none for: instants beyond the year 9999, bytes that are no text. A reject must
# show
# them all the same, so what cannot be a Python value is shown as a text.

_UNSHOWN = (ValueError, OverflowError, TypeError, LookupError, pa.ArrowException)  # a zone may be unknown


def row_of(batch: pa.RecordBatch, i: int) -> dict[str, Any]:
    """A row of a record batch as Python values.

    >>> far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    >>> row_of(pa.record_batch([far, pa.array(["a"])], ["t", "id"]), 0)
    {'t': '4611686018427387904 (timestamp[us])', 'id': 'a'}
    """
    one = batch.slice(i, 1)
    try:
        whole: dict[str, Any] = one.to_pylist()[0]
        return whole
    except _UNSHOWN:
        return {name: _cell(column) for name, column in zip(one.schema.names, one.columns, strict=True)}


def _cell(column: pa.Array) -> Any:
    try:
        return column[0].as_py()
    except _UNSHOWN:
        return _as_text(column)


def _as_text(column: pa.Array) -> str:
    """What Python cannot hold: bytes as far as they are text, else the number behind it, or Arrow's own words."""
    kind = column.type
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return str(column.cast(pa.large_binary())[0].as_py().decode("utf-8", "replace"))
        width = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        return f"{column.cast(width)[0].as_py()} ({kind})"
    except _UNSHOWN:
        return f"a value of type {kind}"
