"""Are gaps revised in the lab as a monitor revises them, and by nothing that comes later?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.arrays import Revisions, objects
from fogline.impute.protocol import Evidence, Hindsight
from fogline.kernels.sensors import AGE, LAST, PARTS
from fogline.rows.table import RowSource
from lab.case import AT, SENSOR, Settings, build
from lab.experiments import calibration, fscore
from lab.imputers.sensors import Between, default_chain
from lab.race import truth_answers
from lab.revising import REVISING, Remembering, Replay, replayed

SENSORS, TICKS, LIFETIME = 6, 700, 40


@pytest.fixture(scope="module")
def waves():
    """Every sensor is read once a tick, at the tick's own time: then a monitor can be run beside."""
    rng = np.random.default_rng(5)
    sensor, tick = np.tile(np.arange(SENSORS), TICKS), np.repeat(np.arange(TICKS), SENSORS)
    walk = np.cumsum(rng.normal(0, 1, (TICKS, SENSORS, 3)), axis=0).reshape(-1, 3)
    truth = np.round(walk + sensor[:, None], 1)
    cut = 600 * SENSORS
    extra = {SENSOR: pa.array(sensor.astype(str)), AT: pa.array(tick.astype(float))}
    names = dict.fromkeys("xyz", "max")
    past = pa.table({**{key: each.slice(0, cut) for key, each in extra.items()},
                     **{name: truth[:cut, j] for j, name in enumerate(names)}})  # fmt: skip
    settings = Settings(theta=SENSORS, window=LIFETIME * SENSORS, history=cut, xi=0.6, ticks=60)
    stream = {key: each.slice(cut) for key, each in extra.items()}
    return build("waves", settings, names, past, truth[cut:], stream)


def test_answers_are_those_of_a_monitor_at_every_tick(waves):
    chain = default_chain(waves.history, waves.query)
    assert chain.hindsight
    query = fl.Query(attributes=waves.query.attributes, id=SENSOR, time=AT, lifetime=LIFETIME)
    monitor = fl.Monitor(query, fl.Repository.fit(waves.history, query))
    replay = Replay(waves, REVISING["Fogline"](waves))
    uncertain = 0
    for k, rows in waves.ticks():
        now = rows.column(AT)[0].as_py()
        monitor.advance(now, rows.select([SENSOR, AT, *query.names]))
        answer = monitor.answer()
        given = zip(answer[AT].to_pylist(), answer[SENSOR].to_pylist(), strict=True)
        number = [int((at - 600) * SENSORS + int(id)) for at, id in given]
        expected = dict(zip(number, answer["probability"].to_pylist(), strict=True))
        found = replay.leap(k)
        assert dict(zip(found.id.tolist(), found.probability.tolist(), strict=True)) == pytest.approx(expected)
        uncertain += int(np.count_nonzero(found.probability < 1))
    assert uncertain > 50
    assert replay.revised.sum() > 100


@pytest.mark.parametrize("name", REVISING)
def test_an_answer_depends_on_what_had_come_by_then_and_not_on_how_far_was_leapt(waves, name):
    walked = replayed(waves, REVISING[name](waves), range(waves.length))
    stops = (20, 51, 80)
    leapt = replayed(waves, REVISING[name](waves), stops)
    k = stops[1]
    cut = replace(waves, rows=waves.rows.slice(0, (k + 1) * SENSORS), truth=waves.truth[: (k + 1) * SENSORS])
    for answers, at in ((leapt, stops), (replayed(cut, REVISING[name](cut), range(k + 1)), (k,))):
        for stop in at:
            assert np.array_equal(answers[stop].id, walked[stop].id)
            assert np.allclose(answers[stop].probability, walked[stop].probability)


def test_rivals_draw_a_line_or_take_the_nearer_side_once_the_sensor_is_read_again(waves):
    d, query = 3, waves.query
    context = np.full((4, d * PARTS + 2 * d), np.nan)
    by = context[:, : d * PARTS].reshape(4, d, PARTS)
    by[:3, :, LAST], by[:3, :, AGE] = 2.0, 30.0
    values = np.full((4, d), np.nan)
    rows = Evidence(values, np.isnan(values), RowSource(pa.table({"none": [None] * 4})), None, context)
    later = np.array([[4.0, np.nan, 5.0], [4.0, np.nan, 5.0], [np.nan] * 3, [4.0, np.nan, 5.0]])
    events = Revisions(
        objects([0, 1, 2, 3]), np.full(4, 100.0), np.array([110.0, 190.0, 110.0, 110.0]), ~np.isnan(later), later
    )
    means = [waves.history.column(name).to_numpy().mean() for name in "xyz"]
    for way, expected in (("linear", [3.5, 2.5, 2.0, 4.0]), ("nearest", [4.0, 2.0, 2.0, 4.0])):
        rival = Between(way, waves.history, query)
        assert isinstance(rival, Hindsight)
        known = rival.look(rows)
        assert rival.distributions(known, 0).value.tolist() == pytest.approx([2.0, 2.0, 2.0, means[0]])
        assert rival.open(known, 0).all()
        low, high = rival.reach(known, 0)
        assert (low < -100).all()
        assert (high > 100).all()
        after = rival.note(known, events)
        assert rival.distributions(after, 0).value.tolist() == expected
        assert rival.open(after, 0).tolist() == [False, False, True, False]
        assert [each[0] for each in rival.reach(after, 0)] == [expected[0], expected[0]]
        assert rival.distributions(after, 1).value.tolist() == pytest.approx([2.0, 2.0, 2.0, means[1]])
        assert np.array_equal(rival.first(after), known, equal_nan=True)
        again = rival.note(after, events._replace(values=later + 1))
        assert rival.distributions(again, 0).value.tolist() == expected  # the first reading counts


def test_rows_are_calibrated_apart_before_and_after_their_sensors_are_read_again(waves):
    stages = calibration.staged(waves)
    at = {stage: set(cases[:, 2].astype(int).tolist()) for stage, cases in stages.items()}
    assert at["revised"] <= at["all"]
    assert not waves.incomplete[list(at["all"] - at["revised"] - at["arrival"])].any()
    last = waves.length - 1
    newest = [row for row in at["arrival"] if row // SENSORS == last]
    assert newest  # of the last tick, no sensor has been read again
    assert all(waves.incomplete[row] for row in at["arrival"] | at["revised"])


def test_looking_at_both_sides_is_better_on_slow_walks(waves):
    rows = fscore.judged(waves, ["last", "linear", "Fogline", "Fogline-past"])
    f = {name: np.mean([row["f"] for row in rows if row["imputer"] == name]) for name in ("last", "linear", "Fogline")}
    assert f["linear"] > f["last"]


def test_without_sensors_nothing_is_revised(copies):
    begun = REVISING["Fogline"](copies)
    assert isinstance(begun, Remembering)
    assert begun.state is None
    at = [copies.full]
    assert np.array_equal(
        replayed(copies, begun, at)[copies.full].id, fscore.answers("Fogline-past", copies, at)[copies.full].id
    )


# --- What could still be gained ---------------------------------------------------------------------------------------


def test_beside_true_rows_a_row_is_judged_by_its_own_distribution(waves):
    replay, k = Replay(waves, REVISING["Fogline"](waves)), waves.full + 3
    replay.leap(k)
    window = np.arange(4 * SENSORS, (k + 1) * SENSORS)
    which = window[waves.incomplete[window]]
    skyline = truth_answers(waves, [k])[k]
    uncertain = replay.imputed(which, k)
    found = calibration.probabilities(uncertain, which, waves.truth, waves.gaps, window, skyline)
    for n, row in enumerate(which.tolist()):
        j = int(waves.gaps[row].argmax())
        value, weight = calibration._list(uncertain, n, j)
        assert weight.sum() == pytest.approx(1)
        others = waves.truth[window[window != row]]
        left = 0.0
        for x, w in zip(value.tolist(), weight.tolist(), strict=True):
            place = waves.truth[row].copy()
            place[j] = x
            left += w * (not ((others >= place).all(axis=1) & (others > place).any(axis=1)).any())
        assert found[n] == pytest.approx(left)
    assert np.count_nonzero((found > 0) & (found < 1)) > 0


def test_what_is_imputed_at_a_tick_is_what_the_live_set_holds(waves):
    replay, k = Replay(waves, REVISING["Fogline"](waves)), waves.full
    replay.leap(k)
    slots, held = replay.group.live.slots, replay.group.live.members()
    which = slots.id[held].astype(np.int64)
    with_gaps = waves.incomplete[which]
    uncertain = replay.imputed(which[with_gaps], k)
    for n, slot in enumerate(held[with_gaps].tolist()):
        j = int(waves.gaps[which[with_gaps][n]].argmax())
        for one, two in zip(
            calibration._list(uncertain, n, j), calibration._list(slots.uncertain, slot, j), strict=True
        ):
            assert np.allclose(one, two)
    assert with_gaps.sum() > 3


def test_knowing_more_is_at_least_as_good_on_average(waves):
    at = range(waves.full, waves.length, 5)
    lines = calibration.answered(waves, truth_answers(waves, at))
    mean = {line: np.mean([found[line] for found in lines.values()]) for line in calibration.LINES}
    assert set(lines) == set(at)
    assert mean["both"] >= mean["Fogline"]
    assert mean["own true"] >= mean["Fogline"]
