"""Are the facts that make it fast true?"""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.caching import IndexDataCacheFile

from fogline import kernels
from fogline.arrays import empty_clouds
from fogline.kernels import arrow
from fogline.kernels.boxes import beats, covers, cut_points, fences, outlived, words
from fogline.kernels.compile import kernel
from fogline.kernels.probability import beats_cloud, lemma
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
    columns = np.arange(d), np.full(d, arrow.LISTS), np.ones(d), low, high
    _, clouds, _, codes, missing, _, _ = arrow.read(batch, columns, (0, arrow.NO_CLOCK))
    assert not codes
    assert not missing
    return clouds


def truth(rows):
    return [oracle.Cloud(i, 0, 0, tuple(oracle.cell(c, "max") for c in row)) for i, row in enumerate(rows)]


@settings(deadline=None, max_examples=400)
@given(pairs_of_rows)
def test_dominance_factorises(rows):
    clouds, true = packed(rows), truth(rows)
    for i in range(len(rows)):
        for k in range(len(rows)):
            if i != k:
                assert abs(beats_cloud(clouds, i, k) - float(oracle.chance(true[i], true[k]))) < 1e-12


@settings(deadline=None, max_examples=300)
@given(pairs_of_rows)
def test_a_cloud_surely_beats_another_if_and_only_if_its_worst_corner_beats_the_best_one(rows):
    clouds, true = packed(rows), truth(rows)
    for i in range(len(rows)):
        for k in range(len(rows)):
            if i != k:
                assert beats(clouds.lo, i, clouds.hi, k) == (oracle.chance(true[i], true[k]) == 1)


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_words_never_rule_out_what_is_true(d, seed):
    rng = np.random.default_rng(seed)
    clouds = empty_clouds(12, d, 1)
    clouds.lo[:] = rng.integers(0, 3, (12, d))
    clouds.hi[:] = clouds.lo + rng.integers(0, 2, (12, d))
    some = slice(0, int(rng.integers(0, 12)))  # cut points from others than those they are used for
    low, high = words(clouds, cut_points(clouds.lo[some], clouds.hi[some]))
    for i in range(12):
        for k in range(12):
            if (clouds.lo[i] >= clouds.hi[k]).all():
                assert covers(low[i], high[k], fences(d))


@settings(deadline=None, max_examples=300)
@given(pairs_of_rows, st.integers(0, 2**32 - 1))
def test_a_batch_keeps_exactly_those_that_no_lasting_one_surely_beats(rows, seed):
    clouds = packed(rows)
    expires = np.random.default_rng(seed).integers(0, 3, len(rows)).astype(float)
    low, high = words(clouds, cut_points(clouds.lo, clouds.hi))
    kept = set(outlived(clouds, expires, low, high, fences(len(rows[0]))))
    for k in range(len(rows)):
        beaten = any(beats(clouds.lo, i, clouds.hi, k) and expires[i] >= expires[k] for i in range(len(rows)))
        assert (k in kept) == (not beaten)


def test_each_lemma_is_told_from_the_others():
    rows = [[[(5, 1)]], [[(6, 2), (1, 1)]], [[(7, 1), (4, 3)]], [[(3, 1), (8, 1)]], [[(4, 1), (5, 1)]]]
    clouds, expires = packed(rows), np.zeros(5)
    of = lambda g, o, least: lemma(clouds, expires, np.array([g]), o, least)  # noqa: E731
    assert of(1, 0, 0.6) == 0  # beats even the best corner often enough
    assert of(0, 2, 0.7) == 1  # only its worst corner shows it
    assert of(4, 3, 0.4) == 1
    assert of(1, 3, 0.33) == 2  # neither corner does
    assert of(2, 3, 0.9) == 3  # nothing does


def test_the_cache_of_kernels_works_when_the_package_cannot_be_written(tmp_path):
    """Numba falls back to the user's cache; with nowhere to write at all, kernels are compiled anew."""
    code = "import numpy as np, fogline.kernels.boxes as b; print(b.beats(np.eye(1), 0, np.zeros((1, 1)), 0))"
    for cache in (str(tmp_path), "/proc/nowhere"):
        env = {**os.environ, "NUMBA_CACHE_DIR": cache}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "True", done.stderr
    assert any(tmp_path.rglob("*.nbi"))


def test_machine_code_that_is_kept_by_several_at_once_is_kept_apart(monkeypatch):
    """One for another type must not get the same name, however slowly the index is read."""
    kept = kernel(_nothing)._cache._cache_file
    read = IndexDataCacheFile._load_index

    def slowly(self):
        found = read(self)
        time.sleep(0.3)
        return found

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", slowly)
    kinds = [("a",), ("b",), ("c",)]
    with ThreadPoolExecutor(len(kinds)) as pool:
        list(pool.map(lambda kind: kept.save(kind, f"code for {kind}"), kinds))
    assert [kept.load(kind) for kind in kinds] == [f"code for {kind}" for kind in kinds]


def _nothing():
    return 0


def test_kernels_sort_in_one_way():
    """What `ascending` says about names would otherwise come true."""
    room = Path(kernels.__file__).parent
    lines = [(path.name, line) for path in sorted(room.glob("*.py")) for line in path.read_text().splitlines()]
    found = [(name, line) for name, line in lines if re.search(r"(np\.sort|\.sort|np\.unique|np\.median)\(", line)]
    assert [name for name, _ in found] == ["boxes.py"]  # in a function that is not compiled
