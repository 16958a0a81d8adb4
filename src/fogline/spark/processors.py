"""What does Spark call for each key of a micro-batch?

Thin parts: they read and write state and timers, and hand everything to the engine-free stages of `fogline.flow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.flow import cache
from fogline.flow.keeper import Keeper, Outcome
from fogline.flow.parcel import Parcel
from fogline.flow.plan import Plan
from fogline.flow.sensors import SensorStage
from fogline.flow.spill import Carrier, Spill
from fogline.flow.stages import event_times
from fogline.rows.keys import Key
from fogline.spark.cells import cells_of
from fogline.spark.identity import identity_of
from fogline.spark.partitions import bucket_labels


class GroupProcessor(StatefulProcessor):
    """A group's rows have come, or its timer fires."""

    def __init__(self, plan: Plan, spill: Spill | None = None) -> None:
        self.plan, self.spill, self.identity = plan, spill, identity_of(plan)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.carrier = Carrier(self.spill)
        self.state = handle.getValueState("group", "mark binary, saved binary")
        self.large = handle.getValueState("large", "saved binary")  # what is large lies apart, to be read if need be
        self.cells = cells_of(handle, "waiting") if self.plan.lateness else None
        self.parts = cells_of(handle, "readings") if self.plan.settles and self.plan.remembers else None
        self.pages = cells_of(handle, "pages") if self.plan.query.latest else None
        handle.getValueState(*self.identity)
        self.keeper: Keeper | None = None  # made when it is needed: Spark also calls this where there are no rows

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        parcels = [Parcel.from_bytes(bytes(each), self.plan) for frame in rows for each in frame["parcel"]]
        yield from self._take(key[0], parcels, None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from self._take(key[0], [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Files that were too much to be carried are whole."""
        self.carrier.close()

    def _take(self, key: Key, parcels: list[Parcel], watermark: int | None) -> Iterator[Any]:
        self.keeper = self.keeper or Keeper(self.plan)
        outcome = self.keeper.take(
            key, self._read(), parcels, watermark=watermark, cells=self.cells, parts=self.parts, pages=self.pages
        )
        self._write(outcome)
        if outcome.timer != outcome.before or watermark is not None:
            if outcome.before is not None and watermark is None:
                self.handle.deleteTimer(outcome.before)
            if outcome.timer is not None:
                self.handle.registerTimer(outcome.timer)
        return map(pd.DataFrame, self.carrier.carry(outcome.journal))

    def _read(self) -> bytes | cache.LoadedGroup | None:
        found = self.state.get()
        self.found, self.apart = found is not None, found is not None and found[1] is None
        if found is None:
            return None
        mark, saved = found
        if not self.apart:
            return bytes(saved)
        return cache.pop((bytes(mark), self.plan.digest)) or bytes(self.large.get()[0])

    def _write(self, outcome: Outcome) -> None:
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

    def __init__(self, plan: Plan) -> None:
        self.plan, self.identity = plan, identity_of(plan)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state, self.cells = handle.getValueState("sensors", "saved binary"), cells_of(handle, "parts")
        handle.getValueState(*self.identity)
        self.buckets = {label: k for k, label in enumerate(bucket_labels(self.plan.buckets))}
        self.stage: SensorStage | None = None  # made when it is needed: Spark also calls this where there are no rows

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        self.stage = self.stage or SensorStage(self.plan)
        packets = [bytes(each) for frame in rows for each in frame["packet"]]
        found, bucket = self.state.get(), self.buckets[int(key[0])]
        out, state = self._take(self.stage, bucket, None if found is None else bytes(found[0]), packets)
        if state is not None:
            self.state.update((state,))
        yield out

    def _take(self, stage: SensorStage, bucket: int, state: bytes | None, packets: list[bytes]) -> tuple[Any, Any]:
        """What goes on from here, and the state if it is another."""
        parcels, then = stage.take(bucket, state, packets, self.cells)
        return as_frame(self.plan, parcels), then

    def close(self) -> None:
        """Nothing is held."""


def as_frame(plan: Plan, parcels: list[tuple[Key, Parcel]]) -> pd.DataFrame:
    """Parcels as Spark takes them from a stateful operator: group, parcel, event time."""
    times = pd.to_datetime(pd.Series(event_times(plan, parcels), dtype="Int64"), unit="us", utc=True)
    frame = pd.DataFrame({"group": [key for key, _ in parcels], "parcel": [p.to_bytes(plan) for _, p in parcels]})
    return frame.assign(event=times.dt.tz_localize(None))
