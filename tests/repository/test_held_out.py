"""Is a held-out row scored as the CRPS is defined?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.kernels.score import crps

pairs = st.dictionaries(st.integers(-5, 5), st.integers(1, 4), max_size=5)


def naive(distribution, truth):
    """E|X - y| - E|X - X'| / 2."""
    values = [value for value, often in distribution.items() for _ in range(often)]
    if not values:
        return float("nan")
    apart = np.mean([abs(a - b) for a in values for b in values])
    return np.mean([abs(a - truth) for a in values]) - apart / 2


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(pairs, st.integers(-6, 6)), max_size=5))
def test_the_score_is_the_distance_to_the_truth_less_half_the_distance_of_two_guesses(cells):
    ordered = [sorted(distribution.items()) for distribution, _ in cells]
    size = np.array([len(each) for each in ordered], np.int64)
    flat = np.array([pair for each in ordered for pair in each], float).reshape(-1, 2).T.copy()
    found = crps(np.cumsum(size) - size, size, flat[0], flat[1], np.array([truth for _, truth in cells], float))
    assert found == pytest.approx([naive(*cell) for cell in cells], nan_ok=True)
