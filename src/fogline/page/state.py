"""What is known of the run that a page shows, and how does it become values that a browser reads?

Ids, groups and instants travel as texts, so that no number loses digits on its way and what a browser sends back is
compared as a text; attributes and probabilities travel as numbers, what is missing as null.

The answer is what changes add up to, as in `output.answers`; points of time and sizes come from health. A point of the
timeline is a batch. When there are too many, pairs of neighbours in the older half become one: the past gets coarser,
the whole run stays on the screen, and what points add up to stays exact.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import CHANGES
from fogline.impute.scores import Sums, add, from_plain
from fogline.pipeline.names import SCORES
from fogline.pipeline.rejects import kind_of_reason
from fogline.queries import QUERY, Asked, each_of
from fogline.query import Query
from fogline.rows.changes import last_changes, of_query, standing
from fogline.show import instant_text

Row = list[Any]


def encoded(value: Any) -> bytes:
    """JSON without blanks; what JSON has no word for travels as a text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=str).encode()


def texts(column: pa.ChunkedArray) -> list[str | None]:
    """Ids or groups as texts."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return list(column.to_pylist())
    return [None if each is None else str(each) for each in column.to_pylist()]


def instants(column: pa.ChunkedArray) -> list[str | None]:
    """Instants as texts."""
    return [None if each is None else instant_text(each) for each in column.to_pylist()]


def numbers(column: pa.ChunkedArray) -> list[float | None]:
    """Numbers; JSON knows no infinite ones, and they are left out."""
    values = column.to_pylist()
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
        return [None if each is None or not math.isfinite(each) else each for each in values]
    return list(values)


def groups_of(table: pa.Table, query: Query) -> list[list[str | None]]:
    """The group of each row."""
    if not query.by:
        return [[] for _ in range(table.num_rows)]
    return [list(each) for each in zip(*(texts(table[name]) for name in query.by), strict=True)]


def keys_of(table: pa.Table, query: Query, number: int) -> list[Row]:
    """What names each row: the number of its query, its group, its id and its arrival."""
    columns = groups_of(table, query), texts(table[query.id]), instants(table[query.arrived])
    return [[number, *each] for each in zip(*columns, strict=True)]


def members_of(table: pa.Table, query: Query, number: int) -> list[Row]:
    """Rows of an answer: what names each, its probability, how far the truth may lie from that, its values, and if the
    query keeps other columns, these as texts."""
    values = zip(*(numbers(table[name]) for name in query.names), strict=True)
    found = numbers(table["probability"]), numbers(table["probability_error"])
    rows = [
        [*key, probability, within, list(cells)]
        for key, probability, within, cells in zip(keys_of(table, query, number), *found, values, strict=True)
    ]
    if query.kept:
        for row, kept in zip(rows, zip(*(texts(table[name]) for name in query.kept), strict=True), strict=True):
            row.append(list(kept))
    return rows


MOST = 2000  # points
ADDED = ("batches", "seconds", "rows", "incomplete", "rejected", "late", "expired", "enter", "leave", "update")


@dataclass(slots=True)
class Point:
    """One batch, or some neighbours.

    Of several queries, each of which sees all rows: what was done with rows that came is counted once, for the query
    that has the most of them; live rows, members and changes are those of all.
    """

    batch: int  # the last one
    time: Any  # the latest clock of any group so far
    live: int  # rows that can still matter, in all groups, afterwards
    answer: int  # rows in the answer
    waiting: int  # rows that wait, because of lateness
    held: int  # rows that are held, because they run ahead
    batches: int = 1
    seconds: float = 0.0
    rows: int = 0
    incomplete: int = 0  # rows with a gap
    rejected: int = 0
    late: int = 0
    expired: int = 0
    enter: int = 0
    leave: int = 0
    update: int = 0

    def merged(self, later: Point) -> Point:
        """This and the next one as one."""
        sums = {name: getattr(self, name) + getattr(later, name) for name in ADDED}
        return Point(later.batch, later.time, later.live, later.answer, later.waiting, later.held, **sums)

    def plain(self) -> list[Any]:
        """As values that JSON can hold, in the order of `NAMES`."""
        time = None if self.time is None else instant_text(self.time)
        return [time if name == "time" else getattr(self, name) for name in NAMES]


NAMES = tuple(field.name for field in fields(Point))


class Timeline:
    """The points of a run, the first batch first."""

    def __init__(self, most: int = MOST) -> None:
        self.points: list[Point] = []
        self.most = most

    def add(self, point: Point) -> None:
        """One more batch."""
        self.points.append(point)
        if len(self.points) > self.most:
            half = self.most // 2 // 2 * 2
            older = [a.merged(b) for a, b in zip(self.points[:half:2], self.points[1:half:2], strict=True)]
            self.points = [*older, *self.points[half:]]

    def count(self, batch: int, kinds: Iterable[tuple[str, int]]) -> None:
        """How many rows entered, left, or became more or less likely, in a batch."""
        at = bisect_left(self.points, batch, key=lambda point: point.batch)
        for kind, number in kinds if at < len(self.points) else ():
            setattr(self.points[at], kind, getattr(self.points[at], kind) + number)

    def count_by_time(self, changes: pa.Table) -> None:
        """The same for files that hold many batches: a change belongs to the first batch that reached its time."""
        clocks = [point.time for point in self.points]
        known = [k for k, time in enumerate(clocks) if time is not None]
        if not known or not changes.num_rows:
            return
        kind = changes.schema.field("time").type
        ends = _plain(pa.array([clocks[k] for k in known], kind))
        at = np.minimum(np.searchsorted(np.maximum.accumulate(ends), _plain(changes["time"])), len(known) - 1)
        what = np.array(changes["change"].to_pylist(), object)
        for name in CHANGES:
            counts = np.bincount(at[what == name], minlength=len(known))
            for k in np.flatnonzero(counts).tolist():
                point = self.points[known[k]]
                setattr(point, name, getattr(point, name) + int(counts[k]))

    def batch_at(self, instant: Any) -> int | None:
        """The last batch that a reader sees who looks at an instant; None: there is none by then."""
        known = [point for point in self.points if point.time is not None]
        at = bisect_right(known, instant, key=lambda point: point.time)
        return known[at - 1].batch if at else None

    def totals(self) -> dict[str, float]:
        """What all points add up to."""
        return {name: sum(getattr(point, name) for point in self.points) for name in ADDED}


def _plain(column: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Instants as numbers that can be compared."""
    whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column.cast(pa.float64())
    return np.asarray(whole.to_numpy() if isinstance(column, pa.ChunkedArray) else whole.to_numpy(zero_copy_only=False))


RECENT = 1000  # changes that are kept one by one, …
EACH = 200  # … and of a batch at most so many


@dataclass(slots=True)
class State:
    """What is known of one run."""

    about: dict[str, Any]
    asked: Asked
    batch: int = -1
    members: dict[str | None, pa.Table] = field(default_factory=dict)  # of each query, the last change of each member
    history: Timeline = field(default_factory=Timeline)
    sizes: dict[tuple[Any, ...], tuple[int, int, int]] = field(
        default_factory=dict
    )  # query and group: see `add_health`
    held: Counter[str | None] = field(default_factory=Counter)  # of each query, rows that are held
    sums: Sums = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    alarms: int = 0  # groups that are near a limit, or beyond it
    recent: deque[Row] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def queries(self) -> list[tuple[int, str | None, Query]]:
        """The queries with their numbers and names."""
        return [(k, *each) for k, each in enumerate(each_of(self.asked).items())]

    @property
    def size(self) -> int:
        """How many rows are in the answers."""
        return sum(table.num_rows for table in self.members.values())

    def add_changes(self, changes: list[pa.Table]) -> list[tuple[int, Query, pa.Table]]:
        """Add changes up; returns the last change of each row that they concern. Explanations stay in the files."""
        touched = []
        slim = [table.drop_columns([name for name in ("why",) if name in table.schema.names]) for table in changes]
        for number, name, query in self.queries if slim else ():
            own = [table if name is None else of_query(table, name) for table in slim]
            last = last_changes(pa.concat_tables(own, promote_options="permissive"), query)
            there = standing([*([self.members[name]] if name in self.members else []), last], query)
            assert there is not None
            self.members[name] = there.combine_chunks()
            touched.append((number, query, last))
        return touched

    def add_health(self, table: pa.Table) -> list[Point]:
        """A point for each batch. Of each group that has any, live rows, members and rows that wait are kept."""
        names = table.schema.names
        keys = names[names.index("seconds") + 1 : names.index("time")]
        for scored in table[SCORES].drop_null().to_pylist():
            add(self.sums, from_plain(json.loads(scored)))
        batches: dict[int, list[dict[str, Any]]] = {}
        for row in table.drop_columns([SCORES]).to_pylist():
            batches.setdefault(row["batch"], []).append(row)
        return [self._add_point(batch, rows, keys) for batch, rows in batches.items()]

    def _add_point(self, batch: int, rows: list[dict[str, Any]], keys: list[str]) -> Point:
        for row in rows:
            key = (row.get(QUERY), *(row[name] for name in keys if name != QUERY))
            self.sizes[key] = row["live"], row["answer"], row.get("waiting") or 0
            if not any(self.sizes[key]):
                del self.sizes[key]
            self.held[row.get(QUERY)] += (row.get("held") or 0) - (row.get("released") or 0)
        before = self.history.points[-1] if self.history.points else None
        clocks = [row["time"] for row in rows if row["time"] is not None]
        clocks += [] if before is None or before.time is None else [before.time]
        point = Point(
            batch=batch,
            time=max(clocks, default=None),
            live=sum(live for live, _, _ in self.sizes.values()),
            answer=sum(members for _, members, _ in self.sizes.values()),
            waiting=_most((query, waiting) for (query, *_), (_, _, waiting) in self.sizes.items()),
            held=max(*self.held.values(), 0),
            seconds=max(row["seconds"] for row in rows),
            **{
                name: _most((row.get(QUERY), row.get(name) or 0) for row in rows)
                for name in ("rows", "incomplete", "rejected", "late", "expired")
            },
        )
        self.history.add(point)
        return point

    def add_reasons(self, rejects: pa.Table) -> None:
        """Count why rows were rejected."""
        for each in pc.value_counts(rejects["reason"]).to_pylist():
            self.reasons[kind_of_reason(each["values"])] += each["counts"]

    def listed(self, table: pa.Table, batch: int) -> list[Row]:
        """The last changes of a table, one by one: batch, query, time, group, id, arrival, change, probability, reason,
        what it was beaten by.
        """
        rows: list[Row] = []
        for number, name, query in self.queries:
            own = table if name is None else of_query(table, name)
            own = own.slice(max(own.num_rows - EACH, 0))
            columns: list[list[Any]] = [instants(own["time"]), groups_of(own, query), texts(own[query.id])]
            columns += [instants(own[query.arrived]), own["change"].to_pylist(), numbers(own["probability"])]
            columns += [own["reason"].to_pylist(), texts(own["beaten_by"])]
            rows += [[batch, number, *each] for each in zip(*columns, strict=True)]
        return rows


def kinds_of(table: pa.Table) -> list[tuple[str, int]]:
    """How many changes of each kind there are."""
    return [(each["values"], each["counts"]) for each in pc.value_counts(table["change"]).to_pylist()]


def _most(counts: Iterable[tuple[str | None, int]]) -> int:
    """What groups of queries add up to, for the query where that is most."""
    sums: Counter[str | None] = Counter()
    for query, count in counts:
        sums[query] += count
    return max(sums.values(), default=0)
