"""Is a gap known better once its sensor has spoken again, is age learnt from, and does the reach hold what may come?"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from fogline.arrays import Distributions, Floats
from fogline.kernels import explaining, forest
from fogline.kernels.score import crps
from fogline.kernels.sensors import AGE, LAST
from fogline.query import Query
from fogline.repository.history import read_history
from fogline.repository.repository import Repository
from fogline.repository.sensors import training as outages
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.state import SensorState
from fogline.repository.sensors.training import TrainingSet
from fogline.repository.sensors.transition import Lacking
from tests.walks import NAMES, QUERY, walks

FREE = -np.inf, np.inf


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


def sensors() -> SensorModel:
    found = learnt().sensors
    assert found is not None
    return found


class Stream:
    """Readings after the history: each row's context, what comes after it, and the truth."""

    def __init__(self, *, hidden: int = 1) -> None:
        table = walks(steps=100, begin=200)
        self.truth = np.stack([table.column(name).to_numpy() for name in NAMES], axis=1)
        code, time = table.column("sensor").to_pylist(), table.column("t").to_numpy().astype(float)
        number = {name: k for k, name in enumerate(sorted(set(code)))}
        sensor = np.array([number[each] for each in code])
        gone = (time % (2 * hidden) < hidden) & (time >= 200 + 2 * hidden)
        shown = self.truth.copy()
        shown[gone, 0] = np.nan
        context = SensorState(3).update([(each,) for each in code], time, shown, np.ones(len(time), np.bool_))
        after = explaining.noted(*explaining.follow(sensor, time, shown, len(number)), shown, 0)
        use = gone & ~np.isnan(after[:, 0, 0])
        self.truth, self.values, self.context, self.after = (x[use] for x in (self.truth, shown, context, after))


def errors(found: Distributions, truth: Floats) -> Floats:
    return np.asarray(crps(*found[:4], truth))


def asked(model: SensorModel, *known: Floats | None) -> Lacking:
    """Readings that lack heat: their values, contexts, and what came next."""
    return model.lacking("heat", *known)  # type: ignore[arg-type]


def test_two_sides_are_better_than_one():
    model, heat, rows = sensors(), sensors().transitions["heat"], Stream(hidden=3)
    assert model.hindsight
    blank = np.full_like(rows.values, np.nan)  # else damp, which moves as heat does, explains it all
    past = heat.distributions(asked(model, blank, rows.context, None), *FREE)
    both = heat.distributions(asked(model, blank, rows.context, rows.after), *FREE)
    assert errors(both, rows.truth[:, 0]).mean() < 0.9 * errors(past, rows.truth[:, 0]).mean()


def test_rows_whose_next_value_is_unknown_are_imputed_from_the_past():
    model, heat, rows = sensors(), sensors().transitions["heat"], Stream()
    some = rows.after.copy()
    some[::2] = np.nan
    mixed, past = (heat.distributions(asked(model, rows.values, rows.context, each), *FREE) for each in (some, None))
    both = heat.distributions(asked(model, rows.values, rows.context, rows.after), *FREE)
    for k in range(40):
        other = past if k % 2 == 0 else both
        one, two = (d.value[d.start[k] : d.start[k] + d.size[k]] for d in (mixed, other))
        np.testing.assert_array_equal(one, two)


def test_a_next_value_is_enough():
    model, heat, rows = sensors(), sensors().transitions["heat"], Stream()
    found = heat.distributions(asked(model, rows.values, np.full_like(rows.context, np.nan), rows.after), *FREE)
    far = np.abs(rows.truth[:, 0] - rows.after[:, 0, 0]).mean()
    assert errors(found, rows.truth[:, 0]).mean() < far


@pytest.mark.parametrize("both", [False, True])
def test_bounds_are_the_ends_and_the_reach_holds_them(both):
    model, heat, rows = sensors(), sensors().transitions["heat"], Stream(hidden=2)
    rows.context[:5, AGE] = 1e5  # far older than anything that was learnt
    after = rows.after if both else None
    found = heat.distributions(asked(model, rows.values, rows.context, after), -5.0, 8.0)
    low, high = heat.bounds(asked(model, rows.values, rows.context, after), -5.0, 8.0)
    np.testing.assert_array_equal(low, found.value[found.start])
    np.testing.assert_array_equal(high, found.value[found.start + found.size - 1])
    least, most = heat.reach(asked(model, rows.values, rows.context), -5.0, 8.0)
    lowest, highest = heat.rough_reach(asked(model, rows.values, rows.context), -5.0, 8.0)
    assert (lowest <= least).all()
    assert (most <= highest).all()
    if both:
        of = np.repeat(np.arange(len(found.size)), found.size)
        outside = (found.value < least[of]) | (found.value > most[of])
        assert (found.often * outside).sum() / found.often.sum() < 0.05
    else:
        assert (least <= low).all()
        assert (high <= most).all()


def test_what_is_imputed_grows_wider_with_age_until_it_is_the_whole_history():
    model, heat, rows = sensors(), sensors().transitions["heat"], Stream()
    widths = []
    for age in (1.0, 4.0, 16.0, 1e6):
        context = rows.context.copy()
        context[:, AGE] = age
        context[:, AGE + 1 :] = np.nan
        low, high = heat.bounds(asked(model, np.full_like(rows.values, np.nan), context, None), *FREE)
        widths.append((high - low).mean())
    assert widths == sorted(widths)
    assert widths[2] > 2 * widths[0]
    whole = np.quantile(learnt().history.columns["heat"].values, (0.1, 0.9))
    assert widths[3] == pytest.approx(whole[1] - whole[0], rel=0.1)


def test_outages_are_as_long_as_those_of_the_history_and_of_all_lengths():
    rng = np.random.default_rng(2)
    time, sensor = np.arange(1000.0), np.zeros(1000, np.int64)
    values = np.ones((1000, 2))
    for at in range(20, 980, 24):
        values[at : at + 6, 0] = np.nan
    found = outages.lengths(sensor, time, values)
    assert 0.4 < np.mean(found == 7.0) < 0.6  # from the last value before to the first one after
    assert found.max() > 100
    assert len(outages.lengths(np.arange(5), rng.random(5), np.ones((5, 1)))) == 0


def test_examples_in_outages_see_nothing_that_the_outage_hides():
    training = TrainingSet.of(read_history(walks(), QUERY), QUERY)
    assert training is not None
    some = training.outages
    age, later = some.context[:, :, AGE], some.after[:, :, 1]
    assert np.nanmax(age[some.hidden]) > 20  # readings come every 1
    assert np.nanmax(np.where(some.hidden, np.minimum(age, later), np.nan)) > 10
    alone = some.hidden.sum(axis=1) == 1
    assert np.isnan(some.shown[alone][some.hidden[alone]]).all()
    again = TrainingSet.of(read_history(walks(), QUERY), QUERY)
    assert again is not None
    np.testing.assert_array_equal(again.outages.truth, some.truth)


def test_trees_part_rows_that_differ_in_spread_alone():
    rng = np.random.default_rng(4)
    given = rng.random((2, 4000))
    then = rng.normal(0, 1, 4000) * np.where(given[0] > 0.5, 5.0, 0.1)
    feature, cut, child, kept = forest.grow(given, then, 20, 5)
    tree = forest.Forest(feature, cut, child, kept, np.zeros((1, 2), np.int64))
    out = forest.ask(tree, np.array([[0.2, 0.5], [0.9, 0.5]]))
    assert out[1, -1] - out[1, 0] > 5 * (out[0, -1] - out[0, 0])


def test_no_leaf_that_an_age_can_come_to_goes_beyond_what_is_stated():
    transition = sensors().transitions["heat"]
    edges, extremes = transition.extremes
    rng = np.random.default_rng(6)
    rows = rng.normal(0, 3, (500, 12))
    rows[:, explaining.OWN_AGE] = rng.uniform(edges[0] - 1, edges[-1] + 1, 500)
    changes = forest.ask(transition.before, rows)
    found = extremes[np.searchsorted(edges, rows[:, explaining.OWN_AGE])]
    assert (found[:, 0] <= changes[:, 0]).all()
    assert (changes[:, -1] <= found[:, 1]).all()


def test_hindsight_can_be_left_out_and_is_kept_on_disk(tmp_path):
    plain = Repository.fit(walks(), QUERY, hindsight=False)
    assert plain.sensors is not None
    assert not plain.sensors.hindsight
    assert plain.fingerprint != learnt().fingerprint
    assert plain.refit(walks(), QUERY).fingerprint == plain.fingerprint
    learnt().save(tmp_path / "repo")
    loaded, rows = Repository.load(tmp_path / "repo").sensors, Stream()
    assert loaded is not None
    assert loaded.hindsight
    one, two = (
        each.transitions["heat"].distributions(asked(each, rows.values, rows.context, rows.after), *FREE)
        for each in (sensors(), loaded)
    )
    np.testing.assert_array_equal(one.value, two.value)
    grown = learnt().append(walks(steps=3, begin=200), QUERY).sensors
    assert grown is not None
    assert grown.hindsight


def test_a_short_history_is_learnt_from():
    found = Repository.fit(walks(sensors=2, steps=120), QUERY).sensors
    assert found is not None
    assert all(each.error <= each.error_last for each in found.transitions.values())


def test_it_is_stated_by_what_is_imputed_and_where_little_is_learnt():
    good = {each.attribute: each for each in learnt().imputations()}
    assert set(good) == set(NAMES)
    heat = good["heat"]
    assert heat.imputer == "sensor's past, then hindsight"
    assert heat.note == ""
    assert heat.hindsight is not None
    assert heat.last is not None
    assert heat.hindsight < heat.error < heat.last < heat.mean
    rng = np.random.default_rng(1)
    noise = pa.table({"sensor": [f"r{k}" for k in range(500)], "t": np.arange(500.0), "a": rng.random(500)})
    query = Query(attributes={"a": "max"}, id="sensor", time="t", lifetime=5)
    [none] = Repository.fit(noise, query).imputations()
    assert none.imputer == "whole history"
    assert "little is learnt" in none.note
    assert "nothing is learnt from sensors' own readings" in none.note


def test_a_line_is_drawn_between_last_and_next():
    context = np.full((1, 1, 6), np.nan)
    context[0, 0, LAST], context[0, 0, AGE] = 10.0, 1.0
    after = np.array([[[20.0, 3.0]]])
    assert explaining.on_line(context, after, 0).tolist() == [12.5]


def test_a_revision_knows_the_reading_that_has_the_attribute_and_no_other():
    nan = np.nan
    values = np.array([[nan, 1.0], [nan, 2.0], [7.0, 3.0], [8.0, nan]])
    after, reading = explaining.follow(np.zeros(4, np.int64), np.array([0.0, 1.0, 3.0, 4.0]), values, 1)
    np.testing.assert_array_equal(reading, [[2, 1], [2, 2], [3, -1], [-1, -1]])
    known = explaining.noted(after, reading, values, 0)
    np.testing.assert_array_equal(known[0], [[7.0, 3.0], [3.0, 3.0]])  # not 2.0, which came before it
    np.testing.assert_array_equal(known[2], [[8.0, 1.0], [nan, nan]])


def test_lines_are_made_wider_about_their_middle():
    lines = np.array([[0.0, 2.0, 3.0], [0.0, 2.0, 3.0]])
    forest.widen(lines, np.array([1.0, 2.0]))
    assert lines.tolist() == [[0.0, 2.0, 3.0], [-2.0, 2.0, 4.0]]
