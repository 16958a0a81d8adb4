"""Does a race measure what it claims to, and is an answer held rightly against the truth?"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fogline as fl
from fogline.impute.chain import Chain
from lab.case import KINDS, LabError, Settings, real, synthetic
from lab.experiments.calibration import pairs
from lab.maintainers import TickAnswer
from lab.race import (
    RIVALS,
    Fogline,
    Pair,
    PaperSystem,
    accuracies,
    accuracy_of,
    race,
    repository_of,
    system,
    truth_answers,
)
from tests.lab.conftest import SMALL
from tests.lab.test_maintainers import EXACT


def same(one, two):
    assert one.keys() == two.keys()
    for k in one:
        assert np.array_equal(one[k].id, two[k].id)
        assert np.abs(one[k].probability - two[k].probability).max(initial=0.0) <= 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_imputing_by_the_same_rules_everyone_gives_the_same_answers_on_synthetic_streams(kind):
    case = synthetic(kind, Settings(window=900, history=20_000, ticks=30, xi=0.5))
    at = range(0, case.length, 3)
    runs = [race(case, system(name, case), at=at).answers for name in ("fogline", *(f"DD+{two}" for two in EXACT))]
    for other in runs[1:]:
        same(runs[0], other)
    assert any(0 < p < 1 for answer in runs[0].values() for p in answer.probability)


def test_rows_of_which_nothing_helpful_is_known_get_the_whole_history_and_the_same_answers_from_everyone():
    case = synthetic("anti", Settings(window=120, theta=10, history=400, ticks=8, m=2, seed=2))
    at = range(0, case.length, 4)
    runs = [race(case, system(name, case), at=at).answers for name in ("fogline", "DD+skyline")]
    same(*runs)


@pytest.mark.parametrize("rules", ["DD", "DD-literal", "DD-held-out", "DD-context"])
def test_imputing_by_the_same_rules_everyone_gives_the_same_answers_on_sensor_streams(folder, rules):
    case = real("intel", folder, replace(SMALL, wishes=True, xi=0.5))
    at = range(case.length)
    runs = [race(case, system(name, case), at=at).answers for name in (f"fogline:{rules}", f"{rules}+skyline")]
    same(*runs)


@pytest.mark.parametrize("kind", KINDS)
def test_the_papers_own_system_corrected_has_the_same_answers(kind):
    case = synthetic(kind, Settings(window=200, theta=10, history=4_000, ticks=10, xi=0.5))
    at = range(case.length)
    paper, other = (race(case, system(name, case), at=at) for name in ("paper", "DD-literal+skyline"))
    for k in at:
        assert np.array_equal(paper.answers[k].id, other.answers[k].id)
        assert (paper.answers[k].probability <= other.answers[k].probability + 1e-9).all(), "lower bounds, or exact"
    assert paper.sizes["spatial"] > 0


def test_the_papers_own_system_takes_rules_that_were_discovered_and_attributes_of_which_less_is_better(folder):
    case = real("intel", folder, replace(SMALL, window=100, theta=10, ticks=5, wishes=True))
    at = range(case.length)
    paper, other = (race(case, system(name, case), at=at) for name in ("paper", "DD-literal+skyline"))
    assert all(np.array_equal(paper.answers[k].id, other.answers[k].id) for k in at)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_of_R_imputes_like_the_repository_and_a_window_that_was_filled_without_answers_answers_alike(kind):
    case = synthetic(kind, Settings(window=150, theta=10, history=3_000, ticks=6, xi=0.5))
    at = range(case.full, case.length)
    runs = [race(case, system(name, case), at=at).answers for name in ("DD+live", "DD-scan+live")]
    same(*runs)
    for name in ("DD+skyline_tree", "paper"):
        one, other = system(name, case), system(name, case)
        assert isinstance(other, Pair | PaperSystem)
        for k, rows in case.ticks():
            answer = one.advance(k, rows)
            if k < case.full:
                other.fill(k, rows)
            else:
                again = other.advance(k, rows)
                assert answer.id.tolist() == again.id.tolist() == runs[0][k].id.tolist()


def test_a_race_times_imputing_however_a_group_asks_for_it(copies, monkeypatch):
    """Groups ask for distributions by `fill_sharing`, while they judge: seconds of imputing, and not of the query."""
    runner = system("fogline", copies)
    assert isinstance(runner, Fogline)
    inside, asked = Chain.fill, list[float]()

    def slowly(*args: Any, **kwargs: Any) -> Any:
        asked.append(0.02)
        time.sleep(0.02)
        return inside(*args, **kwargs)

    monkeypatch.setattr(Chain, "fill", slowly)
    for k, rows in copies.ticks(0, 6):
        before = len(asked)
        runner.advance(k, rows)
        assert runner.spent.imputation >= sum(asked[before:])
        assert runner.spent.query < 0.02 or len(asked) == before
    assert asked


def test_imputing_single_values_moocore_gives_the_same_answers_too(motes):
    at = range(motes.length)
    for one in ("mean", "last", "con"):
        runs = [race(motes, system(f"{one}+{two}", motes), at=at).answers for two in ("moocore", *EXACT)]
        for other in runs[1:]:
            same(runs[0], other)


def test_the_parts_that_are_raced_give_the_answers_and_counts_of_a_monitor():
    case = synthetic("anti", Settings(window=900, history=20_000, ticks=10, xi=0.5))
    parts, monitor = system("fogline", case), fl.Monitor(case.query, repository_of("fogline", case))
    for k, rows in case.ticks():
        answer = parts.advance(k, rows)
        monitor.advance(k, rows)
        expected = monitor.answer().sort_by(case.query.id)
        assert answer.id.tolist() == expected[case.query.id].to_pylist()
        assert answer.probability.tolist() == expected["probability"].to_pylist()
    sizes, stats = parts.sizes(), monitor.stats()
    assert sizes == {name: stats[name] for name in sizes}
    assert 0 < sizes["imputed"] < sizes["incomplete"]


def test_a_race_warms_up_and_then_measures_each_tick(motes):
    run = race(motes, system("mean+skyline", motes), ticks=5, at=[motes.full + 2, 10_000])
    assert run.tick.tolist() == list(range(motes.full, motes.full + 5))
    assert list(run.answers) == [motes.full + 2]
    assert len(run.total) == 5
    assert (run.imputation > 0).all()
    assert (run.maintenance > 0).all()
    assert (run.query > 0).all()
    assert race(motes, system("fogline", motes), warm=3, ticks=4).tick.tolist() == [3, 4, 5, 6]


def test_at_the_last_tick_of_filling_the_window_holds_as_many_rows_as_asked(motes):
    run = race(motes, system("mean+moocore", motes), ticks=1)
    assert run.sizes["kept"] == motes.settings.window


def test_every_rival_of_the_paper_runs(copies):
    for name in RIVALS:
        assert race(copies, system(name, copies), warm=2, ticks=2, at=[3]).answers[3].id.size


def test_a_system_that_is_none_is_refused_in_words(motes):
    with pytest.raises(LabError, match="DD\\+skyline"):
        system("DD", motes)
    with pytest.raises(LabError, match="after the colon"):
        system("fogline:mean", motes)
    with pytest.raises(LabError, match="printed"):
        system("paper:literal", motes)


# --- Truth and accuracy -----------------------------------------------------------------------------------------------


def test_the_truth_is_the_skyline_of_the_windows_complete_rows(folder):
    case = real("intel", folder, replace(SMALL, wishes=True, nulls=True))
    at = [0, case.full, case.length - 1]
    for k, true in truth_answers(case, at).items():
        rows = np.arange(max(0, k + 1 - case.settings.lifetime) * 15, (k + 1) * 15)
        rows = rows[case.certain[rows]]
        window = [
            dict(zip((case.query.id, case.query.time, *case.query.names), (r, 0, *case.truth[r]), strict=True))
            for r in rows.tolist()
        ]
        assert true.tolist() == sorted(fl.skyline(window, case.query)[case.query.id].to_pylist())


def test_without_gaps_every_answer_is_the_truth(folder):
    case = real("intel", folder, replace(SMALL, xi=0.0))
    at = range(case.full, case.length, 5)
    truth = truth_answers(case, at)
    for name in ("fogline", "mean+moocore"):
        assert {one.f for one in accuracies(case, race(case, system(name, case), at=at).answers, truth).values()} == {
            1.0
        }


def test_accuracy_counts_hits_and_leaves_out_rows_without_a_truth(folder):
    case = real("intel", folder, replace(SMALL, nulls=True))
    known, unknown = np.flatnonzero(case.certain)[:6], np.flatnonzero(~case.certain)[:2]
    answered = np.sort(np.concatenate((known[:4], unknown)))
    judged = accuracy_of(case, TickAnswer(answered, np.ones(len(answered))), known[1:6])
    assert (judged.precision, judged.recall, judged.answered, judged.true) == (3 / 4, 3 / 5, 4, 5)
    assert judged.f == pytest.approx(2 * 0.75 * 0.6 / 1.35)
    assert judged.lost_incomplete == case.incomplete[known[4:6]].sum()
    assert judged.wrong_incomplete == case.incomplete[np.setdiff1d(answered[case.certain[answered]], known[1:6])].sum()


def test_an_empty_answer_is_right_when_nothing_is_true_and_wrong_otherwise(motes):
    none = TickAnswer(np.empty(0, np.int64), np.empty(0))
    assert accuracy_of(motes, none, none.id).f == 1.0
    assert accuracy_of(motes, none, np.array([3])).f == 0.0


def test_calibration_pairs_every_answered_probability_with_what_was_true(motes):
    answer = TickAnswer(np.array([1, 2, 5]), np.array([0.6, 0.7, 1.0]))
    assert pairs(motes, answer, np.array([2, 5, 8])).tolist() == [[0.6, 0.0, 1.0], [0.7, 1.0, 2.0], [1.0, 1.0, 5.0]]
