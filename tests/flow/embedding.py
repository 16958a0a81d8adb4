"""Streams of files on which engines are compared, and what a run of the embedded engine over them reports."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.output.folder import LocalFolder
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.embedded_state import EmbeddedState
from fogline.state.sqlite import FILE
from tests.walks import QUERY, walks

APPENDED = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=30, by=["site"])
STAMPED = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime="30 seconds")
NEWEST = fl.Query(
    attributes={"a": "max", "b": "max"}, id="id", time="t", by=["site"], latest=True, gone="gone", version="v",
    remember_removed=20,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A stream, and how it is watched."""

    query: fl.Query
    table: Callable[[], pa.Table]
    how: dict[str, Any] = field(default_factory=dict)
    repository: Callable[[], fl.Repository | None] = lambda: None
    files: int = 5


def readings(count: int, seed: int, *, stamps: bool = False, late: int = 0) -> pa.Table:
    """Rows of two sites in the order of their times, but for some that come late; one in fifty is garbage."""
    rng = np.random.default_rng(seed)
    t = np.arange(count) // 4 - rng.integers(0, late + 1, count)
    a, b = rng.integers(0, 40, count).astype(float), rng.uniform(0, 1, count)
    a[::50] = np.inf
    times = pa.array((1_700_000_000 + t) * 1_000_000, pa.timestamp("us", "UTC")) if stamps else pa.array(t)
    return pa.table({"id": [f"r{k}" for k in range(count)], "site": rng.choice(["n", "s"], count), "t": times,
                     "a": a, "b": b})  # fmt: skip


def changes_of_ids(count: int, seed: int, ids: int) -> pa.Table:
    """Rows of which the newest of each id counts; some remove their id, a few come late."""
    rng = np.random.default_rng(seed)
    t = np.arange(count) // 20 - np.where(np.arange(count) % 31 == 0, 3, 0)
    columns = {"id": rng.integers(0, ids, count), "site": rng.choice(["n", "s"], count), "t": t, "v": np.arange(count)}
    values = {name: rng.uniform(0, 100, count) for name in "ab"}
    return pa.table({**columns, **values, "gone": rng.random(count) < 0.05})


@cache
def learnt() -> fl.Repository:
    return fl.Repository.fit(walks(), QUERY)


CASES = {
    "rows that are appended, in groups": Case(APPENDED, lambda: readings(400, 1)),
    "timestamps": Case(STAMPED, lambda: readings(400, 2, stamps=True)),
    "lateness": Case(APPENDED, lambda: readings(400, 3, late=8), {"lateness": 6}),
    "sensors, with hindsight": Case(QUERY, lambda: walks(steps=40, gaps=0.2, begin=200), {}, learnt),
    "sensors, with lateness": Case(QUERY, lambda: walks(steps=30, gaps=0.2, begin=200), {"lateness": 3}, learnt),
    "the newest of each id": Case(NEWEST, lambda: changes_of_ids(2000, 4, 150)),
}


def write_stream(case: Case, folder: Path) -> None:
    """The stream of a case as files, one second after another."""
    folder.mkdir()
    table = case.table()
    size = -(-table.num_rows // case.files)
    for k in range(case.files):
        path = folder / f"{k:03}.parquet"
        pq.write_table(table.slice(k * size, size), path)
        os.utime(path, (1e9 + k, 1e9 + k))


def config_of(case: Case, root: Path, output: str = "out", engine: str = EMBEDDED, **how: Any) -> RunConfig:
    where = str(root / "in"), str(root / output), case.query, case.repository()
    return RunConfig(*where, **{**case.how, **how}, engine=engine)


def run(config: RunConfig, files_per_batch: int | None = 2) -> Embedded:
    """A run until all files are read."""
    running = Embedded(config)
    assert running.start(files_per_batch=files_per_batch).awaitTermination()
    running.close()
    return running


def state_of(output: Path) -> EmbeddedState:
    """The state of a run, as the next one would find it."""
    mark = json.loads((output / "checkpoint" / "fogline.json").read_bytes())["mark"]
    return EmbeddedState(LocalFolder(output), mark)


def kept(output: Path) -> dict[Any, Any]:
    """All that a run keeps between batches, by tables and names."""
    with closing(sqlite3.connect(output / "checkpoint" / FILE)) as db:
        found: dict[Any, Any] = {
            ("state", *name): value
            for *name, value in db.execute(
                "SELECT shard, namespace, key, part, value FROM state JOIN bytes USING (place)"
            )
        }
        found |= {("timer", shard, key): due for shard, key, due in db.execute("SELECT shard, key, due FROM timers")}
        taken = db.execute("SELECT path, taken, batch, span FROM files")
        return found | {("file", path): known for path, *known in taken}


def reported(output: Path, kind: str = "changes") -> list[tuple[Any, ...]]:
    """All rows of a kind in an output, in an order of their own."""
    if not any((output / kind).glob("*.parquet")):
        return []
    table = pq.read_table(output / kind)
    if kind == "health":  # what was clipped is counted by differences, which are rounded
        clipped = pa.array(np.round(table["clipped"].to_numpy(), 9))
        table = table.drop_columns(["seconds", "clipped"]).append_column("clipped", clipped)
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
