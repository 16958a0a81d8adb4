"""What may a missing cell be, according to a function of the user's own?

An impute function takes a record batch: the rows that lack something, cells outside their limits being null like the
others. It returns, for the attributes it knows something about, one answer per row: a number, a list of (value, weight)
pairs, or null. What it leaves open is left to the imputers after it.

It sees one batch at a time, and batches are cut anyhow: its answer for a row should depend on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Ints
from fogline.errors import FoglineError, RowsError, did_you_mean
from fogline.impute.imputer import Eager, Evidence, Imputer, listed, part, spread
from fogline.model import Query
from fogline.rows.cells import PAIRS, read_cells
from fogline.rows.clock import Reasons

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
