"""What does Spark call for each key of a micro-batch?

Thin parts: they read and write state and timers, and hand everything to the engine-free stages of `fogline.flow`, which
are imported when the first rows are there (see `packed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.rows.names import NO_COLUMNS
from fogline.spark.cells import cells_of
from fogline.spark.packed import Packed
from fogline.spark.partitions import bucket_labels
from fogline.spark.threads import allow_threads

if TYPE_CHECKING:
    from fogline.flow.cache import LoadedGroup
    from fogline.flow.keeper import Keeper, Outcome
    from fogline.flow.parcel import Parcel
    from fogline.flow.plan import Plan
    from fogline.flow.plans import AnyPlan, Kin
    from fogline.flow.sensors import SensorStage
    from fogline.flow.spill import Carrier, Spill
    from fogline.rows.names import Key


class GroupProcessor(StatefulProcessor):
    """Rows of the only group have come, or its timer fires. (Where there are several, see `shelves`.)"""

    def __init__(self, plan: Plan, spill: Spill | None = None) -> None:
        from fogline.spark.identity import identity_of

        self.packed, self.identity = Packed((plan, spill)), identity_of(plan)
        self.waits, self.changes = plan.lateness > 0, plan.query.latest
        self.settles = plan.settles and plan.remembers

    @property
    def plan(self) -> Plan:
        """How the stream is watched."""
        return self.packed.get()[0]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("group", "mark binary, saved binary")
        self.large = handle.getValueState("large", "saved binary")  # what is large lies apart, to be read if need be
        self.cells = cells_of(handle, "waiting") if self.waits else None
        self.parts = cells_of(handle, "readings") if self.settles else None
        self.pages = cells_of(handle, "pages") if self.changes else None
        handle.getValueState(*self.identity)
        self.made: tuple[Keeper, Carrier] | None = None  # when rows are there: Spark also calls this where none are

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        from fogline.flow.parcel import Parcel

        parcels = [Parcel.from_bytes(bytes(each), self.plan) for frame in rows for each in frame["parcel"]]
        yield from self._take(parcels, None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from self._take([], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Files that were too much to be carried are whole."""
        if self.made is not None:
            self.made[1].close()

    def _make(self) -> tuple[Keeper, Carrier]:
        from fogline.flow.keeper import Keeper
        from fogline.flow.spill import Carrier

        plan, spill = self.packed.get()
        allow_threads()
        return Keeper(plan), Carrier(spill)

    def _take(self, parcels: list[Parcel], watermark: int | None) -> Iterator[Any]:
        self.made = self.made or self._make()
        keeper, carrier = self.made
        outcome = keeper.take(
            NO_COLUMNS, self._read(), parcels, watermark=watermark, cells=self.cells, parts=self.parts, pages=self.pages
        )
        self._write(outcome)
        if outcome.timer != outcome.before or watermark is not None:
            if outcome.before is not None and watermark is None:
                self.handle.deleteTimer(outcome.before)
            if outcome.timer is not None:
                self.handle.registerTimer(outcome.timer)
        return map(pd.DataFrame, carrier.carry(outcome.journal))

    def _read(self) -> bytes | LoadedGroup | None:
        from fogline.flow import cache

        found = self.state.get()
        self.found, self.apart = found is not None, found is not None and found[1] is None
        if found is None:
            return None
        mark, saved = found
        if not self.apart:
            return bytes(saved)
        return cache.pop((bytes(mark), self.plan.digest)) or bytes(self.large.get()[0])

    def _write(self, outcome: Outcome) -> None:
        from fogline.flow import cache

        if outcome.state is None:
            self._clear()
            return
        if len(outcome.state) < cache.LARGE:
            self.state.update((b"", outcome.state))
            if self.apart:
                self.large.clear()
            return
        mark = cache.digest(outcome.state)
        self.state.update((mark, None))
        self.large.update((outcome.state,))
        if outcome.group.log is None:  # else what lies apart has been cached
            cache.put((mark, self.plan.digest), outcome.group, len(outcome.state))

    def _clear(self) -> None:
        if self.found:
            self.state.clear()
        if self.apart:
            self.large.clear()


class SensorProcessor(StatefulProcessor):
    """Readings of a bucket of sensors have come."""

    def __init__(self, plan: AnyPlan) -> None:
        from fogline.spark.identity import identity_of

        self.packed, self.number, self.identity = Packed(plan), plan.all_buckets, identity_of(plan)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state, self.cells = handle.getValueState("sensors", "saved binary"), cells_of(handle, "parts")
        handle.getValueState(*self.identity)
        self.buckets = {label: k for k, label in enumerate(bucket_labels(self.number))}
        self.stages: dict[int, tuple[Kin, SensorStage]] = {}  # made when needed: Spark also calls this without rows

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        packets = [bytes(each) for frame in rows for each in frame["packet"]]
        found, (kin, stage, bucket) = self.state.get(), self._stage(self.buckets[int(key[0])])
        out, state = self._take(kin, stage, bucket, None if found is None else bytes(found[0]), packets)
        if state is not None:
            self.state.update((state,))
        yield out

    def _stage(self, bucket: int) -> tuple[Kin, SensorStage, int]:
        """Whose sensors lie in a bucket, their stage, and which of their buckets it is."""
        from fogline.flow.plans import kin_of, kin_of_bucket
        from fogline.flow.sensors import SensorStage

        number, own = kin_of_bucket(self.packed.get(), bucket)
        if number not in self.stages:
            kin = kin_of(self.packed.get())[number]
            self.stages[number] = kin, SensorStage(kin.plan)
        return *self.stages[number], own

    def _take(
        self, kin: Kin, stage: SensorStage, bucket: int, state: bytes | None, packets: list[bytes]
    ) -> tuple[Any, Any]:
        """What goes on from here, and the state if it is another."""
        parcels, then = stage.take(bucket, state, packets, self.cells)
        return as_frame(self.packed.get(), kin, parcels), then

    def close(self) -> None:
        """Nothing is held."""


def as_frame(plan: AnyPlan, kin: Kin, parcels: list[tuple[Key, Parcel]]) -> pd.DataFrame:
    """Parcels as Spark takes them from a stateful operator: see `as_keyed`."""
    frame: pd.DataFrame = as_keyed(plan, kin, parcels).to_pandas()
    return frame.assign(event=frame["event"].dt.tz_localize(None))


def as_keyed(plan: AnyPlan, kin: Kin, parcels: list[tuple[Key, Parcel]]) -> pa.RecordBatch:
    """Parcels as rows of a record batch: shelf, crate, event time; where there is one group, shelf, parcel, event."""
    from fogline.flow.stages import as_batch, as_crates

    return shelved(plan, as_crates(kin, parcels) if plan.grouped else as_batch(kin, parcels))


def shelved(plan: AnyPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the label of each shelf; the only group lies on one of its own."""
    if plan.grouped:
        return labelled(plan, batch, "shelf")
    return batch.set_column(0, "shelf", pa.array([0] * batch.num_rows, pa.int32()))


def labelled(plan: AnyPlan, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The batch with labels in place of the numbers of buckets or shelves, so that Spark deals them evenly."""
    labels = pa.array(bucket_labels(plan.all_shelves if name == "shelf" else plan.all_buckets), pa.int32())
    return batch.set_column(batch.schema.get_field_index(name), name, labels.take(batch[name]))
