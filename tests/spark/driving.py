"""How does a stream go through the parts of the pipeline without Spark?

As Spark would drive them: batches of partitions, each partition screened by itself, parcels brought to their groups,
state as bytes in between, a watermark that follows the newest row and fires timers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.flow.cache import Awake
from fogline.flow.parcel import Parcel
from fogline.flow.plan import Plan, make_plan
from fogline.flow.screening import screened
from fogline.spark.processor import Keeper
from tests.contracts import DISTRIBUTION, as_arrow, query_of
from tests.strategies import Stream


def table_of(stream: Stream) -> pa.Table:
    """All rows of a stream as one Arrow table, in their order."""
    return pa.concat_tables([table for _, table in as_arrow(stream).calls])


def plan_of(stream: Stream, schema: pa.Schema, **how: Any) -> Plan:
    return make_plan(query_of(stream), schema, **how)


@dataclass
class Engine:
    """Does what Spark does with the two stages."""

    plan: Plan
    slice_rows: int = 3
    chunk_rows: int = 5
    states: dict[str, bytes] = field(default_factory=dict)
    groups: dict[str, Awake] = field(default_factory=dict)  # the same, remembered
    turn: int = 0
    timers: dict[str, int | None] = field(default_factory=dict)
    newest: int = 0  # greatest event time
    watermark: int = 0
    journal: list[pa.Table] = field(default_factory=list)

    def batch(self, partitions: Sequence[pa.Table]) -> list[dict[str, Any]]:
        """One micro-batch; returns what is told in it."""
        self.watermark, told = self.newest, []
        parcels: dict[str, list[Parcel]] = {}
        for part in partitions:
            for out in screened(self.plan, part.to_batches(), slice_rows=self.slice_rows, chunk_rows=self.chunk_rows):
                for row in out.select(["group", "parcel"]).to_pylist():
                    parcels.setdefault(row["group"], []).append(Parcel.from_bytes(row["parcel"]))
                times = out.column("event").cast(pa.int64()).drop_null().to_pylist()
                self.newest = max([self.newest, *(t // 1000 for t in times)])
        for key, mine in parcels.items():
            told += self._take(key, mine, None)
        for key, due in list(self.timers.items()):
            if due is not None and due <= self.watermark:
                told += self._take(key, [], self.watermark)
        return told

    def _take(self, key: str, parcels: list[Parcel], watermark: int | None) -> list[dict[str, Any]]:
        self.turn += 1  # sometimes the group is remembered, sometimes it is read
        kept = self.groups if self.turn % 3 else self.states
        taken = Keeper(self.plan).take(key, kept.get(key), parcels, watermark=watermark)
        assert taken.before == self.timers.get(key)
        self.states[key], self.timers[key], self.groups[key] = taken.state, taken.timer, taken.group
        self.journal.append(taken.journal)
        return taken.journal.to_pylist()


def changes_of(journal: Sequence[dict[str, Any]], plan: Plan) -> pa.Table:
    """The changes in a journal, as a monitor would tell them."""
    names = [*(f"by_{k}" for k in range(len(plan.by))), *(f"attribute_{j}" for j in range(len(plan.query.names)))]
    real = dict(zip(names, [*plan.query.by, *plan.query.names], strict=True))
    keep = ("time", "id", "arrived", "change", "probability", "exact", *names)
    rows = [{real.get(c, c): row[c] for c in keep} for row in journal if row["kind"] == "change"]
    return pa.Table.from_pylist(rows) if rows else pa.table({"time": pa.array([], pa.int64())})


def rows_by_time(table: pa.Table, delay: Sequence[float] | None = None) -> pa.Table:
    """The rows in order of time, or as they come when each is delayed."""
    times = table.column("t").to_pylist()
    late = delay if delay is not None else [0] * len(times)
    order = sorted(range(len(times)), key=lambda i: times[i] + late[i])
    return table.take(pa.array(order, pa.int64()))


def cut(table: pa.Table, borders: Sequence[int]) -> Iterator[pa.Table]:
    """The table in pieces that end at the borders."""
    ends = sorted({min(b, table.num_rows) for b in borders} | {table.num_rows})
    for begin, end in zip([0, *ends], ends, strict=False):
        yield table.slice(begin, end - begin)


__all__ = ["DISTRIBUTION", "Engine", "changes_of", "cut", "fl", "plan_of", "rows_by_time", "table_of"]
