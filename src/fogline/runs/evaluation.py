"""What does one batch change, if all stages run in this process?

As on any engine: rows are decoded and pruned (or dealt to the buckets of their sensors, and pruned there), what is left
meets the state of its groups on their shards, then the timers fire that the watermark has reached: the greatest event
time of the batches before. Rows are handed over as objects. State lies in one store for each shard and
each bucket.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from fogline.pipeline.decode import with_now
from fogline.pipeline.exchange import ArrivedRows, BucketRows, RowsByGroup
from fogline.pipeline.loaded import LoadedGroup
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import BatchResult
from fogline.pipeline.runner import Runners
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.shard import Shard
from fogline.pipeline.stages import Pruned, dealt, of_query, pruned
from fogline.pipeline.time_buckets import buckets_of
from fogline.pipeline.watermark import Farthest, HeardPair, event
from fogline.rows.names import KeyText
from fogline.runs.embedded_state import EmbeddedState
from fogline.state.sqlite import ShardStore

_WATERMARK, _PAIRS = "watermark", "pairs"


class Evaluation:
    """The stages of a stream's plans, over one state."""

    def __init__(self, plans: Plans, state: EmbeddedState) -> None:
        self.plans, self.state = plans, state
        self.runners = Runners(plans)
        self.sensors = [SensorStage(each.plan) for each in plans.shared if plans.deals]
        before, watermark = json.loads(state.own.get(_WATERMARK) or b"[0, 0]")
        self.before: int = before  # the watermark that the last batch had, an event time in milliseconds
        self.watermark: int = watermark  # and that the next one will have
        pairs = {name or "": state.own.get(_PAIRS, name or "") for name, _ in plans.named}
        self.farthest = {
            name: Farthest.from_plain(json.loads(each)) for name, each in pairs.items() if each
        }  # by query

    @property
    def moves(self) -> bool:
        """Whether a batch without rows would change something: the watermark has moved, and has reached a timer."""
        return self.watermark > self.before and self.state.checkpoint.is_due(self.watermark)

    def take(self, rows: Iterable[pa.RecordBatch], now: int) -> Iterator[BatchResult]:
        """What is reported of the groups that rows or time have reached; `now`: the machine's clock.

        Shard after shard, in one order: a batch that is done again after a restart reports the same in the same places.
        """
        watermark, come = self.watermark, dict[int, list[RowsByGroup]]()
        for chunk in self._pruned(with_now(rows, self.plans, now)):
            for shard, query, groups in chunk.by_shard():
                come.setdefault(shard, []).append(of_query(chunk.shared, query.plan, groups))
            self.watermark = max(self.watermark, chunk.event or 0)
        due = {int(shard) for shard, _ in self.state.checkpoint.due(watermark)}
        for number in sorted({*come, *due}):
            yield from self._step(number, ArrivedRows(come.pop(number, ())), watermark)
        if (watermark, self.watermark) != (self.before, watermark):
            self.state.own.put(_WATERMARK, "", 0, json.dumps([watermark, self.watermark]).encode())
        self.before = watermark

    def groups(self) -> Iterator[LoadedGroup]:
        """All groups, loaded: to see what they take."""
        for number in range(self.plans.shards):
            yield from Shard(self.runners.of_shard(number), self.store_of(number)).groups()

    def _pruned(self, rows: Iterable[pa.RecordBatch]) -> Iterator[Pruned]:
        if not self.plans.deals:
            yield from pruned(self.plans, rows)
            return
        buckets: dict[int, list[BucketRows]] = {}
        for bucket, some in dealt(self.plans, rows):
            buckets.setdefault(bucket, []).append(some)
        for bucket in sorted(buckets):
            number, own = self.plans.of_bucket(bucket)
            store = self.state.checkpoint.shard(f"bucket {bucket}")
            yield Pruned(self.plans.shared[number], self.sensors[number].take(own, buckets.pop(bucket), store))

    def store_of(self, shard: int) -> ShardStore:
        """What is kept of a shard."""
        return self.state.checkpoint.shard(f"shard {shard}")

    def _step(self, number: int, come: ArrivedRows, watermark: int) -> Iterator[BatchResult]:
        """Rows reach the groups of a shard, then time does."""
        shard = Shard(self.runners.of_shard(number), self.store_of(number))
        if come:
            for report in shard.take(come):
                yield self.runners.named(number, report)
        self._hear(number, come, shard.frontiers)
        if shard.index.timer is not None and shard.index.timer <= watermark:
            for report in shard.take(ArrivedRows(), watermark):
                yield self.runners.named(number, report)
        before, timer = shard.finish()
        if timer != before:
            self.state.checkpoint.set_timer(str(number), "", timer)

    def _hear(self, number: int, come: ArrivedRows, frontiers: Mapping[KeyText, float]) -> None:
        """The watermark follows the pairs of small slices, but for rows that are held: see `watermark.Farthest`."""
        name, plan = self.plans.of_shard(number)
        before = then = self.farthest.get(name or "", Farthest())
        for key, pairs in come.pairs().items():
            if key not in frontiers:
                continue
            reach = frontiers[key] + 1 if plan.ahead < math.inf else math.inf
            newest, own = np.array([each.newest for each in pairs]), zlib.crc32(key.encode())
            near = buckets_of(newest, plan.ahead) <= reach
            taken: list[HeardPair] = [each for each, is_near in zip(pairs, near.tolist(), strict=True) if is_near]
            then = then.with_pairs((each._replace(name=each.name ^ own) for each in taken), plan.ahead)
        if then != before:
            self.farthest[name or ""] = then
            self.state.own.put(_PAIRS, name or "", 0, json.dumps(then.to_plain()).encode())
            self.watermark = max(self.watermark, event(plan.kind, then.clock - plan.lateness) or 0)
