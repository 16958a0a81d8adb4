"""Is the paper read as favourably as can be, and is that read rightly?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lab.case import matrix
from lab.experiments import favourable
from lab.imputers.rules import Donors, Nearby, instances_of


@pytest.fixture(scope="module")
def past():
    rng = np.random.default_rng(3)
    return np.round(rng.uniform(0, 10, (300, 3)), 1)


@pytest.mark.parametrize("given", [(0,), (0, 1)])
@pytest.mark.parametrize("radius", [0.0, 0.35, 2.0])
def test_donors_are_the_rows_within_the_radius_or_else_the_nearest(past, given, radius):
    centres = np.random.default_rng(4).uniform(-1, 11, (40, 3))
    found = Donors(past, given, 2).find(centres, radius)
    for k, centre in enumerate(centres):
        apart = np.abs(past[:, list(given)] - centre[list(given)]).max(axis=1)
        near = apart <= max(radius, apart.min() * (1 + 1e-12))
        value, often = np.unique(past[near, 2], return_counts=True)
        span = slice(found.start[k], found.start[k] + found.size[k])
        if radius >= apart.min() or len(given) == 1:
            assert np.array_equal(found.value[span], value)
            assert np.array_equal(found.often[span], often)
        else:
            assert found.value[span].tolist() in [[each] for each in value]  # one of the nearest


def test_the_radius_gives_as_many_values_as_asked(copies):
    everything = {j: tuple(k for k in range(4) if k != j) for j in range(4)}
    assert instances_of(Nearby(copies, 9.0, everything), copies) == pytest.approx(9, rel=0.1)


def test_determinants_chosen_with_the_truth_in_view_are_no_worse_than_all(motes):
    everything = {j: tuple(k for k in range(4) if k != j) for j in range(4)}
    every, chosen = Nearby(motes, 5.0, everything), Nearby(motes, 5.0, None)
    for j, rule in chosen.rules.items():
        assert rule.rank <= every.rules[j].rank


def test_a_history_with_the_streams_own_rows_keeps_its_size(copies):
    own = favourable._with_own_rows(copies)
    assert own.history.num_rows == copies.history.num_rows
    there = {tuple(row) for row in matrix(own.history, copies.query.names).tolist()}
    assert all(tuple(row) in there for row in copies.truth.tolist())


def test_it_is_counted_per_protocol_on_how_many_sets_f_is_near_one():
    rows = [
        {"set": name, "protocol": protocol, "rules": rules, "f": f, "instances": 14.0}
        for name, protocol, best in (("intel", "honest", 0.3), ("intel", "own", 0.5), ("gas", "own", 0.97))
        for rules, f in (("printed", 0.99), ("one", 0.1), ("all", best))
    ]
    reading = favourable.read(pd.DataFrame(rows))
    assert reading.verdict == "fails here"
    assert "on 0 of 1 sets (honest) and 1 of 2 sets (own)" in reading.text
    assert "own, gas: printed 0.990 (14), one 0.100 (14), all 0.970 (14)" in reading.text
