"""Does the tree of points find what comparing each with each does?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fogline.kernels.static import CERTAIN, IMPOSSIBLE, LEAF, OPEN, as_good_as, fronts_of

SIZES = (0, 1, LEAF, LEAF + 1, 50, 400)


def uncertain(rng, n: int, d: int, values: int, spread: int):
    """The ends of boxes over small whole numbers, so that many are equal; some are points."""
    lows = rng.integers(0, values, (n, d)).astype(float)
    return lows, lows + rng.integers(0, spread + 1, (n, d)) * (rng.random((n, d)) < 0.4)


def opposed(rng, n: int, d: int):
    """Points none of which beats another, and some that are beaten by little."""
    lows = rng.integers(0, 50, (n, d)).astype(float)
    lows[:, -1] = -lows[:, :-1].sum(axis=1) - (rng.random(n) < 0.1)
    return lows, lows.copy()


def beats(a, b) -> np.ndarray:
    """(n, m) which of a (n, d) beat which of b (m, d)."""
    a, b = a[:, None], b[None]
    return np.asarray((a >= b).all(axis=2) & (a > b).any(axis=2))


def slowly(lows, highs, asked, others) -> list[Any]:
    """The definition, pair by pair."""
    other = others[:, None] != asked[None]
    may = (beats(highs[others], lows[asked]) & other).any(axis=0)
    will = (beats(lows[others], highs[asked]) & other).any(axis=0)
    return [int(each) for each in np.where(will, IMPOSSIBLE, np.where(may, OPEN, CERTAIN))]


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("n", SIZES)
def test_fronts_are_those_of_comparing_each_cloud_with_each(n, d):
    rng = np.random.default_rng((n, d))
    streams = [uncertain(rng, n, d, values, spread) for values in (1, 4, 200) for spread in (0, 1, 9)]
    for lows, highs in [*streams, opposed(rng, n, d)]:
        some = rng.permutation(n)[: n * 2 // 3]
        for asked, others in ((np.arange(n), np.arange(n)), (some[: n // 3], some), (np.arange(n), some)):
            assert fronts_of(lows, highs, asked, others).tolist() == slowly(lows, highs, asked, others)


def test_the_order_in_which_points_lie_does_not_matter():
    lows = np.repeat(np.arange(300.0), 2)[:, None] * [1.0, -1.0]
    for order in (np.arange(600), np.arange(600)[::-1].copy(), np.argsort(np.abs(np.arange(600) - 300))):
        assert set(fronts_of(lows, lows, order, order).tolist()) == {CERTAIN}


@pytest.mark.parametrize("n", SIZES)
def test_a_point_is_reached_by_one_that_is_nowhere_smaller_and_equal_is_enough(n):
    rng = np.random.default_rng(n)
    points, asked = (rng.integers(0, 30, (size, 3)).astype(float) for size in (n, 90))
    asked[:10][: min(10, n)] = points[: min(10, n)]
    asked[20], asked[21] = np.nan, np.inf
    points[n // 2 :, 2] = np.inf  # expires never
    found = (points[:, None] >= asked[None]).all(axis=2).any(axis=0)
    assert as_good_as(points, asked).tolist() == found.tolist()
    assert n == 0 or found.any()
