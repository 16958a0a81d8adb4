"""Does a monitor know how well it imputes?"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fogline as fl
from fogline.errors import FoglineError
from fogline.impute import scoring
from fogline.impute.row import Whole
from fogline.impute.scores import Score, Sum, Sums, add, by_age, from_plain, listed, to_plain, wrongly_sure
from fogline.impute.scoring import chosen
from fogline.kernels.score import central, crps
from fogline.repository.repository import Repository
from tests.walks import NAMES, QUERY, walks


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


def watched(repository: Repository, stream: pa.Table, monitor: fl.Monitor | None = None) -> fl.Monitor:
    monitor = monitor or fl.Monitor(QUERY, repository)
    for t in np.unique(stream["t"].to_numpy()).tolist():
        monitor.advance(t, stream.filter(pa.compute.equal(stream["t"], t)))
    return monitor


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=1, max_size=6, unique_by=lambda p: p[0]),
       st.integers(-9, 9))  # fmt: skip
def test_the_error_is_the_mean_distance_less_half_the_mean_distance_among_themselves(pairs, truth):
    value, often = (np.array(column, float) for column in zip(*sorted(pairs), strict=True))
    draws = np.repeat(value, often.astype(int))
    expected = np.abs(draws - truth).mean() - np.abs(draws[:, None] - draws[None]).mean() / 2
    start, size = np.zeros(1, np.int64), np.array([len(value)])
    assert crps(start, size, value, often, np.array([float(truth)]))[0] == pytest.approx(expected, abs=1e-9)
    assert Whole([value], [often]).crps(0, truth) == pytest.approx(expected, abs=1e-9)


def test_about_one_row_in_a_hundred_is_chosen_and_never_a_gap():
    rng = np.random.default_rng(1)
    time, values = np.arange(50_000.0), rng.random((50_000, 3))
    values[rng.random(values.shape) < 0.3] = np.nan
    found = chosen(time, values)
    rows = found.row[found.sure]
    which = found.attribute[rows]
    assert 0.5 < len(rows) / (50_000 / scoring.SHARE * 0.7) < 1.5
    assert not np.isnan(values[rows, which]).any()
    assert np.bincount(which, minlength=3).min() > 0.7 * len(rows) / 3
    again = chosen(time[100:], values[100:])  # whatever the cut
    later = found.row >= 100
    np.testing.assert_array_equal(again.attribute, found.attribute[100:])
    for name in ("row", "run", "together", "sure"):
        part = getattr(again, name) + (100 if name == "row" else 0)
        np.testing.assert_array_equal(part, getattr(found, name)[later])


def test_every_second_of_these_hides_a_run_of_one_to_four_every_other_time_with_all_attributes():
    rng = np.random.default_rng(1)
    found = chosen(np.arange(200_000.0), rng.random((200_000, 3)))
    run, together = found.run[found.sure], found.together[found.sure]
    often = np.bincount(run) / len(run)
    assert len(often) == 5
    assert often[0] == pytest.approx(0.5, abs=0.05)
    assert often[1:] == pytest.approx(np.full(4, 0.125), abs=0.03)
    assert together[run > 0].mean() == pytest.approx(0.5, abs=0.06)
    others = ~found.sure
    assert others.mean() == pytest.approx(1 - 1 / (128 / 8), abs=0.05)
    assert not found.run[others].any()


@pytest.fixture
def often(monkeypatch):
    """Every row is asked for a value."""
    monkeypatch.setattr(scoring, "SHARE", 1)


@pytest.mark.usefixtures("often")
def test_scores_show_which_rule_imputed_and_how_well():
    monitor = watched(learnt(), walks(steps=100, begin=200, gaps=0.1))
    scores = {each.attribute: each for each in monitor.scores()}
    assert set(scores) == set(NAMES)
    for each in scores.values():
        assert each.rule == "sensor's own past"
        assert each.cells > 50
        assert 0.5 < each.inside <= 1
        assert each.error < each.otherwise
        assert each.fitted is not None
        assert not each.worse
        assert not each.drifts
    assert monitor.stats()["scored"] == sum(each.cells for each in scores.values())
    assert monitor.stats()["doubtful"] == 0
    again = fl.Monitor.restore(QUERY, monitor.snapshot(), learnt())
    assert again.scores() == monitor.scores()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("query", [QUERY, replace(QUERY, by=("half",)), replace(QUERY, lifetime=None, latest=True)])
@pytest.mark.parametrize("how", [{}, {"exact_limit": 64}, {"eager": True}, {"remember": False}])
def test_what_was_counted_and_scored_is_there_after_a_restore(query, how):
    def halves(rows):
        return rows.append_column("half", pa.array([f"{t // 20}" for t in rows["t"].to_pylist()]))  # groups end

    known = Repository.fit(halves(walks()), query)
    monitor = fl.Monitor(query, known, **how)
    for begin in (200, 225):
        monitor.advance(begin + 24, halves(walks(steps=25, begin=begin, gaps=0.3)))
        remember = how.get("remember", True)
        again = fl.Monitor.restore(query, monitor.snapshot(), known, remember=remember)
        assert again.stats() == monitor.stats()
        assert again.scores() == monitor.scores()
        assert again.scores_by_age() == monitor.scores_by_age()
        assert (monitor.stats()["scored"] > 0) is remember
        assert monitor.stats()["evaluations"] > 0


def test_a_monitor_that_imputes_at_once_does_so_after_a_restore():
    known = learnt()
    one = fl.Monitor(QUERY, known, eager=True)
    one.advance(209, walks(steps=10, begin=200, gaps=0.3))
    other = fl.Monitor.restore(QUERY, one.snapshot(), known)
    for each in (one, other):
        each.advance(214, walks(steps=5, begin=210, gaps=0.3))
    assert one.stats()["imputed"] == other.stats()["imputed"]


@pytest.mark.usefixtures("often")
def test_scoring_changes_no_answer(monkeypatch):
    stream = walks(steps=30, begin=200, gaps=0.2)
    scored = watched(learnt(), stream).answer()
    monkeypatch.setattr(scoring, "SHARE", 10**18)
    monkeypatch.setattr(scoring, "AFTER_SILENCE", 10**18)
    silent = watched(learnt(), stream)
    assert silent.scores() == []
    assert silent.answer().equals(scored)


@pytest.mark.usefixtures("often")
def test_a_stream_that_behaves_otherwise_is_noticed():
    rng = np.random.default_rng(5)
    stream = walks(steps=100, begin=200)
    for name in NAMES:
        noise = pa.array(np.round(rng.normal(0, 40, stream.num_rows), 1))
        stream = stream.set_column(stream.schema.get_field_index(name), name, noise)
    monitor = watched(learnt(), stream)
    assert all(each.drifts for each in monitor.scores())
    assert all(each.inside < 0.6 for each in monitor.scores())
    assert monitor.stats()["doubtful"] == 3


@pytest.mark.usefixtures("often")
def test_rules_are_scored_beside_the_whole_history():
    repository = Repository.fit(walks(), QUERY, rules=["damp(0.5) -> heat(5)"])
    scores = {(each.attribute, each.rule): each for each in watched(repository, walks(steps=60, begin=200)).scores()}
    assert ("heat", "damp(0.5) -> heat(5)") in scores
    whole = scores["light", "whole history"]
    assert whole.error == whole.otherwise


@pytest.mark.usefixtures("often")
def test_what_moves_while_it_is_silent_shows_in_the_scores_of_old_values_while_those_of_fresh_ones_stay_good():
    stream = with_silences(walks(steps=100, begin=200))
    monitor = watched(learnt(), stream)
    heat = [each for each in monitor.scores_by_age() if each.attribute == "heat"]
    assert [each.ages for each in heat] == ["0.25 to 1", "1 to 4", "4 to 16", "16 to 64"]
    fresh, *_, old = (each.central or 0.0 for each in heat)
    assert fresh > 0.75
    assert old < 0.3
    assert not heat[0].wrongly_sure
    assert sum(each.cells for each in heat) == {s.attribute: s for s in monitor.scores()}["heat"].cells
    assert not any(each.drifts for each in monitor.scores() if each.attribute == "heat")


def with_silences(table: pa.Table) -> pa.Table:
    """Every ten readings all sensors are silent for forty, and then everything is elsewhere."""
    turn = (table["t"].to_numpy() - 200) // 10
    columns = {name: table[name].to_numpy() + 9 * np.where(turn % 2, turn, 0) for name in NAMES}
    return pa.table({"sensor": table["sensor"], "t": table["t"].to_numpy() + 40 * turn, **columns})


def test_where_too_few_truths_are_central_a_line_names_the_ages():
    many, few = Sum(200, 2.0, 3.0, 100, 40, 1, 2.0), Sum(9, 2.0, 3.0, 1, 1, 1, 2.0)
    good = Sum(500, 2.0, 3.0, 500, 450, 1, 2.0)
    sums: Sums = {("a", "r", "5 min"): good, ("a", "r", "6 h"): many, ("a", "r", "2 h"): many, ("b", "r", "2 h"): few}
    assert wrongly_sure(by_age(sums)) == [
        "a: 'r' is wrongly sure; of the truths 20% (1 h to 2 h), 20% (2 h to 6 h) lie in its central 80 %, by the age "
        "of the last value."
    ]


@pytest.mark.usefixtures("often")
def test_scores_do_not_depend_on_the_cut_into_batches(monkeypatch):
    monkeypatch.setattr(scoring, "MOST_HIDDEN", 1000)
    stream = with_silences(walks(steps=30, begin=200, gaps=0.2))
    at_once = fl.Monitor(QUERY, learnt())
    at_once.advance(1000, stream)
    by_tick = watched(learnt(), stream)
    assert at_once.scores_by_age() == by_tick.scores_by_age()
    assert at_once.scores() == by_tick.scores()
    assert len({each.age for each in by_tick.scores_by_age()}) >= 4


@pytest.mark.usefixtures("often")
def test_where_the_clock_shows_timestamps_ages_are_named_in_minutes_and_hours():
    query = fl.Query(attributes={"heat": "max"}, id="sensor", time="t", lifetime="1 hour")
    at = [datetime(2024, 5, 1) + timedelta(minutes=m) for m in (*range(0, 60, 2), *range(200, 230, 2))]
    rows = [{"sensor": name, "t": t, "heat": float(len(name))} for t in at for name in ("a", "bb", "ccc")]
    repository = Repository.fit(rows, query, method="last")
    monitor = fl.Monitor(query, repository)
    for t in at:
        later = [row | {"t": t + timedelta(days=1), "heat": 5.0 + (t > at[29])} for row in rows if row["t"] == t]
        monitor.advance(t + timedelta(days=1), later)
    found = {each.age: (each.rule, each.ages, each.central) for each in monitor.scores_by_age()}
    assert found["5 min"] == ("last value", "up to 5 min", 1.0)
    assert found["6 h"] == ("last value", "2 h to 6 h", 0.0)
    assert found["1 day"][1:] == ("6 h to 1 day", 0.0)  # the history was 20 hours ago
    assert list(found) == ["5 min", "30 min", "6 h", "1 day"]


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 9)), min_size=1, max_size=6, unique_by=lambda p: p[0]),
       st.integers(-9, 9))  # fmt: skip
def test_the_central_part_reaches_from_the_10_to_the_90_percent_point(pairs, truth):
    value, often = (np.array(column, float) for column in zip(*sorted(pairs), strict=True))
    total = Fraction(int(often.sum()))
    reached = [Fraction(int(each)) / total for each in np.cumsum(often)]
    low, high = (next(v for v, r in zip(value, reached, strict=True) if r >= Fraction(k, 10)) for k in (1, 9))
    start, size = np.zeros(1, np.int64), np.array([len(value)])
    assert central(start, size, value, often, np.array([float(truth)]), 0.8)[0] == (low <= truth <= high)


def test_worse_and_drift_need_enough_cells():
    few, many = (Score("a", "r", n, 2.0, 1.0, 0.5, 1.0, 0.5, None, n, 2.0) for n in (10, 1000))
    assert not few.worse
    assert not few.drifts
    assert not few.wrongly_sure
    assert many.worse
    assert many.drifts
    assert many.wrongly_sure


def test_drift_is_that_of_cells_that_were_hidden_alone_since_runs_are_harder():
    run = Score("a", "r", 1000, 5.0, 6.0, 0.5, 1.0, 0.7, None, 500, 1.2)
    assert not run.drifts


def test_sums_add_up_and_travel():
    sums: Sums = {("a", "r", 4.0): Sum(1, 2.0, 3.0, 1, 1, 1, 2.0)}
    add(sums, {("a", "r", 4.0): Sum(2, 1.0, 1.0, 0, 0, 0, 0.0), ("a", "r", "unknown"): Sum(1, 0.5, 0.5, 1, 0, 1, 0.5)})
    assert sums == {("a", "r", 4.0): (3, 3.0, 4.0, 1, 1, 1, 2.0), ("a", "r", "unknown"): (1, 0.5, 0.5, 1, 0, 1, 0.5)}
    assert from_plain(json.loads(json.dumps(to_plain(sums)))) == sums
    [total] = listed(sums, None)
    assert (total.cells, total.error, total.inside, total.central, total.singles, total.age) == (
        4, 3.5 / 4, 0.5, 0.25, 2, None,
    )  # fmt: skip


def test_scores_that_were_not_kept_by_age_are_refused_by_name():
    with pytest.raises(FoglineError, match="another version of Fogline"):
        from_plain([["a", "r", 1, 2.0, 3.0, 1]])
