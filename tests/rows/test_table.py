"""Is a table the same, whatever kind of table it is?

Every function that takes a table takes it through one adapter (`fogline.rows.table.opened`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fogline as fl
from fogline.rows.table import opened

START = dt.datetime(2024, 5, 1, 12, 0)
QUERY = fl.Query({"heat": "max", "cost": "min"}, id="sensor", time="at", lifetime="1 hour", by="hall", alpha=0.1)
ROWS = [
    {
        "sensor": f"s{k % 4}",
        "at": START + dt.timedelta(minutes=k),
        "hall": "NS"[k % 2],
        "heat": None if k % 5 == 0 else float(k * 7 % 11),
        "cost": None if k % 6 == 5 else k * 3 % 8,
        "note": None if k == 3 else f"text {k % 3}",
        "fine": k % 3 == 0,
    }
    for k in range(24)
]
TABLE = pa.Table.from_pylist(ROWS)


class Handed:
    """A table that hands itself over by one interface only."""

    def __init__(self, table: Any, name: str) -> None:
        self._hand = getattr(table, name)
        setattr(type(self), name, lambda self, *given, **more: self._hand(*given, **more))


def by_interface(name: str, table: Callable[[], Any]) -> Any:
    kind: Any = type("Handed", (Handed,), {})
    return kind(table(), name)


KINDS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "table in pieces": lambda: pa.concat_tables([TABLE[:7], TABLE[7:8], TABLE[8:]]),
    "record batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "rare types": lambda: pa.table(
        [
            TABLE["sensor"].cast(pa.string_view()),
            TABLE["at"].cast(pa.timestamp("ns")),
            TABLE["hall"].combine_chunks().dictionary_encode(),
            pa.compute.run_end_encode(TABLE["heat"].combine_chunks()),
            TABLE["cost"].cast(pa.decimal128(21, 2)),
            TABLE["note"].cast(pa.large_string()),
            TABLE["fine"],
        ],
        names=TABLE.schema.names,
    ),
    "pandas": TABLE.to_pandas,
    "pandas of objects": lambda: pd.DataFrame(ROWS, dtype=object, index=range(100, 124)),
    "pandas of Arrow's types": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(TABLE),
    "polars with a column of objects": lambda: pl.from_arrow(TABLE).with_columns(
        pl.Series("odd", [{1}] * len(ROWS), dtype=pl.Object)
    ),
    "polars categories": lambda: pl.from_arrow(TABLE).with_columns(pl.col("hall").cast(pl.Categorical)),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "reader of batches": lambda: TABLE.to_reader(7),
    "__arrow_c_stream__": lambda: by_interface("__arrow_c_stream__", lambda: TABLE),
    "__arrow_c_array__": lambda: by_interface("__arrow_c_array__", lambda: TABLE.combine_chunks().to_batches()[0]),
    "__dataframe__": lambda: by_interface("__dataframe__", lambda: TABLE),
    "dicts": lambda: ROWS,
    "dicts without what is missing": lambda: tuple(
        {name: cell for name, cell in row.items() if cell is not None} for row in ROWS
    ),
    "dict of lists": TABLE.to_pydict,
    "dict of columns of every kind": lambda: {
        "sensor": TABLE["sensor"],
        "at": pl.from_arrow(TABLE)["at"],
        "hall": tuple(row["hall"] for row in ROWS),
        "heat": TABLE["heat"].to_numpy(),
        "cost": TABLE.to_pandas()["cost"],
        "note": [row["note"] for row in ROWS],
        "fine": np.array([row["fine"] for row in ROWS]),
    },
}


def plain(cell: Any) -> Any:
    return cell.to_pydatetime() if isinstance(cell, pd.Timestamp) else cell.item() if hasattr(cell, "item") else cell


def lines(found: Any) -> list[dict[str, Any]]:
    """A table of whatever kind as dicts of Python values; a gap is None."""
    if isinstance(found, pd.DataFrame):
        found = found.to_dict("records")
    elif isinstance(found, pl.DataFrame):
        found = found.to_dicts()
    elif isinstance(found, dict):
        found = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
    elif isinstance(found, pa.Table):
        found = found.to_pylist()
    cells = [{name: plain(cell) for name, cell in row.items()} for row in found]
    return [{name: None if pd.isna(cell) else cell for name, cell in row.items()} for row in cells]


REPOSITORY = fl.Repository.fit(TABLE, QUERY, rules=["cost(1) -> heat(9)", "hall -> cost(9)"])


def advanced(rows: Any) -> Any:
    monitor = fl.Monitor(QUERY, REPOSITORY)
    first = monitor.advance(ROWS[-1]["at"], rows)
    assert monitor.stats()["rows"] == len(ROWS)
    return lines(first), first.schema


def fitted(rows: Any) -> Any:
    found = fl.Repository.fit(rows, QUERY)
    return found.rules, found.history.rows, found.explain()


def skyline(rows: Any) -> Any:
    found = fl.skyline(rows, {"heat": "max", "cost": "min"}, by="hall", certainty="possible")
    return [{name: row[name] for name in ("sensor", "probability", "certainty")} for row in lines(found)]


def skyline_of_a_query(rows: Any) -> Any:
    return lines(fl.skyline(rows, QUERY, REPOSITORY).drop_columns("row"))  # labels of a pandas frame


def verified(rows: Any) -> Any:
    return fl.verify(["cost(1) -> heat(2)", "note, fine -> cost(3)"], rows, QUERY)


def written(rows: Any) -> Any:
    return lines(fl.impute.distributions(rows, QUERY, REPOSITORY))


@pytest.mark.filterwarnings("ignore::fogline.HistoryWarning")
@pytest.mark.parametrize("function", [advanced, fitted, skyline, skyline_of_a_query, verified, written])
@pytest.mark.parametrize("kind", KINDS)
def test_each_function_gives_one_answer_for_every_kind_of_table(kind, function):
    expected, found = function(TABLE), function(KINDS[kind]())
    assert found == expected
    assert len(str(expected)) > 100


def test_a_table_of_one_row_is_one_row_in_every_kind():
    for make in (list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist):
        monitor = fl.Monitor(fl.Query({"v": "max"}, id="id", time="t", lifetime=9))
        assert monitor.advance(1, make([{"id": "a", "t": 1, "v": 2.0}]))["id"].to_pylist() == ["a"]
        assert monitor.advance(2, make([{"id": "b", "t": 2, "v": np.inf}])).num_rows == 0
        assert [each.row for each in monitor.rejects] == [{"id": "b", "t": 2, "v": np.inf}]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict, lambda _: [], lambda _: {}])
def test_no_rows_move_the_clock_alone(make):
    monitor = fl.Monitor(fl.Query({"v": "max"}, id="id", time="t", lifetime=9))
    assert monitor.advance(1, make({"id": [], "t": [], "v": []})).num_rows == 0
    assert monitor.stats()["rows"] == 0


# --- The same kind comes out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "out"),
    [
        ("table", pa.Table),
        ("record batch", pa.Table),
        ("duckdb", pa.Table),
        ("__dataframe__", pa.Table),
        ("pandas", pd.DataFrame),
        ("polars", pl.DataFrame),
        ("dicts", list),
        ("dict of lists", dict),
    ],
)
def test_rows_of_a_table_come_back_in_its_kind(kind, out):
    found = fl.skyline(KINDS[kind](), {"heat": "max", "cost": "min"})
    assert type(found) is out
    assert list(lines(found)[0]) == [*TABLE.schema.names, "probability", "certainty"]
    assert type(fl.impute.distributions(KINDS[kind](), QUERY, REPOSITORY)) is (
        out if out not in (list, dict) else pa.Table
    )


def test_a_dict_of_arrays_gives_arrays():
    found = fl.skyline({"x": np.array([1.0, 2.0]), "y": ["a", "b"]}, {"x": "max"})
    assert isinstance(found["x"], np.ndarray)
    assert found == {"x": np.array([2.0]), "y": ["b"], "probability": [1.0], "certainty": ["certain"]}


# --- What is no table -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (pl.LazyFrame({"x": [1]}), "give frame.collect()"),
        ({"x": [1], "y": 2.0}, "'y' is a float. A single row goes into a list: [row]"),
        ({"x": [1], "y": "no"}, "'y' is a str"),
        ({"x": [1], "y": [1, 2]}, "'x' has 1 values, 'y' 2"),
        ({"x": np.eye(2)}, "a list of values for each column"),
        (np.eye(2), "an array has no names of columns"),
        (pd.Series([1]), "that is a Series, and no table"),
        (pl.Series([1]), "that is a Series, and no table"),
        (pa.array([1]), "that is an Int64Array, and no table"),
        ((row for row in ROWS), "that is a generator, and no table"),
        ([1, 2], "that is a list, and no table"),
        ("rows.csv", "that is a str, and no table"),
    ],
)
def test_what_is_no_table_is_refused_with_the_way_out(given, text):
    with pytest.raises(fl.errors.RowsError) as caught:
        opened(given)
    assert text in str(caught.value)
    with pytest.raises(fl.errors.RowsError):
        fl.Monitor(QUERY).advance(START, given)
    with pytest.raises(fl.errors.RowsError):
        fl.Repository.fit(given, QUERY)


def test_an_imputing_function_sees_columns_of_every_kind():
    for kind, make in KINDS.items():
        source = fl.types.RowSource(make())
        assert set(TABLE.schema.names) <= set(source.names), kind
        heat, none = source.optional("heat"), source.optional("none")
        assert none is None
        assert heat is not None
        assert heat.to_pylist() == TABLE["heat"].to_pylist(), kind
        with pytest.raises(fl.errors.QueryError, match="Did you mean 'cost'"):
            source.require("cots", "attribute")
