"""What is kept as an example of each format, how is it made, and what comes of it when it is read?

An `Example` is written once, by `write.py`, into `kept/`, with what comes of it beside it as JSON. `read` does what a
user would do with it: go on.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import fogline as fl
from fogline.files.layout import layout_of
from fogline.files.options import Options
from fogline.files.settled import Layout
from fogline.output.compaction import Compaction
from fogline.pipeline.exchange import BucketRows, GroupRows, RowsByGroup, pack_groups, unpack_groups
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.report import BatchResult
from fogline.pipeline.sensors import Dealer, SensorStage
from fogline.repository import store
from fogline.runs.embedded import Embedded
from fogline.saved import table_as_bytes, table_from_bytes
from fogline.state.store import MemoryStore
from tests.flow.driving import Taken, pruned_rows, take
from tests.flow.embedding import APPENDED, NEWEST, Case, changes_of_ids, config_of, readings, reported, write_stream
from tests.walks import walks

KEPT = Path(__file__).parent / "kept"
HISTORY = KEPT / f"repository-{store.FORMAT}"


@dataclass(frozen=True)
class Example:
    """Of one format, in one version."""

    name: str  # in `kept/`
    write: Callable[[Path], None]  # a file or a folder
    read: Callable[[Path, Path], Any]  # the example, and an empty folder: what comes of it, as plain values


def plain(values: Any) -> Any:
    """As JSON has it; numbers to nine digits, as far as processors agree."""
    return json.loads(json.dumps(values, default=str), parse_float=lambda text: round(float(text), 9))


def rows_in(journal: BatchResult) -> Any:
    return plain([[kind, table.drop_columns(_passing(table)).to_pylist()] for kind, table in journal])


def _passing(table: pa.Table) -> list[str]:
    """What is another each time, and counters that there were not yet when examples were written, if they are 0."""
    later = [name for name in ("sensors_forgotten",) if name in table.schema.names and not any(table[name].to_pylist())]
    return [*later, *(name for name in ("seconds",) if name in table.schema.names)]


# --- A repository, and monitors --------------------------------------------------------------------------------------

QUERY = fl.Query(attributes={"heat": "max", "damp": "min"}, id="sensor", time="t", lifetime=12)


def walked(begin: int, steps: int, gaps: float = 0.3) -> pa.Table:
    """Rows of sensors that wander."""
    return walks(sensors=2, steps=steps, gaps=gaps, begin=begin).select(["sensor", "t", "heat", "damp"])


@cache
def kept_repository() -> fl.Repository:
    return fl.Repository.load(HISTORY)


def write_repository(path: Path) -> None:
    with patch("fogline.repository.store.time.time", lambda: 0.0), patch("fogline.repository.store.os.urandom", bytes):
        fl.Repository.fit(walked(0, 60, 0.0), QUERY).save(path)


def read_repository(path: Path, _: Path) -> Any:
    known = fl.Repository.load(path)
    changes = fl.Monitor(QUERY, known).advance(107, walked(100, 8))
    return plain([known.fingerprint, [str(rule) for rule in known.rules], changes.to_pylist()])


SNAPSHOTS = {
    "append": (APPENDED, None, lambda: readings(16, 1), 2),
    "latest": (NEWEST, None, lambda: changes_of_ids(60, 4, 9), 2),
    "hindsight": (QUERY, kept_repository, lambda: walked(100, 8), 104),
}


def _parts(mode: str) -> tuple[Any, Any, pa.Table, pa.Table, int]:
    query, known, rows, middle = SNAPSHOTS[mode]
    table = rows()
    early = pa.compute.less(table["t"], middle)
    return (
        query,
        None if known is None else known(),
        table.filter(early),
        table.filter(pa.compute.invert(early)),
        middle,
    )


def snapshot_of(mode: str, version: int) -> Example:
    def write(path: Path) -> None:
        query, known, before, _, middle = _parts(mode)
        monitor = fl.Monitor(query, known)
        monitor.advance(middle - 1, before)
        path.write_bytes(monitor.snapshot())

    def read(path: Path, _: Path) -> Any:
        query, known, _rows_before, after, _middle = _parts(mode)
        monitor = fl.Monitor.restore(query, path.read_bytes(), known)
        changes = monitor.advance(pa.compute.max(after["t"]).as_py(), after)
        return plain([changes.to_pylist(), monitor.answer().to_pylist()])

    return Example(f"snapshot-{mode}-{version}.bin", write, read)


# --- What an engine keeps and carries --------------------------------------------------------------------------------


def _plan() -> Plan:
    return make_plan(replace(APPENDED, by=()), readings(1, 1).schema)


def _rows(first: int, count: int) -> Any:
    return readings(16, 1).slice(first, count).combine_chunks().to_batches()


def _come(first: int, count: int) -> list[GroupRows]:
    return pruned_rows(_plan(), pa.Table.from_batches(_rows(first, count)))["[]"]


def _taken(state: bytes | None, come: list[GroupRows]) -> Taken:
    """What becomes of a group; `state`: of its page."""
    if state is None:
        return take(_plan(), "[]", None, come)
    store = MemoryStore()
    store.put("index", "", 0, b"[[1], [null]]")
    store.put("groups", "", 0, state)
    return take(_plan(), "[]", store, come)


def write_state(path: Path) -> None:
    found = _taken(None, _come(0, 8)).state
    assert found is not None
    path.write_bytes(found.values["groups", "", 0])


def read_state(path: Path, _: Path) -> Any:
    return rows_in(_taken(path.read_bytes(), _come(8, 8)).journal)


def write_groups(path: Path) -> None:
    path.write_bytes(pack_groups(_plan(), RowsByGroup.of(_plan(), [("[]", each) for each in _come(0, 8)])))


def read_groups(path: Path, _: Path) -> Any:
    plan = _plan()
    found = unpack_groups(plan, path.read_bytes())
    return [[key, rows_in(take(plan, key, None, [each]).journal)] for key, each in found]


def write_journal(path: Path) -> None:
    (changes,) = (table for kind, table in _taken(None, _come(0, 8)).journal if kind == "changes")
    path.write_bytes(table_as_bytes(changes).tobytes())


def read_journal(path: Path, _: Path) -> Any:
    return plain(table_from_bytes(path.read_bytes()).to_pylist())


def _dealt(first: int, count: int) -> tuple[Plan, int, list[BucketRows]]:
    rows = walked(100, 8).slice(first, count).combine_chunks()
    plan = make_plan(QUERY, rows.schema, opened=kept_repository, buckets=1)
    dealt = list(Dealer(plan).deal(rows.to_batches()[0]))
    return plan, dealt[0][0], [each for _, each in dealt]


def write_sensors(path: Path) -> None:
    plan, bucket, come = _dealt(0, 12)
    store = MemoryStore()
    SensorStage(plan).take(bucket, come, store)
    path.write_bytes(store.values["sensors", "", 0])


def read_sensors(path: Path, _: Path) -> Any:
    plan, bucket, come = _dealt(12, 12)
    store, before = MemoryStore(), path.read_bytes()
    store.put("sensors", "", 0, before)
    groups = SensorStage(plan).take(bucket, come, store)
    done = [take(plan, key, None, [each]) for key, each in groups]
    return [store.values["sensors", "", 0] != before, [rows_in(each.journal) for each in done]]


# --- Runs that were stopped ------------------------------------------------------------------------------------------

RUNS = {
    "append": Case(APPENDED, lambda: readings(40, 1), {"explain": True}, files=5),
    "latest": Case(NEWEST, lambda: changes_of_ids(60, 4, 12), files=3),
    "hindsight": Case(QUERY, lambda: walked(100, 8), {}, kept_repository, files=3),
}
LEFT = 2  # batches when it was stopped
SHOWN = ("changes", "rejects", "health", "near", "next")


def run_of(mode: str) -> Example:
    """The folder of a run that was stopped, and its stream."""
    case = RUNS[mode]

    def write(path: Path) -> None:
        root = Path("/tmp/fogline-formats")
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        write_stream(case, root / "in")
        shutil.copytree(HISTORY, root / "repository")
        known = case.repository() and fl.Repository.load(root / "repository")
        with (
            patch.dict(Compaction.__init__.__kwdefaults__ or {}, {"block": 2}),
            patch("fogline.runs.config.uuid4", lambda: type("Mark", (), {"hex": "0" * 32})),
            patch("fogline.runs.embedded.perf_counter", lambda: 0.0),
            patch("fogline.runs.embedded.time_ns", lambda: 0),
        ):
            started = Embedded(replace(config_of(case, root), repository=known)).start(files_per_batch=1)
            for _ in range(case.files - LEFT):
                started.awaitTermination(0)
            started.running.close()
        shutil.rmtree(root / "repository")
        shutil.move(root, path)

    def read(path: Path, empty: Path) -> Any:
        resumed(path, empty, case)
        return plain([reported(empty / "out", kind) for kind in SHOWN])

    return Example(f"run-{mode}-4", write, read)


def resumed(path: Path, empty: Path, case: Case, **how: Any) -> None:
    """Go on in a copy: the stream lies elsewhere now."""
    shutil.copytree(path, empty, dirs_exist_ok=True)
    for k, each in enumerate(sorted((empty / "in").iterdir())):
        os.utime(each, (1e9 + k, 1e9 + k))
    assert Embedded(config_of(case, empty, moved=True, **how)).start(files_per_batch=1).awaitTermination()


def write_layout(path: Path) -> None:
    rows = path.with_name("rows.csv")
    rows.write_text("id;site;t;a;b\nr1;n;2024-05-01 10:00:00;1,5;2\n")
    query = replace(APPENDED, lifetime="30 seconds")
    layout = layout_of(str(rows), query, Options()).to_dict()
    rows.unlink()
    path.write_text(json.dumps(layout, indent=1))


def read_layout(path: Path, empty: Path) -> Any:
    from fogline.files.reading import batches

    rows = empty / "more.csv"
    rows.write_text("id;site;t;a;b\nr2;s;2024-05-01 10:00:07;1,75;3\n")
    layout = Layout.from_dict(json.loads(path.read_text()), str(rows))
    found = pa.Table.from_batches(batches(str(rows), layout)).select(["id", "site", "t", "a", "b"])
    return plain([layout.clock, layout.assumed, found.to_pylist()])


EXAMPLES = (
    Example(HISTORY.name, write_repository, read_repository),
    *(snapshot_of(mode, version) for version in (7, 8) for mode in SNAPSHOTS),
    Example("group-state-4.bin", write_state, read_state),
    Example("sensor-state-4.bin", write_sensors, read_sensors),
    *(Example(f"groups-{version}.bin", write_groups, read_groups) for version in (7, 8)),
    Example("journal-1.bin", write_journal, read_journal),
    Example("layout-1.json", write_layout, read_layout),
    *(run_of(mode) for mode in RUNS),
)
