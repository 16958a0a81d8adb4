"""Does the index find exactly what looking at every row finds, however it came to be?

Small domains with ties, and a fanout of 4, so that splits and reinsertions happen among a few dozen rows. Many values
are multiples of 0.1, where `abs(a - b) <= eps` and `a <= b + eps` disagree.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fogline.errors import RowsError
from lab.paper.index import Index

VALUES = [0.0, 0.1, 0.2, 0.30000000000000004, 0.3, 0.4, 0.7, 1.1, 2.0, 5.0, -3.0]
SIDES = [1e-300, 0.1, 0.25, 1.0, 1e9]
RADII = [0.0, 0.1, 0.2, 0.30000000000000004, 1.0, 4.0, np.inf]

quick = settings(deadline=None, max_examples=300)


def naive(points, then, centre, radius):
    """For each centre, `then` of the rows that are close to it."""
    with np.errstate(over="ignore"):
        close = [np.all(np.isnan(c) | (np.abs(points - c) <= radius), axis=1) for c in centre]
    return [np.sort(then[rows]) for rows in close]


def tables(k, most):
    """Determinants (n, k), any of them perhaps missing, and the dependent attribute (n,)."""
    value = st.sampled_from(VALUES + [np.nan] * 3)
    rows = st.integers(0, most).flatmap(lambda n: hnp.arrays(float, (n, k), elements=value, fill=st.nothing()))
    thens = st.lists(st.integers(-5, 5), min_size=most, max_size=most)
    return st.builds(lambda p, t: (p, np.array(t[: len(p)], float)), rows, thens)


@st.composite
def cases(draw, batches=0):
    """An index, all rows it should hold, questions, and rows still to be appended."""
    k = draw(st.integers(1, 3))
    points, then = draw(tables(k, 60))
    side = draw(st.lists(st.sampled_from(SIDES), min_size=k, max_size=k))
    later = draw(st.lists(tables(k, 25), min_size=batches, max_size=batches))
    centre = draw(
        hnp.arrays(float, (4, k), elements=st.sampled_from([*VALUES, 0.15, 9.0, *[np.nan] * 6]), fill=st.nothing())
    )
    radius = np.array(draw(st.lists(st.sampled_from(RADII), min_size=k, max_size=k)))
    return Index.build(points, then, side, fanout=4), points, then, centre, radius, later


def agree(index, points, then, centre, radius):
    """Every answer of the index is the naive one."""
    true = naive(points, then, centre, radius)
    offsets, values = index.find(centre, radius)
    assert index.rows == len(then)
    assert [values[a:b].tolist() for a, b in pairwise(offsets)] == [t.tolist() for t in true]
    assert index.count(centre, radius).tolist() == [len(t) for t in true]
    low, high = index.bounds(centre, radius)
    for i, t in enumerate(true):
        exact = (t[0], t[-1]) if len(t) else (np.nan, np.nan)
        assert np.array_equal((low[i], high[i]), exact, equal_nan=True)


@quick
@given(cases())
def test_a_built_index_answers_as_if_every_row_were_looked_at(case):
    index, *known, _ = case
    index.check()
    agree(index, *known)


@quick
@given(cases(batches=4))
def test_an_index_that_grew_answers_like_one_that_was_built(case):
    index, points, then, centre, radius, later = case
    for more, values in later:
        index.append(more, values)
        points, then = np.concatenate((points, more)), np.concatenate((then, values))
        index.check()
        agree(index, points, then, centre, radius)


@quick
@given(cases(batches=2))
def test_a_saved_index_answers_and_grows_like_the_original(case):
    index, points, then, centre, radius, [(more, values), (last, ends)] = case
    index.append(more, values)
    saved = {name: array.copy() for name, array in index.arrays().items()}
    for array in saved.values():
        array.flags.writeable = False  # as if memory-mapped
    again = Index.from_arrays(saved)
    again.check()
    assert (again.height, again.cells, again.rows) == (index.height, index.cells, index.rows)
    points, then = np.concatenate((points, more)), np.concatenate((then, values))
    agree(again, points, then, centre, radius)
    again.append(last, ends)
    again.check()
    agree(again, np.concatenate((points, last)), np.concatenate((then, ends)), centre, radius)


def test_an_index_lives_on_memory_mapped_files(tmp_path):
    rng = np.random.default_rng(1)
    points, then = rng.random((500, 2)), rng.random(500)
    for name, array in Index.build(points, then, [0.1, 0.1]).arrays().items():
        np.save(tmp_path / name, array)
    mapped = Index.from_arrays({file.stem: np.load(file, mmap_mode="r") for file in tmp_path.glob("*.npy")})
    agree(mapped, points, then, points[:5], np.array([0.1, 0.2]))
    mapped.append(points, then)
    mapped.check()
    agree(mapped, np.tile(points, (2, 1)), np.tile(then, 2), points[:5], np.array([0.1, 0.2]))


def test_rows_that_come_one_by_one_make_a_tree_of_several_levels():
    rng = np.random.default_rng(2)
    points, then = rng.random((600, 2)), rng.random(600)
    index = Index.build(points[:1], then[:1], [0.01, 0.01], fanout=4)
    for i in range(1, 600):
        index.append(points[i : i + 1], then[i : i + 1])
    index.check()
    assert index.height >= 4
    agree(index, points, then, points[:20], np.array([0.1, 0.05]))


def test_an_empty_index_knows_nothing_until_rows_come():
    index = Index.build(np.empty((0, 2)), [], [1.0, 1.0])
    index.check()
    assert (index.rows, index.cells, index.height) == (0, 0, 0)
    anywhere = np.full((3, 2), np.nan)
    agree(index, np.empty((0, 2)), np.empty(0), anywhere, np.ones(2))
    assert np.isnan(index.bounds(anywhere, [1.0, 1.0])).all()
    again = Index.from_arrays(index.arrays())
    again.append(np.empty((0, 2)), [])
    again.append([[1.0, np.nan]], [7.0])
    again.check()
    assert again.find(anywhere[:1], [1.0, 1.0])[1].tolist() == [7.0]


@pytest.mark.parametrize("point", [[1.0, 1.0], [np.nan, 1.0], [np.nan, np.nan], [-1.7e308, 1.7e308]])
def test_rows_that_are_all_the_same_share_one_cell(point):
    points, then = np.tile(point, (9, 1)), np.arange(9.0)
    index = Index.build(points[:1], then[:1], [1e-3, 1e3], fanout=4)
    index.append(points[1:], then[1:])
    index.check()
    assert (index.cells, index.height) == (1, 1)
    agree(index, points, then, np.array([point, [1.0, np.nan], [np.inf, 1.0]]), np.array([0.5, np.inf]))


def test_values_as_far_apart_as_floats_go_are_not_confused():
    points = np.array([[-1.7e308], [1.7e308], [0.0], [5e-324], [np.nan]]).repeat(3, axis=0)
    then = np.arange(15.0)
    index = Index.build(points, then, [1e-300], fanout=4)
    index.append(points * 0.5, then)
    index.check()
    for radius in (0.0, 5e-324, 1.7e308, np.inf):
        agree(index, np.concatenate((points, points * 0.5)), np.tile(then, 2), points, np.array([radius]))


def test_a_large_answer_is_sorted_too():
    then = np.random.default_rng(4).permutation(1000.0 * np.arange(1000))
    index = Index.build(np.arange(1000.0)[:, None], then, [10.0])
    agree(index, np.arange(1000.0)[:, None], then, np.array([[np.nan], [500.0], [3.0]]), np.array([400.0]))


def test_many_determinants_are_indexed_too():
    rng = np.random.default_rng(5)
    points, then = rng.integers(0, 3, (200, 25)).astype(float), rng.random(200)
    index = Index.build(points, then, np.ones(25))
    index.check()
    agree(index, points, then, np.where(rng.random((20, 25)) < 0.1, points[:20], np.nan), np.zeros(25))


@pytest.mark.parametrize(
    ("points", "then", "side"),
    [
        ([[1.0]], [np.nan], [1.0]),
        ([[np.inf]], [1.0], [1.0]),
        ([[1.0]], [1.0], [0.0]),
        ([[1.0]], [1.0, 2.0], [1.0]),
        ([[1.0, 2.0]], [1.0], [1.0]),
        ([[]], [1.0], []),
    ],
)
def test_what_cannot_be_indexed_is_refused(points, then, side):
    with pytest.raises(RowsError):
        Index.build(points, then, side)


def test_a_question_of_the_wrong_shape_is_refused():
    index = Index.build([[1.0, 2.0]], [1.0], [1.0, 1.0])
    with pytest.raises(RowsError, match="2 determinants"):
        index.find([[1.0]], [1.0])
