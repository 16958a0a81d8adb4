"""How does a stream go through the stages of the pipeline without Spark?

As Spark would drive them: batches of partitions, each partition screened by itself or dealt to the buckets of its
sensors, parcels carried to their groups, state as bytes in between, a watermark that follows the newest row and fires
timers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.pipeline.exchange import Parcel
from fogline.pipeline.loaded import LoadedGroup
from fogline.pipeline.names import CHANGES
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.plans import Kin, kin_of, kin_of_bucket, parcel_of, parcels_of
from fogline.pipeline.report import Journal, changes_schema
from fogline.pipeline.runner import Keepers
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.shard import Shelf
from fogline.pipeline.stages import as_batch, as_crates, dealt, screened
from fogline.pipeline.state import MemoryCells
from tests.contracts import DISTRIBUTION, as_arrow, query_of
from tests.strategies import Stream


def table_of(stream: Stream) -> pa.Table:
    """All rows of a stream as one Arrow table, in their order."""
    return pa.concat_tables([table for _, table in as_arrow(stream).calls])


def plan_of(stream: Stream, schema: pa.Schema, **how: Any) -> Plan:
    return make_plan(query_of(stream), schema, **how)


@dataclass
class Engine:
    """Does what Spark does with the stages."""

    plan: Any  # a Plan, or Plans of several queries
    slice_rows: int = 3
    chunk_rows: int = 5
    small: int = 0
    states: dict[str, bytes] = field(default_factory=dict)
    groups: dict[str, LoadedGroup] = field(default_factory=dict)  # the same, cached
    cells: dict[str, MemoryCells] = field(default_factory=dict)
    parts: dict[str, MemoryCells] = field(default_factory=dict)
    pages: dict[str, MemoryCells] = field(default_factory=dict)
    at_hand: bool = True  # whether groups are sometimes cached
    readings: dict[int, tuple[bytes | None, MemoryCells]] = field(default_factory=dict)  # of buckets of sensors
    turn: int = 0
    timers: dict[str, int | None] = field(default_factory=dict)
    newest: int = 0  # greatest event time
    watermark: int = 0

    def batch(self, partitions: Sequence[pa.Table]) -> Journal:
        """One micro-batch; returns what is reported in it."""
        self.watermark, journal = self.newest, Journal()
        parcels: dict[str, list[Parcel]] = {}
        for out in self._parcels(partitions):
            for row in out.select(["group", "parcel"]).to_pylist():
                parcels.setdefault(row["group"], []).append(parcel_of(self.plan, row["group"], row["parcel"]))
            times = out.column("event").cast(pa.int64()).drop_null().to_pylist()
            self.newest = max([self.newest, *(t // 1000 for t in times)])
        for key, some in parcels.items():
            journal += self._take(key, some, None)
        for key, due in list(self.timers.items()):
            if due is not None and due <= self.watermark:
                journal += self._take(key, [], self.watermark)
        return journal

    def _parcels(self, partitions: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        if not self.plan.deals:
            for part in partitions:
                sizes = {"slice_rows": self.slice_rows, "chunk_rows": self.chunk_rows, "small": self.small}
                yield from self._screened(part, sizes)
            return
        packets: dict[int, list[bytes]] = {}
        for part in partitions:
            for out in dealt(self.plan, part.to_batches(), chunk_rows=self.chunk_rows):
                for row in out.to_pylist():
                    packets.setdefault(row["bucket"], []).append(row["packet"])
        for bucket, some in packets.items():
            state, cells = self.readings.get(bucket, (None, MemoryCells()))
            number, own = kin_of_bucket(self.plan, bucket)
            kin = kin_of(self.plan)[number]
            found, then = SensorStage(kin.plan, self.small).take(own, state, some, cells)
            self.readings[bucket] = then or state, cells
            yield self._packed(kin, found)

    def _screened(self, part: pa.Table, sizes: dict[str, int]) -> Iterator[pa.RecordBatch]:
        return screened(self.plan, part.to_batches(), **sizes)

    def _packed(self, kin: Kin, found: list[tuple[str, Parcel]]) -> pa.RecordBatch:
        return as_batch(kin, found)

    def _take(self, key: str, parcels: list[Parcel], watermark: int | None) -> Journal:
        self.turn += 1  # sometimes the group is cached, sometimes it is loaded
        kept = self.groups if self.at_hand and self.turn % 3 else self.states
        cells, parts, pages = (each.setdefault(key, MemoryCells()) for each in (self.cells, self.parts, self.pages))
        where = {"cells": cells, "parts": parts, "pages": pages}
        outcome = Keepers(self.plan).take(key, kept.get(key), parcels, watermark=watermark, **where)
        assert outcome.before == self.timers.get(key)
        if outcome.state is None:
            assert outcome.timer is None
            assert not cells.saved
            assert not parts.saved
            assert not pages.saved
            for each in (self.states, self.groups, self.timers, self.cells, self.parts, self.pages):
                each.pop(key, None)
            return outcome.journal
        self.states[key], self.timers[key], self.groups[key] = outcome.state, outcome.timer, outcome.group
        assert sorted(cells.saved) == sorted(slot.cell for slot in outcome.group.slots)
        return outcome.journal


class KeyedCells:
    """Cells of one group, among those of a shelf."""

    def __init__(self, saved: dict[tuple[str, int], bytes], key: str) -> None:
        self.saved, self.key = saved, key

    def get(self, number: int) -> bytes:
        return self.saved[self.key, number]

    def put(self, number: int, saved: bytes) -> None:
        self.saved[self.key, number] = saved

    def remove(self, number: int) -> None:
        del self.saved[self.key, number]


@dataclass
class MemoryStore:
    """What an engine keeps of a shelf; notes which pages are read and written."""

    saved: dict[Any, bytes] = field(default_factory=dict)
    of_groups: list[dict[tuple[str, int], bytes]] = field(default_factory=lambda: [{}, {}, {}])
    looked: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pages = self.large = self

    def index(self) -> bytes | None:
        return self.saved.get("index")

    def put_index(self, saved: bytes | None) -> None:
        self.saved.pop("index", None)
        if saved is not None:
            self.saved["index"] = saved

    def get(self, name: Any) -> bytes:
        self.looked.append(("get", name))
        return self.saved[name]

    def put(self, name: Any, saved: bytes) -> None:
        self.looked.append(("put", name))
        self.saved[name] = saved

    def remove(self, name: Any) -> None:
        del self.saved[name]

    def cells(self, key: str) -> tuple[KeyedCells, KeyedCells, KeyedCells]:
        waiting, readings, turns = (KeyedCells(each, key) for each in self.of_groups)
        return waiting, readings, turns

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return not (self.saved or any(self.of_groups))


@dataclass
class ShelfEngine(Engine):
    """Does the same with groups that lie on shelves."""

    stores: dict[int, MemoryStore] = field(default_factory=dict)

    def batch(self, partitions: Sequence[pa.Table]) -> Journal:
        """One micro-batch; returns what is reported in it."""
        self.watermark, journal = self.newest, Journal()
        crates: dict[int, dict[str, list[Parcel]]] = {}
        for out in self._parcels(partitions):
            for row in out.select(["shelf", "crate"]).to_pylist():
                for key, parcel in parcels_of(self.plan, row["shelf"], row["crate"]):
                    crates.setdefault(row["shelf"], {}).setdefault(key, []).append(parcel)
            times = out.column("event").cast(pa.int64()).drop_null().to_pylist()
            self.newest = max([self.newest, *(t // 1000 for t in times)])
        for number, parcels in crates.items():
            journal += self._on_shelf(number, parcels, None)
        for number, due in list(self.timers.items()):
            if due is not None and due <= self.watermark:
                journal += self._on_shelf(int(number), {}, self.watermark)
        return journal

    def _screened(self, part: pa.Table, sizes: dict[str, int]) -> Iterator[pa.RecordBatch]:
        return screened(self.plan, part.to_batches(), together=True, **sizes)

    def _packed(self, kin: Kin, found: list[tuple[str, Parcel]]) -> pa.RecordBatch:
        return as_crates(kin, found)

    def _on_shelf(self, number: int, parcels: dict[str, list[Parcel]], watermark: int | None) -> Journal:
        store = self.stores.setdefault(number, MemoryStore())
        keepers = Keepers(self.plan)
        shelf = Shelf(keepers.of_shelf(number), store)
        journal = [part for report in shelf.take(parcels, watermark) for part in keepers.named(number, report)]
        before, timer = shelf.finish()
        assert before == self.timers.get(str(number))
        self.timers[str(number)] = timer
        return journal


def rows_of(journal: Journal, kind: str) -> list[dict[str, Any]]:
    """The rows of one kind in a journal."""
    return [row for each, table in journal if each == kind for row in table.to_pylist()]


def changes_of(journal: Journal, plan: Plan) -> pa.Table:
    """The changes in a journal, as a monitor would report them."""
    tables = [table for kind, table in journal if kind == CHANGES]
    return pa.concat_tables([changes_schema(plan).empty_table(), *tables])


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


__all__ = ["DISTRIBUTION", "Engine", "changes_of", "cut", "fl", "plan_of", "rows_by_time", "rows_of", "table_of"]
