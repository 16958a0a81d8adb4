"""Do both accesses find exactly what looking at every row finds?

Small domains with ties, and leaves of a few rows, so that trees have several levels among a few dozen rows. Many values
are multiples of 0.1, where `abs(a - b) <= eps` and `a <= b + eps` disagree.
"""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fogline as fl
from fogline.kernels import rtree
from fogline.kernels.rtree import RTree
from fogline.repository import access
from fogline.repository.access import SortedAccess, TreeAccess, bulk_loaded
from fogline.repository.history import Column, History

VALUES = [0.0, 0.1, 0.2, 0.30000000000000004, 0.3, 0.4, 0.7, 1.1, 2.0, 5.0, -3.0]
RADII = [0.0, 0.1, 0.2, 0.30000000000000004, 1.0, 4.0, np.inf]
ANY = -1.0  # a radius: the determinant is not asked for

quick = settings(deadline=None, max_examples=300)


@pytest.fixture(autouse=True, scope="module")
def leaves_of_two_rows():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(access, "LEAF", 2)
        yield


def naive(points, then, centre, radius):
    """For each centre, `then` of the rows that are close to it in all that is asked for."""
    with np.errstate(over="ignore"):
        close = [np.all((radius < 0) | (np.abs(points - c) <= radius), axis=1) for c in centre]
    return [np.sort(then[rows]) for rows in close]


@st.composite
def cases(draw):
    """Determinants (n, k), any of them perhaps missing, the dependent attribute (n,), and questions."""
    k, n = draw(st.integers(1, 3)), draw(st.integers(0, 60))
    value = st.sampled_from(VALUES + [np.nan] * 3)
    points = draw(hnp.arrays(float, (n, k), elements=value, fill=st.nothing()))
    then = np.array(draw(st.lists(st.integers(-5, 5), min_size=n, max_size=n)), float)
    asked = st.sampled_from([*VALUES, 0.15, 9.0, np.nan])
    centre = draw(hnp.arrays(float, (4, k), elements=asked, fill=st.nothing()))
    radius = np.array(draw(st.lists(st.sampled_from([*RADII, ANY, ANY]), min_size=k, max_size=k)))
    return points, then, centre, radius


def agree(tree, points, then, centre, radius):
    """Every answer of the tree is the naive one."""
    true = naive(points, then, centre, radius)
    offsets, values = rtree.find(tree, centre, radius)
    assert [values[a:b].tolist() for a, b in pairwise(offsets)] == [t.tolist() for t in true]
    assert rtree.count(tree, centre, radius).tolist() == [len(t) for t in true]
    low, high = rtree.bounds(tree, centre, radius)
    for i, t in enumerate(true):
        exact = (t[0], t[-1]) if len(t) else (np.nan, np.nan)
        assert np.array_equal((low[i], high[i]), exact, equal_nan=True)


def check(tree):
    """Each node holds the rows of its children, at most LEAF in a leaf, by `then`, in the smallest box around them."""
    nodes = len(tree.begin)
    assert (tree.begin[0], tree.end[0]) == (0, len(tree.then))
    for node in range(nodes):
        begin, end = tree.begin[node], tree.end[node]
        if 2 * node + 2 < nodes:
            one, two = 2 * node + 1, 2 * node + 2
            assert (begin, tree.end[one], end) == (tree.begin[one], tree.begin[two], tree.end[two])
        else:
            assert 1 <= end - begin <= access.LEAF
            assert np.all(np.diff(tree.then[begin:end]) >= 0)
        points, then = tree.points[:, begin:end], tree.then[begin:end]
        assert np.array_equal(tree.lacks[:, node], np.isnan(points).any(axis=1))
        assert np.array_equal(tree.lo[:, node], np.where(np.isnan(points), np.inf, points).min(axis=1))
        assert np.array_equal(tree.hi[:, node], np.where(np.isnan(points), -np.inf, points).max(axis=1))
        assert (tree.low[node], tree.high[node]) == (then.min(), then.max())


@quick
@given(cases())
def test_a_tree_answers_as_if_every_row_were_looked_at(case):
    points, then, centre, radius = case
    tree = bulk_loaded(points, then)
    if len(then):
        check(tree)
    agree(tree, points, then, centre, radius)


@quick
@given(cases())
def test_a_tree_and_a_sorted_table_give_the_same_answers_also_over_a_history_that_grew(case):
    points, then, centre, radius = case
    names = tuple("abc"[: points.shape[1]])
    columns = {name: Column(column) for name, column in zip(names, points.T, strict=True)}
    history = History({**columns, "y": Column(then)}, len(then))
    less = history.part(np.arange(len(then) // 2))
    radius[0] = abs(radius[0])  # what a table is sorted by is always asked for
    given_ = {name: float(each) for name, each in zip(names, radius, strict=True) if each >= 0}
    centres = dict(zip(names, np.ascontiguousarray(centre.T), strict=True))
    table, tree = SortedAccess.build(less, "y", None, "a", names[1:]), TreeAccess.build(less, "y", names)
    for one, other in ((table, tree), (table.over(history, "y"), tree.over(history, "y"))):
        for found, same in zip(one.find(given_, centres), other.find(given_, centres), strict=True):
            assert found.tolist() == same.tolist()
        assert one.count(given_, centres).tolist() == other.count(given_, centres).tolist()
        assert np.array_equal(one.bounds(given_, centres), other.bounds(given_, centres), equal_nan=True)


def test_a_tree_lives_on_memory_mapped_files(tmp_path):
    rng = np.random.default_rng(1)
    points, then = rng.random((500, 2)), rng.random(500)
    for name, array in bulk_loaded(points, then)._asdict().items():
        np.save(tmp_path / name, array)
    mapped = RTree(**{name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in RTree._fields})
    agree(mapped, points, then, points[:5], np.array([0.1, 0.2]))


@pytest.mark.parametrize("point", [[1.0, 1.0], [np.nan, 1.0], [np.nan, np.nan], [-1.7e308, 1.7e308]])
def test_rows_that_are_all_the_same_are_found_together(point):
    points, then = np.tile(point, (9, 1)), np.arange(9.0)
    centre = np.array([point, [1.0, np.nan], [np.inf, 1.0]])
    for radius in ([0.5, np.inf], [0.5, ANY], [ANY, 0.5], [ANY, ANY]):
        agree(bulk_loaded(points, then), points, then, centre, np.array(radius))


def test_values_as_far_apart_as_floats_go_are_not_confused():
    points = np.array([[-1.7e308], [1.7e308], [0.0], [5e-324], [np.nan]]).repeat(3, axis=0)
    then = np.arange(15.0)
    tree = bulk_loaded(points, then)
    check(tree)
    for radius in (0.0, 5e-324, 1.7e308, np.inf):
        agree(tree, points, then, points, np.array([radius]))


def test_a_large_answer_is_sorted_too():
    points, then = np.arange(1000.0)[:, None], np.random.default_rng(4).permutation(1000.0 * np.arange(1000))
    for radius in (400.0, ANY):
        agree(bulk_loaded(points, then), points, then, np.array([[500.0], [3.0]]), np.array([radius]))


def test_many_determinants_make_a_tree_too():
    rng = np.random.default_rng(5)
    points, then = rng.integers(0, 3, (200, 25)).astype(float), rng.random(200)
    tree = bulk_loaded(points, then)
    check(tree)
    for _ in range(20):
        agree(tree, points, then, points[:5], np.where(rng.random(25) < 0.1, 0.0, ANY))


def test_a_tree_is_used_for_several_determinants_of_which_none_leaves_few_rows():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"a": rng.random(4000), "b": rng.random(4000), "s": rng.choice(["x", "y"], 4000)})
    frame["c"] = frame.a + frame.b
    query = fl.Query(attributes={"c": "max"}, id="id", time="t", last=1)
    for rule, way in [
        ("a(0.2), b(0.2) -> c(1)", "tree over a, b"),
        ("s, a(0.3), b(0.3) -> c(1)", "tree over s, a, b"),
        ("a(0.001), b(0.2) -> c(1)", "sorted by a"),
        ("s, a(0.2) -> c(1)", "sorted by s, a"),
        ("a(0.5) -> c(1)", "sorted by a"),
        ("s -> c(1)", "sorted by s"),
    ]:
        fitted = fl.Repository.fit(frame, query, rules=[rule])
        assert [step.way for step in fitted.explain()] == [way]
        assert fitted.explain() == fl.Repository.fit(frame, query, rules=[rule]).explain()
