"""Are tables of a lake the same history as files?"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.errors import FoglineError
from fogline.files.reading import delta_table

pytest.importorskip("deltalake")
QUERY = "attributes: {x: max, y: max}\nid: s\ntime: t\nlifetime: 100\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text(QUERY)


def history(rows: int = 300) -> pa.Table:
    x = [(i * 37 % 101) / 10 for i in range(rows)]
    return pa.table({"s": [f"s{i % 5}" for i in range(rows)], "t": range(rows), "x": x, "y": [2 * each for each in x]})


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_a_delta_table_gives_the_repository_that_its_rows_as_files_give() -> None:
    from deltalake import write_deltalake

    write_deltalake("lake", history().slice(0, 200))
    write_deltalake("lake", history().slice(200), mode="append")
    pq.write_table(history(), "history.parquet")
    assert "Runs in this process (a Delta table)" in run("fit", "delta:lake", "-q", "q.yaml", "-o", "one")
    run("fit", "history.parquet", "-q", "q.yaml", "-o", "other")
    assert fl.Repository.load("one").fingerprint == fl.Repository.load("other").fingerprint


def test_decimals_are_numbers() -> None:
    from deltalake import write_deltalake

    kind = pa.decimal128(6, 2)
    write_deltalake("lake", pa.table({"x": pa.array([Decimal("1.50"), None], kind), "s": ["a", "b"]}))
    assert delta_table("delta:lake").to_pydict() == {"x": [1.5, None], "s": ["a", "b"]}


def test_what_is_no_table_is_refused_in_words() -> None:
    with pytest.raises(FoglineError, match="'nowhere' is no Delta table: it has no folder _delta_log"):
        delta_table("delta:nowhere")
    assert "is no Delta table" in run("fit", "delta:nowhere", "-q", "q.yaml", "-o", "one", code=2)
    assert not Path("one").exists()


def test_a_database_is_asked_with_sql_and_without_a_password_on_the_command_line() -> None:
    url = "jdbc:postgresql://host/db?user=me"
    assert "needs --sql, what to ask it" in run("fit", url, "-q", "q.yaml", "-o", "one", code=2)
    assert "is none; write jdbc:postgresql://host/database" in run(
        "fit", "history.parquet", "--sql", "select 1", "-q", "q.yaml", "-o", "one", code=2
    )
    refused = run("fit", f"{url}&password=hush", "--sql", "select 1", "-q", "q.yaml", "-o", "one", code=2)
    assert "holds a password, and others can see a command line" in refused
    assert "hush" not in refused


def test_a_table_is_no_stream() -> None:
    assert "a Delta table is no stream" in run("run", "delta:lake", "-q", "q.yaml", "-o", "out", code=2)
