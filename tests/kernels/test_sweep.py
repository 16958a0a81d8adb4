"""Is a sum over thousands of places right, however rivals tie, repeat and are ordered?"""

from itertools import product
from math import exp, log1p, prod

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest

import fogline as fl
from fogline.arrays import empty_rows
from fogline.kernels.compile import kernel
from fogline.kernels.instances import empty_grid, merge_instances
from fogline.kernels.sweep import all_instances
from tests.kernels.common import packed

NAMES = ("a", "b", "c", "d")
QUERY = fl.Query(attributes=dict.fromkeys(NAMES, "max"), id="id", time="t", lifetime=9, alpha=0.0)


def cell(rng, count):
    """A list of so many integers with weights, or one number."""
    if count == 1:
        return float(rng.integers(10, 30))
    values, weights = np.sort(rng.choice(30, count, replace=False)), rng.integers(1, 5, count)
    return [(float(v), float(w)) for v, w in zip(values, weights / weights.sum(), strict=True)]


def drawn(seed):
    """One row of 17 · 18 · 19 places, first, and rivals: known, with gaps, the same twice."""
    rng = np.random.default_rng(seed)
    rows = [[cell(rng, 17), cell(rng, 18), 14.0, cell(rng, 19)]]
    rows += [[cell(rng, int(n)) for n in rng.choice([1, 1, 2, 5, 12], 4)] for _ in range(14)]
    rows += [[0.0 if rng.random() < 0.4 else rows[0][j] for j in range(4)] for _ in range(3)]  # ties in every cell
    return rows + rows[1:5]


def share(given, x):
    pairs = given if isinstance(given, list) else [(given, 1.0)]
    return sum(w for v, w in pairs if v >= x), sum(w for v, w in pairs if v == x)


def by_definition(rows):
    """The probability of the first row, place by place."""
    own = [each if isinstance(each, list) else [(each, 1.0)] for each in rows[0]]
    shares = [[{x: share(row[j], x) for x, _ in own[j]} for j in range(len(own))] for row in rows[1:]]
    out = 0.0
    for place in product(*own):
        left = prod(w for _, w in place)
        for rival in shares:
            found = [rival[j][place[j][0]] for j in range(len(own))]
            left *= 1 - (prod(a for a, _ in found) - prod(e for _, e in found))
        out += left
    return out


def probability(rows, order):
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [{"id": int(i), "t": 1} | dict(zip(NAMES, rows[i], strict=True)) for i in order])
    found = {row["id"]: row for row in monitor.answer().to_pylist()}
    assert found[0]["probability_error"] == 0
    return found[0]["probability"]


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_sum_over_all_places_with_the_same_bits_in_any_order(seed):
    rows = drawn(seed)
    found = probability(rows, range(len(rows)))
    assert 1e-6 < found < 1
    assert found == pytest.approx(by_definition(rows), abs=1e-9)
    assert probability(rows, np.random.default_rng(seed).permutation(len(rows))) == found


@pytest.mark.parametrize("kinds", [1, 16])
def test_very_many_rivals_that_surely_beat_a_place_do_not_make_it_likely(kinds):
    query = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", lifetime=9, alpha=0.0)
    wide = [(v, 1) for v in range(20)]
    found = {}
    for n in (1_600, 80_000):
        k = np.arange(n) % kinds  # of each kind equal ones; no kind beats another
        points = pd.DataFrame({"id": [f"p{i}" for i in range(n)], "t": 1, "a": 2.5 + k, "b": 18.5 - k, "c": 12.5})
        monitor = fl.Monitor(query)
        monitor.advance(1, [{"id": "wide", "t": 1, "a": wide, "b": wide, "c": wide}])
        changes = monitor.advance(1, points)
        (found[n],) = changes.filter(pc.equal(changes["id"], "wide"))["probability"].to_pylist()
    assert found[80_000] == found[1_600] < 0.95


@kernel
def summed(uncertain, near):
    """The probability of the first cloud, over its merged places."""
    grid = empty_grid(uncertain.size[0].sum(), uncertain.lo.shape[1])
    merge_instances(uncertain, 0, near, grid)
    return all_instances(uncertain, 0, near, grid)


def small(rng):
    """A few clouds of small values: known, or with a list, of one value or more, in a box that may be wider."""
    n, d = int(rng.integers(2, 16)), int(rng.integers(1, 5))
    uncertain, pool, cells = empty_rows(n, d, n * d * 3), 0, []
    for i, j in product(range(n), range(d)):
        count = int(rng.choice([0, 0, 1, 3]))
        value = np.sort(rng.choice(5, max(count, 1), replace=False)).astype(float)
        uncertain.lo[i, j], uncertain.hi[i, j] = value[0], value[-1]
        if count:
            part = slice(pool, pool + count)
            uncertain.lo[i, j], uncertain.hi[i, j] = value[0] - rng.integers(2), value[-1] + rng.integers(2)
            uncertain.start[i, j], uncertain.size[i, j] = pool, count
            uncertain.value[part], uncertain.weight[part] = value, 1 / count
            uncertain.tail[part] = np.arange(count, 0, -1) / count
            pool += count
        cells.append([(float(v), 1 / len(value)) for v in value])
    return uncertain, [cells[i * d : (i + 1) * d] for i in range(n)]


def test_cells_of_one_value_and_kinds_of_many_rivals_are_summed_by_the_definition():
    rng = np.random.default_rng(5)
    for _ in range(300):
        uncertain, rows = small(rng)
        assert summed(uncertain, np.arange(1, len(rows))) == pytest.approx(by_definition(rows), abs=1e-9)


def test_rivals_that_tie_with_a_place_by_the_thousand_and_beat_the_one_below_are_all_counted():
    n, p = 100_000, 1e-6
    uncertain = packed([[[(4, 1), (5, 1)], [(3, 1)]], [[(5, 1)], [(3, 1 - p), (9, p)]]])
    assert summed(uncertain, np.ones(n, np.int64)) == pytest.approx(0.5 * exp(n * log1p(-p)), abs=1e-10)
