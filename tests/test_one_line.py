"""Does one line give the rows of a table that no other beats, with the right probabilities, in the table's own kind?"""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paretoset import paretoset

import fogline as fl
from tests import oracle

WAYS = {"price": "min", "rating": "max"}
HOTELS = pd.DataFrame(
    {
        "name": ["Alder", "Birch", "Cedar", "Dogwood", "Elm"],
        "price": [50.0, 80.0, 90.0, None, 40.0],
        "rating": [3.9, 4.5, 4.1, 4.9, None],
    },
    index=[7, 7, 8, 9, 10],
)
CELL = st.sampled_from([0, 1, 2, 3, None])


# --- What is computed -------------------------------------------------------------------------------------------------


def oracle_probabilities(rows, ways):
    """P of every row, where a gap may be any value of its column, as often as it is there."""
    columns = list(zip(*rows, strict=True))
    filled = [sorted(Counter(value for value in column if value is not None).items()) for column in columns]
    uncertain = [
        oracle.Cloud(k, 0, 1, tuple(oracle.cell(filled[j] if v is None else v, ways[j]) for j, v in enumerate(row)), ())
        for k, row in enumerate(rows)
    ]
    return [oracle.probability(cloud, uncertain) for cloud in uncertain]


@given(
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=7).filter(
        lambda rows: all(any(v is not None for v in column) for column in zip(*rows, strict=True))
    ),
    st.sampled_from([0, Fraction(1, 4), Fraction(1, 2)]),
)
def test_probabilities_and_fronts_are_those_of_possible_worlds(rows, alpha):
    true = oracle_probabilities(rows, ["max", "min"])
    frame = pd.DataFrame(rows, columns=["x", "y"], dtype="Int64")
    found = fl.skyline(frame, {"x": "max", "y": "min"}, alpha=float(alpha), certainty="possible")
    assert found.index.tolist() == [k for k, p in enumerate(true) if p > 0]
    for k, row in found.iterrows():
        p = true[k]
        assert row["probability"] == pytest.approx(float(p), abs=1e-9)
        assert row["certainty"] == ("certain" if p == 1 else "likely" if p > alpha else "possible")
    for front in ("likely", "certain"):
        part = fl.skyline(frame, {"x": "max", "y": "min"}, alpha=float(alpha), certainty=front)
        fronts = ("certain", "likely") if front == "likely" else ("certain",)
        assert part.equals(found[found["certainty"].isin(fronts)])


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30), st.sampled_from(["min", "max"]))
def test_complete_rows_are_those_of_paretoset_equal_ones_included(rows, way):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    ways = {"a": "min", "b": way, "c": "max"}
    mask = paretoset(frame, sense=list(ways.values()), distinct=False)
    found = fl.skyline(frame, ways)
    assert found.drop(columns=["probability", "certainty"]).equals(frame[mask])
    assert set(found["probability"]) == {1.0}
    assert set(found["certainty"]) == {"certain"}


def test_columns_that_make_groups_are_those_that_paretoset_calls_diff():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.integers(0, 6, (200, 3)), columns=["a", "b", "kind"])
    mask = paretoset(frame, sense=["min", "max", "diff"], distinct=False)
    found = fl.skyline(frame, {"a": "min", "b": "max"}, by=["kind"])
    assert found.index.tolist() == frame.index[mask].tolist()


def test_a_missing_group_is_a_group_of_its_own():
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "g": ["a", None, "a", None]})
    assert fl.skyline(frame, {"x": "max"}, by="g").index.tolist() == [2, 3]


def test_other_attributes_explain_gaps_and_a_repository_may():
    rng = np.random.default_rng(1)
    x = rng.random(600)
    frame = pd.DataFrame({"x": x, "y": 1 - x + rng.normal(0, 0.001, 600)})
    frame.loc[0] = [2.0, None]
    fits = fl.skyline(frame, {"x": "max", "y": "max"})
    query = fl.Query({"x": "max", "y": "max"}, id="s", time="t", lifetime=1)
    repository = fl.Repository.fit(pd.DataFrame({"x": [2.0] * 9, "y": [5.0] * 9}), query, rules=["x(9) -> y(9)"])
    alone = fl.skyline(frame, {"x": "max", "y": "max"}, repository)
    assert len(fits) > 100
    assert alone.index.tolist() == [0]


def test_few_stand_for_all_and_say_for_how_many():
    x = np.arange(60.0)
    frame = pd.DataFrame({"x": x, "y": -x, "g": np.arange(60) % 2})
    found = fl.skyline(frame, {"x": "max", "y": "max"}, top=5)
    assert len(found) == 5
    assert found["stands_for"].sum() == 60
    grouped = fl.skyline(frame, {"x": "max", "y": "max"}, by="g", top=5)
    assert grouped.groupby("g")["stands_for"].agg(["size", "sum"]).to_numpy().tolist() == [[5, 30], [5, 30]]
    assert grouped.index.is_monotonic_increasing


def test_cells_may_be_distributions():
    rows = [{"x": [(1, 1), (3, 1)], "y": 1}, {"x": 2, "y": 1}]
    assert [row["probability"] for row in fl.skyline(rows, {"x": "max", "y": "max"}, alpha=0.4)] == [0.5, 0.5]


@pytest.mark.parametrize("make", [list, lambda rows: pd.DataFrame(rows, dtype=object)], ids=["dicts", "frame"])
def test_all_cells_of_a_column_may_be_distributions(make):
    found = fl.skyline(make([{"x": [(1, 1), (3, 1)]}, {"x": [(2, 1)]}]), {"x": "max"}, certainty="possible")
    assert list(pd.DataFrame(found)["probability"]) == [0.5, 0.5]


# --- The table's own kind ---------------------------------------------------------------------------------------------

EXPECTED = {"name": ["Dogwood", "Elm"], "probability": [0.8125, 0.8125], "certainty": ["likely", "likely"]}


def test_pandas_in_pandas_out_with_its_index():
    found = fl.skyline(HOTELS, WAYS)
    assert found.index.tolist() == [9, 10]
    assert found.columns.tolist() == ["name", "price", "rating", "probability", "certainty"]
    assert found[list(EXPECTED)].to_dict("list") == EXPECTED
    assert HOTELS.columns.tolist() == ["name", "price", "rating"], "the table that came in stays as it is"


def test_polars_in_polars_out():
    frame = pl.from_pandas(HOTELS)
    found = fl.skyline(frame, WAYS)
    assert isinstance(found, pl.DataFrame)
    assert found.select(list(EXPECTED)).to_dict(as_series=False) == EXPECTED
    assert found.schema["price"] == frame.schema["price"]
    with pytest.raises(fl.errors.RowsError, match=r"give frame.collect\(\)"):
        fl.skyline(frame.lazy(), WAYS)


@pytest.mark.parametrize("make", [pa.table, lambda table: table.to_batches()[0], duckdb.from_arrow])
def test_arrow_and_what_arrow_reads_give_an_arrow_table(make):
    table = pa.Table.from_pandas(HOTELS, preserve_index=False)
    found = fl.skyline(make(table), WAYS)
    assert isinstance(found, pa.Table)
    assert found.select(list(EXPECTED)).to_pydict() == EXPECTED


def test_dicts_in_dicts_out_and_a_key_may_be_absent():
    rows = [{"price": 1.0, "rating": 2.0}, {"price": 1.0}, {"price": 3.0, "rating": 2.0, "more": [1]}]
    found = fl.skyline(rows, WAYS)
    assert [row["price"] for row in found] == [1.0, 1.0]
    assert rows[1] == {"price": 1.0}
    assert found[0] == {"price": 1.0, "rating": 2.0, "probability": 1.0, "certainty": "certain"}


@pytest.mark.parametrize("empty", [HOTELS.iloc[:0], pl.from_pandas(HOTELS).clear(), pa.table(HOTELS[:0]), []])
def test_no_rows_have_no_answer(empty):
    if isinstance(empty, list):
        with pytest.raises(fl.errors.QueryError, match="no column 'price'; it has none"):
            fl.skyline(empty, WAYS)
    else:
        found = fl.skyline(empty, WAYS, top=3)
        assert len(found) == 0
        assert [*found.columns, *getattr(found, "column_names", [])][-1] == "stands_for"


def test_names_that_are_taken_get_an_underscore_and_any_name_may_count():
    frame = pd.DataFrame({"time": [1, 2], "id": [2, 1], "probability": [1, 1], "certainty": [0, 0], 3: ["x", "y"]})
    found = fl.skyline(frame, {"time": "max", "id": "max", "probability": "min"})
    assert found.columns.tolist() == ["time", "id", "probability", "certainty", 3, "probability_", "certainty_"]
    assert fl.skyline(pd.DataFrame({0: [1, 2], 1: [3, 3]}), {0: "min", 1: "max"}).index.tolist() == [0]


def test_equal_rows_and_equal_labels_all_stay():
    frame = pd.DataFrame({"x": [1, 1, 0], "y": [1, 1, 1]}, index=["a", "a", "a"])
    assert len(fl.skyline(frame, {"x": "max", "y": "max"})) == 2


# --- Types of columns -------------------------------------------------------------------------------------------------

BIG = 2**60


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 3, None], dtype="Int64"),
        pd.Series([1, 3, None], dtype="float32"),
        pd.Series([1, 3, None], dtype="int64[pyarrow]"),
        pd.Series([1, 3, None], dtype="category"),
        pd.Series([False, True, None], dtype="boolean"),
        pd.Series(["1", "3", None]),
        pd.Series(["1", "3", ""], dtype="string"),
        pd.Series([Decimal("1.1"), Decimal("1.3"), None]),
        pd.Series([Decimal("1.1"), 3, float("nan")]),
        pd.Series([1, 3, pd.NA], dtype=object),
        pd.Series(pd.DatetimeIndex(["2024-01-01", "2024-01-02", pd.NaT])),
        pd.Series(pd.DatetimeIndex(["2024-01-01", "2024-01-02", pd.NaT]).tz_localize("UTC")),
        pd.Series(pd.to_timedelta([1, 2, None])),
        pd.Series([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
        pd.Series([BIG, BIG + 1, None], dtype="Int64"),
        pd.Series([-(2**63), -(2**63) + 1, None], dtype="Int64"),
        pd.Series([2**64 - 2, 2**64 - 1, None], dtype="UInt64"),
        pd.Series([-np.inf, 1.0, np.nan]),
        pd.Series([1.0, np.inf, np.nan]),
        pd.Series([-np.inf, np.inf, np.nan]),
    ],
    ids=lambda column: f"{column.dtype}-{column.iloc[1]}",
)
def test_a_gap_of_any_type_is_imputed_and_values_compare_exactly(column):
    frame = pd.DataFrame({"x": column, "same": 0})
    found = fl.skyline(frame, {"x": "max", "same": "max"}, certainty="possible")
    finite = not (column == -np.inf).any() and not (column == np.inf).any()
    if finite:  # the gap is either of two values
        assert found.index.tolist() == [1, 2]
        assert found["probability"].tolist() == [1.0, 0.5]
        assert found["certainty"].tolist() == ["certain", "possible"]
    else:
        assert found.index.tolist()[0] == 1
    assert found["x"].dtype == column.dtype


@pytest.mark.parametrize("kind", [pl.Int64, pl.Float32, pl.String, pl.Categorical, pl.Decimal(10, 2)])
def test_polars_types_compare(kind):
    frame = pl.DataFrame({"x": ["1", "3", None]}).with_columns(pl.col("x").cast(kind))
    assert fl.skyline(frame, {"x": "max"}, certainty="possible")["probability"].to_list() == [1.0, 0.5]


def test_infinities_compare_and_teach_nothing():
    frame = pd.DataFrame({"x": [np.inf, 1.0, 2.0, np.nan], "y": [0.0, 1.0, 1.0, 1.0]})
    found = fl.skyline(frame, {"x": "max", "y": "max"}, certainty="possible")
    assert found["probability"].to_dict() == {0: 1.0, 2: 1.0, 3: 0.5}


# --- What goes wrong --------------------------------------------------------------------------------------------------

skyline: Any = fl.skyline
FAR = [2**60, 2**60 + 1, -(2**60)]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: skyline(WAYS, HOTELS), "the table comes first"),
        (lambda: skyline(HOTELS[["price", "rating"]], ["min", "max"]), "{'price': 'min', 'rating': 'max'}; it is ["),
        (lambda: skyline(HOTELS, "price"), "{'price': 'min'}; it is 'price'"),
        (lambda: skyline(HOTELS, None), "maps columns to 'min' or 'max'"),
        (lambda: skyline(HOTELS, {}), "no column counts"),
        (lambda: skyline(HOTELS, {"min": "price"}), "{'price': 'min'}"),
        (lambda: skyline(HOTELS, {"pric": "min"}), "Did you mean 'price'?"),
        (lambda: skyline(HOTELS, {"price": "low"}), "Did you mean 'min'?"),
        (lambda: skyline(HOTELS, {"price": "MAX"}), "Did you mean 'max'?"),
        (lambda: skyline(HOTELS, {"price": "minn"}), "Did you mean 'min'?"),
        (lambda: skyline(HOTELS, {"price": "min", "name": "diff"}), "write by='name'"),
        (lambda: skyline(HOTELS, {"name": "min"}), "row 7 cannot be compared: 'name' is 'Alder'"),
        (lambda: skyline(HOTELS, WAYS, by="price"), "to be compared and to make groups"),
        (lambda: skyline(HOTELS, WAYS, by="nam"), "Did you mean 'name'?"),
        (lambda: skyline(HOTELS, WAYS, certainty="certin"), "Did you mean 'certain'?"),
        (lambda: skyline(HOTELS, WAYS, top=0), "top is 0"),
        (lambda: skyline(HOTELS, WAYS, top=True), "top is True"),
        (lambda: skyline(HOTELS, WAYS, alpha=1), "alpha is 1"),
        (lambda: skyline(HOTELS.assign(price=None), WAYS), "all 5 values of 'price' are missing"),
        (lambda: skyline(HOTELS.to_numpy(), WAYS), "an array has no names of columns"),
        (lambda: skyline("hotels.csv", WAYS), "that is a str, and no table"),
        (lambda: skyline({"price": 1, "rating": 2}, WAYS), "a list of values for each column"),
        (lambda: skyline(pd.concat([HOTELS, HOTELS], axis=1), WAYS), "several columns 'price'"),
        (lambda: skyline(pd.DataFrame({"x": FAR}), {"x": "max"}), "more digits than a float has"),
        (lambda: skyline(pd.DataFrame({"x": [0, 2**70, 2**70 + 1]}), {"x": "max"}), "more digits than a float has"),
        (lambda: skyline(pd.DataFrame({"x": [np.inf, sys.float_info.max]}), {"x": "max"}), "scale those down"),
        (lambda: skyline(pd.DataFrame({"x": [{"a": 1}]}), {"x": "max"}), "holds no numbers; leave it out"),
        (lambda: skyline([{"x": [(1, 1), (2, 1)], "y": 1}, {"x": 1, "y": None}], {"x": "max", "y": "max"}), "distr"),
        (lambda: skyline([{"x": [(1, 1), (2, 1)]}, {"x": None}], {"x": "max"}), "'x' has gaps, which cannot be learnt"),
    ],
)
def test_mistakes_have_one_sentence_with_the_way_out(call, text):
    with pytest.raises(fl.FoglineError) as caught:
        call()
    assert text in str(caught.value)
    assert len(str(caught.value)) < 250


# --- With a query -----------------------------------------------------------------------------------------------------

QUERY = fl.Query(WAYS, id="name", time="t", lifetime=1)


def test_with_a_query_the_table_is_the_one_it_was_and_more_can_be_asked():
    found = fl.skyline(HOTELS, QUERY)
    assert found.column_names == ["name", "probability", "probability_error", "price", "rating", "row"]
    possible = fl.skyline(HOTELS, QUERY, certainty="possible")
    assert possible["certainty"].to_pylist() == ["possible", "likely", "likely"]
    assert possible["row"].to_pylist() == [7, 9, 10]
    assert fl.skyline(HOTELS, QUERY, alpha=0.9).num_rows == 0
    assert fl.skyline(HOTELS, QUERY, top=1)["stands_for"].to_pylist() == [2]
    with pytest.raises(fl.errors.QueryError, match="by= goes with a mapping"):
        fl.skyline(HOTELS, QUERY, by="name")
