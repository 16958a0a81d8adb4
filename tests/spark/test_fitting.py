"""A repository fitted by Spark is the one fitted in memory."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError, HistoryError, HistoryWarning, RuleError
from fogline.files.options import Options
from fogline.files.reading import table
from fogline.spark import files
from fogline.spark.errors import plainly, translated

QUERY = fl.Query(attributes={"a": "max", "b": "min", "c": "max"}, id="id", time="t", lifetime=10, limits={"c": (0, 9)})


def history(rows: int = 2000, seed: int = 3) -> pa.Table:
    """Gaps, text, booleans, a constant, an empty column, values beyond limits; in no order."""
    rng = np.random.default_rng(seed)
    a, site = rng.random(rows).round(3), rng.choice(["x", "y", "z"], rows)
    table = {
        "t": rng.permutation(rows),
        "id": np.arange(rows),
        "a": a,
        "b": a * 2 + rng.normal(0, 0.02, rows) + (site == "x"),
        "c": np.where(rng.random(rows) < 0.3, np.nan, rng.random(rows) * 10),
        "ok": rng.random(rows) < 0.5,
        "same": np.ones(rows),
    }
    words = pa.array([None if rng.random() < 0.1 else str(each) for each in site], pa.string())
    return pa.table(table).append_column("site", words).append_column("none", pa.array([None] * rows, pa.float64()))


def asked(repository: fl.Repository) -> pa.Table:
    rows = history(50, seed=9).to_pylist()
    for k, row in enumerate(rows):
        row[("a", "b", "c")[k % 3]] = None
    return fl.impute.distributions(rows, QUERY, repository)


@pytest.mark.parametrize("partitions", [1, 5])
def test_spark_and_memory_fit_the_same_repository_however_the_history_is_cut(spark, tmp_path, partitions):
    table = history()
    df = spark.createDataFrame(table).repartition(partitions)
    reported: list[tuple[str, int, int]] = []
    by_spark = fl.spark.fit(df, QUERY, folder=tmp_path / "repo", progress=lambda *each: reported.append(each))
    in_memory = fl.Repository.fit(table, QUERY)
    assert by_spark.rules == in_memory.rules
    assert len(by_spark.rules) >= 2
    assert by_spark.fingerprint == in_memory.fingerprint == fl.Repository.load(tmp_path / "repo").fingerprint
    assert [(step.rules, step.expected) for step in by_spark.explain()] == [
        (step.rules, step.expected) for step in in_memory.explain()
    ]
    assert asked(by_spark).equals(asked(in_memory))
    assert asked(by_spark).num_rows > 50
    assert {what for what, _, _ in reported} == {
        "reading the history", "joining columns", "discovering rules", "building indexes",
        "learning how sensors change", "learning from other attributes",
    }  # fmt: skip
    assert not list((tmp_path / "repo").glob("*/part-*"))


def test_a_history_without_rows_is_refused_and_leaves_nothing(spark, tmp_path):
    with pytest.raises(HistoryError, match="the history has no rows"):
        fl.spark.fit(spark.createDataFrame(history(3).slice(0, 0)), QUERY, folder=tmp_path / "repo")
    assert not (tmp_path / "repo").exists() or not list((tmp_path / "repo").iterdir())


def test_tiny_histories_are_fitted(spark):
    table = history(3).slice(0, 1)
    table = table.set_column(table.schema.get_field_index("c"), "c", pa.array([1.0]))
    by_spark, in_memory = fl.spark.fit(spark.createDataFrame(table), QUERY), fl.Repository.fit(table, QUERY)
    assert by_spark.history.rows == 1
    assert by_spark.fingerprint == in_memory.fingerprint


def test_rows_without_a_time_come_first_on_spark_too(spark):
    table = history(9)
    times = pa.array([3.0, None, 1.0, float("nan"), 2.0, 5.0, None, 4.0, 6.0])
    table = table.set_column(0, "t", times)
    by_spark = fl.spark.fit(spark.createDataFrame(table).repartition(3), QUERY, method="mean")
    in_memory = fl.Repository.fit(table, QUERY, method="mean")
    assert np.isnan(in_memory.history.columns["t"].values).tolist() == [True] * 3 + [False] * 6
    assert by_spark.fingerprint == in_memory.fingerprint


def test_ids_and_groups_beyond_2_to_the_53_stay_apart_on_spark_too(spark, tmp_path):
    query = fl.Query(**{**QUERY.to_dict(), "by": ["site"]})
    rows = [
        {"t": t, "id": 2**60 + k % 2, "site": Decimal(10**20 + k // 2), "a": 1.0 * k, "b": 1.0, "c": 2.0}
        for t in range(5)
        for k in range(4)
    ]
    table = pa.Table.from_pylist(rows, pa.schema([
        ("t", pa.int64()), ("id", pa.int64()), ("site", pa.decimal128(38, 2)),
        ("a", pa.float64()), ("b", pa.float64()), ("c", pa.float64()),
    ]))  # fmt: skip
    in_memory = fl.Repository.fit(table, query, method="last")
    frame = spark.createDataFrame(table)
    by_spark = fl.spark.fit(frame.repartition(3), query, method="last", folder=tmp_path / "repo")
    assert in_memory.sensors is not None
    assert len(in_memory.sensors.known_sensors) == 4
    assert by_spark.fingerprint == in_memory.fingerprint
    gaps = table.slice(0, 4).set_column(0, "t", pa.array([9] * 4)).set_column(3, "a", pa.nulls(4, pa.float64()))
    by_spark.append(table.slice(0, 1), query).save(
        tmp_path / "repo"
    )  # a newer version: workers open the one of the plan
    found = fl.spark.impute(spark.createDataFrame(gaps), query, by_spark).toArrow()
    assert sorted(found["value"].to_pylist()) == [0.0, 1.0, 2.0, 3.0]


def test_given_rules_are_kept_and_imputing_by_spark_gives_the_same_distributions(spark):
    table, rules = history(500), ["a(0.01), site -> b(0.2)", "ok -> c(10)"]
    df = spark.createDataFrame(table)
    by_spark = fl.spark.fit(df, QUERY, rules=rules)
    assert [str(rule) for rule in by_spark.rules] == rules
    gaps = history(60, seed=8).to_pylist()
    for k, row in enumerate(gaps):
        row[("a", "b", "c")[k % 3]] = None
    stream = pa.Table.from_pylist(gaps, history(1).schema)
    spread = fl.spark.impute(spark.createDataFrame(stream).repartition(3), QUERY, by_spark).toArrow()
    keys = [(name, "ascending") for name in ("id", "attribute", "value")]
    expected = fl.impute.distributions(stream, QUERY, by_spark)
    assert spread.sort_by(keys).to_pylist() == expected.sort_by(keys).to_pylist()
    for name in ("id", "t"):
        assert spread.schema.field(name).type == pa.int64()


def test_what_does_not_fit_is_reported_before_any_work(spark, tmp_path):
    df = spark.createDataFrame(history(10))
    with pytest.raises(HistoryError, match="no attribute 'd'; it has"):
        fl.spark.fit(df, fl.Query(attributes={"d": "max"}, id="id", time="t", lifetime=1))
    with pytest.raises(RuleError, match=r"speaks of 'sight'.*\nDid you mean 'site'"):
        fl.spark.fit(df, QUERY, rules=["sight -> b(1)"])
    with pytest.raises(HistoryError, match="may be 'held-out', 'paper', 'last', 'mean'"):
        fl.spark.fit(df, QUERY, method="guess")
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(HistoryError, match="holds no repository"):
        fl.spark.fit(df, QUERY, folder=tmp_path)


def test_a_fit_that_fails_leaves_the_folder_as_it_was(spark, tmp_path, monkeypatch):
    df = spark.createDataFrame(history(100))
    before = fl.spark.fit(df, QUERY, rules=["a(0.1) -> b(1)"], folder=tmp_path / "repo").fingerprint
    monkeypatch.setattr("fogline.spark.fitting.fingerprint", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fl.spark.fit(df, QUERY, rules=["a(0.2) -> b(1)"], folder=tmp_path / "repo")
    with pytest.raises(ZeroDivisionError):
        fl.spark.fit(df, QUERY, rules=["a(0.2) -> b(1)"], folder=tmp_path / "new")
    assert fl.Repository.load(tmp_path / "repo").fingerprint == before
    assert len(list((tmp_path / "repo").glob("version-*"))) == 1
    assert not (tmp_path / "new").exists()


def test_an_error_of_a_worker_reads_like_one_of_our_own(spark):
    def fail(batches):
        raise HistoryError("the history is empty.\nDid you mean 'full'?")
        yield from batches

    with pytest.raises(HistoryError, match=r"^the history is empty\.\nDid you mean 'full'\?$"), plainly():
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert str(translated("[PATH_NOT_FOUND] no such path. SQLSTATE: 42K03")) == "Spark reports: no such path."


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_files_come_back_as_they_were_written(spark, tmp_path, suffix):
    path = str(tmp_path / f"rows.{suffix}")
    df = spark.createDataFrame(history(20).select(["t", "a", "site"])).coalesce(1)
    files.write(df, path)
    assert sorted(files.table(spark, path, None, Options()).select(df.columns).collect()) == sorted(df.collect())
    with pytest.raises(FoglineError, match="is there already"):
        files.write(df, path)
    plain = tmp_path / "plain"
    (tmp_path / f"rows.{suffix}").rename(plain)
    assert files.table(spark, str(plain), None, Options()).count() == 20


def test_text_among_numbers_is_missing_in_a_history(spark, tmp_path):
    (tmp_path / "h.csv").write_text("id,t,a,b,c\n1,1,0.5,2,3\n2,2,broken,3,4\n3,3,,3,4\n")
    df = files.table(spark, str(tmp_path / "h.csv"), QUERY, Options())
    here = table(str(tmp_path / "h.csv"), QUERY, Options())
    assert df.toArrow().equals(here)
    with pytest.warns(HistoryWarning, match="1 of 3 cells of 'a' in the history are texts, such as 'broken'"):
        values = fl.spark.fit(df, QUERY).history.columns["a"].values
    assert np.array_equal(values, [0.5, np.nan, np.nan], equal_nan=True)


def test_a_path_that_is_not_there_or_has_no_known_ending_is_answered_with_a_way_out(tmp_path):
    (tmp_path / "history.parquet").touch()
    with pytest.raises(FoglineError, match=r"there is no file.*\nDid you mean 'history.parquet'"):
        files.kind_of(str(tmp_path / "histroy.parquet"), existing=True)
    (tmp_path / "data.bin").touch()
    with pytest.raises(FoglineError, match=r"should end in \.parquet, \.csv"):
        files.kind_of(str(tmp_path / "data.bin"), existing=True)
    assert files.kind_of("hdfs://host/x/history.csv.gz", existing=True) == "csv"
