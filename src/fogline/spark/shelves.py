"""What does Spark call where there are groups: for each shelf of them, once in a micro-batch?

As `processors` it is a thin part: it reads and writes state and timers, and hands everything to `fogline.flow`. A
shelf's timer is the first of its groups' timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from fogline.spark.cells import MapCells, cells_of
from fogline.spark.packed import Packed
from fogline.spark.partitions import bucket_labels
from fogline.spark.threads import allow_threads

if TYPE_CHECKING:
    from fogline.flow.cells import Cells
    from fogline.flow.keepers import Keepers
    from fogline.flow.parcel import Parcel
    from fogline.flow.plans import AnyPlan
    from fogline.flow.spill import Carrier, Spill
    from fogline.rows.names import Key


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
        from fogline.spark.identity import identity_of

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
        from fogline.flow.plans import parcels_of

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
        from fogline.flow.keepers import Keepers
        from fogline.flow.spill import Carrier

        plan, spill = self.packed.get()
        allow_threads()
        return Keepers(plan), Carrier(spill)

    def _take(self, number: int, parcels: dict[Key, list[Parcel]], watermark: int | None) -> Iterator[Any]:
        from fogline.flow.shelf import Shelf

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
