"""Is a run that rejects rows for their gaps heard of at once, and one that rejects most of its rows by its status?

The embedded engine; Spark's in `tests/spark/test_files.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fogline.cli import app
from fogline.runs import embedded

QUERY = "attributes: {gas: max, heat: max}\nid: sensor\ntime: t\nlifetime: 100\nlimits: {heat: [5, 60]}\n"
RUN = ("run", "in", "-q", "q.yaml", "-o", "out", "--engine", "embedded")
WARNING = (
    "Rows with missing values are rejected, since there is no repository to fill them. "
    "Make one from past rows with `fogline fit`, then add --repository FOLDER (in Python repository=).\n"
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY)
    Path("in").mkdir()
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def csv(name: str, cells: Iterable[str]) -> None:
    rows = [f"s{name}{k},{k},{each}" for k, each in enumerate(cells)]
    Path("in", f"{name}.csv").write_text("\n".join(["sensor,t,gas,heat", *rows]) + "\n")


def test_rows_rejected_for_gaps_are_warned_of_once_before_their_batch_is_reported(place):
    csv("1", ["1,20", ",30", "2,40", ",50", "3,30"])
    csv("2", ["1,30", ",30", "5,40"])
    printed = run(*RUN, "--files-per-batch", "1")
    assert printed.count(WARNING) == printed.count("Rows with missing values") == 1
    assert printed.index(WARNING) < printed.index("batch 0:")
    assert "8 rows" in printed
    assert "3 rejected" in printed


def test_a_run_that_rejects_most_of_its_rows_ends_with_3_with_the_reason_and_the_way_out(place):
    csv("1", ["1,20", ",30", ",40", ",50", "3,133.4"])
    printed = run(*RUN, code=3)
    assert (
        "4 of 5 rows were rejected, 3 of them because: 'gas' is missing, and there is no repository to impute it from. "
        "Make one from past rows with `fogline fit`, then add --repository FOLDER (in Python repository=).\n"
        "The answer is that of the other rows. `fogline rejects` lists these. When the cause is mended, run again into "
        "another output: a run takes no row twice.\n"
    ) in printed
    assert '"s10"' in run("answer", "out", "--json")
    reasons = pq.read_table("out/rejects")["reason"].to_pylist()
    assert reasons[3] == "'heat' is outside its limits (5, 60), and there is no repository to impute it from"
    csv("2", ["1,20"])
    run(*RUN)  # what this start has taken is fine


def test_half_of_the_rows_may_be_rejected(place):
    csv("1", ["1,20", ",30", "2,40", ",50"])
    assert "were rejected" not in run(*RUN)


def test_the_reasons_of_rejects_that_lie_in_files_are_counted(place, monkeypatch):
    csv("1", ["1,20", ",30", ",40", ",50"])
    monkeypatch.setattr(embedded, "COLLECTED", 0)
    printed = run(*RUN, code=3)
    assert WARNING in printed
    assert "3 of 4 rows were rejected, 3 of them because: 'gas' is missing" in printed


def test_of_several_queries_the_one_that_rejects_most_rows_is_named(place):
    Path("gas.yaml").write_text(QUERY)
    Path("heat.yaml").write_text("attributes: {heat: max}\nid: sensor\ntime: t\nlifetime: 100\n")
    csv("1", ["1,20", ",30", ",40"])
    both = "run", "in", "-q", "gas.yaml", "-q", "heat.yaml", "-o", "out", "--engine", "embedded"
    printed = run(*both, code=3)
    assert printed.count(WARNING) == 1
    assert "gas: 2 of 3 rows were rejected" in printed
    assert "heat: 2" not in printed


def test_a_dry_run_ends_as_the_run_would(place):
    csv("1", ["1,20", ",30", ",40"])
    assert "2 of 3 rows would be rejected, 2 of them because: 'gas' is missing" in run(
        "check", "in", "-q", "q.yaml", code=3
    )
    csv("2", ["1,20", "2,30", "2,40"])
    assert "would be rejected" not in run("check", "in", "-q", "q.yaml")


def test_an_explanation_of_a_row_that_was_rejected_for_its_gap_states_so(place):
    csv("1", ["1,20", ",30"])
    printed = run("explain", "--replay", "in", "-q", "q.yaml", "--id", "s11")
    assert "'gas' is missing, and there is no repository to impute it from" in printed
    assert "Repository.fit" not in printed
