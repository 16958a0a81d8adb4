"""Do kernels sort, and in one way?"""

import re
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline import kernels
from fogline.kernels import sorting
from fogline.kernels.compile import kernel

argsort, ascending = kernel(sorting.argsort.py_func), kernel(sorting.ascending.py_func)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1.0, 2.0, 3.5]) | st.floats(), max_size=60))
def test_keys_are_sorted_as_numpy_sorts_them_stably(keys):
    keys = np.array(keys, np.float64)
    assert argsort(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    assert np.array_equal(ascending(keys), np.sort(keys), equal_nan=True)
    whole = np.arange(len(keys))[::-1].copy()
    assert ascending(whole).tolist() == sorted(whole.tolist())


def test_kernels_sort_in_one_way():
    """What the module text of `sorting` warns of would otherwise come true."""
    room = Path(kernels.__file__).parent
    lines = [(path.name, line) for path in sorted(room.glob("*.py")) for line in path.read_text().splitlines()]
    found = [(name, line) for name, line in lines if re.search(r"(np\.sort|\.sort|np\.unique|np\.median)\(", line)]
    assert [name for name, _ in found] == ["sensors.py", "static.py", "words.py"]  # in functions that are not compiled
