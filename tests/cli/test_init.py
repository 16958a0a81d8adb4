"""Does `fogline init` find what a query needs in a file, and lead to an answer?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app, init
from fogline.cli.guess import guess
from tests.real_sets import real_sets


def run(*words: str, code: int = 0, given: str | None = None) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"}, input=given)
    assert result.exit_code == code, result.output
    return str(result.output)


def readings(rows: int = 200) -> pa.Table:
    rng = np.random.default_rng(3)
    heat = rng.random(rows) * 9
    start = datetime(2024, 5, 1, tzinfo=UTC)
    return pa.table(
        {
            "when": [start + timedelta(seconds=30 * (k // 5)) for k in range(rows)],
            "device": [f"d{k % 5}" for k in range(rows)],
            "heat": heat,
            "cost": heat + rng.random(rows),
            "ok": (heat > 5).astype(np.int64),
            "same": np.ones(rows),
            "note": ["x"] * rows,
        }
    )


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(readings(), "rows.parquet")
    return tmp_path


def test_columns_are_known_by_what_they_hold_and_are_called():
    found = guess(readings())
    assert (found.id, found.time) == ("device", "when")
    assert found.attributes == {"heat": "max", "cost": "min"}  # neither marks nor constants
    assert found.sure == {"cost"}
    assert found.lifetime == "10 minutes"  # 20 readings, one in 30 seconds


def test_clocks_that_count_and_texts_that_are_times():
    k = np.arange(100)
    counting = pa.table({"room": [f"r{i % 4}" for i in k], "minute": k // 4, "co2": k * 1.5, "number": k[::-1] % 7})
    found = guess(counting)
    assert (found.id, found.time, found.lifetime) == ("room", "minute", 20)
    texts = pa.table({"id": k % 3, "at": [f"2024-01-01T00:00:{i % 60:02}Z" for i in k], "x": k * 1.0})
    assert (guess(texts).id, guess(texts).time) == ("id", "at")
    assert guess(texts, id="at", time="id").id == "at"
    with pytest.raises(fl.FoglineError, match="there is no column 'no'; there are id, at, x"):
        guess(texts, id="no")


def test_from_a_file_to_a_plan_by_the_commands_that_it_prints(place):
    printed = run("init", "rows.parquet")
    assert "Rows of 'device' at 'when', which count for 10 minutes, by heat (max), cost (min)." in printed
    text = (place / "query.yaml").read_text()
    assert "heat: max  # a guess: write min if less is better\n" in text
    assert "cost: min\n" in text
    query = fl.Query.load("query.yaml")
    assert (query.id, query.time, query.lifetime_us, dict(query.attributes)) == (
        "device", "when", 600_000_000, {"heat": "max", "cost": "min"},
    )  # fmt: skip
    commands = [line.split()[1:] for line in printed.splitlines() if line.startswith("  fogline ")]
    assert [words[0] for words in commands] == ["fit", "check", "run", "answer"]
    assert "200 rows" in run(*commands[0])
    assert "complete          200  100.0%" in run(*commands[1])


def test_it_overwrites_nothing_and_states_what_it_cannot_find(place):
    (place / "query.yaml").write_text("mine")
    assert "'query.yaml' is there already, and is not overwritten" in run("init", "rows.parquet", code=2)
    assert (place / "query.yaml").read_text() == "mine"
    pq.write_table(readings().drop_columns(["device", "note"]), "nameless.parquet")
    missing = run("init", "nameless.parquet", "-o", "other.yaml", code=2)
    assert "no column looks like the name of a row's sensor" in missing
    assert "--id COLUMN" in missing
    pq.write_table(readings().drop_columns(["when"]), "timeless.parquet")
    assert "State it: --time COLUMN" in run("init", "timeless.parquet", "-o", "other.yaml", code=2)
    pq.write_table(readings().select(["when", "device", "same"]), "bare.parquet")
    assert "nothing can be compared" in run("init", "bare.parquet", "-o", "other.yaml", code=2)
    assert not (place / "other.yaml").exists()
    assert "there is no file 'rowz.parquet'.\nDid you mean 'rows.parquet'?" in run(
        "init", "rowz.parquet", "-o", "x", code=2
    )


def test_on_a_terminal_it_asks(place, monkeypatch):
    monkeypatch.setattr(init, "_on_a_terminal", lambda: True)
    run("init", "rows.parquet", given="\nwho\nwhen\nmin\nskip\n2 hours\n")
    query = fl.Query.load("query.yaml")
    assert (dict(query.attributes), query.lifetime_us, query.id) == ({"heat": "min"}, 7_200_000_000, "device")


def test_names_are_quoted_where_yaml_needs_it(place):
    odd = readings().rename_columns(["when", "device", "heat: °C", "no", "ok", "same", "note"])
    pq.write_table(odd, "odd.parquet")
    run("init", "odd.parquet", "--yes")
    assert list(fl.Query.load("query.yaml").attributes) == ["heat: °C", "no"]


def test_how_a_file_is_written_becomes_its_source(place):
    lines = [f"P{k % 3};0{k // 3 + 1}.05.2024 12:00;{k},5;{k * 7 % 5},25" for k in range(21)]
    (place / "in.csv").write_text("Gerät;Zeit;Wärme;Kosten\n" + "\n".join(lines) + "\n", encoding="cp1252")
    run("init", "in.csv", "--id", "Gerät")
    text = (place / "query.yaml").read_text(encoding="utf-8")
    assert 'separator: ";"' in text
    assert 'decimal: ","' in text
    assert 'time_format: "%d.%m.%Y %H:%M"' in text
    query = fl.Query.load("query.yaml")
    assert (query.time, list(query.attributes)) == ("Zeit", ["Wärme", "Kosten"])
    assert "complete           21  100.0%" in run("check", "in.csv", "-q", "query.yaml")


@pytest.mark.parametrize(("name", "id"), [("smart_building_rooms", "room"), ("skab_pump", "experiment")])
def test_real_files(place, name, id):
    run("init", str(real_sets() / f"{name}.parquet"))
    query = fl.Query.load("query.yaml")
    assert (query.id, query.time) == (id, "timestamp")
    assert len(query.attributes) == 4


def test_what_files_of_a_folder_do_not_share_is_not_stated_for_all_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("")
    (folder / "b.csv").write_text("id;t;x;y\n" + "".join(f"s{k % 3};{k};{k % 7},5;{k % 5},5\n" for k in range(30)))
    (folder / "c.csv").write_text("id,t,x,y\n" + "".join(f"s{k % 3},{k},{k % 7}.5,{k % 5}.5\n" for k in range(30, 60)))
    run("init", "in", "--id", "id", "--time", "t", "-o", "both.yaml", "-y")
    assert "source:" not in Path("both.yaml").read_text()
    assert "60 rows\n  complete           60" in run("check", "in", "-q", "both.yaml")
    (folder / "c.csv").unlink()
    run("init", "in", "--id", "id", "--time", "t", "-o", "one.yaml", "-y")
    assert 'separator: ";"\n  decimal: ","' in Path("one.yaml").read_text()


def test_a_column_that_is_there_twice_is_an_error_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("id,t,a,a\n" + "".join(f"{k % 5},{k},{k % 9},{k % 7}\n" for k in range(50)))
    assert run("init", "x.csv", code=2) == "FoglineError: x.csv cannot be read: it has the column 'a' twice.\n"


def test_whole_numbers_of_json_may_be_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text("".join(f'{{"id": {k % 3}, "t": {k}, "v": {k % 7}}}\n' for k in range(30)))
    assert "Rows of 'id' at 't'" in run("init", "x.jsonl")
