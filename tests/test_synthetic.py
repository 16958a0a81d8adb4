"""The synthetic stream: the same rows however they are cut, and as incomplete as asked."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.synthetic import BLOCK, DISTRIBUTIONS, Stream, rows


def streams() -> st.SearchStrategy[Stream]:
    return st.builds(
        Stream,
        distribution=st.sampled_from(DISTRIBUTIONS),
        d=st.integers(2, 5),
        rate=st.integers(1, 50),
        missing=st.sampled_from([0.0, 0.3, 1.0]),
        m=st.integers(0, 2),
        seed=st.integers(0, 9),
        seeds=st.sampled_from([0, 7]),
        groups=st.sampled_from([0, 3]),
    )


def values(batch: pa.RecordBatch) -> np.ndarray:
    names = [name for name in batch.schema.names if name.startswith("a")]
    return np.array([batch.column(name).to_numpy(zero_copy_only=False) for name in names])


@settings(deadline=None)
@given(streams(), st.integers(0, 3 * BLOCK), st.lists(st.integers(0, 2 * BLOCK), min_size=1, max_size=4))
def test_rows_are_the_same_however_the_stream_is_cut(stream, start, steps):
    edges = np.cumsum([start, *steps]).tolist()
    parts = [rows(stream, low, high) for low, high in pairwise(edges)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([rows(stream, start, edges[-1])])


@settings(deadline=None)
@given(streams())
def test_gaps_do_not_change_the_values_beside_them(stream):
    whole = Stream(**{name: getattr(stream, name) for name in ("distribution", "d", "seed", "seeds")}, missing=0)
    holed, truth = values(rows(stream, 0, 500)), values(rows(whole, 0, 500))
    assert np.isfinite(truth).all()
    assert (np.isnan(holed) | (holed == truth)).all()


@settings(deadline=None)
@given(streams())
def test_values_lie_on_the_scale_and_ticks_have_as_many_rows_as_the_rate_asks(stream):
    batch = rows(stream, 0, 5 * stream.rate)
    known = values(batch)
    assert ((known >= 0) & (known <= 10) | np.isnan(known)).all()
    assert batch.column("time").value_counts().field("counts").to_pylist() == [stream.rate] * 5


@pytest.mark.parametrize("distribution", ["uniform", "correlated", "anti"])
def test_close_rows_are_copies_of_one_seed_so_that_rules_hold(distribution):
    """Within 0.001 in one attribute means within 0.001 in all."""
    known = values(rows(Stream(missing=0, d=3, distribution=distribution), 0, 20_000))
    order = known[0].argsort()
    close = np.diff(known[0][order]) <= 0.001
    assert close.any()
    assert not close.all()
    assert (np.abs(np.diff(known[:, order], axis=1))[:, close] <= 0.001).all()


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_asked_share_of_rows_lacks_exactly_m_values(m):
    gaps = np.isnan(values(rows(Stream(d=3, m=m, missing=0.3), 0, 50_000))).sum(axis=0)
    assert set(gaps) == {0, m}
    assert np.mean(gaps > 0) == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("seeds", [0, 5_000])
def test_correlated_attributes_rise_together_and_anticorrelated_ones_against_each_other(seeds):
    def correlation(kind: str) -> float:
        return float(np.corrcoef(values(rows(Stream(kind, d=2, missing=0, seeds=seeds), 0, 20_000)))[0, 1])

    assert correlation("correlated") > 0.5
    assert abs(correlation("uniform")) < 0.1
    assert correlation("anti") < -0.5


def test_a_row_is_near_one_of_the_seed_points():
    points = values(rows(Stream(seeds=3, missing=0), 0, 1000))
    assert len(np.unique(points.round(1), axis=1).T) <= 3 * 2**4  # rounding may part what is close
    assert np.ptp(points[0, np.abs(points[0] - points[0, 0]) < 0.02]) <= 0.0101


def test_history_from_far_away_has_other_rows_of_the_same_points():
    near, far = (values(rows(Stream(seeds=3, missing=0), start, start + 1000)) for start in (0, 10**12))
    assert not np.isin(far[0], near[0]).any()
    assert all(np.abs(near[0] - x).min() < 0.02 for x in far[0])
