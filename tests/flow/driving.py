"""How does a stream go through the stages of the pipeline without Spark?

As Spark would drive them: batches of partitions, each partition pruned by itself or dealt to the buckets of its
sensors, what is left handed to the shards of its groups, state as bytes in between, a watermark that follows the newest
row and fires timers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import fogline as fl
from fogline.pipeline import loaded, small_groups
from fogline.pipeline.exchange import ArrivedRows, BucketRows, GroupRows, RowsByGroup
from fogline.pipeline.loaded import LoadedGroup
from fogline.pipeline.names import CHANGES
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import BatchResult, changes_schema
from fogline.pipeline.runner import GroupRunner, Runners
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.shard import Shard
from fogline.pipeline.stages import Pruned, dealt, of_query, pruned
from fogline.rows.names import KeyText
from fogline.state.store import MemoryStore
from tests.contracts import DISTRIBUTION, as_arrow, query_of
from tests.strategies import Stream


def table_of(stream: Stream) -> pa.Table:
    """All rows of a stream as one Arrow table, in their order."""
    return pa.concat_tables([table for _, table in as_arrow(stream).calls])


def plan_of(stream: Stream, schema: pa.Schema, **how: Any) -> Plan:
    return make_plan(query_of(stream), schema, **how)


def pruned_rows(plan: Plan, table: pa.Table, **sizes: Any) -> dict[KeyText, list[GroupRows]]:
    """What pruning leaves of a table, by groups."""
    out: dict[KeyText, list[GroupRows]] = {}
    for chunk in pruned(Plans.alone(plan), table.to_batches(), **sizes):
        for key, rows in chunk.groups:
            out.setdefault(key, []).append(rows)
    return out


def arrived(plan: Plan, come: Mapping[KeyText, Sequence[GroupRows]]) -> ArrivedRows:
    """Rows of groups as a shard takes them."""
    return ArrivedRows([RowsByGroup.of(plan, [(key, each) for key, some in come.items() for each in some])])


@dataclass
class Taken:
    """What became of a group, alone on its shard."""

    state: MemoryStore | None  # None: it is forgotten
    journal: BatchResult
    timer: int | None
    before: int | None
    plan: Plan

    @property
    def group(self) -> LoadedGroup:
        """The group, as it lies in its state."""
        assert self.state is not None
        [group] = Shard(GroupRunner(self.plan), self.state).groups()
        return group


def take(
    plan: Plan,
    key: KeyText,
    state: MemoryStore | None,
    come: Sequence[GroupRows] = (),
    *,
    watermark: int | None = None,
    end: bool = False,
) -> Taken:
    """Rows, or the watermark, reach a group that is alone on its shard; the state before stays as it is."""
    store = MemoryStore() if state is None else copy.copy(state)
    store.values = {} if state is None else dict(state.values)
    runner = GroupRunner(plan)
    if end:
        setattr(runner, "step", partial(runner.step, end=True))  # noqa: B010 - a method, for this runner alone
    shard = Shard(runner, store)
    there = arrived(plan, {} if watermark is not None else {key: come})
    journal = [part for each in shard.take(there, watermark) for part in each]
    before, timer = shard.finish()
    return Taken(store if store.values else None, journal, timer, before, plan)


@contextmanager
def apart(*, cached: bool) -> Iterator[None]:
    """Groups lie apart, under their own keys; a worker has them as it saved them, or begins anew."""
    before = small_groups.ROWS, loaded.LARGE
    small_groups.ROWS, loaded.LARGE = -1, 0
    try:
        if not cached:
            loaded._cached.clear()
        yield
    finally:
        small_groups.ROWS, loaded.LARGE = before


@dataclass
class Engine:
    """Does what an engine does with the stages, with each group alone on a shard of its own."""

    plan: Any  # a Plan, or Plans of several queries
    slice_rows: int = 3
    chunk_rows: int = 5
    small: int = 0
    stores: dict[Any, MemoryStore] = field(default_factory=dict)  # of groups, by the name of the query and the key
    at_hand: bool = True  # whether groups are sometimes cached
    readings: dict[int, MemoryStore] = field(default_factory=dict)  # of buckets of sensors
    turn: int = 0
    timers: dict[Any, int] = field(default_factory=dict)
    newest: int = 0  # greatest event time
    watermark: int = 0

    @property
    def plans(self) -> Plans:
        return self.plan if isinstance(self.plan, Plans) else Plans.alone(self.plan)

    @property
    def states(self) -> dict[Any, dict[tuple[str, str, int], bytes]]:
        """What is kept of each group."""
        return {place: store.values for place, store in self.stores.items()}

    @property
    def groups(self) -> dict[Any, LoadedGroup]:
        """The groups, loaded."""
        runners = Runners(self.plans)
        return {
            place: next(iter(Shard(runners.of_shard(self._shard_of(place)), store).groups()))
            for place, store in self.stores.items()
        }

    def beside(self, place: Any, namespace: str) -> dict[int, bytes]:
        """What lies beside the state of a group."""
        there = self.states.get(place, {})
        return {part: value for (what, _, part), value in there.items() if what == namespace}

    def batch(self, partitions: Sequence[pa.Table]) -> BatchResult:
        """One micro-batch; returns what is reported in it."""
        self.watermark, journal = self.newest, BatchResult()
        come: dict[Any, list[RowsByGroup]] = {}
        for chunk in self._pruned(partitions):
            for shard, query, groups in chunk.by_shard():
                for place, some in self._places(shard, query.name, of_query(chunk.shared, query.plan, groups)):
                    come.setdefault(place, []).append(some)
            self.newest = max(self.newest, chunk.event or 0)
        for place, chunks in come.items():
            journal += self._take(place, ArrivedRows(chunks), None)
        for place, due in list(self.timers.items()):
            if due <= self.watermark:
                journal += self._take(place, ArrivedRows(), self.watermark)
        return journal

    def _pruned(self, partitions: Sequence[pa.Table]) -> Iterator[Pruned]:
        if not self.plans.deals:
            for part in partitions:
                sizes = {"slice_rows": self.slice_rows, "chunk_rows": self.chunk_rows, "small": self.small}
                yield from pruned(self.plans, part.to_batches(), **sizes)
            return
        buckets: dict[int, list[BucketRows]] = {}
        for part in partitions:
            for bucket, rows in dealt(self.plans, part.to_batches(), chunk_rows=self.chunk_rows):
                buckets.setdefault(bucket, []).append(rows)
        for bucket, some in buckets.items():
            number, own = self.plans.of_bucket(bucket)
            shared = self.plans.shared[number]
            store = self.readings.setdefault(bucket, MemoryStore())
            yield Pruned(shared, SensorStage(shared.plan, self.small).take(own, some, store))

    def _places(self, shard: int, name: str | None, groups: RowsByGroup) -> Iterator[tuple[Any, RowsByGroup]]:
        """Where each group lies: alone."""
        for k, key in enumerate(groups.keys):
            yield f"{name or ''}{key}", groups.part(np.array([k]))

    def _shard_of(self, place: Any) -> int:
        """A shard of the query whose group lies there."""
        name = str(place).partition("[")[0] or None
        return next(first for each, first in zip(self.plans.named, self.plans.first_shards, strict=False)
                    if each.name == name)  # fmt: skip

    def _take(self, place: Any, come: ArrivedRows, watermark: int | None) -> BatchResult:
        self.turn += 1  # sometimes the group is cached, sometimes it is loaded
        with apart(cached=bool(self.turn % 3)) if self.at_hand else nullcontext():
            return self._step(place, self._shard_of(place), come, watermark)

    def _step(self, place: Any, number: int, come: ArrivedRows, watermark: int | None) -> BatchResult:
        store, runners = self.stores.setdefault(place, MemoryStore()), Runners(self.plans)
        shard = Shard(runners.of_shard(number), store)
        journal = [part for report in shard.take(come, watermark) for part in runners.named(number, report)]
        before, timer = shard.finish()
        assert before == self.timers.pop(place, None)
        if timer is not None:
            self.timers[place] = timer
        if store.get("index") is None:
            assert not store.values  # nothing is left of what is forgotten
            del self.stores[place]
        return journal


@dataclass
class ShardEngine(Engine):
    """Does the same with groups that lie together on shards."""

    def _places(self, shard: int, name: str | None, groups: RowsByGroup) -> Iterator[tuple[Any, RowsByGroup]]:
        yield shard, groups

    def _take(self, place: Any, come: ArrivedRows, watermark: int | None) -> BatchResult:
        return self._step(place, place, come, watermark)


def rows_of(journal: BatchResult, kind: str) -> list[dict[str, Any]]:
    """The rows of one kind in a journal."""
    return [row for each, table in journal if each == kind for row in table.to_pylist()]


def changes_of(journal: BatchResult, plan: Plan) -> pa.Table:
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
