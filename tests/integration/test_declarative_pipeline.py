"""Does the example of a declarative pipeline run with what PySpark's package holds, and answer as a Monitor does?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pyspark
import pytest

import fogline as fl
from tests.integration.components.connect import ROOTS

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative_pipeline"
COMMAND = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
QUERY = fl.Query(attributes={"heat": "max", "damp": "max"}, id="sensor", time="t", lifetime=12, by=["site"], alpha=0.2)
RULES = ["heat(2) -> damp(4)", "damp(2) -> heat(4)"]
CHANGE = ["site", "sensor", "t", "time", "change", "probability"]
LIMIT = 600.0  # seconds of one run


@pytest.fixture
def pipeline(tmp_path: Path, java_or_skip: Path) -> Path:
    """A copy of the example, whose checkpoints lie beside it."""
    if not COMMAND.exists() or not list((COMMAND.parents[1] / "jars").glob("spark-pipelines_*.jar")):
        pytest.skip("this PySpark holds no spark-pipelines: pip install 'pyspark>=4.2'")
    pytest.importorskip("grpc_status", reason="pip install 'fogline[connect]'")
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "spark-warehouse"))
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/fogline-pipeline", f"file://{tmp_path}/storage"))
    for k in range(3):
        os.utime(folder / "readings" / f"{k:03}.csv", (1e9 + k, 1e9 + k))
    return folder


def run(pipeline: Path, java: Path) -> None:
    """One update of the pipeline, as its README has it."""
    paths = os.pathsep.join([*map(str, ROOTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    more = {
        "PYTHONPATH": paths,
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment = {name: text for name, text in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"} | more
    command = [str(COMMAND), "run", "--remote", "local[2]", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(command, cwd=pipeline, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert "Run is COMPLETED." in done.stdout + done.stderr, (done.stdout + done.stderr)[-5000:]
    assert done.returncode == 0


def rows_of(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    rounded = ([round(each, 9) if isinstance(each, float) else each for each in row.values()]
               for row in table.select(names).to_pylist())  # fmt: skip
    return sorted(map(tuple, rounded), key=repr)


def read(pipeline: Path, table: str) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, (pipeline / "spark-warehouse" / table).glob("*.parquet")))


@pytest.mark.whole
def test_the_tables_of_the_example_are_what_a_monitor_answers(pipeline, java_or_skip):
    run(pipeline, java_or_skip)
    check(pipeline)


def check(pipeline: Path) -> None:
    """Its changes are those of a Monitor, and so is its answer."""
    monitor, true = fl.Monitor(QUERY, fl.Repository.fit(csv.read_csv(EXAMPLE / "history.csv"), QUERY, rules=RULES)), []
    for path in sorted((pipeline / "readings").glob("*.csv")):
        come = csv.read_csv(path)
        true += rows_of(monitor.advance(int(come["t"][-1].as_py()), come), CHANGE)
    assert len(true) > 10
    assert rows_of(read(pipeline, "changes"), CHANGE) == sorted(true, key=repr)
    inside = ["site", "sensor", "t"]
    assert rows_of(read(pipeline, "answer"), inside) == rows_of(monitor.answer(), inside)
