"""Tests of tables and streams, through a session of the Connect server that FOGLINE_CONNECT names.

They are those of tests/spark, with another session, and a few of what a server cannot do. Run by `test_connect.py` in a
process of its own, since a process has sessions with a JVM or sessions of a server, not both.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.runs.config import RunConfig
from fogline.spark.running import Run
from fogline.spark.session import PROVIDER, ROCKSDB, SparkAdvice, session
from tests.spark import test_watch
from tests.spark.test_copies import test_a_copy_that_the_state_refuses_drops_no_other_row as test_copies

QUERY = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=5)
ADDRESS = os.environ["FOGLINE_CONNECT"]
__all__ = ["test_copies"]

globals().update({name: each for name, each in vars(test_watch).items() if name.startswith("test_")})


@pytest.fixture(scope="session")
def spark():
    """A session of the server, in place of one with a JVM."""
    spark = session(ADDRESS, name="tests")
    yield spark
    spark.stop()


def test_a_session_of_a_server_has_its_settings_and_names_those_it_cannot_have(spark):
    assert (spark.conf.get(PROVIDER), spark.conf.get("spark.sql.session.timeZone")) == (ROCKSDB, "UTC")
    with pytest.warns(SparkAdvice) as found:
        session(ADDRESS, memory="2g", settings={"spark.executor.cores": 3, "spark.sql.shuffle.partitions": 3})
    texts = sorted(str(each.message) for each in found)
    assert texts == [
        f"memory='2g' is for a JVM of this process; that of {ADDRESS!r} has what it was started with.",
        "spark.executor.cores is not set on the server, and stays so: set it where that is started.",
    ]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"


def test_a_stream_without_rocksdb_on_the_server_is_refused_at_once(spark, tmp_path):
    stream = spark.readStream.schema("id string, t long, a double, b double").parquet(str(tmp_path))
    try:
        spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
        with pytest.raises(FoglineError, match=r"streams in HDFSBackedStateStoreProvider, and Fogline needs RocksDB\."):
            fl.spark.watch(stream, QUERY)
    finally:
        spark.conf.set(PROVIDER, ROCKSDB)
    assert fl.spark.watch(stream, QUERY).isStreaming


def test_a_repository_is_fitted_and_gaps_are_imputed(spark, tmp_path):
    past = pa.table({"a": [k / 10 for k in range(60)], "b": [k / 5 for k in range(60)]})
    rules = ["b(0.4) -> a(0.2)"]
    fitted = fl.spark.fit(spark.createDataFrame(past), QUERY, rules=rules, folder=tmp_path / "repo")
    assert fitted.fingerprint == fl.Repository.fit(past, QUERY, rules=rules).fingerprint
    frame = spark.sql("SELECT 1 AS t, 'x' AS id, cast(null AS double) AS a, 2.0D AS b")
    values = fl.spark.impute(frame, QUERY, fitted).toArrow()["value"].to_pylist()
    assert sorted(round(value, 1) for value in values) == [0.8, 0.9, 1.0, 1.1, 1.2]


def test_what_needs_the_jvm_is_refused_with_the_reason_and_the_way_out(spark, tmp_path):
    with pytest.raises(
        FoglineError, match="catalogue of the session's JVM, which cannot be reached through Spark Conn"
    ):
        fl.spark.register(spark, QUERY)
    config = RunConfig(str(tmp_path), str(tmp_path / "out"), QUERY)
    with pytest.raises(
        FoglineError, match=r"into sinks from the driver, which cannot .* Connect; run it with the master"
    ):
        Run(spark, config)
    assert not Path(config.output).exists()
