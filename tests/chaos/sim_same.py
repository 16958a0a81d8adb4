"""Are two reports of a batch the same, to the bit?"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from fogline.pipeline.exchange import pack_groups
from fogline.pipeline.names import REJECTS
from fogline.pipeline.report import BatchResult
from fogline.pipeline.stages import Pruned
from fogline.state.format import MAGIC, from_value

Reports = dict[str, BatchResult]  # by group or shard


def plain(report: Any) -> list[Any]:
    """What is reported, to be compared: floats to their bits.

    But for sums whose order is free (clipped, scores), and for which of two copies that hold the same is rejected.
    """
    if isinstance(report, Pruned):
        return [(shard, pack_groups(report.shared.plan, some)) for shard, _, some in report.by_shard()]
    out = []
    for kind, table in report:
        names = [name for name in table.schema.names if name not in ("clipped", "why", "scores", "row")]
        columns: list[Any] = [table.column(name).to_pylist() for name in names]
        if kind == REJECTS:  # they come as they came
            columns = sorted(zip(*columns, strict=True), key=repr)
        out.append((kind, names, columns, *([_scores(table)] if "scores" in table.schema.names else [])))
    return out


def _scores(table: pa.Table) -> list[Any]:
    """What was scored, however it is ordered."""
    found = [[] if each is None else json.loads(each) for each in table.column("scores").to_pylist()]
    return [sorted(repr([f"{v:.9g}" if isinstance(v, float) else v for v in line]) for line in each) for each in found]


def same(one: Any, other: Any, what: str) -> None:
    first, then = plain(one), plain(other)
    assert repr(first) == repr(then), f"{what}:\n  {first}\n  {then}"


def same_reports(one: Reports, other: Reports, what: str) -> None:
    assert one.keys() == other.keys(), f"{what}: {sorted(one)} and {sorted(other)}"
    for key in one:
        same(one[key], other[key], f"{what} ({key})")


def same_state(one: bytes | None, other: bytes | None) -> bool:
    """Whether two states hold the same; the ids of a group's newest instant are a set, and lie in any order."""
    return one == other or (one is not None and other is not None and opened(one) == opened(other))


def opened(saved: bytes) -> Any:
    """What a state or a page holds, without what depends on the order of that set."""
    if not saved.startswith(MAGIC):
        return saved
    header, arrays = from_value(saved[len(MAGIC) + 16 :], "state")
    header["apart"] = [[key, timer] for key, timer, _ in header.get("apart", [])]
    held = {name: opened(array.tobytes()) for name, array in arrays.items() if name != "newest_id"}
    return {**header, "arrays": []}, held


def by_group(reports: Reports) -> Reports:
    """What is reported of each group, wherever it lay, in its order."""
    out: dict[str, list[Any]] = {}
    for report in reports.values():
        for kind, table in report:
            names = [name for name in ("query", "g") if name in table.schema.names]
            values = (
                list(zip(*(table.column(name).to_pylist() for name in names), strict=True)) or [()] * table.num_rows
            )
            for value in dict.fromkeys(values):
                which = [k for k, each in enumerate(values) if each == value]
                out.setdefault(f"{kind} {value}", []).append(table.take(which))
    return {name: [(name.split()[0], pa.concat_tables(tables))] for name, tables in out.items()}
