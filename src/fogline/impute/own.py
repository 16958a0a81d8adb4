"""Imputers that a user passes: a function of their own, or the nearest rows of a history (`knn`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.errors import FoglineError, HistoryError, RowsError, did_you_mean
from fogline.impute.protocol import BaseImputer, Eager, Evidence, Imputer, listed, part, spread
from fogline.query import Query
from fogline.repository.history import read_history
from fogline.rows.cells import PAIRS, Reasons, read_cells
from fogline.show import count_of

DRAWN, SEED = 20_000, 13  # rows of a longer history that `knn` looks at, drawn with this seed

OF_IMPUTERS = ("name", "width", "lasting", "look", "able", "bounds", "distributions", "sources")  # see `Imputer`

ImputeFunction = Callable[[pa.RecordBatch], Mapping[str, Any]]


def as_imputer(given: Any, query: Query) -> Imputer:
    """What was passed as `imputer=…`: an imputer as it is, a function wrapped in `Function`."""
    lacking = [name for name in OF_IMPUTERS if not hasattr(given, name)]
    if not lacking and not isinstance(given, type):
        checked: Imputer = given
        return checked
    kind = given if isinstance(given, type) else type(given)
    if hasattr(kind, "look") or hasattr(kind, "distributions"):
        if isinstance(given, type):
            raise FoglineError(f"imputer is the class {given.__name__}; give an object of it, {given.__name__}(…).")
        raise FoglineError(
            f"imputer {kind.__name__} lacks {', '.join(lacking)}; derive it from "
            "fogline.impute.protocol.BaseImputer, or add what is lacking."
        )
    if callable(given):
        return Function(given, query)
    raise FoglineError(
        f"imputer is {kind.__name__}; it is an Imputer, or a function from a record batch to distributions per "
        "attribute."
    )


class Function(Eager):
    """Asks a function of the user's about the rows with gaps, as soon as they come.

    The function takes a record batch of these rows; attributes that are missing or outside their limits are null. It
    returns, per attribute it knows about, one answer per row: a number, a list of (value, weight) pairs, or null. Gaps
    that it leaves are filled by the imputers after it. How rows are cut into batches is not defined, so its answer for
    a row should depend on that row alone.
    """

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
        """The rows with all columns; attributes as numbers or pairs, null where missing."""
        columns = []
        for name in rows.source.names:
            is_attribute = name in self.query.attributes
            columns.append(self._cells(rows, name) if is_attribute else rows.column(name))
        return pa.RecordBatch.from_arrays(columns, list(rows.source.names))

    def _cells(self, rows: Evidence, name: str) -> pa.Array:
        """An attribute as numbers, or as pairs if any row came with a distribution."""
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
            count = 0 if cells is None else _count(cells)
            if cells is not None and count != rows:
                returned = type(cells).__name__ if count is None else count_of(count, "cell")
                raise RowsError(
                    f"the imputer returned {returned} of {name!r} for {count_of(rows, 'row')}; it returns a list, "
                    "or an array, with one for each."
                )

    def _read(self, cells: Any, j: int, rows: Evidence, refused: Reasons) -> Distributions:
        """Answers as distributions, within the limits. A value or weight that makes no sense refuses its row."""
        name, problems = self.query.names[j], Reasons()
        found = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
        column = read_cells(found if isinstance(found, pa.Array) else list(found), name, problems)
        if problems:
            raise RowsError(f"an answer of the imputer cannot be read: {next(iter(problems.values()))}.")
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


def _count(cells: Any) -> int | None:
    """How many answers there are; None: this is no column of answers, such as one number for all rows."""
    with suppress(TypeError):
        return None if isinstance(cells, str | bytes | Mapping) else len(cells)
    return None


def _padded(column: pa.Array) -> tuple[Any, Any, Ints]:
    """(n, k) values and weights of the cells, NaN after the last, and (n,) how many there are."""
    if column.type != PAIRS:
        value = np.array(column.to_numpy(zero_copy_only=False), np.float64)[:, None]
        return value, np.ones(value.shape), (~np.isnan(value[:, 0])).astype(np.int64)
    length = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = column.flatten()
    inside = np.arange(max(1, length.max(initial=0))) < length[:, None]
    value, weight = np.full(inside.shape, np.nan), np.full(inside.shape, np.nan)
    value[inside], weight[inside] = (each.to_numpy(zero_copy_only=False) for each in flat.flatten())
    return value, weight, length


def knn(history: Any, query: Query, k: int = 10) -> Neighbours:
    """An imputer: the values that the `k` nearest rows of history have.

    Distance is over the attributes that a row has, each scaled by its spread; a row that has none is not filled. For
    histories without sensors and times, whose attributes move together; not for many rows a second, since each is
    compared with all of the history (or 20,000 rows of it).

    >>> import pyarrow as pa
    >>> from fogline import Monitor
    >>> query = Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
    >>> history = pa.table({"gas": [0.0, 10.0, 10.0, 10.0], "oxygen": [19.0, 19.1, 18.9, 19.2]})
    >>> monitor = Monitor(query, imputer=knn(history, query, k=4))
    >>> rows = [{"sensor": "a", "t": 1, "gas": 5, "oxygen": 19}, {"sensor": "b", "t": 1, "gas": None, "oxygen": 19}]
    >>> monitor.advance(1, rows).column("probability").to_pylist()
    [0.75]
    """
    if not isinstance(k, int) or k < 1:
        raise HistoryError(f"k is {k!r}; it is a number of neighbours, 1 or more.")
    columns = read_history(history, query).columns
    values = np.stack([columns[name].values for name in query.names], axis=1)
    values = values[~np.isnan(values).any(axis=1)]
    values = values[np.lexsort(values.T)]
    if len(values) < k:
        raise HistoryError(
            f"the history has {count_of(len(values), 'complete row')}, too few for {count_of(k, 'neighbour')}; "
            "give more of it, or a smaller k."
        )
    if len(values) > DRAWN:
        values = values[np.sort(np.random.default_rng(SEED).choice(len(values), DRAWN, replace=False))]
    return Neighbours(values, k)


class Neighbours(BaseImputer):
    """See `knn`. Keeps a row's attributes. O(history · attributes) per row.

    The history comes sorted by its values, so that its order does not decide between rows that are equally near.
    """

    def __init__(self, values: Floats, k: int) -> None:
        spread = values.std(axis=0)
        self.values, self.spread, self.k = values, np.where(spread > 0, spread, 1.0), k
        self.name, self.width = f"{k} nearest neighbours", values.shape[1]

    def look(self, rows: Evidence) -> Floats:
        """The attributes."""
        return rows.values

    def able(self, known: Floats, j: int) -> Flags:
        """Rows that have another attribute: to one that has none, all of the history is equally near."""
        return np.asarray(~np.isnan(np.delete(known, j, axis=1)).all(axis=1))

    def distributions(self, known: Floats, j: int) -> Distributions:
        """The values of the nearest rows."""
        out = np.full((len(known), self.k), np.nan)
        for i in np.flatnonzero(self.able(known, j)).tolist():
            far = np.nansum(((self.values - known[i]) / self.spread) ** 2, axis=1)
            out[i] = self.values[np.argpartition(far, self.k - 1)[: self.k], j]
        return listed(out)
