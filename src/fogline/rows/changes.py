"""Changes as a table, and the answer that they add up to.

Columns have the types that the stream has shown: times, ids and groups come back as they came. Missing attributes are
null, and so are those that were outside their limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import CHANGES, LEAVE, REASONS, Delta, Flags, objects
from fogline.queries import QUERY, Asked, Queries
from fogline.query import LEAVING, Query
from fogline.rows.cells import REAL
from fogline.rows.clock import as_instant, write_times
from fogline.rows.kept import shown
from fogline.rows.names import Kinds

GroupKey = tuple[Any, ...]  # the values by which rows are grouped
FEW = 32  # changes
_WORDS, _REASONS = np.array(CHANGES, object), np.array(REASONS, object)


class Tables:
    """Builds tables of changes for one query. What no call changes is kept: the schema, an empty table, nulls."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.kinds: Kinds | None = None
        self.schema: pa.Schema = None
        self.empty: pa.Table = None
        self._nulls: list[pa.Array] = []  # of LEAVING

    def build(self, deltas: list[tuple[GroupKey, Delta]], kinds: Kinds) -> pa.Table:
        """The deltas as one table, in their order."""
        if not deltas:
            self._know(kinds)
            return self.empty
        sizes = [len(delta.change) for _, delta in deltas]
        by = [
            pa.array(np.repeat(objects([key[k] for key, _ in deltas]), sizes), kind) for k, kind in enumerate(kinds.by)
        ]
        return self.table(deltas[0][1] if len(deltas) == 1 else _joined([delta for _, delta in deltas]), by, kinds)

    def table(self, changes: Delta, by: list[pa.Array], kinds: Kinds) -> pa.Table:
        """Changes as one table, in their order; `by`: the columns of their groups."""
        self._know(kinds)
        n = len(changes.change)
        change, reason, gone = (_few_words if n <= FEW else _words)(changes.change.tobytes(), changes.reason.tobytes())
        instants, numbers = np.empty((2, n)), np.empty((2 + len(self.query.names), n))
        instants[0], instants[1] = changes.time, changes.arrived
        numbers[0], numbers[1], numbers[2:] = changes.probability, changes.within, self.query.plausible(changes.raw).T
        if gone is not None:
            numbers[:2, gone] = np.nan
        times = write_times(instants.ravel(), kinds.time)
        values = pa.array(numbers.ravel(), REAL, from_pandas=True)  # at once, with null for NaN; columns are slices
        probability, error, *attributes = [values.slice(k * n, n) for k in range(len(numbers))]
        columns = [
            times.slice(0, n), *by, _names(changes.id, kinds.id), times.slice(n, n), change, probability, error,
            reason, *self._beaten_by(changes, kinds), *attributes, *shown(changes.kept, n, kinds.kept),
        ]  # fmt: skip
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _beaten_by(self, changes: Delta, kinds: Kinds) -> list[pa.Array]:
        """The rows by which others were beaten: mostly there are none."""
        n = len(changes.change)
        if changes.dominator is not None and changes.dominator_time is not None:
            times = write_times(changes.dominator_time, kinds.time, np.isnan(changes.dominator_time))
            return [_names(changes.dominator, kinds.id), times]
        if n > len(self._nulls[0]):
            self._nulls = [pa.nulls(2 * n, each.type) for each in self._nulls]
        return [each.slice(0, n) for each in self._nulls]

    def _know(self, kinds: Kinds) -> None:
        if kinds is self.kinds or kinds == self.kinds:
            return
        self.schema = change_schema(self.query, kinds)
        self.kinds, self.empty = kinds, self.schema.empty_table()
        self._nulls = [pa.nulls(FEW, self.schema.field(name).type) for name in LEAVING[1:]]


def _words(change: bytes, reason: bytes) -> tuple[pa.Array, pa.Array, Flags | None]:
    """The columns of changes and of reasons; and which rows left, None: none did."""
    number = np.frombuffer(change, np.int64)
    left = number == LEAVE
    gone = left if left.any() else None
    return (
        pa.array(_WORDS[number], pa.string()),
        pa.array(_REASONS[np.frombuffer(reason, np.int64)], pa.string()),
        gone,
    )


_few_words = lru_cache(maxsize=4096)(_words)  # a handful of changes is often much like another


def _names(id: Any, kind: pa.DataType | None) -> pa.Array:
    return id if isinstance(id, pa.Array) else pa.array(id, kind)


def change_schema(query: Query, kinds: Kinds) -> pa.Schema:
    """The columns of a table of changes."""
    time = kinds.time or pa.float64()
    seen = kinds.by or (None,) * len(query.by)
    head = [("time", time), *((name, kind or pa.null()) for name, kind in zip(query.by, seen, strict=True))]
    head += [(query.id, kinds.id or pa.null()), (query.arrived, time), ("change", pa.string())]
    tail = [("probability", pa.float64()), ("probability_error", pa.float64())]
    tail += zip(LEAVING, (pa.string(), kinds.id or pa.null(), time), strict=True)
    tail += [(name, pa.float64()) for name in query.names]
    return pa.schema([*head, *tail, *((name, kind or pa.null()) for name, kind in kinds.kept)])


def answer_of(changes: Iterable[pa.Table], query: Asked, at: Any = None) -> pa.Table:
    """The answer that changes add up to, at their end or at an instant.

    The tables come in the order in which they were reported: of one tick what is reported later counts.
    """
    there = standing(changes, query, at)
    names = answer_columns(query)
    if there is None:
        return pa.table({name: pa.array([], pa.null()) for name in names})
    order = [*((name, "ascending") for name in query.by), ("probability", "descending")]
    if isinstance(query, Queries):
        return pa.concat_tables([of_query(there, name).select(names).sort_by(order) for name in query])
    return there.select(names).sort_by(order)


def answer_columns(asked: Asked) -> list[str]:
    """The columns of an answer; of several queries, the name of the query first."""
    head = [QUERY] if isinstance(asked, Queries) else []
    return [*head, *asked.by, asked.id, asked.arrived, "probability", "probability_error", *asked.names, *asked.kept]


def of_query(rows: pa.Table, name: str) -> pa.Table:
    """The rows that one of several queries has reported."""
    return rows.filter(pc.equal(rows[QUERY], name))


def member_key(query: Asked) -> list[str]:
    """The columns that name a row in the answer; where only the newest row of an id counts, they name an id."""
    if isinstance(query, Queries):
        arrived = [] if all(each.latest for each in query.values()) else [query.arrived]
        return [QUERY, *query.by, query.id, *arrived]
    return [*query.by, query.id, *([] if query.latest else [query.arrived])]


def standing(changes: Iterable[pa.Table], query: Asked, at: Any = None) -> pa.Table | None:
    """The last change of each row in the answer, as it was reported; None: there are no changes.

    Where only the newest row of an id counts, the last change of each id. These changes stand for all that were
    reported before: later ones may be added to them instead.
    """
    tables = [table for table in changes if table.num_columns]
    if not tables:
        return None
    if isinstance(query, Queries):
        each = [standing([of_query(table, name) for table in tables], one, at) for name, one in query.items()]
        return pa.concat_tables([table for table in each if table is not None])
    reported = pa.concat_tables(tables, promote_options="permissive")
    if at is not None:
        reported = reported.filter(pc.less_equal(reported["time"], as_instant(at, reported.schema.field("time").type)))
    last = last_changes(reported, query)
    return last.filter(pc.not_equal(last["change"], CHANGES[LEAVE]))


def last_changes(reported: pa.Table, query: Query) -> pa.Table:
    """The last change of each row that was reported (of each id, where only its newest row counts), leaves too."""
    numbered = reported.select(member_key(query)).append_column("", pa.array(np.arange(reported.num_rows)))
    last = numbered.group_by(member_key(query), use_threads=False).aggregate([("", "max")])
    return reported.take(last.column("_max"))


def _joined(deltas: list[Delta]) -> Delta:
    """The changes of several groups or ticks, one after the other."""
    columns = dict(zip(Delta._fields, zip(*deltas, strict=True), strict=True))
    seldom = ("time", "dominator", "dominator_time", "kept")
    columns = {name: each for name, each in columns.items() if name not in seldom}
    time = np.repeat([delta.time for delta in deltas], [len(delta.change) for delta in deltas])
    found = Delta(time, **{name: np.concatenate(each) for name, each in columns.items()})
    if any(delta.kept is not None for delta in deltas):
        kept = [np.full(len(each.change), None) if each.kept is None else each.kept for each in deltas]
        found = found._replace(kept=np.concatenate(kept))
    if all(delta.dominator is None for delta in deltas):
        return found
    dominators: list[Any] = [
        np.full(len(each.change), None) if each.dominator is None else each.dominator for each in deltas
    ]
    times: list[Any] = [
        np.full(len(each.change), np.nan) if each.dominator is None else each.dominator_time for each in deltas
    ]
    return found._replace(dominator=np.concatenate(dominators), dominator_time=np.concatenate(times))
