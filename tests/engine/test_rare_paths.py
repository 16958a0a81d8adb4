"""Is the answer still right where small streams never lead?

Rare paths are made common: gaps are closed at every tick, every row is looked for in sorted columns, no row keeps sums,
every probability is bracketed, words hold one bit per attribute, and windows have hundreds of rows.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.engine import bulk, live
from tests import oracle
from tests.contracts import query_of, run
from tests.naive import probabilities, surely_beaten
from tests.strategies import late_streams, streams

WORK = live.WORK


def trying(examples):
    return settings(
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


@trying(150)
@given(streams() | late_streams(), st.sets(st.integers(0, 5)))
def test_closing_the_gaps_at_every_tick_changes_no_answer(stream, resume):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "COMPACT_FROM", 0)
        run(stream, resume)


@trying(150)
@given(streams() | late_streams())
def test_clouds_of_very_many_places_have_exact_probabilities_over_merged_places(stream):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "SUM_LIMIT", 1)
        run(stream)


@trying(300)
@given(streams() | late_streams(), st.sets(st.integers(0, 5)))
def test_many_rows_at_once_are_compared_by_sorted_columns_with_the_same_answer(stream, resume):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "MANY", 0)
        patch.setattr(bulk, "ROWS", 1)
        run(stream, resume)


def test_sorted_columns_serve_few_attributes_and_then_many_in_one_process(monkeypatch):
    monkeypatch.setattr(bulk, "ROWS", 1)
    rng = np.random.default_rng(5)
    for d in (3, 8, 5):  # the fence of a word of eight fields is more than a signed integer holds
        query = fl.Query(attributes={f"a{j}": "max" for j in range(d)}, id="id", time="t", last=60)
        monitor = fl.Monitor(query)
        for t in range(3):
            values = dict(zip(query.attributes, rng.random((d, 40)).tolist(), strict=True))
            monitor.advance(t, {"id": [*range(40 * t, 40 * t + 40)], "t": [t] * 40, **values})
            monitor.check()


@trying(300)
@given(streams(), st.sampled_from([1, 2, 5, 50]), st.sampled_from([WORK, 0, 100, 1000]))
def test_a_bracketed_row_is_flagged_and_on_the_right_side_of_alpha(stream, limit, work):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "WORK", work)
        bracketed(stream, fl.Monitor(query_of(stream), exact_limit=limit), work == WORK)


def bracketed(stream, monitor, enough):
    """Every probability is as close to the truth as is stated; with `enough` work, as is promised."""
    ticks = {t.call: t for t in oracle.replay(stream.calls, stream.attributes, stream.by, **stream.window)}
    alpha = float(stream.alpha)
    for call, (now, rows) in enumerate(stream.calls):
        monitor.advance(now, rows)
        monitor.check()
        if call not in ticks:
            continue
        truth = {key: float(p) for key, p in ticks[call].probabilities.items()}
        given_p = {(row["id"], row["t"]): row for row in monitor.answer().to_pylist()}
        for key, p in truth.items():
            if key in given_p:
                assert given_p[key]["probability"] == pytest.approx(p, abs=given_p[key]["probability_error"] + 1e-9)
                assert given_p[key]["probability_error"] < live.WIDTH / 2 or not enough
            if enough:
                assert (key in given_p) == (p > alpha) or abs(p - alpha) < live.WIDTH
        stats, right = monitor.stats(), {key for key, p in truth.items() if (key in given_p) == (p > alpha)}
        assert stats["inexact"] >= sum(row["probability_error"] > 0 for row in given_p.values())
        close = {key for key, p in truth.items() if abs(p - alpha) <= 1e-9}
        assert len(truth.keys() - right - close) <= stats["undecided"]


def test_three_wide_cells_are_bracketed_only_beyond_the_limit():
    wide = [(k, 1) for k in range(60)]
    rows = [{"id": i, "t": 0, "a": wide, "b": wide, "c": wide} for i in range(3)]
    query = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", lifetime=1, alpha=0.5)
    exact, coarse = fl.Monitor(query), fl.Monitor(query, exact_limit=1000)
    exact.advance(0, rows)
    coarse.advance(0, rows)
    low, high = np.array(exact.answer()["probability"]), np.array(coarse.answer()["probability"])
    assert exact.stats()["inexact"] == 0
    assert coarse.stats()["inexact"] == 3
    assert 0.5 < low[0] < 1
    assert abs(low - high).max() < live.WIDTH


def test_a_bracketed_row_that_left_the_answer_is_no_longer_counted_as_inexact():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", expires="e", alpha=0.1)
    monitor = fl.Monitor(query, exact_limit=1)
    wide, rival, other = [(k, 1) for k in (1, 3, 5, 7)], [(2, 1), (4, 1), (6, 1)], [(k, 2) for k in (2, 4, 6)]
    cells = {"x": wide, "y": rival, "z1": other, "z2": other}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "WORK", 0)
        monitor.advance(0, [{"id": i, "t": 0, "e": 10, "a": cell} for i, cell in cells.items()])
    assert (
        monitor.stats()["inexact"] == sum(error > 0 for error in monitor.answer()["probability_error"].to_pylist()) > 0
    )
    monitor.advance(1, [{"id": "z", "t": 1, "e": 5, "a": 9}])  # surely beats both, for a while
    assert monitor.answer()["id"].to_pylist() == ["z"]
    assert monitor.stats()["live"] == 5
    assert monitor.stats()["inexact"] == 0


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(
    ("d", "lives"), [(1, "equal"), (2, "random"), (4, "equal"), (5, "random"), (16, "random"), (40, "equal")]
)
def test_hundreds_of_rows_agree_with_plain_recomputation(d, lives, alpha):
    rng = np.random.default_rng(d)
    names = [f"a{j}" for j in range(d)]
    query = fl.Query(attributes=dict.fromkeys(names, "max"), id="id", time="t", expires="e", alpha=alpha)
    monitor = fl.Monitor(query)
    rows = []
    for t in range(60):
        fresh = [
            _row(rng, 10 * t + k, t, names, 25 if lives == "equal" else int(rng.integers(1, 50))) for k in range(10)
        ]
        rows += fresh
        monitor.advance(t, fresh)
        if t % 15 == 14:
            monitor.check()
            window = [row for row in rows if row["t"] <= t < row["e"]]
            ids, cells = [row["id"] for row in window], [[row[n] for n in names] for row in window]
            truth = dict(zip(ids, probabilities(cells), strict=True))
            inside = ~surely_beaten(cells) if alpha == 0 else np.array(list(truth.values())) > alpha + 1e-9
            got = {row["id"]: row["probability"] for row in monitor.answer().to_pylist()}
            assert got.keys() == {name for name, yes in zip(ids, inside, strict=True) if yes}
            for name, p in got.items():
                assert p == pytest.approx(truth[name], abs=1e-9)


def _row(rng, name, t, names, life):
    """One row with a level of its own, so that some beat many; sometimes one or two cells are wide."""
    level = rng.integers(0, 12)
    row = {"id": name, "t": t, "e": t + life} | {n: int(level + rng.integers(0, 8)) for n in names}
    for n in rng.choice(names, size=min(len(names), int(rng.integers(0, 3))), replace=False):
        values = rng.choice(24, size=int(rng.integers(2, 6)), replace=False)
        row[str(n)] = [(int(v), int(w)) for v, w in zip(values, rng.integers(1, 5, size=len(values)), strict=True)]
    return row
