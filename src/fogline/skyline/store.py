"""Which arrays are the state of a group, and how does it stand up again from them?

The live clouds with their expiry, until when they wait, and what was last reported; and the members' sums. Those could
be added up anew, being integers with the same result, but that takes longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.arrays import Batch, Clouds, Ints
from fogline.kernels.clouds import dense
from fogline.kernels.states import IN, OUT
from fogline.model import Query
from fogline.packing import Arrays, table_as_bytes, table_from_bytes
from fogline.skyline.group import Group
from fogline.skyline.latest import LatestGroup
from fogline.skyline.live import Counts
from fogline.skyline.slots import Slots
from fogline.skyline.store_latest import LatestArrays, join_latest, save_latest

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
    clouds = [
        dense(group.live.slots.clouds, which, group.live.slots.shared)
        for group, which in zip(groups, alive, strict=True)
    ]
    out: GroupColumns = {name: _join([getattr(each, name) for each in clouds], (0, d)) for name in CELLS}
    out |= {name: _join([getattr(each, name) for each in clouds], (0,)) for name in POOLS}
    out["pools"] = np.array([len(each.value) for each in clouds], np.int64)
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
        clouds = Clouds(*(arrays[name][rows] for name in CELLS), *(arrays[name][pools] for name in POOLS))
        names = _objects(ids[rows])
        batch = Batch(
            names, arrays["arrived"][rows], arrays["expires"][rows], arrays["raw"][rows], arrays["known"][rows], clouds
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
