"""Do the stages together answer as one monitor does, however the stream is cut?"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.engine.group import WindowGroup
from fogline.engine.live import LiveSet
from fogline.errors import SnapshotError
from fogline.pipeline import loaded as cache
from fogline.pipeline import shard
from fogline.pipeline.exchange import GroupRows, RowsByGroup, pack_groups
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import COUNTERS, BatchResult
from fogline.pipeline.shard import opened
from fogline.pipeline.watermark import event
from fogline.saved import table_from_bytes
from fogline.spark.processors import ShardProcessor
from tests import oracle
from tests.contracts import CLOSE, agree, answer_of, as_arrow, members, net, query_of
from tests.flow.driving import (
    Engine,
    Taken,
    changes_of,
    cut,
    plan_of,
    pruned_rows,
    rows_by_time,
    rows_of,
    table_of,
    take,
)
from tests.strategies import Stream, late_streams, streams

NONE: dict = {}


def truth(stream: Stream):
    """Each tick with the true answer, for all rows in time."""
    rows = sorted(stream.rows, key=lambda row: row["t"])
    for tick in oracle.replay(
        [(stream.end, rows)], stream.attributes, stream.by, **stream.window, skyband=stream.skyband
    ):
        yield tick.time, members(tick.probabilities, stream.alpha)


@st.composite
def drives(draw, groups: int = 2, lateness: bool = False, window: str | None = None):
    """A stream, as batches of partitions, and how it is taken."""
    stream = draw(streams(window, groups=groups, most=16))
    stream = Stream(stream.attributes, stream.alpha, stream.window, [c for c in stream.calls if len(c[1])], stream.by)
    hold = draw(st.sampled_from([1, 3, 0.5])) if lateness else 0
    table = table_of(stream)
    delay = [draw(st.sampled_from([0, hold / 2, hold])) for _ in range(table.num_rows)]
    table = rows_by_time(table, delay)
    pieces = []
    for piece in cut(table, draw(st.lists(st.integers(0, table.num_rows), max_size=5))):
        owner = [draw(st.integers(0, 2)) for _ in range(piece.num_rows)]
        pieces.append([piece.filter(pa.array([w == k for w in owner], pa.bool_())) for k in range(3)])
    return stream, pieces, hold, draw(st.integers(1, 6)), draw(st.integers(1, 9))


def flush(engine: Engine) -> BatchResult:
    """Time goes on until nothing waits and nothing can expire."""
    engine.newest = event(engine.plan.kind, 1e9)
    return engine.batch([])


@given(st.one_of(drives(), drives(lateness=True)))
@settings(deadline=None, max_examples=150)
def test_netted_per_tick_the_changes_do_not_depend_on_the_cut(drive):
    stream, pieces, hold, slice_rows, chunk_rows = drive
    plan = plan_of(stream, pieces[0][0].schema, lateness=hold, idle=0)
    engine, journal = Engine(plan, slice_rows, chunk_rows), BatchResult()
    for partitions in pieces:
        journal += engine.batch(partitions)
    journal += flush(engine)
    changes = changes_of(journal, plan)
    for time, answer in truth(stream):
        agree(net(changes, stream.by, until=time), answer, 2.5 * CLOSE)


@given(st.one_of(drives(groups=1), drives(groups=1, lateness=True)))
@settings(deadline=None, max_examples=150)
def test_every_batch_ends_with_the_answer_that_a_monitor_has_at_its_clock(drive):
    stream, pieces, hold, slice_rows, chunk_rows = drive
    plan = plan_of(stream, pieces[0][0].schema, every="batch", lateness=hold)
    engine, answer, seen = Engine(plan, slice_rows, chunk_rows), {}, []
    for partitions in pieces:
        journal = engine.batch(partitions)
        seen += [row for part in partitions for row in part.to_pylist()]
        answer = net(changes_of(journal, plan), stream.by, since=answer)
        clocks = [row["time"] for row in rows_of(journal, "health") if row["time"] is not None]
        if clocks:
            monitor = fl.Monitor(query_of(stream))
            rows = [row for row in seen if row["t"] <= clocks[-1]]
            monitor.advance(clocks[-1], rows or None)
            agree(answer, answer_of(monitor), 2.5 * CLOSE)


@given(late_streams(), st.integers(1, 5), st.integers(1, 9))
@settings(deadline=None, max_examples=100)
def test_late_rows_enter_at_the_clock_of_their_group(stream, slice_rows, chunk_rows):
    calls = [(now, table) for (now, _), table in zip(stream.calls, as_tables(stream), strict=True) if table.num_rows]
    if not calls:
        return
    plan = plan_of(stream, calls[0][1].schema)
    engine, monitor, clock = Engine(plan, slice_rows, chunk_rows), fl.Monitor(query_of(stream)), None
    kept, expected = NONE, NONE
    for _, table in calls:
        good = [t for t, e in zip(*(table.column(c).to_pylist() for c in "te"), strict=True) if taken(stream, t, e)]
        clock = max([*good, *([] if clock is None else [clock])], default=None)
        kept = net(changes_of(engine.batch([table]), plan), since=kept)
        if clock is not None:
            expected = net(monitor.advance(clock, table), since=expected)
            agree(kept, expected, 2.5 * CLOSE)


def taken(stream: Stream, t, e) -> bool:
    return "expires" not in stream.window or e >= t


def as_tables(stream: Stream) -> list[pa.Table]:
    return [table for _, table in as_arrow(stream).calls]


SIMPLE = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10)
SCHEMA = pa.schema([("id", pa.string()), ("t", pa.int64()), ("a", pa.float64())])


def group_rows(plan, *rows: tuple) -> list[GroupRows]:
    """What screening makes of a few rows."""
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
    return [each for some in pruned_rows(plan, table).values() for each in some]


def reported(outcome: Taken, kind: str = "changes") -> list[dict]:
    return rows_of(outcome.journal, kind)


def test_a_row_ahead_of_the_clock_waits_for_it():
    plan = make_plan(SIMPLE, SCHEMA, lateness=5, idle=0)
    first = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0), ("b", 8, 2.0)))
    assert [row["id"] for row in reported(first)] == ["a"]
    assert first.timer == event(plan.kind, 8)
    then = take(plan, "[]", first.state, group_rows(plan, ("c", 6, 9.0)))
    assert not reported(then)  # the clock stands at 3 still
    moved = take(plan, "[]", then.state, watermark=event(plan.kind, 7))
    assert [(row["time"], row["id"], row["change"]) for row in reported(moved)] == [
        (6, "a", "leave"),
        (6, "c", "enter"),
    ]
    assert first.state is not None
    again = take(plan, "[]", first.state, [], end=True).state
    assert again is not None
    assert again.values == first.state.values
    rest = take(plan, "[]", then.state, group_rows(plan, ("d", 9, 0.0)), end=True)
    assert {row["time"] for row in reported(rest)} <= {6, 8, 9}


def test_health_counts_each_row_once():
    plan = make_plan(SIMPLE, SCHEMA, every="batch")
    rows = [("a", 3, 1.0), ("b", 3, 2.0), ("c", 4, 5.0), ("a", 3, 7.0), (None, 3, 1.0), ("d", 4, None)]
    taken = take(plan, "[]", None, group_rows(plan, *rows))
    [health] = reported(taken, "health")
    assert {name: health[name] for name in COUNTERS} == {
        "rows": 6, "rejected": 3, "held": 0, "released": 0, "late": 0, "expired": 0, "outside_limits": 0,
        "incomplete": 0, "screened": 0, "waiting": 0,
        "live": 2, "answer": 1, "conflicts": 0, "inexact": 0, "undecided": 0, "revised": 0, "unwatched": 0,
            "sensors_forgotten": 0,
    }  # fmt: skip
    assert health["time"] == 4


def test_a_duplicate_that_only_the_state_can_know_is_rejected_there():
    plan = make_plan(SIMPLE, SCHEMA)
    first = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0)))
    again = take(plan, "[]", first.state, group_rows(plan, ("a", 3, 1.0)))
    assert [(row["row"], row["reason"]) for row in reported(again, "rejects")] == [
        ('{"id": "a", "t": 3, "a": 1.0}', "a row with this id and time is there already")
    ]
    assert not reported(again)


def test_the_state_of_another_query_is_refused():
    plan = make_plan(SIMPLE, SCHEMA)
    state = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0))).state
    other = make_plan(fl.Query(attributes={"a": "min"}, id="id", time="t", lifetime=10), SCHEMA)
    with pytest.raises(SnapshotError, match="another query"):
        take(other, "[]", state, group_rows(plan, ("b", 4, 1.0)))


def test_the_state_of_another_version_is_refused_by_name():
    plan = make_plan(SIMPLE, SCHEMA)
    store = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0))).state
    assert store is not None
    state = store.values["groups", "", 0]
    for other, words in (
        (state[:8] + b"\x02" + state[9:], r"has format 2; .* reads 4\. It was written by an older Fogline: go on with"),
        (state[:8] + b"\x09" + state[9:], r"has format 9; .* reads 4\. It was written by a newer Fogline: install"),
        (b"", "this is no block of groups"),
        (state[:20], "this is no block of groups"),
        (bytes(100), "this is no block of groups"),
    ):
        store.values["groups", "", 0] = other
        with pytest.raises(SnapshotError, match=words):
            take(plan, "[]", store, group_rows(plan, ("b", 4, 1.0)))


def test_a_part_of_the_state_that_is_missing_is_refused_by_name():
    plan = make_plan(SIMPLE, SCHEMA)
    store = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0))).state
    assert store is not None
    del store.values["groups", "", 0]
    with pytest.raises(SnapshotError, match="the checkpoint is damaged: part 0 of 'groups' is not in it"):
        take(plan, "[]", store, group_rows(plan, ("b", 4, 1.0)))


def test_a_group_of_nothing_but_rejects_has_no_clock():
    plan = make_plan(SIMPLE, SCHEMA)
    taken = take(plan, "[]", None, group_rows(plan, (None, 3, 1.0)))
    assert [row["time"] for row in reported(taken, "health")] == [None]
    assert taken.timer is None
    assert taken.state is None  # nor a state
    assert [row["id"] for row in reported(take(plan, "[]", taken.state, group_rows(plan, ("a", 1, 1.0))))] == ["a"]


def test_with_every_batch_only_the_clock_has_changes():
    for every, times in (("tick", [13, 20]), ("batch", [20, 20])):
        plan = make_plan(SIMPLE, SCHEMA, every=every)
        first = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0)))
        then = take(plan, "[]", first.state, group_rows(plan, ("b", 20, 1.0)))
        assert [(row["id"], row["change"]) for row in reported(then)] == [("a", "leave"), ("b", "enter")]
        assert [row["time"] for row in reported(then)] == times


BY_EXPIRY = fl.Query(attributes={"a": "max"}, id="id", time="t", expires="e")


def test_an_empty_group_is_forgotten_when_the_watermark_has_passed_its_clock_by_a_lifetime():
    plan = make_plan(SIMPLE, SCHEMA, idle=0)
    first = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0)))
    assert first.timer == event(plan.kind, 13)
    gone = take(plan, "[]", first.state, watermark=event(plan.kind, 20))
    assert [(row["time"], row["change"]) for row in reported(gone)] == [(13, "leave")]
    assert gone.state is not None  # a row of 15 would be late still
    assert gone.timer == event(plan.kind, 30)
    [health] = reported(take(plan, "[]", gone.state, group_rows(plan, ("b", 15, 1.0))), "health")
    assert (health["late"], health["time"]) == (1, 20)
    back = take(plan, "[]", gone.state, group_rows(plan, ("c", 25, 1.0)))
    assert back.timer == event(plan.kind, 35)  # it lives again
    assert back.before == gone.timer
    assert take(plan, "[]", gone.state, watermark=event(plan.kind, 29)).state is not None
    forgotten = take(plan, "[]", gone.state, watermark=event(plan.kind, 30))
    assert (forgotten.state, forgotten.timer) == (None, None)
    assert not reported(forgotten)


def test_with_lateness_an_empty_group_is_forgotten_later_and_one_in_which_rows_wait_is_not():
    plan = make_plan(SIMPLE, SCHEMA, lateness=5, idle=0)
    first = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0)))
    assert not first.group.empty  # it waits
    gone = take(plan, "[]", first.state, watermark=event(plan.kind, 13))
    assert gone.group.empty
    assert gone.timer == event(plan.kind, 13 + 5 + 10)


def test_a_count_window_is_never_empty_and_never_forgotten():
    plan = make_plan(fl.Query(attributes={"a": "max"}, id="id", time="t", last=2), SCHEMA, idle=0)
    taken = take(plan, "[]", None, group_rows(plan, ("a", 3, 1.0)))
    assert taken.timer is None
    assert take(plan, "[]", taken.state, watermark=event(plan.kind, 10**9)).state is not None


def test_with_expiries_a_group_is_kept_as_long_again_as_its_newest_row_counted():
    schema = SCHEMA.append(pa.field("e", pa.int64()))
    plan = make_plan(BY_EXPIRY, schema, idle=0)
    table = pa.Table.from_pylist([{"id": "a", "t": 3, "a": 1.0, "e": 8}], schema=schema)
    first = take(plan, "[]", None, pruned_rows(plan, table)["[]"])
    gone = take(plan, "[]", first.state, watermark=event(plan.kind, 8))
    assert gone.timer == event(plan.kind, 8 + 5)
    assert take(plan, "[]", gone.state, watermark=event(plan.kind, 13)).state is None


class Handle:
    """What Spark keeps of one shard, and in which namespaces values were read and written."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.reads: list[str] = []
        self.writes: list[str] = []

    def getMapState(self, name: str, key: str, value: str) -> Handle:
        return self

    def getValueState(self, name: str, schema: Any) -> None:
        """Of the plan's identity: it never has a value."""

    def getValue(self, key: Any) -> Any:
        self.reads.append(key[0])
        return self.values.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.writes.append(key[0])
        self.values[key] = value

    def removeKey(self, key: Any) -> None:
        self.writes.append(key[0])
        self.values.pop(key, None)

    def registerTimer(self, at: int) -> None:
        """No timer fires."""

    deleteTimer = registerTimer


def handed(handle: Handle, *rows: tuple, **how: Any) -> list:
    """One micro-batch for a worker that begins anew, as Spark's do: what it reports."""
    plan = make_plan(SIMPLE, SCHEMA, **how)
    processor = ShardProcessor(Plans.alone(plan))
    processor.init(handle)
    packed = pack_groups(plan, RowsByGroup.of(plan, [("[]", each) for each in group_rows(plan, *rows)]))
    [out] = processor.handleInputRows((0,), [{"rows": [packed]}], None)
    tables = [table_from_bytes(part) for kind, part in zip(out["kind"], out["part"], strict=True) if kind == "changes"]
    return [(row["time"], row["id"], row["change"]) for table in tables for row in table.to_pylist()]


def test_a_large_group_is_loaded_only_where_it_is_not_cached(monkeypatch):
    monkeypatch.setattr("fogline.pipeline.loaded.LARGE", 0)
    monkeypatch.setattr("fogline.pipeline.small_groups.ROWS", 0)
    cache._cached.clear()
    store = Handle()
    assert handed(store, ("a", 3, 1.0)) == [(3, "a", "enter")]
    before = dict(store.values)
    assert handed(store, ("b", 4, 2.0)) == [(4, "a", "leave"), (4, "b", "enter")]
    assert "large" not in store.reads  # cached
    store.values = before  # that batch failed: the worker's cache is ahead of the store
    assert handed(store, ("c", 4, 3.0)) == [(4, "a", "leave"), (4, "c", "enter")]
    assert store.reads.count("large") == 1
    monkeypatch.setattr("fogline.pipeline.loaded.LARGE", 10**9)
    assert handed(store, ("d", 5, 4.0)) == [(5, "c", "leave"), (5, "d", "enter")]
    assert "large" not in {namespace for namespace, _, _ in store.values}


def test_a_small_group_stays_loaded_while_its_page_is_the_one_that_was_saved(monkeypatch):
    read = []

    def noted(plan: Any, saved: bytes) -> Any:
        read.append(saved)
        return opened(plan, saved)

    monkeypatch.setattr(shard, "opened", noted)
    cache._cached.clear()
    store = Handle()
    assert handed(store, ("a", 3, 1.0)) == [(3, "a", "enter")]
    before = dict(store.values)
    assert handed(store, ("b", 4, 2.0)) == [(4, "a", "leave"), (4, "b", "enter")]
    assert not read
    store.values = before  # that batch failed: what stayed loaded is ahead of the store
    assert handed(store, ("c", 4, 3.0)) == [(4, "a", "leave"), (4, "c", "enter")]
    assert len(read) == 1
    cache._cached.clear()
    assert handed(store, ("d", 5, 4.0)) == [(5, "c", "leave"), (5, "d", "enter")]
    assert len(read) == 2


def test_no_more_than_a_few_groups_are_cached():
    cache._cached.clear()
    groups = [cache.LoadedGroup(WindowGroup(LiveSet(1, 0.5)), 0.0, None, k) for k in range(5)]
    for k, group in enumerate(groups):
        cache.put((bytes([k]), b""), group, cache.MOST // 4)
    assert cache.pop((bytes([0]), b"")) is None
    assert cache.pop((bytes([1]), b"")) is groups[1]
    assert cache.pop((bytes([1]), b"")) is None


def test_a_small_group_costs_two_reads_and_two_writes_and_nothing_when_it_is_forgotten():
    store = Handle()
    handed(store, ("a", 3, 1.0), idle=0)
    assert (store.reads, store.writes) == (["index"], ["groups", "index"])
    assert sorted(namespace for namespace, _, _ in store.values) == ["groups", "index"]
    for minute in (20, 30):
        processor = ShardProcessor(Plans.alone(make_plan(SIMPLE, SCHEMA, idle=0)))
        processor.init(store)
        list(processor.handleExpiredTimer((0,), Watermark(event(pa.int64(), minute)), None))
    assert not store.values
    assert store.reads == ["index"] + ["index", "groups"] * 2
    assert store.writes == ["groups", "index"] * 3
    handed(store, (None, 3, 1.0), idle=0)  # nothing but a reject
    assert not store.values
    assert store.writes == ["groups", "index"] * 3


class Watermark:
    def __init__(self, at: int | None) -> None:
        self.at = at

    def getCurrentWatermarkInMs(self) -> int | None:
        return self.at


def test_runs_in_several_threads_share_what_stays_loaded():
    """Each thread finds all that it has put there, or nothing: never an error, and never another's."""
    cache._cached.clear()

    def work(k: int) -> int:
        found = 0
        for i in range(3_000):
            cache.put((b"%d-%d" % (k, i), b""), (k, i), cache.MOST // 500)
            loaded = cache.pop((b"%d-%d" % (k, i - 50), b""))
            assert loaded in (None, (k, i - 50))
            found += loaded is not None
        return found

    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(3) as threads:
            assert min(threads.map(work, range(3))) > 0
    finally:
        sys.setswitchinterval(before)
        cache._cached.clear()


def test_a_large_group_that_is_cached_is_not_taken_for_another_plans(monkeypatch):
    monkeypatch.setattr("fogline.pipeline.loaded.LARGE", 0)
    monkeypatch.setattr("fogline.pipeline.small_groups.ROWS", 0)
    cache._cached.clear()
    store = Handle()
    handed(store, ("a", 3, 1.0))
    other = ShardProcessor(Plans.alone(make_plan(SIMPLE, SCHEMA, every="batch")))
    other.init(store)
    plan = make_plan(SIMPLE, SCHEMA)
    packed = pack_groups(plan, RowsByGroup.of(plan, [("[]", each) for each in group_rows(plan, ("b", 4, 1.0))]))
    with pytest.raises(SnapshotError, match="every was tick and is now batch"):
        list(other.handleInputRows((0,), [{"rows": [packed]}], None))
