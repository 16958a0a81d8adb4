"""Skylines in SQL: whatever is asked there, `fogline.skyline` would answer the same."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import StructType

import fogline as fl
from fogline.errors import FoglineError, HistoryError, QueryError, RowsError
from fogline.repository import store
from fogline.spark.errors import plainly, translated
from fogline.spark.sql import ask, register

RULES = ["x(1) -> y(2)", "kind, z(1) -> x(2)"]


def a_query(**more: Any) -> fl.Query:
    return fl.Query(**{"attributes": {"x": "max", "y": "min", "z": "max"}, "id": "s", "time": "t", "last": 1, **more})


def a_table(seed: int, rows: int = 300, *, gaps: float = 0.0, words: bool = True) -> pa.Table:
    """Rows of five sites, with ties; a share of the cells is missing."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    cells = {name: rng.integers(0, 12, rows).astype(float) for name in "xyz"}
    return pa.table(
        {
            "s": [f"row {k}" for k in order] if words else order,
            "t": order * 2,
            "site": rng.choice([*"abcd", None], rows),
            "kind": rng.choice(["new", "old"], rows),
            **{name: pa.array(column, mask=rng.random(rows) < gaps) for name, column in cells.items()},
        }
    )


def show(spark, table: pa.Table, partitions: int = 5, name: str = "readings") -> None:
    spark.createDataFrame(table).repartition(partitions).createOrReplaceTempView(name)


def ask_sql(spark, sql: str) -> pa.Table:
    return spark.sql(sql).toArrow()


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    expected = expected.drop_columns(["row"])  # tables in SQL have no positions
    assert found.schema.names == expected.schema.names
    assert found.schema.field("s").type == expected.schema.field("s").type
    assert found.num_rows == expected.num_rows > 0
    found, expected = (each.sort_by("s").to_pydict() for each in (found, expected))
    assert found.pop("probability") == pytest.approx(expected.pop("probability"), abs=1e-9)
    assert found == expected


def by_site(table: pa.Table, query: fl.Query, repository: fl.Repository | None = None) -> pa.Table:
    """One skyline per site, one after the other."""
    known = [table.filter(pc.equal(table["site"], site)) for site in "abcd"]
    parts = [*known, table.filter(pc.is_null(table["site"]))]
    return pa.concat_tables([fl.skyline(part, query, repository) for part in parts], promote_options="permissive")


@pytest.mark.parametrize(("partitions", "words"), [(1, True), (7, True), (4, False)])
def test_the_whole_table_has_one_skyline_however_it_is_cut(spark, partitions, words):
    table = a_table(partitions, words=words)
    show(spark, table, partitions)
    register(spark, a_query())
    assert_same(ask_sql(spark, "SELECT * FROM skyline(TABLE(readings))"), fl.skyline(table, a_query()))


@pytest.mark.parametrize("words", [True, False])
def test_every_partition_has_its_own_skyline(spark, words):
    table = a_table(11, words=words)
    show(spark, table)
    register(spark, a_query())
    found = ask_sql(spark, "SELECT * FROM skyline(TABLE(readings) PARTITION BY site)")
    assert_same(found, by_site(table, a_query()))
    found = ask_sql(spark, "SELECT * FROM skyline(TABLE(readings) PARTITION BY coalesce(site, 'e') < 'c')")
    first = pc.fill_null(pc.is_in(table["site"], pa.array(["a", "b"])), False)
    both = [fl.skyline(table.filter(mask), a_query()) for mask in (first, pc.invert(first))]
    assert_same(found, pa.concat_tables(both))


def test_one_partition_may_also_be_asked_for(spark):
    table = a_table(12)
    show(spark, table)
    register(spark, a_query())
    for call in ("TABLE(readings) WITH SINGLE PARTITION", "rows => TABLE(readings)", "TABLE(SELECT * FROM readings)"):
        assert_same(ask_sql(spark, f"SELECT * FROM skyline({call})"), fl.skyline(table, a_query()))
    assert_same(
        ask_sql(spark, "SELECT * FROM skyline(rows => TABLE(readings) PARTITION BY site)"), by_site(table, a_query())
    )


@pytest.mark.filterwarnings("ignore::fogline.errors.HistoryWarning")  # the history explains little
def test_missing_values_are_imputed_from_the_repository(spark):
    repository = fl.Repository.fit(a_table(0, 1000), a_query(), rules=RULES)
    table = a_table(13, gaps=0.15)
    show(spark, table)
    register(spark, a_query(alpha=0.2), repository)
    expected = fl.skyline(table, a_query(alpha=0.2), repository)
    assert min(expected["probability"].to_pylist()) < 1
    assert_same(ask_sql(spark, "SELECT * FROM skyline(TABLE(readings))"), expected)
    found = ask_sql(spark, "SELECT * FROM skyline(TABLE(readings) PARTITION BY site)")
    assert_same(found, by_site(table, a_query(alpha=0.2), repository))


def test_without_a_repository_rows_impute_each_other(spark):
    table = a_table(14, gaps=0.15)
    show(spark, table)
    register(spark, a_query(by=["kind"]))
    found = ask_sql(spark, "SELECT * FROM skyline(TABLE(readings))")
    assert_same(found, fl.skyline(table, a_query(by=["kind"])))


@pytest.mark.filterwarnings("ignore::fogline.errors.HistoryWarning")  # the history explains little
@pytest.mark.parametrize("given", [True, False])
def test_a_query_with_groups_answers_for_each(spark, given):
    query = a_query(by=["site", "kind"])
    repository = fl.Repository.fit(a_table(0, 1000), a_query(), rules=RULES) if given else None
    table = a_table(15, gaps=0.1 if given else 0)
    show(spark, table)
    register(spark, query, repository)
    expected = fl.skyline(table, query, repository)
    for cut in ("", "PARTITION BY site", "PARTITION BY (kind, site)"):
        assert_same(ask_sql(spark, f"SELECT * FROM skyline(TABLE(readings) {cut})"), expected)


def test_rows_that_cannot_be_taken_are_left_out(spark):
    table = a_table(16)
    z = pa.array([f"{each:g}" if k % 7 else "broken" for k, each in enumerate(table["z"].to_pylist())])
    x = pa.array([each if k % 5 else np.inf for k, each in enumerate(table["x"].to_pylist())])
    table = table.set_column(4, "x", x).set_column(6, "z", z)
    show(spark, table)
    register(spark, a_query())
    assert_same(ask_sql(spark, "SELECT * FROM skyline(TABLE(readings))"), fl.skyline(table, a_query()))


TYPED = pa.table(
    {
        "cent": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "day": pa.array([date(2024, 2, 29), None], pa.date32()),
        "at": pa.array([datetime(2024, 2, 29, 12), datetime(1969, 7, 20)], pa.timestamp("us", "UTC")),
        "flag": pa.array([True, False]),
        "small": pa.array([1, 2], pa.int16()),
        "real": pa.array([0.5, None], pa.float32()),
        "raw": pa.array([b"x", b"y"], pa.binary()),
    }
)


def test_ids_and_groups_keep_their_types(spark):
    numbers = {"s": pa.array([7, 8]), "x": pa.array([1, 2]), "y": pa.array([Decimal("0.5"), Decimal("1.5")])}
    show(spark, pa.table({**{name: TYPED[name] for name in TYPED.schema.names}, **numbers}), name="typed")
    register(spark, a_query(attributes={"x": "max", "y": "min"}, by=TYPED.schema.names))
    found = ask_sql(spark, "SELECT * FROM skyline(TABLE(typed))").sort_by("x").select(TYPED.schema.names)
    assert found.equals(TYPED)
    for name in ("cent", "at", "small"):
        register(spark, a_query(attributes={"x": "max", "y": "min"}, id=name))
        found = ask_sql(spark, "SELECT * FROM skyline(TABLE(typed))").sort_by("x")
        assert found[name].combine_chunks() == TYPED[name].combine_chunks()


def test_a_table_without_rows_has_an_answer_without_rows(spark):
    show(spark, a_table(17))
    register(spark, a_query(by=["site"]))
    for cut in ("", "PARTITION BY kind"):
        found = ask_sql(spark, f"SELECT * FROM skyline(TABLE(SELECT * FROM readings WHERE x < -1) {cut})")
        assert found.schema.names == ["site", "s", "probability", "probability_error", "x", "y", "z"]
        assert found.num_rows == 0


def test_partitions_without_rows_add_nothing(spark):
    table = a_table(24)
    other = spark.newSession()
    other.conf.set("spark.sql.adaptive.enabled", "false")  # else partitions without rows are not even looked at
    other.conf.set("spark.sql.shuffle.partitions", "3")
    show(other, table)
    register(other, a_query())
    one = table.filter(pc.equal(table["site"], "a"))
    found = ask_sql(other, "SELECT * FROM skyline(TABLE(SELECT * FROM readings WHERE site = 'a') PARTITION BY site)")
    assert_same(found, fl.skyline(one, a_query()))
    assert ask_sql(other, "SELECT * FROM skyline(TABLE(SELECT * FROM readings WHERE x < -1))").num_rows == 0


def test_a_later_question_takes_the_name_and_other_names_stay(spark):
    table = a_table(18)
    show(spark, table)
    register(spark, a_query())
    register(spark, a_query(attributes={"x": "max"}), name="Highest")
    register(spark, a_query(attributes={"y": "min"}))
    highest, lowest = (a_query(attributes={name: order}) for name, order in (("x", "max"), ("y", "min")))
    assert_same(ask_sql(spark, "SELECT * FROM highest(TABLE(readings))"), fl.skyline(table, highest))
    assert_same(ask_sql(spark, "SELECT * FROM skyline(TABLE(readings))"), fl.skyline(table, lowest))


def test_the_answer_is_a_table_like_any_other(spark):
    table = a_table(19)
    show(spark, table)
    register(spark, a_query())
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW best AS SELECT * FROM skyline(TABLE(readings))")
    found = ask_sql(spark, "SELECT b.s, r.kind FROM best b JOIN readings r ON b.s = r.s ORDER BY b.s")
    kinds = dict(zip(table["s"].to_pylist(), table["kind"].to_pylist(), strict=True))
    ids = sorted(fl.skyline(table, a_query())["s"].to_pylist())
    assert found.to_pydict() == {"s": ids, "kind": [kinds[each] for each in ids]}


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        ("TABLE(SELECT s, x, y, z AS zz FROM readings)", QueryError, r"no attribute 'z'; it has s, x, y, zz.\nDid you"),
        ("TABLE(SELECT x, y, z, kind FROM readings) PARTITION BY kind", QueryError, "no id column 's'; it has kind, x"),
        ("TABLE(SELECT s, x, y, z, z FROM readings)", RowsError, "the table has several columns 'z'"),
        ("TABLE(SELECT s, x, y, date'2024-02-29' AS z FROM readings)", RowsError, "'z' has type date32.*no numbers"),
        ("'readings'", FoglineError, r"skyline answers about a table: write skyline\(TABLE\(readings\)\)"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_words_before_any_work(spark, call, kind, words):
    show(spark, a_table(20, 3))
    register(spark, a_query())
    with pytest.raises(kind, match=f"(?s){words}"), plainly():
        spark.sql(f"SELECT * FROM skyline({call})")


def test_what_goes_wrong_in_a_worker_is_reported_in_words(spark, tmp_path):
    first, second = (fl.Repository.fit(a_table(seed, 50), a_query(), rules=RULES) for seed in (21, 22))
    first.save(tmp_path / "mine.repo")
    register(spark, a_query(), fl.Repository.load(tmp_path / "mine.repo"))
    second.save(tmp_path / "mine.repo")
    store.prune(tmp_path / "mine.repo")
    show(spark, a_table(23))
    for cut in ("", "PARTITION BY site"):
        with pytest.raises(Exception, match="no longer the one") as caught:
            ask_sql(spark, f"SELECT * FROM skyline(TABLE(readings) {cut})")
        assert isinstance(translated(str(caught.value)), HistoryError)


def test_what_is_no_query_or_no_fitting_repository_is_refused_at_once():
    with pytest.raises(FoglineError, match=r"register takes is a Query, not dict; give Query\.from_dict\("):
        register(None, {"attributes": {"x": "max"}})
    repository = fl.Repository.fit(a_table(0, 50), a_query(), rules=RULES)
    with pytest.raises(FoglineError, match="imputes x, y, z, not w"):
        register(None, a_query(attributes={"w": "max"}), repository)


def test_only_what_matters_is_read_of_a_table():
    table = StructType.fromDDL("more string, z double, s string, x double, site string, kind string, y double")
    repository = fl.Repository.fit(a_table(0, 50), a_query(), rules=RULES)
    assert ask(a_query(), repository).reads(table) == ["z", "s", "x", "kind", "y"]
    assert ask(a_query(by=["site"]), repository).reads(table) == ["z", "s", "x", "site", "kind", "y"]
    assert ask(a_query(), None).reads(table) == []


def test_groups_are_kept_together_unless_they_know_nothing_of_each_other():
    table = StructType().add("site", "string").add("height", "double")
    repository = fl.Repository.fit(a_table(0, 50), a_query(), rules=RULES)
    assert ask(a_query(by=["site"]), repository).groups(table) == ("site",)
    assert ask(a_query(by=["site"]), None).groups(table) == ()
    assert ask(a_query(by=["site", "height"]), repository).groups(table) == ()
    assert ask(a_query(), repository).groups(table) == ()
