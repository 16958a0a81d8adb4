"""Tables of any kind, and their columns by name.

`opened` is the one place where a table is recognised: a pandas or Polars frame, an Arrow table or record batch,
whatever hands over its columns by Arrow's interface (`__arrow_c_stream__`, `__arrow_c_array__`; a DuckDB relation does)
or by `__dataframe__`, a list of dicts (one a row), or a dict of columns. It gives a `Frame`: the table in its own kind,
which gives some of its rows back in that kind. A `RowSource` is what a reader of rows and an imputing function see of
it: columns by names that are texts.

Arrow lays out the same values in many ways, and not every one of its functions takes every layout. So columns are read
in their usual types (`cells.usual_type`). Record batches become one, however much text they hold: a column of text
counts its bytes in 32 bits, and one of more than 2 GB becomes one that counts in 64.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Hashable, Mapping, Sequence
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints
from fogline.errors import QueryError, RowsError, did_you_mean
from fogline.rows.cells import Reasons, is_missing, is_text, mended, usual_column, usual_type

LIMIT = 2**31 - 1  # bytes that 32 bits can count
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
# Arrow makes numbers of these where they stand beside numbers, and bytes of texts.
_ALONE = bool, np.bool_, date, timedelta, np.datetime64, np.timedelta64, bytes
_LISTS = {list, tuple, np.ndarray}  # (value, weight) pairs, of which Arrow would make lists of lists
_UNCONVERTED = pa.ArrowException, TypeError, ValueError, OverflowError  # what Arrow raises on values it has no type for

Cells = Any  # an Arrow array, or a list of Python values


# --- Tables in their own kind -----------------------------------------------------------------------------------------


def opened(table: Any) -> Frame:
    """The table, whatever its kind; a `RowsError` in one sentence for what is none."""
    if isinstance(table, Frame):
        return table
    if isinstance(table, pa.Table | pa.RecordBatch):
        return _ArrowFrame(table)
    kind = type(table)
    home = kind.__module__.partition(".")[0]
    if home == "polars" and kind.__name__ == "DataFrame":
        return _PolarsFrame(table)
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return _PandasFrame(table)
    if isinstance(table, Sequence) and not isinstance(table, str) and all(isinstance(row, Mapping) for row in table):
        return _DictFrame(table)
    if home == "pyspark":
        raise RowsError("that is a DataFrame of Spark; give df.toArrow(), or use fl.spark, which works on a cluster.")
    if home == "polars" and kind.__name__ == "LazyFrame":
        raise RowsError("that is a LazyFrame, whose rows are not worked out yet; give frame.collect().")
    if isinstance(table, Mapping):
        return _ColumnsFrame(table)
    if any(hasattr(table, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")):
        return _ArrowFrame(_from_interface(table))
    if isinstance(table, np.ndarray):
        raise RowsError("an array has no names of columns; give it some: pandas.DataFrame(array, columns=[…]).")
    raise _no_table(table)


def is_table(given: Any) -> bool:
    """Does it look like a table, and not like a time?"""
    if isinstance(given, Frame | Mapping | list | tuple | pa.Table | pa.RecordBatch):
        return True
    home = type(given).__module__.partition(".")[0]
    frames = ("iloc", "__arrow_c_stream__", "__dataframe__")
    return home == "pyspark" or any(hasattr(given, name) for name in frames)


def _from_interface(table: Any) -> pa.Table:
    """The table behind one of the interfaces, copied only where it must be."""
    try:
        if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            return pa.table(table)
        from pyarrow.interchange import from_dataframe

        return from_dataframe(table)
    except _UNCONVERTED as error:
        raise _no_table(table) from error


def _no_table(given: Any) -> RowsError:
    return RowsError(
        f"that is {_kind(given)}, and no table; rows come as a pandas, Polars or Arrow table, a DuckDB relation, a "
        "list of dicts or a dict of columns."
    )


def _kind(given: Any) -> str:
    word = type(given).__name__
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


class Frame(ABC):
    """A table in the kind it came in."""

    names: list[Any]  # of its columns, as they are: in pandas a name may be a number
    length: int
    sparse = False  # whether a column may be left out that has no value

    @property
    def arrow(self) -> pa.Table | pa.RecordBatch | None:
        """All of it, where it lies in Arrow's memory."""
        return None

    @abstractmethod
    def values(self, name: Hashable) -> Cells:
        """A column as it lies: an Arrow array, or where the kind has none, a list of Python values."""

    @abstractmethod
    def row(self, i: int) -> Mapping[str, Any]:
        """A row as it came."""

    @abstractmethod
    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        """Some of the rows in the table's kind, with columns beside theirs."""

    def column(self, name: Hashable) -> Cells:
        """A column as an Arrow array of a usual type; a list where Arrow would change what the values are."""
        cells = self.values(name)
        cells = _as_arrow(cells) if isinstance(cells, list) else cells
        return cells if isinstance(cells, list) else usual_column(cells)

    def like(self, table: pa.Table) -> Any:
        """A table of ours in this kind, if it is that of a data frame; else as it is."""
        return table

    def label(self, i: int) -> str:
        """What a row is called."""
        return f"row {i}"

    def labels(self, which: Ints) -> pa.Array:
        """What rows are called, as a column: their positions, if nothing better is there."""
        return pa.array(which)

    def once(self) -> list[Any]:
        """The names that are there once."""
        return [name for name in self.names if self.names.count(name) == 1]


class _ArrowFrame(Frame):
    def __init__(self, table: pa.Table | pa.RecordBatch) -> None:
        self.table, self.length = table, table.num_rows

    @cached_property
    def names(self) -> list[Any]:  # type: ignore[override]  # seldom asked for
        return list(self.table.schema.names)

    @property
    def arrow(self) -> pa.Table | pa.RecordBatch:
        return self.table

    def values(self, name: Hashable) -> Cells:
        return whole_column(self.table.column(name), str(name))

    def row(self, i: int) -> Mapping[str, Any]:
        return row_of(self.table, i)

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        table = table_of(self.table)
        try:
            part = table.take(pa.array(which))
        except pa.ArrowNotImplementedError:  # of a column that is laid out in a rare way
            part = usual_table(table).take(pa.array(which))
        for name, values in added.items():
            part = part.append_column(name, pa.array(values))
        return part


class _PandasFrame(Frame):
    def __init__(self, frame: Any) -> None:
        self.frame, self.names, self.length = frame, list(frame.columns), len(frame)

    def values(self, name: Hashable) -> Cells:
        return _of_series(self.frame[name], str(name))

    def row(self, i: int) -> Mapping[str, Any]:
        return {str(name): self.frame.iat[i, k] for k, name in enumerate(self.names)}

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        part = self.frame.iloc[which].copy()
        for name, values in added.items():
            part[name] = values
        return part

    def like(self, table: pa.Table) -> Any:
        return table.to_pandas()

    def label(self, i: int) -> str:
        label = self.frame.index[i]
        return f"row {label.item() if isinstance(label, np.generic) else label!r}"

    def labels(self, which: Ints) -> pa.Array:
        index = self.frame.index
        if index.nlevels == 1:
            try:
                return pa.array(index).take(pa.array(which))
            except _UNCONVERTED:  # labels of several kinds
                pass
        return pa.array(which)


class _PolarsFrame(Frame):
    def __init__(self, frame: Any) -> None:
        self.frame, self.names, self.length = frame, list(frame.columns), frame.height

    @property
    def arrow(self) -> pa.Table | None:
        objects = any(_is_object(each) for each in self.frame.dtypes)  # which Arrow cannot hold
        return None if objects else self.frame.to_arrow()

    def values(self, name: Hashable) -> Cells:
        column = self.frame.get_column(name)
        return column.to_list() if _is_object(column.dtype) else column.to_arrow()

    def row(self, i: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.frame.row(i, named=True)
        return found

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        part, series = self.frame[which.tolist()], sys.modules["polars"].Series
        return part.with_columns(*(series(name, pa.array(values)) for name, values in added.items()))

    def like(self, table: pa.Table) -> Any:
        return sys.modules["polars"].from_arrow(table)


def _is_object(kind: Any) -> bool:
    return str(kind).startswith("Object")


class _DictFrame(Frame):
    """A list of dicts."""

    sparse = True

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        self.rows, self.length = rows, len(rows)
        self.names = list(dict.fromkeys(name for row in rows for name in row))

    def values(self, name: Hashable) -> Cells:
        return [row.get(name) for row in self.rows]

    def row(self, i: int) -> Mapping[str, Any]:
        return self.rows[i]

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        plain = {name: np.asarray(values).tolist() for name, values in added.items()}
        return [
            {**self.rows[k], **{name: values[i] for name, values in plain.items()}}
            for i, k in enumerate(which.tolist())
        ]


class _ColumnsFrame(Frame):
    """A dict of columns: lists, NumPy or Arrow arrays, series."""

    def __init__(self, columns: Mapping[Any, Any]) -> None:
        for name, column in columns.items():
            single = isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__")
            if single or getattr(column, "ndim", 1) != 1:
                raise RowsError(
                    f"a dict is a table if it has a list of values for each column; {name!r} is {_kind(column)}. "
                    "A single row goes into a list: [row]."
                )
        sizes = {len(column): name for name, column in columns.items()}
        if len(sizes) > 1:
            (one, first), (other, second), *_ = sizes.items()
            raise RowsError(f"columns of a table are equally long; {first!r} has {one} values, {second!r} {other}.")
        self.columns, self.names, self.length = columns, list(columns), next(iter(sizes), 0)

    def values(self, name: Hashable) -> Cells:
        column = self.columns[name]
        if isinstance(column, pa.Array | pa.ChunkedArray):
            return whole_column(column, str(name))
        if hasattr(column, "to_arrow"):  # a series of Polars
            return column.to_list() if _is_object(column.dtype) else column.to_arrow()
        return _of_series(column, str(name)) if hasattr(column, "dtype") else list(column)

    def row(self, i: int) -> Mapping[str, Any]:
        return {str(name): self._taken(name, np.array([i]))[0] for name in self.names}

    def _taken(self, name: Any, which: Ints) -> list[Any]:
        column = self.columns[name]
        column = column.iloc if hasattr(column, "iloc") else column
        cells = [column[k] for k in which.tolist()]
        return [each.as_py() if isinstance(each, pa.Scalar) else each for each in cells]

    def part(self, which: Ints, added: Mapping[str, Any]) -> Any:
        plain = {name: np.asarray(values).tolist() for name, values in added.items()}
        found = {
            name: column[which] if isinstance(column, np.ndarray) else self._taken(name, which)
            for name, column in self.columns.items()
        }
        return found | plain


def _of_series(series: Any, name: str) -> Cells:
    """The values of a pandas series, or of a NumPy array."""
    if series.dtype == object:
        return series.tolist()
    try:
        return whole_column(pa.array(series, from_pandas=True), name)
    except _UNCONVERTED:  # no type of Arrow's
        return list(series)


def _as_arrow(values: list[Any]) -> Cells:
    """Python values as an Arrow array, where that keeps what they are: else the list.

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
    except _UNCONVERTED:  # of several kinds, or of no type of Arrow's
        return values


def _as_texts(values: list[Any]) -> pa.Array:
    return pa.array([None if is_missing(each) else str(each) for each in values], pa.string())


def arrow_table(rows: Any) -> pa.Table:
    """All of a table as an Arrow table of usual types; a column that holds values of several kinds as texts."""
    frame = opened(rows)
    if (arrow := frame.arrow) is not None:
        return usual_table(table_of(arrow))
    names = [str(name) for name in frame.names]
    _must_differ(names)
    columns = [frame.column(name) for name in frame.names]
    return pa.table([_as_texts(each) if isinstance(each, list) else each for each in columns], names)


def _must_differ(names: Collection[str]) -> None:
    if len(set(names)) < len(names):
        raise RowsError("the frame has several columns of one name.")


# --- Columns by name --------------------------------------------------------------------------------------------------


class RowSource:
    """A table's columns by name, whatever kind of table it is."""

    def __init__(self, rows: Any, columns: Container[str] | None = None) -> None:
        """`columns`: those that are asked for; of a table in pieces the others are not put together. None: all."""
        self.frame = opened(rows)
        self.length = self.frame.length
        """How many rows."""
        self.batch: pa.RecordBatch | None = None
        """All that is asked for, where the table lies in Arrow's memory."""
        self.known = _NOTHING
        """What is known of its columns; batches of one schema that follow each other have the same object."""
        if (arrow := self.frame.arrow) is not None:
            self.batch, self.known = _as_usual(_in_one(arrow, columns))
        elif len(self._names) < len(self.frame.names):
            _must_differ([str(name) for name in self.frame.names])

    @cached_property
    def _names(self) -> dict[str, Any]:
        return {str(name): name for name in self.frame.names}

    @property
    def names(self) -> list[str]:
        """The columns there are."""
        return list(self._names) if self.batch is None else list(self.batch.schema.names)

    def column(self, name: str) -> Any:
        """The column as it lies: an Arrow array, or a list of Python values."""
        return self.frame.values(self._names[name]) if self.batch is None else self.batch.column(name)

    def row(self, i: int) -> Mapping[str, Any]:
        """A row as it came."""
        return self.frame.row(i)

    def optional(self, name: str) -> pa.Array | None:
        """The column as Arrow, if there is one."""
        if name not in self.names:
            return None
        column = self.column(name)
        try:
            return column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
        except _UNCONVERTED:  # values of several kinds
            return _as_texts(column)

    def require(self, name: str, role: str, *, sparse: bool = False) -> Any:
        """The column, or an error that lists those there are. `sparse`: a dict leaves out what it does not have."""
        if self.batch is not None and (at := self.known.at.get(name)) is not None:
            return self.batch.column(at)
        count = 0
        if self.batch is not None:
            count = len(self.batch.schema.get_all_field_indices(name))
        elif name in self._names:
            count = 1
        if count == 1:
            column = self.column(name)
            if isinstance(column, pa.Array):
                check_readable(name, column.type)
            if self.batch is not None:
                self.known.at[name] = self.batch.schema.get_field_index(name)
            return column
        if count:
            raise RowsError(f"the table has several columns {name!r}.")
        if sparse and self.frame.sparse:
            return [None] * self.length
        known = sorted(
            each for each in self._names if not each.startswith(("_fogline_", "_corrupt_record", "fogline "))
        )
        raise QueryError(f"the stream has no {role} {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")


def without_bad_bytes(source: RowSource, asked: Collection[str | None], refused: Reasons) -> RowSource:
    """The rows with U+FFFD for each byte that is no text, in the columns `asked`; rows with such bytes are refused.

    Files are written by many hands, and a column of texts may hold any bytes.
    """
    batch = source.batch
    if batch is None:
        return source
    for k, name in source.known.texts:
        if name in asked:
            column, changed = mended(batch.column(k))
            if changed is not None:
                batch = batch.set_column(k, pa.field(name, column.type), column)
                for i in np.flatnonzero(changed).tolist():
                    refused.setdefault(i, f"{name!r} holds bytes that are not UTF-8 text")
    return source if batch is source.batch else RowSource(batch)


def _holds_texts(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _in_one(rows: pa.Table | pa.RecordBatch, columns: Container[str] | None) -> pa.RecordBatch:
    """The columns that are asked for in one piece; all columns, where they are in one piece already."""
    if isinstance(rows, pa.RecordBatch):
        return rows
    if len(parts := rows.to_batches()) == 1:
        return parts[0]
    asked = [k for k, name in enumerate(rows.schema.names) if columns is None or name in columns]
    return joined(rows.select(asked) if asked else rows)


# --- Arrow's layouts --------------------------------------------------------------------------------------------------


class KnownSchema:
    """What is known of the columns of record batches of one schema, in which every type is usual.

    Batches of a stream share their schema, so each of these things is found out once.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.at: dict[str, int] = {}
        """Where columns stand, of those that were asked for: each is there once, and can be read."""

    @cached_property
    def texts(self) -> list[tuple[int, str]]:
        """Where columns of texts stand, and their names."""
        return [(k, field.name) for k, field in enumerate(self.schema) if _holds_texts(field.type)]


_NOTHING = KnownSchema(pa.schema([]))
_last = [_NOTHING]  # of the last batch


def usual(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, each column in its usual type."""
    return _as_usual(batch)[0]


def _as_usual(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, KnownSchema]:
    schema, last = batch.schema, _last[0]
    if schema.equals(last.schema):
        return batch, last
    for k, field in enumerate(schema):
        if (kind := usual_type(field.type)) != field.type:
            batch = batch.set_column(k, pa.field(field.name, kind), usual_column(batch.column(k)))
    _last[0] = last = KnownSchema(batch.schema)
    return batch, last


def usual_table(table: pa.Table) -> pa.Table:
    """The table, each column in its usual type."""
    if all(usual_type(field.type) == field.type for field in table.schema):
        return table
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


def table_of(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """A record batch as a table."""
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])


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


def whole_column(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return joined_column(column.chunks or [pa.array([], column.type)], name)


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


# --- A row as it came -------------------------------------------------------------------------------------------------

_UNSHOWN = (ValueError, OverflowError, TypeError, LookupError, pa.ArrowException)  # a zone may be unknown


def row_of(batch: pa.RecordBatch | pa.Table, i: int) -> dict[str, Any]:
    """A row of a record batch as Python values; what no Python value can hold (the year 10000) as a text.

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
        return _cell_text(column)


def _cell_text(column: pa.Array) -> str:
    """Bytes as far as they are text, else the number behind the value, or the name of its type."""
    kind = column.type
    try:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return str(column.cast(pa.large_binary())[0].as_py().decode("utf-8", "replace"))
        width = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        return f"{column.cast(width)[0].as_py()} ({kind})"
    except _UNSHOWN:
        return f"a value of type {kind}"
