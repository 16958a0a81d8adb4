"""Does Spark answer several queries over one stream as it would answer each?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.errors import FoglineError
from fogline.queries import Queries
from fogline.spark.errors import plainly
from fogline.spark.pipeline import rejects, watch
from tests.flow.embedding import Case, learnt, readings, reported, write_stream
from tests.flow.test_many_runs import PLAIN, SENSORS
from tests.spark.crowd import write_files
from tests.spark.test_watch import run, stream_of
from tests.walks import walks

HOW = {"hindsight": False}


def plain(changes: pa.Table, query: fl.Query) -> list[tuple]:
    """Changes in columns of a query's own, in an order of their own."""
    names = ["time", *query.by, query.id, "t", "change", "probability", "reason", *query.names]
    return sorted((tuple(row.values()) for row in changes.select(names).to_pylist()), key=repr)


def same_as_alone(found: pa.Table, asked, alone) -> None:
    assert found.schema.names[0] == "query"
    assert set(found["query"].to_pylist()) == set(asked)
    for name, query in asked.items():
        assert plain(found.filter(pc.equal(found["query"], name)), query) == plain(alone(query), query), name


def test_a_table_gives_each_query_its_changes(spark):
    table = readings(300, 5)
    frame = spark.createDataFrame(table).repartition(3)
    found = watch(frame, dict(PLAIN), ahead="off").toArrow()
    same_as_alone(found, PLAIN, lambda query: watch(frame, query, ahead="off").toArrow())


def test_a_stream_that_is_resumed_gives_each_query_its_changes(spark, tmp_path):
    table = walks(steps=16, gaps=0.25, begin=200)
    frame = spark.createDataFrame(table)
    found = []
    for k, part in enumerate((table.slice(0, 96), table.slice(96))):  # eight ticks each, two in a file
        write_files(part, tmp_path / "in", 4, start=4 * k)
        stream = stream_of(spark, tmp_path / "in", frame.schema, files=2)
        found += run(watch(stream, SENSORS, learnt(), buckets=3, **HOW), tmp_path)

    def alone(query: fl.Query) -> pa.Table:
        return fl.Monitor(query, learnt(), hindsight=False).advance(215, table)

    same_as_alone(pa.concat_tables(found), SENSORS, alone)
    write_files(table.slice(0, 12), tmp_path / "in", 1, start=8)
    stream = stream_of(spark, tmp_path / "in", frame.schema)
    other = watch(stream, {"whole": SENSORS["whole"]}, learnt(), buckets=3, **HOW)
    with pytest.raises(FoglineError, match=r"begun with another plan.*\n.*attributes of heat"), plainly():
        run(other, tmp_path)


def test_run_on_spark_writes_what_run_in_one_process_does(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_stream(Case(PLAIN["sites"], lambda: readings(200, 6), files=3), tmp_path / "in")
    (tmp_path / "sites.yaml").write_text("attributes: {a: max, b: min}\nid: id\ntime: t\nlifetime: 30\nby: [site]\n")
    (tmp_path / "few.yaml").write_text(
        "name: all\nattributes: {b: min, a: max}\nid: id\ntime: t\nlast: 9\nalpha: 0.2\n"
    )
    for engine in ("spark", "embedded"):
        words = ["--query", "sites.yaml", "--query", "few.yaml", "--output", engine, "--engine", engine]
        result = CliRunner().invoke(app, ["run", "in", *words, "--files-per-batch", "2"])
        assert result.exit_code == 0, result.output
        assert "  all: " in result.output
    assert reported(tmp_path / "spark") == reported(tmp_path / "embedded")
    assert reported(tmp_path / "spark", "rejects") == reported(tmp_path / "embedded", "rejects")


def test_queries_that_do_not_go_together_are_refused(spark):
    frame = spark.createDataFrame(readings(4, 7))
    with pytest.raises(FoglineError, match="agree on its id"):
        watch(frame, {"one": PLAIN["sites"], "two": fl.Query(attributes={"a": "max"}, id="site", time="t", last=3)})
    with pytest.raises(FoglineError, match=r"several queries are answered by their names: {'fire': query"):
        watch(frame, [PLAIN["sites"]])
    with pytest.raises(FoglineError, match="rejects looks at rows for one query"):
        rejects(frame, Queries(PLAIN))
