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
    run = CliRunner().invoke(app, ["explain", "--replay", *files, *more])
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
            "  '57' is out of the answer: it has expired.",
            "    arrived 3",
            "    history:",
            "      7: left: it has expired",
            "      6: entered, P = 1",
            "  '57' is out of the answer: '60' (arrived 2) surely beats it.",
            "    arrived 1",
            "    history:",
            "      2: left: '60' (arrived 2) surely beats it",
            "      1: entered, P = 1",
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
        "      '58' (arrived 1)  with probability 1",
        "      '60' (arrived 2)  with probability 1",
        "    what would change it:",
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
    run = CliRunner().invoke(app, ["explain", "--replay", str(tmp_path / "s.jsonl"), "-q", query, "--id", name])
    assert run.exit_code == 0
    assert run.stdout.splitlines()[:2] == [
        f"{name!r} at 1:",
        f"  {name!r} is out of the answer: 'b' (arrived 1) surely beats it, for the rest of its life.",
    ]
    run = CliRunner().invoke(
        app, ["explain", "--replay", str(tmp_path / "s.jsonl"), "-q", query, "--id", name, "--json"]
    )
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
    assert [line.strip() for line in output.splitlines() if "arrived 1" in line or "(arrived 2)" in line] == [
        "'a' is out of the answer: a newer row of 'a' (arrived 2) has taken its place.",
        "arrived 1",
    ]
    assert (
        "'a' is out of the answer: its id has a newer row, which is not in: 'b' (arrived 3) surely beats that one."
        in output
    )  # the second: the third is not in the answer
    assert "window" not in output


# --- From the folder of a run -----------------------------------------------------------------------------------------


def watched(folder: Path, stream: str, *more: str, query: str = QUERY, explain: bool = True) -> str:
    """The output folder of a run over a stream."""
    (folder / "in").mkdir()
    written(folder / "in", "s.csv", stream)
    files = str(folder / "in"), "-q", written(folder, "q.yaml", query), "-o", str(folder / "out")
    run = CliRunner().invoke(app, ["run", *files, *(["--explain"] if explain else []), *more])
    assert run.exit_code == 0, run.output
    return str(folder / "out")


def of(output: str, *more: str) -> list[str]:
    run = CliRunner().invoke(app, ["explain", output, *more])
    assert run.exit_code == 0, run.output
    return run.stdout.splitlines()


def test_an_output_shows_why_a_row_is_in_and_what_was_reported_newest_first(tmp_path):
    output = watched(tmp_path, STREAM, "--max-rows-per-batch", "4")
    assert of(output, "--id", "60") == [
        "'60' at 7:",
        "  '60' is out of the answer: it has expired.",
        "    arrived 2",
        "    history:",
        "      6: left: it has expired",
        "      2: entered, P = 1",
    ]
    assert of(output, "--id", "61")[1] == (
        "  '61' is in the answer under every value that was imputed: no row beats it."
    )
    assert of(output, "--id", "60", "--at", "5")[1].startswith("  '60' is in the answer under every value")
    assert of(output, "--id", "x") == [
        "'x' at 7:",
        "  none of its rows could be taken.",
        "  rejected: 'gas' is 'no', which is not a number",
    ]
    assert of(output, "--id", "57", "-n", "1")[-1] == "Older ones are not shown (--most 1)."


@pytest.mark.parametrize("stream", [STREAM, STREAM.replace("1,5,19", "1,9,20")])
def test_an_output_and_a_replay_report_the_same_of_a_row(tmp_path, stream):
    output = watched(tmp_path, stream)
    for name in ("57", "58", "60", "61"):
        replayed = CliRunner().invoke(
            app, ["explain", "--replay", str(tmp_path / "in"), "-q", str(tmp_path / "q.yaml"), "--id", name, "--json"]
        )
        both = [json.loads(replayed.stdout), json.loads("\n".join(of(output, "--id", name, "--json")))]
        reported = [{row["arrived"]: (row["inside"], row["changes"]) for row in found["rows"]} for found in both]
        kept = {arrived: what for arrived, what in reported[0].items() if what[1] or arrived in reported[1]}
        assert reported[1] == kept  # a row that never was in, nor nearly, is in a replay alone


def test_times_are_those_of_the_stream_and_may_be_written_as_in_germany(tmp_path):
    stream = (
        "sensor,t,gas\na,2024-05-01T12:00:00+02:00,1\nb,2024-05-01T12:01:00+02:00,3\na,2024-05-01T12:02:00+02:00,4\n"
    )
    query = "{attributes: {gas: max}, id: sensor, time: t, lifetime: 1 hour}"
    output = watched(tmp_path, stream, query=query)
    lines = of(output, "--id", "b")
    assert lines[0] == "'b' at 2024-05-01 12:02:00+02:00:"
    assert lines[1] == "  'b' is out of the answer: 'a' (arrived 2024-05-01 12:02:00+02:00) surely beats it."
    for at in ("01.05.2024 12:01", "2024-05-01 12:01:30", "2024-05-01T10:01:00Z"):
        assert "entered" in of(output, "--id", "b", "--at", at)[-1]


def test_of_several_queries_one_is_named_and_of_groups_each_is_shown(tmp_path):
    stream = "sensor,site,t,gas\na,n,1,1\na,s,1,2\n"
    query = "{attributes: {gas: max}, id: sensor, time: t, lifetime: 9, by: [site]}"
    written(tmp_path, "other.yaml", query.replace("max", "min"))
    output = watched(tmp_path, stream, "-q", str(tmp_path / "other.yaml"), query=query)
    assert sum("arrived 1, of " in line for line in of(output, "--id", "a", "--query", "other")) == 2
    run = CliRunner().invoke(app, ["explain", output, "--id", "a"])
    assert (run.exit_code, run.stderr.splitlines()[-1]) == (
        2, f"FoglineError: {output!r} answers several queries; name one: --query q or other."
    )  # fmt: skip


def test_what_an_output_cannot_explain_is_answered_with_the_way_out(tmp_path):
    output = watched(tmp_path, STREAM, explain=False)
    run = CliRunner().invoke(app, ["explain", output, "--id", "60"])
    assert run.exit_code == 0
    assert "was made without --explain" in run.stderr
    assert "left: it has expired" in run.stdout
    for words, text in (
        ([output, "--id", "99"], "knows no row of '99'"),
        ([str(tmp_path / "in"), "--id", "57"], "is not an output folder of `fogline run`"),
        ([output], "--id NAME"),
        (["--id", "57"], "--replay STREAM"),
        (["--replay", str(tmp_path / "in"), "--id", "57"], "--query FILE"),
        ([output, "--replay", str(tmp_path / "in"), "--id", "57"], "leave"),
    ):
        run = CliRunner().invoke(app, ["explain", *words])
        assert (run.exit_code, text in run.stderr.splitlines()[-1]) == (2, True), run.output
