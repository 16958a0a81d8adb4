"""The commands as a person types them."""

from __future__ import annotations

import re
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
    assert written.schema.names == ["sensor", "ts", "attribute", "value", "probability", "rule"]
    rows = pq.read_table("stream.parquet")
    expected = fl.impute.distributions(rows, fl.Query.load("q.yaml"), fl.Repository.load("mine.repo"))
    keys = [("ts", "ascending"), ("value", "ascending")]
    assert written.sort_by(keys).to_pylist() == expected.sort_by(keys).to_pylist()
    assert set(written["ts"].to_pylist()) == {0, 4, 8, 12, 16}


def test_in_this_process_and_on_spark_commands_do_the_same(place, spark):
    here = run("fit", "history.parquet", "-q", "q.yaml", "-o", "here.repo")
    assert "Runs in this process" in here
    on_spark = run("fit", "history.parquet", "-q", "q.yaml", "-o", "spark.repo", "--master", "local[2]")
    assert "on Spark: --master is given" in on_spark
    assert fl.Repository.load("here.repo").fingerprint == fl.Repository.load("spark.repo").fingerprint
    for repository in ("here.repo", "spark.repo"):
        more = () if repository == "here.repo" else ("--master", "local[2]")
        assert "400 rows" in run("refit", repository, "stream.parquet", "-q", "q.yaml", *more)
    assert fl.Repository.load("here.repo").fingerprint == fl.Repository.load("spark.repo").fingerprint
    asked = ("stream.parquet", "-q", "q.yaml", "-r", "here.repo")
    counts = [run("check", *asked, *more).split("20 rows", 1)[1] for more in ((), ("--master", "local[2]"))]
    counts[0], _, memory = counts[0].partition("Estimated memory: ")  # which is estimated in process alone
    assert memory
    assert counts[0] == counts[1]
    assert "gas: 5 missing (25.0%)" in counts[0]
    written = []
    for name, more in (("here.parquet", ()), ("spark.parquet", ("--master", "local[2]"))):
        run("impute", *asked, "-o", name, *more)
        written.append(pq.read_table(name).sort_by([("ts", "ascending"), ("value", "ascending")]).to_pylist())
    assert written[0] == written[1]
    assert "is there already" in run("impute", *asked, "-o", "here.parquet", code=2)
    for name in ("here.parquet", "out.csv", "out.jsonl"):
        run("impute", *asked, "-o", name, "--overwrite")


def test_texts_in_a_history_are_counted_on_spark_too(place, spark):
    lines = [f"s{k % 3},{k},{k % 11},{'none seen' if k % 50 == 7 else k % 5}" for k in range(200)]
    (place / "h.csv").write_text("sensor,ts,temperature,gas\n" + "\n".join(lines) + "\n")
    for more in ((), ("--master", "local[2]")):
        printed = run("fit", "h.csv", "-q", "q.yaml", "-o", f"repo{len(more)}", *more)
        assert (
            "4 of 200 cells of 'gas' in the history are texts, such as 'none seen': they count as missing." in printed
        )
    assert fl.Repository.load("repo0").fingerprint == fl.Repository.load("repo2").fingerprint
    (place / "none.csv").write_text("sensor,ts,temperature,gas\ns1,1,2.0,\ns1,2,3.0,\n")
    printed = run("fit", "none.csv", "-q", "q.yaml", "-o", "none.repo", code=2)
    assert "none of the 2 rows of the history has a number in 'gas': all are missing." in printed
    assert not (place / "none.repo").exists()


def test_a_run_without_new_files_states_how_many_are_in_the_answer(place):
    words = ("run", "stream.parquet", "-q", "q.yaml", "-o", "out", "--engine", "embedded")
    first = run(*words)
    (members,) = re.findall(r"(\d+) in the answer, \d+ s: out", first)
    assert int(members) > 0
    assert re.search(r"^batch 0: 20 rows, ", first, re.MULTILINE)
    assert f"no new files, {members} in the answer" in run(*words)


def test_what_is_wrong_is_reported_before_spark_starts(place):
    fl.Repository.fit(readings(50, 3), fl.Query.load("q.yaml")).save("mine.repo")
    (place / "bad.yaml").write_text("- temperature(0.x) -> gas(1)\n")
    (place / "other.yaml").write_text(QUERY.replace("gas", "oxygen"))
    fitting = ("fit", "history.parquet", "-q", "q.yaml", "-o", "new.repo")
    assert "Did you mean 'history.parquet'?" in run("fit", "histry.parquet", *fitting[2:], code=2)
    assert "there is no query file 'none.yaml'" in run(*fitting[:3], "none.yaml", *fitting[4:], code=2)
    assert "nor a duration:\n  temperature(0.x)" in run(*fitting, "--rules", "bad.yaml", code=2)
    assert "'held-out', 'paper'" in run(*fitting, "--method", "best", code=2)
    (place / "full").mkdir()
    (place / "full" / "notes.txt").write_text("mine")
    assert "holds no repository; choose another" in run(*fitting[:-1], "full", code=2)
    assert "no repository in 'new.repo'" in run("rules", "new.repo", code=2)
    imputing = ("impute", "stream.parquet", "-r", "mine.repo", "-o", "out.parquet", "-q")
    assert "fitted for another query: it imputes gas, temperature, not oxygen" in run(*imputing, "other.yaml", code=2)
    assert "is there already" in run(*imputing[:-2], "history.parquet", "-q", "q.yaml", code=2)


def test_every_command_explains_itself():
    for name in ("demo", "fit", "rules", "impute"):
        assert "Usage" in run(name, "--help")


def test_without_pyspark_a_command_states_what_to_install(place):
    """And what needs no Spark works."""
    code = (
        "import shlex, sys; sys.modules['pyspark'] = None; from fogline.cli import app\n"
        "for words in sys.argv[1:]:\n"
        "    if status := app(shlex.split(words), standalone_mode=False): sys.exit(status)"
    )
    fit = "fit history.parquet -q q.yaml -o new.repo"

    def done(*commands: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *commands]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    refused = done(f"{fit} --master 'local[1]'")
    assert refused.returncode == 2
    assert "pip install 'fogline[spark]'" in refused.stderr
    assert "Traceback" not in refused.stderr
    here = done(fit, "rules new.repo", "check stream.parquet -q q.yaml -r new.repo")
    assert here.returncode == 0, here.stderr
    assert "complete           15" in here.stdout
