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
from fogline.query import duration
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


def test_what_rows_of_one_time_share_is_not_their_name():
    k = np.arange(200)
    wind, place = [f"{'NESW'[i * 7 % 3]}" for i in k], [f"p{i % 5}" for i in k]
    assert guess(pa.table({"wind": wind, "place": place, "t": k // 5, "x": k % 17})).id == "place"
    assert guess(pa.table({"place": place, "wind": wind, "t": k // 5, "x": k % 17})).id == "place"


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
    assert "Guessed: sensor 'device', time 'when'; compared by heat (max), cost (min); a row counts 10" in printed
    text = (place / "query.yaml").read_text()
    assert "heat: max  # a guess: write min if less is better\n" in text
    assert "cost: min\n" in text
    query = fl.Query.load("query.yaml")
    assert (query.id, query.time, duration(query.lifetime), dict(query.attributes)) == (
        "device", "when", 600_000_000, {"heat": "max", "cost": "min"},
    )  # fmt: skip
    commands = [line.split()[1:] for line in printed.splitlines() if line.startswith("  fogline ")]
    assert [words[0] for words in commands] == ["fit", "check", "run", "answer"]
    assert commands[0][1] == "rows.parquet"
    assert commands[1][1] == commands[2][1] == "incoming"  # not what was learnt from
    assert "200 rows" in run(*commands[0])
    Path("incoming").mkdir()
    pq.write_table(readings().slice(0, 90), "incoming/new.parquet")
    assert "complete           90  100.0%" in run(*commands[1])
    assert " new " in run("init", "incoming", "-o", "other.yaml").partition("fogline check")[2]


def test_it_overwrites_nothing_and_states_what_it_cannot_find(place):
    (place / "query.yaml").write_text("mine")
    assert "'query.yaml' exists already and is not overwritten" in run("init", "rows.parquet", code=2)
    assert (place / "query.yaml").read_text() == "mine"
    pq.write_table(readings().drop_columns(["device", "note"]), "nameless.parquet")
    assert "No column seems to name the sensor" in run("init", "nameless.parquet", "-o", "nameless.yaml")
    pq.write_table(readings().drop_columns(["when"]), "timeless.parquet")
    assert "Name it: --time COLUMN" in run("init", "timeless.parquet", "-o", "other.yaml", code=2)
    pq.write_table(readings().select(["when", "device", "same"]), "bare.parquet")
    assert "there is nothing to compare" in run("init", "bare.parquet", "-o", "other.yaml", code=2)
    assert not (place / "other.yaml").exists()
    assert "there is no file 'rowz.parquet'.\nDid you mean 'rows.parquet'?" in run(
        "init", "rowz.parquet", "-o", "x", code=2
    )


def test_on_a_terminal_it_asks(place, monkeypatch):
    monkeypatch.setattr(init, "_on_a_terminal", lambda: True)
    run("init", "rows.parquet", given="\nwho\nwhen\nmin\nskip\n2 hours\n")
    query = fl.Query.load("query.yaml")
    assert (dict(query.attributes), duration(query.lifetime), query.id) == ({"heat": "min"}, 7_200_000_000, "device")


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
    assert "Guessed: sensor 'id', time 't'" in run("init", "x.jsonl")


def german(room: str, k: int, co2: str) -> str:
    time = f"{23 + k // 1440}.08.2013 {k // 60 % 24:02}:{k % 60:02}:00"
    return f"{room};{time};{co2};{50 + k * 7 % 11},{k % 10};{20 + k % 9},5"


def test_days_of_german_files_with_null_words_and_copies_lead_to_an_answer(tmp_path, monkeypatch):
    """As smart_building_rooms of the shared data, written by a German Excel."""
    monkeypatch.chdir(tmp_path)
    marks = ("n/a", "NaN", "", "k.A.", "-")
    for folder, first in (("past", 0), ("incoming", 1440)):
        Path(folder).mkdir()
        for day in range(first, first + 1440, 1440):
            lines = [
                german(f"{500 + k % 7}", day + k, marks[k // 41 % 5] if k % 41 == 0 else f"{400 + k * 37 % 97},{k % 7}")
                for k in range(200)
            ]
            text = "room;Zeit;co2;humidity;temperature\n" + "\n".join([*lines, *lines[5:8], ""])
            Path(folder, f"tag_{day}.csv").write_text(text, encoding="cp1252", newline="\r\n")
    printed = run("init", "past")
    assert "Guessed: sensor 'room', time 'Zeit'" in printed
    assert "by co2 (max), humidity (max), temperature (max)" in printed
    fit, check, watch, answer = (line.split()[1:] for line in printed.splitlines() if line.startswith("  fogline "))
    assert "texts" not in run(*fit)
    checked = " ".join(run(*check).split())
    assert "complete 195 96.1% with gaps 5 2.5% rejected 3 1.5%" in checked
    assert "3: a row with this id and time is there already" in checked
    assert "3 rejected" in run(*watch, "--engine", "embedded")
    assert "the answer at 2013-08-24 03:19:00" in run(*answer)


def test_odd_texts_of_a_column_of_numbers_are_named_with_what_settles_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = {3: "ERR", 30: "ERR", 60: "too hot", 61: "n/a"}
    lines = [f"s{k % 4},{k},{odd.get(k, k * 7 % 31)},{k * 5 % 23}" for k in range(100)]
    Path("x.csv").write_text("\n".join(["device,t,co2,noise", *lines, ""]))
    printed = run("init", "x.csv")
    assert "by co2 (max), noise (max)" in printed
    assert "'co2' has numbers, and also texts: 'ERR' 2×, 'too hot' 1×." in printed
    assert "--null ERR --null 'too hot', or `nulls` in query.yaml" in printed
    assert '# nulls: ["ERR", "too hot"]' in Path("query.yaml").read_text()
    checked = run("check", "x.csv", "-q", "query.yaml")
    assert "3: 'co2' is …, which is not a number" in checked
    assert "add --null TEXT" in checked
    settled = run("init", "x.csv", "-o", "settled.yaml", "--null", "ERR", "--null", "too hot")
    assert "and also texts" not in settled
    assert "is not a number" not in run("check", "x.csv", "-q", "settled.yaml")


@pytest.mark.parametrize(
    ("value", "others", "suspected"),
    [
        (-999, lambda k: 350 + k * 37 % 997, True),
        (-1, lambda k: k * 37 % 997, True),  # where nothing else is below 0
        (-1, lambda k: k * 37 % 997 - 400, False),
        (9999, lambda k: k * 37 % 997, True),
        (999, lambda k: k * 37 % 998, False),  # one of many
        (0, lambda k: 982 + k * 37 % 61, True),
        (-200, lambda k: k * 37 % 340, True),
    ],
)
def test_a_sentinel_at_an_end_of_the_range_is_suspected_aloud_and_stays_a_number(
    tmp_path, monkeypatch, value, others, suspected
):
    monkeypatch.chdir(tmp_path)
    lines = [f"s{k % 4},{k},{value if k % 25 == 0 else others(k)}.0,{k * 5 % 23 + 1}" for k in range(500)]
    Path("x.csv").write_text("\n".join(["device,t,co2,noise", *lines, ""]))
    printed = run("init", "x.csv")
    assert (f"{value} lies far from all other values of 'co2' (20 rows; else" in printed) == suspected
    assert (f"--null {value}, or `nulls` in query.yaml" in printed) == suspected
    assert "complete          500" in run("check", "x.csv", "-q", "query.yaml")
    if suspected:
        assert "lies far from" not in run("init", "x.csv", "-o", "settled.yaml", "--null", str(value))
        assert f'nulls: ["{value}"]' in Path("settled.yaml").read_text()
        assert "complete          480" in run("check", "x.csv", "-q", "settled.yaml")


@pytest.mark.parametrize(("unit", "each"), [("seconds", 1), ("milliseconds", 1000), ("microseconds", 1_000_000)])
def test_numbers_since_1970_are_times_and_named_in_words(tmp_path, monkeypatch, unit, each):
    monkeypatch.chdir(tmp_path)
    lines = [f"{k * 7 % 31},{(1_377_299_040 + 60 * (k // 4)) * each},s{k % 4},{k * 5 % 23}" for k in range(400)]
    Path("x.csv").write_text("\n".join(["co2,stamp,device,noise", *lines, ""]))
    printed = run("init", "x.csv")
    assert f"Guessed: sensor 'device', time 'stamp' ({unit} since 1970); compared by" in printed
    assert f"; a row counts {1800 * each} (30 minutes)." in printed
    assert f"time: stamp  # {unit} since 1970" in Path("query.yaml").read_text()
    assert fl.Query.load("query.yaml").lifetime == 1800 * each
    assert "complete          400" in run("check", "x.csv", "-q", "query.yaml")


def test_rows_of_one_station_are_named_by_a_constant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{k},{k * 7 % 31},{k * 5 % 23}" for k in range(100)]
    Path("roof.csv").write_text("\n".join(["minute,co2,noise", *lines, ""]))
    printed = run("init", "roof.csv")
    assert "No column seems to name the sensor, so all rows count as one sensor: 'station' is 'roof'." in printed
    assert "name it: --id COLUMN" in printed
    assert 'constants: {"station": "roof"}' in Path("query.yaml").read_text()
    fit, _, _, _ = (line.split()[1:] for line in printed.splitlines() if line.startswith("  fogline "))
    assert "100 rows" in run(*fit)
    assert "complete          100" in run("check", "roof.csv", "-q", "query.yaml", "-r", "roof.repo")
    run("run", "roof.csv", "-q", "query.yaml", "-o", "out", "--engine", "embedded")
    assert "roof" in run("answer", "out")
    assert "roof' at" in run("explain", "--replay", "roof.csv", "-q", "query.yaml", "--id", "roof")
    with pytest.raises(fl.FoglineError, match="there is no column"):
        guess(readings(), id="station")


def test_what_most_rows_lack_is_not_compared_but_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        f"s{k % 4},{k},{k * 3 % 17 if k % 3 == 0 else 'n/a'},{k * 7 % 31},{k},{k * 5 % 23},{k % 7}" for k in range(99)
    ]
    Path("x.csv").write_text("\n".join(["device,t,rare,a,b,c,d", *lines, ""]))
    assert "by a (max), b (max), c (max), d (max)" in run("init", "x.csv")
    assert "#  rare: max  # missing in 67% of the rows" in Path("query.yaml").read_text()


def test_on_a_terminal_one_station_and_a_length_in_words_are_answers_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{1_377_299_040 + 60 * k},{k * 7 % 31}" for k in range(100)]
    Path("roof.csv").write_text("\n".join(["time,co2", *lines, ""]))
    monkeypatch.setattr(init, "_on_a_terminal", lambda: True)
    run("init", "roof.csv", given="\n\n\n2 hours\n")
    query = fl.Query.load("query.yaml")
    assert (query.id, query.lifetime) == ("station", 7200)


def test_every_option_that_a_message_of_init_names_is_one_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text(
        "id|at|v|w\n"
        + "".join(f"s{k % 3}|{k % 28 + 1:02}/04/2024|{'x' if k % 11 == 0 else k % 7}|{k % 5}\n" for k in range(60))
    )
    printed = run("init", "x.csv", "--id", "id", "--time", "at", "--separator", "|", "--time-format", "%d/%m/%Y",
                  "--zone", "Europe/Berlin", "--null", "x", "--decimal", ".", "--encoding", "utf-8")  # fmt: skip
    assert "--separator" not in printed  # stated, so nothing is assumed
    text = Path("query.yaml").read_text()
    for line in ('separator: "|"', 'time_format: "%d/%m/%Y"', 'zone: "Europe/Berlin"', 'nulls: ["x"]', 'decimal: "."'):
        assert line in text
    assert "complete           54" in run("check", "x.csv", "-q", "query.yaml")


def test_numbers_between_tabs_with_commas_between_thousands_stay_attributes(tmp_path, monkeypatch):
    """As a table of prices: milliseconds since 1970, NULL, 1,234,567."""
    monkeypatch.chdir(tmp_path)
    rows = [
        (1_360_281_600_000 + 86_400_000 * (k // 5), f"T{k % 5}", 30 + k * 37 % 997 / 7, 900_000 + k * 7919)
        for k in range(300)
    ]
    for name, some in (("past.tsv", rows[:150]), ("incoming.tsv", rows[150:])):
        lines = [
            f"{ts}\t{who}\t{'NULL' if k % 50 == 0 else f'{price:,.2f}'}\t{volume:,}"
            for k, (ts, who, price, volume) in enumerate(some)
        ]
        Path(name).write_text("\n".join(["ts\tticker\tclose\tvolume", *lines, ""]))
    printed = run("init", "past.tsv")
    assert "by close (max), volume (max)" in printed
    assert "decimal mark '.' (thousands ',')" in printed
    run("fit", "past.tsv", "-q", "query.yaml", "-o", "past.repo")
    checked = " ".join(run("check", "incoming.tsv", "-q", "query.yaml", "-r", "past.repo").split())
    assert "complete 147 98.0% with gaps 3 2.0% rejected 0" in checked


def test_guesses_about_a_real_set_in_german_lead_to_its_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pq.read_table(real_sets() / "smart_building_rooms.parquet").slice(0, 20_000).to_pandas()
    rng = np.random.default_rng(7)
    rows["timestamp"] = rows["timestamp"].dt.strftime("%d.%m.%Y %H:%M:%S")
    for name in ("co2", "humidity", "light", "pir", "temperature"):
        cells = rows[name].map("{:.2f}".format).str.replace(".", ",")
        rows[name] = cells.mask(rng.random(len(rows)) < 0.02, rng.choice(["n/a", "NaN", ""], len(rows)))
    rows.to_csv("rooms.csv", sep=";", index=False)
    assert "Guessed: sensor 'room', time 'timestamp'; compared by co2 (max), humidity (max); a row" in run(
        "init", "rooms.csv"
    )
    query = fl.Query.load("query.yaml")
    assert list(query.attributes) == ["co2", "humidity", "light", "pir"]
    layout_text = run("check", "rooms.csv", "-q", "query.yaml")
    assert "is not a number" not in layout_text


def test_a_column_of_times_in_two_formats_is_guessed_and_the_run_reads_both(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    times = [f"23.05.2024 {8 + k // 12:02}:{k % 12 * 5:02}" for k in range(60)]
    times += [f"2024-05-23 {13 + k // 12}:{k % 12 * 5:02}:00" for k in range(40)]
    rows = [f"M{k % 4};{when};{400 + k},5" for k, when in enumerate(times)]
    Path("m.csv").write_text("\n".join(["Anlage;Zeit;CO2", *rows]) + "\n")
    assert "time 'Zeit'" in run("init", "m.csv")
    assert "100 rows" in run("run", "m.csv", "-q", "query.yaml", "-o", "out")
    assert "M3" in run("answer", "out")


def test_what_is_commented_out_in_a_guessed_query_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"M{k % 4},{k // 4},{k % 7},H{k % 4}" for k in range(80)]
    Path("m.csv").write_text("\n".join(["machine,minute,gas,hall", *rows]) + "\n")
    run("init", "m.csv")
    asked = Path("query.yaml").read_text()
    Path("query.yaml").write_text(asked.replace("# keep: all", "keep: all").replace("# latest: true", "latest: true"))
    run("run", "m.csv", "-q", "query.yaml", "-o", "out")
    assert "hall" in run("answer", "out")
