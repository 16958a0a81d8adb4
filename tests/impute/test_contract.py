"""Does every imputer keep the contract, the lab's rivals and a user's function included?

One test over all of them; see `fogline.impute.imputer` for what is promised.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from fogline.impute import knn
from fogline.impute.chain import Chain, chain_of
from fogline.impute.function import Function
from fogline.impute.imputer import Evidence, Imputer
from fogline.repository.repository import Repository
from fogline.rows.reader import Kinds, Reader
from tests.lab.examples import examples
from tests.walks import NAMES, QUERY, walks

RECENT = ["t(20), sensor -> heat(5)", "t(3), sensor, damp(2) -> light(5)"]
RULES = ["damp(0.5) -> heat(5)", "heat(2), light(3) -> damp(9)", *RECENT]


def function(rows: pa.RecordBatch) -> dict[str, list[object]]:
    """Knows something of heat, here and there, and of nothing else."""
    cells = zip(rows.column("damp").to_pylist(), rows.column("t").to_pylist(), strict=True)
    return {"heat": [None if damp is None else [(t % 5, 1), (damp, 2), (7.5, 1)] for damp, t in cells]}


@cache
def rows_of_the_package() -> Evidence:
    """Rows with gaps, with what their sensors have read before; some sensors are new."""
    table = walks(steps=12, begin=200, gaps=0.4)
    strangers = [f"{name}?" if k % 7 == 0 else name for k, name in enumerate(table["sensor"].to_pylist())]
    table = table.set_column(table.schema.get_field_index("sensor"), "sensor", pa.array(strangers))
    repository = Repository.fit(walks(), QUERY, rules=RULES)
    chain = chain_of(repository, QUERY)
    assert chain is not None
    assert chain.sensors is not None
    named = Reader(QUERY).read(table, Kinds())
    rows = named.rows
    values = chain.values(rows.clouds, rows.raw)
    every = np.ones(len(values), np.bool_)
    state = chain.sensors.state()
    context = chain.contexts(state, [(each,) for each in named.id], rows.arrived, values, every)
    return Evidence(values, np.isnan(rows.clouds.lo), rows.source, None, context)


def of_the_package() -> Iterator[tuple[str, Imputer, Evidence]]:
    fits = {
        "given": Repository.fit(walks(), QUERY, rules=RULES),
        "learnt": Repository.fit(walks(), QUERY),
        "last": Repository.fit(walks(), QUERY, method="last"),
        "mean": Repository.fit(walks(), QUERY, method="mean"),
        "others": Repository.fit(walks(), QUERY, method="others"),
    }
    for how, repository in fits.items():
        chain = chain_of(repository, QUERY)
        assert chain is not None
        for k, imputer in enumerate(chain.imputers):
            yield f"{how}-{k}-{type(imputer).__name__}", imputer, evidence_for(chain)
    yield "function", Function(function, QUERY), rows_of_the_package()
    yield "knn", knn(walks(), QUERY, k=7), rows_of_the_package()


def evidence_for(chain: Chain) -> Evidence:
    """The same rows, with a context as wide as this chain's sensors give it."""
    rows = rows_of_the_package()
    if chain.sensors is None or rows.context is None:
        return rows
    return Evidence(rows.values, rows.missing, rows.source, None, rows.context[:, : chain.sensors.width])


@cache
def everything() -> dict[str, tuple[Imputer, Evidence]]:
    found = [*of_the_package(), *((f"lab-{name}", imputer, rows) for name, imputer, _, rows in examples())]
    return {name: (imputer, rows) for name, imputer, rows in found}


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


@pytest.mark.parametrize("name", names())
def test_what_is_kept_is_as_wide_as_promised_and_enough(name):
    imputer, rows = everything()[name]
    known = imputer.look(rows)
    assert known.shape == (len(rows.values), imputer.width)
    if imputer.lasting:  # another look in between changes nothing
        j = int(rows.missing.sum(axis=0).argmax())
        before = imputer.bounds(known, j)
        imputer.look(rows.part(np.arange(1)))
        np.testing.assert_array_equal(before, imputer.bounds(known, j))


def test_every_attribute_of_the_walks_is_missing_somewhere():
    assert rows_of_the_package().missing.any(axis=0).tolist() == [True] * len(NAMES)
