"""Is a row certain, likely or possible, as the possible worlds have it?"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from tests import oracle
from tests.changing import changing
from tests.contracts import CLOSE, name_of, query_of
from tests.strategies import Stream, late_streams, streams

NO_WINDOWS: Mapping[Any, tuple[oracle.Cloud, ...]] = {}
FRONTS = ("certain", "likely", "possible")


def trying(examples):
    return settings(
        deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


def in_all_worlds(cloud, window) -> bool:
    """Is there no world, of whatever weight, in which another row beats it?"""
    others = [place for c in window if c is not cloud for place, _ in c.places]
    return not any(oracle.beats(place, own) for place in others for own, _ in cloud.places)


def true_fronts(windows, alpha: Fraction) -> dict[tuple[Any, ...], tuple[str, Fraction]]:
    """(group…, id, arrived) -> front and probability, of all rows that are in under some values."""
    out = {}
    for window in windows.values():
        for cloud in window:
            p = oracle.probability(cloud, window)
            above = p > alpha + (Fraction(CLOSE) if alpha else 0)
            if p > 0:
                out[cloud.key] = "certain" if in_all_worlds(cloud, window) else "likely" if above else "possible", p
    return out


def agree(monitor: fl.Monitor, by: tuple[str, ...], windows, alpha: Fraction, raised: Fraction) -> None:
    for used, given_alpha in ((alpha, None), (raised, float(raised))):
        true = true_fronts(windows, used)
        for k, front in enumerate(FRONTS):
            rows = monitor.answer(certainty=front, alpha=given_alpha).to_pylist()
            found = {name_of(row, by): row for row in rows}
            assert {name: row["certainty"] for name, row in found.items()} == {
                name: kind for name, (kind, _) in true.items() if kind in FRONTS[: k + 1]
            }
            for name, row in found.items():
                assert abs(Fraction(row["probability"]) - true[name][1]) <= CLOSE
                assert row["probability_error"] == 0
    assert monitor.answer().equals(monitor.answer(certainty="likely"))


@trying(60)
@given(streams(groups=2) | late_streams(groups=2), st.sampled_from([Fraction(1, 20), Fraction(1, 3)]))
def test_fronts_are_those_of_the_possible_worlds(stream: Stream, more):
    monitor, windows = fl.Monitor(query_of(stream)), NO_WINDOWS
    ticks = {t.call: t for t in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)}
    raised = min(stream.alpha + more, Fraction(999, 1000))
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        windows = ticks[call].windows if call in ticks else windows
        agree(monitor, stream.by, windows, stream.alpha, raised)


@trying(30)
@given(changing(most=6, bounds_only=False))
def test_where_rows_are_replaced_too(stream):
    query = fl.Query(
        attributes=stream.attributes, id="id", time="t", alpha=float(stream.alpha), latest=True, gone="gone",
        version="v", remember_removed=stream.remember, **stream.window,
    )  # fmt: skip
    monitor, windows = fl.Monitor(query), NO_WINDOWS
    ticks = {t.call: t for t in stream.oracle().ticks()}
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        windows = ticks[call].windows if call in ticks else windows
        agree(monitor, (), windows, stream.alpha, (stream.alpha + 1) / 2)


def monitor_of(cells: dict[str, tuple[Any, Any]], **fields) -> fl.Monitor:
    query = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=9, **fields)
    monitor = fl.Monitor(query)
    monitor.advance(0, [{"id": name, "t": 0, "a": a, "b": b} for name, (a, b) in cells.items()])
    return monitor


def test_almost_certain_is_not_certain_and_a_tie_is():
    monitor = monitor_of({"x": (1, 0), "y": ([(0, 10**12), (2, 1)], 0), "twin": (1, 0)})
    rows = {row["id"]: row for row in monitor.answer().to_pylist()}
    assert {name: row["certainty"] for name, row in rows.items()} == {"x": "likely", "twin": "likely"}
    assert rows["x"]["probability"] == pytest.approx(1.0)
    twins = monitor_of({"x": (1, 0), "twin": (1, 0), "worse": ([(0, 1), (1, 1)], 0)})
    assert {row["id"]: row["certainty"] for row in twins.answer(certainty="possible").to_pylist()} == {
        "x": "certain", "twin": "certain", "worse": "possible"
    }  # fmt: skip


SHOWN = {0: (1, 2), 1: (2, 4), 2: (0, 6), 3: (3,)}  # b -> which a history has seen with it
BOTH = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=9, limits={"a": (0, 100)})


@cache
def imputing() -> fl.Repository:
    history = [{"a": a, "b": b} for b, some in SHOWN.items() for a in some for _ in range(5)]
    return fl.Repository.fit(history, BOTH, rules=["b(0.1) -> a(9)"])


@trying(60)
@given(st.lists(st.tuples(st.none() | st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=6))
def test_certain_is_in_the_skyline_under_every_value_that_was_imputed(cells):
    rows = [{"id": k, "t": 0, "a": a, "b": b} for k, (a, b) in enumerate(cells)]
    worlds = [row | {"a": [(a, 1) for a in SHOWN[row["b"]]]} if row["a"] is None else row for row in rows]
    *_, tick = oracle.replay([(0, worlds)], BOTH.attributes, (), lifetime=9)
    true = {name[0] for name, (front, _) in true_fronts(tick.windows, Fraction(1, 2)).items() if front == "certain"}
    monitor = fl.Monitor(BOTH, imputing())
    monitor.advance(0, rows)
    assert set(monitor.answer(certainty="certain")["id"].to_pylist()) == true
    table = fl.skyline(rows, BOTH, imputing(), certainty="certain")
    assert set(table["id"].to_pylist()) == true


def test_a_value_that_was_not_imputed_may_put_a_certain_row_out():
    top, gap = {"id": "top", "t": 0, "a": 5, "b": 1}, {"id": "gap", "t": 0, "a": None, "b": 1}
    monitor = fl.Monitor(BOTH, imputing())
    monitor.advance(0, [top, gap])
    assert monitor.answer(certainty="certain")["id"].to_pylist() == ["top"]
    assert monitor.explain("top")[0].sentence.startswith("'top' is in the answer under every value that was imputed: ")
    measured = fl.Monitor(BOTH, imputing())
    measured.advance(0, [top, gap | {"a": 6}])  # within its limits
    assert measured.answer()["id"].to_pylist() == ["gap"]


def test_what_is_asked_for_wrongly_is_an_error_with_the_way_out():
    monitor = monitor_of({"x": (1, 0)}, alpha=0.5)
    with pytest.raises(fl.FoglineError, match=r"certainty is 'possibel'; it is one of certain, likely, possible"):
        monitor.answer(certainty="possibel")
    wrong: list[Any] = [0.4, 1.0, float("nan"), "high", True]
    for alpha in wrong:
        with pytest.raises(fl.FoglineError, match=r"can be cut at 0\.5 or more, below 1"):
            monitor.answer(alpha=alpha)
    assert monitor.answer(alpha=0.5).equals(monitor.answer())
    assert fl.Monitor(query_of(Stream({"a": "max"}, Fraction(1, 2), {"lifetime": 3}, []))).answer().num_rows == 0


def test_a_table_that_does_not_move_has_the_same_fronts():
    cells = {"x": (1, 0), "y": ([(0, 1), (2, 1)], 0), "z": ([(0, 3), (3, 1)], 1), "w": (9, 9)}
    monitor = monitor_of(cells, alpha=0.6)
    table = [{"id": name, "t": 0, "a": a, "b": b} for name, (a, b) in cells.items()]
    rows = fl.skyline(table, monitor.query, certainty="possible").to_pylist()
    found = {row["id"]: row["certainty"] for row in rows}
    assert found == {row["id"]: row["certainty"] for row in monitor.answer(certainty="possible").to_pylist()}
    assert set(found.values()) == {"certain", "possible"} or set(found.values()) == set(FRONTS)
    assert all(row["probability"] > 0 for row in rows)
