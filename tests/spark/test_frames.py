"""Does a user's own stream reach sinks exactly once, and go on from its checkpoint?"""

from __future__ import annotations

from contextlib import nullcontext
from time import sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import fogline as fl
from fogline.errors import FoglineError
from fogline.runs import spill
from fogline.spark import writing
from fogline.spark.errors import translated
from fogline.spark.partitions import PARTITIONS
from fogline.spark.session import FORMAT, PROVIDER
from tests.flow.embedding import CASES, reported, write_stream
from tests.flow.test_sinks import Keeping

CASE = CASES["rows that are appended, in groups"]
ALL = {"availableNow": True}


def stream(spark: Any, folder: Any, files: int = 2) -> Any:
    schema = "id string, site string, t long, a double, b double"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def waited(query: Any) -> None:
    """Until it has ended, or the error that it ended with, as a person reads it."""
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise translated(str(error)) from None


def run(spark: Any, folder: Any, *sinks: Any, files: int = 1) -> None:
    df = stream(spark, folder / "in", files).repartition(3)
    waited(fl.spark.run(df, CASE.query, sinks=sinks, checkpoint=folder / "run", trigger=ALL))


def test_a_stream_reaches_its_sinks_once_and_the_same_again_after_a_failure(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "PIECE", 2000)
    monkeypatch.setattr(writing, "COLLECTED", 6000)  # workers write pieces, which every sink reads
    write_stream(CASE, tmp_path / "in")
    first, failing = Keeping(), Keeping(fails=2, after=True)
    sinks = first, failing, str(tmp_path / "out")
    with pytest.raises(FoglineError, match=r"^Keeping could not take batch 2: KeyError: 'gone'$"):
        run(spark, tmp_path, *sinks)
    assert failing.came == [0, 1, 2]
    assert first.pieces > 0
    run(spark, tmp_path, *sinks)
    assert first.came == failing.came == [0, 1, 2, 2, 3, 4]
    assert first.run is not None
    assert first.run.last == 1
    monitor, true = fl.Monitor(CASE.query), []
    for k in range(CASE.files):
        rows = pq.read_table(tmp_path / "in" / f"{k:03}.parquet")
        true += monitor.advance(int(rows["t"][-1].as_py()), rows).to_pylist()
    names = ["site", "id", "t", "change"]
    assert sorted(_named(first.rows("changes"), names)) == sorted(_named(failing.rows("changes"), names))
    written = reported(tmp_path / "out")
    assert written == sorted((tuple(row.values()) for row in first.rows("changes")), key=repr)
    last = {tuple(row[name] for name in names[:3]): row["change"] for row in first.rows("changes")}
    there = {key for key, change in last.items() if change != "leave"}
    expired = {key for key in there if key[2] <= int(rows["t"][-1].as_py()) - 30}
    assert there - expired == {tuple(row[name] for name in names[:3]) for row in monitor.answer().to_pylist()}
    assert not (tmp_path / "run" / ".pieces").exists()


def _named(rows: list[dict[str, Any]], names: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_a_run_brings_rocksdb_and_format_2_along_and_a_checkpoint_keeps_the_format_it_was_begun_with(spark, tmp_path):
    own = spark.newSession()
    own.conf.set(PARTITIONS, "2")
    own.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    write_stream(CASE, tmp_path / "in")
    answers = []
    for begun, formats in ("v2", [None, "1"]), ("v1", ["1", None]):
        sink, folder = Keeping(fails=2), tmp_path / begun
        for version in formats:
            own.conf.unset(FORMAT) if version is None else own.conf.set(FORMAT, version)
            df = stream(own, tmp_path / "in", 1)
            query = fl.spark.run(df, CASE.query, sinks=[sink], checkpoint=folder, trigger=ALL)
            with pytest.raises(FoglineError, match="batch 2") if version == formats[0] else nullcontext():
                waited(query)
        commits = folder / "checkpoint" / "commits"
        assert {(commits / str(number)).read_text()[:2] for number in range(CASE.files)} == {begun}
        answers.append(sink.rows("changes"))
    assert own.conf.get(PROVIDER).endswith("HDFSBackedStateStoreProvider")
    assert len(answers[0]) > 0
    assert sorted(map(repr, answers[0])) == sorted(map(repr, answers[1]))


def test_a_checkpoint_goes_on_with_what_it_was_begun_with(spark, tmp_path):
    write_stream(CASE, tmp_path / "in")
    run(spark, tmp_path, str(tmp_path / "out"), files=9)
    df = stream(spark, tmp_path / "in")
    with pytest.raises(FoglineError, match="was begun with another list of sinks"):
        fl.spark.run(df, CASE.query, sinks=[Keeping()], checkpoint=tmp_path / "run", trigger=ALL)
    other = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=30, by=["site"])
    with pytest.raises(FoglineError, match="was begun with another query"):
        fl.spark.run(df, other, sinks=[str(tmp_path / "out")], checkpoint=tmp_path / "run", trigger=ALL)
    assert (tmp_path / "out" / "changes").exists()


def test_what_is_no_stream_or_no_sink_is_refused(spark, tmp_path):
    table = spark.createDataFrame(pa.table({"id": ["a"], "site": ["n"], "t": [1], "a": [1.0], "b": [1.0]}))
    with pytest.raises(FoglineError, match="run takes a stream"):
        fl.spark.run(table, CASE.query, sinks=[Keeping()], checkpoint=tmp_path / "run")
    (tmp_path / "in").mkdir()
    df = stream(spark, tmp_path / "in")
    with pytest.raises(FoglineError, match=r"a sink is an object with put\(number, changes, rejects, health\), not 3"):
        fl.spark.run(df, CASE.query, sinks=[3], checkpoint=tmp_path / "run")
    with pytest.raises(FoglineError, match="there is no sink 'mysql'"):
        fl.spark.run(df, CASE.query, sinks=["mysql://host/db"], checkpoint=tmp_path / "run")
    with pytest.raises(FoglineError, match="at least one sink"):
        fl.spark.run(df, CASE.query, sinks=[], checkpoint=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_query_that_was_stopped_goes_on_at_once_and_one_that_runs_is_left_alone(spark, tmp_path):
    class Slow(Keeping):
        def close(self) -> None:
            sleep(0.5)  # the folder is held until its sinks are closed
            super().close()

    write_stream(CASE, tmp_path / "in")
    sink, df = Slow(), stream(spark, tmp_path / "in", 9)
    first = fl.spark.run(df, CASE.query, sinks=[sink], checkpoint=tmp_path / "run")
    with pytest.raises(FoglineError, match=r"is being written by process .* choose another output"):
        fl.spark.run(df, CASE.query, sinks=[Keeping()], checkpoint=tmp_path / "run")
    first.processAllAvailable()
    first.stop()
    run(spark, tmp_path, sink)
    assert sink.closed >= 1
    assert sink.came == [0]
