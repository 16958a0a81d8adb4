"""What does a group of the newest rows per id keep beside what every group does?

Who guards whom, the open slots in their order, versions, and the markers of ids that have no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.arrays import Batch, Ints, UncertainRows, objects
from fogline.engine.current import LatestGroup
from fogline.engine.group import Group
from fogline.engine.live import Counts
from fogline.engine.slots import Slots
from fogline.kernels.states import DOMINATED, IN, OUT
from fogline.kernels.uncertain import dense
from fogline.query import Query
from fogline.saved import Arrays, table_as_bytes, table_from_bytes


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
        sealed = s.columns.state[alive] == DOMINATED
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


# --- store ---
# Which arrays are the state of a group, and how does it stand up again from them?
#
# The live clouds with their expiry, until when they wait, and what was last reported; and the members' sums. Those
# could
# be added up anew, being integers with the same result, but that takes longer than all the rest.

AnyGroup = Group | LatestGroup
G = TypeVar("G", bound=AnyGroup)

COLUMNS = ("arrived", "expires", "until", "reported", "state", "counted", "probability", "within")
_COUNTS = tuple(each.name for each in fields(Counts))
CELLS = ("lo", "hi", "start", "size")
POOLS = ("value", "weight", "tail")
NAMES = ("id", "newest_id", "queue_id", "marker_id")  # the columns that hold names
GroupColumns = dict[str, Any]  # arrays, Arrow's for names


def save_group(group: AnyGroup) -> dict[str, Any]:
    """The small values of a group, for the header."""
    counts = {name: getattr(group.live.counts, name) for name in _COUNTS}
    return {
        "rows": group.live.alive,
        "now": group.live.now,
        "late": group.late,
        "expired_on_arrival": group.expired_on_arrival,
        "newest": group.newest,
        "newest_ids": len(_newest_ids(group)),
        "counts": {**counts, "shadowed": counts["shadowed"].tolist()},
        "order": None if group.window is None else [group.window.count, group.window.size],
        "latest": save_latest(group) if isinstance(group, LatestGroup) else None,
    }


def join_groups(groups: Sequence[AnyGroup], d: int, kind: pa.DataType | None) -> Arrays:
    """The columns of all groups, one after the other, for `packing.pack`."""
    return {
        name: table_as_bytes(pa.table({"values": each})) if isinstance(each, pa.Array) else each
        for name, each in join_columns(groups, d, kind).items()
    }


def join_columns(groups: Sequence[AnyGroup], d: int, kind: pa.DataType | None) -> GroupColumns:
    """The same, with names as Arrow arrays."""
    alive = [group.live.slots.alive() for group in groups]
    uncertain = [
        dense(group.live.slots.uncertain, which, group.live.slots.shared)
        for group, which in zip(groups, alive, strict=True)
    ]
    out: GroupColumns = {name: _join([getattr(each, name) for each in uncertain], (0, d)) for name in CELLS}
    out |= {name: _join([getattr(each, name) for each in uncertain], (0,)) for name in POOLS}
    out["pools"] = np.array([len(each.value) for each in uncertain], np.int64)
    slots = [(group.live.slots, which) for group, which in zip(groups, alive, strict=True)]
    out |= {name: _join([getattr(s.columns, name)[which] for s, which in slots], (0,)) for name in COLUMNS}
    sums = [_sums(*each) for each in slots]
    out["logs"] = _join([s.sums.logs[at] for (s, _), at in zip(slots, sums, strict=True)], (0, 2))
    out["zeros"] = _join([s.sums.zeros[at] for (s, _), at in zip(slots, sums, strict=True)], (0,))
    out["sums"] = np.array([len(at) for at in sums], np.int64)
    out["raw"] = _join([s.raw[which] for s, which in slots], (0, d))
    out["known"] = _join([s.known[which] for s, which in slots], (0, 0))
    ids = [each for s, which in slots for each in s.id[which]]
    out["id"] = pa.array(ids, kind)
    if latest := [group for group in groups if isinstance(group, LatestGroup)]:
        return out | join_latest(latest, kind)
    out["newest_id"] = pa.array([each for group in groups for each in _newest_ids(group)], kind)
    keys = [group.window.keys() for group in groups if group.window is not None]
    out["queue_arrived"] = _join([arrived for arrived, _ in keys], (0,))
    out["queue_id"] = pa.array([each for _, names in keys for each in names], kind)
    return out


def _newest_ids(group: AnyGroup) -> set[Any]:
    return set() if isinstance(group, LatestGroup) else group.newest_ids


def _sums(slots: Slots, which: Ints) -> Ints:
    """Where the sums of the members among these lie, one member's after the other's."""
    c = slots.columns
    members = which[(c.state[which] == IN) & (c.places[which] > 0)]
    length = c.places[members]
    end = np.cumsum(length)
    return np.repeat(c.at[members] - (end - length), length) + np.arange(end[-1] if len(end) else 0)


def split_groups(
    headers: list[dict[str, Any]], arrays: Arrays, query: Query, new: Callable[[], G]
) -> tuple[list[G], pa.DataType]:
    """The groups again, and the type of their ids."""
    columns: GroupColumns = dict(arrays)
    for name in NAMES:
        if name in arrays:
            columns[name] = table_from_bytes(arrays[name]).column(0).combine_chunks()
    return split_columns(headers, columns, query, new), columns["id"].type


def split_columns(headers: list[dict[str, Any]], arrays: GroupColumns, query: Query, new: Callable[[], G]) -> list[G]:
    """The inverse of `join_columns`."""
    ids = arrays["id"].to_pylist()
    latest = LatestArrays(arrays) if "guard" in arrays else None
    newest, queued = ([] if latest else arrays[name].to_pylist() for name in ("newest_id", "queue_id"))
    groups: list[G] = []
    row = pool = near = queue = sum_ = 0
    for header, size, length in zip(headers, arrays["pools"], arrays["sums"].tolist(), strict=True):
        group = new()
        sums = slice(sum_, sum_ + length)
        sum_ = sums.stop
        rows, pools = slice(row, row + header["rows"]), slice(pool, pool + int(size))
        uncertain = UncertainRows(*(arrays[name][rows] for name in CELLS), *(arrays[name][pools] for name in POOLS))
        names = _objects(ids[rows])
        batch = Batch(
            names,
            arrays["arrived"][rows],
            arrays["expires"][rows],
            arrays["raw"][rows],
            arrays["known"][rows],
            uncertain,
        )
        columns = {name: arrays[name][rows] for name in COLUMNS}
        _fill(group, batch, columns, header, arrays["logs"][sums], arrays["zeros"][sums])
        if isinstance(group, LatestGroup):
            assert latest is not None
            group.newest = header["newest"]
            latest.fill(group, header["latest"])
        else:
            group.remember(header["newest"], newest[near : near + header["newest_ids"]])
        _finish(group, header)
        if group.window is not None:
            count, waiting = header["order"]
            ends = slice(queue, queue + waiting)
            group.window.load(count, arrays["queue_arrived"][ends], _objects(queued[ends]))
            queue += waiting
        row, pool, near = rows.stop, pools.stop, near + header["newest_ids"]
        groups.append(group)
    return groups


def _fill(group: AnyGroup, batch: Batch, columns: Arrays, header: dict[str, Any], logs: Ints, zeros: Ints) -> None:
    """Give the saved clouds their slots and the members their sums."""
    live = group.live
    live.now = header["now"]
    group.late, group.expired_on_arrival = header["late"], header["expired_on_arrival"]
    live.load(batch)
    s, n = live.slots, len(batch.id)
    for name, column in columns.items():
        getattr(s.columns, name)[:n] = column
    places = s.columns.places[:n]
    members = np.flatnonzero((columns["state"] == IN) & (places > 0))
    s.room_for_sums(len(logs))
    s.sums.logs[: len(logs)], s.sums.zeros[: len(logs)] = logs, zeros
    s.columns.at[members] = np.cumsum(places[members]) - places[members]
    s.filled = s.packed = len(logs)


def _finish(group: AnyGroup, header: dict[str, Any]) -> None:
    """Judge members without sums anew, and take over what was counted."""
    live, c, n = group.live, group.live.slots.columns, group.live.slots.used
    members = np.flatnonzero(c.state[:n] == IN)
    summed = members[c.places[members] > 0]
    old = summed[group.live.slots.sums.zeros[c.at[summed]] < 0]  # see `packing`
    anew = np.concatenate((members[c.places[members] == 0], old))
    c.state[anew], c.until[anew] = OUT, -np.inf
    live.stand_up(anew=len(anew) > 0)
    for name, value in header["counts"].items():
        setattr(live.counts, name, np.array(value, np.int64) if name == "shadowed" else value)


def _join(parts: list[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(shape)


def _objects(values: list[Any]) -> NDArray[Any]:
    out = np.empty(len(values), object)
    out[:] = values
    return out
