"""Do rows know what their sensors said before, on Spark as in a monitor?"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fogline as fl
from fogline.cli import app
from fogline.flow.plan import make_plan
from fogline.impute.chain import CONTEXT
from fogline.impute.scoring import Sums, add, chosen, from_plain
from fogline.repository.repository import Repository
from fogline.repository.sensors.state import SensorState
from fogline.snapshot import unpack_memory
from fogline.spark.pipeline import journal, watch
from fogline.spark.remember import BUCKETS, Recaller, bucket_of, name_of
from tests.spark.crowd import write_files
from tests.spark.test_watch import kind, run, stream_of
from tests.walks import NAMES, QUERY, walks


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


def stream(**how) -> pa.Table:
    return walks(**{"steps": 40, "gaps": 0.2, "begin": 200, **how})


def told_by_a_monitor(table: pa.Table) -> pa.Table:
    return fl.Monitor(QUERY, learnt()).advance(int(np.max(table["t"].to_numpy())), table)


def lines(table: pa.Table) -> list[tuple]:
    found = [
        (row["time"], row["id"], row["arrived"], row["change"], round(row["probability"] or 0, 9))
        for row in table.to_pylist()
    ]
    return sorted(found)


def test_every_sensor_has_one_bucket_and_all_buckets_are_used():
    assert {bucket_of((f"s{k}",)) for k in range(100)} == set(range(BUCKETS))
    assert name_of('["a", 5]') == name_of('["a", 5.0]') == name_of('["a", "5"]') == ("a", "5")
    assert name_of("[null, 7]") == (None, "7")


def test_contexts_do_not_depend_on_the_cut_into_batches_and_survive_as_bytes():
    plan = make_plan(QUERY, stream().schema, opened=learnt)
    sensors = learnt().sensors
    assert sensors is not None
    mine = [name for name in sensors.known_sensors if bucket_of(name) == 3]
    table = stream().filter(pa.compute.is_in(stream()["sensor"], pa.array([name[0] for name in mine])))
    recaller, state, parts = Recaller(plan), None, []
    for begin in range(0, table.num_rows, 7):
        told, state = recaller.take(3, state, [table.slice(begin, 7)])
        parts.append(told)
    whole, final = recaller.take(3, None, [table.slice(0, 30), table.slice(30)])
    told = pa.concat_tables(parts)
    assert told[CONTEXT].is_valid().to_pylist() == whole[CONTEXT].is_valid().to_pylist()
    np.testing.assert_array_equal(contexts(told), contexts(whole))
    assert final == state
    values = np.stack([table[name].to_numpy() for name in NAMES], axis=1)
    gaps = np.isnan(values).any(axis=1)
    gaps[chosen(table["t"].to_numpy().astype(float), values)[0]] = True  # those will be asked, too
    memory = sensors.state()
    names = [(name,) for name in table["sensor"].to_pylist()]
    expected = memory.update(names, table["t"].to_numpy().astype(float), values, gaps)
    assert whole[CONTEXT].is_valid().to_pylist() == gaps.tolist()
    np.testing.assert_array_equal(contexts(whole), expected)


def contexts(table: pa.Table) -> np.ndarray:
    return np.array(table[CONTEXT].drop_null().to_pylist())


def test_rows_without_a_name_or_a_time_pass_and_are_not_remembered():
    plan = make_plan(QUERY, stream().schema, opened=learnt)
    rows = [{"sensor": None, "t": 5, "heat": 1.0}, {"sensor": "s1", "t": None, "heat": 1.0}]
    bad = pa.Table.from_pylist(rows, schema=stream().schema)
    told, state = Recaller(plan).take(0, None, [bad])
    assert told[CONTEXT].null_count == 2
    kept, sensors = unpack_memory(state, SensorState(3)), learnt().sensors
    assert sensors is not None
    mine = [k for k, name in enumerate(sensors.known_sensors) if bucket_of(name) == 0]
    assert list(kept.number) == [sensors.known_sensors[k] for k in mine]
    np.testing.assert_array_equal(kept.times, sensors.times[mine])


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_table_is_told_as_by_a_monitor(spark, partitions):
    table = stream()
    told = watch(spark.createDataFrame(table).repartition(partitions), QUERY, learnt()).toArrow()
    assert lines(told) == lines(told_by_a_monitor(table))


def test_a_stream_is_told_as_by_a_monitor_also_when_it_is_stopped_and_goes_on(spark, tmp_path):
    table, told = stream(), []
    frame = spark.createDataFrame(table)
    for k in range(2):
        write_files(table.slice(240 * k, 240), tmp_path / "in", 5, start=5 * k)  # four ticks each
        rows = stream_of(spark, tmp_path / "in", frame.schema).repartition(3)
        told += run(journal(rows, QUERY, learnt()), tmp_path)
    assert lines(kind(told, "change")) == lines(told_by_a_monitor(table))
    assert kind(told, "reject").num_rows == 0


def test_imputed_values_are_those_of_a_monitor(spark):
    table = stream()
    told = fl.spark.impute(spark.createDataFrame(table), QUERY, learnt()).toArrow()
    order = [(name, "ascending") for name in ("time", "id", "attribute", "value")]
    assert told.sort_by(order).equals(fl.distributions(table, QUERY, learnt()).cast(told.schema).sort_by(order))


def test_habits_are_learnt_on_spark_as_in_memory(spark, tmp_path):
    made = fl.spark.fit(spark.createDataFrame(walks()).repartition(3), QUERY, folder=tmp_path / "repo")
    assert made.fingerprint == learnt().fingerprint
    assert fl.distributions(stream(), QUERY, made).equals(fl.distributions(stream(), QUERY, learnt()))


def halves(rows):
    """A teller: heat is one of two things."""
    return {"heat": [[(-5.0, 1.0), (5.0, 1.0)]] * rows.num_rows}


def test_a_function_may_tell_what_is_missing_on_spark_as_in_a_monitor(spark):
    table = stream(steps=10)
    repository = Repository.fit(walks(), QUERY, method="mean")
    told = watch(spark.createDataFrame(table).repartition(3), QUERY, repository, imputer=halves).toArrow()
    assert lines(told) == lines(fl.Monitor(QUERY, repository, imputer=halves).advance(209, table))


def test_last_is_remembered_on_spark(spark):
    table = stream(steps=20)
    last = Repository.fit(walks(), QUERY, method="last")
    told = watch(spark.createDataFrame(table).repartition(3), QUERY, last).toArrow()
    assert lines(told) == lines(fl.Monitor(QUERY, last).advance(219, table))


def test_on_spark_values_are_hidden_and_scored_too(spark, tmp_path, monkeypatch):
    table = walks(steps=100, begin=200, gaps=0.05)
    write_files(table, tmp_path / "in", 2)
    rows = stream_of(spark, tmp_path / "in", spark.createDataFrame(table).schema)
    health = kind(run(journal(rows, QUERY, learnt()), tmp_path), "health")
    found: Sums = {}
    for told in health["scores"].drop_null().to_pylist():
        add(found, from_plain(json.loads(told)))
    expected = {(each.attribute, each.rule): each.cells for each in alone(table).scores()}
    assert {key: cells for key, (cells, *_) in found.items()} == expected
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
    command("run", "in", "-q", "q.yaml", "-r", "repo", "-o", "out")
    shown = command("rules", "repo", "--live", "out")
    assert "otherwise" in shown
    assert "sensor's own past" in shown
    said = command("refit", "repo", "in/1.parquet", "-q", "q.yaml", "--newest", "3000", "-o", "new")
    assert "3,000 rows" in said
    made = Repository.load("new")
    assert made.sensors is not None
    assert made.sensors.times.max() == 299
    assert "was begun with another repository" in command("run", "in", "-q", "q.yaml", "-r", "new", "-o", "out", code=2)


def command(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output
