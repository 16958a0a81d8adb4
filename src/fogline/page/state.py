"""What is known of one run, and what does one more batch add to it?

The answer is what changes add up to, as in `flow.answers`; points of time and sizes come from health.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fogline.flow.names import SCORES
from fogline.flow.rejects import kind_of_reason
from fogline.impute.scores import Sums, add, from_plain
from fogline.page.plain import Row, groups_of, instants, numbers, texts
from fogline.page.timeline import Point, Timeline
from fogline.queries import Asked, each_of
from fogline.query import Query
from fogline.rows.changes import last_changes, of_query, standing

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
    sizes: dict[tuple[Any, ...], tuple[int, int]] = field(default_factory=dict)  # of each group: live rows, members
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
        """A point for each batch."""
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
            self.sizes[key := tuple(row[name] for name in keys)] = row["live"], row["answer"]
            if not row["live"]:
                del self.sizes[key]
        before = self.history.points[-1] if self.history.points else None
        clocks = [row["time"] for row in rows if row["time"] is not None]
        clocks += [] if before is None or before.time is None else [before.time]
        held = sum((row.get("held") or 0) - (row.get("released") or 0) for row in rows)
        point = Point(
            batch=batch,
            time=max(clocks, default=None),
            live=sum(live for live, _ in self.sizes.values()),
            answer=sum(members for _, members in self.sizes.values()),
            waiting=_total(rows, "waiting"),
            held=max(held + (0 if before is None else before.held), 0),
            seconds=max(row["seconds"] for row in rows),
            **{name: _total(rows, name) for name in ("rows", "incomplete", "rejected", "late", "expired")},
        )
        self.history.add(point)
        return point

    def add_reasons(self, rejects: pa.Table) -> None:
        """Count why rows were rejected."""
        for each in pc.value_counts(rejects["reason"]).to_pylist():
            self.reasons[kind_of_reason(each["values"])] += each["counts"]

    def listed(self, table: pa.Table, batch: int) -> list[Row]:
        """The last changes of a table, one by one: batch, query, time, group, id, arrival, change, probability, reason,
        rival.
        """
        rows: list[Row] = []
        for number, name, query in self.queries:
            own = table if name is None else of_query(table, name)
            own = own.slice(max(own.num_rows - EACH, 0))
            columns: list[list[Any]] = [instants(own["time"]), groups_of(own, query), texts(own["id"])]
            columns += [instants(own["arrived"]), own["change"].to_pylist(), numbers(own["probability"])]
            columns += [own["reason"].to_pylist(), texts(own["rival"])]
            rows += [[batch, number, *each] for each in zip(*columns, strict=True)]
        return rows


def kinds_of(table: pa.Table) -> list[tuple[str, int]]:
    """How many changes of each kind there are."""
    return [(each["values"], each["counts"]) for each in pc.value_counts(table["change"]).to_pylist()]


def _total(rows: list[dict[str, Any]], name: str) -> int:
    """Over all groups; each of several queries sees all rows: of these, the one that has seen most."""
    sums: Counter[str | None] = Counter()
    for row in rows:
        sums[row.get("query")] += row.get(name) or 0
    return max(sums.values())
