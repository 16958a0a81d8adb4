"""Do rows know what their sensors have read before, on Spark as in a monitor?"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.impute.scores import Sums, add, from_plain
from fogline.repository.repository import Repository
from fogline.spark.pipeline import plans_for, results, watch
from fogline.spark.session import ZONE
from tests.spark.crowd import write_files
from tests.spark.test_watch import journal_of, kind, run, stream_of
from tests.walks import QUERY, walks


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


def stream(**how) -> pa.Table:
    return walks(**{"steps": 40, "gaps": 0.2, "begin": 200, **how})


def of_a_monitor(table: pa.Table) -> pa.Table:
    return fl.Monitor(QUERY, learnt()).advance(int(np.max(table["t"].to_numpy())), table)


def lines(table: pa.Table) -> list[tuple]:
    found = [
        (row["time"], row["sensor"], row["t"], row["change"], round(row["probability"] or 0, 9))
        for row in table.to_pylist()
    ]
    return sorted(found)


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_table_is_answered_as_by_a_monitor(spark, partitions):
    table = stream()
    reported = watch(spark.createDataFrame(table).repartition(partitions), QUERY, learnt()).toArrow()
    assert lines(reported) == lines(of_a_monitor(table))


def test_a_stream_is_answered_as_by_a_monitor_also_when_it_is_stopped_and_goes_on(spark, tmp_path):
    table, reported = stream(), []
    frame = spark.createDataFrame(table)
    for k in range(2):
        write_files(table.slice(240 * k, 240), tmp_path / "in", 5, start=5 * k)  # four ticks each
        rows = stream_of(spark, tmp_path / "in", frame.schema).repartition(3)
        reported += run(journal_of(rows, QUERY, learnt()), tmp_path)
    assert lines(kind(reported, "changes")) == lines(of_a_monitor(table))
    assert kind(reported, "rejects").num_rows == 0
    assert pa.compute.sum(kind(reported, "health")["revised"]).as_py() > 0  # with hindsight, as it is the default


@pytest.mark.parametrize("remembers", [True, False])
def test_the_clock_is_that_of_the_rows_in_a_session_of_any_zone_and_through_its_summer_time(spark, tmp_path, remembers):
    begin = datetime(2024, 3, 30, 12, 30, tzinfo=UTC)  # in Berlin there is no 02:30 on the next day

    def stamped(table: pa.Table) -> pa.Table:
        times = [begin + timedelta(hours=each - 200) for each in table["t"].to_pylist()]
        return table.set_column(1, "t", pa.array(times, pa.timestamp("us", "UTC")))

    query = fl.Query(dict(QUERY.attributes), id="sensor", time="t", lifetime="12 hours")
    known = Repository.fit(stamped(walks()), query) if remembers else None
    table, before = stamped(stream(steps=15, gaps=0.2 * remembers)), spark.conf.get(ZONE)
    write_files(table, tmp_path / "in", 1)
    rows = stream_of(spark, tmp_path / "in", spark.createDataFrame(table).schema)
    try:
        spark.conf.set(ZONE, "Europe/Berlin")
        plans = plans_for(rows, query, known, idle="1 hour")
        assert plans.deals == remembers
        started = results(rows, plans).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "check"))
        started = started.outputMode("update").trigger(availableNow=True).start()
        started.awaitTermination()
    finally:
        spark.conf.set(ZONE, before)
    assert started.lastProgress["eventTime"]["watermark"] == "2024-03-31T02:30:00.000Z"


def test_imputed_values_are_those_of_a_monitor(spark):
    table = stream()
    reported = fl.spark.impute(spark.createDataFrame(table), QUERY, learnt()).toArrow()
    order = [(name, "ascending") for name in ("t", "sensor", "attribute", "value")]
    assert reported.sort_by(order).equals(
        fl.impute.distributions(table, QUERY, learnt()).cast(reported.schema).sort_by(order)
    )


def test_transitions_are_learnt_on_spark_as_in_memory(spark, tmp_path):
    made = fl.spark.fit(spark.createDataFrame(walks()).repartition(3), QUERY, folder=tmp_path / "repo")
    assert made.fingerprint == learnt().fingerprint
    assert fl.impute.distributions(stream(), QUERY, made).equals(fl.impute.distributions(stream(), QUERY, learnt()))


def halves(rows):
    """An impute function: heat is one of two things."""
    return {"heat": [[(-5.0, 1.0), (5.0, 1.0)]] * rows.num_rows}


def test_a_function_may_impute_on_spark_as_in_a_monitor(spark):
    table = stream(steps=10)
    repository = Repository.fit(walks(), QUERY, method="mean")
    reported = watch(spark.createDataFrame(table).repartition(3), QUERY, repository, imputer=halves).toArrow()
    assert lines(reported) == lines(fl.Monitor(QUERY, repository, imputer=halves).advance(209, table))


def test_last_is_remembered_on_spark(spark):
    table = stream(steps=20)
    last = Repository.fit(walks(), QUERY, method="last")
    reported = watch(spark.createDataFrame(table).repartition(3), QUERY, last).toArrow()
    assert lines(reported) == lines(fl.Monitor(QUERY, last).advance(219, table))


def test_on_spark_values_are_hidden_and_scored_too(spark, tmp_path, monkeypatch):
    table = walks(steps=100, begin=200, gaps=0.05)
    write_files(table, tmp_path / "in", 2)
    rows = stream_of(spark, tmp_path / "in", spark.createDataFrame(table).schema)
    health = kind(run(journal_of(rows, QUERY, learnt()), tmp_path), "health")
    found: Sums = {}
    for reported in health["scores"].drop_null().to_pylist():
        add(found, from_plain(json.loads(reported)))
    expected = {(each.attribute, each.rule, each.age): each.cells for each in alone(table).scores_by_age()}
    assert {key: each.cells for key, each in found.items()} == expected
    assert len({age for _, _, age in found}) > 1
    assert sum(expected.values()) > 4


def alone(table: pa.Table) -> fl.Monitor:
    monitor = fl.Monitor(QUERY, learnt())
    monitor.advance(299, table)
    return monitor


def test_a_run_shows_how_its_rules_do_and_is_learnt_anew(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text("attributes: {heat: max, damp: min, light: max}\nid: sensor\ntime: t\nlifetime: 12\n")
    pq.write_table(walks(), "history.parquet")
    Path("in").mkdir()
    pq.write_table(walks(steps=100, begin=200, gaps=0.05), "in/1.parquet")
    command("fit", "history.parquet", "-q", "q.yaml", "-o", "repo")
    assert "sensor's own past -> heat" in command("rules", "repo")
    command("run", "in", "-q", "q.yaml", "-r", "repo", "-o", "out", "--engine", "spark")
    shown = command("rules", "repo", "--live", "out")
    assert "otherwise" in shown
    assert "sensor's own past" in shown
    assert "central 80 %" in shown
    assert "0.25 to 1" in shown  # by age
    shown = command("refit", "repo", "in/1.parquet", "-q", "q.yaml", "--newest", "3000")  # in place
    assert "3,000 rows" in shown
    assert "Older versions: 1" in shown
    made = Repository.load("repo")
    assert made.sensors is not None
    assert made.sensors.times.max() == 299
    pq.write_table(walks(steps=1, begin=299).set_column(1, "t", pa.array([300] * 12)), "in/2.parquet")
    shown = command("run", "in", "-q", "q.yaml", "-r", "repo", "-o", "out", "--engine", "spark")
    assert "continues with the version it was begun with" in shown
    assert "12 rows" in shown
    assert "1 removed, 1 left" in command("prune", "repo")
    shown = command("run", "in", "-q", "q.yaml", "-r", "repo", "-o", "out", "--engine", "spark", code=2)
    assert "was begun with another repository" in shown


def command(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def test_with_sensors_too_a_function_may_impute_and_rejects_are_counted(spark):
    table = stream(steps=10)
    bad = pa.Table.from_pylist([{"sensor": None, "t": 205}, {"sensor": "s1", "t": None}], schema=table.schema)
    frame = spark.createDataFrame(pa.concat_tables([table, bad])).repartition(3)
    reported = [journal_of(frame, QUERY, learnt(), imputer=halves).toArrow()]
    expected = fl.Monitor(QUERY, learnt(), imputer=halves).advance(209, table)
    assert lines(kind(reported, "changes")) == lines(expected)
    assert sorted(kind(reported, "rejects")["reason"].to_pylist()) == [
        "the id 'sensor' is missing", "the time 't' is missing or not finite",
    ]  # fmt: skip
    assert pa.compute.sum(kind(reported, "health")["rows"]).as_py() == table.num_rows + 2
