"""`fogline run`, `answer` and `check`, as a person types them; and what is left after a crash."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.errors import FoglineError
from fogline.rows.changes import answer_of
from fogline.spark.hadoop import folder
from tests.spark.elsewhere import elsewhere

QUERY = "attributes: {heat: max, gas: max}\nid: sensor\ntime: t\nlifetime: 50\nby: [site]\n"
GARBAGE = {"heat": "broken", "t": "yesterday", "sensor": "", "gas": "inf"}


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Readings of two sites, a third of them without gas."""
    rng = random.Random(seed)
    out = []
    for k in range(count):
        heat = round(rng.uniform(0, 30), 2)
        gas = "" if rng.random() < 0.3 else round(heat / 10 + rng.gauss(0, 0.1), 3)
        out.append({"sensor": f"s{k}", "site": rng.choice("ab"), "t": k // 5, "heat": heat, "gas": gas})
    return out


def write_csv(path: Path, some: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = [",".join(some[0]), *(",".join(str(value) for value in row.values()) for row in some)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a query, a repository and a stream of four csv files, 1 in 100 rows garbage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    history = [{**row, "gas": row["gas"] or None} for row in rows(500, 1)]
    fl.Repository.fit(history, fl.Query.load("q.yaml"), rules=["heat(0.5) -> gas(0.5)"]).save("repo")
    stream = rows(800, 2)
    for k in range(50, 800, 100):
        name = list(GARBAGE)[k // 100 % 4]
        stream[k][name] = GARBAGE[name]
    for part in range(4):
        write_csv(tmp_path / "in" / f"{part}.csv", stream[part * 200 : part * 200 + 200])
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def changes_in(folder: str) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted(Path(folder, "changes").glob("*.parquet"))]


def expected(query: fl.Query, repository: fl.Repository, at: int | None) -> dict[tuple[str, str], float]:
    """The answer of a monitor per site that has seen the good rows up to an instant; without one, to the site's end."""
    good = [row for row in rows(800, 2) if int(row["sensor"][1:]) % 100 != 50 and (at is None or row["t"] <= at)]
    answer = {}
    for site in "ab":
        of_site = [{**row, "gas": row["gas"] or None, "t": float(row["t"])} for row in good if row["site"] == site]
        monitor = fl.Monitor(query, repository)
        monitor.advance(float(max(row["t"] for row in of_site) if at is None else at), of_site)
        answer |= {(site, row["sensor"]): row["probability"] for row in monitor.answer().to_pylist()}
    return answer


RUN = ("run", "in", "--query", "q.yaml", "--repository", "repo", "--engine", "spark", "--output", "out")


def test_a_csv_with_garbage_ends_well_with_every_garbage_row_in_the_rejects_and_goes_on_as_it_was_begun(place, spark):
    printed = run(*RUN)
    assert "800 rows" in printed
    assert "8 rejected" in printed
    rejects = pq.read_table("out/rejects").to_pylist()
    assert sorted(row["reason"] for row in rejects) == sorted(
        2 * [
            "'heat' is 'broken', which is not a number",
            "'t' is 'yesterday', which is not a number",
            "the id 'sensor' is missing",
            "'gas' holds a value that is missing or not finite",
        ]
    )  # fmt: skip
    assert any(json.loads(row["row"])["heat"] == "broken" for row in rejects)
    health = pq.read_table("out/health").to_pandas()
    assert health["rows"].sum() == 800
    assert health["rejected"].sum() == 8
    query, repository = fl.Query.load("q.yaml"), fl.Repository.load("repo")
    for at in (30, 77, None):
        words = ["answer", "out", "--json", *(["--at", str(at)] if at else [])]
        lines = map(json.loads, CliRunner().invoke(app, words).stdout.splitlines())
        found = {(row["site"], row["sensor"]): row["probability"] for row in lines}
        assert found == pytest.approx(expected(query, repository, at), abs=1e-9)
    goes_on_as_it_was_begun(place)
    assert "rows" in run("answer", "out")
    assert "clock shows double; write a number" in run("answer", "out", "--at", "noon", code=2)


def goes_on_as_it_was_begun(place: Path) -> None:
    """The same command goes on, also after a power cut; another one is refused."""
    before = changes_in("out")
    assert "no new files" in run(*RUN)
    commit = max((place / "out" / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commit.write_bytes(b"")
    assert "had no content" in run(*RUN)
    assert changes_in("out") == before
    assert "was begun with another every" in run(*RUN, "--every", "batch", code=2)
    assert "was begun with another ahead" in run(*RUN, "--ahead", "off", code=2)
    (place / "q.yaml").write_text(QUERY + "alpha: 0.3\n")
    assert "was begun with another query" in run(*RUN, code=2)
    assert "is not an output folder of `fogline run`" in run("answer", "repo", code=2)


def test_a_dry_run_shows_what_is_missing_and_what_would_be_rejected(place, spark):
    printed = run("check", "in", "--query", "q.yaml", "--repository", "repo")
    assert "800 rows" in printed
    assert re.search(r"rejected +8 +1.0%", printed)
    assert "heat(0.5) -> gas(0.5)" in printed
    assert "2: 'heat' is …, which is not a number" in printed
    assert "broken" in printed
    assert not (place / "out").exists()
    without = run("check", "in", "--query", "q.yaml")
    assert "there is no repository to impute it from" in without


def test_new_files_are_taken_up_where_the_last_run_stopped_also_in_a_folder_that_was_moved(place, spark):
    for part in (2, 3):
        (place / "in" / f"{part}.csv").rename(place / f"{part}.csv")
    run(*RUN)
    (place / "in").rename(place / "there")
    for part in (2, 3):
        (place / f"{part}.csv").rename(place / "there" / f"{part}.csv")
    elsewhere = ("run", "there", *RUN[2:])
    assert "was begun with another stream" in run(*elsewhere, code=2)
    assert "400 rows" in run(*elsewhere, "--moved")
    parts = answer_of(changes_in("out"), fl.Query.load("q.yaml"))
    newest = sorted(Path("out/health").glob("*.parquet"))[-1]
    newest.rename(place / "away.parquet")
    assert "is not whole: the run has written files of batch 1, and" in run(*elsewhere, code=2)
    (place / "away.parquet").rename(newest)
    (place / "whole").mkdir()
    run("run", "there", *RUN[2:-1], "whole/out")
    assert parts.equals(answer_of(changes_in("whole/out"), fl.Query.load("q.yaml")))
    shutil.rmtree(place / "out" / "checkpoint")
    assert "the checkpoint of 'out' is gone" in run(*elsewhere, code=2)


def test_changes_add_up_and_what_is_reported_later_of_a_tick_replaces_the_earlier():
    query = fl.Query(attributes={"x": "max"}, id="i", time="t", lifetime=9)
    row = {"i": "a", "t": 1, "probability_error": 0.0, "x": 1.0}
    first = pa.Table.from_pylist([{"time": 1, **row, "change": "enter", "probability": 0.9}])
    later = pa.Table.from_pylist([{"time": 1, **row, "change": "update", "probability": 0.7},
                                  {"time": 4, **row, "change": "leave", "probability": None}])  # fmt: skip
    assert answer_of([first, later], query, 1)["probability"].to_pylist() == [0.7]
    assert answer_of([first, later], query, "3")["i"].to_pylist() == ["a"]
    assert answer_of([first, later], query).num_rows == 0
    assert answer_of([], query).num_rows == 0
    with pytest.raises(FoglineError, match="write a number"):
        answer_of([first], query, "2024-01-01")


def test_a_folder_in_any_file_system_keeps_files_whole(tmp_path, spark):
    for place in (folder(str(tmp_path / "here"), spark), folder(elsewhere(spark, tmp_path / "there"), spark)):
        assert place.get("a/x") is None
        assert place.open("a/x") is None
        assert place.listing("a") == {}
        for content in (b"first", b"again"):
            place.put("a/x", content)
            assert place.get("a/x") == content
        place.put("a/w", b"")
        place.put("a/long", bytes(300_000))
        assert place.listing("a") == {"a/long": 300_000, "a/w": 0, "a/x": 5}
        place.move("a/x", "b/c/y")
        place.put("b/c/z", b"other")
        place.move("b/c/z", "b/c/y")
        assert (place.get("b/c/y"), place.get("a/x"), place.get("b/c/z")) == (b"other", None, None)
        place.delete(["a/w", "a/none"])
        assert list(place.listing("a")) == ["a/long"]
        place.clear("b")
        assert place.get("b/c/y") is None
        place.clear("none")
