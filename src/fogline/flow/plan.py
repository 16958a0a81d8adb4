"""What must every worker know before it sees a row?

The query, the types of the stream, how far the clock is held back and how to open the repository: one small frozen
value that travels with the code. Everything else comes with the rows or from the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fogline.errors import FoglineError, QueryError
from fogline.impute.chain import Chain
from fogline.impute.function import ImputeFunction, check_teller
from fogline.model import Query, duration
from fogline.repository.repository import Repository
from fogline.rows.columns import INTEGER, REAL
from fogline.rows.reader import Kinds, Reader

Every = Literal["tick", "batch"]


@dataclass(frozen=True)
class Plan:
    """How one stream is watched."""

    query: Query
    kind: pa.DataType  # of the clock: int64, float64 or timestamp('us', zone)
    id: pa.DataType
    by: tuple[pa.DataType, ...]
    every: Every = "tick"
    lateness: float = 0.0  # in units of the clock: microseconds where that is a timestamp
    opened: Callable[[], Repository] | None = None  # gives the repository, if there is one
    teller: ImputeFunction | None = None  # is asked first what a missing value may be

    @cached_property
    def repository(self) -> Repository | None:
        """What missing values may be."""
        return None if self.opened is None else self.opened()

    @cached_property
    def imputer(self) -> Chain | None:
        return None if self.repository is None else Chain(self.repository, self.query)

    @property
    def remembers(self) -> bool:
        """Whether rows must know what their sensors said before."""
        return self.imputer is not None and self.imputer.sensors is not None

    @property
    def extra(self) -> tuple[str, ...]:
        """Columns beside id, time and attributes that the rules ask for."""
        mine = {self.query.id, self.query.time, *self.query.names}
        return () if self.repository is None else tuple(n for n in self.repository.determinants if n not in mine)

    @cached_property
    def expires(self) -> str:
        """The column in which rows on their way carry their expiry, whatever it came from; nobody else's name."""
        name, taken = "expires", {self.query.id, self.query.time, *self.query.names, *self.extra}
        while name in taken:
            name += "_"
        return name

    @cached_property
    def inner(self) -> Query:
        """The question for one group's rows on their way: expiries are written out, and there is one group."""
        q = self.query
        window: dict[str, Any] = {"expires": self.expires} if q.last is None else {"last": q.last}
        return Query(
            attributes=q.attributes, id=q.id, time=q.time, alpha=q.alpha, limits=q.limits, outside=q.outside, **window
        )

    def __getstate__(self) -> dict[str, Any]:
        names = ("query", "kind", "id", "by", "every", "lateness", "opened", "teller")
        return {name: self.__dict__[name] for name in names}  # what was worked out stays at home


def make_plan(
    query: Query,
    schema: pa.Schema,
    *,
    every: str = "tick",
    lateness: Any = 0,
    opened: Callable[[], Repository] | None = None,
    imputer: ImputeFunction | None = None,
) -> Plan:
    """A plan for a stream of this schema, if the query, the repository and the schema fit each other."""
    if not isinstance(query, Query):
        raise FoglineError(f"watch answers a Query, not {type(query).__name__}; use Query(…) or Query.load(path).")
    if every not in ("tick", "batch"):
        raise QueryError(
            f"every is {every!r}; it may be 'tick' (all answers) or 'batch' (the answer after each batch)."
        )
    kind = Reader(query).read(_no_rows(schema), Kinds()).kinds.time or _kind_of_text(query, lateness)
    held = _lateness(lateness, query, kind)
    if kind == INTEGER and not (held.is_integer() and (query.lifetime is None or _whole(query.lifetime))):
        kind = REAL
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp("us", "UTC")
    check_teller(imputer)
    types = tuple(schema.field(name).type for name in query.by)
    plan = Plan(query, kind, schema.field(query.id).type, types, every, held, opened, imputer)  # type: ignore[arg-type]
    if plan.imputer is not None and plan.imputer.sensors is not None:  # an imputer refuses what does not fit
        plan.imputer.sensors.check_keys(query)
    return plan


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _whole(lifetime: Any) -> bool:
    return isinstance(lifetime, str) or float(lifetime).is_integer()


def _kind_of_text(query: Query, lateness: Any) -> pa.DataType:
    """Times that come as text are what the rest of the question takes them for."""
    for told in (query.lifetime, lateness or None):
        if told is not None:
            return REAL if isinstance(told, int | float) else pa.timestamp("us")
    raise QueryError(
        f"the times in {query.time!r} are texts, and nothing says whether they mean numbers or timestamps.\n"
        "Give the stream a schema with a number or timestamp there, or cast the column."
    )


def _lateness(given: Any, query: Query, kind: pa.DataType) -> float:
    """How far the clock is held back, in its own units."""
    stamps, number = pa.types.is_timestamp(kind), isinstance(given, int | float) and not isinstance(given, bool)
    if number and given == 0:
        return 0.0
    if number is stamps or not isinstance(given, int | float | str | timedelta):
        have, want = ("timestamps", "a duration such as '30 seconds'") if stamps else ("numbers", "a number")
        raise QueryError(f"the times in {query.time!r} are {have}, so lateness is {want}, not {given!r}.")
    held = float(given) if number else float(duration(given))  # type: ignore[arg-type]
    if not 0 <= held < np.inf:
        raise QueryError(f"lateness is {given!r}; the clock can only be held back, by a finite time.")
    return held


# --- The clock as Spark's watermark -----------------------------------------------------------------------------------
#
# Spark keeps event times in milliseconds and starts at 0. A timestamp is its own event time, cut to milliseconds. A
# number is mapped by the bits of its float64, which are in the order of the numbers: 53 of them fit, negative numbers
# and fractions included, so nobody has to say what unit the numbers are in.

_CUT, _ZERO = 11, 2**63


def event(kind: pa.DataType, instant: float) -> int | None:
    """The event time, in milliseconds, that has surely been reached at `instant`; None before Spark's time begins."""
    if not np.isfinite(instant):
        return None
    if pa.types.is_timestamp(kind):
        return int(instant // 1000) if instant >= 0 else None
    return _ordered(instant) >> _CUT


def timer(kind: pa.DataType, instant: float) -> int | None:
    """The first event time, in milliseconds, at which `instant` has surely been reached; None if there is none."""
    if not np.isfinite(instant):
        return None
    if pa.types.is_timestamp(kind):
        return max(0, -int(-instant // 1000))
    return -(-_ordered(instant) >> _CUT)


def reached(kind: pa.DataType, watermark: int) -> float:
    """The instant that a watermark, in milliseconds, stands for; -inf as long as there is none."""
    if watermark <= 0:
        return -np.inf
    if pa.types.is_timestamp(kind):
        return float(watermark * 1000)
    places = (watermark << _CUT) - _ZERO
    value = float(np.uint64(abs(places)).view(np.float64))
    return (-value if places < 0 else value) if np.isfinite(value) else -np.inf


def _ordered(value: float) -> int:
    """A whole number from 0 on, in the order of the floats: how many floats away from zero, counted from the middle."""
    places = int(np.float64(abs(value)).view(np.uint64))
    return _ZERO - places if value < 0 else _ZERO + places
