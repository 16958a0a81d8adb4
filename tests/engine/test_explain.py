"""Are explanations true? Every number of them, against the oracle, on streams that were not thought of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import fogline as fl
from fogline.arrays import BOUNDS_ONLY
from fogline.engine.explain import explained
from tests import oracle
from tests.changing import changing
from tests.contracts import query_of
from tests.explaining import check_all
from tests.strategies import late_streams, streams

NO_WINDOWS: Mapping[Any, tuple[oracle.Cloud, ...]] = {}


def trying(examples):
    return settings(
        deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


def explained_at_every_call(stream) -> int:
    monitor, count = fl.Monitor(query_of(stream)), 0
    ticks = {t.call: t for t in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)}
    windows = NO_WINDOWS
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        windows = ticks[call].windows if call in ticks else windows
        before = monitor.snapshot()
        count += check_all(monitor, windows, stream)
        assert monitor.snapshot() == before, "to explain changes nothing"
    return count


@trying(40)
@given(streams(most=7))
def test_every_statement_of_an_explanation_is_true(stream):
    explained_at_every_call(stream)


@trying(25)
@given(streams(groups=3, most=9) | late_streams(groups=2))
def test_every_group_is_explained_by_its_own_rows(stream):
    explained_at_every_call(stream)


@trying(40)
@given(changing(most=5, bounds_only=False))
def test_where_rows_are_replaced_explanations_are_true(stream):
    query = fl.Query(
        attributes=stream.attributes, id="id", time="t", alpha=float(stream.alpha), latest=True, gone="gone",
        version="v", remember_removed=stream.remember, **stream.window,
    )  # fmt: skip
    monitor, windows = fl.Monitor(query), NO_WINDOWS
    ticks = {t.call: t for t in stream.oracle().ticks()}
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        windows = ticks[call].windows if call in ticks else windows
        check_all(monitor, windows, stream)


# --- What the oracle does not see -------------------------------------------------------------------------------------

QUERY = fl.Query(attributes={"temperature": "max", "co2": "max"}, id="room", time="t", lifetime=10, alpha=0.5)


def history() -> pa.Table:
    rng = np.random.default_rng(7)
    temperature = rng.uniform(15, 30, 400).round(1)
    return pa.table({"temperature": temperature, "co2": (400 + 20 * temperature + rng.normal(0, 30, 400)).round()})


@pytest.fixture(scope="module")
def repository() -> fl.Repository:
    return fl.Repository.fit(history(), QUERY, rules=["temperature(0.2) -> co2(200)", "co2(10) -> temperature(5)"])


def rooms(t: int, n: int = 30) -> list[dict[str, Any]]:
    rng = np.random.default_rng(t)
    cells = [(f"room {k}", round(rng.uniform(15, 30), 1), float(rng.integers(700, 1000))) for k in range(n)]
    gaps = rng.random((n, 2)) < 0.3
    return [
        {"room": name, "t": t, "temperature": None if a else x, "co2": None if b else y}
        for (name, x, y), (a, b) in zip(cells, gaps, strict=True)
    ]


def all_of(monitor: fl.Monitor) -> dict[Any, fl.types.Explanation]:
    live = monitor.groups[()].live
    found = explained(live, live.slots.alive(), (), monitor._show, QUERY, monitor.chain)
    return {(each.id, each.arrived): each for each in found}


def test_rows_of_which_only_bounds_are_known_are_explained_as_if_all_were_imputed(repository):
    lazy, eager = fl.Monitor(QUERY, repository), fl.Monitor(QUERY, repository, eager=True)
    bounds_only = 0
    for t in range(12):
        for each in (lazy, eager):
            each.advance(t, rooms(t))
        slots = lazy.groups[()].live.slots
        bounds_only += int((slots.uncertain.start[slots.alive()] == BOUNDS_ONLY).any(axis=1).sum())
        before, stats = lazy.snapshot(), lazy.stats()
        assert all_of(lazy) == all_of(eager)
        assert lazy.snapshot() == before
        assert lazy.stats() == stats
    assert bounds_only > 10


def test_many_rows_at_once_are_explained_as_one_by_one(repository):
    monitor = fl.Monitor(QUERY, repository)
    for t in range(5):
        monitor.advance(t, rooms(t))
    live, asked = monitor.groups[()].live, ((), monitor._show, QUERY, monitor.chain)
    which = live.slots.alive()
    assert explained(live, which, *asked) == [explained(live, [slot], *asked)[0] for slot in which.tolist()]
    assert explained(live, [], *asked) == []


def test_a_row_of_too_many_places_is_explained_and_called_approximate():
    query = fl.Query(attributes=dict.fromkeys("abcd", "max"), id="id", time="t", lifetime=10, alpha=0.95)
    monitor, rng = fl.Monitor(query, exact_limit=5000), np.random.default_rng(3)
    wide = {k: [(float(v), 1) for v in np.sort(rng.random(60))] for k in "abcd"}
    points = [{"id": str(k), "t": 0} | dict(zip("abcd", 2 * rng.dirichlet(np.ones(4)), strict=True)) for k in range(60)]
    monitor.advance(0, [{"id": "wide", "t": 0, **wide}, *points])
    [found] = monitor.explain("wide")
    assert found.approximate
    assert found.sentence.endswith("(approximately: it may have too many values for more).")
    assert len([each for each in found.flips if each.own]) == 4
    assert found.decisive is not None
    assert found.decisive.own
    assert found.to_dict()["approximate"] is True
    exact = [each for k in range(60) for each in monitor.explain(str(k)) if not each.approximate]
    assert len(exact) > 30


def test_values_beyond_the_limits_flip_nothing():
    query = fl.Query(attributes={"v": "max", "w": "max"}, id="id", time="t", lifetime=9, limits={"w": (0, 5)})
    monitor = fl.Monitor(query)
    monitor.advance(0, [{"id": "top", "t": 0, "v": 9, "w": 5}, {"id": "d", "t": 0, "v": 8, "w": [(1, 1), (5, 1)]}])
    monitor.advance(1, [{"id": "e", "t": 1, "v": 8, "w": 4}])
    assert [(each.attribute, each.side, each.value) for each in monitor.explain("e")[0].flips] == [("v", ">", 9.0)]


def test_what_a_member_alone_has_sealed_would_count_if_it_were_worse_and_what_is_forgotten_does_not():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", expires="e")
    for expires, flips in ((9, [(8.0, "<")]), (1, [])):  # the second leaves no later, and is forgotten
        monitor = fl.Monitor(query)
        monitor.advance(0, [{"id": "top", "t": 0, "e": 1, "v": 9}, {"id": "next", "t": 0, "e": expires, "v": 8}])
        assert [(each.value, each.side) for each in monitor.explain("top")[0].flips] == flips


# --- Words ------------------------------------------------------------------------------------------------------------


def test_the_sentence_states_what_carries_a_row_and_what_would_flip_it(repository):
    monitor = fl.Monitor(QUERY, repository)
    rows = [("room 12", 24.3, None), ("room 3", 25.0, 870), ("room 7", 20.0, 925), ("low", 15, 500)]
    monitor.advance(0, [{"room": k, "t": 0, "temperature": a, "co2": b} for k, a, b in rows])
    [cell] = monitor.explain("room 12")[0].imputed
    assert (cell.imputer, cell.rule, cell.rows) == ("rules", "temperature(0.2) -> co2(200)", 16)
    assert monitor.explain("room 12")[0].sentence == (
        "'room 12' is in the answer with probability 0.625: its missing co2 is likely 838 to 924 (rule "
        "temperature(0.2) -> co2(200), 16 rows of history); 'room 3' beats it with probability 0.375; it would leave "
        "if its co2 were 870 or less; to know its co2 would move it most, by 0.4688 on average."
    )
    assert monitor.explain("room 3")[0].sentence == (
        "'room 3' is in the answer under every value that was imputed: no row beats it; it would leave if its "
        "temperature were 24.3 or less."
    )


def test_the_sentence_of_a_row_that_is_out_states_who_keeps_it_out():
    query = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="id", time="t", expires="e", alpha=0.5)
    monitor = fl.Monitor(query)
    rows = [("a", 5, 9, [(18, 1), (21, 3)]), ("b", 5, 8, [(17, 1), (19, 1)]), ("c", 9, 7, 20), ("top", 2, 10, 16)]
    monitor.advance(0, [{"id": k, "t": 0, "e": e, "gas": g, "oxygen": o} for k, e, g, o in rows])
    assert monitor.explain("c")[0].sentence == (
        "'c' is out of the answer: 'top' surely beats it; it would enter if its gas were above 10."
    )
    monitor.advance(2)
    assert monitor.explain("c")[0].sentence == (
        "'c' is out of the answer: 'b' surely beats it; it would enter if its oxygen were below 17."
    )
    assert monitor.explain("b")[0].sentence == (
        "'b' is in the answer with probability 0.875: its missing oxygen is likely 17 to 19; 'a' beats it with "
        "probability 0.125; it would leave if its oxygen were 21 or more; to know the oxygen of 'a' would move it "
        "most, by 0.1875 on average."
    )
    monitor.advance(5)
    assert (
        monitor.explain("c")[0].sentence == "'c' is in the answer under every value that was imputed: no row beats it."
    )


def test_explanations_are_plain_json_and_escaped_html():
    hostile = "<img src=x onerror=alert(1)>"
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime="1 hour", by=["g"])
    monitor = fl.Monitor(query)
    t = datetime(2024, 5, 1, 12, tzinfo=UTC)
    rows = [{"id": hostile, "t": t, "v": [(1, 1), (3, 1)], "g": Decimal("1.5")}]
    monitor.advance(t, [*rows, {"id": "b", "t": t, "v": 2, "g": Decimal("1.5")}])
    [found] = monitor.explain(hostile)
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert (found.to_dict()["arrived"], found.to_dict()["by"]) == ("2024-05-01 12:00:00", ["1.5"])
    assert set(found.to_dict()) == {
        "id", "arrived", "by", "inside", "certainty", "probability", "probability_error", "approximate", "reason",
        "sentence", "beaten_by", "imputed", "outside", "flips", "decisive",
    }  # fmt: skip
    assert "<img" not in found._repr_html_()
    assert "&lt;img src=x onerror" in found._repr_html_()
    assert hostile in str(found)
