"""Can somebody else say what a missing value may be?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError, HistoryError, RowsError
from fogline.impute.function import told
from fogline.impute.knn import knn
from fogline.repository.repository import Repository
from tests.walks import QUERY, walks

PLAIN = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=5, limits={"a": (0, 100)})
ROWS: list[dict[str, Any]] = [
    {"id": 1, "t": 0, "a": 1.0, "b": 2.0, "site": "x"},
    {"id": 2, "t": 0, "a": None, "b": 2.0, "site": "y"},
    {"id": 3, "t": 0, "a": 999.0, "b": None, "site": "x"},  # outside its limits: missing
]


def cells(rows, teller):
    batch, refused = told(rows, PLAIN, teller)
    assert refused == {}
    pairs = {name: batch.column(name).to_pylist() for name in PLAIN.names}
    return {
        name: [[(pair["value"], pair["weight"]) for pair in cell or ()] for cell in column]
        for name, column in pairs.items()
    }


def always(name, value):
    """A teller that knows one thing."""
    return lambda rows: {name: [value] * rows.num_rows}


@pytest.mark.parametrize("form", [list, pa.Table.from_pylist, pd.DataFrame])
def test_a_teller_gets_the_rows_with_gaps_and_fills_only_gaps(form):
    seen = []

    def teller(rows):
        seen.append(rows.select(["id", "a", "b", "site"]).to_pylist())
        return {"a": [[(7, 1), (8, 3)], None], "b": [100.0, 50.0]}

    found = cells(form(ROWS), teller)
    assert seen == [
        [{"id": 2, "a": None, "b": 2.0, "site": "y"}, {"id": 3, "a": None, "b": None, "site": "x"}],
    ]
    assert found["a"] == [[(1.0, 1.0)], [(7.0, 1.0), (8.0, 3.0)], [(999.0, 1.0)]]  # nobody knew better
    assert found["b"] == [[(2.0, 1.0)], [(2.0, 1.0)], [(50.0, 1.0)]]


def test_distributions_that_rows_bring_stay_and_nobody_is_asked_without_need():
    def never(rows):
        raise AssertionError

    row = {"id": 1, "t": 0, "a": [(1, 1), (2, 1)], "b": 2.0}
    assert cells([row], never)["a"] == [[(1.0, 1.0), (2.0, 1.0)]]


def test_what_a_teller_does_not_know_is_left_to_the_repository():
    history = pa.table({"a": [3.0, 3.0, 5.0], "b": [1.0, 1.0, 9.0]})
    repository = Repository.fit(history, PLAIN, rules=["b(0) -> a(0)"])
    monitor = fl.Monitor(PLAIN, repository, imputer=lambda rows: {"a": [4.0] + [None] * (rows.num_rows - 1)})
    rows = [{"id": k, "t": 0, "a": None, "b": b} for k, b in enumerate([1.0, 1.0])]
    answer = monitor.advance(0, rows).to_pylist()
    assert [row["id"] for row in answer] == [0]  # 4 beats 3
    with pytest.raises(RowsError, match="nothing says what it may be"):
        fl.Monitor(PLAIN, imputer=lambda rows: {}).advance(0, rows)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([1, 2], "not a mapping"),
        ({"c": [1, 2]}, "no attribute of the query"),
        ({"a": [1]}, "tells 1 cells of 'a' for 2 rows"),
        ({"a": ["many", "few"]}, "cannot be understood"),
        ({"a": [[(1, "heavy")], None]}, "cannot be understood"),
    ],
)
def test_what_cannot_be_an_answer_is_refused_with_a_reason(answer, said):
    with pytest.raises(RowsError, match=said):
        told(ROWS, PLAIN, lambda _: answer)


def test_an_imputer_is_a_function():
    with pytest.raises(FoglineError, match="is a function from a record batch"):
        fl.Monitor(PLAIN, imputer="mean")  # type: ignore[arg-type]


def test_a_restored_monitor_is_given_its_imputer_again():
    teller = always("a", 50.0)
    monitor = fl.Monitor(PLAIN, imputer=teller)
    monitor.advance(0, ROWS[:1])
    again = fl.Monitor.restore(PLAIN, monitor.snapshot(), imputer=teller)
    assert again.advance(1, [{"id": 9, "t": 1, "a": None, "b": 0.0}]).column("change").to_pylist() == ["leave", "enter"]


def test_neighbours_are_near_in_what_is_known():
    history = pa.table({"a": [1.0, 2.0, 50.0, 51.0, 99.0], "b": [1.0, 1.1, 5.0, 5.1, 9.0]})
    found = cells([{"id": 1, "t": 0, "a": None, "b": 5.0}], knn(history, PLAIN, k=2))
    assert found["a"] == [[(50.0, 1.0), (51.0, 1.0)]]
    with pytest.raises(HistoryError, match="too few"):
        knn(history, PLAIN, k=6)
    with pytest.raises(HistoryError, match="counts neighbours"):
        knn(history, PLAIN, k=0)


def test_last_repeats_what_the_sensor_said_and_mean_tells_the_mean():
    stream = walks(steps=20, gaps=0.2, begin=200)
    told_last = fl.distributions(stream, QUERY, Repository.fit(walks(), QUERY, method="last")).to_pandas()
    assert (told_last["probability"] == 1).all()
    whole = pa.concat_tables([walks(), stream]).to_pandas().sort_values("t", kind="stable")
    for name in ("heat", "light"):
        filled = whole.groupby("sensor")[name].ffill()
        expected = filled[whole[name].isna()].tolist()
        by_row = told_last[told_last["attribute"] == name]
        assert by_row["value"].tolist() == expected
    mean = fl.distributions(stream, QUERY, Repository.fit(walks(), QUERY, method="mean")).to_pandas()
    heat = mean[mean["attribute"] == "heat"]["value"].unique()
    np.testing.assert_allclose(heat, [walks()["heat"].to_numpy().mean()])


def test_a_method_nobody_knows_is_an_error():
    with pytest.raises(HistoryError, match="it may be 'held-out', 'paper', 'last', 'mean'"):
        Repository.fit(walks(steps=5), QUERY, method="lost")


def test_rows_that_cannot_be_read_are_refused_as_without_an_imputer():
    rows = [{**ROWS[0], "a": "abc"}, ROWS[1]]
    seen = []

    def teller(rows):
        seen.extend(rows.column("id").to_pylist())
        return {"a": [5.0] * rows.num_rows}

    with_one, without = fl.Monitor(PLAIN, imputer=teller), fl.Monitor(PLAIN)
    with_one.advance(0, rows)
    without.advance(0, rows[:1])
    assert [each.reason for each in with_one.rejects] == [each.reason for each in without.rejects]
    assert with_one.rejects[0].row == rows[0]
    assert seen == [2]  # nobody is asked about a row that is refused
    assert with_one.stats()["rows"] == 2
    assert with_one.answer()["id"].to_pylist() == [2]
    with_one.advance(1, rows[:1])  # nothing else came
    assert with_one.stats()["rejected"] == 2


def test_what_somebody_else_tells_is_not_remembered_as_said_by_the_sensor():
    teller = always("heat", 99.0)
    monitor = fl.Monitor(QUERY, Repository.fit(walks(), QUERY), imputer=teller)
    monitor.advance(200, [{"sensor": "s1", "t": 200, "heat": None, "damp": 0.0, "light": 0.0}])
    assert monitor.memory is not None
    when, said = monitor.memory.arrays()
    mine = monitor.memory.number["s1",]
    assert when[mine, :, 0].tolist() == [199, 200, 200]
    assert 99.0 not in said[mine, 0]
    assert monitor.scores() == []


def test_neighbours_do_not_depend_on_who_else_is_in_the_batch():
    history = pa.table({"a": [1.0, 2.0, 50.0, 51.0, 99.0], "b": [1.0, 1.1, 5.0, 5.1, 9.0]})
    lacking = {"id": 1, "t": 0, "a": None, "b": 9.0}
    alone = cells([lacking], knn(history, PLAIN, k=1))["a"][0]
    both = cells([lacking, {"id": 2, "t": 0, "a": None, "b": [(1.0, 1), (9.0, 1)]}], knn(history, PLAIN, k=1))["a"][0]
    assert alone == both == [(99.0, 1.0)]
