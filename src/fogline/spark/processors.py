"""How are cells of state kept by Spark? As a map from numbers to bytes, of the key that is being handled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pandas as pd
import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.rows.names import NO_COLUMNS
from fogline.spark.partitions import bucket_labels
from fogline.spark.workers import allow_threads

if TYPE_CHECKING:
    from fogline.pipeline.exchange import Parcel
    from fogline.pipeline.loaded import LoadedGroup
    from fogline.pipeline.plan import Plan
    from fogline.pipeline.plans import AnyPlan, Kin
    from fogline.pipeline.runner import Keeper, Keepers, Outcome
    from fogline.pipeline.sensors import SensorStage
    from fogline.pipeline.state import Cells
    from fogline.rows.names import Key
    from fogline.runs.spill import Carrier, Spill


class MapCells:
    """The cells of a state variable, or those of one group in it; each call is a round trip to the JVM."""

    def __init__(self, state: Any, *group: str) -> None:
        self.state, self.group = state, group

    def get(self, number: int) -> bytes:
        return bytes(self.state.getValue((*self.group, number))[0])

    def put(self, number: int, saved: bytes) -> None:
        self.state.updateValue((*self.group, number), (saved,))

    def remove(self, number: int) -> None:
        self.state.removeKey((*self.group, number))


def cells_of(handle: StatefulProcessorHandle, name: str) -> MapCells:
    """Cells under this name."""
    return MapCells(handle.getMapState(name, "number int", "saved binary"))


# --- packed ---
# How does a processor travel without all that it needs?
#
# Before the first batch of a query Spark starts a Python process for each stateful operator, only to ask its
# processor
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


# --- processors ---
# What does Spark call for each key of a micro-batch?
#
# Thin parts: they read and write state and timers, and hand everything to the engine-free stages of `fogline.pipeline`,
# which
# are imported when the first rows are there (see `packed`).


class GroupProcessor(StatefulProcessor):
    """Rows of the only group have come, or its timer fires. (Where there are several, see `shelves`.)"""

    def __init__(self, plan: Plan, spill: Spill | None = None) -> None:
        from fogline.spark.errors import identity_of

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
        from fogline.pipeline.exchange import Parcel

        parcels = [Parcel.from_bytes(bytes(each), self.plan) for frame in rows for each in frame["parcel"]]
        yield from self._take(parcels, None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from self._take([], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Files that were too much to be carried are whole."""
        if self.made is not None:
            self.made[1].close()

    def _make(self) -> tuple[Keeper, Carrier]:
        from fogline.pipeline.runner import Keeper
        from fogline.runs.spill import Carrier

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
        from fogline.pipeline import loaded as cache

        found = self.state.get()
        self.found, self.apart = found is not None, found is not None and found[1] is None
        if found is None:
            return None
        mark, saved = found
        if not self.apart:
            return bytes(saved)
        return cache.pop((bytes(mark), self.plan.digest)) or bytes(self.large.get()[0])

    def _write(self, outcome: Outcome) -> None:
        from fogline.pipeline import loaded as cache

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
        from fogline.spark.errors import identity_of

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
        from fogline.pipeline.plans import kin_of, kin_of_bucket
        from fogline.pipeline.sensors import SensorStage

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
    from fogline.pipeline.stages import as_batch, as_crates

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


# --- shelves ---
# What does Spark call where there are groups: for each shelf of them, once in a micro-batch?
#
# As `processors` it is a thin part: it reads and writes state and timers, and hands everything to `fogline.pipeline`. A
# shelf's timer is the first of its groups' timers.


class KeyedStates:
    """States of a variable of the shelf that is being handled, by the keys of groups; each call is a round trip."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def get(self, key: Key) -> bytes:
        return bytes(self.state.getValue((key,))[0])

    def put(self, key: Key, saved: bytes) -> None:
        self.state.updateValue((key,), (saved,))

    def remove(self, key: Key) -> None:
        self.state.removeKey((key,))


class ShelfStore:
    """What is kept of the shelf that is being handled."""

    def __init__(self, handle: StatefulProcessorHandle, named: dict[str, bool]) -> None:
        self.state = handle.getValueState("shelf", "saved binary")
        self.pages = cells_of(handle, "pages")
        self.large = KeyedStates(handle.getMapState("large", "group string", "saved binary"))
        self.maps = [
            handle.getMapState(name, "group string, number int", "saved binary") if there else None
            for name, there in named.items()
        ]

    def index(self) -> bytes | None:
        """What was put there; None: nothing."""
        found = self.state.get()
        return None if found is None else bytes(found[0])

    def put_index(self, saved: bytes | None) -> None:
        """Keep it, instead of what is there; None: nothing."""
        if saved is None:
            self.state.clear()
        else:
            self.state.update((saved,))

    def cells(self, key: Key) -> tuple[Cells | None, Cells | None, Cells | None]:
        """Of one group: for rows that wait, readings, and turns."""
        waiting, readings, turns = (None if each is None else MapCells(each, key) for each in self.maps)
        return waiting, readings, turns


class ShelfProcessor(StatefulProcessor):
    """Rows of a shelf's groups have come, or its timer fires."""

    def __init__(self, plan: AnyPlan, spill: Spill | None = None) -> None:
        from fogline.spark.errors import identity_of

        self.packed, self.identity, self.number = Packed((plan, spill)), identity_of(plan), plan.all_shelves
        self.named = {
            "waiting": plan.lateness > 0,
            "readings": plan.settles and plan.remembers,
            "turns": plan.latest,
        }

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.store = handle, ShelfStore(handle, self.named)
        handle.getValueState(*self.identity)
        self.shelves = {label: k for k, label in enumerate(bucket_labels(self.number))}
        self.made: tuple[Keepers, Carrier] | None = None  # when rows are there: Spark also calls this where none are

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        from fogline.pipeline.plans import parcels_of

        plan, parcels, shelf = self.packed.get()[0], dict[str, list["Parcel"]](), self.shelves[int(key[0])]
        for frame in rows:
            for each in frame["crate"]:
                for group, parcel in parcels_of(plan, shelf, bytes(each)):
                    parcels.setdefault(group, []).append(parcel)
        yield from self._take(shelf, parcels, None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from self._take(self.shelves[int(key[0])], {}, timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Files that were too much to be carried are whole."""
        if self.made is not None:
            self.made[1].close()

    def _make(self) -> tuple[Keepers, Carrier]:
        from fogline.pipeline.runner import Keepers
        from fogline.runs.spill import Carrier

        plan, spill = self.packed.get()
        allow_threads()
        return Keepers(plan), Carrier(spill)

    def _take(self, number: int, parcels: dict[Key, list[Parcel]], watermark: int | None) -> Iterator[Any]:
        from fogline.pipeline.shard import Shelf

        self.made = self.made or self._make()
        keepers, carrier = self.made
        shelf = Shelf(keepers.of_shelf(number), self.store)
        for report in shelf.take(parcels, watermark):
            yield from map(pd.DataFrame, carrier.carry(keepers.named(number, report)))
        before, timer = shelf.finish()
        if timer != before or watermark is not None:
            if before is not None and watermark is None:
                self.handle.deleteTimer(before)
            if timer is not None:
                self.handle.registerTimer(timer)
