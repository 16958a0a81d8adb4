"""Does a run choose where it works by what there is, state it, and stay there?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fogline.cli import app, engine
from fogline.cli import run as watch
from fogline.saved import sealed

QUERY = "attributes: {heat: max, gas: max}\nid: sensor\ntime: t\nlifetime: 50\n"
ROWS = "sensor,t,heat,gas\n" + "".join(f"s{k % 7},{k},{k * 7 % 11},{k * 5 % 13}\n" for k in range(60))
RUN = ("in", "-q", "q.yaml", "-o", "out")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a query and a stream, where no Spark starts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(ROWS)

    def no_spark(*_: Any, **__: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(watch, "on_spark", no_spark)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["run", *words], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def about() -> dict[str, Any]:
    return dict(json.loads(Path("out/about.json").read_text()))


def test_small_files_of_this_machine_are_run_in_this_process_and_a_line_states_it(place):
    printed = run(*RUN)
    assert printed.startswith("Runs in this process (1 KB of files).\n")
    assert "60 rows" in printed
    assert about()["engine"] == "embedded"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--master", "local[1]"), "--master is given"),
        (("--memory", "1g", "--conf", "spark.x=1"), "--memory and --packages, --jars or --conf are given"),
        (("-o", "hdfs://nowhere.invalid/out"), "'hdfs://nowhere.invalid/out' is not on this machine"),
    ],
)
def test_what_only_spark_can_do_is_done_by_spark_and_a_line_states_why(place, more, why):
    printed = run(*RUN, *more, code=2)
    assert f"Runs on Spark: {why}.\n" in printed
    assert "Spark was started" in printed


def test_streams_elsewhere_and_topics_are_read_by_spark(place):
    assert "Runs on Spark: 'hdfs://nowhere.invalid/in' is not on this machine.\n" in run(
        "hdfs://nowhere.invalid/in", *RUN[1:], code=2
    )
    assert "Runs on Spark: a topic is read.\n" in run("kafka://host:9092/topic", *RUN[1:], code=2)


def test_more_files_than_a_process_takes_are_read_by_spark(place, monkeypatch):
    monkeypatch.setattr(engine, "LIMIT", 100)
    assert "Runs on Spark: 1 KB of files, more than 1 KB" in run(*RUN, code=2)


def test_a_run_goes_on_where_its_output_was_begun_also_with_more_files(place, monkeypatch):
    run(*RUN)
    (place / "in" / "b.csv").write_text(ROWS.replace("\ns", "\nr"))
    monkeypatch.setattr(engine, "LIMIT", 100)
    printed = run(*RUN)
    assert printed.startswith("Runs in this process: 'out' was begun with --engine embedded.\n")
    assert "60 rows" in printed


def test_an_output_that_spark_has_begun_goes_on_there_and_no_other_engine_may(place):
    run(*RUN)
    Path("out/about.json").write_text(sealed({**about(), "engine": "spark"}))
    assert "Runs on Spark: 'out' was begun with --engine spark.\n" in run(*RUN, code=2)
    assert "Go on with `fogline run … --engine spark`, or choose another output" in run(
        *RUN, "--engine", "embedded", code=2
    )


def test_an_engine_that_is_named_needs_no_reason(place):
    printed = run(*RUN, "--engine", "embedded")
    assert "Runs in this process" not in printed
    assert "Spark was started" in run(*RUN[:-1], "two", "--engine", "spark", code=2)
