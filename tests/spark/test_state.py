"""Does a checkpoint refuse another plan in words, and does its state stay as small as what lives?"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import SnapshotError
from fogline.spark.errors import plainly, translated
from fogline.spark.pipeline import buckets_for, plans_for, watch
from tests.spark.test_watch import journal_of, kind, run, stream_of

BY = {"attributes": {"a": "max"}, "id": "id", "time": "t", "lifetime": 10, "by": ["g"]}
SCHEMA = "id long, g string, t long, a double"


def write(folder, number: int, rows: list[tuple]) -> None:
    folder.mkdir(exist_ok=True)
    names = ("id", "g", "t", "a")
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), folder / f"{number:03}.parquet")


def test_a_checkpoint_refuses_another_plan_in_words_and_goes_on_with_its_own(spark, tmp_path):
    write(tmp_path / "in", 0, [(1, "x", 1, 1.0), (2, "y", 1, 1.0)])
    frame = stream_of(spark, tmp_path / "in", SCHEMA)
    run(watch(frame, fl.Query(**BY), lateness=2, idle=0), tmp_path)
    write(tmp_path / "in", 1, [(3, "z", 4, 2.0), (4, "z", 4, 1.0)])  # no group that has a state
    for changed, lateness, words in (
        ({"by": []}, 2, r"begun with by g, types of by string, buckets \d+\s+now there is nothing else\s"),
        (
            {"lifetime": 11},
            3,
            r"begun with lifetime 10\.0, lateness 2\.0, .*now there is lifetime 11\.0, lateness 3\.0, ",
        ),
    ):
        with (
            pytest.raises(SnapshotError, match=rf"(?s){words}.*Go on with the old one, or begin with a new"),
            plainly(),
        ):
            run(watch(frame, fl.Query(**BY | changed), lateness=lateness, idle=0), tmp_path)
    reported = pa.concat_tables(run(watch(frame, fl.Query(**BY), lateness=2, idle=0), tmp_path))
    assert sorted((row["g"], row["id"]) for row in reported.to_pylist()) == [("x", 1), ("y", 2)]


def test_other_refusals_of_spark_stay_as_they_are():
    text = "[X] Existing value_schema=StructType(StructField(n,LongType,true)) and new value_schema=StructType(…).\nIf"
    assert "value_schema" in str(translated(text))


def test_groups_without_rows_leave_the_state(spark, tmp_path):
    write(tmp_path / "in", 0, [(k, f"g{k}", 0, 1.0) for k in range(20)])
    for k in range(1, 6):
        write(tmp_path / "in", k, [(0, "x", 100 * k, 1.0), (1, "x", 100 * k, 1.0)])
    frame = stream_of(spark, tmp_path / "in", SCHEMA)
    reported = run(journal_of(frame, fl.Query(**BY), idle=0), tmp_path)
    changes = kind(reported, "changes").to_pylist()
    assert sum(row["change"] == "leave" for row in changes if row["g"] != "x") == 20
    kept = state_of(spark, tmp_path / "checkpoint")
    [index] = [value for (namespace, _, _), value in kept if namespace == "index"]
    counts, _ = json.loads(index)
    assert sum(counts) == 1  # of 21 groups
    assert [namespace for (namespace, _, _), _ in kept].count("groups") == 1


def state_of(spark, checkpoint) -> list[tuple[tuple[str, str, int], bytes]]:
    """What the stores of all shards hold."""
    found = spark.read.format("statestore").option("stateVarName", "state").load(str(checkpoint)).collect()
    return [(tuple(row["user_map_key"]), bytes(row["user_map_value"]["saved"])) for row in found]


def test_many_rows_wait_in_slots_of_the_checkpoint(spark, tmp_path):
    query = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=10**6)
    n, expected = 3_000, []
    for k in range(3):
        a = np.arange(n, dtype=float)
        table = pa.table({"id": n * k + np.arange(n), "t": 100 * k + np.arange(n) // 30, "a": a, "b": n * k - a})
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "in" / f"{k}.parquet")
        expected.append(table)
    reported = []
    for _ in range(2):
        frame = stream_of(spark, tmp_path / "in", "id long, t long, a double, b double")
        reported += run(journal_of(frame, query, lateness=150), tmp_path)
        if len(reported) > 0 and not (tmp_path / "in" / "3.parquet").exists():
            kept = state_of(spark, tmp_path / "checkpoint")
            assert 5 < sum(namespace == "waiting" for (namespace, _, _), _ in kept) <= 17
            pq.write_table(
                pa.table({"id": [-1], "t": [10**4], "a": [-1.0], "b": [-1.0]}), tmp_path / "in" / "3.parquet"
            )
    alone = fl.Monitor(query).advance(299, pa.concat_tables(expected))
    found = kind(reported, "changes")
    columns = ["time", "id", "change"]
    assert sorted(map(tuple, zip(*found.select(columns).to_pydict().values(), strict=True))) == sorted(
        map(tuple, zip(*alone.select(columns).to_pydict().values(), strict=True))
    )


def test_the_number_of_buckets_follows_the_cluster_and_can_be_given(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    frame = spark.createDataFrame([(1, "x", 1, 1.0)], SCHEMA)
    try:
        assert buckets_for(spark) == 8
        spark.conf.set("spark.sql.shuffle.partitions", "24")
        assert plans_for(frame, fl.Query(**BY)).buckets == 24
        assert plans_for(frame, fl.Query(**BY), buckets=3).buckets == 3
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
