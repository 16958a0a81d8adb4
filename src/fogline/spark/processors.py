"""What does Spark call for each key of a micro-batch, and where does it keep state?

A key is a shard of groups, or a bucket of sensors. The processors are thin: they open what came, give the stages of
`fogline.pipeline` a store, and register the timer. Stages are imported when the first rows are there (see `Packed`).
Here is also where rows are packed for Spark to carry: all groups of one shard in one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pandas as pd
import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.spark.partitions import bucket_labels
from fogline.spark.workers import allow_threads

if TYPE_CHECKING:
    from fogline.pipeline.exchange import ArrivedRows, BucketRows
    from fogline.pipeline.plans import Plans
    from fogline.pipeline.runner import Runners
    from fogline.pipeline.sensors import SensorStage
    from fogline.pipeline.stages import Pruned
    from fogline.runs.spill import Carrier, Spill


class SparkStore:
    """The store of the key that is being handled: one map of Spark's state. Each call is a round trip to the JVM."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getMapState("state", "namespace string, key string, part int", "saved binary")

    def get(self, namespace: str, key: str = "", part: int = 0) -> bytes | None:
        found = self.state.getValue((namespace, key, part))
        return None if found is None else bytes(found[0])

    def put(self, namespace: str, key: str, part: int, value: bytes) -> None:
        self.state.updateValue((namespace, key, part), (value,))

    def delete(self, namespace: str, key: str, part: int) -> None:
        self.state.removeKey((namespace, key, part))


# --- How a processor travels without all that it needs ----------------------------------------------------------------
#
# Before the first batch of a query Spark starts a Python process for each stateful operator, only to ask its processor
# for the names and types of its state. What is `Packed` travels as bytes, and is unpacked, with the modules that it
# needs, when it is first asked for: that process imports neither the compiler nor the stages, which takes a second.

T = TypeVar("T")


class Packed(Generic[T]):
    """A value that is unpacked where it is used."""

    def __init__(self, value: T) -> None:
        self._values = [value]
        self._bytes = b""

    def get(self) -> T:
        """The value."""
        if not self._values:
            self._values.append(CloudPickleSerializer().loads(self._bytes))
        return self._values[0]

    def __getstate__(self) -> bytes:
        return bytes(CloudPickleSerializer().dumps(self._values[0])) if self._values else self._bytes

    def __setstate__(self, packed: bytes) -> None:
        self._values, self._bytes = [], packed


# --- What is called ---------------------------------------------------------------------------------------------------


class SensorProcessor(StatefulProcessor):
    """Readings of a bucket of sensors have come."""

    def __init__(self, plans: Plans) -> None:
        from fogline.spark.errors import identity_of

        self.packed, self.number, self.identity = Packed(plans), plans.all_buckets, identity_of(plans)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.store = SparkStore(handle)
        handle.getValueState(*self.identity)
        self.buckets = {label: k for k, label in enumerate(bucket_labels(self.number))}
        self.stages: dict[int, SensorStage] = {}  # made when needed: Spark also calls this where no rows are

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        plans = self.packed.get()
        number, bucket = plans.of_bucket(self.buckets[int(key[0])])
        come = bucket_rows(plans, number, (each for frame in rows for each in frame["rows"]))
        yield self._take(self._stage(number), number, bucket, come)

    def _stage(self, number: int) -> SensorStage:
        from fogline.pipeline.sensors import SensorStage

        if number not in self.stages:
            self.stages[number] = SensorStage(self.packed.get().shared[number].plan)
        return self.stages[number]

    def _take(self, stage: SensorStage, number: int, bucket: int, come: list[BucketRows]) -> Any:
        """What goes on from here."""
        from fogline.pipeline.stages import Pruned

        plans = self.packed.get()
        chunk = Pruned(plans.shared[number], stage.take(bucket, come, self.store))
        return packed_groups(plans, chunk).to_pandas()  # times in UTC: Spark takes those without a zone for local ones

    def close(self) -> None:
        """Nothing is held."""


class ShardProcessor(StatefulProcessor):
    """Rows of a shard's groups have come, or its timer fires, which is the first of its groups' timers."""

    def __init__(self, plans: Plans, spill: Spill | None = None) -> None:
        from fogline.spark.errors import identity_of

        self.packed, self.number, self.identity = Packed((plans, spill)), plans.shards, identity_of(plans)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.store = handle, SparkStore(handle)
        handle.getValueState(*self.identity)
        self.shards = {label: k for k, label in enumerate(bucket_labels(self.number))}
        self.made: tuple[Runners, Carrier] | None = None  # when rows are there: Spark also calls this where none are

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        shard = self.shards[int(key[0])]
        come = group_rows(self.packed.get()[0], shard, (each for frame in rows for each in frame["rows"]))
        yield from self._take(shard, come, None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        from fogline.pipeline.exchange import ArrivedRows

        yield from self._take(self.shards[int(key[0])], ArrivedRows(), timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Files that were too much to be carried are whole."""
        if self.made is not None:
            self.made[1].close()

    def _make(self) -> tuple[Runners, Carrier]:
        from fogline.pipeline.runner import Runners
        from fogline.runs.spill import Carrier

        plans, spill = self.packed.get()
        allow_threads()
        return Runners(plans), Carrier(spill)

    def _take(self, number: int, come: ArrivedRows, watermark: int | None) -> Iterator[Any]:
        from fogline.pipeline.shard import Shard

        self.made = self.made or self._make()
        runners, carrier = self.made
        shard = Shard(runners.of_shard(number), self.store)
        for report in shard.take(come, watermark):
            yield from map(pd.DataFrame, carrier.carry(runners.named(number, report)))
        before, timer = shard.finish()
        if timer != before or watermark is not None:
            if before is not None and watermark is None:
                self.handle.deleteTimer(before)
            if timer is not None:
                self.handle.registerTimer(timer)


# --- How rows travel --------------------------------------------------------------------------------------------------
#
# Keys are labels of shards and buckets, such that Spark deals them evenly to its partitions.


def packed_groups(plans: Plans, chunk: Pruned) -> pa.RecordBatch:
    """Rows of groups: label of the shard, rows packed, event time that they have reached. Queries share the bytes."""
    from fogline.pipeline.exchange import pack_groups

    labels, packed = bucket_labels(plans.shards), dict[int, bytes]()
    shards, values = list[int](), list[bytes]()
    for shard, _, groups in chunk.by_shard():
        if id(groups) not in packed:
            packed[id(groups)] = pack_groups(chunk.shared.plan, groups)
        shards.append(labels[shard])
        values.append(packed[id(groups)])
    times = pa.array([None if chunk.event is None else chunk.event * 1000] * len(shards), pa.int64())
    columns = [pa.array(shards, pa.int32()), pa.array(values, pa.binary()), times.cast(pa.timestamp("us", "UTC"))]
    return pa.record_batch(columns, ["shard", "rows", "event"])


def group_rows(plans: Plans, shard: int, packed: Iterable[Any]) -> ArrivedRows:
    """The rows of a shard's groups again."""
    from fogline.pipeline.exchange import ArrivedRows, unpack_groups
    from fogline.pipeline.stages import of_query

    name, plan = plans.of_shard(shard)
    shared = plans.shared_by_name[name]
    return ArrivedRows(of_query(shared, plan, unpack_groups(plan, bytes(each))) for each in packed)


def packed_bucket(plans: Plans, bucket: int, rows: BucketRows) -> pa.RecordBatch:
    """Rows for a bucket of sensors: its label, rows packed."""
    from fogline.pipeline.exchange import pack_bucket

    label, packed = (
        bucket_labels(plans.all_buckets)[bucket],
        pack_bucket(plans.shared[plans.of_bucket(bucket)[0]].plan, rows),
    )
    return pa.record_batch([pa.array([label], pa.int32()), pa.array([packed], pa.binary())], ["bucket", "rows"])


def bucket_rows(plans: Plans, number: int, packed: Iterable[Any]) -> list[BucketRows]:
    """The rows for a bucket again; `number`: of the shared plan."""
    from fogline.pipeline.exchange import unpack_bucket

    plan = plans.shared[number].plan
    return [unpack_bucket(plan, bytes(each)) for each in packed]
