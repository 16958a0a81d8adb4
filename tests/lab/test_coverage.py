"""Are the right cells hidden, and is it counted rightly whether the truth lies where it is thought to?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lab.experiment import Scope
from lab.experiments import coverage
from lab.experiments.coverage import ImputedCells, Outages, SensorRows, drawn, hidden, of_history, shares

# --- Outages ----------------------------------------------------------------------------------------------------------


def readings(times, sensors, d=2):
    at, sensor = np.repeat(np.asarray(times, float), sensors), np.tile(np.arange(sensors), len(times))
    return SensorRows(sensor, at, np.arange(len(at) * d, dtype=float).reshape(-1, d))


def test_an_outage_hides_its_cells_of_its_sensor_from_its_begin_until_before_its_end():
    rows = readings(range(10), 2)
    rows.values[6, 1] = np.nan
    outages = Outages(
        np.array([0, 1]), np.array([2.0, 8.5]), np.array([5.0, 99.0]), np.array([[False, True], [True] * 2])
    )
    found = hidden(rows, outages)
    assert set(zip(*np.nonzero(found), strict=True)) == {(4, 1), (8, 1), (19, 0), (19, 1)}  # 6 was missing anyway


def test_what_was_missing_in_the_history_is_hidden_again_later():
    past = readings(range(0, 4 * 86_400, 3_600), 1)
    past.values[10:13, 1] = np.nan
    past = past.part(np.r_[0:20, 30:96])  # ten hours without a row
    rows = readings(range(4 * 86_400, 6 * 86_400, 3_600), 1)
    found = of_history(past, rows.at[-1])
    shown = sorted(zip(((found.begin - 2 * 86_400) / 3_600).tolist(), found.cells.tolist(), strict=True))
    assert shown == [(10.0, [False, True]), (19.5, [True, True])]  # two days later
    moved = of_history(past, past.at[-1] + 4 * 86_400)
    cells = hidden(readings(range(4 * 86_400, 8 * 86_400, 3_600), 1), moved)
    assert np.flatnonzero(cells[:, 1]).tolist() == [*range(10, 13), *range(20, 30)]
    assert np.flatnonzero(cells[:, 0]).tolist() == [*range(20, 30)]


def test_drawn_outages_hide_a_third_of_one_attribute_or_of_whole_sensors():
    rows = readings(range(20_000), 3)
    for whole in (False, True):
        found = hidden(rows, drawn(rows, 1.0, 200.0, whole=whole, seed=1))
        assert found.all(axis=1).any() == whole
        assert found.any(axis=1).mean() == pytest.approx(1 / 3, abs=0.05)


# --- Counting ---------------------------------------------------------------------------------------------------------


def cells(lists):
    size = np.array([len(each) for each in lists])
    value, weight = np.array([pair for each in lists for pair in each]).T
    return ImputedCells(np.arange(len(lists)), np.zeros(len(lists), int), np.cumsum(size) - size, size, value, weight)


@pytest.mark.parametrize(
    ("truth", "inside", "covered"),
    [(0.0, False, 0.0), (1.0, True, 0.75), (1.5, True, 1.0), (2.0, True, 1.0), (3.0, True, 0.25), (4.0, False, 0.0)],
)
def test_a_truth_on_an_end_counts_by_the_part_of_its_weight_that_belongs_to_the_middle(truth, inside, covered):
    given = [(1.0, 0.4), (2.0, 0.46), (3.0, 0.16 - 0.02)]
    found = shares(cells([[(7.0, 1.0)], given]), np.array([7.0, truth]))
    assert found[0].tolist() == [True, inside]
    assert found[1].tolist() == pytest.approx([0.8, {0.25: 0.04 / 0.14}.get(covered, covered)])
    assert found[2].tolist() == [0.0, 2.0]


def test_of_truths_that_follow_their_distributions_just_four_fifths_are_covered():
    rng = np.random.default_rng(2)
    lists, truth = [], []
    for _ in range(4_000):
        n = int(rng.integers(1, 6))
        value, weight = np.sort(rng.choice(9, n, replace=False)).astype(float), rng.dirichlet(np.ones(n))
        lists.append(list(zip(value.tolist(), weight.tolist(), strict=True)))
        truth.append(float(rng.choice(value, p=weight)))
    inside, covered, _ = shares(cells(lists), np.array(truth))
    assert covered.mean() == pytest.approx(0.8, abs=0.02)
    assert inside.mean() > 0.85


# --- Reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", coverage.MODES)
def test_hidden_cells_are_imputed_at_arrival_and_after_revision(folder, monkeypatch, mode):
    monkeypatch.setattr(coverage, "QUICK", (1_800, 900))
    found = pd.DataFrame(coverage.measure({"set": "intel", "outages": mode}, Scope(folder, quick=True)))
    assert found["covered"].between(0, 1).all()
    assert (found["covered"] <= found["inside"] + 1e-9).all()
    first, then = (found[found["when"] == when]["n"].sum() for when in (coverage.ARRIVAL, coverage.AFTER))
    assert first > 0
    assert then <= first
    assert then > 0 or mode == "history"  # whose nulls are of an attribute that sensors do not explain


def test_buckets_outside_the_wanted_share_are_named():
    rows = [
        {"set": "intel", "outages": "runs", "when": when, "attribute": name, "age": age, "order": k, "n": n,
         "inside": 0.9, "covered": share, "clipped_percent": 1.5}
        for when, name, k, age, n, share in (
            ("arrival", "a", 0, "≤ 5 min", 300, 0.7), ("arrival", "b", 0, "≤ 5 min", 100, 0.9),
            ("arrival", "a", 1, "> 5 min", 400, 0.5), ("arrival", "a", 2, "unknown", 400, 0.5),
            ("after revision", "a", 0, "≤ 5 min", 199, 0.2), ("after revision", "a", 1, "> 5 min", 200, 0.8),
        )
    ]  # fmt: skip
    text = coverage.read_coverage(pd.DataFrame(rows)).text
    assert "arrival: 1 of 2 buckets" in text
    assert "others: intel, runs, > 5 min 0.50." in text
    assert "after revision: 1 of 1 buckets" in text
    assert "1.50 % lay outside" in text
