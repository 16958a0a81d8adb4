"""Do buckets of sensors give rows their contexts, whatever the cut into batches?"""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.pipeline.exchange import BucketRows
from fogline.pipeline.plan import BUCKETS, make_plan
from fogline.pipeline.report import BatchResult
from fogline.pipeline.sensor_state import bucket_of, name_of
from fogline.pipeline.sensors import Dealer, SensorStage
from fogline.repository.repository import Repository
from fogline.state.store import MemoryStore
from tests.contracts import CLOSE, agree, net
from tests.flow.driving import Engine, changes_of, cut
from tests.flow.test_runner import flush
from tests.walks import NAMES, QUERY, walks


@cache
def learnt() -> Repository:
    return Repository.fit(walks(), QUERY)


def stream(**how) -> pa.Table:
    return walks(**{"steps": 40, "gaps": 0.2, "begin": 200, **how})


def rows_for(plan, table: pa.Table, bucket: int) -> list[BucketRows]:
    [batch] = table.combine_chunks().to_batches()
    return [rows for k, rows in Dealer(plan).deal(batch) if k == bucket]


def test_every_sensor_has_one_bucket_and_all_buckets_are_used():
    assert {bucket_of((f"s{k}",), BUCKETS) for k in range(100)} == set(range(BUCKETS))
    assert name_of('["a", 5]') == name_of('["a", 5.0]') == name_of('["a", "5"]') == ("a", "5")
    assert name_of("[null, 7]") == (None, "7")


def test_contexts_do_not_depend_on_the_cut_into_batches_and_survive_as_bytes():
    plan = make_plan(QUERY, stream().schema, opened=learnt)
    sensors = learnt().sensors
    assert sensors is not None
    in_bucket = [name[0] for name in sensors.known_sensors if bucket_of(name, BUCKETS) == 3]
    table = stream().filter(pa.compute.is_in(stream()["sensor"], pa.array(in_bucket)))
    stage, store, parts = SensorStage(plan), MemoryStore(), []
    for begin in range(0, table.num_rows, 7):
        _, context = stage.impute(3, rows_for(plan, table.slice(begin, 7), 3), store)
        parts.append(context)
    both, at_once = [*rows_for(plan, table.slice(0, 30), 3), *rows_for(plan, table.slice(30), 3)], MemoryStore()
    _, whole = stage.impute(3, both, at_once)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert at_once.values == store.values
    values = np.stack([table[name].to_numpy() for name in NAMES], axis=1)
    wanted = np.isnan(values).any(axis=1)
    names = [(name,) for name in table["sensor"].to_pylist()]
    expected = sensors.state().update(names, table["t"].to_numpy().astype(float), values, wanted)
    np.testing.assert_array_equal(whole[wanted], expected)
    assert np.isnan(whole[~wanted]).all()


def test_rows_without_a_name_or_a_time_are_rejected_and_not_remembered():
    plan = make_plan(QUERY, stream().schema, opened=learnt)
    rows = [{"sensor": None, "t": 5, "heat": 1.0}, {"sensor": "s1", "t": None, "heat": 1.0}]
    bad = pa.Table.from_pylist(rows, schema=stream().schema)
    store = MemoryStore()
    [(key, taken)] = SensorStage(plan).take(0, rows_for(plan, bad, 0), store)
    assert (key, taken.came, taken.screened, len(taken.rows.arrived)) == ("[]", 2, 0, 0)
    assert [each.reason for each in taken.rejects] == [
        "the id 'sensor' is missing", "the time 't' is missing or not finite",
    ]  # fmt: skip
    assert not store.values  # nothing is written


def test_every_row_goes_to_one_bucket():
    plan = make_plan(QUERY, stream().schema, opened=learnt)
    taken = 0
    for bucket in range(BUCKETS):
        for key, rows in SensorStage(plan).take(bucket, rows_for(plan, stream(), bucket), MemoryStore()):
            assert key == "[]"
            assert rows.came == len(rows.rows.arrived) + rows.screened
            taken += rows.came
    assert taken == stream().num_rows


def test_no_function_is_asked_about_a_row_that_is_refused():
    seen: list[object] = []

    def impute(rows):
        seen.extend(rows.column("t").to_pylist())
        return {"heat": [1.0] * rows.num_rows}

    plan = make_plan(QUERY, stream().schema, opened=learnt, imputer=impute)
    rows = [{"sensor": "s1", "t": 205, "damp": 1.0}, {"sensor": None, "t": 206, "damp": 1.0}]
    [batch] = pa.Table.from_pylist(rows, schema=stream().schema).to_batches()
    dealt = list(Dealer(plan).deal(batch))
    assert seen == [205]
    assert len(dealt) == 2  # one with a row, one with a reject


def renamed(table: pa.Table, first: int, kind: pa.DataType) -> pa.Table:
    """The same readings of sensors that are called by numbers, one after the other."""
    made = Decimal if pa.types.is_decimal(kind) else int
    names = [made(first + int(name[1:])) for name in table["sensor"].to_pylist()]
    return table.set_column(0, "sensor", pa.array(names, kind))


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (2**60, pa.int64()),
        (-(2**62), pa.int64()),
        (2**64 - 20, pa.uint64()),
        (10**30, pa.decimal128(38, 0)),
    ],
)
@pytest.mark.parametrize("lateness", [0, 3])
def test_sensors_called_by_numbers_beyond_2_to_the_53_stay_apart(first, kind, lateness):
    history, table = (renamed(each, first, kind) for each in (walks(), stream(steps=6, gaps=0.4)))
    repository = Repository.fit(history, QUERY)
    assert repository.sensors is not None
    assert len(repository.sensors.known_sensors) == 12
    plan = make_plan(QUERY, table.schema, opened=lambda: repository, lateness=lateness, idle=0)
    engine, journal = Engine(plan, 10, 20), BatchResult()
    for piece in cut(table, [20, 50]):
        journal += engine.batch([piece])
    changes = changes_of(journal + flush(engine), plan)
    expected = fl.Monitor(QUERY, repository).advance(205, table)
    for time in range(200, 206):
        agree(net(changes, until=time), net(expected, until=time), 2.5 * CLOSE)
    assert len({name for name, _ in net(expected, until=205)}) > 3
