"""Is each part of the paper's system what the paper defines?

Dominance and probability against the oracle; each lemma alone; the lattice on the paper's own repository; outlines
through the index; the tree's claims that hold and those that do not; the cost model's two readings.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lab.paper
from fogline.query import Rule
from lab.experiments import EXPERIMENTS
from lab.paper.access import COLUMN, INDEX, SCAN
from lab.paper.cost import Law, Load, UnitCosts, algorithm_6, best_side, cost, slope
from lab.paper.index import Index
from lab.paper.lattice import BOUNDS, DataRepository, Lattice, _ceiling
from lab.paper.objects import (
    Cell,
    Imputed,
    Incomplete,
    dominance_probability,
    lower_bound,
    possible_dominators,
    probability_over_worlds,
    skyline_probability,
)
from lab.paper.pruning import LEMMAS, Pruning
from lab.paper.skyline_tree import SkylineTree
from tests import oracle
from tests.lab.test_paper_system import UNITS, gapped, imputed, small, system_over
from tests.strategies import COAL_MINE, streams

PAPER = Path("docs/paper.md")


@st.composite
def windows(draw) -> list[oracle.Cloud]:
    """The rows of some tick, as the oracle has them."""
    stream = draw(streams("expires", most=6))
    ticks = [list(tick.windows.get((), ())) for tick in oracle.replay(stream.calls, stream.attributes, **stream.window)]
    return max(ticks, key=lambda window: len(window), default=[])


# --- Section 2 --------------------------------------------------------------------------------------------------------


@settings(small, max_examples=200)
@given(windows())
def test_dominance_and_skyline_probability_are_those_of_the_definitions(window):
    objects = [imputed(cloud) for cloud in window]
    for a, one in zip(window, objects, strict=True):
        for b, other in zip(window, objects, strict=True):
            assert dominance_probability(one, other) == pytest.approx(float(oracle.chance(a, b)), abs=1e-12)
        near = possible_dominators(one, objects)
        p = skyline_probability(one, near)
        assert p == pytest.approx(float(oracle.probability(a, window)), abs=1e-12)
        assert lower_bound(one, near) <= p + 1e-12


@settings(small, max_examples=40)
@given(windows())
def test_possible_worlds_give_the_same_probability_as_the_product_over_objects(window):
    objects = [imputed(cloud) for cloud in window][:4]
    for o in objects:
        p = skyline_probability(o, possible_dominators(o, objects))
        assert probability_over_worlds(o, objects) == pytest.approx(p, abs=1e-9)


# --- Section 4: the lemmas --------------------------------------------------------------------------------------------


@settings(small, max_examples=200)
@given(windows(), st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9]))
def test_each_lemma_prunes_only_objects_that_are_no_answer_while_the_other_lives(window, alpha):
    objects = [imputed(cloud) for cloud in window]
    for lemma in LEMMAS:
        pruning = Pruning(alpha, [lemma])
        for o, cloud in zip(objects, window, strict=True):
            for n in objects:
                if pruning.by(n, o) is not None:
                    assert n.expires >= o.expires
                    assert dominance_probability(n, o) >= (1 if lemma == 1 else 1 - alpha) - 1e-9
                    assert oracle.probability(cloud, window) <= (0 if lemma == 1 else alpha + 1e-9)


def test_lemmas_are_tried_in_the_papers_order_and_counted_one_by_one():
    n, o = (
        Imputed.of(k, k, 9, [Cell.of(v) for v in cells]) for k, cells in enumerate((([5.0], [5.0]), ([1.0], [1.0])))
    )
    wide = Imputed.of(2, 2, 9, [Cell.of([0.0, 5.0, 5.0, 5.0]), Cell.of([5.0])])
    near = Imputed.of(3, 3, 9, [Cell.of([1.0]), Cell.of([4.0])])
    far = Imputed.of(4, 4, 9, [Cell.of([1.0, 1.0, 1.0, 9.0]), Cell.of([1.0])])
    pruning = Pruning(0.5)
    assert [pruning.by(*pair) for pair in ((n, o), (wide, near), (n, far), (far, n))] == [1, 2, 3, None]
    late = replace(n, expires=8)
    assert pruning.by(late, o) is None, "it expires before the other"
    for lemma in (1, 2, 3, 3):
        pruning.count(lemma, early=lemma == 2)
    assert pruning.counts == {"spatial": 1, "max_corner": 1, "min_corner": 2, "general": 0}
    assert sum(pruning.through_index.values()) == 1


# --- Section 3: lattice and imputation --------------------------------------------------------------------------------

TABLE_6 = np.array([[90, 2, 2, 3], [60, 1, 1, 1], [70, 2, 2, 2], [90, 2, 3, 2]], float)
DD_1, DD_2 = {0: 10.0}, {1: 1.0, 2: 1.0}


def imputes(lattice: Lattice, *values: float) -> dict[float, float]:
    cell = lattice.impute(lattice.select(np.array(values)), np.array(values))
    return dict(zip(cell.values.tolist(), cell.weights.round(6).tolist(), strict=True))


def test_on_the_papers_table_6_the_lattice_imputes_as_the_paper_states():
    nan = np.nan
    both = Lattice(TABLE_6, 3, [DD_1, DD_2], units=UNITS)
    assert [(node.level, set(node.given)) for node in both.nodes] == [(2, {0, 1, 2}), (1, {0}), (1, {1, 2})]
    assert imputes(Lattice(TABLE_6, 3, [DD_1], units=UNITS), 70, 2, 2, nan) == {1: 0.5, 2: 0.5}
    assert imputes(both, 70, 2, 2, nan) == {1: 0.5, 2: 0.5}
    assert imputes(both, 20, 2, 3, nan) == {2: 0.666667, 3: 0.333333}, "level 2 and DD_1 find nothing"
    assert imputes(both, nan, 2, 3, nan) == {2: 0.666667, 3: 0.333333}
    assert imputes(both, nan, nan, 3, nan) == {1: 0.25, 2: 0.5, 3: 0.25}, "level 0"


def test_the_papers_table_6_breaks_its_own_second_rule():
    s1, s2 = TABLE_6[:2]
    assert (np.abs(s1[1:3] - s2[1:3]) <= 1).all()
    assert abs(s1[3] - s2[3]) == 2 > 1


@settings(small, max_examples=150)
@given(gapped())
def test_outlines_hold_the_imputed_object_at_every_depth(case):
    """The MBR holds all instances, and the outline is nowhere below: Pr{A > v} of the object is at most its own."""
    stream, R, rules = case
    system, objects = system_over(stream, R, rules)
    for tick in oracle.replay(stream.calls, {}, **stream.window):
        for cloud in tick.windows.get((), ()):
            row: Incomplete = objects(cloud)
            assert system.repository is not None
            if not (chosen := system.repository.select(row)):
                continue
            o = system.repository.impute(row, chosen)
            for outline in system.repository.outlines(row, chosen):
                assert (outline.min <= o.min).all()
                assert (outline.max >= o.max).all()
                for cell, known in zip(outline.cells, o.cells, strict=True):
                    assert (known.above(known.values) <= cell.above(known.values) + 1e-12).all()


def test_a_ceiling_holds_for_whichever_doubtful_samples_match():
    high, count, sure = np.array([1.0, 5.0, 9.0]), np.array([2.0, 4.0, 1.0]), np.array([True, False, False])
    cell = _ceiling(high, count, sure)
    for some in ([2, 0, 0], [2, 4, 0], [2, 0, 1], [2, 4, 1], [2, 3, 1]):
        share = np.array(some) / sum(some)
        assert all(share[high > v].sum() <= cell.above(v) + 1e-12 for v in (0.0, 1.0, 5.0, 9.0))


def too_low(corrected: bool) -> int:
    """Of random gaps, how many outlines are somewhere below the imputed values. Buckets are wider than queries."""
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 40, 60).astype(float)
        R = np.stack((first, np.round(first + rng.normal(0, 4, 60))), axis=1)
        lattice = Lattice(R, 1, [{0: 6.0}], corrected=corrected, units=UNITS, intervals=8)
        for x in rng.integers(0, 40, 5):
            values = np.array([float(x), np.nan])
            node = lattice.select(values)
            cell = lattice.impute(node, values)
            for depth in range(lattice.height + 1):
                outline = lattice.outline(node, values, depth)
                assert outline.low <= cell.values[0]
                assert outline.high >= cell.values[-1]
                found += bool((cell.above(cell.values) > outline.ceiling.above(cell.values) + 1e-12).any())
    return found


def test_as_printed_counts_of_touched_buckets_make_outlines_that_are_too_low_and_corrected_never():
    """A bucket that Q only touches counts in full, though its low values may lie outside."""
    assert too_low(corrected=True) == 0
    assert too_low(corrected=False) > 0


def test_as_printed_an_estimate_from_histograms_may_promise_samples_that_are_not_there():
    """A cell has samples at 0 and 4.9, its histogram the interval up to 1.25: within 0.5 of 1.5, as 0 is not."""
    R = np.array([[0.0, 1.0], [4.9, 2.0], [5.0, 3.0]])
    values = np.array([1.5, np.nan])
    printed, corrected = (Lattice(R, 1, [{0: 0.5}], corrected=corrected, units=UNITS) for corrected in (False, True))
    assert isinstance(printed.index, Index)
    assert printed.index.cells == 2
    assert corrected.select(values) is None
    assert printed.select(values) is not None
    assert printed.impute(printed.select(values), values).values.tolist() == [1, 2, 3], "level 0 is what is left"
    assert printed.misled == 1


def test_a_repository_that_grew_imputes_like_one_that_was_built(request):
    rng = np.random.default_rng(2)
    R = rng.integers(0, 6, (60, 3)).astype(float)
    rules = [{0: 1.0}, {1: 0.0}]
    grown, built = Lattice(R[:20], 2, rules, units=UNITS), Lattice(R, 2, rules, units=UNITS)
    for more in np.split(R[20:], 8):
        grown.append(more)
    assert isinstance(grown.index, Index)
    assert grown.histograms is not None
    grown.index.check()
    grown.histograms.check()
    grown.nodes = built.nodes  # ranks are not taken anew
    for values in rng.integers(0, 6, (40, 3)).astype(float):
        values[2] = np.nan
        assert imputes(grown, *values) == imputes(built, *values)


def test_a_rule_about_a_column_that_is_not_there_is_refused_in_words():
    with pytest.raises(ValueError, match=r"speaks of x; R has a, b"):
        DataRepository(np.zeros((1, 2)), ["a", "b"], [Rule({"x": 1}, "a", 1)], units=UNITS)


# --- Section 5.1: the tree --------------------------------------------------------------------------------------------


def test_the_tree_of_the_papers_figure_4():
    """W_8 of Table 1, α = 0.45: layers {o3}, {o6, o2}, {o1}; o4 and o5 are not in it."""
    tree = SkylineTree(0.45)
    shown = {}
    entered: set[object] = set()
    for tick in oracle.replay(COAL_MINE.stream.calls, COAL_MINE.stream.attributes, expires="e"):
        tree.delete(tick.time)
        window = tick.windows.get((), ())
        for cloud in (cloud for cloud in window if cloud.key not in entered):
            entered.add(cloud.key)
            tree.insert(imputed(cloud))
        shown[tick.time] = [sorted(str(node.object.id) for node in layer) for layer in tree.layers()]
    assert shown[8] == [["('o3', 3)"], ["('o2@8', 8)", "('o6', 6)"], ["('o1@7', 7)"]]


@pytest.mark.parametrize("corrected", [True, False])
def test_siblings_may_dominate_each_other_likely_so_that_property_4_does_not_hold(corrected):
    """α = 0.5: b is below a, c below a2. Pr{b ≺ c} = 1/2, but below a, which does not dominate c, none looks."""
    tree = SkylineTree(0.5, corrected=corrected)
    a, a2, b, c = (
        Imputed.of(name, 0, expires, [Cell.of(first), Cell.of(second)])
        for name, expires, first, second in (
            ("a", 3, [2.0], [3.0]), ("a2", 4, [5.0], [1.0]), ("b", 8, [1.0, 4.0], [2.0]), ("c", 9, [3.0], [1.0])
        )
    )  # fmt: skip
    for o in (a, a2, b, c):
        tree.insert(o)
    assert dominance_probability(b, c) == 0.5
    assert [[node.object.id for node in layer] for layer in tree.layers()] == [["a", "a2"], ["b", "c"]]
    tree.delete(4)
    assert [node.object.id for node in tree.top] == ["b", "c"]


# --- Appendix D: the cost model ---------------------------------------------------------------------------------------

LOAD = Load(120_000, np.array([[0.01, 0.01]]), Law(2.0), UnitCosts(2e-7, 1e-8), margin=2.0)


def test_equation_15_is_the_derivative_of_equation_14_with_beta_the_other_way_round():
    u, h = 0.03, 1e-7
    for beta in (0.1, 0.5, 0.9):
        load = replace(LOAD, beta=beta)
        numeric = (cost(u + h, load) - cost(u - h, load)) / (2 * h)
        assert slope(u, load) == pytest.approx(numeric, rel=1e-4)
        assert slope(u, replace(LOAD, beta=1 - beta), printed=True) == pytest.approx(numeric, rel=1e-4)
    assert slope(u, LOAD) == slope(u, LOAD, printed=True), "at β = 0.5 it does not matter"


def test_appendix_e_goes_with_equation_15_and_against_equation_14():
    """A smaller β makes u large as printed, and small by Eq. 14."""
    low, high = replace(LOAD, beta=0.1), replace(LOAD, beta=0.9)
    assert algorithm_6(low, precision=1e-6) > algorithm_6(high, precision=1e-6)
    assert best_side(low) < best_side(high)


def test_algorithm_6_finds_the_minimum_of_the_cost():
    u = algorithm_6(LOAD, precision=1e-6)
    assert cost(u, LOAD) <= min(cost(u * f, LOAD) for f in (0.5, 0.9, 1.1, 2.0))
    assert best_side(LOAD) == pytest.approx(u, rel=1e-2)


# --- Without an index -------------------------------------------------------------------------------------------------


@settings(small, max_examples=100)
@given(gapped(), st.sampled_from([SCAN, COLUMN]))
def test_a_scan_and_a_sorted_column_find_what_the_index_finds(case, access):
    stream, R, rules = case
    if access == COLUMN:
        rules = list({rule.then: rule for rule in rules if len(rule.given) == 1}.values())
    names = list(stream.attributes)
    one, other = (DataRepository(R, names, rules, units=UNITS, access=each) for each in (INDEX, access))
    for row in stream.rows:
        o = Incomplete(row["id"], 0, 1, np.array([np.nan if row[a] is None else row[a] for a in names], float))
        chosen = one.select(o)
        assert {j: node and node.given for j, node in other.select(o).items()} == {
            j: node and node.given for j, node in chosen.items()
        }
        found, same = one.impute(o, chosen), other.impute(o, chosen)
        for cell, again in zip(found.cells, same.cells, strict=True):
            assert cell.values.tolist() == again.values.tolist()
            assert cell.weights.tolist() == again.weights.tolist()
        if chosen:
            for repository in (one, other):
                [outline] = repository.outlines(o, chosen, BOUNDS)
                assert outline.min.tolist() == found.min.tolist()
                assert outline.max.tolist() == found.max.tolist()


# --- Everything of the paper is found by its number -------------------------------------------------------------------


PLACES = {  # beside the table of contents
    "objects.py": [
        *(f"Definition {k}" for k in range(1, 7)), *(f"Eq. {k}" for k in range(1, 5)),
        *(f"Table {k}" for k in range(1, 6)),
    ],
    "framework.py": ["Algorithm 1"],
    "lattice.py": ["Algorithm 2", "Table 6"],
    "pruning.py": ["Lemma 1", "Lemma 2", "Lemma 3", "Eq. 6"],
    "skyline_tree.py": [
        "Algorithm 3", "Algorithm 4", *(f"Property {k}" for k in range(1, 5)), *(f"Lemma {k}" for k in range(4, 7)),
    ],
    "refinement.py": ["Algorithm 5", "Lemma 7", "Lemma 8"],
    "cost.py": ["Algorithm 6", *(f"Eq. {k}" for k in range(7, 16))],
    "rules.py": ["Table 7"],
    "../experiments/pruning.py": ["Table 8"],
    "../case.py": ["Table 9"],
    "../race.py": ["Eq. 5"],
    "../kernels/paper.py": ["Eq. 2", "Eq. 4"],
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_everything_of_the_paper_is_found_by_its_number(name):
    text = (Path(str(lab.paper.__file__)).parent / name).read_text()
    assert [each for each in PLACES[name] if not re.search(rf"{re.escape(each)}\b", text)] == []


def test_no_number_of_the_paper_is_left_out():
    listed = {each for names in PLACES.values() for each in names}
    for what, most in (
        ("Algorithm", 6), ("Lemma", 8), ("Definition", 6), ("Property", 4), ("Eq.", 15), ("Table", 9),
    ):  # fmt: skip
        assert {f"{what} {k}" for k in range(1, most + 1)} <= listed
    figures = {
        int(k) for each in EXPERIMENTS.values() if "Figure" in each.figure for k in re.findall(r"\d+", each.figure)
    }
    assert set(range(8, 21)) <= figures


def test_every_file_that_the_page_names_is_there():
    page = PAPER.read_text()
    first = re.findall(r"^\|[^|]*\|([^|]*)\|", page, re.MULTILINE)
    own = {name for cell in first for name in re.findall(r"`([a-z_]+\.py)`", cell)}
    assert own == {path.name for path in Path("lab/paper").glob("*.py")} - {"__init__.py"}
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|json))`", page)
    folders = [Path(), Path("src/fogline"), Path("lab/paper"), Path("tests/lab")]
    assert [name for name in named if not any((folder / name).exists() for folder in folders)] == []
