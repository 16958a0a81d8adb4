"""Does every imputer keep the contract, the lab's rivals and a user's function included?

One test over all of them; see `fogline.impute.protocol` for what is promised.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogline.arrays import ASKED_NO_MORE, ONE, Distributions, Floats, Revisions, empty_rows, objects
from fogline.impute import knn
from fogline.impute.chain import Chain, chain_of, fillers
from fogline.impute.own import Function
from fogline.impute.protocol import Evidence, Hindsight, Imputer
from fogline.kernels.uncertain import pour
from fogline.repository.repository import Repository
from fogline.repository.sensors.state import SensorRows
from fogline.rows.names import Kinds
from fogline.rows.reader import Decoded, Reader
from tests.lab.examples import examples
from tests.walks import NAMES, QUERY, walks

RECENT = ["t(20), sensor -> heat(5)", "t(3), sensor, damp(2) -> light(5)"]
RULES = ["damp(0.5) -> heat(5)", "heat(2), light(3) -> damp(9)", *RECENT]


def function(rows: pa.RecordBatch) -> dict[str, list[object]]:
    """Knows something of heat, here and there, and of nothing else."""
    cells = zip(rows.column("damp").to_pylist(), rows.column("t").to_pylist(), strict=True)
    return {"heat": [None if damp is None else [(t % 5, 1), (damp, 2), (7.5, 1)] for damp, t in cells]}


@cache
def stream() -> Decoded:
    """Rows with gaps; some sensors are new."""
    table = walks(steps=12, begin=200, gaps=0.4)
    strangers = [f"{name}?" if k % 7 == 0 else name for k, name in enumerate(table["sensor"].to_pylist())]
    table = table.set_column(table.schema.get_field_index("sensor"), "sensor", pa.array(strangers))
    return Reader(QUERY).read(table, Kinds())


@cache
def rows_of_the_package() -> Evidence:
    """These rows, with what their sensors have read before."""
    chain = chain_of(Repository.fit(walks(), QUERY, rules=RULES), QUERY)
    assert chain is not None
    return evidence_for(chain)


def of_the_package(history: pa.Table) -> Iterator[tuple[str, Imputer, Evidence]]:
    fits = {
        "given": Repository.fit(history, QUERY, rules=RULES),
        "learnt": Repository.fit(history, QUERY),
        "last": Repository.fit(history, QUERY, method="last"),
        "mean": Repository.fit(history, QUERY, method="mean"),
    }
    for how, repository in fits.items():
        chain = chain_of(repository, QUERY)
        assert chain is not None
        for k, imputer in enumerate(chain.imputers):
            yield f"{how}-{k}-{type(imputer).__name__}", imputer, evidence_for(chain)
    yield "function", Function(function, QUERY), rows_of_the_package()
    yield "knn", knn(history, QUERY, k=7), rows_of_the_package()


def evidence_for(chain: Chain) -> Evidence:
    """The same rows, with the context that this chain's sensors give them."""
    rows = stream()
    values = chain.values(rows.uncertain, rows.raw)
    every, context = np.ones(len(values), np.bool_), None
    if chain.sensors is not None:
        names = [(each,) for each in rows.id]
        context = chain.take(chain.sensors.state(), SensorRows(names, rows.arrived, values, every)).context
    return Evidence(values, np.isnan(rows.uncertain.lo), rows.source, None, context)


@cache
def everything() -> dict[str, tuple[Imputer, Evidence]]:
    found = [*of_the_package(walks()), *((f"lab-{name}", imputer, rows) for name, imputer, _, rows in examples())]
    return {name: (imputer, rows) for name, imputer, rows in found}


@cache
def shuffled() -> dict[str, tuple[Imputer, Evidence]]:
    """The package's imputers, from the same history in another order."""
    table = walks()
    table = table.take(pa.array(np.random.default_rng(3).permutation(table.num_rows)))
    return {name: (imputer, rows) for name, imputer, rows in of_the_package(table)}


def names() -> list[str]:
    return list(everything())


@pytest.mark.parametrize("name", names())
def test_able_bounds_and_distributions_agree(name):
    imputer, rows = everything()[name]
    answered = 0
    for j in range(rows.values.shape[1]):
        which = np.flatnonzero(rows.missing[:, j])
        known = imputer.look(rows)[which]
        found, able = imputer.distributions(known, j), imputer.able(known, j)
        low, high = imputer.bounds(known, j)
        rough_low, rough_high = imputer.bounds(known, j, rough=True)
        assert np.array_equal(able, found.size > 0)
        assert np.array_equal(able, ~np.isnan(low))
        assert np.array_equal(np.isnan(low), np.isnan(high))
        for k in np.flatnonzero(able).tolist():
            part = slice(found.start[k], found.start[k] + found.size[k])
            value, often = found.value[part], found.often[part]
            assert np.isfinite(value).all()
            assert (np.diff(value) > 0).all(), "values are not strictly increasing"
            assert (often > 0).all()
            assert (value[0], value[-1]) == (low[k], high[k])
            assert rough_low[k] <= low[k] <= high[k] <= rough_high[k]
            assert 0 <= found.source[k] < len(imputer.sources(j))
        answered += int(able.sum())
    assert answered, "nothing was imputed: the contract was not tried"
    assert imputer.name


def noted(imputer: Hindsight, known: Floats, ages: tuple[float, float] = (1.0, 3.0)) -> Floats:
    """The numbers after two later readings, each with gaps of its own."""
    rng, n = np.random.default_rng(int(ages[0])), len(known)
    for later in ages:
        values = np.round(rng.normal(0, 6, (n, len(NAMES))), 1)
        values[rng.random(values.shape) < 0.4] = np.nan
        target = np.full(n, 200.0)
        known = imputer.note(known, Revisions(objects(["s"] * n), target, target + later, ~np.isnan(values), values))
    return known


@pytest.mark.parametrize("name", names())
def test_what_hindsight_may_come_to_is_within_reach_and_only_the_first_reading_counts(name):
    imputer, rows = everything()[name]
    if not isinstance(imputer, Hindsight):
        return
    known = imputer.look(rows)
    later = noted(imputer, known)
    revised = 0
    for j in range(rows.values.shape[1]):
        for numbers in (known, later):
            able, opened = imputer.able(numbers, j), imputer.open(numbers, j)
            bounds, reach = imputer.bounds(numbers, j), imputer.reach(numbers, j)
            rough = imputer.reach(numbers, j, rough=True)
            np.testing.assert_array_equal(~np.isnan(reach[0]), able | opened)
            assert (reach[0][able] <= bounds[0][able]).all()
            assert (reach[1][able] >= bounds[1][able]).all()
            assert (rough[0] <= reach[0])[able | opened].all()
            assert (rough[1] >= reach[1])[able | opened].all()
            for one, other in zip(bounds, reach, strict=True):
                np.testing.assert_array_equal(one[~opened], other[~opened])
        assert not (imputer.open(later, j) & ~imputer.open(known, j)).any()
        closed = imputer.open(known, j) & ~imputer.open(later, j)
        assert imputer.able(later, j)[closed].all()
        again = noted(imputer, later, (5.0, 7.0))  # what is final stays
        done = ~imputer.open(later, j) & imputer.able(later, j)
        for one, other in zip(imputer.bounds(later, j), imputer.bounds(again, j), strict=True):
            np.testing.assert_array_equal(one[done], other[done])
        for one, other in zip(imputer.bounds(known, j), imputer.bounds(imputer.first(later), j), strict=True):
            np.testing.assert_array_equal(one, other)
        revised += int(closed.sum())
    assert revised or not any(imputer.open(known, j).any() for j in range(rows.values.shape[1]))


def test_some_imputer_has_hindsight():
    assert any(isinstance(imputer, Hindsight) and imputer.open(imputer.look(rows), 0).any()
               for imputer, rows in everything().values())  # fmt: skip


@settings(max_examples=200)
@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=6, unique=True),
    st.integers(-4, 4), st.integers(0, 3), st.booleans(), st.sampled_from([1.0, -1.0]),
)  # fmt: skip
def test_a_distribution_is_clipped_to_its_box(values, low, wide, final, sign):
    value = np.sort(np.array(values, float))
    often = np.arange(1.0, len(value) + 1)
    high = low + wide
    uncertain = empty_rows(1, 1, len(value))
    uncertain.lo[0, 0], uncertain.hi[0, 0] = sorted((low * sign, high * sign))
    zero = np.zeros(1, np.int64)
    found = Distributions(zero, np.array([len(value)]), value, often, zero)
    used, outside = pour(found, zero, 0, sign, uncertain, 0, np.array([final]))
    truth: dict[float, float] = {}
    for v, w in zip(value.tolist(), (often / often.sum()).tolist(), strict=True):
        inside = min(max(v, low), high) * sign
        truth[inside] = truth.get(inside, 0.0) + w
    start, size = int(uncertain.start[0, 0]), int(uncertain.size[0, 0])
    box = uncertain.lo[0, 0], uncertain.hi[0, 0]
    ends = (min(truth), max(truth))
    assert box == (ends if final else tuple(sorted((low * sign, high * sign))))
    assert outside == pytest.approx(sum(often[(value < low) | (value > high)]) / often.sum())
    assert size == len(truth)
    if start == ONE:
        assert box[0] == box[1]
        assert used == 0
    else:
        part = slice(start, start + size)
        got = dict(zip(uncertain.value[part].tolist(), uncertain.weight[part].tolist(), strict=True))
        assert list(got) == sorted(truth)
        assert got == pytest.approx(truth)
        assert uncertain.tail[start] == 1
        assert uncertain.tail[start + size - 1] == uncertain.weight[start + size - 1]
        assert box[0] < box[1]


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("lab-")])
def test_an_answer_depends_on_the_row_alone(name):
    imputer, rows = everything()[name]
    back = np.arange(len(rows.values))[::-1]
    for j in range(rows.values.shape[1]):
        whole = imputer.bounds(imputer.look(rows), j)
        turned = imputer.bounds(imputer.look(rows.part(back)), j)
        alone = imputer.bounds(imputer.look(rows.part(back[:1])), j)
        lacking = rows.missing[:, j]
        for both in zip(whole, turned, strict=True):
            np.testing.assert_array_equal(both[0][lacking], both[1][::-1][lacking])
        if lacking[-1]:
            assert np.array_equal((alone[0][0], alone[1][0]), (whole[0][-1], whole[1][-1]), equal_nan=True)


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith(("lab-", "function"))])
def test_an_answer_does_not_depend_on_the_order_of_the_history(name):
    (imputer, rows), (other, _) = everything()[name], shuffled()[name]
    for j in range(rows.values.shape[1]):
        known = imputer.look(rows)[rows.missing[:, j]]
        for one, then in zip(imputer.distributions(known, j), other.distributions(known, j), strict=True):
            np.testing.assert_array_equal(one, then)


def test_to_a_row_without_any_value_no_row_of_a_history_is_nearer_than_another():
    empty = np.full((1, len(NAMES)), np.nan)
    assert not any(knn(walks(), QUERY).able(empty, j).any() for j in range(len(NAMES)))


@pytest.mark.parametrize("name", names())
def test_what_is_kept_is_as_wide_as_promised_and_enough(name):
    imputer, rows = everything()[name]
    known = imputer.look(rows)
    assert known.shape == (len(rows.values), imputer.width)
    assert not (known == ASKED_NO_MORE).any()
    if imputer.lasting:  # another look in between changes nothing
        j = int(rows.missing.sum(axis=0).argmax())
        before = imputer.bounds(known, j)
        imputer.look(rows.part(np.arange(1)))
        np.testing.assert_array_equal(before, imputer.bounds(known, j))


@pytest.mark.parametrize("how", [{"rules": RULES}, {}, {"method": "last"}, {"method": "mean"}, {"method": "others"}])
def test_a_repository_shows_the_imputers_that_a_monitor_asks(how):
    repository = Repository.fit(walks(), QUERY, **how)
    chain = chain_of(repository, QUERY)
    assert chain is not None
    asked = [f"{name}: {'; '.join(fillers(chain, QUERY.names.index(name)))}" for name in repository.lattices]
    assert " ".join(repr(repository).split()).partition(") ")[2] == " ".join(asked)  # long lines are folded


def test_every_attribute_of_the_walks_is_missing_somewhere():
    assert rows_of_the_package().missing.any(axis=0).tolist() == [True] * len(NAMES)
