"""The commands as a person types them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app

QUERY = "attributes: {temperature: max, gas: max}\nid: sensor\ntime: ts\nlifetime: 100\n"


def readings(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    hot = rng.random(rows) * 30
    return pa.table(
        {
            "sensor": [f"s{k % 7}" for k in range(rows)],
            "ts": np.arange(rows),
            "temperature": hot,
            "gas": hot / 10 + rng.normal(0, 0.05, rows),
        }
    )


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a query, a history and a stream with gaps."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    pq.write_table(readings(400, 1), "history.parquet")
    stream = readings(20, 2).to_pylist()
    for row in stream[::4]:
        row["gas"] = None
    pq.write_table(pa.Table.from_pylist(stream), "stream.parquet")
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def test_from_history_to_distributions(place, spark):
    printed = run("fit", "history.parquet", "--query", "q.yaml", "--output", "mine.repo")
    assert "400 rows, 2 rules" in printed
    assert "fogline rules mine.repo" in printed
    shown = run("rules", "mine.repo", "--explain")
    assert "-> gas(" in shown
    assert "gain" in shown
    assert "sorted by temperature" in shown
    run("impute", "stream.parquet", "--repository", "mine.repo", "--query", "q.yaml", "--output", "out.parquet")
    written = pq.read_table("out.parquet")
    assert written.schema.names == ["id", "time", "attribute", "value", "probability", "rule"]
    rows = pq.read_table("stream.parquet")
    expected = fl.distributions(rows, fl.Query.load("q.yaml"), fl.Repository.load("mine.repo"))
    keys = [("time", "ascending"), ("value", "ascending")]
    assert written.sort_by(keys).to_pylist() == expected.sort_by(keys).to_pylist()
    assert set(written["time"].to_pylist()) == {0, 4, 8, 12, 16}


def test_what_is_wrong_is_reported_before_spark_starts(place):
    fl.Repository.fit(readings(50, 3), fl.Query.load("q.yaml")).save("mine.repo")
    (place / "bad.yaml").write_text("- temperature(0.x) -> gas(1)\n")
    (place / "other.yaml").write_text(QUERY.replace("gas", "oxygen"))
    fitting = ("fit", "history.parquet", "-q", "q.yaml", "-o", "new.repo")
    assert "Did you mean 'history.parquet'?" in run("fit", "histry.parquet", *fitting[2:], code=2)
    assert "there is no query file 'none.yaml'" in run(*fitting[:3], "none.yaml", *fitting[4:], code=2)
    assert "nor a duration:\n  temperature(0.x)" in run(*fitting, "--rules", "bad.yaml", code=2)
    assert "'held-out', 'paper'" in run(*fitting, "--method", "best", code=2)
    assert "holds no repository; choose another" in run(*fitting[:-1], ".", code=2)
    assert "no repository in 'new.repo'" in run("rules", "new.repo", code=2)
    imputing = ("impute", "stream.parquet", "-r", "mine.repo", "-o", "out.parquet", "-q")
    assert "fitted for another query: it imputes gas, temperature, not oxygen" in run(*imputing, "other.yaml", code=2)
    assert "is there already" in run(*imputing[:-2], "stream.parquet", "-q", "q.yaml", code=2)


def test_every_command_explains_itself():
    for name in ("demo", "fit", "rules", "impute"):
        assert "Usage" in run(name, "--help")


def test_without_pyspark_a_command_states_what_to_install(place):
    """And what needs no Spark works."""
    code = "import sys; sys.modules['pyspark'] = None; from fogline.cli import app; app()"
    words = ["fit", "history.parquet", "-q", "q.yaml", "-o", "new.repo"]
    python = [sys.executable, "-c", code]
    done = subprocess.run([*python, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'fogline[spark]'" in done.stderr
    assert "Traceback" not in done.stderr
    fl.Repository.fit(readings(50, 3), fl.Query.load("q.yaml")).save("mine.repo")
    done = subprocess.run(
        [sys.executable, "-c", code, "rules", "mine.repo"], capture_output=True, text=True, check=False
    )
    assert "50 rows of history" in done.stdout
