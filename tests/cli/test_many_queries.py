"""What does a person see of several queries over one stream?"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fogline.cli import app

FIRE = "attributes: {heat: max, light: max}\nid: sensor\ntime: t\nlifetime: 12\nby: [site]\n"
WET = "name: damp\nattributes: {damp: max}\nid: sensor\ntime: t\nlast: 3\nalpha: 0.3\n"
ROWS = ["s1,n,0,1,5,2", "s2,s,1,2,4,1", "s3,n,1,0,9,9", "s4,n,2,8,oops,3", ",n,2,1,1,1"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fire.yaml").write_text(FIRE)
    (tmp_path / "wet.yaml").write_text(WET)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("\n".join(["sensor,site,t,heat,damp,light", *ROWS]) + "\n")
    return tmp_path


def call(*words: str, code: int = 0):
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result


def started(*more: str, code: int = 0):
    queries = "--query", "fire.yaml", "--query", "wet.yaml"
    return call("run", "in", *queries, "--output", "out", "--engine", "embedded", *more, code=code)


def test_each_query_has_a_line_and_its_own_rejects(place):
    lines = started().stdout.splitlines()
    assert lines[0].startswith("5 rows for 2 queries, ")
    assert lines[1] == "  fire: 5 changes, 1 rejected, 3 in the answer"
    assert lines[2].startswith("  damp: ")
    assert ", 2 rejected, " in lines[2]
    rejects = pq.read_table("out/rejects").to_pylist()
    assert sorted((row["query"], row["reason"]) for row in rejects) == [
        ("damp", "'damp' is 'oops', which is not a number"),
        ("damp", "the id 'sensor' is missing"),
        ("fire", "the id 'sensor' is missing"),
    ]


def test_the_answer_is_shown_under_each_name_or_of_one(place):
    started()
    whole = call("answer", "out").stdout
    assert whole.index("fire:") < whole.index("damp:")
    assert whole.count("the answer at 2, after batch 0") == 2
    rows = [json.loads(line) for line in call("answer", "out", "--json").stdout.splitlines()]
    assert {row["query"] for row in rows} == {"fire", "damp"}
    assert all(row["heat"] is None for row in rows if row["query"] == "damp")
    only = [json.loads(line) for line in call("answer", "out", "--query", "damp", "--json").stdout.splitlines()]
    assert only == [{each: row[each] for each in only[0]} for row in rows if row["query"] == "damp"]
    assert "it has fire, damp" in call("answer", "out", "--query", "dam", code=2).output
    assert "query 'fire': --where 'damp > 1'" in call("answer", "out", "--where", "damp > 1", code=2).output
    assert call("answer", "out", "--query", "damp", "--where", "damp > 1").exit_code == 0


def test_one_query_has_no_name_unless_it_is_stated(place):
    call("run", "in", "--query", "wet.yaml", "--output", "one", "--engine", "embedded")
    assert "query" not in pq.read_table("one/changes").schema.names
    assert "has no name; leave --query out" in call("answer", "one", "--query", "damp", code=2).output
    call("run", "in", "--query", "mine=wet.yaml", "--output", "named", "--engine", "embedded")
    assert set(pq.read_table("named/changes")["query"].to_pylist()) == {"mine"}


def test_names_that_are_used_twice_and_files_that_differ_in_how_they_read_are_refused(place):
    (place / "again.yaml").write_text(FIRE + "name: fire\n")
    found = call("run", "in", "-q", "fire.yaml", "-q", "again.yaml", "-o", "out", "--engine", "embedded", code=2).output
    assert "two queries are called 'fire': 'fire.yaml' and 'again.yaml'" in found
    assert "--query NAME=again.yaml" in found
    (place / "fire.yaml").write_text(FIRE + "source: {separator: ';'}\n")
    (place / "wet.yaml").write_text(WET + "source: {separator: ','}\n")
    assert "separator is ';' in 'fire.yaml' and ',' in 'wet.yaml'" in started(code=2).output


def test_a_run_goes_on_with_the_queries_it_was_begun_with(place):
    started()
    found = call("run", "in", "-q", "fire.yaml", "-q", "wet=wet.yaml", "-o", "out", "--engine", "embedded", code=2)
    assert "'damp' is missing, 'wet' is new" in found.output
    assert "choose another output" in found.output
    assert "no new files" in started().stdout


def test_check_looks_at_each_query_and_explain_at_one(place):
    queries = "--query", "fire.yaml", "--query", "wet.yaml"
    lines = call("check", "in", *queries).stdout.splitlines()
    at = lines.index("damp:")
    assert lines[0] == "fire:"
    assert "  rejected            1   20.0%" in lines[:at]
    assert "  rejected            2   40.0%" in lines[at:]
    assert (
        "explain looks at one query at a time"
        in call("explain", "--replay", "in", *queries, "--id", "s1", code=2).output
    )
    refused = " ".join(call("fit", "in", *queries, "-o", "learnt", code=2).output.split())
    assert "fit looks at one query at a time, and 2 are given" in refused
    assert "by a query with the attributes of all" in refused
    assert "'s1' at 2" in call("explain", "--replay", "in", "--query", "wet.yaml", "--id", "s1").stdout


def test_a_query_that_rejects_all_its_rows_is_named(place):
    (place / "wet.yaml").write_text(WET.replace("damp: max", "damp: max, gas: max"))
    (place / "in" / "a.csv").write_text("\n".join(["sensor,site,t,heat,damp,light,gas", *(f"{row}," for row in ROWS)]))
    found = started(code=3)
    assert "damp: all 5 rows were rejected, 3 of them because: 'gas' is missing" in found.output


def test_late_rows_of_all_queries_stand_in_the_summary(place):
    started()
    (place / "in" / "b.csv").write_text("sensor,site,t,heat,damp,light\ns5,n,1,1,1,1\n")
    assert "Late: " in started().stdout


def test_a_skyband_is_asked_for_in_the_query_or_in_its_place(place):
    (place / "one.yaml").write_text("attributes: {heat: max}\nid: sensor\ntime: t\nlifetime: 12\nskyband: 2\n")
    run = "run", "in", "--query", "one.yaml", "--engine", "embedded", "--explain", "--output"
    for name, more, expected in (("two", (), {"s2", "s4"}), ("three", ("--skyband", "3"), {"s1", "s2", "s4"})):
        call(*run, name, *more)
        found = [json.loads(line) for line in call("answer", name, "--json").stdout.splitlines()]
        assert {row["sensor"] for row in found} == expected
    why = call("explain", "three", "--id", "s1").stdout
    assert "'s2' surely beats it, 's4' surely beats it; fewer than 3 may" in why
    refused = call("next", "two", code=2).stderr
    assert "worked out in skylines, and this run asks for a skyband of 2; begin one without." in refused
    call("run", "in", "--query", "one.yaml", "--output", "x", "--skyband", "0", code=2)
