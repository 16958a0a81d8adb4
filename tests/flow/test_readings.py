"""Are readings of a large bucket those of one state, while only parts of sensors that speak are touched?"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from fogline.pipeline import sensor_state as readings
from fogline.pipeline.plan import make_plan
from fogline.pipeline.sensor_state import ReadingStore
from fogline.pipeline.sensors import Dealer, SensorStage
from fogline.repository.repository import Repository
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.state import sensor_names
from tests.flow.test_waiting import Counted
from tests.walks import NAMES, QUERY, walks


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


def model() -> SensorModel:
    found = learnt().sensors
    assert found is not None
    return found


def plan(**how):
    return make_plan(QUERY, walks(steps=1).schema, opened=learnt, buckets=1, **how)


@pytest.fixture
def small(monkeypatch):
    """Parts of few sensors, so that there are many."""
    monkeypatch.setattr(readings, "SMALL", 25)
    monkeypatch.setattr(readings, "PART", 2)


def speak(rng, count: int, now: int) -> pa.Table:
    """Some of many sensors speak, some of them late; none twice of one instant."""
    names = [f"n{k}" for k in rng.choice(count, min(count, 9), replace=False)]
    values = {name: np.round(rng.normal(0, 3, len(names)), 1) for name in NAMES}
    values["heat"][rng.random(len(names)) < 0.4] = np.nan
    columns = {name: pa.array(each, from_pandas=True) for name, each in values.items()}
    return pa.table({"sensor": names, "t": 3 * now - rng.choice([0, 4, 8], len(names)), **columns})


def test_contexts_are_those_of_one_state_while_parts_grow_and_survive_as_bytes(small):
    rng, store, whole = np.random.default_rng(3), Counted(), model().state()
    parts = []
    for k in range(60):
        table = speak(rng, 10 + 2 * k, 1_000 + k)
        [batch] = table.combine_chunks().to_batches()
        come = [each for _, each in Dealer(plan()).deal(batch)]
        _, context = SensorStage(plan()).impute(0, come, store)
        state = store.get("sensors")
        values = np.stack([table[name].to_numpy(zero_copy_only=False) for name in NAMES], axis=1)
        wanted = ~np.isnan(context).all(axis=1) | np.isnan(values).any(axis=1)
        times = table["t"].to_numpy().astype(float)
        expected = whole.update(sensor_names(table["sensor"].to_pylist()), times, values, wanted)
        np.testing.assert_array_equal(context[wanted], expected)
        assert state is not None
        opened = ReadingStore(plan(), model()).open(0, state, [*whole.number], store)
        opened.kept.check()
        assert {*opened.kept.number} == {*whole.number}
        assert opened.sensors == len(whole.number)
        parts.append(opened.parts)
    assert parts == sorted(parts)
    assert len(set(parts)) > 2  # in the state, in parts, in more parts
    for name, i in opened.kept.number.items():
        np.testing.assert_array_equal(opened.kept.times[i], whole.times[whole.number[name]])
        np.testing.assert_array_equal(opened.kept.values[i], whole.values[whole.number[name]])


def test_a_small_bucket_lies_in_its_state_and_a_large_one_writes_only_parts_that_were_touched():
    names = sensor_names([f"n{k}" for k in range(5_000)])
    for count, calls in ((900, 0), (5_000, 10)):
        kept, store = ReadingStore(plan(), model()), Counted()
        opened = kept.open(0, None, names[:count], store)
        values = np.ones((count, 3))
        opened.kept.update(names[:count], np.full(count, 300.0), values, np.zeros(count, np.bool_))
        state = kept.save(opened, store)
        size = len(state or b"") + sum(map(len, store.beside))
        store.calls.clear()
        again = kept.open(0, state, names[:5], store)
        again.kept.update(names[:5], np.full(5, 301.0), values[:5], np.zeros(5, np.bool_))
        then = kept.save(again, store)
        written = len(then or b"") + sum(each for what, each in store.calls if what == "put")
        assert len(store.calls) <= calls
        assert (then is None) is bool(calls)  # the state of a large one knows only how many there are
        assert calls == 0 or written < size / 15


@pytest.mark.parametrize("most", [1, 7, 26, 40])
def test_a_bucket_in_parts_forgets_the_sensors_that_one_state_would(small, most):
    rng, store, state = np.random.default_rng(most), Counted(), None
    bounded = replace(model(), most=most)
    kept, whole = ReadingStore(plan(), bounded), bounded.state()
    for k in range(150):
        some = rng.choice(60 + k, rng.integers(1, 12), replace=False)  # more and more of them
        names, values = sensor_names([f"n{i}" for i in some]), rng.normal(size=(len(some), 3))
        values[rng.random(values.shape) < 0.3] = np.nan
        times = 300.0 + np.sort(k + rng.integers(-rng.integers(0, 3), 2, len(some)))  # some are late
        opened = kept.open(0, state, names, store)
        every = np.ones(len(some), np.bool_)
        context = opened.kept.update(names, times, values, every)
        before = whole.forgotten
        np.testing.assert_array_equal(context, whole.update(names, times, values, every))
        assert opened.kept.forgotten == whole.forgotten - before
        state = kept.save(opened, store) or state
    everything = kept.open(0, state, sensor_names([f"n{i}" for i in range(300)]), store)
    everything.kept.check()
    assert {*everything.kept.number} == {*whole.number}
    assert everything.sensors == len(whole.number)
    assert whole.forgotten > 100


def test_beyond_the_bound_only_parts_of_those_silent_longest_are_opened(small):
    bounded, store, state = replace(model(), most=400), Counted(), None
    kept = ReadingStore(plan(), bounded)
    for k in range(200):
        names = sensor_names([f"n{i}" for i in range(3 * k, 3 * k + 3)])
        store.calls.clear()
        opened = kept.open(0, state, names, store)
        opened.kept.update(names, np.full(3, 300.0 + k), np.ones((3, 3)), np.zeros(3, np.bool_))
        state = kept.save(opened, store) or state
    assert opened.kept.forgotten == 3
    assert opened.parts > 100
    assert len(store.calls) < 40


@pytest.mark.parametrize("buckets", [8, 24])
def test_sensors_are_dealt_evenly_into_buckets(buckets):
    names = sensor_names([f"sensor {k}" for k in range(12_000)])
    counts = np.bincount([readings.bucket_of(name, buckets) for name in names], minlength=buckets)
    assert len(counts) == buckets
    assert abs(counts * buckets / 12_000 - 1).max() < 0.2
