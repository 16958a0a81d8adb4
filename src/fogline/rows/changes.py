"""Changes as a table, and the answer that they add up to.

Columns have the types that the stream has shown: times, ids and groups come back as they came. Missing attributes are
null, and so are those that were outside their limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fogline.arrays import CHANGES, LEAVE, REASONS, Delta, Flags, Floats, Ints, Objects, objects
from fogline.queries import QUERY, Asked, Queries
from fogline.query import LEAVING, Query
from fogline.rows.clock import as_instant, write_times
from fogline.rows.names import Kinds

Key = tuple[Any, ...]
_WORDS, _REASONS = np.array(CHANGES, object), np.array(REASONS, object)


class ChangeColumns(NamedTuple):
    """Changes of some groups, in the order in which they are reported."""

    time: Floats  # (n,)
    by: list[pa.Array]  # the columns of their groups
    id: pa.Array
    arrived: Floats
    change: Ints
    probability: Floats
    within: Floats
    raw: Floats  # (n, d) as it came
    reason: Ints
    rival: pa.Array | None  # null: none is named; None: none of all
    rival_time: Floats | None


class Tables:
    """Builds tables of changes for one query. The schema is kept: to make it takes as long as a small table."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.kinds: Kinds | None = None
        self.schema: pa.Schema = None
        self.empty: pa.Table = None
        self.rivals: list[pa.DataType] = []  # the types of a rival's id and arrival

    def build(self, deltas: list[tuple[Key, Delta]], kinds: Kinds) -> pa.Table:
        """The deltas as one table, in their order."""
        if not deltas:
            self._know(kinds)
            return self.empty
        sizes = [len(delta.id) for _, delta in deltas]
        ticks = [delta.time for _, delta in deltas]
        times = np.full(sizes[0], ticks[0]) if len(sizes) == 1 else np.repeat(ticks, sizes)
        by = [
            pa.array(np.repeat(objects([key[k] for key, _ in deltas]), sizes), kind) for k, kind in enumerate(kinds.by)
        ]
        rival, rival_time = _rivals(deltas, len(times))
        numbers = {
            name: _join(deltas, name) for name in ("arrived", "change", "probability", "within", "raw", "reason")
        }
        id, beaten_by = (None if each is None else pa.array(each, kinds.id) for each in (_join(deltas, "id"), rival))
        return self.table(ChangeColumns(times, by, id, rival=beaten_by, rival_time=rival_time, **numbers), kinds)

    def table(self, changes: ChangeColumns, kinds: Kinds) -> pa.Table:
        """Changes as one table, in their order."""
        self._know(kinds)
        raw, left = np.ascontiguousarray(self.query.plausible(changes.raw).T), changes.change == LEAVE
        gone = left if left.any() else None  # None is quicker
        columns = [
            write_times(changes.time, kinds.time),
            *changes.by,
            changes.id,
            write_times(changes.arrived, kinds.time),
            pa.array(_WORDS[changes.change], pa.string()),
            pa.array(changes.probability, mask=gone),
            pa.array(changes.within == 0.0, mask=gone),
            pa.array(changes.within, mask=gone),
            *self._reasons(changes, kinds, gone),
        ]
        gaps = np.isnan(raw)
        columns += (
            [pa.array(each, mask=gap) for each, gap in zip(raw, gaps, strict=True)]
            if gaps.any()
            else list(map(pa.array, raw))
        )
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _reasons(self, changes: ChangeColumns, kinds: Kinds, gone: Flags | None) -> list[pa.Array]:
        """Why rows left, and by which others they were beaten: mostly no row is."""
        n = len(changes.change)
        if gone is None:
            return [pa.nulls(n, kind) for kind in (pa.string(), *self.rivals)]
        reasons = pa.array(_REASONS[changes.reason], pa.string())
        if changes.rival is None or changes.rival_time is None:
            return [reasons, *(pa.nulls(n, kind) for kind in self.rivals)]
        return [reasons, changes.rival, write_times(changes.rival_time, kinds.time, np.isnan(changes.rival_time))]

    def _know(self, kinds: Kinds) -> None:
        if kinds is self.kinds or kinds == self.kinds:
            return
        self.schema = change_schema(self.query, kinds)
        self.kinds, self.empty = kinds, self.schema.empty_table()
        self.rivals = [self.schema.field(name).type for name in LEAVING[1:]]


def change_schema(query: Query, kinds: Kinds) -> pa.Schema:
    """The columns of a table of changes."""
    time = kinds.time or pa.float64()
    seen = kinds.by or (None,) * len(query.by)
    head = [("time", time), *((name, kind or pa.null()) for name, kind in zip(query.by, seen, strict=True))]
    head += [("id", kinds.id or pa.null()), ("arrived", time), ("change", pa.string())]
    tail = [("probability", pa.float64()), ("exact", pa.bool_()), ("within", pa.float64())]
    tail += [("reason", pa.string()), ("rival", kinds.id or pa.null()), ("rival_time", time)]
    return pa.schema([*head, *tail, *((name, pa.float64()) for name in query.names)])


def answer_of(changes: Iterable[pa.Table], query: Asked, at: Any = None) -> pa.Table:
    """The answer that changes add up to, at their end or at an instant.

    Columns: by…, id, arrived, probability, exact, within, attributes; of several queries, the query before them. The
    tables come in the order in which they were reported: of one tick what is reported later counts.
    """
    there = standing(changes, query, at)
    head = [QUERY] if isinstance(query, Queries) else []
    names = [*head, *query.by, "id", "arrived", "probability", "exact", "within", *query.names]
    if there is None:
        return pa.table({name: pa.array([], pa.null()) for name in names})
    order = [*((name, "ascending") for name in query.by), ("probability", "descending")]
    if isinstance(query, Queries):
        return pa.concat_tables([of_query(there, name).select(names).sort_by(order) for name in query])
    return there.select(names).sort_by(order)


def of_query(rows: pa.Table, name: str) -> pa.Table:
    """The rows that one of several queries has reported."""
    return rows.filter(pc.equal(rows[QUERY], name))


def member_key(query: Asked) -> list[str]:
    """The columns that name a row in the answer; where only the newest row of an id counts, they name an id."""
    if isinstance(query, Queries):
        arrived = [] if all(each.latest for each in query.values()) else ["arrived"]
        return [QUERY, *query.by, "id", *arrived]
    return [*query.by, "id", *([] if query.latest else ["arrived"])]


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


def _rivals(deltas: list[tuple[Key, Delta]], n: int) -> tuple[Objects | None, Floats | None]:
    """The ids and arrivals of the rows that beat others; None: there are none."""
    if len(deltas) == 1:
        return deltas[0][1].rival, deltas[0][1].rival_time
    if all(delta.rival is None for _, delta in deltas):
        return None, None
    rival, time = np.full(n, None, object), np.full(n, np.nan)
    at = 0
    for _, delta in deltas:
        there = slice(at, at := at + len(delta.id))
        if delta.rival is not None:
            rival[there], time[there] = delta.rival, delta.rival_time
    return rival, time


def _join(deltas: list[tuple[Key, Delta]], name: str) -> NDArray[Any]:
    parts = [getattr(delta, name) for _, delta in deltas]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
