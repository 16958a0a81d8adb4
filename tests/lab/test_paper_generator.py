"""Are synthetic streams what the paper describes, and does α have something to act on?"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from lab.case import APART, KINDS, Case, Settings, matrix, synthetic
from lab.experiments.pruning import pruned
from lab.paper.generator import DELTA, EPSILON, SEEDS, dependencies, objects, seed_objects
from lab.paper.lattice import DataRepository
from lab.paper.objects import Imputed, Incomplete, dominance_probability
from lab.race import Pair, race, system
from tests.lab.test_paper_system import UNITS

SMALL = Settings(window=600, theta=30, history=30_000, ticks=0)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(KINDS), st.integers(1, 5), st.integers(1, 20), st.integers(0, 99))
def test_objects_of_one_seed_obey_every_rule_among_themselves(kind, d, seeds, number):
    rng = np.random.default_rng(number)
    points = seed_objects(kind, d, seeds, rng)
    made = objects(points, 200, rng)
    apart = np.abs(made[:, :, None] - points[:, None]).max(axis=0)  # (objects, seeds)
    assert (apart.min(axis=1) <= DELTA / 2 + 1e-12).all()
    assert ((made >= 0) & (made <= 10)).all()
    own = apart.argmin(axis=1)
    for seed in range(seeds):
        if seeds == 1:
            assert (np.ptp(made[:, own == seed], axis=1) <= DELTA).all()


def test_uniform_seeds_are_spread_evenly_and_lie_anywhere():
    seeds = np.sort(seed_objects("uniform", 3, SEEDS, np.random.default_rng(1)), axis=1)
    assert np.abs(seeds - np.linspace(0, 10, SEEDS)).max() < 0.3
    gaps = np.diff(seeds, axis=1)
    assert (gaps < EPSILON).mean() == pytest.approx(1 - np.exp(-EPSILON * SEEDS / 10), abs=0.03)


def test_the_rules_are_those_of_the_paper():
    assert dependencies(("A", "B", "C")) == ("B(0.001) -> A(0.01)", "C(0.001) -> B(0.01)", "A(0.001) -> C(0.01)")


def test_across_seeds_the_papers_rules_do_not_hold_on_its_own_data_and_hold_where_seeds_are_apart():
    for kind in KINDS:
        case = synthetic(kind, SMALL)
        assert case.rules is not None
        assert len(fl.verify(case.rules, case.history, case.query)) > 0
    for kind in APART:
        case = synthetic(kind, SMALL)
        assert case.rules is not None
        assert fl.verify(case.rules, case.history, case.query) == []


@cache
def imputed_rows(kind: str) -> list[Imputed]:
    """Rows with gaps, imputed by the paper's rules; those for which there are none are left out."""
    case = synthetic(kind, SMALL)
    assert case.rules is not None
    names = case.query.names
    R = DataRepository(matrix(case.history, names), names, fl.repository.rules.as_rules(case.rules), units=UNITS)
    values = matrix(case.rows, names)[case.incomplete]
    rows = [Incomplete(k, 0, 1, point) for k, point in enumerate(values[:150])]
    chosen = [(row, R.select(row)) for row in rows]
    return [R.impute(row, each) for row, each in chosen if all(node is not None for node in each.values())]


def undecided(rows: list[Imputed]) -> int:
    """Pairs whose dominance is neither impossible nor sure."""
    return sum(1e-9 < dominance_probability(a, b) < 1 - 1e-9 for a in rows for b in rows if a is not b)


@pytest.mark.parametrize("kind", KINDS)
def test_uncertain_rows_of_different_seeds_overlap(kind):
    rows = imputed_rows(kind)
    wide = [bool((row.max - row.min).max() > 2 * DELTA) for row in rows]
    assert np.mean(wide) > 0.9, "imputed by copies of several seeds"
    assert undecided(rows) > 10 * max(undecided(imputed_rows(f"{kind}-apart")), 1)


def answers_at(kind: str, alpha: float) -> set[int]:
    case = synthetic(kind, Settings(window=600, theta=30, history=30_000, ticks=0, alpha=alpha))
    found = race(case, system("DD-literal+live", case), warm=0, at=[case.full]).answers
    return set(found[case.full].id.tolist())


def test_alpha_changes_the_answer():
    for kind in ("uniform", "anti"):
        few, many = answers_at(kind, 0.9), answers_at(kind, 0.1)
        assert few < many
        apart = len(answers_at(f"{kind}-apart", 0.1)) - len(answers_at(f"{kind}-apart", 0.9))
        assert len(many) - len(few) > 5 * apart


def shares(kind: str) -> dict[str, float]:
    """Of a window of 2,000 rows."""
    case: Case = synthetic(kind, replace(SMALL, window=2_000, history=20_000))
    runner = system("DD-literal+live", case)
    assert isinstance(runner, Pair)
    for k, rows in case.ticks():
        runner.advance(k, rows)
    return pruned(runner.maintainer.group.live, 2_010)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_the_corner_lemmas_prune(kind):
    found, apart = shares(kind), shares(f"{kind}-apart")
    assert found["max_corner"] > apart["max_corner"]
    assert found["min_corner"] >= apart["min_corner"]
    assert found["max_corner"] + found["min_corner"] > 0.01


def test_the_papers_own_system_prunes_by_each_of_the_lemmas():
    for seed in (1, 2):
        case = synthetic("uniform", Settings(window=300, theta=30, history=10_000, ticks=0, seed=seed))
        sizes = race(case, system("paper", case), warm=0).sizes
        assert min(sizes["spatial"], sizes["max_corner"], sizes["min_corner"]) > 0
