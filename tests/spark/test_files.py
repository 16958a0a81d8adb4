"""Which files does `fogline run` read, which not, and what is printed about it? As a person types it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.rows.changes import answer_of

QUERY = "attributes: {x: max}\nid: s\ntime: t\nlast: 100\n"
RUN = ("run", "in", "-q", "q.yaml", "--engine", "spark", "-o", "out")


@pytest.fixture
def place(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY)
    Path("in").mkdir()
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def csv(name: str, *lines: str, age: float = 0.0, sep: str = ",") -> None:
    path = Path("in", name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([sep.join(("s", "t", "x")), *lines]) + "\n")
    when = path.stat().st_mtime - age
    os.utime(path, (when, when))


def answer() -> dict[Any, Any]:
    tables = [pq.read_table(path) for path in sorted(Path("out/changes").glob("*.parquet"))]
    return {row["s"]: row["t"] for row in answer_of(tables, fl.Query.load("q.yaml")).to_pylist()}


def seen() -> set[Any]:
    """The ids of all rows that ever entered."""
    return {name for path in Path("out/changes").glob("*.parquet") for name in pq.read_table(path)["s"].to_pylist()}


def rejects() -> list[tuple[str, str]]:
    return [(row["row"], row["reason"]) for row in pq.read_table("out/rejects").to_pylist()]


def total() -> int:
    return int(pq.read_table("out/health").to_pandas()["rows"].sum())


def test_old_files_and_subfolders_are_read_and_what_is_no_csv_is_named_not_read(place):
    csv("a.csv", "a,1,1")
    csv("old.csv", "old,1,2", age=30 * 86_400)
    csv("b.csv.tmp", "torn,1,9")
    csv("c.csv.part", "part,1,9")
    csv("sub/d.csv", "sub,1,1.5")
    csv("_hidden/e.csv", "hidden,1,9")
    Path("in/README.txt").write_text("hello")
    Path("in/_SUCCESS").write_text("")
    Path("in/.hidden.csv").write_text("garbage")
    printed = run(*RUN)
    assert (
        "not read, since their names end in none of csv, tsv, json, jsonl, parquet: README.txt, b.csv.tmp," in printed
    )
    assert "hidden" not in printed
    assert "_SUCCESS" not in printed
    assert "the times in 't' are read as numbers" in printed
    assert answer() == {"old": 1.0}
    assert total() == 3
    csv("stray.xlsx", "{}")  # once a run has begun
    csv("older.csv", "older,2,3", age=300 * 86_400)
    with Path("in/a.csv").open("a") as file:
        file.write("late,5,50\n")
    os.utime("in/a.csv", (9e9, 9e9))
    again = run(*RUN)
    assert "stray.xlsx" in again
    assert "changed after it was taken up; what was added is not read: a.csv." in again
    assert (
        "With --engine embedded, into another output, whole lines that are added to csv or JSON lines are read."
        in again
    )
    assert answer() == {"older": 2.0}
    assert total() == 4


def test_a_folder_whose_name_looks_like_a_pattern_is_read_also_after_it_was_moved(place):
    csv("a.csv", "a,1,1")
    Path("in").rename("Halle [A]{b}*")
    assert "1 rows" in run("run", "Halle [A]{b}*", *RUN[2:])
    Path("Halle [A]{b}*").rename("in")
    csv("b.csv", "b,2,2")
    Path("in").rename("Halle [B]")
    assert "1 rows" in run("run", "Halle [B]", *RUN[2:], "--moved")
    assert seen() == {"a", "b"}


def test_a_broken_file_is_rejected_by_its_name_and_the_run_goes_on(place):
    good = pa.table({"s": ["a", "b"], "t": [1, 2], "x": [1.0, 2.0]})
    pq.write_table(good, "in/1.parquet")
    run(*RUN)
    Path("in/2.parquet").write_bytes(b"PAR1 torn")
    Path("in/3.parquet").write_bytes(b"torn as well")
    pq.write_table(pa.table({"x": [4.0], "s": ["d"], "t": [4], "more": [1]}), "in/4.parquet")
    run(*RUN, "--files-per-batch", "1", code=3)  # two of the three that are new
    assert seen() == {"a", "b", "d"}
    bad = pq.read_table("out/rejects").to_pylist()
    assert {row["file"]: row["reason"][:25] for row in bad} == dict.fromkeys(
        ("2.parquet", "3.parquet"), "the file cannot be read: "
    )
    assert sorted(row["batch"] for row in bad) in ([1, 2], [1, 3], [2, 3])
    assert [row["line"] for row in bad] == [None, None]
    assert total() == 5


def test_each_file_is_read_by_its_own_kind_and_columns_are_known_by_their_names_in_any_order(place):
    csv("1.tsv", "a\t1\t1.5", sep="\t")
    run(*RUN)
    assert answer() == {"a": 1.0}
    Path("in/2.csv").write_text("x,more,s,t\n2,,b,2\n")
    pq.write_table(pa.table({"s": ["c"], "t": [3], "x": [2.5]}), "in/3.parquet")
    Path("in/4.csv").write_text("s,x\nd,9\n")
    Path("in/5.csv").write_text("t,s\n3,e\n")
    Path("in/6.csv").write_text("t,s\n3,f\n")
    run(*RUN, code=3)  # three of the five that are new
    assert answer() == {"c": 3.0}
    assert seen() == {"a", "b", "c"}
    found = {row["file"]: row for row in pq.read_table("out/rejects").to_pylist()}
    assert found["4.csv"]["reason"].startswith("the file cannot be read: it has no column 't'")
    assert found["5.csv"]["reason"] == "'x' is missing, and there is no repository to impute it from"
    assert (found["5.csv"]["line"], found["5.csv"]["batch"]) == (2, 1)


def test_a_run_that_rejects_most_of_its_rows_ends_with_3_and_gaps_are_warned_of_at_once(place):
    csv("1.csv", *(f"a{k},{k},broken" for k in range(9)))
    printed = run(*RUN, code=3)
    assert "all 9 rows were rejected, 9 of them because: 'x' is …, which is not a number.\n" in printed
    assert "The answer is that of the other rows. `fogline rejects` lists these." in printed
    assert [row["line"] for row in pq.read_table("out/rejects").to_pylist()] == list(range(2, 11))
    csv("2.csv", *(f"b{k},{k + 9},{k if k < 3 else 'broken'}" for k in range(9)))
    assert "6 of 9 rows were rejected" in run(*RUN, code=3)
    csv("3.csv", *(f"c{k},{k + 18}," for k in range(3)), "d,30,1")
    printed = run(*RUN, code=3)
    assert printed.count("Rows with missing values are rejected, since there is no repository") == 1
    assert printed.index("Rows with missing values are rejected") < printed.index("batch 2:")
    assert "3 of 4 rows were rejected, 3 of them because: 'x' is missing" in printed
    assert "Make one from past rows with `fogline fit`, then add --repository FOLDER" in printed
    assert "was begun with separator not stated, not ';'" in run(*RUN, "--separator", ";", code=2)


def test_later_json_lines_may_hold_other_numbers_texts_and_attributes(place):
    Path("q.yaml").write_text("attributes: {x: max, y: min}\nid: s\ntime: t\nlast: 100\n")
    Path("in/1.jsonl").write_text('{"s": 7, "t": 1, "x": 2}\n{"s": 8, "t": 1, "x": null}\n')
    printed = run(*RUN, code=3)  # all that is there is rejected
    assert "no line has 'y' yet: it counts as missing until one does." in printed
    lines = [
        {"s": 1, "t": 2, "x": 2.5, "y": 1}, {"s": "2", "t": 2.5, "x": "3.5", "y": 1.5, "more": 1},
        {"s": 3, "t": "3", "x": "broken", "y": 1}, {"s": "north", "t": 4, "x": 1, "y": 1},
        {"s": 4.5, "t": 4, "x": 1, "y": 1},
        {"s": 5, "t": "soon", "x": 1, "y": 1}, {"s": 6, "t": 4, "x": True, "y": {"z": 1}},
        {"s": 10, "t": 4, "x": "k.A.", "y": 1}, {"s": 9, "t": 3, "x": 9, "y": 0},
    ]  # fmt: skip
    Path("in/2.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n{torn\n")
    run(*RUN, code=3)
    assert seen() == {1, 2, 9}
    assert answer() == {9: 3.0}
    found = sorted(why for _, why in rejects())
    assert found == sorted([
        "'x' is 'broken', which is not a number", "'t' is 'soon', which is not a number",
        "'x' is 'true', which is not a number", "'s' is 'north', which is no whole number",
        "'s' is '4.5', which is no whole number", "the line cannot be read: it is no JSON object",
        "'y' is missing, and there is no repository to impute it from",
        *["'x' is missing, and there is no repository to impute it from"] * 2,
    ])  # fmt: skip
    assert "{torn" in next(row for row, why in rejects() if why == "the line cannot be read: it is no JSON object")
    assert total() == 12


ZONES = ("a,2026-03-01T12:00:00Z,1", "b,2026-03-01T14:30:00+02:00,2", "c,2026-03-01 12:40:00.123456789,3",
         "d,2026-03-01T12:50:00+0000,4", "e,noon,5", "f,9999-12-31T23:59:59Z,6")  # fmt: skip


def test_texts_with_and_without_a_zone_are_instants_of_one_clock(place):
    csv("1.csv", *ZONES)
    printed = run("check", "in", "-q", "q.yaml")
    assert "the times in 't' are read as timestamps, as the first rows show. Change it with --clock." in printed
    assert "the times in 't' are read as timestamps" in run(*RUN)
    times = {row["s"]: row["t"].isoformat() for path in Path("out/changes").glob("*.parquet")
             for row in pq.read_table(path).to_pylist()}  # fmt: skip
    assert times == {
        "a": "2026-03-01T12:00:00+00:00", "b": "2026-03-01T12:30:00+00:00", "c": "2026-03-01T12:40:00.123456+00:00",
        "d": "2026-03-01T12:50:00+00:00",
    }  # fmt: skip
    assert sorted(why for _, why in rejects()) == [
        "'t' is '9999-12-31T23:59:59Z', which is not a timestamp", "'t' is 'noon', which is not a timestamp",
    ]  # fmt: skip
    csv("2.csv", "g,2026-03-02,9")
    assert "taken for" not in run(*RUN)  # it is remembered
    assert list(answer()) == ["g"]
    assert "was begun with the clock timestamp, not number" in run(*RUN, "--clock", "number", code=2)


def test_the_kind_of_clock_can_be_stated(place):
    csv("1.csv", "a,20260301,1")
    run(*RUN, "--clock", "timestamp")
    assert [when.isoformat() for when in answer().values()] == ["2026-03-01T00:00:00+00:00"]
    assert "it may be 'number' or 'timestamp'" in run(*RUN[:-1], "o2", "--clock", "sundial", code=2)
    csv("1.csv", "a,soon,1")
    assert "state it: --clock number, --clock timestamp, or --time-format" in run(*RUN[:-1], "o3", code=2)


def test_a_history_and_a_stream_read_the_same_names_and_times(place):
    Path("q.yaml").write_text("attributes: {x: max}\nid: s\ntime: t\nlast: 100\n")
    Path("h.csv").write_text("s,t,x\n" + "".join(f"00{k % 3},2026-03-01T0{k % 9}:00:00+02:00,{k}\n" for k in range(40)))
    from fogline.files.options import Options
    from fogline.files.reading import table
    from fogline.spark import files
    from fogline.spark.session import session

    query = fl.Query.load("q.yaml")
    rows = table("h.csv", query, Options())
    assert files.table(session(), "h.csv", query, Options()).toArrow().cast(rows.schema).equals(rows)
    assert set(rows["s"].to_pylist()) == {"000", "001", "002"}
    assert rows["t"].to_pylist()[0].isoformat() == "2026-02-28T22:00:00+00:00"
