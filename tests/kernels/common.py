"""Which small clouds do kernels meet, and what is true of them?"""

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from fogline.kernels import arrow
from fogline.rows.cells import PAIRS
from tests import oracle

cell = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=3)
pairs_of_rows = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.lists(cell, min_size=d, max_size=d), min_size=2, max_size=6)
)


def packed(rows):
    """Rows of (value, weight) lists as clouds, through Arrow's memory."""
    d = len(rows[0])
    columns = [pa.array([[{"value": v, "weight": w} for v, w in row[j]] for row in rows], PAIRS) for j in range(d)]
    batch = pa.RecordBatch.from_arrays(columns, [str(j) for j in range(d)])
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    wanted = np.arange(d), np.full(d, arrow.LISTS), np.ones(d), low, high
    _, uncertain, _, codes, missing, _, _ = arrow.read(batch, wanted, (0, arrow.NO_CLOCK))
    assert not codes
    assert not missing
    return uncertain


def truth(rows):
    """The same rows as the oracle's clouds."""
    return [oracle.Cloud(i, 0, 0, tuple(oracle.cell(c, "max") for c in row)) for i, row in enumerate(rows)]
