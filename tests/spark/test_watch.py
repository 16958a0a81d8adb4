"""Does Spark answer as a Monitor does, whatever it cuts the stream into?"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError, QueryError
from fogline.pipeline.stages import opened
from fogline.spark.pipeline import plans_for, rejects, results, watch
from tests.contracts import CLOSE, agree, answer_of, net
from tests.spark.crowd import (
    GROUPS,
    as_reported,
    crowd,
    delayed,
    last_arrivals,
    query_for,
    truth,
    write_files,
)


def run(frame, folder) -> list[pa.Table]:
    """A streaming query over what there is; returns what each micro-batch reports.

    Through files: behind a Connect server what is called for each batch runs in another process.
    """
    before = set(folder.glob("reported-*.parquet"))

    def report(batch, number: int) -> None:
        pq.write_table(batch.toArrow(), folder / f"reported-{number:04}.parquet")

    query = (
        frame.writeStream.foreachBatch(report)
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [pq.read_table(path) for path in sorted(set(folder.glob("reported-*.parquet")) - before)]


def stream_of(spark, folder, schema, files=1):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def kind(tables: list[pa.Table], which: str) -> pa.Table:
    """The tables of one kind in packed results, as one."""
    found = [part for table in tables for part in opened(table.to_batches(), which)]
    return pa.concat_tables(found) if found else pa.table({})


def journal_of(frame, query, repository=None, **how):
    """Everything that is reported of a DataFrame, packed."""
    return results(frame, plans_for(frame, query, repository, **how))


@pytest.mark.parametrize(("window", "partitions"), [("expires", 1), ("lifetime", 8), ("last", 3)])
def test_a_table_gives_the_answers_of_every_tick(spark, window, partitions):
    query, table = query_for(window), crowd(seed=partitions)
    reported = watch(spark.createDataFrame(table).repartition(partitions), query).toArrow()
    worth = ["probability", "probability_error", "reason", "beaten_by", "beaten_by_time"]
    assert reported.column_names == ["time", "g", "id", "t", "change", *worth, "a0", "a1"]
    as_reported(reported, query, truth(query, table), last_arrivals(query, table))


@pytest.mark.parametrize(("window", "lateness"), [("expires", 3), ("lifetime", 0)])
def test_a_stream_cut_anyhow_and_resumed_gives_the_answers_of_every_tick(spark, tmp_path, window, lateness):
    query, table = query_for(window), crowd(seed=20 + lateness, groups=GROUPS if lateness else 60)
    come, half = delayed(table, lateness), table.num_rows // 2
    frame = spark.createDataFrame(table)
    reported = []
    for k, part in enumerate((come.slice(0, half), come.slice(half))):
        write_files(part, tmp_path / "in", 25, start=25 * k)
        stream = stream_of(spark, tmp_path / "in", frame.schema, files=13).repartition(4)
        reported += run(watch(stream, query, lateness=lateness), tmp_path)
    ends = {group: last - lateness for group, last in last_arrivals(query, table).items()}
    as_reported(pa.concat_tables(reported), query, truth(query, table), ends)


def test_with_every_batch_each_batch_ends_with_the_answer_at_the_clock(spark, tmp_path):
    query, table = query_for("expires"), crowd(seed=40)
    write_files(table, tmp_path / "in", 50)
    frame = stream_of(spark, tmp_path / "in", spark.createDataFrame(table).schema, files=17)
    reported = run(journal_of(frame.repartition(3), query, every="batch"), tmp_path)
    answer, clocks, seen = {}, {}, 0
    for batch in reported:
        answer = net(kind([batch], "changes"), query.by, since=answer)
        health = kind([batch], "health").to_pylist()
        clocks |= {row["g"]: row["time"] for row in health if row["time"] is not None}
        seen += sum(row["rows"] for row in health)
        true = truth(query, table.slice(0, seen))
        for group, clock in clocks.items():
            expected = {name: p for name, p in true[clock].items() if name[0] == group}
            agree({name: p for name, p in answer.items() if name[0] == group}, expected, 2.5 * CLOSE)
    assert seen == table.num_rows


def test_rows_far_behind_the_watermark_enter_and_silent_groups_expire(spark, tmp_path):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime="10 minutes", by=["g"])
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    come = [("x", "old", 0, 1.0), ("x", "weak", 0, 0.5), ("y", "far", 300, 1.0), ("y", "weak", 300, 0.5)]
    come += [("z", "late", 295, 2.0), ("z", "weak", 295, 0.5), ("y", "later", 100, 5.0), ("y", "late", 292, 7.0)]
    schema = pa.schema([("id", pa.string()), ("g", pa.string()), ("t", pa.timestamp("us", "UTC")), ("a", pa.float64())])
    rows = [{"id": i, "g": g, "t": noon + timedelta(minutes=m), "a": a} for g, i, m, a in come]
    write_files(pa.Table.from_pylist(rows, schema=schema), tmp_path / "in", len(rows) // 2)
    frame = stream_of(spark, tmp_path / "in", "id string, g string, t timestamp, a double")
    reported = run(journal_of(frame, query, ahead="off", idle="0 seconds"), tmp_path)
    changes = [
        (row["g"], row["id"], row["change"], (row["time"] - noon) // timedelta(minutes=1))
        for row in kind(reported, "changes").to_pylist()
    ]
    assert ("x", "old", "leave", 10) in changes  # only time ever came to x again
    assert [row for row in changes if row[0] == "z"] == [("z", "late", "enter", 295)]
    assert [row for row in changes if row[0] == "y"] == [
        ("y", "far", "enter", 300),  # "later" has expired when it comes, "late" has not
        ("y", "late", "enter", 300),
        ("y", "far", "leave", 300),
    ]
    health = kind(reported, "health").to_pylist()
    assert [sum(row[name] for row in health) for name in ("late", "expired")] == [2, 1]
    assert kind(reported, "rejects").num_rows == 0


def test_a_function_for_each_batch_watches_in_the_session_of_its_batch(spark, tmp_path):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5)
    write_files(pa.table({"id": ["x", "y"], "t": [1, 2], "a": [3.0, 1.0]}), tmp_path / "in", 1)

    def report(batch, number: int) -> None:
        batch.createOrReplaceTempView("come")  # Spark gives a copy of the session that started the query
        rows = batch.sparkSession.sql("SELECT * FROM come")
        pq.write_table(watch(rows, query).toArrow(), tmp_path / f"{number}.parquet")

    frame = stream_of(spark, tmp_path / "in", "id string, t long, a double", files=2)
    started = frame.writeStream.foreachBatch(report).option("checkpointLocation", str(tmp_path / "checkpoint"))
    started.trigger(availableNow=True).start().awaitTermination()
    assert pq.read_table(tmp_path / "0.parquet").select(["id", "change"]).to_pylist() == [
        {"id": "x", "change": "enter"}
    ]
    assert not spark.catalog.tableExists("come")


GARBAGE = {
    "2,x,3,4": "'t' is 'x', which is not a number",
    ",1,3,4": "the id 'id' is missing",
    "3,1,much,4": "'a' is 'much', which is not a number",
    "4,1,3,inf": "'b' holds a value that is missing or not finite",
    "5,,3,4": "the time 't' is missing or not finite",
    "1,1,5,6": "a row with this id and time is there already",
}


def test_every_garbage_row_of_a_file_is_rejected_once_with_its_reason(spark, tmp_path):
    (tmp_path / "rows.csv").write_text("\n".join(["id,t,a,b", "1,1,8,8", *GARBAGE, "6,2,9,1"]))
    frame = spark.read.csv(str(tmp_path), header=True, schema="id int, t string, a string, b string")
    query = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=5)
    for table in (rejects(frame, query).toArrow(), kind([journal_of(frame, query).toArrow()], "rejects")):
        found = {_line(json.loads(row["row"])): row["reason"] for row in table.to_pylist()}
        assert found == GARBAGE
        assert table.num_rows == len(GARBAGE)
    with pytest.raises(fl.errors.QueryError, match=r"'a' is a column of type string, .*try_cast\('double'\)"):
        watch(frame, query)
    numbers = frame.withColumn("a", frame["a"].try_cast("double")).withColumn("b", frame["b"].try_cast("double"))
    reported = watch(numbers, query).toArrow()
    assert reported.select(["time", "id", "change"]).to_pylist() == [
        {"time": 1.0, "id": 1, "change": "enter"},
        {"time": 2.0, "id": 6, "change": "enter"},
    ]


def _line(row: dict) -> str:
    def text(value) -> str:
        return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    return ",".join(text(value) for value in row.values())


def test_gaps_are_filled_from_the_repository_by_whichever_worker_needs_them(spark):
    rng = np.random.default_rng(5)
    query = fl.Query(attributes={"a0": "max", "a1": "min"}, id="id", time="t", lifetime=6, by=["g"], alpha=0.3)
    past = pa.table(
        {"a0": rng.integers(0, 6, 300) / 2, "a1": rng.integers(0, 6, 300) / 2, "hall": ["n", "s", "w"] * 100}
    )
    repository = fl.Repository.fit(past, query, rules=["a1(0.5), hall -> a0(3)", "a0(0) -> a1(3)"])
    n = 1500
    cells = np.where(rng.random((n, 2)) < 0.3, np.nan, rng.integers(0, 6, (n, 2)) / 2)
    columns = {"id": np.arange(n), "t": np.sort(rng.integers(0, 40, n)), "g": rng.integers(0, 9, n)}
    columns |= {f"a{j}": pa.array(cells[:, j], from_pandas=True) for j in range(2)}
    table = pa.table({**columns, "hall": rng.choice(["n", "s", None], n)})
    reported = watch(spark.createDataFrame(table).repartition(8), query, repository).toArrow()
    as_reported(reported, query, truth(query, table, repository), last_arrivals(query, table))
    at_end = watch(spark.createDataFrame(table.drop_columns("g")), _ungrouped(query), repository, every="batch")
    monitor = fl.Monitor(_ungrouped(query), repository)
    monitor.advance(int(table["t"][-1].as_py()), table)
    agree(net(at_end.toArrow()), answer_of(monitor))


def _ungrouped(query: fl.Query) -> fl.Query:
    return fl.Query.from_dict({name: value for name, value in query.to_dict().items() if name != "by"})


@pytest.mark.parametrize(
    ("time", "lifetime", "shown"),
    [
        ("timestamp_ntz'2024-05-01 12:00:00'", "1 hour", datetime(2024, 5, 1, 12)),
        ("timestamp'2024-05-01 12:00:00Z'", "1 hour", datetime(2024, 5, 1, 12, tzinfo=UTC)),
        ("date'2024-05-01'", "1 day", datetime(2024, 5, 1)),
        ("1.5D", 2, 1.5),
        ("7S", 2.5, 7.0),
        ("cast(7 as int)", 2, 7),
        ("'2024-05-01T12:00:00'", "1 hour", datetime(2024, 5, 1, 12, tzinfo=UTC)),
    ],
)
def test_times_ids_and_groups_come_back_as_they_came(spark, time, lifetime, shown):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=lifetime, by=["d", "w"])
    frame = spark.sql(
        f"SELECT {time} AS t, 12S AS id, 3 AS a, cast(null AS int) AS d, timestamp'2020-01-01 00:00:00Z' AS w"
    )
    reported = watch(frame, query)
    [row] = reported.toArrow().to_pylist()
    assert (row["time"], row["t"], row["id"], row["a"], row["d"]) == (shown, shown, 12, 3.0, None)
    assert row["w"] == datetime(2020, 1, 1, tzinfo=UTC)
    kinds = dict(reported.dtypes)
    assert (kinds["id"], kinds["d"], kinds["w"], kinds["a"]) == ("smallint", "int", "timestamp", "double")


def test_what_does_not_fit_is_reported_before_anything_runs(spark):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5)
    frame = spark.sql("SELECT 1 AS t, 'x' AS id, 3.0D AS a")
    with pytest.raises(QueryError, match="has no attribute 'a'; it has b, id, t"):
        watch(frame.withColumnRenamed("a", "b"), query)
    with pytest.raises(QueryError, match="so lateness is a number, not '1 second'"):
        watch(frame, query, lateness="1 second")
    with pytest.raises(QueryError, match="every is 'day'"):
        watch(frame, query, every="day")
    with pytest.raises(FoglineError, match="takes a Spark DataFrame, not list"):
        watch([], query)
