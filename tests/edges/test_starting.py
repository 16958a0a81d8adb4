"""Does a start that fails leave nothing, before any engine is started, and does a second run leave the first alone?"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.cli import run as watch
from fogline.errors import FoglineError
from fogline.files.listing import must_be_apart
from fogline.pipeline.names import LOCK
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.lock import holding
from fogline.saved import sealed

QUERY = "attributes: {heat: max, gas: max}\nid: sensor\ntime: t\nlifetime: 50\n"
ROWS = "sensor,t,heat,gas\n" + "".join(f"s{k % 7},{k},{k * 7 % 11},{k * 5 % 13}\n" for k in range(60))
HISTORY = [{"sensor": f"s{k % 7}", "t": k, "heat": k * 7 % 11, "damp": k * 5 % 13} for k in range(60)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a query and a stream."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(ROWS)
    return tmp_path


def no_spark(*_: Any, **__: Any) -> Any:
    raise AssertionError("Spark was started")


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["run", *words], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


GOOD = ("in", "-q", "q.yaml", "--engine", "spark", "-o", "out")
WRONG = {
    "an option": (("--every", "second"), {}, "every is 'second'; it may be 'tick'"),
    "lateness": (("--lateness", "5 minutes"), {}, "so lateness is a number, not '5 minutes'"),
    "ahead": (("--ahead", "soon"), {}, "so ahead is a number, not 'soon'"),
    "idle": (("--idle", "-3"), {}, "idle is -3.0"),
    "a clock": (("--clock", "sundial"), {}, "clock is 'sundial'; it may be 'number' or 'timestamp'"),
    "hindsight": (("--hindsight",), {}, "hindsight"),
    "an engine": (
        ("--engine", "embeded"),
        {},
        "there is no engine 'embeded'; it may be auto, spark or embedded.\nDid you mean 'embedded'?",
    ),
    "an id": ((), {"id: sensor": "id: sensro"}, "'sensro'"),
    "a time": ((), {"time: t": "time: when"}, "'when'"),
    "an attribute": ((), {"gas: max": "gaz: max"}, "'gaz'"),
    "a lifetime": (("--clock", "number"), {"lifetime: 50": "lifetime: 5 minutes"}, "lifetime"),
}


@pytest.mark.parametrize("engine", ["spark", "embedded"])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_stated_before_an_engine_is_started_and_leaves_nothing(place, monkeypatch, engine, name):
    monkeypatch.setattr(watch, "on_spark", no_spark)
    options, edits, words = WRONG[name]
    changed = QUERY
    for old, new in edits.items():
        changed = changed.replace(old, new)
    (place / "q.yaml").write_text(changed)
    wanted = () if "--engine" in options else ("--engine", engine)
    assert words in run(*GOOD, *wanted, *options, code=2)
    assert sorted(each.name for each in place.iterdir()) == ["in", "q.yaml"]
    (place / "q.yaml").write_text(QUERY)
    assert "60 rows" in run(*GOOD, "--engine", "embedded")


def test_an_engine_that_does_not_start_leaves_nothing(place, monkeypatch):
    monkeypatch.setattr(watch, "on_spark", no_spark)
    assert "Spark was started" in run(*GOOD[:-1], "new/out", code=2)
    assert not (place / "new").exists()
    (place / "out").mkdir()
    run(*GOOD, code=2)
    assert not list((place / "out").iterdir())


def test_a_repository_that_does_not_fit_leaves_nothing(place, monkeypatch):
    monkeypatch.setattr(watch, "on_spark", no_spark)
    other = fl.Query(attributes={"heat": "max", "damp": "max"}, id="sensor", time="t", lifetime=50)
    fl.Repository.fit(HISTORY, other).save("repo")
    assert "gas" in run(*GOOD, "-r", "repo", code=2)
    assert not (place / "out").exists()


@pytest.mark.parametrize("output", ["in", "in/out", ".", "./in/../in"])
def test_an_output_in_the_stream_or_around_it_is_refused(place, monkeypatch, output):
    monkeypatch.setattr(watch, "on_spark", no_spark)
    before = sorted(place.rglob("*"))
    printed = run(*GOOD[:-1], output, code=2)
    assert "Choose a folder" in printed
    assert "beside it" in printed
    assert sorted(place.rglob("*")) == before


def test_files_and_patterns_are_apart_from_an_output_that_they_do_not_name(place):
    must_be_apart("in/a.csv", "in/out")
    must_be_apart("in/*.csv", "in/out")
    must_be_apart("in", "input")
    for source, output in (
        ("in/*", "in/out"),
        ("in/a.csv", "in/a.csv"),
        ("in/*.csv", "in/all.csv"),
        ("in/a.csv", "in"),
    ):
        with pytest.raises(FoglineError, match="Choose a folder"):
            must_be_apart(source, output)


def test_a_history_is_not_fitted_into_itself(place):
    for output in ("in", "in/repo"):
        result = CliRunner().invoke(app, ["fit", "in", "-q", "q.yaml", "-o", output], env={"COLUMNS": "160"})
        assert result.exit_code == 2
        assert "Choose a folder" in result.output
    assert [each.name for each in (place / "in").iterdir()] == ["a.csv"]


def test_an_output_that_cannot_be_written_is_stated_first(place, monkeypatch):
    monkeypatch.setattr(watch, "on_spark", no_spark)
    (place / "file").write_text("")
    for output in ("file", "file/out"):
        assert "a file, where a folder is needed" in run(*GOOD[:-1], output, code=2)
    monkeypatch.setattr(os, "access", lambda path, how: not how & os.W_OK)  # the tests may run as root
    assert "this user may not write to" in run(*GOOD, code=2)
    assert not (place / "out").exists()


def test_a_run_that_never_began_a_batch_does_not_refuse_the_command_that_was_meant(place, monkeypatch):
    def plug(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedState, "begin", plug)
        run(*GOOD, "--engine", "embedded", "--every", "batch", code=130)
    assert Path("out/about.json").exists()
    monkeypatch.setattr(watch, "on_spark", no_spark)
    assert "Spark was started" in run(*GOOD, "--lateness", "2", code=2)  # another engine may begin there, too
    assert "60 rows" in run(*GOOD, "--engine", "embedded")
    assert "was begun with another every" in run(*GOOD, "--engine", "embedded", "--every", "batch", code=2)


def test_engines_refuse_the_checkpoints_of_each_other(place, monkeypatch):
    monkeypatch.setattr(watch, "on_spark", no_spark)
    run(*GOOD, "--engine", "embedded")
    printed = run(*GOOD, code=2)
    assert "begun by the engine embedded" in printed
    assert "Go on with `fogline run … --engine embedded`, or choose another output" in printed
    about = json.loads(Path("out/about.json").read_text())
    Path("out/about.json").write_text(sealed({**about, "engine": "spark"}))
    assert "Go on with `fogline run … --engine spark`, or choose another output" in run(
        *GOOD, "--engine", "embedded", code=2
    )


def test_the_second_of_two_runs_states_who_holds_the_output_and_a_dead_holder_holds_nothing(place, monkeypatch):
    monkeypatch.setattr(watch, "on_spark", no_spark)
    with holding("out", "spark"):
        known = json.loads(Path("out", LOCK).read_text())
        assert known["pid"] == os.getpid()
        for engine in ("embedded", "spark"):
            printed = run(*GOOD, "--engine", engine, code=2)
            assert (
                f"'out' is being written by process {os.getpid()} on {known['host']}, with the engine spark" in printed
            )
            assert f"since {known['since']}" in printed
            assert "choose another output" in printed
    assert not Path("out").exists()  # nothing was written
    Path("out").mkdir()
    Path("out", LOCK).write_text(json.dumps({**known, "pid": 1}))  # as a process has left it that was killed
    assert "60 rows" in run(*GOOD, "--engine", "embedded")
    with Path("out", LOCK).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        assert "is being written by another process" in run(*GOOD, "--engine", "embedded", code=2)
    assert json.loads(Path("out/about.json").read_text())["engine"] == "embedded"


@pytest.mark.parametrize("damaged", [b"{", b"[]", b"\xff", b"{}"])
def test_a_damaged_about_is_an_error_in_words(place, damaged):
    run(*GOOD, "--engine", "embedded")
    good = Path("out/about.json").read_bytes()
    Path("out/about.json").write_bytes(damaged)
    assert "about.json of the output is damaged" in run(*GOOD, "--engine", "embedded", code=2)
    shown = CliRunner().invoke(app, ["answer", "out"])
    assert shown.exit_code == 2
    assert "about.json of the output is damaged" in shown.output
    Path("out/about.json").write_bytes(good)
    assert "no new files" in run(*GOOD, "--engine", "embedded")


def test_options_of_spark_beside_the_embedded_engine_are_remarked_on(place):
    assert "--memory is for Spark, and without effect here" in run(*GOOD, "--engine", "embedded", "--memory", "2g")


def test_an_output_of_an_earlier_version_is_refused_by_name_where_its_states_of_groups_cannot_be_read(place):
    for name, by in (("one", ""), ("groups", "by: [site]\n")):
        (place / "q.yaml").write_text(QUERY + by)
        (place / "in" / "a.csv").write_text("sensor,site,t,heat,gas\na,n,1,2,3\n")
        words = "in", "-q", "q.yaml", "--engine", "embedded", "-o", name
        run(*words)
        about = json.loads((place / name / "about.json").read_text())
        for later in ("repositories", "sinks"):
            del about[later]
        (place / name / "about.json").write_text(sealed(about))
        shown = " ".join(run(*words, code=2 if by else 0).split())
        assert ("was begun by an earlier version of Fogline, whose states of groups" in shown) == bool(by)


@pytest.mark.parametrize(
    ("times", "lifetime", "sentence"),
    [
        ("2024-03-01T10:00:00+02:00", "30", "are timestamps, so lifetime is a duration such as '5 minutes', not 30.0"),
        ("01.03.2024 10:00", "30", "are timestamps, so lifetime is a duration such as '5 minutes', not 30.0"),
        ("17.5", "5 minutes", "are numbers, so lifetime is a number, not '5 minutes'"),
    ],
)
def test_a_lifetime_that_does_not_fit_the_times_of_files_is_named_as_in_python(place, times, lifetime, sentence):
    (place / "q.yaml").write_text(QUERY.replace("50", lifetime))
    (place / "in" / "a.csv").write_text(f"sensor,t,heat,gas\na,{times},1,2\n")
    for command in (
        ("run", *GOOD, "--engine", "embedded"),
        ("check", *GOOD[:3]),
        ("explain", "--replay", *GOOD[:3], "--id", "a"),
    ):
        result = CliRunner().invoke(app, list(command), env={"COLUMNS": "160"})
        assert result.exit_code == 2, result.output
        assert f"QueryError: the times in 't' {sentence}." in result.output
    assert not (place / "out").exists()


def test_times_that_show_no_clock_are_what_the_lifetime_takes_them_for(place):
    (place / "in" / "a.csv").write_text("sensor,t,heat,gas\na,soon,1,2\n")
    assert "'t' is …, which is not a number" in run(*GOOD, "--engine", "embedded", code=3)
