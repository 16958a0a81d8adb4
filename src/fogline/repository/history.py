"""What does the history hold, as numbers?

Every column becomes float64 with NaN for missing: numbers as they are, texts and booleans as codes that are close only
when equal. Values outside the query's limits, and infinite ones, are missing. A row that lacks one attribute still
serves every rule that does not need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Ints
from fogline.errors import HistoryError, did_you_mean
from fogline.model import Query
from fogline.rows.clock import read_times
from fogline.rows.joined import joined_column
from fogline.rows.text import is_text, read_numbers


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of the history."""

    values: Floats  # (n,) NaN = missing
    words: tuple[str, ...] | None = None  # what the codes 0, 1, … stand for; None: numbers

    def encode(self, given: pa.Array) -> Floats:
        """Values of a stream in the same terms; a word that the history does not know is near to nothing (-1).

        What cannot be read as a number is missing: a determinant never stops a row.
        """
        if self.words is None:
            if pa.types.is_string(given.type) or pa.types.is_large_string(given.type):
                given = pa.array(read_numbers(given)[0])
            if not (pa.types.is_integer(given.type) or pa.types.is_floating(given.type)):
                given = pa.array([_number(each) for each in given.to_pylist()], pa.float64())
            values = np.array(given.to_numpy(zero_copy_only=False), np.float64)
            return np.where(np.isfinite(values), values, np.nan)
        code = {word: float(k) for k, word in enumerate(self.words)}
        encoded = given if pa.types.is_dictionary(given.type) else given.dictionary_encode()
        codes = np.array([code.get(str(each), -1.0) for each in encoded.dictionary.to_pylist()] + [np.nan])
        which = np.nan_to_num(encoded.indices.to_numpy(zero_copy_only=False), nan=-1).astype(np.int64)
        return np.asarray(codes[which], np.float64)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


@dataclass(frozen=True, slots=True)
class History:
    """Complete (or nearly complete) rows of the past, in columns."""

    columns: Mapping[str, Column]
    rows: int

    def sample(self, most: int, seed: int) -> History:
        """These rows, or so many of them, in their order."""
        if self.rows <= most:
            return self
        return self.part(np.sort(np.random.default_rng(seed).choice(self.rows, most, replace=False)))

    def part(self, rows: Ints) -> History:
        """Some of the rows."""
        return History(
            {name: Column(column.values[rows], column.words) for name, column in self.columns.items()}, len(rows)
        )

    def like(self, other: History) -> History:
        """The same rows with the other's columns: what is not there is missing, words get the other's codes first."""
        columns = {}
        for name, model in other.columns.items():
            column = self.columns.get(name, Column(np.full(self.rows, np.nan), model.words))
            if (column.words is None) != (model.words is None) and not np.isnan(column.values).all():
                raise HistoryError(f"{name!r} holds {'words' if column.words else 'numbers'} now, and did not before.")
            if model.words is not None and column.words is not None:
                words = tuple(dict.fromkeys((*model.words, *column.words)))
                code = np.array([*(words.index(word) for word in column.words), np.nan])
                which = np.nan_to_num(column.values, nan=-1).astype(np.int64)
                column = Column(np.asarray(code[which], np.float64), words)
            columns[name] = column
        return History(columns, self.rows)

    def in_order(self, query: Query, newest: int | None = None) -> History:
        """These rows by their times, each (group, id, time) once; only the newest so many of them."""
        keys = [name for name in (*query.by, query.id, query.time) if name in self.columns]
        rows = np.arange(self.rows)
        if query.time in self.columns:
            if query.id in self.columns:
                named = np.stack([self.columns[name].values for name in keys], axis=1)
                rows = np.sort(np.unique(named, axis=0, return_index=True)[1])
            rows = rows[np.argsort(self.columns[query.time].values[rows], kind="stable")]
        return self.part(rows if newest is None else rows[-newest:])

    def joined(self, more: History) -> History:
        """These rows and then those, which are `like` these."""
        both = {
            name: Column(np.concatenate((column.values, more.columns[name].values)), more.columns[name].words)
            for name, column in self.columns.items()
        }
        return History(both, self.rows + more.rows)

    def column(self, name: str, role: str) -> Column:
        """A column, or an error with a guess."""
        if name not in self.columns:
            known = sorted(self.columns)
            raise HistoryError(
                f"the history has no {role} {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}"
            )
        return self.columns[name]


def read_history(data: Any, query: Query) -> History:
    """A history from an Arrow table, a pandas frame or a list of dicts; only columns of numbers or words count."""
    if isinstance(data, History):
        return data
    table = as_table(data)
    columns = {}
    for name in table.schema.names:
        column = _times(table.column(name), name) if name == query.time else _column(table.column(name))
        if column is not None and column.words is None:
            low, high = query.limits.get(name, (-np.inf, np.inf))
            wrong = np.isinf(column.values) | (column.values < low) | (column.values > high)
            if wrong.any():
                column = Column(np.where(wrong, np.nan, column.values))
        if column is not None:
            columns[name] = column
    history = History(columns, table.num_rows)
    for name in query.names:
        if history.column(name, "attribute").words is not None:
            raise HistoryError(f"attribute {name!r} of the history holds words; a skyline needs numbers.")
    return history


def in_order(table: pa.Table, query: Query) -> pa.Table:
    """Oldest first, if the rows have times: what is newest is held out when rules are judged."""
    keys = [(name, "ascending") for name in (query.time, query.id) if name in table.schema.names]
    sortable = [key for key in keys if not pa.types.is_nested(table.schema.field(key[0]).type)]
    return table.sort_by(sortable) if query.time in table.schema.names else table


def as_table(data: Any) -> pa.Table:
    """An Arrow table of what came as one, as a frame or as dicts."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, list):
        return pa.Table.from_pylist(data)
    raise HistoryError(f"a history is an Arrow table, a pandas frame or a list of dicts, not {type(data).__name__}.")


def _times(column: pa.ChunkedArray, name: str) -> Column | None:
    """The clock of the stream, read as a stream's is; texts of which none is an instant are words."""
    kind = column.type
    if not (is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return _column(column)
    times = read_times(joined_column(column.chunks or [pa.array([], kind)], name), name)
    return _column(column) if times.refused and np.isnan(times.value).all() else Column(times.value)


def _column(column: pa.ChunkedArray) -> Column | None:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_null(kind):
        return Column(np.full(len(column), np.nan))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Column(np.array(column.cast(pa.float64(), safe=False).to_numpy(), np.float64))
    if pa.types.is_boolean(kind):
        return Column(column.cast(pa.uint8()).cast(pa.float64()).to_numpy(), ("False", "True"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        codes = column.combine_chunks().dictionary_encode()
        if isinstance(codes, pa.ChunkedArray):
            codes = codes.combine_chunks()
        order = np.argsort(words := np.array(codes.dictionary.to_pylist(), object))
        rank = np.empty(len(order))
        rank[order] = np.arange(len(order))
        index = codes.indices.to_numpy(zero_copy_only=False).astype(np.float64)
        values = np.where(np.isnan(index), np.nan, rank[np.nan_to_num(index).astype(np.int64)]) if len(rank) else index
        return Column(values, tuple(words[order]))
    return None
