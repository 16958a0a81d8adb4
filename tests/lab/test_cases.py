"""Is a case what its settings describe, and does it keep its secrets?"""

from dataclasses import replace

import numpy as np
import pytest

import fogline as fl
from fogline.synthetic import NEAR, SEEDS
from lab.case import APART, DATA_SETS, KINDS, LabError, Settings, available, mask, matrix, real, scale, synthetic
from tests.lab.conftest import SMALL

# --- Masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("xi", "m"), [(0.1, 1), (0.3, 2), (0.5, 3)])
def test_every_incomplete_row_lacks_exactly_m_cells_and_their_share_is_xi(xi, m):
    gaps = mask(np.zeros((20_000, 4)), xi, m, seed=3)
    lacking = gaps.sum(axis=1)
    assert set(lacking) == {0, m}
    assert abs((lacking > 0).mean() - xi) < 5 * np.sqrt(xi * (1 - xi) / len(gaps))
    assert np.ptp(gaps.mean(axis=0)) < 0.02, "every attribute goes missing as often as another"


def test_the_same_seed_hides_the_same_cells_and_another_one_others():
    rows = np.zeros((1_000, 5))
    assert np.array_equal(mask(rows, 0.3, 2, 1), mask(rows, 0.3, 2, 1))
    assert not np.array_equal(mask(rows, 0.3, 2, 1), mask(rows, 0.3, 2, 2))


def test_more_rows_a_higher_rate_or_more_gaps_only_add_to_what_is_hidden():
    few = mask(np.zeros((500, 4)), 0.2, 1, 1)
    assert np.array_equal(few, mask(np.zeros((800, 4)), 0.2, 1, 1)[:500])
    assert (few <= mask(np.zeros((500, 4)), 0.4, 1, 1)).all()
    assert (few <= mask(np.zeros((500, 4)), 0.2, 2, 1)).all()


def test_rows_that_lack_something_anyway_are_not_masked():
    rows = np.zeros((100, 3))
    rows[:50, 1] = np.nan
    assert not mask(rows, 1.0, 1, 1)[:50].any()


def test_hidden_cells_differ_from_the_truth_by_being_null_alone(copies):
    seen = matrix(copies.rows, copies.query.names)
    assert copies.gaps.sum() == copies.incomplete.sum() > 0
    assert np.array_equal(seen[~copies.gaps], copies.truth[~copies.gaps])
    assert np.isfinite(copies.truth).all()


# --- Synthetic --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", APART)
@pytest.mark.parametrize("protocol", ["honest", "paper"])
def test_rows_of_seeds_apart_obey_the_rules_of_the_paper(kind, protocol):
    case = synthetic(kind, Settings(window=3_000, history=60_000, protocol=protocol))
    assert case.history.num_rows == 60_000
    assert case.rules is not None
    assert fl.verify(case.rules, case.history, case.query) == []
    assert matrix(case.history, case.query.names).min() >= -NEAR
    assert matrix(case.history, case.query.names).max() <= 10 + NEAR


def test_only_copies_of_one_seed_are_donors_for_each_other():
    case = synthetic("anti-apart", Settings(window=3_000, history=20_000))
    past = matrix(case.history, case.query.names)
    seed = np.floor(past[:, 0] / 10 * SEEDS)
    order = np.argsort(past[:, 1])
    close = np.diff(past[order, 1]) <= 0.001
    assert np.array_equal(close, np.diff(seed[order]) == 0)


def test_correlated_streams_have_small_skylines_and_anti_correlated_ones_large():
    sizes = {}
    for kind in KINDS:
        case = synthetic(kind, Settings(window=2_000, history=10))
        table = case.rows.slice(0, 2_000).filter(~case.incomplete[:2_000])
        sizes[kind] = fl.skyline(table, case.query).num_rows
    assert sizes["correlated"] < sizes["uniform"] < sizes["anti"]


def test_in_the_papers_protocol_the_repository_holds_rows_of_the_stream_and_in_the_honest_one_none():
    for protocol, shared in (("paper", True), ("honest", False)):
        case = synthetic("uniform", Settings(window=3_000, history=3_000, protocol=protocol))
        assert np.isin(case.truth[:, 0], case.history.column("A").to_numpy()).any() == shared


# --- Real sets --------------------------------------------------------------------------------------------------------


def test_in_the_honest_protocol_the_repository_ends_before_the_stream_begins(motes):
    assert max(motes.history.column("at").to_pylist()) < min(motes.rows.column("at").to_pylist())
    assert motes.history.num_rows == SMALL.history
    past = matrix(motes.history, motes.query.names)
    assert past.min(axis=0).tolist() == [0.0] * 4
    assert past.max(axis=0).tolist() == [10.0] * 4


def test_in_the_honest_protocol_later_rows_change_neither_the_repository_nor_its_scale(folder, motes):
    longer = real("intel", folder, replace(SMALL, ticks=40))
    assert longer.history.equals(motes.history)
    assert longer.rows.slice(0, motes.rows.num_rows).equals(motes.rows)


def test_in_the_papers_protocol_the_repository_is_drawn_from_the_same_rows(folder):
    case = real("intel", folder, replace(SMALL, protocol="paper"))
    assert case.history.num_rows == SMALL.history
    assert max(case.history.column("at").to_pylist()) > min(case.rows.column("at").to_pylist())


def test_impossible_readings_are_left_out_and_rows_with_real_nulls_unless_they_are_wanted(folder, motes):
    assert np.isfinite(motes.truth).all()
    case = real("intel", folder, replace(SMALL, nulls=True))
    nulls = np.isnan(case.truth)
    assert nulls.any(axis=0).tolist() == [False, False, True, False]
    assert (case.gaps >= nulls).all()
    assert np.array_equal(case.certain, ~nulls.any(axis=1))
    assert np.isfinite(matrix(case.history, case.query.names)).all()
    assert case.truth[:, 0].max() < 20, "a reading of 294 degrees would have been far outside"


def test_a_start_moves_the_stream_and_the_repository_before_it(folder, motes):
    case = real("intel", folder, replace(SMALL, start=1_800))
    assert min(case.rows.column("at").to_pylist()) > min(motes.rows.column("at").to_pylist())
    assert max(case.history.column("at").to_pylist()) < min(case.rows.column("at").to_pylist())


def test_what_cannot_be_made_is_refused_in_words(folder):
    with pytest.raises(LabError, match="too few"):
        real("intel", folder, Settings())
    with pytest.raises(LabError, match="Did you mean 'intel'"):
        real("intl", folder, SMALL)
    with pytest.raises(LabError, match=r"gas_home_1min\.parquet"):
        real("gas", folder, SMALL)
    with pytest.raises(LabError, match="one stays"):
        mask(np.zeros((2, 2)), 0.3, 2, 1)
    with pytest.raises(LabError, match="protocol"):
        Settings(protocol="fair")


def test_scaling_spans_zero_to_ten_over_the_reference_and_goes_beyond_it():
    scaled = scale(np.array([[1.0, 5.0], [3.0, 5.0], [5.0, 7.0]]), np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert scaled.tolist() == [[0.0, 0.0], [10.0, 0.0], [20.0, 20.0]]


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_real_set_makes_a_case(data, name):
    if name not in available(data):
        pytest.skip(f"{name} is not in the folder")
    data_set = DATA_SETS[name]
    case = real(name, data, Settings(window=200, theta=10, history=300, ticks=5, wishes=True))
    assert case.query.names == data_set.attributes[: data_set.d]
    assert {way for n, way in case.query.attributes.items() if n in data_set.least} <= {"min"}
    assert np.isfinite(case.truth).all()
    assert matrix(case.history, case.query.names).min() == 0.0
