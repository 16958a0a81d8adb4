"""Where the newest row of each id counts, is the answer that an output adds up to one row per id, at every instant?"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.output import answers, folder
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import tables_of
from fogline.pipeline.names import CHANGES, HEALTH
from fogline.pipeline.plan import make_plan
from fogline.runs.config import Output, RunConfig, RunStatus
from tests.flow.driving import Engine
from tests.flow.test_latest import table_of
from tests.test_latest import name_of

QUERY = fl.Query(
    attributes={"a": "max", "b": "min"}, id="id", time="t", by=["g"], latest=True, gone="gone", version="v", expires="e"
)


def batches() -> list[list[dict[str, Any]]]:
    """Changes of a few ids in two groups, in order."""
    rng, out = random.Random(2), []
    for t in range(40):
        rows = []
        for v in range(rng.randrange(4)):
            cells = {"a": rng.randrange(4), "b": rng.choice([rng.randrange(4), [(0, 1), (3, 1)]])}
            row = {"id": rng.choice("pqrst"), "g": rng.choice("xy"), "t": t, "v": v, "gone": rng.random() < 0.15}
            rows.append({**row, "e": t + rng.choice([2, 5, 30]), **cells})
        out.append(rows)
    return out


def test_the_answer_at_every_instant_is_one_row_per_id_however_files_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "to_disk", lambda path: None)
    monkeypatch.setattr(answers, "MANY", 4)
    plan = make_plan(QUERY, table_of([], ["a", "b"]).schema, ahead="off")
    engine, output, status = Engine(plan), Output(LocalFolder(tmp_path), RunConfig("in", "out", QUERY)), RunStatus()
    output.folder.compaction.block = 3
    output.begin({})
    monitors = {g: fl.Monitor(QUERY) for g in "xy"}
    truth: dict[int, dict[Any, Any]] = {}
    moved = 0
    for number, rows in enumerate(batches()):
        parts: dict[str, pa.Table] = {}
        for kind, table in engine.batch([table_of(rows, ["a", "b"])]) if rows else []:
            parts[kind] = pa.concat_tables([parts[kind], table]) if kind in parts else table
        if HEALTH in parts:
            parts = tables_of([], number, 0.1, [parts[HEALTH]]) | {k: t for k, t in parts.items() if k != HEALTH}
            status.update(parts, number, 0.1, QUERY)
        output.folder.write(number, parts)
        for g, monitor in monitors.items():
            if here := [row for row in rows if row["g"] == g]:
                before = arrivals(monitor)
                monitor.advance(number, table_of(here, ["a", "b"]))
                after = arrivals(monitor)
                moved += sum(before[name] != after[name] for name in before.keys() & after.keys())
        truth[number] = {k: v for monitor in monitors.values() for k, v in arrivals(monitor).items()}
        if number % 5 == 0 and CHANGES in parts:
            assert answered(output.place, None) == truth[number]
    assert moved > 5  # some are updated by rows of another arrival
    assert answered(output.place, None) == truth[39]
    for at in range(0, 30, 3):  # both groups go on after that
        once: dict[Any, Any] = {}
        for g in "xy":
            monitor = fl.Monitor(QUERY)
            come = [row for rows in batches()[: at + 1] for row in rows if row["g"] == g]
            monitor.advance(at, table_of(come, ["a", "b"]))
            once |= arrivals(monitor)
        assert answered(output.place, at) == once
    assert status.answer == len(truth[39])


def arrivals(monitor: fl.Monitor) -> dict[Any, Any]:
    return {name_of(row, ["g"]): (row["t"], row["probability"]) for row in monitor.answer().to_pylist()}


def answered(place: LocalFolder, at: int | None) -> dict[Any, Any]:
    found = read_answer(place, "out", None if at is None else str(at)).to_pylist()
    answer = {name_of(row, ["g"]): (row["t"], row["probability"]) for row in found}
    assert len(answer) == len(found), "an id is in the answer twice"
    return answer
