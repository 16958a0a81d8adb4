"""Is what a sample lets expect what a stream then has?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.pipeline.loaded import row_bytes
from fogline.pipeline.plan import make_plan
from fogline.runs.estimate import SAMPLE, Estimate, estimate
from fogline.synthetic import Stream, rows


def expected(query: fl.Query, batch: pa.RecordBatch, total: float | None = None) -> Estimate:
    found = estimate(make_plan(query, batch.schema), [batch], total=total, batch=1_000_000)
    assert found is not None
    return found


def live_rows(query: fl.Query, table: pa.RecordBatch) -> int:
    monitor = fl.Monitor(query)
    monitor.advance(table.column(query.time)[-1].as_py(), table)
    return sum(group.live.alive for group in monitor.groups.values())


@pytest.mark.parametrize("kind", ["uniform", "correlated", "anti"])
def test_live_rows_of_a_window_that_is_longer_than_the_sample_are_met_within_a_factor(kind):
    names = {f"a{j}": "max" for j in range(3)}
    query = fl.Query(names, id="id", time="time", lifetime=4_000)
    stream = Stream(kind, d=3, missing=0.0, seeds=0)
    found = expected(query, rows(stream, 0, SAMPLE), total=120_000)
    assert found.window == pytest.approx(120_000, rel=0.01)
    true = live_rows(query, rows(stream, 0, 120_000))
    assert true / 3 < found.live < 3 * true
    assert found.each == pytest.approx(found.complete, rel=0.5)  # rows without gaps


def test_ids_that_were_not_met_are_expected():
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 30_000, SAMPLE)
    batch = pa.record_batch({"id": ids, "t": np.arange(SAMPLE), "x": rng.random(SAMPLE)})
    query = fl.Query({"x": "max"}, id="id", time="t", latest=True)
    assert expected(query, batch, total=10**7).live == pytest.approx(30_000, rel=0.1)
    alone = batch.set_column(0, "id", pa.array(np.arange(SAMPLE)))
    assert expected(query, alone, total=10**6).live == 10**6  # no id came twice: each row may be another


def test_ids_of_a_rare_type_are_counted_too():
    ids = pa.array([bytes([k % 50]) * 16 for k in range(2_000)], pa.uuid())
    batch = pa.record_batch({"id": ids, "t": pa.array(np.arange(2_000)), "x": pa.array(np.arange(2_000.0))})
    query = fl.Query({"x": "max"}, id="id", time="t", latest=True)
    assert expected(query, batch).live == 50


def test_a_window_by_count():
    batch = rows(Stream(missing=0.0), 0, 1_000)
    names = {f"a{j}": "max" for j in range(4)}
    assert expected(fl.Query(names, id="id", time="time", last=500), batch).window == 500


def test_rows_of_a_window_and_rows_that_wait_are_counted():
    times = pa.array(np.arange(2_000) * 500_000, pa.timestamp("us", "UTC"))  # two a second
    batch = pa.record_batch({"id": np.arange(2_000), "t": times, "x": np.arange(2_000.0), "y": -np.arange(2_000.0)})
    query = fl.Query({"x": "max", "y": "max"}, id="id", time="t", lifetime="1 hour")
    plan = make_plan(query, batch.schema, lateness="100 seconds")
    found = estimate(plan, [batch], total=None, batch=1_000)
    assert found is not None
    assert found.window == pytest.approx(7_200, rel=0.01)
    assert found.live == pytest.approx(7_200, rel=0.15)  # none beats another
    assert found.state == pytest.approx(found.live * found.each + 200 * row_bytes(plan), rel=0.01)
    assert found.sentence().startswith("Estimated memory: ")
    assert found.sentence().endswith(" (from the first 2,000 rows)")


def test_no_rows_let_expect_nothing():
    batch = rows(Stream(), 0, 0)
    query = fl.Query({"a0": "max"}, id="id", time="time", lifetime=10)
    assert estimate(make_plan(query, batch.schema), [batch], total=None, batch=1) is None
