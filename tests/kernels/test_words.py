"""Do words only rule out what is not true?"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.kernels.words import covers, cut_points, fences, words


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_words_never_rule_out_what_is_true(d, seed):
    rng = np.random.default_rng(seed)
    lo = rng.integers(0, 3, (12, d)).astype(np.float64)
    hi = lo + rng.integers(0, 2, (12, d))
    some = slice(0, int(rng.integers(0, 12)))  # cut points from others than those they are used for
    low, high = words(lo, hi, cut_points(lo[some], hi[some]))
    for i in range(12):
        for k in range(12):
            if (lo[i] >= hi[k]).all():
                assert covers(low[i], high[k], fences(d))
