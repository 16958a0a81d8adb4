"""How are cells of state kept by Spark? As a map from numbers to bytes, of the key that is being handled."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming import StatefulProcessorHandle


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
