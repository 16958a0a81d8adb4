"""Are thousands of rows that are exactly the same treated as one, and is the answer still everyone's?"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.engine import live
from tests.contracts import run
from tests.strategies import late_streams, streams

NAMES = ("a", "b", "c")
QUERY = fl.Query(attributes=dict.fromkeys(NAMES, "max"), id="id", time="t", expires="e", alpha=0.2)


def row(i, t, cells, e=100.0):
    return {"id": i, "t": float(t), "e": float(e)} | dict(zip(NAMES, cells, strict=True))


KNOWN = (3.0, 3.0, 3.0)
LIKELY, RARELY = ([(1.0, 0.5), (4.0, 0.5)], 3.0, 3.0), ([(1.0, 0.9), (9.0, 0.1)], 3.0, 3.0)


@pytest.mark.parametrize(("cells", "expected"), [(KNOWN, 0.5), (LIKELY, 0.25), (RARELY, None)])
@pytest.mark.parametrize("ticks", [1, 4])
def test_equal_rows_have_one_probability(cells, expected, ticks):
    """Of so many rows with a gap some other surely has the better value."""
    n = 600
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row(-1, 1, ([(2.0, 0.5), (5.0, 0.5)], 4.0, 4.0))])
    for t in range(1, ticks + 1):
        monitor.advance(t, [row(i, t, cells, 50 + i % 3) for i in range(n) if i % ticks == t - 1])
    answer = {row["id"]: row["probability"] for row in monitor.answer().to_pylist() if row["id"] >= 0}
    assert answer == ({} if expected is None else dict.fromkeys(range(n), pytest.approx(expected)))
    monitor.check()
    monitor.advance(51, [])
    monitor.check()
    assert monitor.groups[()].live.alive == 1 + n // 3


def test_few_equal_rows_with_gaps_have_the_probability_of_the_formula(monkeypatch):
    monkeypatch.setattr(live, "MANY", 1)
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row(i, 1, LIKELY, 50 + i) for i in range(3)])
    expected = 0.5 + 0.5 * 0.25  # it has 4, or none of the two others has
    assert [each["probability"] for each in monitor.answer().to_pylist()] == [pytest.approx(expected)] * 3
    monitor.advance(50, [])
    assert [each["probability"] for each in monitor.answer().to_pylist()] == [pytest.approx(0.75)] * 2
    monitor.check()


def test_equal_rows_are_judged_once():
    rng = np.random.default_rng(4)
    known = [tuple(float(x) for x in rng.integers(0, 4, 3)) for _ in range(6)]
    some = [([(a, 0.5), (a + 0.5, 0.5)], b, c) for a, b, c in known]  # rows without a gap need no judging
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row(i, 1, some[i % 6], 50 + i) for i in range(3 * live.MANY)])
    assert 0 < monitor.groups[()].live.counts.evaluations <= len(set(known))
    alone = fl.Monitor(QUERY)
    alone.advance(1, [row(i, 1, some[i], 50 + i) for i in range(6)])
    winners = {each["id"] for each in alone.answer().to_pylist()}
    assert {each["id"] % 6 for each in monitor.answer().to_pylist()} == winners


def doubled(stream):
    """The same stream, every row twice, under names of their own."""

    def named(row, copy):
        return row | {"id": f"{row['id']} {copy}"}

    calls = [(now, [named(row, copy) for row in rows for copy in (1, 2)]) for now, rows in stream.calls]
    return replace(stream, calls=calls)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(streams(window="expires") | late_streams(), st.sets(st.integers(0, 5)))
def test_streams_of_rows_that_come_twice_have_the_true_answer(stream, resume):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "MANY", 0)
        run(doubled(stream), resume)
