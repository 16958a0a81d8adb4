"""Which sensors are remembered when there are too many: those heard last, whatever the cut into calls?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.kernels.sensors import LAST, PARTS
from fogline.repository.sensors.gaps import Gaps
from fogline.repository.sensors.state import READINGS, SensorRows, SensorState

D, NAN = 2, np.nan
Row = tuple[str, float, tuple[float, float]]  # sensor, time, values

instants = st.integers(0, 8).map(float)
cells = st.sampled_from([NAN, 1.0, 2.0, 3.0])
rows = st.tuples(st.sampled_from("abcdefg"), instants, st.tuples(cells, cells))
streams = st.lists(rows, max_size=40, unique_by=lambda row: row[:2])
cuts = st.lists(st.integers(0, 40), max_size=8)


class Naive:
    """Sensors in a dict, looked through whenever an instant is past."""

    def __init__(self, most: int) -> None:
        self.most, self.clock, self.forgotten = most, -np.inf, 0
        self.seen: dict[str, list[list[tuple[float, float]]]] = {}  # sensor: of each attribute, the newest first

    def last(self, name: str) -> float:
        return max((each[0][0] for each in self.seen[name] if each), default=-np.inf)

    def drop(self, too_many: int) -> None:
        for name in sorted(self.seen, key=lambda name: (self.last(name), name))[: max(too_many, 0)]:
            self.forgotten += self.last(name) > -np.inf
            del self.seen[name]

    def take(self, call: list[Row]) -> list[list[float]]:
        """Of each row, in the order of times, the last value of each attribute that its sensor had before."""
        out = []
        for name, now, values in sorted(call, key=lambda row: row[1]):
            if now > self.clock:
                self.drop(len(self.seen) - self.most)
            own = self.seen.setdefault(name, [[], []])
            out.append([next((x for t, x in each if t < now), NAN) for each in own])
            for each, x in zip(own, values, strict=True):
                if not np.isnan(x) and all(t != now for t, _ in each):
                    each[:] = sorted([*each, (now, x)], reverse=True)[:READINGS]
            if not np.isnan(values).all():
                self.clock = max(self.clock, now)
            if now < self.clock:
                old = [each for each in self.seen if self.last(each) < self.clock]
                self.drop(len(old) - self.most)
        return out


def take(state: SensorState, call: list[Row]) -> list[list[float]]:
    """The same by a state."""
    call = sorted(call, key=lambda row: row[1])
    time, values = np.array([t for _, t, _ in call]), np.array([each for *_, each in call]).reshape(-1, D)
    found = state.update([(name,) for name, *_ in call], time, values, np.ones(len(call), np.bool_))
    return [each.tolist() for each in found[:, : D * PARTS].reshape(-1, D, PARTS)[:, :, LAST]]


def held(state: SensorState) -> dict[str, list[list[tuple[float, float]]]]:
    state.check()
    times, values = state.arrays()
    return {
        name: [
            [(t, x) for t, x in zip(at, of, strict=True) if t > -np.inf]
            for at, of in zip(times[k].tolist(), values[k].tolist(), strict=True)
        ]
        for (name,), k in state.number.items()
    }


def pieces(stream: list[Row], borders: list[int]) -> list[list[Row]]:
    ends = [0, *sorted(borders), len(stream)]
    return [stream[a:b] for a, b in pairwise(ends)]


@settings(max_examples=300)
@given(streams, cuts, st.integers(1, 5), st.booleans())
def test_the_sensors_heard_last_are_remembered_however_a_stream_is_cut_or_saved(stream, borders, most, saved):
    stream = sorted(stream, key=lambda row: row[1])  # in the order of times, of one instant in any
    naive = Naive(most)
    seen = [each for row in stream for each in naive.take([row])]
    for calls in ([stream], pieces(stream, borders)):
        state, found = SensorState(D, most=most), []
        for call in calls:
            found += take(state, call)
            state = SensorState(D, most=most).load(state.to_bytes()) if saved else state
        np.testing.assert_array_equal(np.array(found).reshape(-1, D), np.array(seen).reshape(-1, D))
        assert held(state) == naive.seen
        assert state.forgotten == naive.forgotten


@settings(max_examples=200)
@given(st.lists(st.lists(rows, max_size=9, unique_by=lambda row: row[:2]), max_size=6), st.integers(1, 4))
def test_late_rows_never_make_a_state_larger_than_the_bound_and_one_instant(calls, most):
    state, naive, known = SensorState(D, most=most), Naive(most), set()
    for call in calls:
        call = [row for row in call if row[:2] not in known]
        known |= {row[:2] for row in call}
        np.testing.assert_array_equal(
            np.array(take(state, call)).reshape(-1, D), np.array(naive.take(call)).reshape(-1, D)
        )
        assert held(state) == naive.seen
        assert state.forgotten == naive.forgotten


@settings(max_examples=200)
@given(streams, cuts, st.integers(1, 4))
def test_gaps_leave_with_their_sensor_and_revisions_do_not_depend_on_the_cut(stream, borders, most):
    stream = sorted(stream, key=lambda row: row[1])
    results: list[Any] = []
    for calls in ([stream], pieces(stream, borders), [[row] for row in stream]):
        state, found = SensorState(D, most=most, hindsight=True), []
        for call in calls:
            time, values = np.array([t for _, t, _ in call]), np.array([each for *_, each in call]).reshape(-1, D)
            gaps = Gaps(np.isnan(values), time + 5)
            names = [(name,) for name, *_ in call]
            revised = state.take(SensorRows(names, time, values, np.ones(len(call), np.bool_), gaps=gaps)).revised
            for i, target, _, some in zip(*revised, strict=True):
                found.append((call[i][:2], float(target), tuple(some)))
            state.check()
        gaps_now = state.open_gaps()
        of = np.repeat(np.arange(len(gaps_now.size)), gaps_now.size)
        left = sorted((state.names[k], t) for k, t, e in zip(of, gaps_now.time, gaps_now.expires, strict=True) if e > 8)
        results.append((sorted(found), left, state.lost, state.forgotten))
    assert results[0] == results[1] == results[2]


def test_one_sensor_more_than_the_bound_drives_one_out_and_it_is_counted():
    state = SensorState(1, most=10)
    for k in range(11):
        state.update([(f"{k:02}",)], np.array([float(k)]), np.zeros((1, 1)), np.zeros(1, np.bool_))
    state.update([("10",)], np.array([11.0]), np.zeros((1, 1)), np.zeros(1, np.bool_))  # instant 10 is past
    assert sorted(state.number) == [(f"{k:02}",) for k in range(1, 11)]
    assert state.forgotten == 1
    assert SensorState(1, most=10).load(state.to_bytes()).forgotten == 1


def test_where_all_sensors_read_at_the_same_instants_always_the_same_ones_are_remembered():
    names = [(f"{k:02}",) for k in range(30)]
    state = SensorState(1, most=10)
    for t in range(5):
        context = state.update(names, np.full(30, float(t)), np.full((30, 1), float(t)), np.ones(30, np.bool_))
        assert np.flatnonzero(~np.isnan(context[:, LAST])).tolist() == ([] if t == 0 else list(range(20, 30)))


@pytest.mark.parametrize("most", [1_000, 8_000])
def test_a_new_sensor_beyond_the_bound_costs_no_look_at_all_others(most, monkeypatch):
    names = [(f"{k:05}",) for k in range(most)]
    state = SensorState(1, most=most)
    state.update(names, np.zeros(most), np.zeros((most, 1)), np.zeros(most, np.bool_))
    looked: list[int] = []
    newest = state.last_read

    def counted(which: Any) -> Any:
        looked.append(np.size(which))
        return newest(which)

    monkeypatch.setattr(state, "last_read", counted)
    for k in range(200):
        state.update([(f"new {k}",)], np.array([1.0 + k]), np.zeros((1, 1)), np.zeros(1, np.bool_))
    state.check()
    assert state.forgotten == 199
    assert sum(looked) < most + 10 * 200  # all of them once, to be put in order
