"""Is every number compared as the number it is, or rejected with the reason?"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fogline as fl
from fogline.pipeline.plan import make_plan
from fogline.query import as_real
from fogline.rows.cells import reals
from fogline.runs.config import EMBEDDED, RunConfig
from tests.flow.driving import Engine, changes_of, rows_of
from tests.flow.embedding import run

FAR = 2**53
QUERY = fl.Query(attributes={"x": "max"}, id="id", time="t", lifetime=100)
LONG = Decimal("0.1234567890123456")
UNHELD = [FAR + 1, -FAR - 1, np.longdouble(FAR) + 1, 2**60 + 1, 10**23, LONG, Decimal(10**23), 10**400, str(FAR + 1)]
HELD = [FAR, 2**60, Decimal(2**60), Decimal("0.1"), Decimal("123456789012.345"), "1e23", "0.30000000000000004", True]


def rows_with(cells: list[Any]) -> list[dict[str, Any]]:
    return [{"id": k, "t": 0, "x": cell} for k, cell in enumerate(cells)]


@pytest.mark.parametrize("cell", [*UNHELD, [(FAR + 1, 1), (0, 1)], [{"value": LONG, "weight": 1}]], ids=repr)
def test_a_value_that_no_float_holds_rejects_its_row_and_no_other(cell):
    monitor = fl.Monitor(QUERY)
    changes = monitor.advance(0, rows_with([cell, 1.0]))
    assert changes["id"].to_pylist() == [1]
    assert [reject.row["x"] for reject in monitor.rejects] == [cell]
    assert "float64 cannot hold exactly; subtract an offset" in monitor.rejects[0].reason


@pytest.mark.parametrize("cell", HELD, ids=repr)
def test_a_value_that_a_float_holds_is_shown_as_it_came(cell):
    monitor = fl.Monitor(QUERY)
    assert monitor.advance(0, rows_with([cell]))["x"].to_pylist() == [float(cell)]


COLUMNS = [
    pa.array([FAR, FAR + 1]),
    pa.array([FAR, FAR + 1], pa.uint64()),
    pa.array([Decimal("0.1"), LONG]),
    pa.array([Decimal(FAR), Decimal(FAR + 1)], pa.decimal256(40, 3)),
    pa.array([str(FAR), str(FAR + 1)]),
    pa.array([[{"value": FAR, "weight": 1}], [{"value": FAR + 1, "weight": 1}]]),
    pa.array([None, [{"value": FAR + 1, "weight": 1}]]).slice(1),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_monitor_and_pipelines_reject_the_same_rows_of_a_table(column, tmp_path):
    n = len(column)
    table = pa.table({"id": list(range(n)), "t": [0] * n, "x": column})
    monitor = fl.Monitor(QUERY)
    taken = monitor.advance(0, table)["id"].to_pylist()
    reasons = [reject.reason for reject in monitor.rejects]
    assert taken == list(range(n - 1))
    assert "float64 cannot hold exactly" in reasons[0]

    plan = make_plan(QUERY, table.schema)
    journal = Engine(plan).batch([table])
    assert changes_of(journal, plan)["id"].to_pylist() == taken
    assert [row["reason"] for row in rows_of(journal, "rejects")] == reasons

    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    run(RunConfig(str(tmp_path / "in"), str(tmp_path / "out"), QUERY, None, engine=EMBEDDED))
    assert pq.read_table(tmp_path / "out" / "rejects")["reason"].to_pylist() == reasons


def test_a_later_file_of_whole_numbers_is_rejected_alike(tmp_path):
    (tmp_path / "in").mkdir()
    for k, column in enumerate([pa.array([0.5, 1.5]), pa.array([FAR + 1, 2**60])]):
        table = pa.table({"id": [2 * k, 2 * k + 1], "t": [0, 0], "x": column})
        pq.write_table(table, tmp_path / "in" / f"{k}.parquet")
    run(RunConfig(str(tmp_path / "in"), str(tmp_path / "out"), QUERY, None, engine=EMBEDDED))
    rejects = pq.read_table(tmp_path / "out" / "rejects")["reason"].to_pylist()
    assert len(rejects) == 1
    assert f"'x' is {FAR + 1}, which float64 cannot hold exactly" in rejects[0]
    assert 2.0**60 in pq.read_table(tmp_path / "out" / "changes")["x"].to_pylist()


def test_decimals_are_the_nearest_floats():
    column = pa.array([Decimal("0.1"), Decimal("99999999999999.5"), None], pa.decimal128(38, 19))
    assert reals(column)[0].to_pylist() == [0.1, 99999999999999.5, None]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**18), max_value=10**18)))
def test_a_column_and_single_numbers_have_one_rule_and_different_numbers_stay_different(numbers):
    values, unheld = reals(pa.array(numbers, pa.decimal128(38, 12)))
    expected = [as_real(each) for each in numbers]
    flags = [False] * len(numbers) if unheld is None else unheld.tolist()
    assert flags == [each is None for each in expected]
    held = [(each, value) for each, value, bad in zip(numbers, values.to_pylist(), flags, strict=True) if not bad]
    assert [value for _, value in held] == [float(each) for each, _ in held]
    assert len({each for each, _ in held}) == len({value for _, value in held})


def test_limits_that_no_float_holds_are_an_error():
    with pytest.raises(fl.errors.QueryError, match="a limit of 'x' is 9007199254740993, which float64 cannot hold"):
        fl.Query(attributes={"x": "max"}, id="id", time="t", last=1, limits={"x": (0, FAR + 1)})


@pytest.mark.parametrize("cells", [[FAR, FAR + 1], [Decimal("0.1"), LONG], [str(FAR), str(FAR + 1)]], ids=repr)
def test_a_history_with_such_values_is_refused_by_name(cells):
    with pytest.raises(fl.FoglineError, match=r"'x' is .* in the history, which float64 cannot hold exactly"):
        fl.Repository.fit([{"x": cell} for cell in cells], QUERY)


# --- A table, once ----------------------------------------------------------------------------------------------------

NANO = [pd.Timestamp(f"2024-01-01T00:00:00.00000000{k}") for k in (1, 2)]
ORDERED = {
    "whole numbers": [FAR, FAR + 1],
    "beyond 64 bits": [2**70, 2**70 + 1],
    "beside an infinity": [-np.inf, FAR, FAR + 1],
    "beside a gap": [None, FAR, FAR + 1],
    "as texts": [str(FAR), str(FAR + 1)],
    "of NumPy, mixed": [np.int64(FAR), FAR + 1],
    "decimals": [LONG, LONG + Decimal("1e-20")],
    "instants": NANO,
    "instants and a gap": [None, *NANO],
    "instants of two sorts": [datetime(2023, 12, 31, 23, 59), *NANO],
    "lengths of time": [pd.Timedelta(1, "ns"), pd.Timedelta(2, "ns")],
    "datetime64": [np.datetime64("2024-01-01", "D"), np.datetime64("2024-01-01T00:00:00.000000001", "ns")],
}


@pytest.mark.parametrize("cells", ORDERED.values(), ids=ORDERED)
@pytest.mark.parametrize(
    "make", [lambda rows: rows, lambda rows: pd.DataFrame(rows, dtype=object)], ids=["dicts", "frame"]
)
def test_in_one_line_values_that_floats_would_merge_stay_apart(cells, make):
    found = fl.skyline(make([{"x": cell, "n": k} for k, cell in enumerate(cells)]), {"x": "max"}, certainty="certain")
    rows = found if isinstance(found, list) else found.to_dict("records")
    assert [row["n"] for row in rows] == [len(cells) - 1]
    assert rows[0]["x"] == cells[-1]


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([0.5, FAR, FAR + 1], "more digits than a float has"),
        ([Decimal("0.5"), FAR, FAR + 1], "more digits than a float has"),
        ([NANO[0], 3], "holds instants without a zone and numbers"),
        ([NANO[0], datetime(2024, 1, 1, tzinfo=UTC)], "instants with a zone and instants without a zone"),
        ([10**5000, 1], "larger than floats can be"),
    ],
)
def test_in_one_line_what_cannot_be_kept_apart_is_an_error(cells, text):
    for table in [{"x": cell} for cell in cells], pd.DataFrame({"x": pd.Series(cells, dtype=object)}):
        with pytest.raises(fl.errors.QueryError, match=text):
            fl.skyline(table, {"x": "max"})


def always(value: float) -> fl.Repository:
    """A repository that knows one value."""
    return fl.Repository.fit([{"x": value}] * 5, QUERY, method="mean")


def winner(cells: list[Any], way: str, repository: fl.Repository) -> Any:
    [row] = fl.skyline([{"x": cell} for cell in cells], {"x": way}, repository)
    return row["x"]


def test_imputed_values_are_compared_with_the_values_that_came():
    assert winner([2**60 + 1024, None], "max", always(2.0**60)) == 2**60 + 1024
    assert winner([2**60 - 1024, None], "max", always(2.0**60)) is None
    with pytest.raises(fl.errors.QueryError, match="which no value of a repository can be compared with exactly"):
        winner([2**60 + 1, None], "max", always(2.0**60))


@pytest.mark.parametrize(("best", "way"), [(np.inf, "max"), (-np.inf, "min")])
def test_an_infinity_is_beyond_what_is_imputed(best, way):
    assert winner([best, 1.0, None], way, always(np.copysign(100.0, best))) == best


@pytest.mark.parametrize("make", [list, pd.DataFrame, pa.Table.from_pylist], ids=["dicts", "frame", "table"])
def test_with_a_query_a_value_that_no_float_holds_is_an_error(make):
    with pytest.raises(fl.errors.QueryError, match="row 0 cannot be compared: 'x' is 9007199254740993"):
        fl.skyline(make(rows_with([FAR + 1, 1])), QUERY)


def test_with_a_query_mixed_rows_have_the_rule_of_a_stream():
    with pytest.raises(fl.errors.QueryError, match="row 0 cannot be compared: 'x' is 9007199254740993"):
        fl.skyline(rows_with([FAR + 1, 0.5]), QUERY)
    assert fl.skyline(rows_with([FAR, 0.5]), QUERY)["id"].to_pylist() == [0]
