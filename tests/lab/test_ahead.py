"""Is it read rightly whether Fogline's default is ahead, what keeps it from more, and if its probabilities hold?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from lab.case import DATA_SETS
from lab.experiment import Scope
from lab.experiments import EXPERIMENTS, calibration, fscore
from lab.experiments.calibration import binned
from lab.experiments.fscore import ahead, differences, f_score
from lab.report.plot import grids, select

QUICK = Scope(quick=True)


def answers(f, **knobs):
    """A row for each imputer: ten true members, of which the share f is answered, and nothing else."""
    return [
        {"set": "intel", "protocol": "honest", "wishes": False, "xi": 0.3, "place": 0, "seed": 1, "imputer": who,
         "f": f[who], "precision": 1.0, "recall": f[who], "true": 10, "answered": 10 * f[who], "lost_incomplete": 1,
         "wrong_incomplete": 0, **knobs}
        for who in f
    ]  # fmt: skip


@pytest.fixture
def everything(tmp_path):
    """A folder with files of all sets; what is in them is not looked at."""
    for each in DATA_SETS.values():
        (tmp_path / f"{each.file}.parquet").touch()
    return Scope(tmp_path)


# --- Which trials -----------------------------------------------------------------------------------------------------


def test_the_default_is_held_against_the_others_on_four_sets_at_three_rates_in_five_windows_each_with_its_seed(
    everything,
):
    honest = [
        knobs for knobs in fscore.table_trials(everything) if knobs["protocol"] == "honest" and not knobs["wishes"]
    ]
    for name in ("intel", "beijing", "room_climate", "smart_building_rooms"):
        found = {(knobs["xi"], knobs["place"], knobs["seed"]) for knobs in honest if knobs["set"] == name}
        assert found == {
            (xi, place, seed) for xi in (0.1, 0.3, 0.5) for place, seed in zip(range(5), range(1, 6), strict=True)
        }


def test_the_papers_trials_are_at_the_default_rate_and_on_its_own_sets(everything):
    for knobs in fscore.table_trials(everything):
        if knobs["protocol"] == "paper" or knobs["wishes"]:
            assert knobs["xi"] == 0.3
            assert knobs["set"] in ("intel", "beijing", "gas", "pump")


def test_trials_that_learn_from_the_same_rows_follow_one_another(everything):
    def learnt(knobs):
        drawn = knobs["seed"] if knobs["protocol"] == "paper" else knobs["place"]
        return knobs["set"], knobs["protocol"], drawn

    seen = [learnt(knobs) for knobs in fscore.table_trials(everything)]
    changes = sum(one != two for one, two in pairwise(seen))
    assert changes == len(set(seen)) - 1


# --- What is read -----------------------------------------------------------------------------------------------------


def test_averages_over_the_rates_and_the_worst_cell_are_reported():
    rows = [
        *answers({"Fogline": 0.96, "last": 0.90, "mean": 0.5}, xi=0.1),
        *answers({"Fogline": 0.80, "last": 0.84, "mean": 0.5}, xi=0.5),
        *answers({"Fogline": 0.90, "last": 0.70, "mean": 0.8}, xi=0.1, set="beijing"),
        *answers({"Fogline": 0.90, "last": 0.70, "mean": 0.8}, xi=0.5, set="beijing"),
    ]
    text = ahead(pd.DataFrame(rows))
    assert (
        "averaged over ξ = 0.1 and 0.5: intel: Fogline 0.880, last 0.870; beijing: Fogline 0.900, mean 0.800." in text
    )
    assert "worst on intel at ξ = 0.5: 0.040 below last." in text


def test_the_spread_is_that_between_windows_and_seeds_not_between_rates():
    rows = [
        row
        for xi, loss in ((0.1, 0.0), (0.5, 0.3))
        for place, f in ((0, 0.9), (1, 0.8))
        for row in answers({"Fogline": f - loss, "last": 0.5 - loss}, xi=xi, place=place)
    ]
    frame = pd.DataFrame(rows)
    assert "Fogline 0.700 ± 0.071, last 0.350 ± 0.000" in ahead(frame)
    shown = EXPERIMENTS["fscore"].plots[0]
    (grid,) = grids(shown, select(shown, frame))
    assert grid.body == [["Fogline", "0.7 ± 0.071"], ["last", "0.35 ± 0"]]


def test_what_was_not_measured_at_every_rate_is_not_the_best_of_the_others():
    rows = [
        *answers({"Fogline": 0.9, "last": 0.8, "knn": 0.99}, xi=0.1),
        *answers({"Fogline": 0.7, "last": 0.6}, xi=0.5),
    ]
    assert "intel: Fogline 0.800, last 0.700." in ahead(pd.DataFrame(rows))


def test_it_is_reported_how_much_of_the_loss_is_of_rows_with_gaps():
    text = ahead(pd.DataFrame(answers({"Fogline": 0.6, "last": 0.5})))
    assert "intel 0.600, against an aim of 0.945; 25 % of the members it misses have gaps themselves" in text
    assert "it would be 0.947 if it judged all complete rows rightly, 0.824 if all with gaps." in text
    assert "first seed" not in text
    assert "Of last, only the first seed" in ahead(
        pd.DataFrame(answers({"Fogline": 0.6, "last": 0.5})), ("last", "knn")
    )


def test_windows_are_counted_in_which_fogline_is_behind_and_the_worst_is_named():
    rows = [
        *answers({"Fogline": 0.90, "Fogline-past": 0.99, "last": 0.904, "linear": 0.91}, place=0),
        *answers({"Fogline": 0.90, "Fogline-past": 0.99, "last": 0.92, "linear": 0.80}, place=1, seed=1),
        *answers({"Fogline": 0.90, "Fogline-past": 0.99, "last": 0.90, "linear": 0.80}, place=1, seed=2),
        *answers({"Fogline": 0.90, "Fogline-past": 0.99, "last": 0.80, "linear": 0.70}, place=2),
    ]
    found = differences(pd.DataFrame(rows)).set_index("place")
    assert found["last"].tolist() == pytest.approx([-0.004, -0.01, 0.10])
    assert found["best"].tolist() == pytest.approx([-0.01, -0.01, 0.10])
    text = ahead(pd.DataFrame(rows))
    assert (
        "Of 3 windows at one rate, it is by more than 0.005 behind the last value in 1 (least difference -0.010" in text
    )
    assert "behind the best other in 2" in text
    assert "intel: Fogline 0.900 ± 0.000, Fogline-past 0.990 ± 0.000, last" in text


def test_f_from_counts_is_the_harmonic_mean():
    precision, recall = 6 / 8, 6 / 10
    found = f_score(pd.Series([10, 0]), pd.Series([4, 0]), pd.Series([2, 0]))
    assert found.tolist() == pytest.approx([2 * precision * recall / (precision + recall), 1.0])


def test_nothing_is_reported_of_a_default_that_was_not_measured():
    assert ahead(pd.DataFrame(answers({"last": 0.6, "mean": 0.4}))) == ""


def test_other_sets_and_rates_do_not_count_for_the_papers_claim():
    few = {"DD": 0.99, "mul": 0.5, "con": 0.5}
    rows = [*answers(few), *answers({**few, "DD": 0.1}, xi=0.5), *answers({**few, "DD": 0.1}, set="room_climate")]
    reading = EXPERIMENTS["fscore"].read(pd.DataFrame(rows))
    assert reading.verdict == "holds"
    assert "at 0.95 or above in 1 of 1 lines" in reading.text


# --- Calibration ------------------------------------------------------------------------------------------------------


def test_bins_are_tenths_and_certain_rows_are_apart_and_a_row_counts_once_per_window():
    cases = np.array([[0.55, 1, 7, 0], [0.59, 0, 7, 0], [0.51, 1, 7, 1], [0.99, 1, 8, 0], [1.0, 1, 9, 0]])
    found = {row["bin"]: row for row in binned(cases)}
    assert list(found) == ["0.5–0.6", "0.9–1", "1"]
    assert found["0.5–0.6"]["n"] == 3
    assert found["0.5–0.6"]["rows"] == 2
    assert found["0.5–0.6"]["share"] == pytest.approx(2 / 3)
    assert found["0.5–0.6"]["probability"] == pytest.approx(0.55)


def test_bins_near_their_probability_are_counted_for_fogline_those_of_the_answer_also_alone():
    bins = [("0.1–0.2", 0.15, 0.40, 300), ("0.5–0.6", 0.55, 0.60, 200), ("0.7–0.8", 0.75, 0.4, 199), ("1", 1, 0.5, 999)]
    rows = [
        {"set": "intel", "protocol": "honest", "imputer": who, "stage": stage, "bin": bin, "probability": p,
         "share": share, "n": n}
        for stage in ("all", "arrival")
        for who in ("DD", "Fogline")
        for bin, p, share, n in bins
    ]  # fmt: skip
    text = EXPERIMENTS["calibration"].read(pd.DataFrame(rows)).text
    for stage in ("all", "arrival"):
        assert f"{stage}: 1 of 2, and 1 of 1 (intel 1 of 2), farther off: intel at 0.1–0.2 0.40" in text


def test_for_fogline_windows_and_seeds_are_put_together(everything):
    assert len(calibration.windows("intel", "Fogline", everything)) == 15
    assert len(calibration.windows("intel", "DD", everything)) == 5
    assert calibration.windows("intel", "Fogline", QUICK) == [(0, 1)]
    named = {knobs["set"] for knobs in calibration.trials(everything) if knobs["imputer"] == "Fogline"}
    assert named == {"intel", "beijing", "room_climate", "smart_building_rooms"}


def test_fogline_can_be_calibrated(folder, monkeypatch):
    monkeypatch.setattr("lab.experiments.common.QUICK", {"window": 120, "history": 1_000, "ticks": 3})
    knobs = {"set": "intel", "protocol": "honest", "imputer": "Fogline"}
    bins = pd.DataFrame(calibration.measure(knobs, Scope(folder, quick=True)))
    assert set(bins["stage"]) >= {"all", "arrival"}
    assert set(bins["bin"]) > {"1"}
    assert (bins["rows"] <= bins["n"]).all()
    assert bins["share"].between(0, 1).all()
