"""Does every imputer fill what is missing, from R and the past alone?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.arrays import Distributions, empty_rows
from fogline.impute.chain import Chain
from fogline.impute.protocol import Eager, listed, points
from lab.case import LabError, matrix
from lab.imputers import IMPUTERS, fittable, fitted, imputer
from lab.imputers.fittable import evidence_of, fill, gathered
from lab.imputers.rivals import Con, Knn, LastOfSensor, likeliest
from lab.imputers.sensors import FoglineDefault

OFTEN = np.array([[1.0, 1, 1], [1, 2, 1]])
QUERY = fl.Query(attributes={"a": "max", "b": "min"}, id="reading", time="tick", lifetime=5)


@pytest.fixture(params=["motes", "copies"])
def case(request):
    return request.getfixturevalue(request.param)


def cells(made, rows, names):
    """(row, attribute) -> (values, how often), of the gaps of these rows; other cells have none."""
    rows = evidence_of(rows, names)
    known, out = made.look(rows), {}
    for j in range(len(names)):
        found = made.distributions(known, j)
        assert np.array_equal(found.size > 0, rows.missing[:, j])
        for i in np.flatnonzero(rows.missing[:, j]):
            values = slice(found.start[i], found.start[i] + found.size[i])
            out[int(i), j] = found.value[values], found.often[values]
    return dict(sorted(out.items()))


def means(found):
    """The mean of each cell."""
    return np.array([np.average(value, weights=often) for value, often in found.values()])


def firsts(found):
    return [float(value[0]) for value, _ in found.values()]


def imputed(case, name, rows=None, ticks=8):
    """The cells of the first ticks."""
    made, rows, theta = imputer(name, case), case.rows if rows is None else rows, case.settings.theta
    return [cells(made, rows.slice(k * theta, theta), case.query.names) for k in range(ticks)]


def true_cells(case, found, k):
    """What these cells of tick k really were."""
    return np.array([case.truth[i + k * case.settings.theta, j] for i, j in found])


@pytest.mark.parametrize("name", IMPUTERS)
def test_every_gap_gets_finite_values_with_positive_weights(case, name):
    theta = case.settings.theta
    for k, found in enumerate(imputed(case, name)):
        assert list(found) == [tuple(cell) for cell in np.argwhere(case.gaps[k * theta : (k + 1) * theta]).tolist()]
        for value, often in found.values():
            assert np.isfinite(value).all()
            assert (np.diff(value) > 0).all()
            assert (often > 0).all()
            assert np.isfinite(often).all()


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
        for i, j in one:
            if i + k * theta < early:
                assert np.array_equal(one[i, j], two[i, j])


@pytest.mark.parametrize("name", [name for name in IMPUTERS if name not in ("mean", "last", "con")])
def test_imputers_that_look_at_the_row_come_closer_than_the_mean(copies, name):
    def error(who):
        ticks = enumerate(imputed(copies, who))
        return np.concatenate([np.abs(means(found) - true_cells(copies, found, k)) for k, found in ticks]).mean()

    assert error(name) < 0.75 * error("mean")


@pytest.mark.parametrize("name", ["last", "con", "DD-context"])
def test_imputers_that_know_the_sensor_come_closer_than_the_mean_on_slow_waves(motes, name):
    def error(who):
        made, off = imputer(who, motes), []
        for k, rows in motes.ticks():
            found = cells(made, rows, motes.query.names)
            off.append(np.abs(np.array(firsts(found)) - true_cells(motes, found, k)))
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
    made = LastOfSensor()
    made.fit(table(["x", "y", "x"], [1, 2, 9], [1, 2, 3], [4, 5, 9]), QUERY)
    rows = table(["x", "y", "z", "x", "x"], [5, 5, 6, 7, 8], [None, None, None, 8, None], [7, 1, 2, None, 3])
    found = cells(made, rows, QUERY.names)
    assert dict(zip(found, firsts(found), strict=True)) == {(0, 0): 1, (1, 0): 2, (2, 0): 2, (3, 1): 7, (4, 0): 8}


def test_con_goes_on_at_the_likeliest_speed_and_stands_still_after_a_long_silence():
    made, at = Con(), np.arange(50.0)

    def guessed(*times):
        return firsts(cells(made, table(["x", "x"], times, [None, None], [1, 1]), QUERY.names))

    made.fit(table(["x"] * 50, at, at * 0.1, at * 0.0), QUERY)
    assert guessed(50.0, 90.0) == pytest.approx([4.9, 4.9])  # never beyond the range of R
    made.fit(table(["x"] * 50, at, 9 - at * 0.1, at * 0.0), QUERY)
    assert guessed(51.0, 90.0) == pytest.approx([4.1, 4.1])
    made.fit(table(["x"] * 50, at, np.r_[0.0:9.8:50j][::-1], at * 0.0), QUERY)
    made.look(evidence_of(table(["x"] * 2, [100.0, 101.0], [5.0, 4.8], [1, 1]), QUERY.names))
    assert guessed(103.0, 120.0) == pytest.approx([4.4, 4.8])


def test_the_likeliest_speed_weighs_how_common_it_is_against_how_much_it_turns():
    speeds, turns = np.zeros((1, 3)), np.zeros((1, 5))
    speeds[0], turns[0] = [1, 9, 1], [1, 2, 20, 2, 1]
    assert likeliest(speeds, turns).tolist() == [[0, 0, 0]] or likeliest(speeds, turns)[0, 1] == 0
    turns[0] = [1, 1, 1000, 1, 1]
    assert likeliest(speeds, turns).tolist() == [[-1, 0, 1]]


def test_the_nearest_rows_are_the_donors():
    made = Knn(k=2)
    made.fit(pa.table({"a": [1.0, 2.0, 3.0, 9.0], "b": [10.0, 20.0, 30.0, 90.0]}), QUERY)
    found = cells(made, pa.table({"a": pa.array([2.9, None]), "b": pa.array([None, 80.0])}), QUERY.names)
    assert {cell: value.tolist() for cell, (value, _) in found.items()} == {(0, 1): [20.0, 30.0], (1, 0): [3.0, 9.0]}


def walk(count: int, seed: int) -> pa.Table:
    """One sensor that moves by small steps, and another attribute that is noise."""
    rng = np.random.default_rng(seed)
    return table(["x"] * count, np.arange(count), rng.normal(0, 0.1, count).cumsum() + 50, rng.random(count))


def test_what_was_learnt_from_the_same_rows_is_not_learnt_again(monkeypatch):
    monkeypatch.setattr(fittable, "_kept", {})
    past, other = walk(300, 1), walk(300, 2)
    first = fittable.fit_once(past, QUERY)
    turned = fl.Query(attributes={"a": "min", "b": "min"}, id="reading", time="tick", lifetime=9)
    assert fittable.fit_once(pa.concat_tables([past.slice(0, 100), past.slice(100)]), turned) is first
    assert fittable.fit_once(other, QUERY) is not first
    assert fittable.fit_once(past, QUERY) is first
    sensors = fl.Query(attributes=QUERY.attributes, id="sensor", time="at", lifetime=9)
    assert fittable.fit_once(past, sensors) is not first
    assert len(fittable._kept) == fittable.KEPT
    assert fittable.fit_once(past, QUERY) is first, "asked for later than the other"


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
    made = FoglineDefault()
    made.fit(pa.concat_tables([past, later]), QUERY)
    assert made.state is None
    found = cells(made, now, QUERY.names)
    assert made.state is not None
    last = past.column("a").to_numpy()[-1]
    assert np.median(np.concatenate([value for value, _ in found.values()])) == pytest.approx(last, abs=0.5)


def test_gaps_become_clouds_oriented_sorted_and_merged():
    class Fixed(Eager):
        def impute(self, rows):
            return {0: points(np.array([7.0, np.nan])), 1: listed(np.array([[np.nan] * 3, [3.0, 5, 3]]), OFTEN)}

    uncertain = empty_rows(2, 2, 0)
    uncertain.lo[:] = uncertain.hi[:] = [[np.nan, 1.0], [2.0, np.nan]]
    rows = evidence_of(pa.table({"a": pa.array([None, 2.0]), "b": pa.array([1.0, None])}), QUERY.names)
    query = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=1)
    filled = fill(uncertain, Chain([Fixed("fixed")], query), rows)
    assert filled.lo.tolist() == [[7, 1], [2, -5]]
    assert filled.hi.tolist() == [[7, 1], [2, -3]]
    first = filled.start[1, 1]
    assert filled.value[first : first + 2].tolist() == [-5, -3]
    assert filled.weight[first : first + 2].tolist() == [0.5, 0.5]
    assert filled.start[0, 0] == -1


def test_parts_are_gathered_in_the_order_of_the_rows():
    one, two = points(np.array([5.0, 6.0])), listed(np.array([[1.0, 2.0]]))
    found = gathered(4, [(0, np.array([3, 0]), one), (0, np.array([2]), two), (1, np.array([1]), two)])
    assert found.keys() == {0, 1}
    assert spelled(found[0]) == [[6.0], [], [1.0, 2.0], [5.0]]
    assert spelled(found[1]) == [[], [1.0, 2.0], [], []]


def spelled(found: Distributions):
    return [found.value[s : s + n].tolist() for s, n in zip(found.start, found.size, strict=True)]


def test_an_unknown_imputer_gets_a_guess(copies):
    with pytest.raises(LabError, match="Did you mean 'last'"):
        fitted("lasst", copies)
