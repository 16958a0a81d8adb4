"""Are just those rows dropped that can never matter?"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.arrays import Boxes
from fogline.kernels import admit
from fogline.kernels.admit import count_up, latest_on, sorted_corners
from fogline.kernels.compile import kernel
from fogline.kernels.dominance import dominates
from fogline.kernels.words import cut_points, fences, words
from tests.kernels.common import packed, pairs_of_rows

outlived = kernel(admit.outlived.py_func)
admitted = kernel(admit.admit.py_func)


def boxes(rows, seed):
    uncertain, d = packed(rows), len(rows[0])
    expires = np.random.default_rng(seed).integers(0, 3, len(rows)).astype(float)
    low, high = words(uncertain.lo, uncertain.hi, cut_points(uncertain.lo, uncertain.hi))
    return Boxes(uncertain.lo, uncertain.hi, expires, low, high, fences(d))


@settings(deadline=None, max_examples=300)
@given(pairs_of_rows, st.integers(0, 2**32 - 1))
def test_a_batch_keeps_exactly_those_that_no_lasting_one_surely_beats(rows, seed):
    some = boxes(rows, seed)
    kept = set(outlived(some))
    for k in range(len(rows)):
        rivals = [i for i in range(len(rows)) if dominates(some.lo, i, some.hi, k)]
        assert (k in kept) == (not any(some.expires[i] >= some.expires[k] for i in rivals))


@kernel
def sorted_until(there, arriving):
    """Until when rows are surely dominated, and which stay, by sorted columns."""
    rows, live = count_up(arriving.lo.shape[0]), count_up(there.lo.shape[0])
    among_rows = sorted_corners(arriving.lo, arriving.word_lo, rows)
    among_live = sorted_corners(there.lo, there.word_lo, live)
    until = np.empty(rows.shape[0])
    for i in rows:
        until[i] = latest_on(among_live, there, arriving, i, latest_on(among_rows, arriving, arriving, i, -np.inf))
    return until


@settings(deadline=None, max_examples=300)
@given(pairs_of_rows, st.integers(0, 2**32 - 1), st.integers(0, 6))
def test_sorted_columns_admit_the_same_rows_until_the_same_instants(rows, seed, cut):
    both = boxes(rows, seed)
    there, arriving = (
        Boxes(both.lo[part], both.hi[part], both.expires[part], both.word_lo[part], both.word_hi[part], both.fence)
        for part in (slice(0, cut), slice(cut, None))
    )
    which, until = admitted(there, arriving, False)
    found = sorted_until(there, arriving)
    stay = np.flatnonzero(found < arriving.expires)
    assert (which.tolist(), until.tolist()) == (stay.tolist(), found[stay].tolist())
