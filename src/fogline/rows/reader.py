"""What came in, row by row, and which rows cannot be taken?

Rows are an Arrow table, a pandas frame or a list of dicts. They leave as one `Batch` of columns, oriented so that
larger is better. A row that cannot be read is refused with its reason; nothing else is disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Clouds, Floats, Ints, objects
from fogline.errors import QueryError
from fogline.impute.chain import Chain
from fogline.kernels import arrow
from fogline.kernels.arrow import BAD_NUMBER, BAD_WEIGHT, LISTS, NUMBERS, OUTSIDE
from fogline.kernels.clouds import all_within
from fogline.model import Query, Reject
from fogline.rows.columns import (
    PAIRS,
    REAL,
    Reasons,
    Times,
    join_kinds,
    join_types,
    read_cells,
    read_objects,
    read_times,
)
from fogline.rows.source import RowSource


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
    gaps: bool  # whether any cell is missing
    row: Callable[[int], Mapping[str, Any]]  # the k-th row of `batch` as it came


@dataclass(frozen=True, slots=True)
class Numbers:
    """What rows say in numbers; those that are refused are still among them."""

    kind: pa.DataType | None  # of a clock that can show these times and expiries
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    raw: Floats  # (n, d)
    clouds: Clouds  # missing cells are NaN
    outside: Ints | None  # (n,) how many of a row's cells are outside their limits; None: nobody's
    gaps: bool  # whether any cell is missing


class Reader:
    """Reads rows for one query: checked, oriented, in columns. Missing cells stay NaN in the clouds."""

    def __init__(self, query: Query, imputer: Chain | None = None) -> None:
        self.query, self.imputer = query, imputer
        limits = np.array([query.limits.get(name, (-np.inf, np.inf)) for name in query.names])
        self.turn = np.array(query.signs), np.ascontiguousarray(limits[:, 0]), np.ascontiguousarray(limits[:, 1])
        self.schema: pa.Schema | None = None  # the last schema whose attributes could be read as they lie, …
        self.lie: tuple[Ints, Ints] | None = None  # … and where: columns and their kinds

    def read(self, rows: Any, kinds: Kinds) -> Rows:
        """See the module. `kinds` are the types seen so far."""
        query, source, refused = self.query, RowSource(rows), Reasons()
        ids, id_kind = read_objects(source.require(query.id, "id column"), query.id, refused)
        keys = [read_objects(source.require(name, "group column"), name, refused) for name in query.by]
        if None in ids:
            refuse(refused, np.array([each is None for each in ids]), f"the id {query.id!r} is missing")
        read = self.numbers(source, kinds.time, refused)
        kind, gaps = read.kind, read.gaps
        outside = 0 if read.outside is None else int(read.outside.sum())
        known = np.empty((source.length, 0))
        if self.imputer is not None:
            known = self.imputer.known(source.optional, read.clouds)
        batch = Batch(objects(ids), read.arrived, read.expires, read.raw, known, read.clouds)
        by = tuple(values for values, _ in keys)
        rejects: list[Reject] = []
        left = None
        if refused:
            rejects = [Reject(source.row(i), refused[i]) for i in sorted(refused)]
            left = np.setdiff1d(np.arange(source.length), np.fromiter(refused, np.int64))
            batch, by = batch.part(left), tuple([column[i] for i in left] for column in by)
        if kind is not kinds.time or id_kind is not kinds.id or keys:  # else: nothing new, as in most calls
            seen = zip(query.by, kinds.by or (None,) * len(keys), keys, strict=True)
            joined = tuple(join_types(old, new, name) for name, old, (_, new) in seen)
            kinds = Kinds(kind, join_types(kinds.id, id_kind, query.id), joined)
        return Rows(batch, by, kinds, rejects, outside, gaps, lambda k: source.row(k if left is None else int(left[k])))

    def numbers(self, source: RowSource, kind: pa.DataType | None, refused: Reasons) -> Numbers:
        """Times, expiries and attributes, without names; `kind` is that of the clock so far."""
        query = self.query
        times = read_times(source.require(query.time, "time column"), query.time)
        kind = join_kinds(kind, times.kind, query.time)
        for i, reason in times.refused.items():
            refused.setdefault(i, reason)
        if not all_within(times.value, np.finfo(np.float64).max):
            refuse(refused, ~np.isfinite(times.value), f"the time {query.time!r} is missing or not finite")
        expires, kind = _expiry(source, query, times, kind, refused)
        return Numbers(kind, times.value, expires, *self._cells(source, refused))

    def _cells(self, source: RowSource, refused: Reasons) -> tuple[Floats, Clouds, Ints | None, bool]:
        """As they came, as clouds, how many cells of each are outside their limits, and whether any cell is missing."""
        batch = source.batch
        if batch is None or self.schema is None or not batch.schema.equals(self.schema):
            batch = self._arrange(source, refused)
        assert self.lie is not None
        raw, clouds, code, codes, gaps = arrow.read(batch, *self.lie, *self.turn)
        return raw, clouds, self._look(code, refused) if codes else None, gaps

    def _arrange(self, source: RowSource, refused: Reasons) -> pa.RecordBatch:
        """The attributes as columns that the kernel can read; remembers where they lie, if they already were."""
        names = list(self.query.names)
        given = [source.require(name, "attribute") for name in names]
        columns = [read_cells(column, name, refused) for column, name in zip(given, names, strict=True)]
        kinds = np.array([LISTS if column.type == PAIRS else NUMBERS for column in columns])
        if source.batch is not None and all(a is b for a, b in zip(given, columns, strict=True)):
            self.schema = source.batch.schema
            self.lie = np.array([self.schema.get_field_index(name) for name in names]), kinds
            return source.batch
        self.schema, self.lie = None, (np.arange(len(names)), kinds)
        return pa.RecordBatch.from_arrays(columns, names)

    def _look(self, code: Ints, refused: Reasons) -> Ints:
        """Refuse the rows with cells that are wrong; returns how many cells of each are outside their limits."""
        for j, name in enumerate(self.query.names):
            low, high = self.query.limits.get(name, (-np.inf, np.inf))
            refuse(refused, code[:, j] & BAD_NUMBER > 0, f"{name!r} holds a value that is missing or not finite")
            refuse(refused, code[:, j] & BAD_WEIGHT > 0, f"{name!r} holds a weight that is not positive")
            if self.query.outside == "reject":
                refuse(refused, code[:, j] & OUTSIDE > 0, f"{name!r} is outside its limits ({low:g}, {high:g})")
        return np.asarray(np.count_nonzero(code & OUTSIDE, axis=1), np.int64)


def refuse(refused: Reasons, bad: Any, reason: str) -> None:
    if bad.any():
        for i in np.flatnonzero(bad):
            refused.setdefault(int(i), reason)


def _expiry(
    source: RowSource, query: Query, times: Times, kind: pa.DataType | None, refused: Reasons
) -> tuple[Floats, pa.DataType | None]:
    """When each row expires, and the kind of a clock that can show it."""
    if query.last is not None:
        return np.zeros(source.length), kind  # a matter of order, not of time: the group decides
    if query.lifetime is not None:
        numeric, length = kind is not None and not pa.types.is_timestamp(kind), query.lifetime_us
        if kind is not None and numeric != (length is None):
            have, want = ("numbers", "a number") if numeric else ("timestamps", "a duration such as '5 minutes'")
            raise QueryError(f"the times in {query.time!r} are {have}, so lifetime is {want}, not {query.lifetime!r}.")
        life = float(query.lifetime if length is None else length)  # type: ignore[arg-type]
        return np.add(times.value, life), kind if life.is_integer() else join_kinds(kind, REAL, query.time)
    assert query.expires is not None
    expires = read_times(source.require(query.expires, "expiry column"), query.expires)
    for i, reason in expires.refused.items():
        refused.setdefault(i, reason)
    if not np.isfinite(expires.value).all():
        refuse(refused, ~np.isfinite(expires.value), f"the expiry {query.expires!r} is missing or not finite")
    if (expires.value < times.value).any():
        refuse(refused, expires.value < times.value, "it expires before it arrives")
    return expires.value, join_kinds(kind, expires.kind, f"{query.time}' with '{query.expires}")
