"""Do `fogline answer` and `fogline next` show fronts, a raised alpha, few rows and what to measure?"""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.queries import Queries
from fogline.runs.config import RunConfig
from tests.cli.test_start import imported
from tests.flow.embedding import CASES, config_of, run, write_stream

CASE = CASES["sensors, with hindsight"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The same run, with explanations and without."""
    root = tmp_path_factory.mktemp("outputs")
    write_stream(CASE, root / "in")
    run(config_of(CASE, root, "plain"))
    run(config_of(CASE, root, "explained", explain=True))
    return root


@pytest.fixture(scope="module")
def monitor():
    table = CASE.table()
    monitor = fl.Monitor(CASE.query, CASE.repository())
    monitor.advance(max(table["t"].to_pylist()), table)
    return monitor


def asked(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result


def rows(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in asked("answer", *words, "--json").stdout.splitlines()]


def names(some: Any, *columns: str) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in ("sensor", "t", *columns)) for row in some}


@pytest.mark.parametrize(
    "words", [{}, {"certainty": "certain"}, {"certainty": "possible"}, {"alpha": 0.8}, {"alpha": 0.9}]
)
def test_fronts_and_a_raised_alpha_are_those_of_a_monitor(outputs, monitor, words):
    options = [word for name, value in words.items() for word in (f"--{name}", str(value))]
    truth = monitor.answer(**words).to_pylist()
    assert names(rows(str(outputs / "explained"), *options), "certainty") == names(truth, "certainty")
    if words.get("certainty") != "possible":
        assert names(rows(str(outputs / "plain"), *options)) == names(truth)
    assert truth


def test_a_raised_alpha_with_possible_rows_shows_what_fell_below_it_as_possible(outputs, monitor):
    there = rows(str(outputs / "explained"), "--certainty", "possible", "--alpha", "0.9")
    assert names(there, "certainty") == names(monitor.answer(certainty="possible", alpha=0.9).to_pylist(), "certainty")
    assert any(0.5 < row["probability"] <= 0.9 and row["certainty"] == "possible" for row in there)


def test_alpha_can_be_raised_and_not_lowered_and_an_error_states_which_it_was(outputs):
    for given in ("0.3", "1", "nan"):
        text = " ".join(asked("answer", str(outputs / "plain"), "--alpha", given, code=2).output.split())
        assert "the run had 0.5: rows below that are not in the answer. Ask for that or more, below 1" in text
    text = " ".join(asked("answer", str(outputs / "plain"), "--certainty", "sure", code=2).output.split())
    assert "it is one of certain, likely, possible" in text


def test_possible_rows_need_explanations_and_the_end_of_the_run(outputs):
    text = " ".join(asked("answer", str(outputs / "plain"), "--certainty", "possible", code=2).output.split())
    assert "was made without --explain, so nothing is known of rows that are out. Run it again with --explain" in text
    words = ["--certainty", "possible", "--at", "220"]
    text = " ".join(asked("answer", str(outputs / "explained"), *words, code=2).output.split())
    assert "rows that are out are known at the end of the run alone; leave --at out" in text
    assert rows(str(outputs / "explained"), "--certainty", "certain", "--at", "220")


def test_few_rows_stand_for_all(outputs, monitor):
    there = rows(str(outputs / "explained"), "--top", "4")
    assert len(there) == 4
    assert sum(row["stands_for"] for row in there) == monitor.answer().num_rows
    every = names(monitor.answer().to_pylist())
    assert names(there) <= every
    assert names(rows(str(outputs / "explained"), "--top", "9999")) == every
    assert sum(row["stands_for"] for row in rows(str(outputs / "plain"), "--top", "4")) == len(every)
    assert rows(str(outputs / "plain"), "--top", "4", "--where", "heat > 9999") == []


def test_what_to_measure_next_is_a_table_with_a_sentence_or_json(outputs, monitor):
    truth = monitor.ask_next(20).to_pylist()
    assert truth
    there = [json.loads(line) for line in asked("next", str(outputs / "explained"), "--json").stdout.splitlines()]
    assert [(row["sensor"], row["attribute"]) for row in there] == [(row["sensor"], row["attribute"]) for row in truth][
        :10
    ]
    printed = asked("next", str(outputs / "explained"), "--top", "2").stdout
    assert len(printed.splitlines()) == 2 + min(2, len(truth))
    first = truth[0]
    assert f"Measure {first['attribute']} of {first['sensor']!r} (arrived {first['t']}) first: about" in printed
    text = " ".join(asked("next", str(outputs / "plain"), code=2).output.split())
    assert "the run was made without --explain, so it has no next/; run it again with --explain" in text
    text = " ".join(asked("next", str(outputs / "explained"), "--query", "x", code=2).output.split())
    assert "answers one query, which has no name; leave --query out" in text
    assert "is not an output folder of `fogline run`" in asked("next", str(outputs), code=2).output


def test_where_nothing_is_missing_there_is_nothing_to_measure(tmp_path):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, explain=True))
    assert asked("next", str(tmp_path / "out")).stdout == "no missing value would change the answer.\n"
    assert asked("next", str(tmp_path / "out"), "--json").stdout == ""
    assert {row["certainty"] for row in rows(str(tmp_path / "out"))} == {"certain"}


def test_of_several_queries_one_can_be_asked(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    both = Queries({"one": case.query, "other": fl.Query(**case.query.to_dict() | {"alpha": 0.7})})
    run(RunConfig(str(tmp_path / "in"), str(tmp_path / "out"), both, engine="embedded", explain=True))
    near = pq.read_table(tmp_path / "out" / "near")
    assert near.schema.names[:3] == ["query", "site", "time"]
    assert {row["query"] for row in rows(str(tmp_path / "out"), "--certainty", "possible")} == {"one", "other"}
    assert asked("next", str(tmp_path / "out"), "--query", "one").exit_code == 0
    assert "has no query 'three'" in asked("next", str(tmp_path / "out"), "--query", "three", code=2).output


def test_neither_a_compiler_nor_spark_is_needed(outputs):
    words = "answer", str(outputs / "explained"), "--certainty", "possible", "--alpha", "0.6", "--top", "3"
    assert imported(*words, names=("numba", "pyspark"))[1] == []
    assert imported("next", str(outputs / "explained"), names=("numba", "pyspark"))[1] == []
