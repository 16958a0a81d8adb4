"""Which columns of a row does an imputer ask for, in history's terms?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats, Ints, Revisions
from fogline.errors import FoglineError, RowsError, did_you_mean
from fogline.query import Query
from fogline.repository.history import Column
from fogline.rows.cells import PAIRS, Reasons, is_text, mended, read_cells
from fogline.rows.table import RowSource


class Determinants:
    """Attributes of the query as they were decoded, other columns as the history would have them."""

    def __init__(self, names: Sequence[str], columns: Mapping[str, Column], query: Query) -> None:
        self.columns, self.width = columns, len(names)
        self.at = {name: k for k, name in enumerate(names)}
        self.attributes = [(k, query.names.index(name)) for name, k in self.at.items() if name in query.attributes]
        self.others = [(k, name) for name, k in self.at.items() if name not in query.attributes]

    def look(self, rows: Evidence) -> Floats:
        """(n, width) NaN where a column is missing."""
        out = np.full((len(rows.values), self.width), np.nan)
        for k, j in self.attributes:
            out[:, k] = rows.values[:, j]
        for k, name in self.others:
            if (column := rows.column(name)) is not None:
                out[:, k] = self.columns[name].encode(column)
        return out


# --- imputer ---
# What may a missing cell be? The one protocol for everything that answers.
#
# An imputer *looks* at rows once, as they come, and keeps a few numbers of each. From those numbers alone it is asked
# later, if it comes to that: for bounds, which are often enough, or for the distribution itself. So a row can wait in
# the
# live set, in a parcel or in a snapshot, and be imputed when it matters. An imputer that cannot wait (`lasting`
# False: a
# function of the user's, a model that walks along the stream) is asked right after it has looked, before it looks
# again.
#
# The contract, which `tests/impute/test_contract.py` holds every imputer to:
#
# - `able`, `bounds` and `distributions` agree: where an imputer has no answer, it is not able, its bounds are NaN and
#   its
#   distribution has size 0;
# - bounds are the ends of the distribution; `rough` ones may lie beyond, where that is quicker, never within;
# - values of a distribution are finite and strictly increasing, how often each occurs is positive;
# - an answer depends on the row's own numbers: on no other row of the call, nor on the order of the rows.
#
# An imputer that gains by hindsight has a few methods more (`Hindsight`): a later reading of the row's sensor is
# *noted*
# among the row's numbers, an answer is *open* as long as such a reading may change it, and its *reach* is what it may
# ever come to, now or then. An answer that a reading has changed is final.
#
# - reach holds the bounds, and `rough` reach holds it; where an answer is not open, reach is the bounds;
# - where an imputer is not able but may become so, its reach is what it may answer then, and elsewhere it is NaN.


@dataclass(frozen=True, slots=True)
class Evidence:
    """What imputers may look at: rows as they came, their attributes decoded."""

    values: Floats  # (n, d) attributes as the user sees them; NaN where missing, implausible or a distribution
    missing: Flags  # (n, d) the cells to be imputed
    source: RowSource  # every column, as it came
    which: Ints | None = None  # (n,) which rows of the source these are; None: all of them
    context: Floats | None = None  # (n, w) what the row's sensor has read before, where sensors are remembered
    refused: Reasons = field(default_factory=dict)  # rows whose imputed cells make no sense; an imputer may add to it

    def column(self, name: str) -> pa.Array | None:
        """A column of these rows, if there is one."""
        column = self.source.optional(name)
        if column is not None and is_text(column.type):
            column, _ = mended(column)
        return column if column is None or self.which is None else column.take(pa.array(self.which))

    def part(self, which: Ints) -> Evidence:
        """Some of these rows."""
        rows = which if self.which is None else self.which[which]
        context = None if self.context is None else self.context[which]
        return Evidence(self.values[which], self.missing[which], self.source, rows, context)

    def hiding(self, attribute: Ints) -> Evidence:
        """The same rows, each without one attribute (n,) more."""
        values, missing, each = self.values.copy(), self.missing.copy(), np.arange(len(attribute))
        values[each, attribute], missing[each, attribute] = np.nan, True
        return Evidence(values, missing, self.source, self.which, self.context)


class Imputer(Protocol):
    """See the module. `j` is the number of an attribute of the query; `known` (n, width) is what `look` gave."""

    name: str
    width: int  # numbers kept of a row
    lasting: bool  # whether it can be asked at any time later; else right after `look` only

    def look(self, rows: Evidence) -> Floats:
        """(n, width) what it will need of these rows."""

    def able(self, known: Floats, j: int) -> Flags:
        """(n,) for which rows it can impute attribute j."""

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        """(n,) least and greatest possible value of attribute j; NaN where it is not able."""

    def distributions(self, known: Floats, j: int) -> Distributions:
        """A distribution of attribute j for each row; of size 0 where it is not able."""

    def sources(self, j: int) -> Sequence[str]:
        """What the numbers in `Distributions.source` stand for: rules, or just the imputer's name."""


@runtime_checkable
class Hindsight(Protocol):
    """What an imputer has beside the rest if a later reading may change its answers; see the module."""

    def note(self, known: Floats, revisions: Revisions) -> Floats:
        """(n, width) the numbers of rows after the reading of each was noted; what is noted already stays."""

    def first(self, known: Floats) -> Floats:
        """(n, width) the numbers of rows as if no later reading were known."""

    def open(self, known: Floats, j: int) -> Flags:
        """(n,) for which rows a later reading may still change the answer about attribute j, or give one."""

    def reach(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        """(n,) least and greatest value that attribute j may ever be given."""


class Eager:
    """A base for imputers that answer as they look: `impute` gives, per attribute, distributions for all rows.

    `known` is the number of the row among those last looked at.
    """

    width, lasting = 1, False

    def __init__(self, name: str) -> None:
        self.name = name
        self.answers: dict[int, Distributions] = {}

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        """Per attribute, a distribution for each row: of size 0 where nothing is missing, or nothing is known."""
        raise NotImplementedError

    def look(self, rows: Evidence) -> Floats:
        self.answers = self.impute(rows)
        return np.arange(len(rows.values), dtype=np.float64)[:, None]

    def able(self, known: Floats, j: int) -> Flags:
        return np.asarray(self.distributions(known, j).size > 0)

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return ends(self.distributions(known, j))

    def distributions(self, known: Floats, j: int) -> Distributions:
        found, which = self.answers.get(j), known[:, 0].astype(np.int64)
        return nothing(len(which)) if found is None else part(found, which)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)


def nothing(n: int) -> Distributions:
    """No answer for any of n rows."""
    none = np.zeros(n, np.int64)
    return Distributions(none, none, np.empty(0), np.empty(0), none)


def part(found: Distributions, which: Any) -> Distributions:
    """Some of the distributions; the values are shared."""
    return found._replace(start=found.start[which], size=found.size[which], source=found.source[which])


def spread(found: Distributions, able: Flags) -> Distributions:
    """Distributions of the rows that are able (one each, or one for every row), for all rows: of size 0 for the
    others."""
    if able.all():
        return found
    if len(found.size) != len(able):
        found = part(found, np.maximum(np.cumsum(able) - 1, 0))
    return found._replace(size=np.where(able, found.size, 0))


def ends(found: Distributions) -> tuple[Floats, Floats]:
    """(n,) the least and the greatest value of each distribution; NaN where there is none."""
    low, high = np.full(len(found.size), np.nan), np.full(len(found.size), np.nan)
    there = found.size > 0
    low[there] = found.value[found.start[there]]
    high[there] = found.value[found.start[there] + found.size[there] - 1]
    return low, high


def points(value: Floats) -> Distributions:
    """Single values (n,) as distributions; NaN: none."""
    there = ~np.isnan(value)
    size = there.astype(np.int64)
    zeros = np.zeros(len(value), np.int64)
    return Distributions(np.cumsum(size) - size, size, value[there], np.ones(int(size.sum())), zeros)


def listed(value: Floats, often: Floats | None = None) -> Distributions:
    """Lists of values (n, k), in any order and NaN for none, as distributions; equal values are merged."""
    weight = np.ones(value.shape) if often is None else often
    order = np.argsort(value, axis=1, kind="stable")
    value, weight = np.take_along_axis(value, order, 1), np.take_along_axis(weight, order, 1)
    there = ~np.isnan(value)
    first = there.copy()
    first[:, 1:] &= value[:, 1:] != value[:, :-1]
    size = first.sum(axis=1)
    start = np.cumsum(size) - size
    group = np.cumsum(first.ravel())[there.ravel()] - 1
    total = np.asarray(np.bincount(group, weight[there], int(size.sum())), np.float64)
    return Distributions(start, size, value[first], total, np.zeros(len(size), np.int64))


# --- function ---
# What may a missing cell be, according to a function of the user's own?
#
# An impute function takes a record batch: the rows that lack something, cells outside their limits being null like
# the
# others. It returns, for the attributes it knows something about, one answer per row: a number, a list of (value,
# weight)
# pairs, or null. What it leaves open is left to the imputers after it.
#
# It sees one batch at a time, and batches are cut anyhow: its answer for a row should depend on that row alone.

ImputeFunction = Callable[[pa.RecordBatch], Mapping[str, Any]]


def as_imputer(given: Any, query: Query) -> Imputer:
    """An imputer as it is; a function as an imputer."""
    if all(hasattr(given, name) for name in ("look", "able", "bounds", "distributions", "sources")):
        checked: Imputer = given
        return checked
    if callable(given):
        return Function(given, query)
    raise FoglineError(
        f"imputer is {type(given).__name__}; it is an Imputer, or a function from a record batch to distributions per "
        "attribute."
    )


class Function(Eager):
    """Asks a function of the user's, at once, about the rows that lack something."""

    def __init__(self, function: ImputeFunction, query: Query) -> None:
        super().__init__(getattr(function, "__name__", type(function).__name__))
        self.function, self.query = function, query

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        which = np.flatnonzero(rows.missing.any(axis=1))
        if not len(which):
            return {}
        asked = rows.part(which)
        answer = self.function(self._table(asked))
        self._check(answer, len(which))
        number = np.full(len(rows.values), -1)
        number[which] = np.arange(len(which))
        found = {}
        for j, name in enumerate(self.query.names):
            if answer.get(name) is not None:
                given = self._read(answer[name], j, asked, rows.refused)
                found[j] = spread(part(given, np.maximum(number, 0)), number >= 0)
        return found

    def _table(self, rows: Evidence) -> pa.RecordBatch:
        """The rows with every column; attributes as numbers or pairs, null where missing."""
        columns = []
        for name in rows.source.names:
            is_attribute = name in self.query.attributes
            columns.append(self._cells(rows, name) if is_attribute else rows.column(name))
        return pa.RecordBatch.from_arrays(columns, list(rows.source.names))

    def _cells(self, rows: Evidence, name: str) -> pa.Array:
        """An attribute as numbers; where rows came with distributions, as pairs."""
        j = self.query.names.index(name)
        if not (np.isnan(rows.values[:, j]) & ~rows.missing[:, j]).any():
            return pa.array(rows.values[:, j], from_pandas=True)
        cells = read_cells(rows.source.require(name, "attribute"), name, {})
        return cells if rows.which is None else cells.take(pa.array(rows.which))

    def _check(self, answer: Any, rows: int) -> None:
        if not isinstance(answer, Mapping):
            raise RowsError(f"the imputer returned {type(answer).__name__}, not a mapping from attributes to answers.")
        for name, cells in answer.items():
            if name not in self.query.attributes:
                raise RowsError(
                    f"the imputer answers for {name!r}, which is no attribute of the query."
                    f"{did_you_mean(name, self.query.names)}"
                )
            if len(cells) != rows:
                raise RowsError(f"the imputer returned {len(cells)} cells of {name!r} for {rows} rows.")

    def _read(self, cells: Any, j: int, rows: Evidence, refused: Reasons) -> Distributions:
        """Answers as distributions: within the limits; a value or weight that is none refuses the row."""
        name, problems = self.query.names[j], Reasons()
        found = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
        column = read_cells(found if isinstance(found, pa.Array) else list(found), name, problems)
        if problems:
            raise RowsError(f"the imputer cannot be understood: {next(iter(problems.values()))}.")
        value, weight, length = _padded(column)
        wrong = (np.arange(value.shape[1]) < length[:, None]) & rows.missing[:, [j]]
        for bad, reason in (
            (wrong & ~np.isfinite(value), f"{name!r} holds a value that is missing or not finite"),
            (wrong & ~((weight > 0) & np.isfinite(weight)), f"{name!r} holds a weight that is not positive"),
        ):
            for i in np.flatnonzero(bad.any(axis=1)).tolist():
                refused.setdefault(int(i if rows.which is None else rows.which[i]), reason)
        low, high = self.query.limits.get(name, (-np.inf, np.inf))
        fine = np.isfinite(value) & (weight > 0) & np.isfinite(weight) & (value >= low) & (value <= high)
        return listed(np.where(fine, value, np.nan), np.where(fine, weight, 1.0))


def _padded(column: pa.Array) -> tuple[Any, Any, Ints]:
    """(n, k) values and weights of each cell, NaN behind its end, and how many there are."""
    if column.type != PAIRS:
        value = np.array(column.to_numpy(zero_copy_only=False), np.float64)[:, None]
        return value, np.ones(value.shape), (~np.isnan(value[:, 0])).astype(np.int64)
    length = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = column.flatten()
    inside = np.arange(max(1, length.max(initial=0))) < length[:, None]
    value, weight = np.full(inside.shape, np.nan), np.full(inside.shape, np.nan)
    value[inside], weight[inside] = (each.to_numpy(zero_copy_only=False) for each in flat.flatten())
    return value, weight, length
