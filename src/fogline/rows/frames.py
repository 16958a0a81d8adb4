"""In which kind of table did rows come, and how are some of them given back in the same kind?

A pandas frame keeps its index, a Polars frame its types, an Arrow table its schema, a list of dicts its dicts. What can
hand over its columns by Arrow's interchange (`__arrow_c_stream__`: a DuckDB relation, for instance) comes back as an
Arrow table. Columns are looked at by their names as they are: a pandas frame may have numbers for names.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints
from fogline.errors import QueryError
from fogline.rows.clock import is_missing
from fogline.rows.joined import joined_column
from fogline.rows.usual import usual_table

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
