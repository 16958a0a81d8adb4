"""The history: rows of the past as columns of numbers.

Every column becomes float64 with NaN for missing: numbers as they are, words as codes that are close only when equal.
Words are texts and booleans, and whatever is in the columns that name rows and groups: an id is called the same whether
it came as 5, as 5.0 or as "5", and ids beyond 2^53 stay apart. Missing are also values outside the query's limits,
infinite ones, and texts in an attribute that are no numbers; those are counted.

A row that lacks one attribute still serves every rule that does not need it. A history that has no value of an
attribute teaches nothing about it, and is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fogline.arrays import Flags, Floats, Ints
from fogline.errors import HistoryError, HistoryWarning, did_you_mean
from fogline.query import UNHELD, Query
from fogline.repository.sensors.state import sensor_names
from fogline.rows.cells import is_text, read_numbers, reals, unheld_texts
from fogline.rows.clock import read_times
from fogline.rows.table import arrow_table, joined_column
from fogline.show import quoted

TEXTS = pa.large_string()


@dataclass(frozen=True, eq=False)
class Words:
    """Distinct texts; the code of each is its position.

    They lie as Arrow holds texts: all letters in one array, where each word ends in another. So a million of them are
    two files that are mapped, and no process reads them before it looks one up.
    """

    texts: pa.Array  # TEXTS, without nulls

    @classmethod
    def of(cls, words: Iterable[str]) -> Words:
        """Words from Python."""
        return cls(pa.array(words, TEXTS))

    @classmethod
    def from_arrays(cls, ends: Ints, letters: NDArray[np.uint8]) -> Words:
        """The inverse of `arrays`: nothing is copied."""
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
        return cls(pa.Array.from_buffers(TEXTS, len(ends) - 1, buffers))

    def arrays(self) -> tuple[Ints, NDArray[np.uint8]]:
        """(words + 1,) where each ends, from 0 on; and all letters."""
        if not len(self.texts):
            return np.zeros(1, np.int64), np.empty(0, np.uint8)
        _, ends, letters = self.texts.buffers()
        at = np.frombuffer(ends, np.int64)[self.texts.offset : self.texts.offset + len(self.texts) + 1]
        pool = np.frombuffer(letters, np.uint8) if letters is not None else np.empty(0, np.uint8)
        return at - at[0], pool[at[0] : at[-1]]

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, asked: pa.Array) -> Ints:
        """(n,) the codes of texts; -1: not among the words. Looked up one by one: for few texts."""
        return np.array([self._codes.get(each, -1) for each in asked.cast(pa.large_binary()).to_pylist()], np.int64)

    @cached_property
    def _codes(self) -> dict[bytes, int]:
        """Made when a word is looked up for the first time; by bytes, since not every text is valid UTF-8."""
        return {word: k for k, word in enumerate(self.texts.cast(pa.large_binary()).to_pylist())}

    def joined(self, more: Words) -> tuple[Words, Ints]:
        """These words and then the new ones of `more`; and the codes of all words of `more` in that. Linear in both."""
        there = pc.index_in(more.texts, value_set=self.texts)
        new = there.is_null().to_numpy(zero_copy_only=False)
        codes = np.asarray(there.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        codes[new] = len(self) + np.arange(int(new.sum()))
        return Words(pa.concat_arrays([self.texts, more.texts.filter(pa.array(new))])), codes


def sorted_words(texts: pa.Array) -> Words:
    """The distinct ones of these texts, sorted: the same wherever they come from."""
    return _ranked(pc.unique(texts).drop_null())[1]


def coded(column: pa.Array) -> tuple[Floats, Words]:
    """(n,) codes of texts, or of whole numbers as texts, NaN where there is none; and the words, sorted."""
    encoded = column.dictionary_encode()
    rank, words = _ranked(encoded.dictionary.cast(TEXTS))
    return recoded(encoded.indices.to_numpy(zero_copy_only=False), rank), words


def _ranked(distinct: pa.Array) -> tuple[Ints, Words]:
    """(n,) the codes of distinct texts among the words, which are the same texts sorted; and the words."""
    order = pc.array_sort_indices(distinct)
    rank = np.empty(len(distinct), np.int64)
    rank[order.to_numpy()] = np.arange(len(distinct))
    return rank, Words(distinct.take(order))


def recoded(codes: Any, table: Any) -> Floats:
    """(n,) codes (NaN: none) translated: code k becomes table[k]."""
    wide = np.append(np.asarray(table, np.float64), np.nan)
    return np.asarray(wide[np.nan_to_num(np.asarray(codes, np.float64), nan=-1.0).astype(np.int64)], np.float64)


def as_texts(column: pa.Array) -> pa.Array:
    """Values as texts, as sensors are named: 5, 5.0 and "5" are the same. Infinite: missing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.cast(TEXTS)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, None)
    encoded = column.dictionary_encode()
    called = pa.array([name for (name,) in sensor_names(encoded.dictionary.to_pylist())], TEXTS)
    return called.take(encoded.indices)


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of the history."""

    values: Floats  # (n,) NaN = missing
    words: Words | None = None  # what the codes 0, 1, … stand for; None: numbers

    def encode(self, given: pa.Array) -> Floats:
        """(n,) values of a stream as this column has them. A word that the history does not know is -1: no row has it.

        What cannot be read as a number is missing: a determinant never makes a row invalid.
        """
        if self.words is None:
            if pa.types.is_string(given.type) or pa.types.is_large_string(given.type):
                given = pa.array(read_numbers(given)[0])
            if not (pa.types.is_integer(given.type) or pa.types.is_floating(given.type)):
                given = pa.array([_number(each) for each in given.to_pylist()], pa.float64())
            values = np.array(given.to_numpy(zero_copy_only=False), np.float64)
            return np.where(np.isfinite(values), values, np.nan)
        encoded = as_texts(given).dictionary_encode()
        return recoded(encoded.indices.to_numpy(zero_copy_only=False), self.words.find(encoded.dictionary))

    def called(self, values: Floats) -> list[str]:
        """The names of rows with these values, where the column names rows or groups."""
        if self.words is None:
            return [str(name) for (name,) in sensor_names(values.tolist())]
        return list(self.words.texts.take(pa.array(values.astype(np.int64))).to_pylist())


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


Texts = tuple[int, str]  # how many cells are texts that are no numbers, and one of them


@dataclass(frozen=True, slots=True)
class History:
    """Complete (or nearly complete) rows of the past."""

    columns: Mapping[str, Column]
    rows: int
    texts: Mapping[str, Texts] = field(default_factory=dict)  # of the attributes where there are any

    def sample(self, most: int, seed: int) -> History:
        """At most so many of the rows, drawn at random, in their order."""
        if self.rows <= most:
            return self
        return self.part(np.sort(np.random.default_rng(seed).choice(self.rows, most, replace=False)))

    def part(self, rows: Ints) -> History:
        """Some of the rows."""
        return History(
            {name: Column(column.values[rows], column.words) for name, column in self.columns.items()},
            len(rows),
            self.texts,
        )

    def like(self, other: History) -> History:
        """The same rows with the other's columns: one that is not there is missing, words get the other's codes.

        New words come behind the other's. O(rows and words of both).
        """
        columns = {}
        for name, model in other.columns.items():
            column = self.columns.get(name, Column(np.full(self.rows, np.nan), model.words))
            if (column.words is None) != (model.words is None) and not np.isnan(column.values).all():
                raise HistoryError(f"{name!r} holds {'words' if column.words else 'numbers'} now, and did not before.")
            if model.words is not None and column.words is not None:
                words, codes = model.words.joined(column.words)
                column = Column(recoded(column.values, codes), words)
            columns[name] = column
        return History(columns, self.rows, self.texts)

    def in_order(self, query: Query, newest: int | None = None) -> History:
        """These rows sorted by time, each (group, id, time) once; only the newest so many of them.

        Rows without a time come first: they are of no known time, and count as the oldest.
        """
        keys = [name for name in (*query.by, query.id, query.time) if name in self.columns]
        rows = np.arange(self.rows)
        if query.time in self.columns:
            if query.id in self.columns:
                rows = self._first_of(keys)
            time = self.columns[query.time].values[rows]
            rows = rows[np.argsort(np.where(np.isnan(time), -np.inf, time), kind="stable")]
        return self.part(rows if newest is None else rows[-newest:])

    def _first_of(self, keys: Sequence[str]) -> Ints:
        """Of rows with equal values in these columns the first; rows that lack any of them all stay."""
        there = ~np.any([np.isnan(self.columns[name].values) for name in keys], axis=0)
        named = np.flatnonzero(there)
        _, first = numbered([self.columns[name].values[named] for name in keys])
        return np.sort(np.concatenate((np.flatnonzero(~there), named[first])))

    def joined(self, more: History) -> History:
        """These rows and then those, which are `like` these."""
        both = {
            name: Column(np.concatenate((column.values, more.columns[name].values)), more.columns[name].words)
            for name, column in self.columns.items()
        }
        return History(both, self.rows + more.rows, more.texts)

    def column(self, name: str, role: str) -> Column:
        """A column, or an error with a guess."""
        if name not in self.columns:
            known = sorted(self.columns)
            raise HistoryError(
                f"the history has no {role} {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}"
            )
        return self.columns[name]


def numbered(columns: Sequence[Floats]) -> tuple[Ints, Ints]:
    """(n,) numbers from 0 on that are equal where the values (n,) of all columns are; and the first row of each.

    >>> numbered([np.array([5.0, 7.0, 5.0]), np.array([1.0, 1.0, 1.0])])
    (array([0, 1, 0]), array([0, 1]))
    """
    code = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        distinct, number = np.unique(values, return_inverse=True)
        code = np.unique(code * len(distinct) + number, return_inverse=True)[1]  # stays below the number of rows
    return code, np.unique(code, return_index=True)[1]


def read_history(data: Any, query: Query) -> History:
    """A history from a table of any kind; only columns of numbers or words count."""
    if isinstance(data, History):
        return data
    table = arrow_table(data)
    names, columns = {query.id, *query.by} - {*query.names}, {}
    texts: dict[str, Texts] = {}
    for name in table.schema.names:
        read = _times if name == query.time else _names if name in names else _column
        column: Column | None
        if name in query.names and is_text(_plain(table.schema.field(name).type)):
            column, texts[name] = _numbers(table.column(name), name)
        else:
            column = read(table.column(name), name)
        if name in query.names:
            _must_hold(table.column(name), name)
        if column is not None and column.words is None:
            low, high = query.limits.get(name, (-np.inf, np.inf))
            wrong = np.isinf(column.values) | (column.values < low) | (column.values > high)
            if wrong.any():
                column = Column(np.where(wrong, np.nan, column.values))
        if column is not None:
            columns[name] = column
    history = History(columns, table.num_rows, {name: found for name, found in texts.items() if found[0]})
    for name in query.names:
        if history.column(name, "attribute").words is not None:
            raise HistoryError(f"attribute {name!r} of the history holds words; a skyline needs numbers.")
    return history


def check_teaches(history: History, query: Query, otherwise: Collection[str] = ()) -> None:
    """Refuse a history from which nothing can be learnt about an attribute; warn of cells that count as missing.

    `otherwise`: attributes that can be imputed without it.
    """
    if not history.rows:
        raise HistoryError("the history has no rows, so nothing can be learnt from it; is it the right file?")
    for name in query.names:
        count, example = history.texts.get(name, (0, ""))
        if name not in otherwise and np.isnan(history.column(name, "attribute").values).all():
            why = f": {count:,} are texts, such as {quoted(example)}" if count else ""
            why += ", the others are missing" if 0 < count < history.rows else "" if count else ": all are missing"
            why += f" or outside its limits, {list(query.limits[name])}" if name in query.limits and not count else ""
            raise HistoryError(
                f"none of the {history.rows:,} rows of the history has a number in {name!r}{why}. What it may be "
                "cannot be learnt: take a history that has it, or leave it out of the query."
            )
        if count:
            warnings.warn(
                f"{count:,} of {history.rows:,} cells of {name!r} in the history are texts, such as {quoted(example)}: "
                "they count as missing.",
                HistoryWarning,
                stacklevel=2,
            )


def in_order(table: pa.Table, query: Query) -> pa.Table:
    """Oldest first, if the rows have times: the newest are held out when rules are judged. Those without a time are
    of no known one, and come before all others.
    """
    keys = [(name, "ascending") for name in (query.time, query.id, *query.by) if name in table.schema.names]
    sortable = [key for key in keys if not pa.types.is_nested(table.schema.field(key[0]).type)]
    if query.time not in table.schema.names:
        return table
    dated = pc.invert(pc.is_null(table.column(query.time), nan_is_null=True))
    plain = pa.table({"": dated} | {f" {name}": _decoded(table.column(name)) for name, _ in sortable})
    return table.take(pc.sort_indices(plain, [("", "ascending"), *((f" {name}", way) for name, way in sortable)]))


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without a dictionary: Arrow does not sort by one."""
    return column.cast(_plain(column.type))


def _times(column: pa.ChunkedArray, name: str) -> Column | None:
    """The times, read as those of a stream; texts of which none is an instant are words."""
    kind = column.type
    if not (is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return _column(column, name)
    times = read_times(joined_column(column.chunks or [pa.array([], kind)], name), name)
    return _column(column, name) if times.refused and np.isnan(times.value).all() else Column(times.value)


def _names(column: pa.ChunkedArray, name: str) -> Column | None:
    """What names rows or groups: words, whatever type it came as."""
    kind = _plain(column.type)
    if pa.types.is_integer(kind):
        return Column(*coded(_whole(column.cast(kind))))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return Column(*coded(as_texts(_whole(column))))
    return _column(column, name)


def _numbers(column: pa.ChunkedArray, name: str) -> tuple[Column, Texts]:
    """An attribute that came as texts: the numbers, and the texts that are none."""
    whole = _whole(column.cast(TEXTS))
    values, bad = read_numbers(whole)
    refuse_unheld(whole, unheld_texts(whole, values), name)
    at = np.flatnonzero(bad)
    return Column(values), (len(at), whole[int(at[0])].as_py() if len(at) else "")


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _column(column: pa.ChunkedArray, _: str) -> Column | None:
    kind = _plain(column.type)
    if kind != column.type:
        column = column.cast(kind)
    if pa.types.is_null(kind):
        return Column(np.full(len(column), np.nan))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        found = [reals(each)[0] for each in column.chunks]
        return Column(np.array(pa.chunked_array(found, pa.float64()).to_numpy(), np.float64))
    if pa.types.is_boolean(kind):
        return Column(column.cast(pa.uint8()).cast(pa.float64()).to_numpy(), Words.of(("False", "True")))
    if is_text(kind):
        return Column(*coded(_whole(column.cast(TEXTS))))
    return None


def _must_hold(column: pa.ChunkedArray, name: str) -> None:
    """An error for a value that a stream would reject: a float would hold another number instead."""
    kind = _plain(column.type)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        for chunk in column.chunks:
            plain = chunk.cast(kind)
            refuse_unheld(plain, reals(plain)[1], name)


def refuse_unheld(column: pa.Array, unheld: Flags | None, name: str) -> None:
    """An error that names the first value that no float holds, if there is one."""
    for i in [] if unheld is None else np.flatnonzero(unheld).tolist():
        raise HistoryError(f"{name!r} is {column[i].as_py()} in the history, {UNHELD} (in the stream as well).")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
