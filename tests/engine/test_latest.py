"""Is the answer right at every tick, where each id has one current row?

Small random streams of rows that are replaced, corrected, removed, late, stale, and come again, against the oracle.
"""

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.arrays import CHANGES, Delta
from fogline.engine import latest, live
from fogline.engine.audit import audit, measure, tree
from fogline.engine.explain import explained
from fogline.engine.group import Incoming
from tests import oracle
from tests.changing import LISTED, Changing, Toy, changing, of_listed
from tests.contracts import CLOSE, agree, members


def trying(examples):
    return settings(
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )


def net(answer, delta):
    """{id: (time, probability, values)} after one delta; each change must make sense where it stands."""
    answer, seen = dict(answer), set()
    for name, arrived, change, p, raw in zip(
        delta.id, delta.arrived, delta.change, delta.probability, delta.raw, strict=True
    ):
        assert name not in seen, f"{name} changed twice at {delta.time}"
        seen.add(name)
        row = (arrived, p, tuple(map(str, raw)))
        if CHANGES[change] == "leave":
            before = answer.pop(name)
            assert (arrived, row[2]) == (before[0], before[2]), f"{name} left with values that it did not have"
            continue
        assert (CHANGES[change] == "update") == (name in answer), f"{name} was not reported as it is"
        if name in answer:
            before = answer[name]
            assert (before[0], before[2]) != (arrived, row[2]) or abs(before[1] - p) > CLOSE, f"{name} is as it was"
        answer[name] = row
    return answer


def now_in(group):
    """{id: (time, probability, values)} of the answer."""
    s, c = group.live.slots, group.live.slots.columns
    which = group.live.members()
    return {s.id[o]: (c.arrived[o], c.probability[o], tuple(map(str, s.raw[o]))) for o in which}


def same(given, true, within=CLOSE):
    """Do ids, times and probabilities agree?"""
    agree({(name, t): p for name, (t, p, _) in given.items()}, true, within)


def run(stream: Changing, resume=(), at_once=(), unchecked=()):
    """Drive a group through all calls and hold it to the oracle at every tick. Returns the group."""
    toy, truth, ticks = Toy(stream), stream.oracle(), defaultdict(list)
    course: list[Delta] = []
    found: dict[Any, Fraction] = {}
    answer: dict[Any, Any] = {}
    for tick in truth.ticks():
        ticks[tick.call].append((tick.time, members(tick.probabilities, stream.alpha)))
    group, clock, k = toy.group(), -np.inf, 0
    for call, (now, rows) in enumerate(stream.calls):
        some = list(enumerate(rows, start=k))
        k += len(rows)
        once = call in at_once
        deltas = group.advance(clock, float(now), Incoming(toy.batch(some), None, toy.removals(some)), not once)
        clock = float(now)
        assert [d.time for d in deltas] == sorted({d.time for d in deltas})
        assert {d.time for d in deltas} <= ({clock} if once else {float(t) for t, _ in ticks[call]})
        reached = 0
        for t, true in ticks[call]:
            found = true
            while reached < len(deltas) and deltas[reached].time <= t:
                answer = net(answer, deltas[reached])
                reached += 1
            if not once:
                same(answer, true, 2.5 * CLOSE)  # an update may wait
        for delta in deltas[reached:]:
            answer = net(answer, delta)
        same(answer, found, 2.5 * CLOSE)
        same(now_in(group), found)
        assert {name: (t, raw) for name, (t, _, raw) in now_in(group).items()} == {
            name: (t, raw) for name, (t, _, raw) in answer.items()
        }
        if call not in unchecked:
            audit(group.live)
            group.check()
        if call in resume:
            again = toy.resumed(group)
            identical(again, group)
            group = again
        course += deltas
    assert group.stale == truth.stale
    assert group.markers == truth.markers()
    assert group.live.alive == len(truth.current())
    measure(group)
    return group, course


def identical(a, b):
    """Has the group that stood up again the same state, guards and markers included?"""
    assert state_of(a) == state_of(b)


def state_of(group):
    s, names = group.live.slots, group.names
    alive = s.alive()
    guards = {}
    for o in alive:
        state = int(s.columns.state[o])
        joint = [int(g) for g in s.guards.joint[o]] if state == 2 else []
        guards[s.id[o]] = (
            state,
            s.id[s.guards.sure[o]] if state == 1 and s.guards.sure[o] >= 0 else None,
            [s.id[g] if g >= 0 else g for g in joint[: ([*(g < 0 for g in joint), True]).index(True) + 1]],
            str(s.columns.reported[o]),
        )
    markers = {names.id[k]: (names.time[k], names.version[k]) for k in names.markers(group.clock)}
    return guards, markers, group.stale, group.removed, group.late, [s.id[o] for o in group.live.opened]


@trying(150)
@given(changing(), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_every_tick_has_the_true_answer_and_the_changes_of_ids_lead_there(stream, resume, at_once):
    run(stream, resume, at_once)


# --- Listed streams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", LISTED, ids=lambda each: f"stream {each['seed']}")
def test_every_listed_tick_has_its_answer(listed):
    stream = of_listed(listed)
    found: dict[Any, Fraction] = {}
    last = {tick.call: tick.probabilities for tick in stream.oracle().ticks()}
    for call, tick in enumerate(listed["ticks"]):
        found = last.get(call, found)
        assert {name: str(p) for (name, _), p in found.items()} == tick["probability"]
        assert {name for name, _ in oracle.answer(found, stream.alpha)} == set(tick["answer"])
    checked = range(3, 100, 7)
    run(stream, resume=checked, at_once=range(5, 100, 4), unchecked=set(range(100)).difference(checked))


# --- Rare paths, made common ------------------------------------------------------------------------------------------


RARE = {
    "few guards are remembered, so they are many": [(latest, "GUARDS", 1)],
    "markers are forgotten at every tick": [(latest, "FORGET_FROM", 0)],
    "gaps are closed at every tick": [(live, "COMPACT_FROM", 0), (live, "WASTE", 1)],
    "equal rows are judged once": [(live, "MANY", 0)],
    "no row keeps sums": [(live, "SUM_LIMIT", 1)],
    "open rows are sorted at every tick": [(latest, "UNSORTED", 0)],
}


@pytest.mark.parametrize("rare", RARE)
@trying(40)
@given(changing(), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_on_rare_paths_every_tick_has_the_true_answer(rare, stream, resume, at_once):
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in RARE[rare]:
            patch.setattr(module, name, value)
        run(stream, resume, at_once)


# --- One by one -------------------------------------------------------------------------------------------------------


def rows_at(t, **cells):
    """Rows of one time, by their ids; None is a removal."""
    return [
        {"id": name, "t": t, "v": 0, "gone": cell is None, "a0": 0 if cell is None else cell}
        for name, cell in cells.items()
    ]


def one_by_one(alpha, *calls, resume=()):
    """Ids in the answer after each call, held to the oracle; times are 0, 1, 2, …"""
    stream = Changing({"a0": "max"}, Fraction(alpha), [(t, rows_at(t, **cells)) for t, cells in enumerate(calls)], {})
    group, _ = run(stream, resume)
    return set(now_in(group))


HALF = [(0, 1), (9, 1)]  # beats what lies between every second time


def test_a_row_that_two_keep_out_together_returns_when_either_leaves():
    together = {"x": 5, "g": HALF, "h": HALF}
    assert one_by_one("2/5", together) == {"g", "h"}
    for left in "gh":
        assert one_by_one("2/5", together, {left: 1}, resume=[0]) == {"x", "g", "h"} - {left}
        assert one_by_one("2/5", together, {left: None}) == {"x", "g", "h"} - {left}


def test_guards_are_known_by_their_new_slots_when_gaps_were_closed():
    together = {"f": 0, "x": 5, "g": HALF, "h": HALF}
    for left in "gh":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live, "COMPACT_FROM", 0)
            patch.setattr(live, "WASTE", 1)
            assert one_by_one("2/5", together, {"f": 1}, {left: 1}) == {"x", "g", "h"} - {left}


def test_an_orphan_is_guarded_by_the_guard_of_the_one_that_left():
    assert one_by_one("1/2", {"a": 3}, {"b": 2}, {"c": 1}, {"b": 0}) == {"a"}  # c was b's, now it is a's
    assert one_by_one("1/2", {"a": 3}, {"b": 2}, {"c": 1}, {"b": None}, {"a": None}) == {"c"}
    assert one_by_one("1/2", {"c": 1}, {"b": 2}, {"a": 3}, {"a": 0, "b": None}) == {"c"}  # a whole chain leaves at once


def test_a_row_that_replaces_a_guard_guards_in_its_place_only_if_it_surely_beats():
    assert one_by_one("1/2", {"a": 3, "b": 2}, {"a": 4}) == {"a"}
    assert one_by_one("1/2", {"a": 3, "b": 2}, {"a": [(1, 1), (4, 3)]}) == {"a"}  # it likely does
    assert one_by_one("1/2", {"a": 3, "b": 2}, {"a": [(1, 3), (4, 1)]}) == {"b"}


def test_a_removed_id_comes_back_with_a_row_of_the_same_time_and_not_with_an_older_one():
    late = {"id": "a", "t": 1, "v": 0, "gone": False, "a0": 5}
    calls = [(0, rows_at(0, a=1)), (2, rows_at(2, a=None)), (3, [late]), (4, [late | {"t": 2}])]
    group, deltas = run(Changing({"a0": "max"}, Fraction(1, 2), calls, {}))
    assert [(d.time, CHANGES[d.change[0]]) for d in deltas] == [(0, "enter"), (2, "leave"), (3, "enter")]
    assert (group.stale, group.late, group.removed, group.markers) == (1, 2, 1, 0)


def test_a_correction_that_changes_nothing_is_not_reported():
    row = {"id": "a", "t": 0, "v": 0, "gone": False, "a0": 5}
    calls = [(0, [row]), (0, [row]), (0, [row | {"a0": 6}]), (1, [row | {"t": 1, "a0": 6}])]
    _, deltas = run(Changing({"a0": "max"}, Fraction(1, 2), calls, {}))
    assert [CHANGES[d.change[0]] for d in deltas] == ["enter", "update", "update"]
    assert [(d.arrived[0], d.raw[0, 0]) for d in deltas] == [(0, 5), (0, 6), (1, 6)]


def test_a_row_is_explained_by_the_rows_that_keep_it_out():
    cells = {"x": 5, "g": HALF, "h": HALF, "z": -1}
    group, _ = run(Changing({"a0": "max"}, Fraction(2, 5), [(0, rows_at(0, **cells))], {}))
    slots, query = group.live.slots, fl.Query(attributes={"a0": "max"}, id="id", time="t", lifetime=1, alpha=0.4)
    reasons = {each.id: each.reason for each in explained(group.live, slots.alive(), (), float, query)}
    assert reasons["x"] == "several rows together guard it"
    assert reasons["g"] == reasons["h"] == "more likely than alpha = 0.4 that no row beats it"
    assert reasons["z"].endswith("surely beats it")
    nodes = tree(group.live, (), float)
    layers, parents = {node.id: node.layer or 0 for node in nodes}, {node.id: node.parent or ("",) for node in nodes}
    assert (layers["g"], layers["h"], layers["x"], layers["z"]) == (1, 1, 2, 1 + layers[parents["z"][0]])
    assert parents["g"] == parents["h"] == ("",)
    assert parents["x"][0] in {"g", "h"}
    assert not any(node.shadow for node in nodes)
