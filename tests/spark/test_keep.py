"""Do other columns of a row come along on Spark as they do in one process, and through SQL?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import fogline as fl
from tests.net import driving, sparks
from tests.net.streams import stream

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
SCHEMA = (
    "s string, t long, g string, gas double, room string, floor int, at timestamp, share decimal(5,2), tags array<int>"
)


def rows(count):
    return [
        (
            f"s{k % 5}",
            k,
            "xy"[k % 2],
            float(k * 7 % 11),
            f"room {k}",
            k,
            NOON + timedelta(seconds=k),
            Decimal(k) / 4,
            [k],
        )
        for k in range(count)
    ]


@pytest.mark.parametrize("more", [{}, {"by": ["g"]}, {"latest": True}])
def test_changes_of_a_table_have_what_is_kept_in_the_types_of_the_table(spark, more):
    query = fl.Query(attributes={"gas": "max"}, id="s", time="t", lifetime=10, keep=True, **more)
    frame = spark.createDataFrame(rows(40), SCHEMA)
    changes = fl.spark.watch(frame, query)
    kept = {name: kind for name, kind in changes.dtypes if name in ("room", "floor", "at", "share", "tags")}
    assert kept == {"room": "string", "floor": "int", "at": "timestamp", "share": "decimal(5,2)"}
    found = changes.toArrow().to_pylist()
    came = {(row[0], row[1]): row[4:8] for row in rows(40)}
    assert len(found) > 10
    assert all((row["room"], row["floor"], row["at"], row["share"]) == came[row["s"], row["t"]] for row in found)


def test_names_that_clash_and_columns_that_are_not_there_are_refused_when_it_is_planned(spark):
    frame = spark.createDataFrame(rows(4), SCHEMA)
    query: dict[str, Any] = {"attributes": {"gas": "max"}, "id": "s", "time": "t", "lifetime": 10}
    with pytest.raises(fl.FoglineError, match="no column to keep 'rom'"):
        fl.spark.watch(frame, fl.Query(**query, keep=["rom"]))
    with pytest.raises(fl.FoglineError, match=r"'reason' .* or do not keep it"):
        fl.spark.watch(frame.withColumnRenamed("room", "reason"), fl.Query(**query, keep=True))
    with pytest.raises(fl.FoglineError, match="only single values come along"):
        fl.spark.watch(frame, fl.Query(**query, keep=["tags"]))


@pytest.mark.parametrize("mode", ["latest", "many groups"])
def test_a_stream_of_files_keeps_the_columns_of_each_row(spark, mode, tmp_path):
    this = stream(mode, 3)
    (query,) = this.queries.values()
    query = fl.Query.from_dict({**query, "keep": ["n"]})
    driving.write_files(this, tmp_path / "in")
    kept = sparks._Sink()
    schema = "n long, id string, g string, t long, " + ", ".join(
        f"{name} {kind}"
        for name, kind in (
            ("e", "long"),
            ("v", "long"),
            ("gone", "boolean"),
            *((f"a{k}", "array<struct<value: double, weight: double>>" if this.wide else "double") for k in range(4)),
        )
        if any(name in row for row in this.rows)
    )
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    how = {"trigger": {"availableNow": True}, **this.how}
    fl.spark.run(frame, query, checkpoint=str(tmp_path / "checkpoint"), sinks=[kept], **how).awaitTermination()
    changes = kept.kinds[0]
    came = {row["n"]: row for row in this.rows}
    assert changes
    assert all((row["id"], row["t"]) == (came[row["n"]]["id"], came[row["n"]]["t"]) for row in changes)


def test_sql_shows_what_is_kept(spark):
    frame = spark.createDataFrame(rows(9), SCHEMA)
    frame.createOrReplaceTempView("readings")
    for keep in (True, ["room", "floor"]):
        query = fl.Query(attributes={"gas": "max"}, id="s", time="t", last=1, keep=keep)
        fl.spark.register(spark, query, name="skyline")
        (row,) = spark.sql("SELECT room, floor FROM skyline(TABLE(readings))").toArrow().to_pylist()
        assert row == {"room": "room 3", "floor": 3}
