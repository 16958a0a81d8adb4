"""Which arrays are the state of groups, and how do groups stand up again from them?

The live rows with their expiry, until when they wait, and what was last reported; and the members' sums. Those could be
added up anew, being integers with the same result, but that takes longer than all the rest. Groups lie one after the
other in each column; it does not matter whether they were together before. Beside the columns each group has a header
of small values.

A group of the newest rows per id also keeps who guards whom, the open slots in their order, versions, and the markers
of ids that have no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.arrays import Batch, Floats, Ints, Objects, UncertainRows, empty_rows, objects, unshared
from fogline.engine.group import Group, WindowGroup
from fogline.engine.latest import LatestGroup
from fogline.engine.live import COUNTED, ManyLiveSets
from fogline.engine.slots import CELLS, POOLS, ranges
from fogline.kernels.states import DOMINATED, IN, OUT
from fogline.kernels.tick import living_slots
from fogline.kernels.uncertain import copy_sharing
from fogline.query import Query
from fogline.rows.kept import Kept, as_structs, from_structs
from fogline.saved import Arrays, table_as_bytes, table_from_bytes

COLUMNS = ("arrived", "expires", "until", "reported", "state", "counted", "probability", "within")
NAMES = ("id", "newest_id", "queue_id", "marker_id", "kept")  # the columns that hold names, or what comes along
GroupColumns = dict[str, Any]  # arrays, Arrow's for names
_OF_EACH = ("now", "late", "expired_on_arrival", "newest")  # small values of each group, …
_OF_LATEST = ("clock", "stale", "removed")  # … and of one of the newest rows per id


# --- Live sets --------------------------------------------------------------------------------------------------------


def save_live(live: ManyLiveSets) -> tuple[GroupColumns, dict[str, Ints], Any, Objects | None]:
    """The columns of all groups but for ids; how many rows, values (`pools`) and sums each has; the ids; and what else
    comes along with the rows (None: nothing does)."""
    s = live.slots
    slots, values, instances = living_slots(tuple(s.columns), s.groups, s.uncertain.start, s.uncertain.size, s.shared)
    group = np.repeat(np.arange(len(s.groups)), s.groups["used"])[s.columns.state[s.in_use()] > 0]
    sizes = {"rows": np.bincount(group, minlength=len(s.groups))}
    for kind, each in (("pools", values), ("sums", instances)):
        sizes[kind] = np.bincount(group, each, len(s.groups)).astype(np.int64)
    rows = empty_rows(len(slots), s.d, int(values.sum()))
    copy_sharing(s.uncertain, slots, rows, 0, 0, s.shared, unshared(s.d))
    begin = np.where(rows.start >= 0, rows.start - _begin(sizes["pools"])[group][:, None], rows.start)
    out: GroupColumns = {**rows._replace(start=begin)._asdict()}
    out |= {name: getattr(s.columns, name)[slots] for name in COLUMNS}
    members = slots[instances > 0]
    at = ranges(s.columns.at[members], s.columns.instances[members])
    out |= {"logs": s.sums.logs[at], "zeros": s.sums.zeros[at], "raw": s.raw[slots], "known": s.known[slots]}
    return out, sizes, s.id[slots], None if s.kept is None else s.kept[slots]


def fill_live(
    live: ManyLiveSets,
    ids: NDArray[Any],
    saved: GroupColumns,
    sizes: dict[str, Ints],
    now: Floats,
    kept: Objects | None = None,
) -> None:
    """The inverse of `save_live`, for groups that are empty; `now` (groups,): their clocks."""
    s, n = live.slots, len(ids)
    shift = np.repeat(_begin(sizes["pools"]), sizes["rows"])[:, None]
    cells = {name: saved[name] for name in CELLS} | {name: saved[name] for name in POOLS}
    cells["start"] = np.where(saved["start"] >= 0, saved["start"] + shift, saved["start"])
    s.groups["now"] = now
    live.load(
        Batch(ids, saved["arrived"], saved["expires"], saved["raw"], saved["known"], UncertainRows(**cells), kept=kept),
        sizes["rows"],
    )
    for name in COLUMNS:
        getattr(s.columns, name)[:n] = saved[name]
    instances, filled = s.columns.instances[:n], len(saved["logs"])
    members = np.flatnonzero((saved["state"] == IN) & (instances > 0))
    s.room_for_sums(filled)
    s.sums.logs[:filled], s.sums.zeros[:filled] = saved["logs"], saved["zeros"]
    s.columns.at[members] = np.cumsum(instances[members]) - instances[members]
    s.filled = s.packed = filled


def count_as_saved(live: ManyLiveSets, counts: Ints, shadowed: Ints) -> None:
    """Go on counting where the saved groups had got to: (groups, COUNTED), and rows by what keeps them out for life."""
    s = live.slots
    for k, name in enumerate(COUNTED):
        s.groups[name] = counts[:, k]
    s.pruned[:] = shadowed


def live_numbers(live: ManyLiveSets) -> Arrays:
    """The small values of each group's live set, in columns: its clock, and what was counted."""
    s = live.slots
    counts = np.stack([s.groups[name] for name in COUNTED], axis=1).astype(np.int64)
    return {"now": s.groups["now"].copy(), "counts": counts, "shadowed": s.pruned.copy()}


def live_headers(live: ManyLiveSets) -> list[dict[str, Any]]:
    """The small values of each group's live set."""
    s = live.slots
    counts = zip(*(s.groups[name].tolist() for name in COUNTED), s.pruned.tolist(), strict=True)
    names = (*COUNTED, "shadowed")
    return [
        {"rows": rows, "now": now, "counts": dict(zip(names, each, strict=True))}
        for rows, now, each in zip(s.groups["alive"].tolist(), s.groups["now"].tolist(), counts, strict=True)
    ]


def _begin(sizes: Ints) -> Ints:
    """Where each of the parts, one after the other, begins."""
    begin: Ints = np.cumsum(sizes) - sizes
    return begin


# --- Groups -----------------------------------------------------------------------------------------------------------


def save_group(group: Group) -> dict[str, Any]:
    """The small values of a group, for the header."""
    [live] = live_headers(group.live)
    return live | {
        "late": group.late,
        "expired_on_arrival": group.expired_on_arrival,
        "newest": group.newest,
        "newest_ids": len(_newest_ids(group)),
        "order": None if group.window is None else [group.window.count, group.window.size],
        "latest": save_latest(group) if isinstance(group, LatestGroup) else None,
    }


def header_columns(headers: Sequence[dict[str, Any]]) -> tuple[Arrays, dict[str, Ints]]:
    """What `save_group` gives for groups of one kind, in columns; and of which columns of cells each has how many."""
    columns: Arrays = {name: np.array([each[name] for each in headers]) for name in _OF_EACH}
    counts = [each["counts"] for each in headers]
    columns["counts"] = np.array([[each[name] for name in COUNTED] for each in counts], np.int64)
    columns["shadowed"] = np.array([each["shadowed"] for each in counts], np.int64)
    sizes = {"rows": [each["rows"] for each in headers], "newest": [each["newest_ids"] for each in headers]}
    orders = [each["order"] or [0, 0] for each in headers]
    sizes["queue"] = [size for _, size in orders]
    if headers and headers[0]["order"] is not None:
        columns["taken"] = np.array([count for count, _ in orders])
    if headers and headers[0]["latest"] is not None:
        latest = [each["latest"] for each in headers]
        columns |= {f"latest {name}": np.array([each[name] for each in latest]) for name in _OF_LATEST}
        sizes |= {name: [each[name] for each in latest] for name in ("out", "open", "markers")}
    return columns, {name: np.array(each, np.int64) for name, each in sizes.items()}


def headers_of(columns: GroupColumns, sizes: dict[str, Ints]) -> list[dict[str, Any]]:
    """The inverse of `header_columns`."""
    of_each = {name: columns[name].tolist() for name in (*_OF_EACH, "counts", "shadowed")}
    of_each |= {"rows": sizes["rows"].tolist(), "newest_ids": sizes["newest"].tolist()}
    found = [dict(zip(of_each, values, strict=True)) for values in zip(*of_each.values(), strict=True)]
    orders = zip(columns["taken"].tolist(), sizes["queue"].tolist(), strict=True) if "taken" in columns else None
    latest = {name: columns[f"latest {name}"].tolist() for name in _OF_LATEST if f"latest {name}" in columns}
    latest |= {name: sizes[name].tolist() for name in ("out", "open", "markers") if latest}
    for k, each in enumerate(found):
        each["counts"] = {**dict(zip(COUNTED, each["counts"], strict=True)), "shadowed": each.pop("shadowed")}
        each["order"] = None if orders is None else list(next(orders))
        each["latest"] = {name: values[k] for name, values in latest.items()} or None
    return found


def join_groups(groups: Sequence[Group], d: int, kind: pa.DataType | None, kept: Kept = ()) -> Arrays:
    """The columns of all groups, one after the other, for `saved.pack`."""
    return {
        name: table_as_bytes(pa.table({"values": each})) if isinstance(each, pa.Array) else each
        for name, each in join_columns(groups, d, kind, kept).items()
    }


def join_columns(groups: Sequence[Group], d: int, kind: pa.DataType | None, kept: Kept = ()) -> GroupColumns:
    """The same, with names as Arrow arrays. `kind`: the type of ids; `kept`: names and types of what comes along."""
    parts = [save_live(group.live) for group in groups] or [save_live(ManyLiveSets(d, 0.5))]
    out: GroupColumns = {name: np.concatenate([each[0][name] for each in parts]) for name in parts[0][0]}
    out |= {each: np.concatenate([part[1][each] for part in parts])[: len(groups)] for each in ("pools", "sums")}
    out["id"] = pa.array([each for part in parts for each in part[2]], kind)
    if kept:
        out["kept"] = pa.concat_arrays([as_structs(part[3], len(part[2]), kept) for part in parts])
    if latest := [group for group in groups if isinstance(group, LatestGroup)]:
        return out | join_latest(latest, kind)
    out["newest_id"] = pa.array([each for group in groups for each in _newest_ids(group)], kind)
    keys = [group.window.keys() for group in groups if group.window is not None]
    out["queue_arrived"] = np.concatenate([np.empty(0), *(arrived for arrived, _ in keys)])
    out["queue_id"] = pa.array([each for _, names in keys for each in names], kind)
    return out


def _newest_ids(group: Group) -> set[Any]:
    return group.newest_ids if isinstance(group, WindowGroup) else set()


def split_groups(
    headers: list[dict[str, Any]], arrays: Arrays, query: Query, new: Callable[[], Group]
) -> tuple[list[Group], pa.DataType]:
    """The groups again, and the type of their ids."""
    columns: GroupColumns = dict(arrays)
    for name in NAMES:
        if name in arrays:
            columns[name] = table_from_bytes(arrays[name]).column(0).combine_chunks()
    return split_columns(headers, columns, query, new), columns["id"].type


def split_columns(
    headers: list[dict[str, Any]], arrays: GroupColumns, query: Query, new: Callable[[], Group]
) -> list[Group]:
    """The inverse of `join_columns`."""
    ids = objects(arrays["id"].to_pylist())
    kept = from_structs(arrays["kept"]) if "kept" in arrays else None
    latest = LatestArrays(arrays) if "guard" in arrays else None
    newest, queued = ([] if latest else arrays[name].to_pylist() for name in ("newest_id", "queue_id"))
    groups: list[Group] = []
    row = pool = near = queue = sum_ = 0
    for header, values, length in zip(headers, arrays["pools"].tolist(), arrays["sums"].tolist(), strict=True):
        group = new()
        rows, pools = slice(row, row + header["rows"]), slice(pool, pool + values)
        sums = slice(sum_, sum_ + length)
        own = {name: arrays[name][rows] for name in (*CELLS, *COLUMNS, "raw", "known")}
        own |= {name: arrays[name][pools] for name in POOLS}
        own |= {name: arrays[name][sums] for name in ("logs", "zeros")}
        sizes = {"rows": np.array([header["rows"]]), "pools": np.array([values])}
        now = np.array([header["now"]])
        fill_live(group.live, ids[rows], own, sizes, now, None if kept is None else kept[rows])
        group.late, group.expired_on_arrival = header["late"], header["expired_on_arrival"]
        group.newest = header["newest"]
        if isinstance(group, LatestGroup):
            assert latest is not None
            latest.fill(group, header["latest"])
        if isinstance(group, WindowGroup):
            group.remember(header["newest"], newest[near : near + header["newest_ids"]])
        group.live.finish_load()
        counts = header["counts"]
        count_as_saved(group.live, np.array([[counts[name] for name in COUNTED]]), np.array([counts["shadowed"]]))
        if group.window is not None:
            count, waiting = header["order"]
            ends = slice(queue, queue + waiting)
            group.window.load(count, arrays["queue_arrived"][ends], objects(queued[ends]))
            queue += waiting
        row, pool, sum_, near = rows.stop, pools.stop, sums.stop, near + header["newest_ids"]
        groups.append(group)
    return groups


# --- The newest row per id --------------------------------------------------------------------------------------------


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
        dominated = (s.columns.state[alive] == DOMINATED) & (s.guards.sure[alive] >= 0)  # a skyband has no guards
        parts.append(
            {
                "guard": np.where(dominated, place[np.where(dominated, s.guards.sure[alive], 0)], -1).astype(np.int32),
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
