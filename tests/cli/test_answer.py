"""Does `fogline answer` state of when it is, follow expiries, and give rows as they are wanted?"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.cli.answer import chosen_rows
from fogline.errors import FoglineError
from fogline.output.folder import LocalFolder
from fogline.runs.config import Output, RunConfig
from fogline.show import instant_text

NUMBERS = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime=10)
STAMPS = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime="10 minutes")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def written(path, query, times, last):
    """An output with one batch: a row at each of these times, all of them in the answer."""
    output = Output(LocalFolder(path), RunConfig("in", str(path), query))
    output.begin({})
    same = {"change": "enter", "probability_error": 0.0}
    rows = [
        {"time": t, "sensor": f"s{k}", "t": t, "probability": 1 - k / 10, "heat": 10.0 * k, **same}
        for k, t in enumerate(times)
    ]
    kind = pa.timestamp("us", "UTC") if isinstance(last, datetime) else pa.int64()
    changes = pa.Table.from_pylist(rows)
    for name in ("time", "t"):
        changes = changes.set_column(changes.schema.get_field_index(name), name, changes[name].cast(kind))
    output.folder.write(3, {"changes": changes, "health": pa.table({"batch": [3], "time": pa.array([last], kind)})})
    return str(path)


@pytest.fixture
def numbers(tmp_path):
    return written(tmp_path, NUMBERS, [1, 5, 9], 11)


def run(*words: str, code: int = 0):
    result = CliRunner().invoke(app, ["answer", *words], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result


def test_the_first_line_states_the_instant_and_the_batch(numbers, tmp_path_factory):
    assert run(numbers).stdout.splitlines()[0] == "the answer at 11, after batch 3"
    assert run(numbers, "--at", "6").stdout.splitlines()[0] == "the answer at 6"
    stamps = written(tmp_path_factory.mktemp("stamps"), STAMPS, [NOON], NOON + timedelta(minutes=1))
    assert run(stamps).stdout.splitlines()[0] == "the answer at 2024-05-01 12:01:00, after batch 3"


def test_a_file_of_a_batch_that_was_deleted_is_an_error_and_not_fewer_rows(numbers):
    (path,) = (Path(numbers) / "changes").iterdir()
    path.unlink()
    assert "is not whole: of batch 3 the run has written a file in changes/" in run(numbers, code=2).output


def test_after_the_last_row_rows_leave_as_they_expire(numbers, tmp_path_factory):
    later = run(numbers, "--at", "15").stdout.splitlines()
    assert later[0] == "the answer at 15; the run has come to 11"
    assert later[1].startswith("2 rows expired since then; which rows came in instead, only a run")
    assert [line.split()[0] for line in later[3:-1]] == ["s2"]
    assert "0 rows" in run(numbers, "--at", "19").stdout
    assert "1 row" in run(numbers, "--at", "18.5").stdout.splitlines()[-1]
    stamps = written(tmp_path_factory.mktemp("stamps"), STAMPS, [NOON, NOON + timedelta(minutes=5)], NOON)
    assert "1 row" in run(stamps, "--at", "2024-05-01T12:10:00").stdout.splitlines()[-1]
    assert "0 rows" in run(stamps, "--at", "2024-05-02").stdout.splitlines()[-1]


def test_where_rows_expire_by_their_own_column_that_is_stated(tmp_path):
    own = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", expires="until")
    printed = run(written(tmp_path, own, [1], 2), "--at", "99").stdout
    assert "rows expire by 'until', which is not in the output: some of these may have expired" in printed
    assert "1 row" in printed


def test_an_output_without_rows_states_that(tmp_path):
    Output(LocalFolder(tmp_path), RunConfig("in", str(tmp_path), NUMBERS)).begin({})
    assert run(str(tmp_path)).stdout.startswith("no row has come yet.")


def test_rows_as_csv_json_and_parquet_with_the_instant_beside_them(numbers, tmp_path):
    csv = run(numbers, "--format", "csv")
    assert csv.stdout.splitlines()[0] == '"sensor","t","probability","probability_error","heat","certainty"'
    assert csv.stderr == "the answer at 11, after batch 3\n"
    lines = [json.loads(line) for line in run(numbers, "--json").stdout.splitlines()]
    assert [line["sensor"] for line in lines] == ["s0", "s1", "s2"]
    assert "Parquet is not for a terminal; name a file" in run(numbers, "--format", "parquet", code=2).output
    assert "it may be table, csv, json, parquet" in run(numbers, "--format", "xls", code=2).output
    assert "does not show a format" in run(numbers, "-o", str(tmp_path / "a.xls"), code=2).output
    file = tmp_path / "a.parquet"
    assert run(numbers, "--output", str(file), "--top", "2").stdout == f"2 rows: {file}\n"
    assert pq.read_table(file)["sensor"].to_pylist() == ["s0", "s2"]
    for name, first in (("a.csv", '"sensor"'), ("a.json", '{"sensor"'), ("a.txt", "sensor ")):
        run(numbers, "--output", str(tmp_path / name))
        assert (tmp_path / name).read_text().startswith(first)


def test_only_the_likeliest_or_those_for_which_all_conditions_hold(numbers):
    def ids(*words: str) -> list[str]:
        return [json.loads(line)["sensor"] for line in run(numbers, "--json", *words).stdout.splitlines()]

    assert ids("--top", "1") == ["s0"]
    assert ids("--where", "heat >= 10") == ["s1", "s2"]
    assert ids("--where", "heat>5", "--where", "sensor != s2") == ["s1"]
    assert ids("--where", "sensor = 's0'", "--where", "probability_error == 0") == ["s0"]
    assert ids("--where", "heat > 5", "--top", "1") == ["s1"]
    assert "Did you mean 'heat'?" in run(numbers, "--where", "haet > 5", code=2).output
    assert "'warm' is not a number, as that column holds" in run(numbers, "--where", "heat > warm", code=2).output
    assert "write a column, a comparison and a value" in run(numbers, "--where", "heat", code=2).output


def test_a_missing_value_fulfils_no_condition_and_times_are_compared_as_times():
    rows = pa.table({"x": pa.array([1.0, None]), "at": pa.array([NOON, NOON]), "none": pa.nulls(2), "b": [True, None]})
    assert chosen_rows(rows, ["x != 5"]).num_rows == 1
    assert chosen_rows(rows, ["at >= 2024-05-01T12:00:00Z"]).num_rows == 2
    assert chosen_rows(rows, ["none = 1"]).num_rows == 0
    with pytest.raises(FoglineError, match="'yes' is not true or false"):
        chosen_rows(rows, ["b = yes"])
    assert instant_text(NOON) == "2024-05-01 12:00:00"


def test_values_are_compared_as_their_columns_hold_them():
    ids = [2**53 + 1, 2**53 + 3]
    rows = pa.table(
        {"id": ids, "day": [date(2024, 1, 1), date(2024, 1, 2)], "a<b": [1, 2], "n": [1, 2], "b": [True, False]}
    )

    def chosen(condition: str) -> list[int]:
        return [*chosen_rows(rows, [condition])["n"].to_pylist()]

    assert chosen(f"id = {ids[0]}") == [1]
    assert chosen(f"id > {ids[0]}") == [2]
    assert chosen("id < 9e15") == []
    assert chosen("n > 1.5") == [2]
    assert chosen("day = 2024-01-01") == [1]
    assert chosen("day > '2024-01-01'") == [2]
    assert chosen("'a<b' > 1") == chosen('"a<b">1') == [2]
    assert chosen("b = True") == [1]
    for condition in ("day = soon", "b = 2x", "id = many"):
        with pytest.raises(FoglineError, match="as that column holds"):
            chosen(condition)


def test_times_without_a_zone_are_those_that_the_column_shows():
    rows = pa.table({"at": pa.array([NOON]).cast(pa.timestamp("us", "+02:00"))})
    assert chosen_rows(rows, ["at > '2024-05-01 13:59'"]).num_rows == 1
    assert chosen_rows(rows, ["at > 2024-05-01T12:00:00Z"]).num_rows == 0
    assert chosen_rows(rows, ["at = 01.05.2024 14:00"]).num_rows == 1


def test_instants_that_are_fractions_of_numbers_are_shown_whole(tmp_path):
    output = Output(LocalFolder(tmp_path), RunConfig("in", str(tmp_path), NUMBERS))
    output.begin({})
    times = [1.7e9 + 0.25, 1.7e9 + 0.5]
    changes = {"time": times, "sensor": ["a", "b"], "t": times, "probability": [0.9, 0.8], "heat": [123456.7, 0.25],
               "change": ["enter"] * 2, "probability_error": [0.0] * 2}  # fmt: skip
    output.folder.write(0, {"changes": pa.table(changes), "health": pa.table({"batch": [0], "time": times[1:]})})
    shown = run(str(tmp_path)).stdout
    assert "1700000000.25" in shown
    assert "1700000000.5" in shown
    assert "123457" in shown
