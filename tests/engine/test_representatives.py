"""Do few rows stand for all, and do they stay?"""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fogline as fl
from fogline.engine.representatives import KEEP, ranked, representatives
from tests.engine.test_revisions import trying


def radius(values, which):
    """The greatest distance of a row from its nearest representative, on ranks."""
    ranks = ranked(values)
    return max(min(float(np.linalg.norm(row - ranks[k])) for k in which) for row in ranks)


@st.composite
def answers(draw, most=12):
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 3))
    cell = st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.0, float("nan")])
    values = np.array(draw(st.lists(st.lists(cell, min_size=d, max_size=d), min_size=n, max_size=n)))
    return values, np.array(draw(st.lists(st.sampled_from([0.6, 0.75, 1.0]), min_size=n, max_size=n)))


@trying(100)
@given(answers(), st.integers(1, 14), st.sets(st.integers(0, 11)))
def test_each_row_counts_for_one_representative_and_all_are_shown_if_they_are_few(answer, k, shown):
    values, probability = answer
    which, stands_for = representatives(values, probability, k, [row for row in shown if row < len(values)])
    assert len(which) == min(k, len(values))
    assert which.tolist() == sorted(set(which.tolist()))
    assert stands_for.sum() == len(values)
    assert stands_for.min() >= 1
    if k >= len(values):
        assert which.tolist() == list(range(len(values)))


@trying(80)
@given(answers(9), st.integers(1, 4), st.sets(st.integers(0, 8)))
def test_the_radius_is_at_most_twice_the_least_and_with_rows_held_little_more(answer, k, shown):
    values, probability = answer
    least = min(radius(values, some) for some in combinations(range(len(values)), min(k, len(values))))
    fresh, _ = representatives(values, probability, k)
    assert radius(values, fresh) <= 2 * least + 1e-12
    kept, _ = representatives(values, probability, k, [row for row in shown if row < len(values)])
    assert radius(values, kept) <= KEEP * radius(values, fresh) + 1e-12


def test_small_changes_of_the_answer_leave_what_is_shown():
    draw = np.random.default_rng(5)
    values, probability = draw.random((300, 3)), draw.random(300)
    shown, _ = representatives(values, probability, 12)
    stayed = 0
    for _ in range(30):
        values = values + draw.normal(0, 0.002, values.shape)
        probability = np.clip(probability + draw.normal(0, 0.02, 300), 0, 1)
        fresh, _ = representatives(values, probability, 12)
        again, _ = representatives(values, probability, 12, shown.tolist())
        assert again.tolist() == shown.tolist()
        stayed += len(set(fresh.tolist()) & set(shown.tolist()))
    assert stayed < 30 * 6  # a fresh choice would have flickered


def test_a_row_that_is_gone_is_replaced_and_the_others_stay():
    draw = np.random.default_rng(6)
    values, probability = draw.random((200, 2)), np.ones(200)
    shown = representatives(values, probability, 8)[0].tolist()
    left = [row for row in range(200) if row != shown[3]]
    again, _ = representatives(values[left], probability[left], 8, [left.index(row) for row in shown if row in left])
    assert len({left[row] for row in again.tolist()} & set(shown)) == 7


def test_what_was_shown_gives_way_when_it_no_longer_covers_the_answer():
    line = np.linspace(0, 1, 101)[:, None]
    together = [0, 1, 2, 3]
    which, stands_for = representatives(line, np.ones(101), 4, together)
    assert 0 < len(set(which.tolist()) & set(together)) < 4
    assert stands_for.max() < 60


def test_units_and_outliers_do_not_matter():
    draw = np.random.default_rng(7)
    values = draw.random((60, 2))
    odd = np.stack((values[:, 0] * 1e9, np.exp(9 * values[:, 1])), axis=1)
    plain, strange = (representatives(each, np.ones(60), 5)[0] for each in (values, odd))
    assert plain.tolist() == strange.tolist()


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "12"])
def test_top_is_a_whole_number(k):
    with pytest.raises(fl.FoglineError, match=r"top is .* at least 1"):
        representatives(np.zeros((3, 1)), np.ones(3), k)


# --- In the answer ----------------------------------------------------------------------------------------------------


def spread_out(t, ids, sites="xy"):
    """Rows none of which beats another, the third of them with a gap."""
    return [
        {"id": name, "t": t, "site": sites[k % len(sites)], "gas": k if k % 3 else [(k, 1), (k + 0.5, 1)], "oxygen": k}
        for k, name in enumerate(ids)
    ]


def test_top_gives_so_many_rows_of_each_group_and_for_how_many_each_stands():
    query = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="id", time="t", lifetime=10, by=["site"])
    monitor = fl.Monitor(query)
    assert monitor.answer(top=4).num_rows == 0
    monitor.advance(1, spread_out(1, [f"r{k}" for k in range(60)]))
    whole, few = monitor.answer(), monitor.answer(top=4)
    assert few.column_names == [*whole.column_names, "stands_for"]
    assert sorted(few["site"].to_pylist()) == ["x"] * 4 + ["y"] * 4
    assert sum(few["stands_for"].to_pylist()) == whole.num_rows
    shown = few.drop_columns("stands_for").to_pylist()
    assert shown == [each for each in whole.to_pylist() if each in shown]
    everything = monitor.answer(top=1000)
    assert everything.drop_columns("stands_for").equals(whole)
    assert set(everything["stands_for"].to_pylist()) == {1}


def test_what_was_shown_stays_while_rows_come_and_go():
    query = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="id", time="t", lifetime=3, by=["site"])
    monitor = fl.Monitor(query)
    monitor.advance(1, spread_out(1, [f"r{k}" for k in range(60)]))
    before = monitor.answer(top=5).select(["id", "t"])
    monitor.advance(2, spread_out(2, [f"s{k}" for k in range(7)]))
    assert monitor.answer(top=5).select(["id", "t"]).equals(before)
    monitor.advance(9)
    assert monitor.answer(top=5).num_rows == 0


def test_where_each_id_has_one_row_an_id_that_is_shown_stays_with_its_newest_row():
    query = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="id", time="t", latest=True)
    monitor, ids = fl.Monitor(query), [f"r{k}" for k in range(40)]
    monitor.advance(1, spread_out(1, ids))
    before = monitor.answer(top=5)["id"].to_pylist()
    monitor.advance(2, spread_out(2, ids))
    after = monitor.answer(top=5)
    assert sorted(after["id"].to_pylist()) == sorted(before)
    assert set(after["t"].to_pylist()) == {2}
