"""Does Spark answer for the newest row of each id as a Monitor does, over restarts, and as `fogline run` writes it?"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.errors import QueryError
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.stages import opened
from fogline.spark.pipeline import plans_for, results, watch
from fogline.spark.sql import register
from tests.flow.test_latest import Judge, table_of
from tests.spark.test_watch import run, stream_of

ATTRIBUTES = {"a": "max", "b": "min"}


def changing_rows(rng: random.Random, group: str, clock: int, ids: int, count: int) -> list[dict[str, Any]]:
    """Rows of a group around an instant: some are late, some stale, some correct others, some remove their id."""
    out = []
    for _ in range(count):
        t = clock - rng.choice([0, 0, 0, 0, 1, 2, 6])
        row: dict[str, Any] = {"id": f"i{rng.randrange(ids)}", "g": group, "t": t, "v": rng.randrange(3)}
        row |= {"gone": rng.random() < 0.15, "e": t + rng.choice([1, 3, 8, 20])}
        cells = [rng.randrange(4), rng.randrange(4), [(rng.randrange(4), 1), (4, rng.choice([1, 2]))]]
        out.append(row | {name: rng.choice(cells) for name in ATTRIBUTES})
    return out


def write(folder: Path, k: int, table: pa.Table) -> None:
    """A file that Spark takes as the k-th."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{k:03}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1e9 + k, 1e9 + k))


def query_of(**how: Any) -> fl.Query:
    asked = {"attributes": ATTRIBUTES, "id": "id", "time": "t", "by": ["g"], "latest": True, "gone": "gone"}
    return fl.Query(**(asked | {"version": "v"} | how))


def journals(spark: Any, folder: Path, query: fl.Query, **how: Any) -> list[list[tuple[str, pa.Table]]]:
    """What each micro-batch reports, one file each."""
    schema = spark.createDataFrame(table_of([], list(query.names))).schema
    frame = stream_of(spark, folder / "in", schema, files=1)
    reported = run(results(frame, plans_for(frame, query, **how)), folder)
    kinds = (CHANGES, HEALTH, REJECTS)
    return [[(kind, part) for kind in kinds for part in opened(each.to_batches(), kind)] for each in reported]


def test_a_hundred_streams_as_groups_of_one_query_stopped_and_resumed(spark, tmp_path):
    query, how = query_of(expires="e", remember_removed=5), {"ahead": "off"}
    plan = plans_for(spark.createDataFrame(table_of([], list(query.names))), query, **how)
    rng, judge, clocks = random.Random(14), Judge(plan.first), [0] * 100
    batches: list[list[dict[str, Any]]] = []
    for number in range(5):
        rows = []
        for k in rng.sample(range(100), 70 if number else 100):
            clocks[k] += rng.choice([0, 1, 1, 2, 4])
            rows += changing_rows(rng, f"g{k}", clocks[k], rng.choice([2, 5]), rng.randrange(1, 6))
        batches.append(rows)
    found = []
    for part in (range(3), range(3, 5)):
        for k in part:
            write(tmp_path / "in", k, table_of(batches[k], list(query.names)))
        found += journals(spark, tmp_path, query, **how)
    assert len(found) == len(batches)
    for reported, rows in zip(found, batches, strict=True):
        judge.hold_to(reported, rows)
    assert len(judge.monitors) == 100


def test_a_group_of_many_ids_stopped_and_resumed(spark, tmp_path):
    query = query_of(lifetime=50)
    plan = plans_for(spark.createDataFrame(table_of([], list(query.names))), query, every="batch")
    rng, judge = random.Random(3), Judge(plan.first)
    names = [f"i{k}" for k in range(1_200)]
    first = [row | {"id": name, "gone": False} for name in names for row in changing_rows(rng, "x", 1, 1, 1)]
    batches = [first, *(changing_rows(rng, "x", 2 + k, 1_200, 60) for k in range(4))]
    found = []
    for part in (range(3), range(3, 5)):
        for k in part:
            write(tmp_path / "in", k, table_of(batches[k], list(query.names)))
        found += journals(spark, tmp_path, query, every="batch")
    for reported, rows in zip(found, batches, strict=True):
        judge.hold_to(reported, rows)


def test_a_table_gives_the_answers_of_every_tick(spark):
    query, rng = query_of(lifetime=6), random.Random(5)
    rows = [row for t in range(12) for row in changing_rows(rng, "x", t, 4, 3)]
    table = table_of(rows, list(query.names))
    changes = watch(spark.createDataFrame(table).repartition(3), query).toArrow()
    now = max(row["t"] for row in rows)
    assert changes.sort_by([("time", "ascending"), ("t", "ascending"), ("id", "ascending")]).equals(
        fl.Monitor(query).advance(now, table)
    )


def test_a_change_log_in_csv_is_run_and_answered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(
        "attributes: {price: min, stars: max}\nid: offer\ntime: ts\nlatest: true\ngone: {op: [d]}\nversion: lsn\n"
    )
    rng = random.Random(8)
    changes = [
        (lsn // 4, f"o{rng.randrange(6)}", rng.choice("cuuud"), rng.randrange(1, 9), rng.randrange(1, 5))
        for lsn in range(60)
    ]
    lines = [f"{op},{o},{t},{k}" + (",," if op == "d" else f",{p},{s}") for k, (t, o, op, p, s) in enumerate(changes)]
    lines.append("u,o1,0,-1,1,4")  # an old one
    (tmp_path / "in").mkdir()
    for k, part in enumerate((lines[:20], lines[20:40], lines[40:])):
        (tmp_path / "in" / f"{k}.csv").write_text("\n".join(["op,offer,ts,lsn,price,stars", *part]) + "\n")
        os.utime(tmp_path / "in" / f"{k}.csv", (1e9 + k, 1e9 + k))
        if k != 1:  # the second run goes on with two files
            out = invoke("run", "in", "-q", "q.yaml", "-o", "out", "--files-per-batch", "1", "--master", "local[2]")
            assert "20 rows" in out or "41 rows" in out
    assert "a newer row of the same id was there: 1 row." in out
    for at in (None, 4, 9):
        found = [json.loads(line) for line in invoke("answer", "out", "--json", *at_of(at)).splitlines()]
        assert {row["offer"] for row in found} == on_top([each for each in changes if at is None or each[0] <= at])
        assert len({row["offer"] for row in found}) == len(found)


def at_of(at: int | None) -> list[str]:
    return [] if at is None else ["--at", str(at)]


def test_a_table_function_refuses_to_answer_for_the_newest_rows(spark):
    with pytest.raises(QueryError, match="latest asks for the newest of each id"):
        register(spark, query_of())


def on_top(changes: list[Any]) -> set[str]:
    """The offers that no other beats, of the table that the changes make."""
    table: dict[str, tuple[int, int]] = {}
    for _, offer, op, price, stars in changes:
        if op == "d":
            table.pop(offer, None)
        else:
            table[offer] = price, stars
    return {
        one for one, (p, s) in table.items()
        if not any(q <= p and r >= s and (q, r) != (p, s) for q, r in table.values())
    }  # fmt: skip


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.stdout
