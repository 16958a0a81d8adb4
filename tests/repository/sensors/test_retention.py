"""Does what is too old leave the state, and does no answer change by it?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fogline as fl
from fogline.repository.sensors.state import FEW, READINGS, SensorState
from tests.walks import QUERY, walks

LONGEST = 10.0


def state(longest: float = LONGEST) -> SensorState:
    return SensorState(1, longest)


def put(kept: SensorState, *rows: tuple[Any, float]) -> Any:
    """Readings of sensors (a name, or a tuple with its groups) at their times; the contexts of all."""
    names = [name if isinstance(name, tuple) else (name,) for name, _ in rows]
    time = np.array([t for _, t in rows], np.float64)
    return kept.update(names, time, time[:, None], np.ones(len(rows), np.bool_))


def held(kept: SensorState) -> dict[Any, list[float]]:
    kept.check()
    times, _ = kept.arrays()
    return {name: times[k, 0][times[k, 0] > -np.inf].tolist() for name, k in kept.number.items()}


def test_readings_and_silent_sensors_leave_when_they_are_too_old():
    kept = state()
    put(kept, ("silent", 0), ("a", 0), ("b", 0), ("a", 15), ("b", 16))
    assert held(kept) == {("silent",): [0.0], ("a",): [15.0, 0.0], ("b",): [16.0, 0.0]}
    put(kept, ("a", 30), ("b", 31))
    saved = kept.to_bytes()
    assert held(state().load(saved)) == {("a",): [30.0, 15.0], ("b",): [31.0, 16.0]}
    assert held(kept) == held(state().load(saved))


def test_without_a_retention_all_stay():
    kept = state(np.inf)
    put(kept, ("silent", 0), ("a", 1e6), ("b", 1e6))
    assert held(state(np.inf).load(kept.to_bytes())) == {("silent",): [0.0], ("a",): [1e6], ("b",): [1e6]}


def test_a_single_row_from_the_future_drives_nothing_out():
    kept = state()
    put(kept, ("a", 1), ("b", 1), ("c", 1))
    put(kept, ("a", 1e9))
    put(kept, ("a", 2e9))
    kept.to_bytes()
    assert held(kept) == {("a",): [2e9, 1e9, 1.0], ("b",): [1.0], ("c",): [1.0]}
    alone = state()
    put(alone, ("a", 1), ("a", 2))
    put(alone, ("a", 1e9))
    alone.to_bytes()
    assert held(alone) == {("a",): [1e9, 2.0, 1.0]}


def test_groups_that_lag_behind_others_lose_nothing():
    kept = state()
    put(kept, (("x", "a"), 1), (("x", "b"), 2), (("y", "a"), 1e6), (("y", "b"), 1e6), (("y", "c"), 1e5))
    kept.to_bytes()
    assert set(held(kept)) == {("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")}


@pytest.mark.parametrize("late", [0.0, LONGEST])
def test_contexts_are_the_same_with_and_without_what_is_too_old(late, monkeypatch):
    rng = np.random.default_rng(3)
    batches = []
    for t in range(0, 300, 3):
        speaking = rng.choice(20 if t < 100 else 6, 5, replace=False)  # fourteen fall silent
        batches.append([(int(k), t + 3 - rng.random() * late) for k in speaking])
    kept, small = state(), 0
    seen = []
    for batch in batches:
        seen.append(put(kept, *batch))
        kept = state().load(kept.to_bytes()) if rng.random() < 0.3 else kept
        kept.check()
        small = max(small, len(kept.number)) if batch[0][1] > 150 else 0
    monkeypatch.setattr(SensorState, "retire", lambda _: None)
    whole = state()
    for batch, context in zip(batches, seen, strict=True):
        np.testing.assert_array_equal(put(whole, *batch), context)
    assert len(whole.number) == 20
    assert small == len(kept.number) == 6
    assert len(kept.to_bytes()) < len(whole.to_bytes())


def test_a_snapshot_does_not_hold_what_is_too_old_and_the_answer_stays():
    repository = fl.Repository.fit(walks(), QUERY, retention=5)
    monitor = fl.Monitor(QUERY, repository)
    assert monitor.intake is not None
    assert monitor.intake.state is not None
    for t in (200, 201):
        monitor.advance(t, walks(steps=1, begin=t))
    large = len(monitor.snapshot())
    few = walks(steps=40, begin=202, gaps=0.2)
    few = few.filter(np.isin(few["sensor"].to_pylist(), ["s1", "s2", "s3"]))
    for t in range(202, 242):
        monitor.advance(t, few.filter(np.equal(few["t"].to_numpy(), t)))
    saved = monitor.snapshot()
    assert set(monitor.intake.state.number) == {("s1",), ("s2",), ("s3",)}
    assert len(saved) < large
    restored = fl.Monitor.restore(QUERY, saved, repository)
    assert restored.answer().equals(monitor.answer())
    more = walks(steps=1, begin=242, gaps=0.3)
    assert restored.advance(242, more).equals(monitor.advance(242, more))


def test_what_is_too_old_leaves_by_itself_after_some_rows():
    kept = state()
    put(kept, *((f"old {k}", 1.0) for k in range(3 * FEW)))
    for t in range(4):
        put(kept, *((f"new {k}", 1e6 + t) for k in range(FEW)))
    assert len(kept.number) == FEW


def test_places_without_a_reading_take_no_room():
    kept = state(np.inf)
    put(kept, *((f"sensor {k}", 1.0) for k in range(1000)))
    full = 1000 * READINGS * 2 * 8
    assert len(kept.to_bytes()) < full / 3
