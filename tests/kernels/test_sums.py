"""Is a probability right to 1e-9, however many rivals there are and however often they come and go?"""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fogline as fl
from fogline.arrays import Batch, Sums, objects, unshared
from fogline.engine.live import LiveSet
from fogline.engine.table import once
from fogline.kernels.compile import kernel
from fogline.kernels.instances import dominates_instances, instance_weights, own_grid, scratch_for
from fogline.kernels.sums import account, total
from fogline.kernels.uncertain import dense
from fogline.rows.cells import PAIRS
from tests.kernels.common import packed

MANY = 10_000_000


@kernel
def added(chance, sums, sign, n):
    for _ in range(n):
        account(chance, chance.shape[0], sign, sums, 0)


@kernel
def left(weight, sums):
    return total(weight, weight.shape[0], sums, 0)


@kernel
def left_by(uncertain, n):
    """What n rivals like the second cloud leave of the first."""
    scratch, grid = scratch_for(16), own_grid(uncertain, 0)
    places = instance_weights(grid, scratch.weight)
    sums = Sums(np.zeros((places, 2), np.int64), np.zeros(places, np.int64))
    if dominates_instances(uncertain, 1, 0, grid, scratch):
        for _ in range(n):
            account(scratch.chance, places, 1, sums, 0)
    return total(scratch.weight, places, sums, 0)


def no_sums(places):
    return Sums(np.zeros((places, 2), np.int64), np.zeros(places, np.int64))


CHANCES = np.array([1e-12, 1e-10, 1e-9, 3e-9, 1e-8, 1e-7, 1e-6, 0.3, 0.99, 1 - 2e-12])


def test_ten_million_rivals_leave_what_they_leave_to_nine_digits_and_nothing_when_they_go():
    sums, exact = no_sums(len(CHANCES)), np.array([math.exp(MANY * math.log1p(-p)) for p in CHANCES])
    added(CHANCES, sums, 1, MANY)
    for k in range(len(CHANCES)):
        assert left(np.eye(len(CHANCES))[k], sums) == pytest.approx(exact[k], abs=1e-10)
    assert left(np.full(len(CHANCES), 0.1), sums) == pytest.approx(exact.mean(), abs=1e-10)
    added(CHANCES, sums, -1, MANY)
    assert not sums.logs.any()


def test_two_billion_rivals_that_all_but_surely_beat_a_place_do_not_overflow():
    sums = no_sums(1)
    added(np.array([1 - 1.01e-12]), sums, 1, 1)
    one = sums.logs[0].tolist()
    assert all(abs(word) * (2**31 - 1) < 2**63 for word in one)
    assert abs(one[1]) <= 2**31  # a remainder is half a unit at most, whatever the logarithm is


@pytest.mark.parametrize("p", [1e-9, 1e-8, 1e-7])
@pytest.mark.parametrize("d", [1, 4])
def test_ten_million_rivals_that_nearly_tie_are_not_lost_in_a_difference(p, d):
    rows = [[[(5, 1)]] * d, [[(5, 1 - p), (10, p)]] * d]
    exact = math.exp(MANY * d * math.log1p(-p))  # none of them is better in any attribute
    assert left_by(packed(rows), MANY) == pytest.approx(exact, abs=1e-9)


def monitored(cell, n, odd):
    """What is reported of one row beside n with this cell."""
    pairs = [{"value": v, "weight": w} for v, w in cell]
    cells = pa.array([pairs], PAIRS).take(pa.array(np.zeros(n, np.int64)))
    rows = pa.table({"id": np.arange(n), "t": np.zeros(n), "a": cells})
    one = pa.table({"id": [n], "t": [0.0], "a": pa.array([[{"value": v, "weight": w} for v, w in odd]], PAIRS)})
    monitor = fl.Monitor(fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=9, alpha=0.3))
    changes = monitor.advance(0, pa.concat_tables([rows, one]))
    (found,) = changes.filter(pc.equal(changes["id"], n)).to_pylist()
    assert found["probability_error"] == 0
    return found["probability"]


@pytest.mark.slow
def test_half_a_million_rivals_that_all_but_surely_beat_a_place_leave_nothing_of_it():
    found = monitored([(0, 0.01), (10, 0.99)], 460_000, [(5, 0.5), (20, 0.5)])
    assert found == pytest.approx(0.5, abs=1e-12)


def test_a_hundred_thousand_rivals_that_hardly_beat_a_row_are_all_counted():
    n = 100_000
    found = monitored([(0, 1 - 1e-6), (10, 1e-6)], n, [(5, 1)])
    assert found == pytest.approx(math.exp(n * math.log1p(-1e-6)), abs=1e-11)


def repeated(first, other, n):
    """Clouds: one of the first sort, then n of the other."""
    uncertain = packed([first, other])
    return dense(uncertain, np.minimum(np.arange(n + 1), 1), unshared(uncertain.lo.shape[1]))


def test_a_table_at_once_counts_them_all_too():
    n = 100_000
    uncertain = repeated([[(5, 1)]], [[(0, 1 - 1e-6), (10, 1e-6)]], n)
    which, probability, _ = once(uncertain, 0.3)
    assert which.tolist() == [0]
    assert probability[0] == pytest.approx(math.exp(n * math.log1p(-1e-6)), abs=1e-11)


@pytest.mark.slow
def test_bounds_hold_beside_hundreds_of_thousands_of_strong_rivals():
    n, live = 300_000, LiveSet(2, 0.3, exact_limit=3)
    strong, own = [(0, 1e-9), (10, 1 - 1e-9)], [(1, 0.25), (3, 0.25), (5, 0.25), (20, 0.25)]
    uncertain, zeros = repeated([own, own], [strong, [(10, 1)]], n), np.zeros(n + 1)
    live.tick(
        0.0, Batch(objects(list(range(n + 1))), zeros, zeros + 1.0, uncertain.lo, np.empty((n + 1, 0)), uncertain)
    )
    low, high, _ = live.bracket(0, np.arange(n + 1), until_out=False)
    assert low <= 1 - 0.75**2 + 1e-9
    assert high >= 1 - 0.75**2 - 1e-9
    assert high - low < 1e-3
