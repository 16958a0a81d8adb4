"""Is a value that a row lacks explained by the row's other attributes, where they explain anything?"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import HistoryWarning
from fogline.impute.chain import chain_of
from fogline.impute.protocol import Evidence
from fogline.impute.row import OTHERS, Others
from fogline.kernels.forest import expected
from fogline.kernels.score import crps
from fogline.repository.others import Linear
from fogline.rows.table import RowSource

QUERY = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", last=10)


def straight(n: int = 800, seed: int = 1) -> dict[str, np.ndarray]:
    """c is explained by a and b along a line."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    return {"a": a, "b": b, "c": a - 2 * b + 0.05 * rng.normal(size=n)}


def folded(n: int = 800, seed: int = 1) -> dict[str, np.ndarray]:
    """c, of which there are four values, is explained by a, but by no line."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, n))
    return {"a": a, "b": b, "c": np.select([a < 0.2, a < 0.5, a < 0.7], [3.0, 0.0, 9.0], 1.5)}


def rows_of(columns: dict[str, np.ndarray]) -> Evidence:
    values = np.stack([columns[name] for name in QUERY.names], axis=1)
    return Evidence(values, np.isnan(values), RowSource(pa.table(columns)))


def imputer_of(repository: fl.Repository) -> Others:
    chain = chain_of(repository, QUERY)
    assert chain is not None
    [found] = [each for each in chain.imputers if isinstance(each, Others)]
    return found


@pytest.mark.parametrize("make", [straight, folded])
def test_what_is_explained_is_close_to_the_truth(make):
    imputer = imputer_of(fl.Repository.fit(pa.table(make()), QUERY, method="others"))
    fresh = make(200, seed=2)
    truth = fresh["c"].copy()
    fresh["c"] = np.full(200, np.nan)
    found = imputer.distributions(imputer.look(rows_of(fresh)), 2)
    error = np.mean(crps(*found[:4], truth))
    assert error < 0.1 * np.mean(np.abs(truth - np.mean(truth)))


def test_values_are_those_that_the_attribute_takes():
    imputer = imputer_of(fl.Repository.fit(pa.table(folded()), QUERY, method="others"))
    fresh = folded(100, seed=2) | {"c": np.full(100, np.nan)}
    found = imputer.distributions(imputer.look(rows_of(fresh)), 2)
    assert set(found.value.tolist()) <= {0.0, 1.5, 3.0, 9.0}


def test_lines_lead_nowhere_that_the_attribute_has_never_been():
    history = straight()
    imputer = imputer_of(fl.Repository.fit(pa.table(history), QUERY))
    far = {"a": np.array([50.0]), "b": np.array([-50.0]), "c": np.array([np.nan])}
    known = imputer.look(rows_of(far))
    low, high = imputer.bounds(known, 2)
    assert history["c"].min() <= low[0] <= high[0] <= history["c"].max()


def test_a_row_with_several_gaps_is_explained_what_is_left_and_one_without_anything_is_left_to_others():
    imputer = imputer_of(fl.Repository.fit(pa.table(straight()), QUERY))
    nan = np.nan
    gaps = {"a": np.array([2.0, -2.0, nan]), "b": np.array([nan] * 3), "c": np.array([nan] * 3)}
    known = imputer.look(rows_of(gaps))
    assert imputer.able(known, 2).tolist() == [True, True, False]
    found = imputer.distributions(known, 2)
    means = [
        np.average(found.value[s : s + n], weights=found.often[s : s + n])
        for s, n in zip(found.start[:2], found.size[:2], strict=True)
    ]
    assert means[0] > means[1] + 2  # c rises with a, whatever b is


def test_nothing_is_learnt_where_nothing_explains():
    rng = np.random.default_rng(3)
    history = pa.table({name: rng.random(800) for name in QUERY.names})
    for method in ("others", "held-out"):
        repository = fl.Repository.fit(history, QUERY, method=method)
        assert not repository.others
        chain = chain_of(repository, QUERY)
        assert chain is not None
        assert OTHERS not in [each.name for each in chain.imputers]


def test_rules_that_do_better_stay_first():
    rng = np.random.default_rng(4)
    kind = rng.integers(0, 200, 2_000)
    c = rng.random(200)[kind]  # explained by a word among many, which trees do not look at
    history = pa.table(
        {"a": rng.random(2_000), "b": c + rng.normal(size=2_000), "c": c, "kind": [f"k{k}" for k in kind]}
    )
    repository = fl.Repository.fit(history, QUERY)
    assert [rule.then for rule in repository.rules if "kind" in rule.given]
    assert "c" not in repository.others
    assert "c" in fl.Repository.fit(history, QUERY, method="others").others


def test_other_columns_explain_too_and_are_asked_for():
    rng = np.random.default_rng(6)
    level = rng.random(800)
    a, b = rng.random((2, 800))
    history = pa.table({"a": a, "b": b, "c": 5 * level, "level": level, "hot": level > 0.5})
    repository = fl.Repository.fit(history, QUERY, method="others")
    assert {"level", "hot"} <= set(repository.determinants)
    table = pa.table(
        {"id": [1], "a": [0.0], "b": [0.0], "c": pa.array([None], pa.float64()), "level": [0.9], "hot": [True]}
    )
    imputer = imputer_of(repository)
    values = np.array([[0.0, 0.0, np.nan]])
    low, high = imputer.bounds(imputer.look(Evidence(values, np.isnan(values), RowSource(table))), 2)
    assert 4 < low[0] <= high[0] <= 5


def test_a_saved_repository_explains_the_same(tmp_path):
    repository = fl.Repository.fit(pa.table(straight()), QUERY)
    repository.save(tmp_path / "r")
    loaded = fl.Repository.load(tmp_path / "r")
    assert set(loaded.others) == set(repository.others) == {"a", "b", "c"}
    assert loaded.fingerprint == repository.fingerprint
    fresh = rows_of(straight(20, seed=2) | {"c": np.full(20, np.nan)})
    one, two = (imputer_of(each) for each in (repository, loaded))
    for x, y in zip(one.distributions(one.look(fresh), 2), two.distributions(two.look(fresh), 2), strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_same_history_teaches_the_same():
    one, two = (fl.Repository.fit(pa.table(folded()), QUERY, method="others") for _ in range(2))
    assert one.fingerprint == two.fingerprint
    for x, y in zip(one.others["c"].trees, two.others["c"].trees, strict=True):
        np.testing.assert_array_equal(x, y)


def test_lines_are_those_of_least_squares():
    columns = np.stack(list(straight().values()), axis=1)
    mean, scale = columns.mean(axis=0), columns.std(axis=0)
    apart = (columns - mean) / scale
    lines = Linear(mean, scale, apart.T @ apart / len(apart))
    both = np.column_stack((np.ones(len(columns)), columns[:, :2]))
    weights = np.linalg.lstsq(both, columns[:, 2], rcond=None)[0]
    np.testing.assert_allclose(expected(lines, columns[:, :2]), both @ weights, atol=1e-4)
    one = np.where([True, False], np.nan, columns[:, :2])
    slope = np.polyfit(columns[:, 1], columns[:, 2], 1)
    np.testing.assert_allclose(expected(lines, one), np.polyval(slope, columns[:, 1]), atol=1e-4)
    np.testing.assert_allclose(expected(lines, np.full((1, 2), np.nan)), mean[2:])


def test_a_history_that_does_no_better_than_its_mean_is_fitted_with_a_warning():
    rng = np.random.default_rng(7)
    far = rng.choice([-1.0, 1.0], 900)
    history = {"a": rng.random(1_000), "b": rng.random(1_000), "c": np.append(far, rng.normal(0, 0.01, 100))}
    with pytest.warns(HistoryWarning, match="what the history offers for 'c' is off by"):
        fl.Repository.fit(pa.table(history), QUERY)
