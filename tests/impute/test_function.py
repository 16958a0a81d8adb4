"""May a function of the user's own impute?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import FoglineError, HistoryError, RowsError
from fogline.impute import knn
from fogline.impute.chain import Chain
from fogline.impute.fill import filled, look
from fogline.impute.own import as_imputer
from fogline.impute.protocol import BaseImputer, points
from fogline.repository.repository import Repository
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader
from tests.walks import QUERY, walks

PLAIN = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=5, limits={"a": (0, 100)})
ROWS: list[dict[str, Any]] = [
    {"id": 1, "t": 0, "a": 1.0, "b": 2.0, "site": "x"},
    {"id": 2, "t": 0, "a": None, "b": 2.0, "site": "y"},
    {"id": 3, "t": 0, "a": 999.0, "b": None, "site": "x"},  # outside its limits: missing
]


def cells(rows, imputer):
    """The cells of each attribute as lists of (value, weight), after the imputer was asked; weights add up to 1."""
    chain, decoded = Chain([as_imputer(imputer, PLAIN)], PLAIN), Reader(PLAIN).read(rows, Kinds())
    uncertain = filled(chain, look(chain, decoded)).uncertain
    assert decoded.refused == {}
    out: dict[str, list[Any]] = {}
    for j, (name, sign) in enumerate(zip(PLAIN.names, PLAIN.signs, strict=True)):
        out[name] = []
        for i in range(len(uncertain.lo)):
            start, size = uncertain.start[i, j], uncertain.size[i, j]
            if start < 0:
                out[name].append([] if np.isnan(uncertain.lo[i, j]) else [(float(uncertain.lo[i, j] * sign), 1.0)])
            else:
                part = slice(start, start + size)
                out[name].append(
                    sorted(zip(uncertain.value[part] * sign, uncertain.weight[part].tolist(), strict=True))
                )
    return out


def always(name, value):
    """A function that knows one thing."""
    return lambda rows: {name: [value] * rows.num_rows}


@pytest.mark.parametrize("form", [list, pa.Table.from_pylist, pd.DataFrame])
def test_a_function_gets_the_rows_with_gaps_and_fills_only_gaps(form):
    seen = []

    def impute(rows):
        seen.append(rows.select(["id", "a", "b", "site"]).to_pylist())
        return {"a": [[(7, 1), (8, 3)], None], "b": [100.0, 50.0]}

    found = cells(form(ROWS), impute)
    assert seen == [
        [{"id": 2, "a": None, "b": 2.0, "site": "y"}, {"id": 3, "a": None, "b": None, "site": "x"}],
    ]
    assert found["a"] == [[(1.0, 1.0)], [(7.0, 0.25), (8.0, 0.75)], []]  # still open
    assert found["b"] == [[(2.0, 1.0)], [(2.0, 1.0)], [(50.0, 1.0)]]


@pytest.mark.parametrize("given", [5.0, np.float64(5), np.array(5.0), "12", {"b": 1, "c": 2}])
def test_one_number_for_all_rows_is_no_column_of_answers(given):
    with pytest.raises(RowsError, match=r"of 'a' for 2 rows; it returns a list, or an array, with one for each"):
        cells(ROWS, lambda rows: {"a": given})


def test_an_attribute_of_which_a_function_knows_nothing_may_be_none():
    assert cells(ROWS, lambda rows: {"a": None, "b": [100.0, 50.0]})["b"][2] == [(50.0, 1.0)]


def test_distributions_that_rows_come_with_stay_and_no_function_is_asked_without_need():
    def never(rows):
        raise AssertionError

    row = {"id": 1, "t": 0, "a": [(1, 1), (2, 1)], "b": 2.0}
    assert cells([row], never)["a"] == [[(1.0, 0.5), (2.0, 0.5)]]


def test_what_a_function_does_not_know_is_left_to_the_repository():
    history = pa.table({"a": [3.0, 3.0, 5.0], "b": [1.0, 1.0, 9.0]})
    repository = Repository.fit(history, PLAIN, rules=["b(0) -> a(0)"])
    monitor = fl.Monitor(PLAIN, repository, imputer=lambda rows: {"a": [4.0] + [None] * (rows.num_rows - 1)})
    rows = [{"id": k, "t": 0, "a": None, "b": b} for k, b in enumerate([1.0, 1.0])]
    answer = monitor.advance(0, rows).to_pylist()
    assert [row["id"] for row in answer] == [0]  # 4 beats 3
    alone = fl.Monitor(PLAIN, imputer=lambda rows: {})
    with pytest.warns(fl.RowsRejectedWarning, match="there is no repository to impute it from"):
        alone.advance(0, rows)
    assert alone.counts["rejected"] == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([1, 2], "not a mapping"),
        ({"c": [1, 2]}, "no attribute of the query"),
        ({"a": [1]}, "returned 1 cell of 'a' for 2 rows"),
        ({"a": ["many", "few"]}, "cannot be read"),
        ({"a": [[(1, "heavy")], None]}, "cannot be read"),
    ],
)
def test_what_cannot_be_an_answer_is_refused_with_a_reason(answer, reason):
    with pytest.raises(RowsError, match=reason):
        cells(ROWS, lambda _: answer)


def test_an_imputer_is_an_imputer_or_a_function():
    with pytest.raises(FoglineError, match="is an Imputer, or a function from a record batch"):
        fl.Monitor(PLAIN, imputer="mean")  # type: ignore[arg-type]


def test_a_restored_monitor_is_given_its_imputer_again():
    impute = always("a", 50.0)
    monitor = fl.Monitor(PLAIN, imputer=impute)
    monitor.advance(0, ROWS[:1])
    again = fl.Monitor.restore(PLAIN, monitor.snapshot(), imputer=impute)
    assert again.advance(1, [{"id": 9, "t": 1, "a": None, "b": 0.0}]).column("change").to_pylist() == ["leave", "enter"]


def test_neighbours_are_near_in_what_is_known():
    history = pa.table({"a": [1.0, 2.0, 50.0, 51.0, 99.0], "b": [1.0, 1.1, 5.0, 5.1, 9.0]})
    found = cells([{"id": 1, "t": 0, "a": None, "b": 5.0}], knn(history, PLAIN, k=2))
    assert found["a"] == [[(50.0, 0.5), (51.0, 0.5)]]
    with pytest.raises(HistoryError, match="too few"):
        knn(history, PLAIN, k=6)
    with pytest.raises(HistoryError, match="number of neighbours"):
        knn(history, PLAIN, k=0)


def test_last_repeats_the_last_reading_and_mean_gives_the_mean():
    stream = walks(steps=20, gaps=0.2, begin=200)
    by_last = fl.impute.distributions(stream, QUERY, Repository.fit(walks(), QUERY, method="last")).to_pandas()
    assert (by_last["probability"] == 1).all()
    whole = pa.concat_tables([walks(), stream]).to_pandas().sort_values("t", kind="stable")
    for name in ("heat", "light"):
        filled = whole.groupby("sensor")[name].ffill()
        expected = filled[whole[name].isna()].tolist()
        by_row = by_last[by_last["attribute"] == name]
        assert by_row["value"].tolist() == expected
    mean = fl.impute.distributions(stream, QUERY, Repository.fit(walks(), QUERY, method="mean")).to_pandas()
    heat = mean[mean["attribute"] == "heat"]["value"].unique()
    np.testing.assert_allclose(heat, [walks()["heat"].to_numpy().mean()])


def test_an_unknown_method_is_an_error():
    with pytest.raises(HistoryError, match="it may be 'held-out', 'paper', 'last', 'mean'"):
        Repository.fit(walks(steps=5), QUERY, method="lost")


def test_rows_that_cannot_be_read_are_refused_as_without_an_imputer():
    rows = [{**ROWS[0], "a": "abc"}, ROWS[1]]
    seen = []

    def impute(rows):
        seen.extend(rows.column("id").to_pylist())
        return {"a": [5.0] * rows.num_rows}

    with_one, without = fl.Monitor(PLAIN, imputer=impute), fl.Monitor(PLAIN)
    with_one.advance(0, rows)
    without.advance(0, rows[:1])
    assert [each.reason for each in with_one.rejects] == [each.reason for each in without.rejects]
    assert with_one.rejects[0].row == rows[0]
    assert seen == [2]  # no function is asked about a row that is refused
    assert with_one.stats()["rows"] == 2
    assert with_one.answer()["id"].to_pylist() == [2]
    with_one.advance(1, rows[:1])  # nothing else came
    assert with_one.stats()["rejected"] == 2


def test_what_a_function_imputes_is_not_remembered_as_a_reading():
    impute = always("heat", 99.0)
    monitor = fl.Monitor(QUERY, Repository.fit(walks(), QUERY), imputer=impute)
    monitor.advance(200, [{"sensor": "s1", "t": 200, "heat": None, "damp": 0.0, "light": 0.0}])
    assert monitor.intake is not None
    assert monitor.intake.state is not None
    times, values = monitor.intake.state.arrays()
    number = monitor.intake.state.number["s1",]
    assert times[number, :, 0].tolist() == [199, 200, 200]
    assert 99.0 not in values[number, 0]
    assert monitor.scores() == []


def test_neighbours_do_not_depend_on_other_rows_of_the_batch():
    history = pa.table({"a": [1.0, 2.0, 50.0, 51.0, 99.0], "b": [1.0, 1.1, 5.0, 5.1, 9.0]})
    lacking = {"id": 1, "t": 0, "a": None, "b": 9.0}
    alone = cells([lacking], knn(history, PLAIN, k=1))["a"][0]
    both = cells([lacking, {"id": 2, "t": 0, "a": None, "b": [(1.0, 1), (9.0, 1)]}], knn(history, PLAIN, k=1))["a"][0]
    assert alone == both == [(99.0, 1.0)]


def test_a_monitor_shows_the_imputer_it_was_given():
    impute = always("a", 50.0)
    assert fl.Monitor(PLAIN, imputer=impute).imputer is impute


def test_a_cell_that_makes_no_sense_rejects_its_row_and_no_other():
    def impute(rows):
        return {"a": [[(float("nan"), 1)], [(5.0, 1)]]}

    monitor = fl.Monitor(PLAIN, imputer=impute)
    monitor.advance(0, [{"id": k, "t": 0, "a": None, "b": 1.0} for k in (1, 2)])
    assert [(each.row["id"], each.reason) for each in monitor.rejects] == [
        (1, "'a' holds a value that is missing or not finite")
    ]
    assert monitor.answer()["id"].to_pylist() == [2]


def test_imputed_values_outside_the_limits_do_not_count():
    monitor = fl.Monitor(PLAIN, imputer=always("a", [(50.0, 1), (5000.0, 1)]))
    monitor.advance(0, [{"id": 1, "t": 0, "a": None, "b": 1.0}])
    assert monitor.explain(1)[0].row.values["a"] == ((50.0, 1.0),)


class Ranks(BaseImputer):
    """Imputes what it keeps of a row: its rank."""

    name, width = "ranks", 1

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def look(self, rows):
        return self.kept(len(rows.values))

    def able(self, known, j):
        return np.isfinite(known[:, 0])

    def distributions(self, known, j):
        return points(known[:, 0])


def test_what_an_imputer_keeps_is_as_wide_as_promised_and_none_of_it_is_infinite():
    rows = [{"id": 1, "t": 0, "a": None, "b": 2.0}]
    for kept, words in (
        (lambda n: np.full((n, 1), np.inf), r"'ranks' keeps \+inf of a row.*NaN or a finite number"),
        (lambda n: np.zeros((n, 2)), r"looked at 1 row and returned an array of the shape \(1, 2\).*\(1, 1\)"),
        (lambda n: np.zeros(n), r"looked at 1 row and returned an array of the shape \(1,\)"),
    ):
        monitor = fl.Monitor(PLAIN, imputer=Ranks(kept))
        saved = monitor.snapshot()
        with pytest.raises(FoglineError, match=words):
            monitor.advance(0, rows)
        assert monitor.snapshot() == saved
    monitor = fl.Monitor(PLAIN, imputer=Ranks(lambda n: np.ones((n, 1))))
    assert monitor.advance(0, rows)["probability"].to_pylist() == [1.0]


def test_an_imputer_that_lacks_something_is_named_with_what_it_lacks():
    class Bare:
        name = "bare"

        def look(self, rows):
            return np.zeros((len(rows.values), 1))

    bare: Any = Bare()
    with pytest.raises(
        FoglineError, match=r"imputer Bare lacks width, lasting, able, bounds, distributions, sources; derive it from"
    ):
        fl.Monitor(PLAIN, imputer=bare)
    unmade: Any = Ranks
    with pytest.raises(FoglineError, match=r"imputer is the class Ranks; give an object of it, Ranks\(…\)"):
        fl.Monitor(PLAIN, imputer=unmade)
    known, base = np.zeros((1, 1)), BaseImputer()
    unsaid: Any = None
    for ask in (lambda: base.look(unsaid), lambda: base.able(known, 0), lambda: base.bounds(known, 0)):
        with pytest.raises(NotImplementedError):
            ask()
