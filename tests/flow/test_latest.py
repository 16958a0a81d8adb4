"""Do the stages answer for the newest row of each id as a Monitor does, however the stream is cut, kept and repeated?

A Monitor per group is given what becomes due there, call by call. The groups' states travel as bytes, or are at hand;
large ones lie as a base and the updates since, with so few of either that every path is met.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.pipeline import changelog as log
from fogline.pipeline import loaded as cache
from fogline.pipeline import runner as runner
from fogline.pipeline.clock_guard import sift_ahead
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.report import BatchResult
from tests.contracts import DISTRIBUTION
from tests.flow.driving import Engine, cut, rows_of
from tests.test_latest import FORMS, Changing, changing

Row = Mapping[str, Any]
SIZES = {"slice_rows": 3, "chunk_rows": 5, "small": 0}


def table_of(rows: Sequence[Row], attributes: Sequence[str]) -> pa.Table:
    """Rows as Arrow, with a distribution in every cell that has a value."""
    plain = [("id", pa.string()), ("g", pa.string()), ("t", pa.int64()), ("v", pa.int64()), ("gone", pa.bool_())]
    schema = pa.schema([*plain, ("e", pa.int64()), *((a, DISTRIBUTION) for a in attributes)])

    def cell(given: Any) -> Any:
        pairs = given if isinstance(given, list) else [(given, 1)]
        return None if given is None else [{"value": value, "weight": weight} for value, weight in pairs]

    made = [{**row, "gone": row["gone"] in FORMS[True], **{a: cell(row[a]) for a in attributes}} for row in rows]
    return pa.Table.from_pylist(made, schema=schema)


@contextmanager
def tiny(few: int = 1, updates: int = 2, spare: int = 1, share: int = 0) -> Iterator[None]:
    """Groups of two ids are large, and a third turn makes a new base."""
    before = log.FEW, log.UPDATES, log.SPARE, log.SHARE
    log.FEW, log.UPDATES, log.SPARE, log.SHARE = few, updates, spare, share
    cache._cached.clear()
    try:
        yield
    finally:
        log.FEW, log.UPDATES, log.SPARE, log.SHARE = before
        cache._cached.clear()


class Repeated(Engine):
    """Every task is done twice, from the same state."""

    def _take(self, place: Any, come: Any, watermark: int | None) -> BatchResult:
        names = ("stores", "timers")
        before = copy.deepcopy({name: getattr(self, name) for name in names})
        once = super()._take(place, come, watermark)
        for name, each in before.items():
            setattr(self, name, each)
        again = super()._take(place, come, watermark)
        assert [kind for kind, _ in once] == [kind for kind, _ in again]
        assert all(a.equals(b) for (_, a), (_, b) in zip(once, again, strict=True))
        return again


class Judge:
    """Monitors, one per group, that are given what becomes due when it does."""

    def __init__(self, plan: Plan, repository: fl.Repository | None = None) -> None:
        self.plan, self.repository = plan, repository  # beside the plan's own imputer
        self.monitors: dict[str, fl.Monitor] = {}
        self.waiting: dict[str, list[Row]] = {}

    def hold_to(self, journal: BatchResult, rows: Sequence[Row]) -> None:
        """The changes of a batch are those of the monitors, at the instants that its health shows."""
        for row in rows:
            self.waiting.setdefault(row["g"], []).append(row)
        expected: dict[str, list[Any]] = {}
        for health in rows_of(journal, HEALTH):
            g, clock = health["g"], health["time"]
            if clock is None:
                continue
            due = [row for row in self.waiting.get(g, []) if row["t"] <= clock]
            self.waiting[g] = [row for row in self.waiting.get(g, []) if row["t"] > clock]
            monitor = self.monitors.setdefault(
                g, fl.Monitor(self.plan.query, self.repository, imputer=self.plan.imputer)
            )
            names = self.plan.query.names
            changes = monitor.advance(clock, table_of(due, names), every=self.plan.every)
            expected.setdefault(g, []).extend(changes.to_pylist())
            counted = len(monitor.groups[(g,)].live.members()) if (g,) in monitor.groups else 0
            assert health["answer"] == counted
        found: dict[str, list[Any]] = {}
        for change in rows_of(journal, CHANGES):
            found.setdefault(change["g"], []).append(change)
        assert found == {g: changes for g, changes in expected.items() if changes}

    def forget(self, engine: Engine) -> None:
        """Groups that the engine has forgotten begin anew."""
        for g in list(self.monitors):
            if f'["{g}"]' not in engine.states:
                assert not self.monitors[g].answer().num_rows
                del self.monitors[g]


def drive(stream: Changing, borders: Sequence[int], engine: Engine, judge: Judge) -> None:
    """Every call of the stream is a batch, cut into partitions."""
    for _, rows in stream.calls:
        if rows:
            parts = list(cut(table_of(rows, list(stream.attributes)), borders))
            judge.hold_to(engine.batch(parts), rows)
            judge.forget(engine)


def plan_of(stream: Changing, **how: Any) -> Plan:
    how = {"ahead": "off", **how}
    return make_plan(stream.query, table_of([], list(stream.attributes)).schema, **how)


BORDERS = st.lists(st.integers(1, 4), max_size=3)
EVERY = st.sampled_from(["tick", "batch"])


@given(changing(), BORDERS, EVERY, st.sampled_from([0, 0, 1, 3]), st.integers(0, 2))
@settings(max_examples=150)
def test_the_stages_answer_as_a_monitor_does(stream, borders, every, lateness, share):
    plan = plan_of(stream, every=every, lateness=lateness)
    with tiny(share=share):
        drive(stream, borders, Engine(plan, **SIZES), Judge(plan))


@given(changing(), BORDERS, EVERY, st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=80)
def test_a_task_that_is_done_again_reports_the_same(stream, borders, every, turns, spare):
    plan = plan_of(stream, every=every)
    with tiny(updates=turns, spare=spare):
        drive(stream, borders, Repeated(plan, **SIZES, at_hand=False), Judge(plan))


@given(changing(most=12), st.sampled_from([1, 3]), st.integers(0, 2))
@settings(max_examples=60)
def test_silent_groups_move_with_the_others_and_are_forgotten_when_nothing_is_left(stream, idle, few):
    plan = plan_of(stream, idle=idle)
    with tiny(few=few):
        drive(stream, [], Engine(plan, **SIZES), Judge(plan))


def test_a_group_without_rows_is_kept_while_its_markers_count():
    asked = {"attributes": {"a": "max"}, "id": "id", "time": "t", "by": ["g"], "latest": True, "gone": "gone"}
    query = fl.Query(**asked, version="v", lifetime=2, remember_removed=30)
    engine = Engine(make_plan(query, table_of([], ["a"]).schema, ahead="off", idle=0))
    engine.batch([table_of([row("p", 5, 1), row("p", 6, 1, gone=True)], ["a"])])
    for t in (10, 20, 25):
        engine.batch([table_of([row("q", t, 1, g="y"), row("r", t, 1, g="y")], ["a"])])
    late = engine.batch([table_of([row("p", 5, 1)], ["a"])])
    assert sum(health["stale"] for health in rows_of(late, HEALTH)) == 1
    for t in (40, 60, 61):
        engine.batch([table_of([row("q", t, 1, g="y"), row("r", t, 1, g="y")], ["a"])])
    assert '["x"]' not in engine.states


@given(changing(), st.integers(1, 4))
@settings(max_examples=60)
def test_a_group_at_hand_and_one_that_is_loaded_report_the_same(stream, turns):
    plan = plan_of(stream)
    journals: list[list[Any]] = []
    for at_hand in (True, False):
        engine, found = Engine(plan, **SIZES, at_hand=False), []
        with tiny(updates=turns, spare=2):
            for _, rows in stream.calls:
                if not at_hand:
                    cache._cached.clear()
                found += engine.batch([table_of(rows, list(stream.attributes))]) if rows else []
        journals.append([(kind, table.to_pylist()) for kind, table in found])
    assert journals[0] == journals[1]


@given(changing(), EVERY)
@settings(max_examples=40)
def test_every_row_is_counted_in_one_place(stream, every):
    plan = plan_of(stream, every=every)
    engine, journal = Engine(plan, **(SIZES | {"small": 100})), BatchResult()
    monitors: dict[str, fl.Monitor] = {}
    for _, rows in stream.calls:
        for g in {row["g"] for row in rows}:
            some = [row for row in rows if row["g"] == g]
            monitor = monitors.setdefault(g, fl.Monitor(plan.query))
            now = max([row["t"] for row in some] + ([] if monitor.clock < -1e9 else [int(monitor.clock)]))
            monitor.advance(now, table_of(some, plan.query.names), every=every)
        journal += engine.batch([table_of(rows, list(stream.attributes))]) if rows else []
    for name in ("rows", "stale", "removed", "late"):
        counted = sum(row[name] for row in rows_of(journal, HEALTH))
        assert counted == sum(monitor.stats()[name] for monitor in monitors.values()), name
    assert sum(row["rejected"] for row in rows_of(journal, HEALTH)) == 0
    last = {row["g"]: row["markers"] for row in rows_of(journal, HEALTH)}
    assert last == {g: monitor.stats()["markers"] for g, monitor in monitors.items()}


def row(id: str, t: int, a: float, **more: Any) -> Row:
    return {"id": id, "g": "x", "t": t, "v": 0, "gone": False, "e": t + 50, "a": a, **more}


def test_what_runs_ahead_is_held_and_enters_when_others_follow():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", by=["g"], latest=True, gone="gone", version="v")
    plan = make_plan(query, table_of([], ["a"]).schema, ahead=10)
    engine = Engine(plan, **SIZES)
    with tiny():
        engine.batch([table_of([row("p", 1, 1), row("q", 2, 2), row("r", 3, 3)], ["a"])])
        held = engine.batch([table_of([row("r", 55, 9, gone=True), row("q", 4, 5)], ["a"])])
        assert [each["reason"][:5] for each in rows_of(held, REJECTS)] == ["held:"]
        assert [(each["id"], each["change"]) for each in rows_of(held, CHANGES)] == [("r", "leave"), ("q", "enter")]
        follow = engine.batch([table_of([row("p", 51, 1), row("q", 52, 2), row("p", 56, 4)], ["a"])])
        assert sum(each["released"] for each in rows_of(follow, HEALTH)) == 1
        assert sum(each["removed"] for each in rows_of(follow, HEALTH)) == 1
        of_r = [(each["time"], each["change"]) for each in rows_of(follow, CHANGES) if each["id"] == "r"]
        assert of_r == [(52, "enter"), (55, "leave")]  # since q is no better; then it is removed, at its own time


@given(changing(most=10), st.sampled_from([2, 4]), st.integers(0, 2))
@settings(max_examples=80)
def test_groups_that_begin_anew_and_rows_that_are_held_end_with_the_answer_of_what_was_taken(stream, ahead, few):
    numbers = iter(range(10_000))  # versions that name rows
    calls = [(now, [{**row, "v": next(numbers)} for row in rows]) for now, rows in stream.calls]
    by_version = {row["v"]: row for _, rows in calls for row in rows}
    stream = replace(stream, calls=calls, versions=True)
    plan, taken = plan_of(stream, ahead=ahead), []

    def noted(*given: Any) -> Any:
        found = sift_ahead(*given)
        versions = [block.version for block in found.taken if block.version is not None]
        taken.append((found.anew, [v for each in versions for v in each.tolist()]))
        return found

    monitors: dict[str, fl.Monitor] = {}
    answer: dict[str, dict[Any, Any]] = {}
    with tiny(few=few), pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner, "sift_ahead", noted)
        engine = Engine(plan, **(SIZES | {"small": 100}))
        for _, rows in calls:
            if not rows:
                continue
            taken.clear()
            journal = engine.batch([table_of(rows, list(stream.attributes))])
            for health, (anew, versions) in zip(rows_of(journal, HEALTH), taken, strict=True):
                g = health["g"]
                if anew or g not in monitors:
                    monitors[g] = fl.Monitor(plan.query)
                if health["time"] is not None:
                    some = [by_version[v] for v in versions]
                    monitors[g].advance(health["time"], table_of(some, plan.query.names))
            for change in rows_of(journal, CHANGES):
                rows_in = answer.setdefault(change["g"], {})
                if change["change"] == "leave":
                    del rows_in[change["id"]]
                else:
                    assert (change["change"] == "update") == (change["id"] in rows_in)
                    rows_in[change["id"]] = change["t"], change["probability"]
            for g, monitor in monitors.items():
                now = {each["id"]: (each["t"], each["probability"]) for each in monitor.answer().to_pylist()}
                assert answer.get(g, {}).keys() == now.keys()
                assert all(abs(answer[g][name][1] - now[name][1]) < 3e-9 for name in now)


def test_versions_that_are_texts_are_read_as_the_plan_states():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", latest=True, version="v")
    schema = pa.schema([("id", pa.string()), ("t", pa.int64()), ("v", pa.string()), ("a", pa.float64())])
    stamps = [("p", 1, "2024-05-01T12:00:00Z", 1.0), ("p", 1, "2024-04-01", 2.0), ("p", 1, "7", 3.0)]
    numbers = [("p", 1, "10", 1.0), ("p", 1, "9", 2.0), ("p", 1, "2024-05-01", 3.0)]
    for meant, rows in (("timestamp", stamps), (None, numbers)):
        plan = make_plan(query, schema, versions=meant)
        table = pa.Table.from_pylist([dict(zip(schema.names, each, strict=True)) for each in rows], schema=schema)
        journal = Engine(plan).batch([table])
        assert [each["a"] for each in rows_of(journal, CHANGES)] == [1.0]
        [reject] = rows_of(journal, REJECTS)
        assert "the version 'v' is" in reject["reason"]
