"""Is the answer over a static table the one that the definitions give, and that a Monitor would?"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fogline as fl
from fogline.engine import table as once
from fogline.kernels.instances import ROOM
from fogline.kernels.static import front, surely_dominated
from fogline.tables import judge
from tests import oracle
from tests.contracts import CLOSE, agree, as_arrow, members, query_of
from tests.strategies import Stream, batches_at, questions


def by_monitor(table: pa.Table, query: fl.Query, repository: fl.Repository | None = None) -> pa.Table:
    """The same, as a window that all rows enter at one tick: what a live set makes of it."""
    rows = table.append_column("number", pa.array(np.arange(table.num_rows)))
    rows = rows.append_column("instant", pa.array(np.zeros(table.num_rows, np.int64)))
    fields = query.to_dict() | {"id": "number", "time": "instant", "last": max(1, table.num_rows)}
    asked = {name: value for name, value in fields.items() if name not in ("expires", "lifetime")}
    monitor = fl.Monitor(fl.Query.from_dict(asked), repository, remember=False)
    monitor.advance(0, rows)
    answer = monitor.answer().drop_columns(["certainty"]).sort_by([("number", "ascending")])
    named = table.column(query.id).take(answer["number"])
    position = answer["number"]
    answer = answer.set_column(answer.schema.get_field_index("number"), query.id, named).drop_columns(["instant"])
    return answer.append_column("row", position)


def same(given: pa.Table, reference: pa.Table) -> None:
    """Equal tables, but for rounding of probabilities."""
    assert given.schema.equals(reference.schema)
    numbers = ["probability"]
    assert given.drop_columns(numbers).to_pylist() == reference.drop_columns(numbers).to_pylist()
    for name in numbers:
        np.testing.assert_allclose(given[name].to_numpy(), reference[name].to_numpy(), rtol=0, atol=CLOSE)


@st.composite
def tables(draw) -> Stream:
    """Rows that are all there at once, with ties and distributions, in one group or several."""
    groups = draw(st.sampled_from([1, 3]))
    question: Stream = draw(questions("lifetime", groups))
    [rows] = draw(batches_at(question, [[0] * draw(st.integers(1, 9))], groups))
    named = [row | {"id": k} for k, row in enumerate(rows)]
    return replace(question, calls=[(0, named)], window={"lifetime": 5})


@given(tables())
def test_the_answer_is_the_one_of_possible_worlds_and_of_a_monitor(stream):
    [(_, table)] = as_arrow(stream).calls
    query = query_of(stream)
    answer = fl.skyline(table, query)
    *_, tick = oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)
    given = {(*(row[each] for each in stream.by), row["id"], 0): row["probability"] for row in answer.to_pylist()}
    agree(given, members(tick.probabilities, stream.alpha))
    same(answer, by_monitor(table, query))


@given(tables())
def test_what_most_likely_beats_a_row_is_what_the_definitions_give(stream):
    [(_, table)] = as_arrow(stream).calls
    query = query_of(stream)
    judged, _ = judge(table, query, explain=True)
    why = fl.skyline(table, query, explain=True)["why"].to_pylist()
    *_, tick = oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)
    clouds = {cloud.id: (cloud, window) for window in tick.windows.values() for cloud in window}
    for row, strong, chances, sentence in zip(judged.rows, judged.strong.tolist(), judged.chance, why, strict=True):
        cloud, window = clouds[row]
        open_ = [o for o in window if not any(oracle.chance(other, o) == 1 for other in window)]
        found = [oracle.chance(other, cloud) for other in open_ if other is not cloud]
        most = [*sorted((float(p) for p in found), reverse=True), 0, 0][:2]
        assert chances.tolist() == pytest.approx(most, abs=CLOSE)
        for g, chance in zip(strong, chances, strict=True):
            assert (g >= 0) == (chance > 0)
            assert g < 0 or float(oracle.chance(clouds[g][0], cloud)) == pytest.approx(chance, abs=CLOSE)
        assert sentence.startswith(f"{row} is in the answer")
        assert all(f"{g} beats it with" in sentence for g in strong if g >= 0)


def test_why_states_what_was_imputed_and_what_may_beat_a_row():
    rows = [{"x": 5, "y": 3.0}, {"x": 4, "y": None}, {"x": 1, "y": 4.0}, {"x": 0, "y": 1.0}]
    why = [row["why"] for row in fl.skyline(rows, {"x": "max", "y": "max"}, certainty="possible", explain=True)]
    assert why[0] == "'row 0' is in the answer under every value that was imputed: no row beats it."
    assert why[1].startswith(
        "'row 1' is out of the answer with probability 0.3333, which is not above 0.5: its missing y"
    )
    assert "likely 1 to 4; 'row 0' beats it with" in why[1]
    labelled = fl.skyline(pd.DataFrame(rows, ["a", "b", "c", "d"]), {"x": "max", "y": "max"}, explain=True)
    assert labelled["why"].tolist()[0] == "'a' is in the answer under every value that was imputed: no row beats it."
    limited = fl.Query({"x": "max", "y": "max"}, id="s", time="t", lifetime=1, limits={"y": (0, 3)}, alpha=0.1)
    named = [{"s": "a", "x": 5, "y": 1.0}, {"s": "b", "x": 4, "y": 9.0}, {"s": "c", "x": 1, "y": 3.0}]
    found = dict(zip("abc", fl.skyline(named, limited, explain=True)["why"].to_pylist(), strict=True))
    assert "its y of 9 was outside 0…3 and is treated as missing, likely 1 to 3; 'a' beats it with" in found["b"]
    assert fl.skyline(pa.table({"s": ["a"], "x": [1.0], "y": [1.0]}).slice(1), limited, explain=True).num_rows == 0


def test_imputed_times_are_not_shown_as_numbers():
    rows = [{"x": datetime(2024, 1, 1)}, {"x": None}]
    assert len(fl.skyline(rows, {"x": "max"})) == 2
    with pytest.raises(
        fl.errors.QueryError, match="shows imputed values as numbers, and 'x' holds times; make numbers"
    ):
        fl.skyline(rows, {"x": "max"}, explain=True)


CELL = st.sampled_from([0.0, 1.0, 2.0, 3.0, None])


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=12), st.sampled_from([0, 0.1, 0.5, 0.9]))
def test_gaps_are_filled_as_a_monitor_fills_them(rows, alpha):
    table = pa.table(
        {name: pa.array(column, pa.float64()) for name, column in zip("xyz", zip(*rows, strict=True), strict=True)}
    )
    table = table.append_column("s", pa.array(range(len(rows))))
    query = fl.Query(attributes={"x": "max", "y": "min", "z": "max"}, id="s", time="t", lifetime=1, alpha=alpha)
    history = [{"x": a, "y": b, "z": a + b} for a in range(3) for b in range(4)]
    repository = fl.Repository.fit(history, query, rules=["x(0), y(1) -> z(9)", "z(1) -> y(9)"])
    same(fl.skyline(table, query, repository), by_monitor(table, query, repository))


def dependent(n: int, gaps: float, seed: int = 1) -> pa.Table:
    """Two numbers and their sum, with noise; some are missing."""
    rng = np.random.default_rng(seed)
    x, y = rng.random(n), rng.random(n)
    values = {"x": x, "y": y, "z": 2 - x - y + 0.02 * rng.normal(size=n)}
    cells = {name: pa.array(each, mask=rng.random(n) < gaps) for name, each in values.items()}
    return pa.table({"s": np.arange(n), **cells})


QUERY = fl.Query(attributes={"x": "max", "y": "max", "z": "max"}, id="s", time="t", lifetime=1)


@pytest.mark.parametrize("alpha", [0, 0.3, 0.5])
def test_other_attributes_fill_gaps_as_in_a_monitor(alpha):
    query = fl.Query.from_dict(QUERY.to_dict() | {"alpha": alpha})
    table = dependent(400, 0.2)
    repository = fl.Repository.fit(dependent(600, 0.1, seed=2), query, method="others")
    assert set(repository.others) == {"x", "y", "z"}
    same(fl.skyline(table, query, repository), by_monitor(table, query, repository))


def test_rows_with_very_many_places_are_left_to_a_live_set(monkeypatch):
    query, rng = fl.Query.from_dict(QUERY.to_dict() | {"alpha": 0.05}), np.random.default_rng(5)
    cells = {name: [[{"value": v, "weight": 1.0} for v in rng.random(20).tolist()] for _ in range(6)] for name in "xyz"}
    table = pa.table({"s": np.arange(6), **cells})
    assert ROOM < 20**3
    asked = []
    monkeypatch.setattr(once, "chances", lambda *_: asked.append(1))
    same(fl.skyline(table, query), by_monitor(table, query))
    assert not asked


def test_equal_rows_are_all_in():
    n = 3_000
    table = pa.table({"s": np.arange(n), **{name: np.ones(n) for name in "xyz"}})
    answer = fl.skyline(table, QUERY)
    assert answer["s"].to_pylist() == list(range(n))
    assert set(answer["probability"].to_pylist()) == {1.0}


def test_no_rows_have_no_answer():
    table = dependent(0, 0.0)
    assert fl.skyline(table, QUERY).num_rows == 0
    assert fl.skyline(table, QUERY).column_names == ["s", "probability", "probability_error", "x", "y", "z", "row"]


def test_a_value_outside_its_limits_is_imputed_from_the_table_too():
    query = fl.Query.from_dict(QUERY.to_dict() | {"limits": {"x": [0, 1]}})
    table = [{"s": "wrong", "x": 99.0, "y": 0.0, "z": 0.0}, {"s": "right", "x": 0.5, "y": 0.5, "z": 0.5}]
    assert fl.skyline(table, query)["s"].to_pylist() == ["right"]


POINTS = st.lists(st.tuples(st.integers(0, 1), *[st.integers(0, 3)] * 3), min_size=0, max_size=30)


def naive_front(group, points):
    def beats(a, b):
        return (a >= b).all() and (a > b).any()

    rows = range(len(points))
    return [k for k in rows if not any(group[i] == group[k] and beats(points[i], points[k]) for i in rows)]


@given(POINTS)
def test_the_front_of_points(drawn):
    cells = np.array(drawn, np.float64).reshape(-1, 4)
    group, points = cells[:, 0].astype(np.int64), np.ascontiguousarray(cells[:, 1:])
    found, best = front(group, points, 2)
    assert found.tolist() == naive_front(group, points)
    expected = np.ones(len(points), np.bool_)
    expected[found] = False
    assert surely_dominated(best, group, points).tolist() == expected.tolist()


@pytest.mark.parametrize("top", [3, 1000])
def test_the_front_of_many_points(top):
    points = np.random.default_rng(top).integers(0, top, (900, 3)).astype(np.float64)
    group = np.zeros(len(points), np.int64)
    assert front(group, points, 1)[0].tolist() == naive_front(group, points)
