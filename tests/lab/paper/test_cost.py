"""Does the cost model give what its formulas give, and does it always end with cells that an index can have?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.errors import RowsError
from lab.paper.cost import Law, Load, UnitCosts, best_side, cost, fractal_dimension, sides, slope, unit_costs
from lab.paper.index import Index

UNITS = UnitCosts(cell=1e-7, row=3e-9)


def evenly(n, k, seed=1):
    return np.random.default_rng(seed).random((n, k))


@st.composite
def loads(draw):
    """One to three rules over one to four determinants, at least one of them asked for with some radius."""
    k = draw(st.integers(1, 4))
    radius = st.one_of(st.just(0.0), st.just(np.inf), st.floats(1e-4, 0.4))
    radii = [draw(st.lists(radius, min_size=k, max_size=k)) for _ in range(draw(st.integers(1, 3)))]
    radii[0][0] = draw(st.floats(1e-4, 0.4))
    law = Law(draw(st.floats(0.3, 1.0)) * k, draw(st.floats(0.3, 10.0)))
    units = UnitCosts(draw(st.floats(1e-8, 1e-6)), draw(st.floats(1e-9, 1e-8)))
    return Load(draw(st.integers(1000, 10**6)), np.array(radii), law, units, draw(st.floats(0.1, 0.9)))


# ---------------------------------------------------------------------------------------------- the fractal dimension


@pytest.mark.parametrize("k", [1, 2, 3])
def test_rows_that_fill_their_space_have_its_dimension(k):
    assert fractal_dimension(evenly(20_000, k)) == pytest.approx(k, abs=0.1)


def test_rows_on_a_line_in_three_dimensions_have_dimension_one():
    x = evenly(20_000, 1)[:, 0]
    assert fractal_dimension(np.column_stack((x, 5 - 3 * x, 100 * x))) == pytest.approx(1, abs=0.1)


def test_rows_at_one_place_have_dimension_zero():
    assert fractal_dimension([[1.0, 2.0]]) == 0
    assert fractal_dimension(np.ones((500, 3))) == 0
    assert fractal_dimension(np.empty((0, 2))) == 0


def test_a_constant_determinant_adds_no_dimension():
    rows = evenly(20_000, 2)
    assert fractal_dimension(np.column_stack((rows, np.full(len(rows), 7.0)))) == fractal_dimension(rows)


def test_units_do_not_change_the_dimension():
    rows = evenly(5_000, 2)
    assert fractal_dimension(rows * [1e-9, 1e6] + [5, -3]) == pytest.approx(fractal_dimension(rows), abs=0.02)


def test_rows_with_a_missing_determinant_do_not_count():
    rows = evenly(5_000, 2)
    holes = np.full((300, 2), np.nan)
    holes[:, 0] = 0.5
    assert fractal_dimension(np.concatenate((holes, rows))) == fractal_dimension(rows)


def test_repeating_each_row_leaves_the_dimension_about_the_same():
    rows = evenly(5_000, 2)
    assert fractal_dimension(np.repeat(rows, 4, axis=0)) == pytest.approx(fractal_dimension(rows), abs=0.1)


def test_a_sample_of_many_rows_shows_the_dimension():
    assert fractal_dimension(evenly(150_000, 2)) == pytest.approx(2, abs=0.1)


# ------------------------------------------------------------------------------------------------------- the formulas


def test_the_cost_is_equation_11_of_the_paper():
    n, d2, beta, u = 1000, 1.5, 0.3, 0.05
    load = Load(n, np.array([[0.01, 0.02, np.inf]]), Law(d2), UNITS, beta, margin=2)
    cells = (2 * 0.01 / u + 2) * (2 * 0.02 / u + 2) * 1 / u
    alarms = (n - 1) * (((0.02 + 2 * u) * (0.04 + 2 * u)) ** (d2 / 3) - (0.02 * 0.04) ** (d2 / 3))
    assert cost(u, load) == pytest.approx(beta * UNITS.cell * cells + (1 - beta) * UNITS.row * alarms)


@settings(deadline=None)
@given(loads(), st.floats(0.001, 1.0))
def test_the_slope_is_the_derivative_of_the_cost(load, u):
    step = 1e-5 * u
    around = cost(u + step, load) - cost(u - step, load)
    size = cost(u, load) + load.units.row * load.n  # what the difference was rounded at
    assert slope(u, load) == pytest.approx(around / (2 * step), rel=1e-4, abs=1e-9 * size / u)


@settings(deadline=None, max_examples=25)
@given(loads())
def test_bisection_finds_the_minimum_that_a_fine_scan_finds(load):
    narrowest = min((8 / (load.n * load.law.factor)) ** (1 / load.law.dimension), 1.0)
    scanned = min(cost(u, load) for u in np.geomspace(max(narrowest, 2.0**-20), 1, 400))
    assert cost(best_side(load), load) == pytest.approx(scanned, rel=2e-3)


@settings(deadline=None, max_examples=25)
@given(loads())
def test_the_slope_changes_its_sign_once(load):
    signs = np.sign([slope(u, load) for u in np.geomspace(1e-5, 1, 100)])
    assert np.all(np.diff(signs) >= 0)


def test_dearer_cells_are_made_wider():
    radii = np.array([[0.01, 0.01]])
    cheap, dear = (best_side(Load(100_000, radii, Law(2.0), UnitCosts(cell, 3e-9))) for cell in (1e-8, 1e-6))
    assert cheap < dear


def test_unit_costs_are_measured_once_and_positive():
    assert unit_costs() is unit_costs()
    assert unit_costs().cell > 0
    assert unit_costs().row > 0


# ---------------------------------------------------------------------------------------------------------- the sides


def test_sides_are_in_each_determinants_own_unit():
    rows = evenly(5_000, 2)
    a = sides(rows, [0.02, 0.02], units=UNITS)
    b = sides(rows * [1.0, 1024.0], [0.02, 0.02 * 1024], units=UNITS)
    assert b == pytest.approx(a * [1, 1024])


def test_words_get_one_to_a_cell():
    codes = np.random.default_rng(1).integers(0, 5, 2_000)
    rows = np.column_stack((evenly(2_000, 1), codes))
    found = sides(rows, [0.01, 0.0], words=[False, True], units=UNITS)
    assert found[1] == 1
    assert 0 < found[0] < 1
    assert sides(rows[:, 1:], [0.0], words=[True], units=UNITS).tolist() == [1]


@pytest.mark.parametrize(
    "rows",
    [
        np.empty((0, 2)),
        np.array([[1.0, 2.0]]),
        np.array([[1.0, 2.0], [1.0, 3.0]]),
        np.ones((100, 2)),
        np.full((100, 2), np.nan),
        np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, np.nan], [np.nan, 5.0]]),
        np.array([[-1e308, 0.0], [1e308, 5e-324], [0.0, 0.0]]),
        np.column_stack((np.zeros(1000), np.arange(1000.0))),
        np.where(evenly(1000, 2) < 0.9, 0.0, evenly(1000, 2)),
        evenly(1000, 2) * [1e-320, 1e300],
    ],
)
@pytest.mark.parametrize("radii", [[0.0, 0.0], [0.1, 0.0], [np.inf, 1e-300], [np.inf, np.inf], [1e308, 1e308]])
def test_sides_are_such_that_an_index_can_be_built(rows, radii):
    found = sides(rows, radii, units=UNITS)
    assert np.all((found > 0) & np.isfinite(found)), found
    Index.build(rows, np.zeros(len(rows)), found)


def test_many_determinants_have_sides_too():
    found = sides(evenly(300, 62), np.full(62, np.inf), units=UNITS)
    assert np.all((found > 0) & np.isfinite(found)), found


def test_sides_serve_several_rules_at_once():
    rows = evenly(5_000, 2)
    narrow, wide, both = (
        sides(rows, radii, units=UNITS)[0] for radii in ([0.005] * 2, [0.1] * 2, [[0.005] * 2, [0.1] * 2])
    )
    assert narrow < both <= wide


@pytest.mark.parametrize(("radii", "words"), [([0.1], None), ([0.1, -1.0], None), ([0.1, np.nan], None), ([0, 0], [1])])
def test_radii_that_do_not_fit_are_refused(radii, words):
    with pytest.raises(RowsError, match="do not fit 2 determinants"):
        sides(evenly(10, 2), radii, words=words)
