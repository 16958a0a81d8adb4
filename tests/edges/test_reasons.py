"""Does a leave say why, and the same however the stream is cut, restarted or carried?

That every reason is true at every tick is held to the oracle in `contracts` (all streams of tests/test_streams.py,
tests/test_latest.py) and in tests/engine/test_revisions.py.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings

import fogline as fl
from tests.contracts import query_of
from tests.flow.driving import Engine, changes_of, plan_of, table_of
from tests.strategies import Stream, streams

QUERY = fl.Query(attributes={"x": "max", "y": "max"}, id="id", time="t", lifetime=5)
LATEST = fl.Query(attributes={"x": "max"}, id="id", time="t", latest=True, gone="gone", expires="e")


def row(name: Any, t: int, x: Any, y: Any = 0, **more: Any) -> dict[str, Any]:
    return {"id": name, "t": t, "x": x, "y": y, **more}


def leaves(table: pa.Table) -> list[tuple[Any, ...]]:
    """(time, id, reason, dominator, dominator_time) of those that left."""
    names = ("time", "id", "reason", "beaten_by", "beaten_by_time")
    return [tuple(each[name] for name in names) for each in table.to_pylist() if each["change"] == "leave"]


def test_a_row_leaves_because_it_expires_or_because_another_surely_beats_it():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row("a", 1, 1, 9), row("b", 1, 9, 1)])
    assert leaves(monitor.advance(2, [row("c", 2, 2, 9)])) == [(2, "a", "beaten", "c", 2)]
    assert leaves(monitor.advance(9)) == [(6, "b", "expired", None, None), (7, "c", "expired", None, None)]


def test_of_several_rivals_the_first_by_arrival_and_id_is_named():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row("a", 1, 1, 1)])
    rivals = [row("z", 2, 2, 9), row("d", 2, 9, 2), row("c", 2, 5, 5), row("b", 2, 4, 4)]  # c beats b, so b is not open
    assert leaves(monitor.advance(2, rivals)) == [(2, "a", "beaten", "c", 2)]


def test_a_row_that_several_make_unlikely_has_no_rival():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row("a", 1, 1, 1)])
    half = [(0, 1), (2, 1)]
    assert leaves(monitor.advance(2, [row("b", 2, half, 2), row("c", 2, half, 2)])) == [
        (2, "a", "less likely", None, None)
    ]


def test_at_alpha_0_a_row_leaves_only_when_it_is_surely_beaten():
    monitor = fl.Monitor(fl.Query(attributes={"x": "max"}, id="id", time="t", lifetime=5, alpha=0))
    monitor.advance(1, [row("a", 1, [(1, 1), (3, 1)])])
    assert leaves(monitor.advance(2, [row("b", 2, 3)])) == []
    assert leaves(monitor.advance(3, [row("c", 3, 4)])) == [
        (3, "a", "beaten", "c", 3),
        (3, "b", "beaten", "c", 3),
    ]


def test_in_a_count_window_the_oldest_expires():
    monitor = fl.Monitor(fl.Query(attributes={"x": "max", "y": "max"}, id="id", time="t", last=2))
    monitor.advance(1, [row("a", 1, 1, 9), row("b", 1, 9, 1)])
    assert leaves(monitor.advance(2, [row("c", 2, 2, 10)])) == [(2, "a", "expired", None, None)]


def test_where_rows_are_replaced_the_reason_is_what_became_of_the_id():
    monitor = fl.Monitor(LATEST)
    monitor.advance(1, [{"id": name, "t": 1, "x": 5, "e": 9} for name in "abcde"])
    lower = {"id": "a", "t": 2, "x": 4, "e": 9}
    gone = {"id": "b", "t": 2, "gone": True}
    over = {"id": "c", "t": 2, "x": 8, "e": 2}  # it has expired by the time it comes
    assert leaves(monitor.advance(2, [lower, gone, over])) == [
        (2, "a", "replaced", "d", 1),
        (2, "b", "removed", None, None),
        (2, "c", "expired", None, None),
    ]
    assert leaves(monitor.advance(3, [{"id": "d", "t": 3, "x": 6, "e": 9}])) == [(3, "e", "beaten", "d", 3)]
    assert leaves(monitor.advance(9)) == [(9, "d", "expired", None, None)]


def test_enters_and_updates_have_no_reason():
    monitor = fl.Monitor(QUERY)
    table = monitor.advance(1, [row("a", 1, [(1, 1), (3, 3)], 1)])
    table = pa.concat_tables([table, monitor.advance(2, [row("b", 2, 2, 1)])])
    assert [(each["change"], each["reason"], each["beaten_by"]) for each in table.to_pylist()] == [
        ("enter", None, None),
        ("update", None, None),
    ]


def test_a_change_as_a_value_has_its_reason_and_rival():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row("a", 1, 1, 9)])
    left, entered = fl.types.changes_of(monitor.advance(2, [row("c", 2, 2, 9)]).to_pylist(), QUERY)
    assert (left.reason, left.beaten_by) == ("beaten", ("c", 2))
    assert (entered.reason, entered.beaten_by) == (None, None)


def test_times_and_ids_of_rivals_have_the_types_of_the_stream():
    query = fl.Query(attributes={"x": "max"}, id="id", time="t", lifetime="1 hour")
    rows = pa.table({"id": [7, 8], "t": pa.array([0, 60_000_000], pa.timestamp("us", "UTC")), "x": [1.0, 2.0]})
    table = fl.Monitor(query).advance(rows["t"][1].as_py(), rows)
    assert table.schema.field("beaten_by").type == pa.int64()
    assert table.schema.field("beaten_by_time").type == table.schema.field("time").type
    [left] = [each for each in table.to_pylist() if each["change"] == "leave"]
    assert (left["beaten_by"], left["beaten_by_time"]) == (8, rows["t"][1].as_py())


def unfolded(stream: Stream) -> list[tuple[Any, list[Any]]]:
    """One call per instant at which rows come, all of them in time."""
    rows = sorted(stream.rows, key=lambda each: each["t"])
    last = stream.calls[-1][0]
    instants = sorted({each["t"] for each in rows})
    return [*((t, [each for each in rows if each["t"] == t]) for t in instants), (max(last, instants[-1]), [])]


@given(streams(groups=2))
@settings(max_examples=60)
def test_changes_with_their_reasons_are_the_same_in_any_cut_between_ticks_and_after_restarts(stream):
    query, calls = query_of(stream), unfolded(stream)
    whole = fl.Monitor(query).advance(calls[-1][0], [each for _, rows in calls for each in rows])
    monitor, parts = fl.Monitor(query), []
    for now, rows in calls:
        parts.append(monitor.advance(now, rows))
        monitor = fl.Monitor.restore(query, monitor.snapshot())
    assert in_order(pa.concat_tables(parts)) == in_order(whole)


def in_order(table: pa.Table) -> list[Any]:
    """Groups lie side by side where their ticks are the same."""
    return sorted(table.to_pylist(), key=lambda each: (each["time"], str(each.get("g", ""))))


@given(streams(groups=2))
@settings(max_examples=40)
def test_a_pipeline_that_drops_rows_on_their_way_names_the_same_rivals(stream):
    table, query = table_of(stream).sort_by("t"), query_of(stream)
    engine = Engine(plan_of(stream, table.schema))
    found = changes_of(engine.batch([table]), engine.plan)
    expected = fl.Monitor(query).advance(max(each["t"] for each in stream.rows), table).to_pylist()
    assert all(each in expected for each in found.to_pylist())
    assert len(expected) - found.num_rows <= sum(each["reason"] == "expired" for each in expected)  # by other clocks
