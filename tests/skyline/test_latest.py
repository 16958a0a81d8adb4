"""Is the answer right at every tick, where each id has one current row?

Small random streams of rows that are replaced, corrected, removed, late, stale, and come again, against the oracle.
"""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fogline.arrays import CHANGES
from fogline.skyline import current, live
from fogline.skyline.tree import audit, measure
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
    course, found = [], {}
    for tick in truth.ticks():
        ticks[tick.call].append((tick.time, members(tick.probabilities, stream.alpha)))
    group, answer, clock, k = toy.group(), {}, -np.inf, 0
    for call, (now, rows) in enumerate(stream.calls):
        some = list(enumerate(rows, start=k))
        k += len(rows)
        once = call in at_once
        deltas = group.advance(clock, float(now), toy.batch(some), not once, toy.removals(some))
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
            s.id[s.guards.sure[o]] if state == 1 else None,
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
    found, last = {}, {tick.call: tick.probabilities for tick in stream.oracle().ticks()}
    for call, tick in enumerate(listed["ticks"]):
        found = last.get(call, found)
        assert {name: str(p) for (name, _), p in found.items()} == tick["probability"]
        assert {name for name, _ in oracle.answer(found, stream.alpha)} == set(tick["answer"])
    checked = range(3, 100, 7)
    run(stream, resume=checked, at_once=range(5, 100, 4), unchecked=set(range(100)).difference(checked))


# --- Rare paths, made common ------------------------------------------------------------------------------------------


RARE = {
    "few guards are remembered, so they are many": [(current, "GUARDS", 1)],
    "gaps are closed at every tick": [(current, "SLACK", 0)],
    "no row keeps sums": [(live, "PLACES", 1)],
    "open rows are sorted at every tick": [(current, "UNSORTED", 0)],
}


@pytest.mark.parametrize("rare", RARE)
@trying(40)
@given(changing(), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_on_rare_paths_every_tick_has_the_true_answer(rare, stream, resume, at_once):
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in RARE[rare]:
            patch.setattr(module, name, value)
        run(stream, resume, at_once)
