"""Does a sensor's state know which gaps a new reading speaks of?"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.repository.sensors import gaps as module
from fogline.repository.sensors.gaps import Gaps, Revised, joined
from fogline.repository.sensors.state import READINGS, SensorRows, SensorState

D = 2
NAN = float("nan")
Row = tuple[str, float, tuple[float, float], float]  # sensor, time, values, expiry

rows = st.tuples(
    st.sampled_from("ab"),
    st.integers(0, 12).map(float),
    st.tuples(*[st.sampled_from([NAN, NAN, 1.0, 2.0])] * D),
    st.integers(1, 8).map(float),
).map(lambda row: (row[0], row[1], row[2], row[1] + row[3]))


def watch(state: SensorState, call: list[Row]) -> tuple[Any, Revised]:
    time, values = np.array([r[1] for r in call]), np.array([r[2] for r in call]).reshape(len(call), D)
    kept = Gaps(np.isnan(values), np.array([r[3] for r in call]))
    return state.take(SensorRows([(r[0],) for r in call], time, values, np.ones(len(call), np.bool_), gaps=kept))[:2]


class Naive:
    """The same, as the rules read."""

    def __init__(self) -> None:
        self.heard: dict[str, float] = {}
        self.seen: dict[tuple[str, int], list[tuple[float, float]]] = {}  # newest first
        self.open: list[list[Any]] = []  # sensor, time, expiry, cells, row

    def take(self, call: list[Row]) -> tuple[list[Any], list[Any]]:
        nexts, events = {}, []
        for gap in self.open:
            gap[4] = -1
        for i in sorted(range(len(call)), key=lambda i: call[i][1]):
            name, now, values, expiry = call[i]
            has = {j for j in range(D) if not np.isnan(values[j])}
            heard = self.heard.get(name, -np.inf)
            speaks = bool(has) and (now > heard or heard >= expiry)
            if speaks:
                for gap in sorted(self.open, key=lambda gap: gap[1]):
                    if gap[0] == name and gap[1] < now < gap[2] and gap[3] & has:
                        events.append((i, gap[1], gap[4], gap[3] & has))
                        gap[3] = gap[3] - has
                self.open = [gap for gap in self.open if gap[3]]
            stored = {j: self.seen.get((name, j), []) for j in range(D)}
            later = {j: [each for each in stored[j] if now < each[0] < expiry] for j in range(D)}
            sure = {j for j in range(D) if later[j] and not (len(stored[j]) == READINGS and stored[j][-1][0] > now)}
            nexts[i] = [(later[j][-1][1], later[j][-1][0] - now) if j in sure else (NAN, NAN) for j in range(D)]
            waits = {j for j in range(D) if j not in has and not later[j]}
            if waits and expiry > now:
                self.open.append([name, now, expiry, waits, i])
            for j in has:
                if all(each[0] != now for each in stored[j]):
                    self.seen[name, j] = sorted([*stored[j], (now, values[j])], reverse=True)[:READINGS]
            if speaks:
                self.heard[name] = now
        return [nexts[i] for i in range(len(call))], events


def events_of(found: Revised) -> list[Any]:
    return [
        (int(i), float(t), int(r), set(np.flatnonzero(cells).tolist())) for i, t, r, cells in zip(*found, strict=True)
    ]


@settings(max_examples=150)
@given(st.lists(st.lists(rows, max_size=6, unique_by=lambda row: row[:2]), max_size=6), st.integers(0, 5))
def test_a_reading_revises_what_the_rules_state(calls, restart):
    state, naive = SensorState(D, hindsight=True), Naive()
    seen: dict[tuple[str, float], float] = {}  # sensor and time of a row: its expiry
    for k, call in enumerate(calls):
        call = [row for row in call if row[:2] not in seen]
        seen |= {row[:2]: row[3] for row in call}
        nexts, events = naive.take(call)
        context, found = watch(state, call)
        newest = max((time for _, time in seen), default=0.0)
        given_, true = (
            [each for each in some if 2 * seen[call[each[0]][0], each[1]] - each[1] > newest]  # others may be retired
            for some in (events_of(found), events)
        )
        assert sorted(given_, key=str) == sorted(true, key=str)
        assert [call[i][1] for i, *_ in given_] == sorted(call[i][1] for i, *_ in true)
        np.testing.assert_array_equal(context[:, -2 * D :], np.array(nexts).reshape(len(call), 2 * D))
        state.check()
        if k == restart:
            state = SensorState(D, hindsight=True).load(state.to_bytes())
            state.check()


def test_each_cell_is_revised_once_and_by_the_first_reading_that_has_it():
    state = SensorState(D, hindsight=True)
    _, none = watch(state, [("a", 1.0, (NAN, NAN), 9.0)])
    assert events_of(none) == []
    _, found = watch(state, [("a", 3.0, (5.0, 6.0), 9.0), ("a", 2.0, (4.0, NAN), 9.0), ("b", 2.0, (1.0, 1.0), 9.0)])
    assert events_of(found) == [(1, 1.0, -1, {0}), (0, 1.0, -1, {1}), (0, 2.0, 1, {1})]
    assert events_of(watch(state, [("a", 4.0, (5.0, 6.0), 9.0)])[1]) == []


def test_a_late_reading_revises_nothing_and_a_late_row_sees_the_next_values_at_once():
    state = SensorState(D, hindsight=True)
    watch(state, [("a", 1.0, (NAN, 1.0), 9.0), ("a", 5.0, (NAN, 7.0), 9.0)])
    context, found = watch(state, [("a", 3.0, (2.0, NAN), 9.0)])
    assert events_of(found) == []
    np.testing.assert_array_equal(context[0, -2 * D :], [NAN, NAN, 7.0, 2.0])
    assert events_of(watch(state, [("a", 6.0, (8.0, 8.0), 9.0)])[1]) == [(0, 1.0, -1, {0}), (0, 5.0, -1, {0})]


def test_a_reading_whose_clock_was_wrong_spoils_nothing():
    state = SensorState(D, hindsight=True)
    watch(state, [("a", 1.0, (NAN, 1.0), 9.0), ("a", 4000.0, (7.0, 7.0), 4008.0)])
    context, found = watch(state, [("a", 2.0, (NAN, 2.0), 10.0)])
    assert np.isnan(context[0, -2 * D :]).all()  # not what will be read in the far future
    assert events_of(found) == []
    assert events_of(watch(state, [("a", 3.0, (5.0, 3.0), 11.0)])[1]) == [(0, 1.0, -1, {0}), (0, 2.0, -1, {0})]


def test_a_row_that_is_so_late_that_the_next_reading_is_forgotten_sees_none():
    state = SensorState(D, hindsight=True)
    watch(state, [("a", float(t), (float(t), 1.0), t + 100.0) for t in range(1, 21)])
    context, _ = watch(state, [("a", 2.5, (NAN, NAN), 102.5), ("a", 15.5, (NAN, NAN), 115.5)])
    np.testing.assert_array_equal(context[:, -2 * D :], [[NAN] * 4, [16.0, 0.5, 1.0, 0.5]])


def test_rows_that_are_closed_are_revised_no_more():
    state = SensorState(D, hindsight=True)
    watch(state, [("a", 1.0, (NAN, NAN), 9.0), ("a", 2.0, (NAN, NAN), 9.0), ("b", 1.0, (NAN, NAN), 9.0)])
    state.close([("a",), ("stranger",)], np.array([1.0, 1.0]))
    state.close([("b",)], np.array([1.0]), cells=np.array([[True, False]]))
    state.check()
    found = events_of(watch(state, [("a", 3.0, (0.0, 0.0), 9.0), ("b", 3.0, (0.0, 0.0), 9.0)])[1])
    assert found == [(0, 2.0, -1, {0, 1}), (1, 1.0, -1, {1})]


def test_gaps_are_bounded_by_number_the_oldest_of_a_sensor_go_first(monkeypatch):
    monkeypatch.setattr(module.OpenGaps.__init__, "__kwdefaults__", {"of_one": 3, "most": 5})
    state = SensorState(D, hindsight=True)
    watch(state, [("a", float(t), (NAN, NAN), 99.0) for t in range(6)])
    watch(state, [("b", float(t), (NAN, NAN), 99.0) for t in range(3)])
    state.check()
    assert state.gaps is not None
    assert state.lost == 3 + 1
    assert SensorState(D, hindsight=True).load(state.to_bytes()).lost == 3 + 1
    found = events_of(watch(state, [("a", 7.0, (0.0, NAN), 99.0), ("b", 7.0, (0.0, NAN), 99.0)])[1])
    assert [(i, t) for i, t, *_ in found] == [(0, 3.0), (0, 4.0), (0, 5.0), (1, 0.0), (1, 1.0)]


def test_gaps_leave_when_their_rows_have_been_gone_for_a_lifetime():
    state = SensorState(D, hindsight=True)
    watch(state, [("a", 0.0, (NAN, NAN), 10.0), ("b", 0.0, (1.0, 1.0), 10.0), ("c", 0.0, (1.0, 1.0), 10.0)])
    for now, left in ((19.0, 1), (20.0, 0)):
        watch(state, [("b", now, (1.0, 1.0), now + 10), ("c", now, (1.0, 1.0), now + 10)])
        state.retire()
        assert len(state.open_gaps().time) == left


def test_open_gaps_are_parted_and_joined_by_sensors():
    state = SensorState(D, hindsight=True)
    watch(state, [("a", 1.0, (NAN, 1.0), 9.0), ("b", 1.0, (1.0, NAN), 9.0), ("a", 2.0, (NAN, NAN), 9.0)])
    names, (times, values), held = list(state.number), state.arrays(), state.open_gaps()
    a, b = (held.part(np.array([k])) for k in range(2))
    back = joined([b, a])
    again = SensorState(D, hindsight=True).holding(names[::-1], times[::-1], values[::-1], back)
    again.check()
    reading = [("b", 3.0, (1.0, 1.0), 9.0), ("a", 3.0, (1.0, 1.0), 9.0)]
    assert events_of(watch(again, reading)[1]) == events_of(watch(state, reading)[1])
