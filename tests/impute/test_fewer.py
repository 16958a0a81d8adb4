"""What does a distribution lose when it is reduced to few values?"""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fogline as fl
from fogline.arrays import Distributions
from fogline.errors import HistoryError
from fogline.impute.chain import chain_of
from fogline.impute.protocol import Eager, fewer
from fogline.impute.row import Whole
from fogline.impute.written import distributions
from tests.repository.naive import impute, reduced

QUERY = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=100, alpha=0.4)
counts = st.one_of(st.integers(1, 4), st.integers(1, 400))


def found(cells):
    """Lists of how often the values 0, 1, … occur, as distributions."""
    size = np.array([len(each) for each in cells])
    value = np.concatenate([np.arange(len(each), dtype=float) for each in cells])
    often = np.concatenate([np.array(each, float) for each in cells])
    return Distributions(np.cumsum(size) - size, size, value, often, np.arange(len(cells)))


def pairs(each, k=0):
    """One of the distributions."""
    part = slice(int(each.start[k]), int(each.start[k] + each.size[k]))
    return list(zip(each.value[part].tolist(), map(Fraction, each.often[part].tolist()), strict=True))


def at_least(cell, x):
    return sum(w for v, w in cell if v >= x) / sum(w for _, w in cell)


@given(st.lists(st.lists(counts, min_size=1, max_size=150), min_size=1, max_size=4), st.sampled_from([4, 5, 7, 64]))
def test_the_distribution_function_is_off_by_little_and_the_ends_keep_their_weight(cells, most):
    before = found(cells)
    after = fewer(before, most)
    for k in range(len(cells)):
        was, now = pairs(before, k), pairs(after, k)
        assert len(now) <= most
        assert after.source[k] == k
        assert np.all(np.diff([v for v, _ in now]) > 0)
        if len(was) <= most:
            assert now == was
            continue
        assert (now[0], now[-1]) == (was[0], was[-1])
        assert abs(float(sum(w for _, w in now) - sum(w for _, w in was))) < 1e-9
        off = max(abs(at_least(was, x) - at_least(now, x)) for x, _ in was)
        assert off <= Fraction(1, 2 * (most - 2)) + Fraction(1, 10**12)
        assert off <= Fraction(1, most)
        for (v, w), (x, y) in zip(reduced(was, most), now, strict=True):
            assert v == x
            assert abs(float(w - y)) < 1e-9


def test_a_list_that_many_rows_share_is_reduced_once():
    zeros = np.zeros(1000, np.int64)
    many = fewer(Distributions(zeros, zeros + 5000, np.arange(5000.0), np.ones(5000), zeros), 64)
    assert len(many.value) == 64
    assert set(many.start) == {0}
    assert set(many.size) == {64}


def test_up_to_the_limit_and_without_one_nothing_is_touched():
    value, often = np.arange(64.0), np.ones(64)
    assert Whole([value], [often], 64).values[0] is value
    more = np.arange(5000.0)
    assert Whole([more], [np.ones(5000)]).values[0] is more
    assert len(Whole([more], [np.ones(5000)], 64).values[0]) == 64


def history(rows):
    rng = np.random.default_rng(3)
    b = np.round(rng.random(rows), 2)
    return pd.DataFrame({"a": np.round(b + rng.normal(size=rows), 3), "b": b, "id": np.arange(rows), "t": 0.0})


@pytest.mark.parametrize("values", [64, 9, None])
def test_rules_and_the_whole_history_give_what_is_defined(values):
    past = history(600)
    repository = fl.Repository.fit(past, QUERY, rules=["b(0.2) -> a(1)"], values=values)
    rows = [{"id": 0, "t": 1.0, "a": None, "b": 0.5}, {"id": 1, "t": 1.0, "a": None, "b": None}]
    table = distributions(rows, QUERY, repository).to_pandas()
    known = past.to_dict("records")
    for row in rows:
        chosen, values_found = impute(known, repository.rules, row, "a")
        assert len(chosen) == (row["b"] is not None)
        value, often = np.unique(values_found, return_counts=True)
        assert len(value) > 64
        expected = reduced(list(zip(value.tolist(), map(Fraction, often.tolist()), strict=True)), values)
        given = table[(table.id == row["id"]) & (table.attribute == "a")]
        assert given.value.tolist() == [v for v, _ in expected]
        assert given.probability.tolist() == pytest.approx([float(w / len(values_found)) for _, w in expected])


def test_the_number_of_values_is_kept_with_the_repository(tmp_path):
    past = history(200)
    few = fl.Repository.fit(past, QUERY, rules=[], values=8)
    assert few.fingerprint != fl.Repository.fit(past, QUERY, rules=[]).fingerprint
    few.save(tmp_path / "few")
    loaded = fl.Repository.load(tmp_path / "few")
    assert (loaded.values, loaded.fingerprint) == (8, few.fingerprint)
    assert loaded.refit(past, QUERY).values == loaded.append(past, QUERY).values == 8
    chain = chain_of(loaded, QUERY)
    assert chain is not None
    assert chain.shared.size.max() <= 8


@pytest.mark.parametrize("values", [3, 0, -1, 2.5, True, "many"])
def test_a_limit_that_makes_no_sense_is_refused(values):
    with pytest.raises(HistoryError, match="whole number from 4 on"):
        fl.Repository.fit(history(5), QUERY, rules=[], values=values)


class Many(Eager):
    """An imputer of the user's own that can wait, and gives 500 values."""

    width, lasting = 0, True

    def look(self, rows):
        return np.empty((len(rows.values), 0))

    def able(self, known, j):
        return np.ones(len(known), bool)

    def bounds(self, known, j, *, rough=False):
        return np.zeros(len(known)), np.full(len(known), 499.0)

    def distributions(self, known, j):
        zeros = np.zeros(len(known), np.int64)
        return Distributions(zeros, zeros + 500, np.arange(500.0), np.ones(500), zeros)


def test_what_rows_bring_and_what_an_imputer_of_ones_own_gives_is_never_reduced():
    repository = fl.Repository.fit(history(200), QUERY, rules=[])
    own = [(float(k), 1 / 100) for k in range(100)]
    monitor = fl.Monitor(QUERY, repository)
    monitor.advance(1, [{"id": 0, "t": 1, "a": own, "b": 0.5}])
    assert len(monitor.explain(0)[0].row.values["a"]) == 100
    monitor = fl.Monitor(QUERY, repository, imputer=Many("mine"))
    monitor.advance(1, [{"id": 0, "t": 1, "a": None, "b": 0.5}])
    assert len(monitor.explain(0)[0].row.values["a"]) == 500
