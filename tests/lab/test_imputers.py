"""Does every imputer fill what is missing, from R and the past alone?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.arrays import empty_clouds
from fogline.lab.case import LabError, matrix
from fogline.lab.imputers import IMPUTERS, fitted, imputer, once
from fogline.lab.imputers.con import Con, likeliest
from fogline.lab.imputers.knn import Knn
from fogline.lab.imputers.ours import Ours
from fogline.lab.imputers.plain import Last
from fogline.lab.imputers.protocol import Cells, fill, points

QUERY = fl.Query(attributes={"a": "max", "b": "min"}, id="row", time="tick", lifetime=5)


@pytest.fixture(params=["motes", "copies"])
def case(request):
    return request.getfixturevalue(request.param)


def imputed(case, name, rows=None, ticks=8):
    """The cells of the first ticks."""
    made, rows, theta = imputer(name, case), case.rows if rows is None else rows, case.settings.theta
    return [made.impute(rows.slice(k * theta, theta)) for k in range(ticks)]


@pytest.mark.parametrize("name", IMPUTERS)
def test_every_gap_gets_finite_values_with_positive_weights(case, name):
    for k, cells in enumerate(imputed(case, name)):
        theta = case.settings.theta
        got = np.zeros((theta, len(case.query.names)), np.int64)
        np.add.at(got, (cells.row, cells.attribute), 1)
        assert np.array_equal(got, case.gaps[k * theta : (k + 1) * theta])
        assert (np.diff(cells.offset) > 0).all()
        assert cells.offset[-1] == len(cells.value) == len(cells.weight)
        assert np.isfinite(cells.value).all()
        assert (cells.weight > 0).all()
        assert np.isfinite(cells.weight).all()


@pytest.mark.parametrize("name", IMPUTERS)
def test_what_comes_later_changes_nothing(case, name):
    theta = case.settings.theta
    early = 5 * theta + theta // 2  # in the middle of a tick
    later = case.rows
    for j, attribute in enumerate(case.query.names):
        values = matrix(case.rows, (attribute,))[:, 0]
        values[early:] = values[early:] * 0.5 + 3.0
        later = later.set_column(
            later.schema.get_field_index(attribute), attribute, pa.array(values, mask=case.gaps[:, j])
        )
    for k, (one, two) in enumerate(zip(imputed(case, name), imputed(case, name, later), strict=True)):
        if k > 5:
            break
        same = np.flatnonzero(one.row + k * theta < early)
        for cell in same:
            assert np.array_equal(
                one.value[slice(*one.offset[cell : cell + 2])], two.value[slice(*two.offset[cell : cell + 2])]
            )


@pytest.mark.parametrize("name", [name for name in IMPUTERS if name not in ("mean", "last", "con")])
def test_imputers_that_look_at_the_row_come_closer_than_the_mean(copies, name):
    def error(who):
        off = []
        for k, cells in enumerate(imputed(copies, who)):
            mean = np.add.reduceat(cells.value * cells.weight, cells.offset[:-1])
            mean /= np.add.reduceat(cells.weight, cells.offset[:-1])
            off.append(np.abs(mean - copies.truth[cells.row + k * copies.settings.theta, cells.attribute]))
        return np.concatenate(off).mean()

    assert error(name) < 0.75 * error("mean")


@pytest.mark.parametrize("name", ["last", "con", "DD-context"])
def test_imputers_that_know_the_sensor_come_closer_than_the_mean_on_slow_waves(motes, name):
    def error(who):
        made, off = imputer(who, motes), []
        for k, rows in motes.ticks():
            cells = made.impute(rows)
            first = cells.value[cells.offset[:-1]]
            off.append(np.abs(first - motes.truth[cells.row + k * motes.settings.theta, cells.attribute]))
        return np.concatenate(off).mean()

    assert error(name) < 0.5 * error("mean")


# --- One by one -------------------------------------------------------------------------------------------------------


def table(sensor, at, a, b):
    return pa.table(
        {
            "sensor": sensor,
            "at": pa.array(at, pa.float64()),
            "a": pa.array(a, pa.float64()),
            "b": pa.array(b, pa.float64()),
        }
    )


def test_last_repeats_the_sensors_previous_value_of_the_attribute_also_from_before_the_stream():
    made = Last()
    made.fit(table(["x", "y", "x"], [1, 2, 9], [1, 2, 3], [4, 5, 9]), QUERY)
    cells = made.impute(
        table(["x", "y", "z", "x", "x"], [5, 5, 6, 7, 8], [None, None, None, 8, None], [7, 1, 2, None, 3])
    )
    assert list(zip(cells.row, cells.attribute, cells.value, strict=True)) == [
        (0, 0, 1),
        (1, 0, 2),
        (2, 0, 2),
        (3, 1, 7),
        (4, 0, 8),
    ]


def test_con_goes_on_at_the_likeliest_speed_and_stands_still_after_a_long_silence():
    made, at = Con(), np.arange(50.0)
    made.fit(table(["x"] * 50, at, at * 0.1, at * 0.0), QUERY)
    cells = made.impute(table(["x", "x"], [50.0, 90.0], [None, None], [1, 1]))
    assert cells.value == pytest.approx([4.9, 4.9])  # never beyond the range of R
    made.fit(table(["x"] * 50, at, 9 - at * 0.1, at * 0.0), QUERY)
    cells = made.impute(table(["x", "x"], [51.0, 90.0], [None, None], [1, 1]))
    assert cells.value == pytest.approx([4.1, 4.1])
    made.fit(table(["x"] * 50, at, np.r_[0.0:9.8:50j][::-1], at * 0.0), QUERY)
    past = table(["x"] * 2, [100.0, 101.0], [5.0, 4.8], [1, 1])
    made.impute(past)
    cells = made.impute(table(["x", "x"], [103.0, 120.0], [None, None], [1, 1]))
    assert cells.value == pytest.approx([4.4, 4.8])


def test_the_likeliest_speed_weighs_how_common_it_is_against_how_much_it_turns():
    speeds, turns = np.zeros((1, 3)), np.zeros((1, 5))
    speeds[0], turns[0] = [1, 9, 1], [1, 2, 20, 2, 1]
    assert likeliest(speeds, turns).tolist() == [[0, 0, 0]] or likeliest(speeds, turns)[0, 1] == 0
    turns[0] = [1, 1, 1000, 1, 1]
    assert likeliest(speeds, turns).tolist() == [[-1, 0, 1]]


def test_the_nearest_rows_are_the_donors():
    made = Knn(k=2)
    made.fit(pa.table({"a": [1.0, 2.0, 3.0, 9.0], "b": [10.0, 20.0, 30.0, 90.0]}), QUERY)
    cells = made.impute(pa.table({"a": pa.array([2.9, None]), "b": pa.array([None, 80.0])}))
    assert cells.value.tolist() == [30.0, 20.0, 9.0, 3.0]
    assert cells.offset.tolist() == [0, 2, 4]


def walk(count: int, seed: int) -> pa.Table:
    """One sensor that moves by small steps, and another attribute that says nothing."""
    rng = np.random.default_rng(seed)
    return table(["x"] * count, np.arange(count), rng.normal(0, 0.1, count).cumsum() + 50, rng.random(count))


def test_what_was_learnt_from_the_same_rows_is_not_learnt_again(monkeypatch):
    monkeypatch.setattr(once, "_kept", {})
    past, other = walk(300, 1), walk(300, 2)
    first = once.fit_once(past, QUERY)
    turned = fl.Query(attributes={"a": "min", "b": "min"}, id="row", time="tick", lifetime=9)
    assert once.fit_once(pa.concat_tables([past.slice(0, 100), past.slice(100)]), turned) is first
    assert once.fit_once(other, QUERY) is not first
    assert once.fit_once(past, QUERY) is first
    sensors = fl.Query(attributes=QUERY.attributes, id="sensor", time="at", lifetime=9)
    assert once.fit_once(past, sensors) is not first
    assert len(once._kept) == once.KEPT
    assert once.fit_once(past, QUERY) is first, "asked for later than the other"


def test_what_is_learnt_does_not_depend_on_which_way_is_better():
    made = [
        fl.Repository.fit(walk(2_000, 1), fl.Query(attributes={"a": a, "b": b}, id="sensor", time="at", lifetime=5))
        for a, b in (("max", "min"), ("min", "max"))
    ]
    assert made[0].sensors is not None
    assert made[0].fingerprint == made[1].fingerprint


def test_fogline_remembers_from_before_the_stream_alone_even_where_history_goes_on():
    past, later = walk(2_000, 1), walk(4_000, 1).slice(2_000)
    later = later.set_column(2, "a", pa.array(np.full(later.num_rows, 90.0)))
    now = table(["x", "x"], [1_999.2, 1_999.6], [None, None], [0.5, 0.5])
    made = Ours()
    made.fit(pa.concat_tables([past, later]), QUERY)
    assert made.imputer.sensors is not None
    cells = made.impute(now)
    last = past.column("a").to_numpy()[-1]
    assert np.median(cells.value) == pytest.approx(last, abs=0.5)


def test_cells_become_clouds_oriented_sorted_and_merged():
    clouds = empty_clouds(2, 2, 0)
    clouds.lo[:] = clouds.hi[:] = [[np.nan, 1.0], [2.0, np.nan]]
    cells = Cells(
        np.array([0, 1]), np.array([0, 1]), np.array([0, 1, 4]), np.array([7.0, 3, 5, 3]), np.array([1.0, 1, 2, 1])
    )
    filled = fill(clouds, cells, np.array([1.0, -1.0]))
    assert filled.lo.tolist() == [[7, 1], [2, -5]]
    assert filled.hi.tolist() == [[7, 1], [2, -3]]
    first = filled.start[1, 1]
    assert filled.value[first : first + 2].tolist() == [-5, -3]
    assert filled.weight[first : first + 2].tolist() == [0.5, 0.5]
    assert filled.start[0, 0] == -1


def test_points_are_lists_of_one():
    cells = points(np.array([[False, True], [False, False]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert cells.value.tolist() == [2.0]
    assert cells.offset.tolist() == [0, 1]


def test_an_unknown_imputer_gets_a_guess(copies):
    with pytest.raises(LabError, match="Did you mean 'last'"):
        fitted("lasst", copies)
