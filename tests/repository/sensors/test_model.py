"""Is a missing value imputed from the sensor's own past, and never from its future?"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.errors import HistoryError, RuleError, SnapshotError
from fogline.impute.chain import chain_of
from fogline.impute.fill import bounded
from fogline.intake.take import Intake
from fogline.kernels import forest
from fogline.kernels import sensors as memory
from fogline.repository.history import read_history
from fogline.repository.repository import Repository
from fogline.repository.rules import parse
from fogline.repository.sensors.state import READINGS, SensorState, sensor_names
from fogline.repository.sensors.training import TrainingSet
from fogline.repository.sensors.transition import grid_of
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader
from tests.walks import NAMES, QUERY, walks

# ---------------------------------------------------------------------------------------------------------- memory


def naive(readings, now, longest):
    """The context of a reading at `now`, from all (time, values) that came before it."""
    out = np.full((len(NAMES), memory.PARTS), np.nan)
    for j in range(len(NAMES)):
        kept: list[tuple[float, float]] = []
        for when, values in readings:
            if not np.isnan(values[j]) and all(when != other for other, _ in kept):
                kept = sorted([*kept, (when, values[j])], reverse=True)[:READINGS]
        seen = [(when, value) for when, value in kept if now - longest <= when < now]
        if seen:
            last = seen[0][1]
            out[j, memory.LAST], out[j, memory.AGE] = last, now - seen[0][0]
            for k, (_, value) in enumerate(seen[1:4]):
                out[j, memory.SECOND + k] = last - value
            weights = 0.8 ** np.arange(len(seen))
            out[j, memory.TIDE] = last - np.sum(weights * [value for _, value in seen]) / weights.sum()
    return out


cells = st.one_of(st.just(np.nan), st.integers(-3, 3).map(float))
calls = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.tuples(cells, cells, cells)), max_size=6), max_size=8
)


@given(calls, st.sampled_from([np.inf, 4.0, 11.0]))
@settings(max_examples=300, deadline=None)
def test_a_row_sees_what_is_older_than_itself_and_nothing_else(calls, longest):
    """For rows that are at most `longest` late: what they cannot see may be gone for later ones."""
    kept, newest = SensorState(len(NAMES), longest), -np.inf
    history_of: dict[int, list[tuple[float, tuple[float, ...]]]] = {}
    for rows in calls:
        values = np.array([row[2] for row in rows], float).reshape(-1, 3)
        time = np.array([row[1] for row in rows], float)
        found = kept.update([(row[0],) for row in rows], time, values, np.ones(len(rows), np.bool_))
        kept.check()
        for i in np.argsort(time, kind="stable").tolist():
            sensor = rows[i][0]
            expected = naive(history_of.setdefault(sensor, []), time[i], longest)
            if time[i] >= newest - longest:
                np.testing.assert_allclose(found[i].reshape(3, -1), expected, atol=1e-12)
            history_of[sensor].append((time[i], tuple(values[i])))
        newest = max(newest, time.max(initial=-np.inf))


def test_only_rows_that_ask_get_a_context_and_in_their_order():
    kept = SensorState(3)
    rows = np.arange(12, dtype=float).reshape(4, 3)
    kept.update([("a",), ("b",)], np.array([1.0, 1.0]), rows[:2], np.zeros(2, np.bool_))
    asked = np.array([True, False, True])
    found = kept.update([("b",), ("a",), ("a",)], np.array([5.0, 3.0, 2.0]), rows[[0, 1, 2]], asked)
    assert found[:, memory.LAST].tolist() == [3.0, 0.0]  # b's first reading, then a's first: the one at 3 is later
    assert found[:, memory.AGE].tolist() == [4.0, 1.0]


def test_a_state_grows_only_when_a_new_sensor_is_read():
    kept = SensorState(1)
    for size in (3, 4, 4, 4):
        kept.update(
            [(f"s{k}",) for k in range(size)], np.arange(float(size)), np.ones((size, 1)), np.zeros(size, np.bool_)
        )
    assert len(kept.times) == 4


def test_a_last_value_is_kept_however_long_the_attribute_is_silent():
    kept = SensorState(2)
    values = np.array([[1.0, 5.0], *([np.nan, float(k)] for k in range(50))])
    found = kept.update([("a",)] * 51, np.arange(51.0), values, np.arange(51) == 50)
    assert found[0, memory.LAST] == 1.0
    assert found[0, memory.AGE] == 50.0


# ---------------------------------------------------------------------------------------------------------- forest


@pytest.mark.parametrize(("gaps", "points"), [(1, 18), (2, 18), (3, 10), (4, 5), (10, 2)])
def test_rows_that_lack_much_have_fewer_values_per_cell(gaps, points):
    """Of 20 points the outermost two on either side fall together: an end stands for a tenth."""
    changes = np.sort(np.random.default_rng(1).random((3, 100)), axis=1)
    lack, anything = np.full(3, gaps), forest.ValueGrid(np.empty(0), 0.0, -np.inf, np.inf)
    start, size, value, _ = forest.spread(changes, np.zeros(3), lack, anything, forest.CUT)
    assert size.tolist() == [points] * 3
    least, most = forest.ends(changes, np.zeros(3), lack, anything, forest.CUT)
    assert value[start].tolist() == least.tolist()
    assert value[start + size - 1].tolist() == most.tolist()


def test_leaves_hold_rows_that_are_alike_and_a_seed_always_gives_the_same_tree():
    rng = np.random.default_rng(3)
    given_, then = rng.random((2, 2000)), np.zeros(2000)
    then[given_[0] > 0.5] = 1.0
    given_[1, ::7] = np.nan
    trees = [forest.grow(given_, then, 20, 5) for _ in range(2)]
    for one, two in zip(*trees, strict=True):
        np.testing.assert_array_equal(one, two)
    rows = np.array([[0.1, 0.5], [0.4, np.nan], [0.9, 0.5], [0.6, np.nan]])
    feature, cut, child, kept = trees[0]
    out = forest.ask(forest.Forest(feature, cut, child, kept, np.zeros((1, 2), np.int64)), rows)
    assert out.mean(axis=1).round().tolist() == [0, 0, 1, 1]
    assert np.bincount(feature[feature >= 0])[0] > 0


@given(st.lists(st.integers(0, 20), max_size=8), st.floats(0, 2), st.floats(-5, 25), st.floats(0, 3))
@settings(max_examples=300, deadline=None)
def test_the_nearest_known_value_is_taken_if_it_is_near_and_order_is_kept(values, step, x, more):
    grid = np.unique(np.array(values, float))
    got = forest.nearest(x, grid, step)
    near = grid[np.abs(grid - x) <= step]
    assert got == x if not len(near) else abs(got - x) == np.abs(near - x).min()
    assert forest.nearest(x + more, grid, step) >= got


def test_values_of_a_coarse_sensor_stay_on_its_scale():
    grid, step = grid_of(np.array([0.1, 0.2, 0.3, np.nan, 0.4]))
    assert forest.nearest(0.1 + 0.2, grid, step) == 0.3


# ---------------------------------------------------------------------------------------------------------- sensors


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


def test_transitions_are_found_where_sensors_are_read_again_and_only_there():
    sensors = learnt().sensors
    assert sensors is not None
    assert set(sensors.transitions) == set(NAMES)
    assert all(each.error < 0.9 * each.without for each in sensors.transitions.values())
    unnamed = walks().drop_columns(["sensor"])
    assert Repository.fit(unnamed, QUERY).sensors is None
    once = walks().set_column(0, "sensor", pa.array([f"r{k}" for k in range(2400)]))
    assert Repository.fit(once, QUERY).sensors is None
    assert Repository.fit(walks(), QUERY, retention=0).sensors is None
    assert Repository.fit(walks(), QUERY, method="paper").sensors is None
    assert Repository.fit(walks(), QUERY, rules=["damp(1) -> heat(1)"]).sensors is None


def test_a_rule_about_the_recent_past_finds_what_the_same_sensor_has_read():
    rule = "t(3), sensor, damp(1) -> heat(1)"
    repository = Repository.fit(walks(steps=5), QUERY, rules=[rule, "damp(1) -> heat(5)"])
    assert repository.rules == (parse("damp(1) -> heat(5)"),)
    rows = [
        {"sensor": "x", "t": 10, "heat": 1.0, "damp": 5.0, "light": 0.0},
        {"sensor": "x", "t": 11, "heat": 2.0, "damp": 8.0, "light": 0.0},  # too far off in damp
        {"sensor": "y", "t": 12, "heat": 9.0, "damp": 5.0, "light": 0.0},  # another sensor
        {"sensor": "x", "t": 12, "heat": None, "damp": 5.5, "light": 0.0},
        {"sensor": "x", "t": 13, "heat": 3.0, "damp": 6.0, "light": 0.0},
        {"sensor": "x", "t": 13.5, "heat": None, "damp": 5.5, "light": 0.0},  # the first is too old
        {"sensor": "x", "t": 30, "heat": None, "damp": 5.5, "light": 0.0},  # all are
    ]
    found = fl.impute.distributions(rows, QUERY, repository).to_pandas()
    recent = found[found["t"] < 20]
    assert recent["value"].tolist() == [1.0, 3.0]
    assert set(recent["rule"]) == {str(parse(rule))}
    assert set(found[found["t"] == 30]["rule"]) != {str(parse(rule))}
    monitor = fl.Monitor(QUERY, repository)
    monitor.advance(30, rows)
    monitor.check()


def test_a_rule_about_the_recent_past_survives_on_disk(tmp_path):
    made = Repository.fit(walks(steps=5), QUERY, rules=["t(3), sensor -> heat(1)"])
    made.save(tmp_path / "repo")
    again = Repository.load(tmp_path / "repo")
    assert again.sensors is not None
    assert again.sensors.recent == (parse("t(3), sensor -> heat(1)"),)
    assert again.fingerprint == made.fingerprint


@pytest.mark.parametrize("rule", ["t(3) -> heat(1)", "t(3), sensor, site -> heat(1)", "t(3), sensor(1) -> heat(1)"])
def test_a_rule_about_time_must_name_the_sensor(rule):
    with pytest.raises(RuleError, match="what the same sensor has read lately"):
        Repository.fit(walks(steps=5), QUERY, rules=[rule])


def test_distances_in_time_may_be_durations():
    assert parse("time(10 min), sensor -> heat(0.2)").given["time"] == 600e6
    with pytest.raises(RuleError, match="neither a number nor a duration"):
        parse("time(ten), sensor -> heat(0.2)")


def test_noise_has_no_transitions():
    rng = np.random.default_rng(8)
    table = walks()
    for name in NAMES:
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(rng.random(table.num_rows)))
    assert Repository.fit(table, QUERY).sensors is None


def test_hidden_readings_are_not_seen_by_their_own_context():
    past = TrainingSet.of(read_history(walks(), QUERY), QUERY)
    assert past is not None
    hidden = np.isnan(past.singles.shown)
    assert 0.08 < hidden.mean() < 0.12  # one of three cells in three of ten rows
    last = past.singles.context[:, :, memory.LAST]
    assert np.isin(last[~np.isnan(last)], past.singles.shown[~hidden]).all()


def test_a_gap_is_imputed_from_the_sensors_last_value(tmp_path):
    stream = walks(steps=100, gaps=0.1, begin=200)
    found = fl.impute.distributions(stream, QUERY, learnt()).to_pandas()
    assert (found["rule"] == "sensor's own past").all()
    truth = walks(steps=100, begin=200).to_pandas().set_index(["sensor", "t"])
    mean = (found["value"] * found["probability"]).groupby([found["sensor"], found["t"], found["attribute"]]).sum()
    heat = {(name, t): value for (name, t, attribute), value in mean.items() if attribute == "heat" and t > 200}
    off = [abs(value - truth.loc[key, "heat"]) for key, value in heat.items()]
    assert len(off) > 100
    moved = truth.sort_index().groupby("sensor").diff().abs()
    before = [moved.loc[key, "heat"] for key in heat]
    assert np.mean(off) < 0.6 * np.mean(before)  # damp moves the other way: that explains more than the value before
    learnt().save(tmp_path / "repo")
    again = fl.impute.distributions(stream, QUERY, Repository.load(tmp_path / "repo")).to_pandas()
    assert found.equals(again)
    assert Repository.load(tmp_path / "repo").fingerprint == learnt().fingerprint


def test_an_unknown_sensor_is_imputed_by_rules_or_the_whole_history():
    rows = [{"sensor": "new", "t": 500, "heat": None, "damp": 1.0, "light": 2.0}]
    assert set(fl.impute.distributions(rows, QUERY, learnt()).column("rule").to_pylist()) != {"sensor's own past"}
    rows.insert(0, {"sensor": "new", "t": 499, "heat": 3.0, "damp": 1.0, "light": 2.0})
    assert set(fl.impute.distributions(rows, QUERY, learnt()).column("rule").to_pylist()) == {"sensor's own past"}


def test_limits_hold_for_what_is_imputed():
    query = fl.Query(**{**QUERY.to_dict(), "limits": {"heat": (-1, 1)}})
    rows = [{"sensor": "s1", "t": 300, "heat": 50.0, "damp": 1.0, "light": 2.0}]  # outside: missing
    values = fl.impute.distributions(rows, query, Repository.fit(walks(), query)).column("value").to_pylist()
    assert min(values) >= -1
    assert max(values) <= 1


def test_more_history_moves_what_is_remembered():
    grown = learnt().append(walks(steps=3, begin=200), QUERY)
    assert grown.sensors is not None
    assert grown.sensors.times.max() == 202
    assert grown.fingerprint != learnt().fingerprint


# --------------------------------------------------------------------------------------------------------- monitor


@pytest.mark.parametrize("eager", [False, True])
def test_a_monitor_answers_the_same_whatever_the_cut_and_after_a_restart(eager):
    stream = walks(steps=30, gaps=0.2, begin=200)
    whole = fl.Monitor(QUERY, learnt())
    expected = whole.advance(229, stream).to_pylist()
    whole.check()
    parts = fl.Monitor(QUERY, learnt(), eager=eager)
    changes = []
    for t in range(200, 230):
        arrivals = stream.filter(pa.compute.equal(stream["t"], t))
        changes += parts.advance(t, arrivals).to_pylist()
        parts = fl.Monitor.restore(QUERY, parts.snapshot(), learnt()) if t % 3 == 0 and not eager else parts
        parts.check()
    parts_of = [(r["time"], r["sensor"], r["t"], r["change"], round(r["probability"] or 0, 9)) for r in changes]
    assert sorted(parts_of) == sorted(
        (r["time"], r["sensor"], r["t"], r["change"], round(r["probability"] or 0, 9)) for r in expected
    )


def test_with_transitions_the_answer_is_better_than_without():
    truth = fl.Monitor(QUERY)
    sensors, rules = fl.Monitor(QUERY, learnt()), fl.Monitor(QUERY, Repository.fit(walks(), QUERY, retention=0))
    right = {"sensors": 0, "rules": 0}
    for t in range(200, 260):
        true = names(truth, t, walks(steps=60, begin=200))
        for label, monitor in (("sensors", sensors), ("rules", rules)):
            right[label] += len(true ^ names(monitor, t, walks(steps=60, begin=200, gaps=0.15)))
    assert right["sensors"] < 0.6 * right["rules"]  # wrongly in or out, over all ticks


def names(monitor: fl.Monitor, t: int, stream: pa.Table) -> set[tuple[str, int]]:
    monitor.advance(t, stream.filter(pa.compute.equal(stream["t"], t)))
    answer = monitor.answer()
    return set(zip(answer["sensor"].to_pylist(), answer["t"].to_pylist(), strict=True))


# -------------------------------------------------------------------------------------- what users do to each other


def test_bounds_are_the_ends_of_what_is_filled_in_and_rough_ones_lie_beyond():
    query = fl.Query(**{**QUERY.to_dict(), "limits": {"damp": (-30, 30)}})
    chain = chain_of(Repository.fit(walks(), query), query)
    assert chain is not None
    intake = Intake(chain, eager=True, scoring=False)
    named = Reader(query).read(walks(steps=50, begin=200, gaps=0.3), Kinds())
    imputed, *_ = intake.take(named, None, sensor_names(named.id), [])
    filled, looked = imputed.uncertain, imputed._replace(uncertain=named.uncertain)
    exact, rough = (bounded(chain, looked, rough=each).uncertain for each in (False, True))
    np.testing.assert_array_equal(exact.lo, filled.lo)
    np.testing.assert_array_equal(exact.hi, filled.hi)
    assert (rough.lo <= filled.lo).all()
    assert (rough.hi >= filled.hi).all()


def test_what_imputes_otherwise_has_another_fingerprint():
    made = [Repository.fit(walks(), QUERY, method=method) for method in ("mean", "last", "paper")]
    made.append(Repository.fit(walks(), QUERY, rules=[]))
    assert len({each.fingerprint for each in made}) == 4


def test_rows_are_appended_only_as_they_were_fitted():
    other = fl.Query(**{**QUERY.to_dict(), "attributes": {"damp": "min", "heat": "max", "light": "max"}})
    with pytest.raises(HistoryError, match="in this order"):
        learnt().append(walks(steps=2, begin=200), other)
    mean = Repository.fit(walks(), QUERY, method="mean").append(walks(steps=2, begin=200), QUERY)
    assert mean.lattices["heat"].counts.sum() == walks().num_rows + 24
    last = Repository.fit(walks(), QUERY, method="last").append(walks(steps=2, begin=200), QUERY)
    assert last.sensors is not None
    assert not last.sensors.transitions
    assert last.sensors.times.max() == 201


@pytest.mark.parametrize("names", [list(range(12)), [str(k) for k in range(12)], [float(k) for k in range(12)]])
def test_a_sensor_is_the_same_as_a_number_and_as_a_text(names):
    history = walks().to_pandas()
    history["sensor"] = history["sensor"].str[1:].astype(int)
    row = {"sensor": names[3], "t": 200, "heat": None, "damp": 0.0, "light": 0.0}
    found = fl.impute.distributions([row], QUERY, Repository.fit(history, QUERY))
    assert set(found["rule"].to_pylist()) == {"sensor's own past"}


@pytest.mark.parametrize("text", ["2024-05-01T12:00:{:02}", "2024-05-01T12:00:{:02}Z", "{}"])
def test_times_may_be_texts(text):
    history = walks(steps=40, sensors=40).to_pandas()
    history["t"] = [text.format(t) for t in history["t"]]
    query = fl.Query(**{**QUERY.to_dict(), "lifetime": 12 if text == "{}" else "12 seconds"})
    assert Repository.fit(history, query).sensors is not None


def test_a_replay_of_the_history_does_not_know_its_end():
    replayed = walks(steps=40, gaps=0.2)
    found = fl.impute.distributions(replayed, QUERY, learnt()).to_pandas()
    later = found[found["t"] >= 8]
    assert (later["rule"] == "sensor's own past").mean() > 0.99


def test_the_last_value_will_do_where_history_knows_none():
    empty = pa.array([None] * walks().num_rows, pa.float64())
    history = walks().set_column(4, "light", empty)
    monitor = fl.Monitor(QUERY, Repository.fit(history, QUERY, method="last"))
    for t, light in ((200, 3.0), (201, None)):
        monitor.advance(t, [{"sensor": "s1", "t": t, "heat": 1.0 + t, "damp": 0.0, "light": light}])
    assert monitor.stats()["rejected"] == 0
    monitor.advance(202, [{"sensor": "new", "t": 202, "heat": 1.0, "damp": 0.0, "light": None}])
    assert [each.reason for each in monitor.rejects] == ["'light' is missing, and the repository has no value for it"]


def test_a_repository_that_names_sensors_otherwise_is_refused():
    apart = fl.Query(**{**QUERY.to_dict(), "by": ["site"]})
    with pytest.raises(HistoryError, match="knows sensors by sensor, t, and the query names them by site, sensor, t"):
        fl.Monitor(apart, learnt())


def test_groups_have_sensors_of_their_own():
    query = fl.Query(**{**QUERY.to_dict(), "by": ["site"]})
    history = walks().append_column("site", pa.array(["n", "m"] * (walks().num_rows // 2)))
    repository = Repository.fit(history, query)
    assert repository.sensors is not None
    assert len(repository.sensors.known_sensors) == 24
    rows = [
        {"site": site, "sensor": "x", "t": 200, "heat": h, "damp": 0.0, "light": 0.0}
        for site, h in (("n", 5.0), (None, 50.0))
    ]
    rows += [{**row, "t": 201, "heat": None} for row in rows]
    found = fl.impute.distributions(rows, query, repository).to_pandas()
    assert (found["rule"] == "sensor's own past").all()
    assert found[found["site"] == "n"]["value"].max() < 20 < found[found["site"].isna()]["value"].min()


def test_a_retention_is_of_the_clock_s_kind():
    with pytest.raises(HistoryError, match="both are numbers"):
        Repository.fit(walks(), QUERY, retention="1 hour")
    with pytest.raises(RuleError, match="retention is 0"):
        Repository.fit(walks(), QUERY, rules=["t(3), sensor -> heat(1)"], retention=0)


def test_a_snapshot_knows_whether_it_remembers():
    forgetful = fl.Monitor(QUERY, learnt(), remember=False)
    with pytest.raises(SnapshotError, match="did not remember"):
        fl.Monitor.restore(QUERY, forgetful.snapshot(), learnt())
    with pytest.raises(SnapshotError, match="that remembered"):
        fl.Monitor.restore(QUERY, fl.Monitor(QUERY, learnt()).snapshot(), learnt(), remember=False)


def test_learning_again_is_done_as_before():
    given_ = Repository.fit(walks(), QUERY, rules=["damp(1) -> heat(5)", "t(3), sensor -> light(1)"])
    more = given_.history.joined(read_history(walks(steps=3, begin=199), QUERY).like(given_.history))
    past = more.in_order(QUERY, 2000)
    assert past.rows == 2000
    assert np.unique(past.columns["t"].values, return_counts=True)[1][-1] == 12  # the step that was there twice
    again = given_.refit(past, QUERY)
    assert again.rules == given_.rules
    assert again.sensors is not None
    assert [str(rule) for rule in again.sensors.recent] == ["t(3), sensor -> light(1)"]
    assert Repository.fit(walks(), QUERY, method="mean").refit(past, QUERY).method == "mean"


def test_a_late_row_right_after_a_restart_leaves_newer_readings_alone():
    monitor = fl.Monitor(QUERY, learnt())
    for t in (200, 205):
        monitor.advance(t, walks(steps=1, begin=t))
    restored = fl.Monitor.restore(QUERY, monitor.snapshot(), learnt())
    late = {"sensor": "s1", "t": 203, "heat": 1.0, "damp": 0.0, "light": 0.0}
    kept = []
    for each in (monitor, restored):
        each.advance(206, [late])
        assert each.intake is not None
        assert each.intake.state is not None
        kept.append(each.intake.state.arrays())
    np.testing.assert_array_equal(kept[0][0], kept[1][0])
    assert kept[1][0].max() == 205
