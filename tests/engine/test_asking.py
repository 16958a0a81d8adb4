"""Are the expected changes of a measured cell the exact expectation?"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

import fogline as fl
from fogline.engine import live
from fogline.engine.ask import ask
from fogline.engine.group import Incoming
from tests import oracle
from tests.changing import Toy, changing
from tests.contracts import CLOSE, query_of
from tests.engine.test_revisions import Toy as Revised
from tests.engine.test_revisions import truth_of, trying
from tests.strategies import hindsights, late_streams, streams


def expected(windows, alpha, names):
    """(group…, id, arrived, attribute) -> the expectation, in fractions; only what is above 0, and can be measured."""
    out = {}
    for window in windows.values():
        now = answer(window, alpha)
        for cloud in newest(window):
            for j, name in enumerate(names):
                total = sum(
                    (w * len(now ^ answer(known(window, cloud, j, v), alpha)) for v, w in cloud.cells[j]), Fraction(0)
                )
                if total > 0:
                    out[(*cloud.key, name)] = total
    return out


def newest(window):
    """Of each id the newest cloud that no other surely beats: what was missing earlier cannot be measured any more."""
    open_ = [cloud for cloud in window if not any(oracle.chance(other, cloud) == 1 for other in window)]
    return {cloud.id: cloud for cloud in sorted(open_, key=lambda cloud: cloud.arrived)}.values()


def answer(window, alpha):
    probabilities = {cloud.key: oracle.probability(cloud, window) for cloud in window}
    return oracle.answer(probabilities, alpha + (Fraction(CLOSE) if alpha else 0))


def known(window, cloud, j, value):
    """The window if one cell of a cloud has that value."""
    cells = (*cloud.cells[:j], ((value, Fraction(1)),), *cloud.cells[j + 1 :])
    return [replace(c, cells=cells, beaten={}) if c is cloud else c for c in window]


def asked(monitor, by=()):
    table = monitor.ask_next(10_000).to_pylist()
    assert [row["changes"] for row in table] == sorted((row["changes"] for row in table), reverse=True)
    return {(*(row[name] for name in by), row["id"], row["t"], row["attribute"]): row["changes"] for row in table}


def agree(found, true):
    assert found.keys() == true.keys()
    assert all(abs(found[key] - float(true[key])) < CLOSE for key in true)


def follow(stream):
    """Hold a monitor to the oracle after each call."""
    monitor, ticks = fl.Monitor(query_of(stream)), {}
    for tick in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window):
        ticks[tick.call] = tick  # the last one of the call
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        if call in ticks:
            agree(asked(monitor, stream.by), expected(ticks[call].windows, stream.alpha, stream.attributes))


@trying(100)
@given(streams(most=8) | streams(groups=2, most=8) | late_streams())
def test_expected_changes_are_the_exact_expectation(stream):
    follow(stream)


@trying(30)
@given(streams(most=8))
def test_for_rows_that_keep_no_sums_they_are_too(stream):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "SUM_LIMIT", 1)
        follow(stream)


@trying(40)
@given(streams(groups=2, most=8))
def test_a_restored_monitor_asks_for_the_same(stream):
    query = query_of(stream)
    monitor = fl.Monitor(query)
    for now, rows in stream.calls:
        monitor.advance(now, rows)
        assert fl.Monitor.restore(query, monitor.snapshot()).ask_next(5).equals(monitor.ask_next(5))


@trying(15)
@given(hindsights())
def test_cells_that_were_revised_are_asked_for_by_what_is_known_now(hindsight):
    stream, toy, truth = hindsight.stream, Revised(hindsight.stream), truth_of(hindsight)
    group, clock = toy.group(), -np.inf
    for call, (now, rows) in enumerate(stream.calls):
        events = toy.revisions(hindsight.revisions[call])
        group.advance(clock, float(now), Incoming(toy.batch(rows, False), events))
        clock = float(now)
        if truth[call]:
            found = as_asked(group.live, query_of(stream))
            agree(found, expected(truth[call][-1].windows, stream.alpha, stream.attributes))


@trying(25)
@given(changing(most=5))
def test_where_the_newest_row_of_an_id_counts_they_are_too(stream):
    toy, ticks = Toy(stream), {}
    group, number, clock = toy.group(), 0, -np.inf
    query = fl.Query(attributes=stream.attributes, id="id", time="t", latest=True, alpha=float(stream.alpha))
    for tick in stream.oracle().ticks():
        ticks[tick.call] = tick
    for call, (now, rows) in enumerate(stream.calls):
        numbered = list(enumerate(rows, number))
        group.advance(clock, now, Incoming(toy.batch(numbered), None, toy.removals(numbered)))
        number, clock = number + len(rows), now
        if call in ticks:
            agree(as_asked(group.live, query), expected(ticks[call].windows, stream.alpha, stream.attributes))


def as_asked(live, query):
    """The same of one live set."""
    found = ask(live, 1000)
    rows = live.slots.id[found.slot], live.slots.columns.arrived[found.slot], found.attribute, found.changes
    return {(name, arrived, query.names[j]): changes for name, arrived, j, changes in zip(*rows, strict=True)}


# --- Small examples ---------------------------------------------------------------------------------------------------

QUERY = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="id", time="t", lifetime=10, by=["site"])


def row(name, gas, oxygen, site="x", t=1):
    return {"id": name, "t": t, "gas": gas, "oxygen": oxygen, "site": site}


def test_the_most_worthy_cells_of_all_groups_come_first_and_ties_by_arrival_and_id():
    monitor = fl.Monitor(QUERY)
    foggy = [(3, 1), (9, 1)]
    rows = [row("a", 5, 20), row("b", foggy, 20), row("c", foggy, 20, "y"), row("d", 5, 20, "y"), row("e", 4, 20, "y")]
    monitor.advance(1, [*rows, row("z", [(1, 9), (9, 1)], 20, "w"), row("y", 5, 20, "w")])
    table = monitor.ask_next()
    assert table.column_names == ["site", "id", "t", "attribute", "changes", "low", "high", "mean", "sentence"]
    assert table.select(["site", "id", "changes", "low", "high", "mean"]).to_pylist() == [
        {"site": "x", "id": "b", "changes": 1.0, "low": 3.0, "high": 9.0, "mean": 6.0},
        {"site": "y", "id": "c", "changes": 1.0, "low": 3.0, "high": 9.0, "mean": 6.0},
        {"site": "w", "id": "z", "changes": pytest.approx(0.2), "low": 1.0, "high": 9.0, "mean": pytest.approx(1.8)},
    ]
    assert monitor.ask_next(2).equals(table.slice(0, 2))
    assert monitor.ask_next(0).num_rows == 0


def test_only_the_newest_row_of_an_id_is_asked_for():
    query, foggy = fl.Query(attributes={"gas": "max"}, id="id", time="t", lifetime=10, by=["site"]), [(3, 1), (9, 1)]
    monitor = fl.Monitor(query)
    rows = [("x", "a", 1, foggy), ("x", "a", 2, 5), ("x", "b", 2, foggy), ("y", "a", 1, foggy), ("y", "c", 1, 5)]
    monitor.advance([{"site": site, "id": name, "t": t, "gas": gas} for site, name, t, gas in rows])
    asked = monitor.ask_next().select(["site", "id", "t"]).to_pylist()
    assert sorted(map(tuple, map(dict.values, asked))) == [("x", "b", 2), ("y", "a", 1)]


def test_ranges_are_shown_as_the_user_sees_values_and_the_sentence_names_the_cell():
    monitor = fl.Monitor(fl.Query(attributes={"oxygen": "min"}, id="id", time="t", lifetime=10))
    monitor.advance(
        1, [{"id": "<img onerror>", "t": 1, "oxygen": [(18, 1), (21, 3)]}, {"id": "b", "t": 1, "oxygen": 20}]
    )
    [cell] = monitor.ask_next().to_pylist()
    assert (cell["low"], cell["high"], cell["mean"], cell["changes"]) == (18.0, 21.0, 20.25, 0.5)
    assert cell["sentence"] == (
        "if oxygen of '<img onerror>' (arrived 1) were known, 0.5 rows are expected to enter or leave the answer; it "
        "lies from 18 to 21, on average at 20.25"
    )


def test_rows_of_too_many_places_are_not_counted_but_what_they_do_to_others_is():
    lists = {"gas": [(v, 1) for v in range(80)], "oxygen": [(v, 1) for v in range(80)]}
    rivals = [{"id": f"r{k}", "t": 1, "gas": k - 0.5, "oxygen": k - 0.5} for k in range(1, 80)]
    monitor = fl.Monitor(fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="id", time="t", lifetime=10))
    monitor.advance(1, [*rivals, {"id": "wide", "t": 1, **lists}])
    asked = monitor.ask_next()
    assert set(asked["id"].to_pylist()) == {"wide"}
    others = {row["id"]: row["probability"] for row in monitor.answer().to_pylist() if row["id"] != "wide"}
    for cell in asked.to_pylist():
        assert 0 < cell["changes"] <= len(others)


@pytest.mark.parametrize("k", [-1, 1.5, True, "5"])
def test_k_counts_cells(k):
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row("a", 1, 2)])
    with pytest.raises(fl.FoglineError, match=r"k is .* whole number"):
        monitor.ask_next(k)
