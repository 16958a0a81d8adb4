"""What does a group of the newest rows per id keep beside what every group does?

Who guards whom, the open slots in their order, versions, and the markers of ids that have no row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints, objects
from fogline.kernels.states import OUT, SEALED
from fogline.skyline.latest import LatestGroup


def save_latest(group: LatestGroup) -> dict[str, Any]:
    """The small values, for the header."""
    return {
        "clock": group.clock,
        "stale": group.stale,
        "removed": group.removed,
        "markers": group.markers,
        "open": len(group.live.opened),
        "out": len(_out(group)),
    }


def _out(group: LatestGroup) -> Ints:
    """The slots that are out: only those have several guards."""
    s = group.live.slots
    return np.flatnonzero(s.columns.state[: s.used] == OUT)


def join_latest(groups: list[LatestGroup], kind: pa.DataType | None) -> dict[str, Any]:
    """The columns of all groups, one after the other. Slots are counted within a group, among those alive."""
    parts: list[dict[str, Any]] = []
    ids: list[Any] = []
    for group in groups:
        s, names, alive, out = group.live.slots, group.names, group.live.slots.alive(), _out(group)
        place = np.full(s.used, -1, np.int32)
        place[alive] = np.arange(len(alive))
        joint, markers = s.guards.joint[out], names.markers(group.clock)
        sealed = s.columns.state[alive] == SEALED
        parts.append(
            {
                "guard": np.where(sealed, place[np.where(sealed, s.guards.sure[alive], 0)], -1).astype(np.int32),
                "joint": np.where(joint >= 0, place[joint], joint).astype(np.int32),
                "open": place[group.live.opened].astype(np.int32),
                "version": names.version[s.number[alive]],
                "marker_time": names.time[markers],
                "marker_version": names.version[markers],
            }
        )
        ids += names.id[markers].tolist()
    joined: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return joined | {"marker_id": pa.array(ids, kind)}


class LatestArrays:
    """The joined columns again, group after group."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays
        self.ids = arrays["marker_id"].to_pylist() if "marker_id" in arrays else []  # 0.1 left it out where it is empty
        self.at = dict.fromkeys(("guard", "joint", "open", "version", "marker_time", "marker_version", "id"), 0)

    def _next(self, name: str, n: int) -> Any:
        begin = self.at[name]
        self.at[name] = begin + n
        return self.ids[begin : begin + n] if name == "id" else self.arrays[name][begin : begin + n]

    def fill(self, group: LatestGroup, header: dict[str, Any]) -> None:
        """Give a group, whose slots and columns are filled, its guards and names."""
        s, names, n, markers = group.live.slots, group.names, group.live.slots.used, header["markers"]
        group.clock, group.stale, group.removed = header["clock"], header["stale"], header["removed"]
        s.guards.sure[:n] = self._next("guard", n)
        s.guards.joint[np.flatnonzero(s.columns.state[:n] == OUT)] = self._next("joint", header["out"])
        group.live.opened = self._next("open", header["open"]).astype(np.int64)
        s.number[:n] = names.numbers(s.id[:n])
        names.moved(s.number[:n])
        names.stamp(s.number[:n], s.columns.arrived[:n], self._next("version", n))
        number = names.numbers(objects(self._next("id", markers)))
        names.stamp(number, self._next("marker_time", markers), self._next("marker_version", markers))
