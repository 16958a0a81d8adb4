"""Wrong clocks, sites that lag and silent ones, through Spark."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.pipeline.report import BatchResult
from fogline.pipeline.stages import opened
from fogline.runs.config import RunConfig
from fogline.spark.pipeline import plans_for, rejects, results, watch
from fogline.spark.running import Run
from tests.flow.test_ahead import HELD, QUERY, SCHEMA, answers, bad, crowd, undisturbed
from tests.spark.crowd import write_files

FIELDS = "id string, t bigint, a double, b double"


def as_table(rows: list[Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def reported(frame: Any, folder: Any) -> BatchResult:
    """All that a streaming query over what there is reports."""
    out: BatchResult = []

    def take(batch: Any, _: int) -> None:
        packed = batch.toArrow().to_batches()
        out.extend((kind, table) for kind in ("changes", "rejects", "health") for table in opened(packed, kind))

    started = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    started.trigger(availableNow=True).start().awaitTermination()
    return out


def whole(found: BatchResult, kind: str) -> pa.Table:
    return pa.concat_tables([table for each, table in found if each == kind])


def test_one_row_of_three_thousand_from_the_future_changes_no_answer(spark, tmp_path):
    good = crowd(3000)
    write_files(as_table([*good[:1200], bad(), *good[1200:]]), tmp_path / "in", 3)
    stream = spark.readStream.schema(FIELDS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    found = reported(results(stream, plans_for(stream, QUERY)), tmp_path)
    assert answers(whole(found, "changes")) == undisturbed(3000)
    assert whole(found, "rejects")["reason"].to_pylist() == [HELD]
    health = whole(found, "health").to_pylist()
    assert [sum(row[name] for row in health) for name in ("rows", "held", "late")] == [3001, 1, 0]


def test_a_table_whose_milliseconds_are_read_as_seconds_is_answered_and_names_them(spark):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime="1 hour")
    seconds = [(f"s{k}", 1_700_000_000 + 60 * k, 1.0 + k % 3) for k in range(30)]
    table = spark.createDataFrame([*seconds, ("ms", 1_700_000_000_000, 9.0)], "id string, s bigint, a double")
    times = table.selectExpr("id", "timestamp_seconds(s) as t", "a")
    [reject] = rejects(times, query).toArrow().to_pylist()
    assert "ahead of this machine's clock; are milliseconds read as seconds?" in reject["reason"]
    assert '"id": "ms"' in reject["row"]
    good = watch(times.filter("id != 'ms'"), query).toArrow()
    assert watch(times, query).toArrow().equals(good)
    assert good.num_rows


SITES = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=50, by=["site"])


@cache
def sites() -> dict[str, pa.Table]:
    """One file per site: b's rows are all behind a's newest."""

    def rows(site: str, begin: int, end: int) -> pa.Table:
        span = range(begin, end)
        columns = [[f"{site}{t % 5}" for t in span], [site] * len(span), list(span), [t * 7 % 31 + 0.0 for t in span]]
        return pa.table(dict(zip(("id", "site", "t", "a"), columns, strict=True)))

    return {"a": rows("a", 1, 1001), "b": rows("b", 501, 901), "later": rows("a", 1001, 1400)}


def test_one_file_per_site_loses_nothing_and_a_silent_site_is_moved_on_when_it_is_followed(spark, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name in ("a", "b"):
        pq.write_table(sites()[name], source / f"{name}.parquet")
        time.sleep(0.01)  # files are read in the order in which they were modified
    config = RunConfig(str(source), str(output), SITES, idle=100)
    running = Run(spark, config)
    running.start(files_per_batch=1).awaitTermination()
    assert running.status.expired == 0
    health = pq.read_table(output / "health")
    assert sum(health["late"].to_pylist()) == 0
    alone = fl.Monitor(SITES)
    alone.advance(900, sites()["b"])
    answer = [row for row in read_answer(LocalFolder(str(output)), str(output)).to_pylist() if row["site"] == "b"]
    assert {(row["id"], row["t"]) for row in answer} == {(row["id"], row["t"]) for row in alone.answer().to_pylist()}
    following = running.start(follow=True)
    try:
        pq.write_table(sites()["later"], tmp_path / "later.parquet")
        (tmp_path / "later.parquet").rename(source / "later.parquet")
        for _ in range(600):
            found = read_answer(LocalFolder(str(output)), str(output)).to_pylist()
            if all(row["site"] == "a" for row in found):
                break
            time.sleep(0.1)
    finally:
        following.stop()
    assert found
    assert {row["site"] for row in found} == {"a"}  # b's rows have expired: the others are 100 beyond them
