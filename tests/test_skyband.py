"""Is the answer right where fewer than k others may beat a row?

Random streams in every mode against the oracle at every tick, with `check()` after every call and changes added up;
and the same streams with nothing forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.engine import live, skyband
from fogline.engine.skyband import SkybandLiveSet
from fogline.errors import QueryError
from tests import oracle
from tests.changing import changing as with_gaps
from tests.contracts import CLOSE, agree, as_arrow, drive, members, net, query_of, run
from tests.engine.test_latest import run as run_replaced
from tests.engine.test_revisions import ALPHAS, some_calls
from tests.engine.test_revisions import run as run_revised
from tests.strategies import Stream, cuts, hindsights, late_streams, streams
from tests.test_latest import changing
from tests.test_latest import run as run_latest
from tests.test_static import CELL, by_monitor, same, tables


def trying(examples):
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(deadline=None, max_examples=examples, suppress_health_check=checks)


bands = st.sampled_from([2, 3, 2, 5])


# --- Against the oracle -----------------------------------------------------------------------------------------------


@trying(300)
@given(streams() | streams(groups=3), bands, st.sets(st.integers(0, 8)))
def test_in_every_window_every_tick_has_the_true_skyband(stream, k, resume):
    run(replace(stream, skyband=k), resume)


@trying(200)
@given(st.sampled_from([1, 2]).flatmap(lambda groups: late_streams(groups=groups)), bands, st.sets(st.integers(0, 5)))
def test_late_rows_enter_at_the_clock_and_every_tick_has_the_true_skyband(stream, k, resume):
    run(replace(stream, skyband=k), resume)


@trying(150)
@given(changing(), bands, st.sets(st.integers(0, 6)))
def test_of_the_newest_row_of_each_id_every_tick_has_the_true_skyband(stream, k, resume):
    stream = replace(stream, skyband=k)
    run_latest(stream, fl.Monitor(stream.query), resume)


@trying(100)
@given(streams(groups=2) | late_streams(groups=2), bands, st.sets(st.integers(0, 8)))
def test_a_monitor_resumed_from_snapshots_goes_on_with_identical_changes(stream, k, resume):
    stream = replace(stream, skyband=k)
    for resumed, unbroken in zip(run(stream, resume), drive(stream), strict=True):
        assert resumed.equals(unbroken)


@trying(100)
@given(streams(), bands, st.data())
def test_the_answer_of_every_tick_is_the_same_however_the_rows_are_cut_into_calls(stream, k, data):
    stream = replace(stream, skyband=k)
    rows = sorted(stream.rows, key=lambda row: row["t"])
    some = pa.concat_tables(drive(stream))
    other = pa.concat_tables(drive(replace(stream, calls=data.draw(cuts(rows, stream.end)))))
    for t in sorted({*some["time"].to_pylist(), *other["time"].to_pylist()}):
        agree(net(some, until=t), net(other, until=t), 3 * CLOSE)


@trying(100)
@given(streams(), bands)
def test_without_ticks_the_answer_after_each_call_is_the_same(stream, k):
    query = query_of(replace(stream, skyband=k))
    ticks, batches = fl.Monitor(query), fl.Monitor(query)
    for now, rows in stream.calls:
        ticks.advance(now, rows)
        batches.advance(now, rows, every="batch")
        batches.check()
        assert ticks.answer().equals(batches.answer())


# --- Gaps -------------------------------------------------------------------------------------------------------------


@trying(200)
@given(hindsights(alphas=ALPHAS), bands, st.booleans(), some_calls, some_calls)
def test_every_tick_has_the_true_skyband_when_gaps_are_revised(hindsight, k, eager, resume, reveal):
    stream = replace(hindsight.stream, skyband=k)
    run_revised(replace(hindsight, stream=stream), eager=eager, resume=resume, reveal=reveal)


@trying(60)
@given(hindsights(alphas=ALPHAS), bands, st.booleans(), some_calls)
def test_taken_at_once_the_skyband_at_the_end_of_each_call_is_true_when_gaps_are_revised(hindsight, k, eager, resume):
    stream = replace(hindsight.stream, skyband=k)
    run_revised(replace(hindsight, stream=stream), eager=eager, ticks=False, resume=resume)


@trying(150)
@given(with_gaps(), bands, some_calls, some_calls)
def test_rows_with_gaps_may_be_replaced_and_every_tick_has_the_true_skyband(stream, k, resume, at_once):
    run_replaced(replace(stream, skyband=k), resume, at_once)


@pytest.mark.parametrize("rare", [("COMPACT_FROM", 0), ("WASTE", 1)])
@trying(60)
@given(hindsights(alphas=ALPHAS), with_gaps(), bands, some_calls)
def test_where_gaps_between_slots_are_closed_often_every_tick_is_the_same(rare, hindsight, stream, k, resume):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "COMPACT_FROM", 0)
        patch.setattr(live, *rare)
        run_revised(replace(hindsight, stream=replace(hindsight.stream, skyband=k)), resume=resume)
        run_replaced(replace(stream, skyband=k), resume)


# --- What is forgotten ------------------------------------------------------------------------------------------------


@trying(200)
@given(streams(groups=2) | late_streams(), bands)
def test_forgetting_rows_that_k_beat_as_long_as_they_live_changes_no_bit_of_any_change(stream, k):
    stream = replace(stream, skyband=k)
    forgetting = drive(stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SkybandLiveSet, "_forget", lambda *_: None)
        for one, other in zip(forgetting, drive(stream), strict=True):
            assert one.equals(other)


@trying(100)
@given(streams(window="expires"), bands)
def test_the_rows_that_are_kept_are_those_of_the_oracle(stream, k):
    monitor = fl.Monitor(query_of(replace(stream, skyband=k)))
    ticks = {tick.call: tick for tick in oracle.replay(stream.calls, stream.attributes, **stream.window)}
    kept: set[Any] = set()
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        if call in ticks:
            kept = {(c.id, c.arrived) for window in ticks[call].windows.values() for c in oracle.live(window, k)}
        slots = [group.live.slots for group in monitor.groups.values()]
        there = {(s.id[c], s.columns.arrived[c]) for s in slots for c in s.alive().tolist()}
        assert there == kept


def test_many_rows_at_once_give_what_one_after_the_other_gives(monkeypatch):
    random = np.random.default_rng(7)
    rows = [
        {
            "id": i,
            "t": 0,
            "e": int(random.integers(1, 9)),
            "a": int(random.integers(0, 12)),
            "b": float(random.random()),
        }
        for i in range(1500)
    ]
    query = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", expires="e", skyband=3)
    whole = fl.Monitor(query)
    whole.advance(0, rows)
    whole.check()
    monkeypatch.setattr(skyband, "ROWS", 10**9)
    again = fl.Monitor(query)
    again.advance(0, rows)
    assert whole.answer().equals(again.answer())
    beaten = {row["id"]: sum(_beats(other, row) for other in rows) for row in rows}
    assert set(whole.answer()["id"].to_pylist()) == {name for name, count in beaten.items() if count < 3}
    assert whole.advance(9).equals(again.advance(9))


def _beats(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["a"] >= b["a"] and a["b"] <= b["b"] and (a["a"] > b["a"] or a["b"] < b["b"]))


# --- Probabilities ----------------------------------------------------------------------------------------------------


@trying(40)
@given(streams(most=6), bands)
def test_rows_of_very_many_combinations_lie_within_their_error(stream, k):
    query = query_of(replace(stream, skyband=k, alpha=Fraction(1, 10)))
    monitor = fl.Monitor(query, exact_limit=1)
    ticks = {
        tick.call: tick
        for tick in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window, skyband=k)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(skyband, "WIDTH", 0.2)
        for call, (now, rows) in enumerate(stream.calls):
            monitor.advance(now, rows)
            monitor.check()
            for row in monitor.answer().to_pylist() if call in ticks else []:
                true = ticks[call].probabilities[row["id"], row["t"]]
                assert abs(true - Fraction(row["probability"])) <= Fraction(row["probability_error"] + CLOSE)


@pytest.mark.parametrize(("values", "error"), [(90, 0.0), (400, 0.05)])
def test_a_row_of_very_many_combinations_is_exact_or_bracketed(values, error):
    random = np.random.default_rng(3)

    def row(name: int, values: int) -> dict[str, Any]:
        return {"id": name, "t": 0} | {a: [(float(v), 1) for v in random.random(values)] for a in "abc"}

    rows = [row(0, values), *(row(i, 100) for i in range(1, 13))]
    query = fl.Query(attributes=dict.fromkeys("abc", "max"), id="id", time="t", lifetime=5, skyband=2, alpha=0.05)
    monitor = fl.Monitor(query)
    monitor.advance(0, rows)
    found = {row["id"]: row for row in monitor.answer().to_pylist()}[0]
    draws = [np.stack([random.choice([v for v, _ in row[a]], 200_000) for a in "abc"]) for row in rows]
    beaten = sum((other >= draws[0]).all(axis=0) for other in draws[1:])
    assert found["probability_error"] <= error
    assert abs(float(np.mean(beaten < 2)) - found["probability"]) < 0.005 + found["probability_error"]


@trying(100)
@given(streams(most=8), bands)
def test_certain_rows_are_in_under_all_values_and_possible_ones_under_some(stream: Stream, k):
    monitor = fl.Monitor(query_of(replace(stream, skyband=k)))
    ticks = {tick.call: tick for tick in oracle.replay(stream.calls, stream.attributes, **stream.window, skyband=k)}
    window: Any = ()
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        window = ticks[call].windows.get((), ()) if call in ticks else window
        found = {
            (row["id"], row["t"]): (row["certainty"], row["probability"])
            for row in monitor.answer(certainty="possible").to_pylist()
        }
        true = {c.key: oracle.probability(c, window, k) for c in window}
        assert found.keys() == {key for key, p in true.items() if p > 0}
        for key, (certainty, p) in found.items():
            assert abs(true[key] - Fraction(p)) <= CLOSE
            assert (certainty == "certain") == (true[key] == 1)


# --- Queries ----------------------------------------------------------------------------------------------------------


def test_a_query_shows_its_skyband_and_a_skyline_does_not():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, skyband=3)
    assert "skyband=3" in repr(query)
    assert fl.Query.from_dict(query.to_dict()) == query
    assert "skyband" not in fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, skyband=1).to_dict()


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "2", None])
def test_a_skyband_is_a_whole_number_from_1_on(given):
    with pytest.raises(QueryError, match=r"skyband is .*; it is a whole number, from 1 on"):
        fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, skyband=given)


# --- A table ----------------------------------------------------------------------------------------------------------


@trying(200)
@given(tables(), bands)
def test_the_skyband_of_a_table_is_the_one_of_possible_worlds_and_of_a_monitor(stream, k):
    stream = replace(stream, skyband=k)
    [(_, table)] = as_arrow(stream).calls
    query = query_of(stream)
    answer = fl.skyline(table, query)
    *_, tick = oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window, skyband=k)
    given = {(*(row[each] for each in stream.by), row["id"], 0): row["probability"] for row in answer.to_pylist()}
    agree(given, members(tick.probabilities, stream.alpha))
    same(answer, by_monitor(table, query))


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=12), st.sampled_from([0, 0.1, 0.5, 0.9]), bands)
def test_gaps_of_a_table_are_filled_as_a_monitor_fills_them(rows, alpha, k):
    columns = {n: pa.array(c, pa.float64()) for n, c in zip("xyz", zip(*rows, strict=True), strict=True)}
    table = pa.table(columns | {"s": range(len(rows))})
    query = fl.Query({"x": "max", "y": "min", "z": "max"}, id="s", time="t", lifetime=1, alpha=alpha, skyband=k)
    history = [{"x": a, "y": b, "z": a + b} for a in range(3) for b in range(4)]
    repository = fl.Repository.fit(history, query, rules=["x(0), y(1) -> z(9)", "z(1) -> y(9)"])
    same(fl.skyline(table, query, repository), by_monitor(table, query, repository))


def test_in_one_line_a_table_gives_the_rows_that_fewer_than_k_others_beat():
    hotels = [{"price": p, "rating": r} for p, r in [(50, 3.9), (80, 4.5), (90, 4.1), (95, 4.0), (60, 3.8)]]
    ways = {"price": "min", "rating": "max"}
    assert [row["price"] for row in fl.skyline(hotels, ways)] == [50, 80]
    assert [row["price"] for row in fl.skyline(hotels, ways, skyband=2)] == [50, 80, 90, 60]
    assert [row["price"] for row in fl.skyline(hotels, ways, skyband=5)] == [50, 80, 90, 95, 60]
    with pytest.raises(QueryError, match="the query states its skyband; skyband= goes with a mapping of columns"):
        fl.skyline(hotels, fl.Query(ways, id="x", time="t", lifetime=1), skyband=2)


# --- Explanations -----------------------------------------------------------------------------------------------------


def test_a_row_is_explained_by_the_rows_that_may_beat_it():
    query = fl.Query(attributes={"gas": "max"}, id="id", time="t", expires="e", skyband=2)
    monitor = fl.Monitor(query)
    rows = [("a", 9, 5), ("b", 8, [(3, 1), (7, 3)]), ("c", 9, 4), ("d", 12, 2), ("e", 1, 9)]
    monitor.advance(0, [{"id": name, "t": 0, "e": e, "gas": gas} for name, e, gas in rows])
    why = {name: monitor.explain(name)[0] for name in "abcde"}
    assert why["e"].sentence == "'e' is in the answer under every value that was imputed: no row beats it."
    assert why["a"].sentence == (
        "'a' is out of the answer with probability 0.25, which is not above 0.5: 'e' surely beats it, 'b' beats it "
        "with probability 0.75; fewer than 2 may."
    )
    assert why["a"].reason == "2 rows or more may beat it"
    assert why["b"].reason == "more likely than alpha = 0.5 that fewer than 2 rows beat it"
    assert (why["c"].reason, why["c"].probability) == ("2 rows surely beat it", 0.0)
    assert why["d"].sentence == "'d' is out of the answer: 'a' surely beats it, 'b' surely beats it; fewer than 2 may."
    assert [each.id for each in why["d"].beaten_by] == ["a", "b", "e"]
    monitor.advance(1)
    assert monitor.explain("c")[0].inside is False
    assert (monitor.explain("a")[0].probability, monitor.explain("a")[0].certainty) == (1.0, "certain")
    assert why["a"].to_dict()["skyband"] == 2
    assert why["a"].flips == ()


@trying(60)
@given(streams(most=8), bands)
def test_an_explanation_has_the_true_probability_and_chances(stream, k):
    monitor = fl.Monitor(query_of(replace(stream, skyband=k)))
    window: Any = ()
    ticks = {tick.call: tick for tick in oracle.replay(stream.calls, stream.attributes, **stream.window)}
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        window = ticks[call].windows.get((), ()) if call in ticks else window
    there = {c.key: c for c in window}
    for name in {name for name, _ in there}:
        for each in monitor.explain(name):
            if each.live:
                cloud = there[each.id, each.arrived]
                assert abs(oracle.probability(cloud, window, k) - Fraction(each.probability)) <= CLOSE
                for other in each.beaten_by:
                    true = oracle.chance(there[other.id, other.arrived], cloud)
                    assert abs(true - Fraction(other.probability)) <= CLOSE


def test_a_row_that_was_forgotten_was_beaten_by_k_rows_that_live_as_long():
    monitor = fl.Monitor(fl.Query(attributes={"gas": "max"}, id="id", time="t", lifetime=5, skyband=2))
    monitor.advance(0, [{"id": name, "t": 0, "gas": gas} for name, gas in (("a", 9), ("b", 8), ("c", 7))])
    assert monitor.stats()["forgotten"] == 1
    assert (
        monitor.explain("c")[0].sentence
        == "'c' is out of the answer: 2 rows that live at least as long surely beat it."
    )


def test_what_is_there_for_skylines_alone_is_refused_by_name():
    monitor = fl.Monitor(fl.Query(attributes={"gas": "max"}, id="id", time="t", lifetime=5, skyband=2))
    for ask in (monitor.tree, monitor.ask_next):
        with pytest.raises(fl.FoglineError, match="in skylines, and this query asks for a skyband of 2; leave skyband"):
            ask()
