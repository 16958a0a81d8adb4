"""What came in, row by row, and which rows cannot be taken?

Rows are an Arrow table, a pandas frame or a list of dicts. They leave as one `Batch` of columns, oriented so that
larger is better. A row that cannot be read is refused with its reason; nothing else is disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.errors import QueryError, RowsError, did_you_mean
from fogline.impute.columns import Lists, Reasons, Times, join_kinds, read_cells, read_objects, read_times
from fogline.kernels.clouds import BAD_NUMBER, BAD_WEIGHT, Batch, Clouds, Floats, empty_clouds, gather
from fogline.model import Query, Reject


@dataclass(frozen=True, slots=True)
class Kinds:
    """The Arrow types a stream has shown so far: answers are given in them."""

    time: pa.DataType | None = None
    id: pa.DataType | None = None
    by: tuple[pa.DataType | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """What was read: the rows that can be taken, and those that cannot."""

    batch: Batch
    by: tuple[list[Any], ...]  # group columns, of the rows in `batch`
    kinds: Kinds
    rejects: list[Reject]
    outside: int  # cells outside their limits
    row: Callable[[int], Mapping[str, Any]]  # the k-th row of `batch` as it came


class Source:
    """Columns by name, whatever the rows came in."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.column: Callable[[str], Any]
        self.row: Callable[[int], Mapping[str, Any]]
        if isinstance(rows, pa.RecordBatch | pa.Table):
            self._arrow(rows)
        elif hasattr(rows, "columns") and hasattr(rows, "iloc"):
            self._pandas(rows)
        elif isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
            self._dicts(rows)
        else:
            raise RowsError(
                f"rows come as an Arrow table, a pandas frame or a list of dicts, not as {type(rows).__name__}."
            )

    def _arrow(self, table: Any) -> None:
        self.length, self.names = table.num_rows, list(table.schema.names)
        self.column = lambda name: _whole(table.column(name))
        self.row = lambda i: table.slice(i, 1).to_pylist()[0]

    def _pandas(self, frame: Any) -> None:
        self.length, self.names = len(frame), [str(name) for name in frame.columns]
        self.column = lambda name: _from_series(frame[name])
        self.row = lambda i: dict(zip(self.names, frame.iloc[i].tolist(), strict=True))

    def _dicts(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.length, self.names = len(rows), list(dict.fromkeys(str(name) for row in rows for name in row))
        self.column = lambda name: [row.get(name) for row in rows]
        self.row = lambda i: rows[i]

    def require(self, name: str, role: str) -> Any:
        """The column, or an error that says which there are."""
        if name not in self.names:
            raise QueryError(
                f"the stream has no {role} {name!r}; it has {', '.join(sorted(self.names))}."
                f"{did_you_mean(name, self.names)}"
            )
        return self.column(name)


def _whole(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _from_series(series: Any) -> Any:
    if series.dtype == object:
        return series.tolist()
    return _whole(pa.array(series, from_pandas=True))


def read(rows: Any, query: Query, kinds: Kinds) -> Rows:
    """Read, check and orient rows. Missing cells stay NaN in the clouds. See the module."""
    source = Source(rows)
    n, refused = source.length, Reasons()
    ids, id_kind = read_objects(source.require(query.id, "id column"))
    times = read_times(source.require(query.time, "time column"), query.time)
    keys = [read_objects(source.require(name, "group column")) for name in query.by]
    kind = join_kinds(kinds.time, times.kind, query.time)
    refused |= times.refused
    if None in ids:
        _refuse(refused, np.array([each is None for each in ids]), f"the id {query.id!r} is missing")
    _refuse(refused, ~np.isfinite(times.value), f"the time {query.time!r} is missing or not finite")
    expires = _expiry(source, query, times, kind, refused)
    raw, clouds, outside = _cells(source, query, refused)
    batch = Batch(objects(ids), times.value, expires, raw, clouds)
    by = tuple(values for values, _ in keys)
    rejects: list[Reject] = []
    left = None
    if refused:
        rejects = [Reject(source.row(i), refused[i]) for i in sorted(refused)]
        left = np.setdiff1d(np.arange(n), np.fromiter(refused, np.int64))
        batch, by = batch.part(left), tuple([column[i] for i in left] for column in by)
    by_kinds = tuple(
        old if old is not None else new for old, (_, new) in zip(kinds.by or (None,) * len(keys), keys, strict=True)
    )
    kinds = Kinds(kind, _id_kind(kinds.id, id_kind, query), by_kinds)
    return Rows(batch, by, kinds, rejects, outside, lambda k: source.row(k if left is None else int(left[k])))


def objects(values: list[Any]) -> Any:
    """A list as an array of objects (never of texts or numbers, and never two-dimensional)."""
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _id_kind(old: pa.DataType | None, new: pa.DataType | None, query: Query) -> pa.DataType | None:
    if old is not None and new is not None and pa.types.is_string(old) != pa.types.is_string(new):
        raise RowsError(f"ids {query.id!r} were {old} so far and are {new} now; one stream has one kind of id.")
    return old if old is not None else new


def _refuse(refused: Reasons, bad: Any, reason: str) -> None:
    if bad.any():
        for i in np.flatnonzero(bad):
            refused.setdefault(int(i), reason)


def _expiry(source: Source, query: Query, times: Times, kind: pa.DataType | None, refused: Reasons) -> Floats:
    numeric = kind is not None and not pa.types.is_timestamp(kind)
    if query.last is not None:
        return np.zeros(source.length)  # a matter of order, not of time: the group decides
    if query.lifetime is not None:
        length = query.lifetime_us
        if kind is not None and numeric != (length is None):
            have, want = ("numbers", "a number") if numeric else ("timestamps", "a duration such as '5 minutes'")
            raise QueryError(f"the times in {query.time!r} are {have}, so lifetime is {want}, not {query.lifetime!r}.")
        return np.add(times.value, float(query.lifetime if length is None else length))  # type: ignore[arg-type]
    assert query.expires is not None
    expires = read_times(source.require(query.expires, "expiry column"), query.expires)
    join_kinds(kind, expires.kind, f"{query.time}' with '{query.expires}")
    for i, reason in expires.refused.items():
        refused.setdefault(i, reason)
    _refuse(refused, ~np.isfinite(expires.value), f"the expiry {query.expires!r} is missing or not finite")
    _refuse(refused, expires.value < times.value, "it expires before it arrives")
    return expires.value


def _cells(source: Source, query: Query, refused: Reasons) -> tuple[Floats, Clouds, int]:
    """The attributes as they came, as clouds, and how many cells were outside their limits."""
    n, d = source.length, len(query.names)
    columns = [read_cells(source.require(name, "attribute"), name) for name in query.names]
    pool = sum(each.room() for each in columns if isinstance(each, Lists))
    raw, clouds = np.empty((n, d)), empty_clouds(n, d, pool + 1)
    code, off = np.empty(n, np.int64), np.empty(n, np.int64)
    cursor = outside = 0
    for j, (name, column, sign) in enumerate(zip(query.names, columns, query.signs, strict=True)):
        low, high = query.limits.get(name, (-np.inf, np.inf))
        if isinstance(column, Lists):
            begin, end, value, weight = column.begin, column.end, column.value, column.weight
            cursor, bad, any_off = gather(begin, end, value, weight, sign, low, high, j, raw, clouds, cursor, code, off)
            if bad:
                _refuse(refused, code == BAD_NUMBER, f"{name!r} holds a value that is missing or not finite")
                _refuse(refused, code == BAD_WEIGHT, f"{name!r} holds a weight that is not positive")
        else:
            value = column.value
            _refuse(refused, np.isinf(value), f"{name!r} is infinite")
            off = (value < low) | (value > high)
            any_off = off.any()
            raw[:, j] = value
            clouds.lo[:, j] = clouds.hi[:, j] = np.where(off, np.nan, value * sign + 0.0)
        for i, reason in column.refused.items():
            refused.setdefault(i, reason)
        if any_off:
            outside += int(np.count_nonzero(off))
            if query.outside == "reject":
                _refuse(refused, off > 0, f"{name!r} is outside its limits ({low:g}, {high:g})")
    return raw, clouds, outside
