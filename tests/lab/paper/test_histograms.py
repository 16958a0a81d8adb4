"""Do the paper's histograms give bounds that hold, from any level of the tree?"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from fogline.errors import RowsError
from lab.paper.histograms import Histograms
from lab.paper.index import Index
from tests.lab.paper.test_index import cases, quick


def bounds_by_depth(index, centre, radius, intervals=2):
    """From the root down to the cells, and at last the exact ones."""
    histograms = Histograms.of(index, intervals)
    histograms.check()
    return [
        *(histograms.bounds(centre, radius, depth) for depth in range(index.height + 2)),
        index.bounds(centre, radius),
    ]


def nested(outer, inner):
    """Is each interval of `inner` inside that of `outer`? NaN is no interval at all."""
    return np.all(np.isnan(inner[0]) | ((outer[0] <= inner[0]) & (inner[1] <= outer[1])))


@quick
@given(cases(batches=1))
def test_bounds_hold_and_are_never_wider_deeper_down(case):
    index, _, _, centre, radius, [(points, then)] = case
    for _ in range(2):
        steps = bounds_by_depth(index, centre, radius)
        assert all(nested(outer, inner) for outer, inner in pairwise(steps))
        index.append(points, then)


@quick
@given(cases(batches=1))
def test_a_saved_index_has_the_same_histograms(case):
    index, _, _, centre, radius, [(more, values)] = case
    index.append(more, values)
    again = Index.from_arrays({name: array.copy() for name, array in index.arrays().items()})
    both = bounds_by_depth(index, centre, radius), bounds_by_depth(again, centre, radius)
    assert np.array_equal(*both, equal_nan=True)


def test_a_grown_tree_opens_few_more_nodes_than_a_packed_one():
    """Overlap is what R* insertion is there to avoid: bounds just above the cells stay about as tight."""
    rng = np.random.default_rng(3)
    points = rng.random((4000, 2))
    then, side, radius = points.sum(axis=1), [0.02, 0.02], np.array([0.05, 0.05])
    packed, grown = Index.build(points, then, side), Index.build(points[:10], then[:10], side)
    grown.append(points[10:], then[10:])
    grown.check()
    width = [
        np.subtract(*Histograms.of(i).bounds(points[:200], radius, i.height - 1)[::-1]).mean() for i in (packed, grown)
    ]
    assert width[1] < 1.3 * width[0]


def test_many_determinants_get_fewer_intervals():
    rng = np.random.default_rng(5)
    points, then = rng.integers(0, 3, (200, 25)).astype(float), rng.random(200)
    index = Index.build(points, then, np.ones(25))
    centre = np.where(rng.random((20, 25)) < 0.1, points[:20], np.nan)
    steps = bounds_by_depth(index, centre, np.zeros(25), intervals=100)
    assert all(nested(outer, inner) for outer, inner in pairwise(steps))


def test_an_empty_index_has_empty_histograms():
    index = Index.build(np.empty((0, 2)), [], [1.0, 1.0])
    histograms = Histograms.of(index)
    histograms.check()
    assert np.isnan(histograms.bounds(np.full((3, 2), np.nan), [1.0, 1.0], 0)).all()
    with pytest.raises(RowsError, match="at least 1"):
        Histograms.of(index, intervals=0)
