"""Is a probability that is too much work to sum as close to the truth as is stated?"""

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.engine import live
from fogline.engine.group import WindowGroup
from fogline.pipeline.plan import make_plan
from fogline.pipeline.runner import GroupRunner
from tests.flow.driving import Engine, rows_of
from tests.naive import probabilities


def query_of(d, alpha):
    names = {f"a{j}": "max" for j in range(d)}
    return fl.Query(attributes=names, id="id", time="t", lifetime=10, alpha=alpha)


def wide_rows(d, values, count, seed, known=0.0, step=0):
    """Rows of which each cell is known or has many values; `step`: values fall on so many steps, with ties."""
    rng = np.random.default_rng(seed)

    def cell():
        if rng.random() < known:
            return float(np.round(rng.random(), 2))
        value = rng.integers(0, step, values) if step else rng.random(values)
        return [(float(v), float(w)) for v, w in zip(value, rng.integers(1, 5, values), strict=True)]

    return [{"id": i, "t": 1, **{f"a{j}": cell() for j in range(d)}} for i in range(count)]


def answer(query, rows, exact_limit=1_000_000):
    monitor = fl.Monitor(query, exact_limit=exact_limit)
    monitor.advance(1, rows)
    monitor.check()
    return {row["id"]: row for row in monitor.answer().to_pylist()}, monitor


@pytest.mark.parametrize("places", [1, 5, 50])
@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5])
@pytest.mark.parametrize(
    ("d", "values", "count", "known", "step"),
    [(2, 20, 8, 0.0, 0), (3, 8, 7, 0.3, 0), (4, 5, 6, 0.0, 6), (1, 90, 9, 0, 0)],
)
def test_every_probability_is_within_1e_3_and_in_or_out_is_right_beyond(d, values, count, known, step, alpha, places):
    rows = wide_rows(d, values, count, d, known, step)
    given, monitor = answer(query_of(d, alpha), rows, exact_limit=places)
    truth = probabilities([[row[f"a{j}"] for j in range(d)] for row in rows])
    assert monitor.stats()["inexact"] > 0 or alpha > 0
    for row, p in zip(rows, truth, strict=True):
        assert (row["id"] in given) == (p > alpha) or abs(p - alpha) <= live.WIDTH
        if row["id"] in given:
            assert abs(given[row["id"]]["probability"] - p) <= given[row["id"]]["probability_error"] + 1e-9 < live.WIDTH


@pytest.mark.parametrize(("d", "known"), [(4, 0.0), (4, 0.5), (6, 0.0)])
def test_hundreds_of_values_in_each_cell_are_no_more_than_1e_3_off(d, known):
    rows = wide_rows(d, 300, 8, d, known)
    given, _ = answer(query_of(d, 0.3), rows, exact_limit=500)
    uncertain = [[row[f"a{j}"] for j in range(d)] for row in rows]
    for i, row in given.items():
        assert row["probability_error"] < live.WIDTH / 2
        assert row["probability"] == pytest.approx(sampled(uncertain, i), abs=6e-3)  # four deviations of the sample


def sampled(uncertain, i, size=40_000):
    """P of a row of many places, by drawing some of them."""
    rng = np.random.default_rng(i)
    cells = [np.array(cell if isinstance(cell, list) else [(cell, 1.0)]).T for cell in uncertain[i]]
    places = [rng.choice(value, size, p=weight / weight.sum()) for value, weight in cells]
    left = np.ones(size)
    for k, cloud in enumerate(uncertain):
        if k == i:
            continue
        beaten = np.ones(size)
        for cell, place in zip(cloud, places, strict=True):  # values are real: ties are out of the question
            value, weight = np.array(cell if isinstance(cell, list) else [(cell, 1.0)]).T
            order = np.argsort(value)
            tail = np.concatenate((np.cumsum((weight / weight.sum())[order][::-1])[::-1], [0.0]))
            beaten *= tail[np.searchsorted(value[order], place)]
        left *= 1.0 - beaten
    return left.mean()


def test_where_the_work_ends_first_the_change_states_how_far_off_it_may_be(monkeypatch):
    monkeypatch.setattr(live, "WORK", 200)
    query, rows = query_of(3, 0.3), wide_rows(3, 6, 8, 5)
    monitor = fl.Monitor(query, exact_limit=5)
    changes = monitor.advance(1, rows).to_pylist()
    truth = probabilities([[row[f"a{j}"] for j in range(3)] for row in rows])
    assert max(row["probability_error"] for row in changes) > live.WIDTH
    for row in changes:
        assert row["probability_error"] > 0
        assert abs(row["probability"] - truth[row["id"]]) <= row["probability_error"]


def test_rows_whose_bounds_hold_alpha_are_counted_and_explained_also_those_kept_out(monkeypatch):
    rows = wide_rows(6, 5, 8, 5)
    truth = {i: row["probability"] for i, row in answer(query_of(6, 0), rows)[0].items()}
    monkeypatch.setattr(live, "WORK", 0)
    rough = answer(query_of(6, 0), rows, exact_limit=5)[0][0]
    alpha = rough["probability"] + 0.1 * rough["probability_error"]  # just above what row 0 is taken for
    given, monitor = answer(query_of(6, alpha), rows, exact_limit=5)
    undecided = [row["id"] for row in rows if "whose middle decides" in monitor.explain(row["id"])[0].reason]
    assert monitor.stats()["undecided"] == len(undecided) > 0
    assert 0 in undecided
    assert 0 not in given
    assert monitor.stats()["inexact"] == len(
        set(undecided) | {i for i, row in given.items() if row["probability_error"] > 0}
    )
    for i in undecided:
        explained = monitor.explain(i)[0]
        assert explained.probability_error > 0
        assert "±" in str(explained)
        assert abs(explained.probability - truth[i]) <= explained.probability_error


def test_health_counts_rows_of_which_only_bounds_are_known(monkeypatch):
    monkeypatch.setattr(live, "WORK", 0)
    monkeypatch.setattr(GroupRunner, "empty", lambda runner: WindowGroup(live.LiveSet(3, 0.5, exact_limit=5)))
    rows = wide_rows(3, 6, 8, 5)
    given, monitor = answer(query_of(3, 0.5), rows, exact_limit=5)
    pairs = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))
    columns = {"id": pa.array([row["id"] for row in rows]), "t": pa.array([row["t"] for row in rows])}
    columns |= {f"a{j}": pa.array([row[f"a{j}"] for row in rows], pairs) for j in range(3)}
    table = pa.table(columns)
    journal = Engine(make_plan(query_of(3, 0.5), table.schema)).batch([table])
    health = rows_of(journal, "health")[-1]
    stats = monitor.stats()
    assert (health["inexact"], health["undecided"]) == (stats["inexact"], stats["undecided"])
    assert stats["undecided"] > 0
    assert sum(row["probability_error"] > 0 for row in rows_of(journal, "changes")) == sum(
        row["probability_error"] > 0 for row in given.values()
    )


def test_bounds_are_the_same_bits_however_the_window_came_about(monkeypatch):
    query, rows = query_of(3, 0.1), wide_rows(3, 15, 9, 8, known=0.3)
    first, monitor = answer(query, rows, exact_limit=5)
    assert any(row["probability_error"] > 0 for row in first.values())
    turned, _ = answer(query, rows[::-1], exact_limit=5)
    restored = fl.Monitor.restore(query, monitor.snapshot())
    monkeypatch.setattr(live, "COMPACT_FROM", 0)  # slots are put in another order
    moving = fl.Monitor(query, exact_limit=5)
    for row in rows:
        moving.advance(1, [row | {"t": 0, "id": row["id"] + 100}])  # expires at 10, the row itself at 11
        moving.advance(1, [row])
    moving.advance(10)
    for other in (turned, *({r["id"]: r for r in each.answer().to_pylist()} for each in (restored, moving))):
        assert other == first
