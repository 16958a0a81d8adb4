"""Does `fogline explain` state what a person needs, of rows that are in, out, forgotten, gone or rejected?"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app

STREAM = "sensor,t,gas,oxygen\n57,1,5,19\n58,1,9,20\n57,3,2,30\n60,2,6,18\n61,7,1,30\nx,2,no,1\n"
QUERY = "{attributes: {gas: max, oxygen: min}, id: sensor, time: t, lifetime: 4}"


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def ask(folder: Path, stream: str, *more: str, query: str = QUERY) -> tuple[int, str]:
    files = written(folder, "s.csv", stream), "-q", written(folder, "q.yaml", query)
    run = CliRunner().invoke(app, ["explain", *files, *more])
    return run.exit_code, run.stdout if run.exit_code == 0 else run.output  # kernels may report that they compile


@pytest.fixture
def explained(tmp_path):
    def asked(*more: str) -> tuple[int, list[str]]:
        code, output = ask(tmp_path, STREAM, *more)
        return code, output.splitlines()

    return asked


def test_a_row_is_explained_with_its_history_and_why_it_left(explained):
    assert explained("--id", "57") == (
        0,
        [
            "'57' at 7:",
            "  '57' is out of the answer: expired.",
            "    arrived 3",
            "    history:",
            "      6: entered, P = 1",
            "      7: left: expired",
            "  '57' is out of the answer: beaten by '60' (arrived 2).",
            "    arrived 1",
            "    history:",
            "      1: entered, P = 1",
            "      2: left: beaten by '60' (arrived 2)",
        ],
    )


def test_rows_that_could_not_be_taken_are_not_called_beaten(explained):
    assert explained("--id", "x") == (
        0,
        ["'x' at 7:", "  none of its rows could be taken.", "  rejected: 'gas' is 'no', which is not a number"],
    )


def test_a_row_is_explained_as_of_an_instant(explained):
    code, lines = explained("--id", "57", "--at", "3")
    assert code == 0
    assert lines[:7] == [
        "'57' at 3:",
        "  '57' is out of the answer: '58' surely beats it; it would enter if its gas were above 9.",
        "    arrived 3",
        "    beaten by:",
        "      '58' (arrived 1)  beats it with 1",
        "      '60' (arrived 2)  beats it with 1",
        "    what would flip it:",
    ]
    code, lines = explained("--id", "58", "--at", "4")
    assert lines[1] == (
        "  '58' is in the answer under every value that was imputed: no row beats it; it would leave if its gas were 6 "
        "or less."
    )


def test_what_cannot_be_explained_is_answered_in_a_sentence(explained):
    assert explained("--id", "99") == (2, ["RowsError: no row up to 7 has the sensor '99'."])
    code, [line] = explained("--id", "57", "--at", "yesterday")
    assert code == 2
    assert line.startswith("ClockError: 'yesterday' is no instant of this stream")
    code, lines = explained("--id", "x")
    assert code == 0
    assert any(line.startswith("  rejected: 'gas' is ") for line in lines)


@pytest.mark.parametrize("window", ["lifetime: 4", "last: 3"])
def test_the_guard_of_a_row_that_was_forgotten_is_named(tmp_path, window):
    query = QUERY.replace("lifetime: 4", window)
    code, output = ask(tmp_path, "sensor,t,gas,oxygen\na,1,5,19\nb,1,4,20\nc,2,6,18\n", "--id", "b", query=query)
    assert code == 0
    assert (
        "  'b' is out of the answer: 'c' (arrived 2) surely beats it, for the rest of its life." in output.splitlines()
    )
    late = "sensor,t,gas,oxygen\na,1,5,19\nb,1,4,20\nc,2,6,18\nd,6,9,30\ne,7,9,30\n"
    code, output = ask(tmp_path, late, "--id", "b", query=query)
    assert output.splitlines() == ["'b' at 7:", "  none of its rows is in the window any more."]


def test_a_forgotten_row_with_a_gap_has_a_guard_by_its_bounds(tmp_path):
    query = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=4)
    history = pa.table({"gas": [1.0, 2.0, 3.0, 3.5], "oxygen": [20.0, 21.0, 22.0, 23.0]})
    fl.Repository.fit(history, query, rules=["oxygen(1) -> gas(9)"]).save(tmp_path / "repo")
    stream = "sensor,t,gas,oxygen\na,1,,21\nb,2,4,20\nc,3,,19\n"
    repository = "-r", str(tmp_path / "repo")
    output = ask(tmp_path, stream, "--id", "a", *repository)[1]
    assert (
        "  'a' is out of the answer: 'b' (arrived 2) surely beats it, for the rest of its life." in output.splitlines()
    )
    output = ask(tmp_path, stream, "--id", "c", *repository)[1]
    assert (
        "  'c' is in the answer under every value that was imputed: its missing gas is likely 1 (rule oxygen(1) -> "
        "gas(9), 1 row of history); no row beats it"
    ) in output
    output = ask(tmp_path, stream, "--id", "a", *repository, "--at", "1")[1]
    assert "its missing gas is likely 1 to 3 (rule oxygen(1) -> gas(9), 3 rows of history)" in output
    assert "gas is missing  1 to 3, mean 2, by rule oxygen(1) -> gas(9), 3 rows of history" in output


def test_it_is_given_as_json(tmp_path):
    code, output = ask(tmp_path, STREAM, "--id", "57", "--at", "3", "--json")
    found = json.loads(output)
    assert (code, found["at"], found["rejected"]) == (0, 3, [])
    new, old = found["rows"]
    assert (new["arrived"], new["inside"], new["certainty"], new["probability"]) == (3, False, "", 0.0)
    assert new["beaten_by"][0] == {"id": "58", "arrived": 1, "probability": 1.0}
    assert {flip["attribute"]: (flip["side"], flip["value"], flip["to"]) for flip in new["flips"]} == {
        "gas": (">", 9.0, True),
        "oxygen": ("<", 18.0, True),
    }
    assert [each["change"] for each in old["changes"]] == ["enter", "leave"]
    assert (old["sentence"], old["guard"]["id"]) == (
        "'57' is out of the answer: '60' (arrived 2) surely beats it, for the rest of its life.", "60"
    )  # fmt: skip


@pytest.mark.parametrize("name", ["[/x]", "[red]a[/red]", "<img src=x onerror=alert(1)>", "a\x1b[31mb", "a\tb", "ü☃"])
def test_hostile_ids_stay_text(tmp_path, name):
    rows = [{"sensor": name, "t": 1, "gas": 1.0, "oxygen": 2.0}, {"sensor": "b", "t": 1, "gas": 2.0, "oxygen": 1.0}]
    (tmp_path / "s.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    query = written(tmp_path, "q.yaml", QUERY)
    run = CliRunner().invoke(app, ["explain", str(tmp_path / "s.jsonl"), "-q", query, "--id", name])
    assert run.exit_code == 0
    assert run.stdout.splitlines()[:2] == [
        f"{name!r} at 1:",
        f"  {name!r} is out of the answer: 'b' (arrived 1) surely beats it, for the rest of its life.",
    ]
    run = CliRunner().invoke(app, ["explain", str(tmp_path / "s.jsonl"), "-q", query, "--id", name, "--json"])
    assert json.loads(run.stdout)["rows"][0]["id"] == name


def test_groups_and_timestamps_are_named(tmp_path):
    stream = "sensor,site,t,gas\na,n,2024-05-01T12:00:00,1\nb,n,2024-05-01T12:00:00,0.5\na,s,2024-05-01T12:00:01,3\n"
    query = "{attributes: {gas: max}, id: sensor, time: t, lifetime: 1 hour, by: [site]}"
    code, output = ask(tmp_path, stream, "--id", "a", query=query)
    assert code == 0
    lines = output.splitlines()
    assert lines[2].strip().startswith("arrived 2024-05-01 12:00:01")
    assert lines[2].endswith(", of 's'")
    code, output = ask(tmp_path, stream, "--id", "a", "--json", query=query)
    assert [each["by"] for each in json.loads(output)["rows"]] == [["s"], ["n"]]
    assert json.loads(output)["at"] == "2024-05-01 12:00:01"


def test_a_row_in_whose_place_a_newer_one_stays_in_is_called_replaced(tmp_path):
    """Where only the newest row of an id counts, that is one update of the id, and no leave of the old row."""
    query = "{attributes: {gas: max}, id: sensor, time: t, lifetime: 9, latest: true}"
    code, output = ask(tmp_path, "sensor,t,gas\na,1,5\na,2,7\nb,3,6\na,4,3\n", "--id", "a", query=query)
    assert code == 0
    assert [line.strip() for line in output.splitlines() if "arrived 1" in line or "its place" in line] == [
        "'a' is out of the answer: a newer row of 'a' (arrived 2) has taken its place.",
        "arrived 1",
    ]
    assert "'a' is out of the answer: replaced." in output  # the second: the third is not in the answer
    assert "window" not in output
