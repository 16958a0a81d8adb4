"""Do groups that take their rows together report what each would report alone, and lie as they would then?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.pipeline import shard, small_groups
from fogline.pipeline.names import CHANGES, HEALTH
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.small_groups import GroupStates
from tests.flow.driving import DISTRIBUTION, Engine, ShardEngine, rows_of
from tests.flow.test_shard import by_group

GROUPS, BATCHES = 7, 24
ATTRIBUTES = {"a": "max", "b": "min", "c": "max"}
NEVER = 10**9


def stream(seed: int, *, gaps: float, few: int, uncertain: bool = False, expires: bool = True) -> list[pa.Table]:
    """Batches in which most groups have a few rows: many ties, a few copies, late rows, and rows that expire early."""
    random = np.random.default_rng(seed)
    out = []
    for k in range(BATCHES):
        n = int(random.integers(GROUPS, 3 * GROUPS))
        t = 3 * k + random.integers(0, 3, n) - 4 * (random.uniform(size=n) < 0.02)
        values = random.integers(0, few, (3, n)).astype(float)
        columns: dict[str, Any] = {
            name: pa.array(values[j], mask=random.uniform(size=n) < gaps) for j, name in enumerate(ATTRIBUTES)
        }
        if uncertain:
            pairs = [
                [{"value": x + m, "weight": 1.0 + m} for m in range(int(random.integers(1, 4)))] for x in values[2]
            ]
            columns["c"] = pa.array(pairs, DISTRIBUTION)
        names = pa.array([f"s{m}" for m in random.integers(0, 6, n)])
        life = random.choice([1, 2, 6, 20, 60], n) if expires else np.full(n, 20)
        sites = pa.array([f"g{g}" for g in random.integers(0, GROUPS, n)])
        out.append(pa.table({"id": names, "g": sites, "t": t, "until": t + life, **columns}))
    return out


def history() -> pa.Table:
    random = np.random.default_rng(5)
    t = np.arange(240)
    values = {name: random.integers(0, 12, 240).astype(float) for name in ATTRIBUTES}
    return pa.table({"id": [f"h{k}" for k in t], "t": t, "until": t + 5, **values})


REPOSITORY = fl.Repository.fit(
    history(),
    fl.Query(attributes=ATTRIBUTES, id="id", time="t", expires="until"),
    rules=["a(1) -> b(4)", "b(1), a(2) -> c(4)"],
    retention=0,
)

CASES: dict[str, dict[str, Any]] = {
    "numbers": {"gaps": 0.0, "few": 12},
    "ties": {"gaps": 0.0, "few": 3},
    "distributions": {"gaps": 0.0, "few": 8, "uncertain": True},
    "gaps": {"gaps": 0.15, "few": 12},
    "many gaps": {"gaps": 0.5, "few": 12},
    "gaps of rows that live equally long": {"gaps": 0.2, "few": 12, "expires": False},
}


def plan_for(tables: list[pa.Table], alpha: float, **how: Any) -> Plan:
    query = fl.Query(attributes=ATTRIBUTES, id="id", time="t", expires="until", alpha=alpha, by=["g"])
    return make_plan(query, tables[0].schema, opened=lambda: REPOSITORY, buckets=1, **how)


@contextmanager
def counted(few: int = 1) -> Iterator[dict[str, int]]:
    """How many groups that lie beside others were asked, and how many of them have taken their rows together."""
    really, before, found = small_groups.take_together, small_groups.FEW, {"asked": 0, "together": 0}

    def take(runner: Any, small: GroupStates, group_rows: Any) -> Any:
        out = really(runner, small, group_rows)
        found["asked"] += len(small.keys)
        found["together"] += 0 if out is None else len(out.states.keys)
        return out

    shard.take_together, small_groups.FEW = take, few  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        shard.take_together, small_groups.FEW = really, before  # type: ignore[attr-defined]


@pytest.mark.parametrize("every", ["tick", "batch"])
@pytest.mark.parametrize("name", CASES)
def test_each_group_reports_what_it_would_report_alone(name, every):
    for seed, alpha in enumerate((0.5, 0.0)):
        tables = stream(seed, **CASES[name])
        plan = plan_for(tables, alpha, every=every, ahead=50, idle=(None, 4)[seed])
        alone, beside = Engine(plan, 10_000, 10_000, at_hand=False), ShardEngine(plan, 10_000, 10_000)
        expected = [by_group(alone.batch([table]), plan) for table in tables]  # too few to go together
        with counted() as found:
            for table, each in zip(tables, expected, strict=True):
                assert by_group(beside.batch([table]), plan) == each
        assert found["together"] > found["asked"] * 0.4 > 10
        assert found["together"] < found["asked"]  # copies and late rows are left to loaded groups


def test_so_do_groups_whose_frontier_moves_with_each_batch_and_of_which_some_rows_run_ahead():
    random = np.random.default_rng(7)
    tables = []
    for table in stream(5, gaps=0.0, few=12, expires=False):
        far = 30 * (random.uniform(size=table.num_rows) < 0.03)
        later = {name: pa.array(table[name].to_numpy() + far) for name in ("t", "until")}
        tables.append(table.set_column(2, "t", later["t"]).set_column(3, "until", later["until"]))
    plan = plan_for(tables, 0.5, every="tick", ahead=3)
    alone, beside = Engine(plan, 10_000, 10_000, at_hand=False), ShardEngine(plan, 10_000, 10_000)
    parts = [[table.slice(0, 9), table.slice(9)] for table in tables]
    expected = [by_group(alone.batch(each), plan) for each in parts]
    held = 0
    with counted() as found:
        for each, then in zip(parts, expected, strict=True):
            reported = beside.batch(each)
            assert by_group(reported, plan) == then
            held += sum(row["held"] for row in rows_of(reported, HEALTH))
    assert found["together"] > 20
    assert held > 5


@pytest.mark.parametrize("every", ["tick", "batch"])
@pytest.mark.parametrize("name", ["distributions", "gaps"])
def test_what_is_saved_in_either_way_is_the_same_and_goes_on_in_the_other(name, every):
    tables = stream(3, **CASES[name])
    plan = plan_for(tables, 0.3, every=every, ahead=50)
    ways = {"together": [1], "one by one": [NEVER], "in turns": [1, NEVER, NEVER]}
    engines = {way: ShardEngine(plan, 10_000, 10_000) for way in ways}
    for k, table in enumerate(tables):
        reported = []
        for way, few in ways.items():
            with counted(few[k % len(few)]):
                reported.append(by_group(engines[way].batch([table]), plan))
        assert reported[0] == reported[1] == reported[2]
        saved = [shard.opened(plan, engine.stores[0].values["groups", "", 0]) for engine in engines.values()]
        assert described(saved[0]) == described(saved[1]) == described(saved[2])


def described(page: shard.Block) -> dict[str, Any]:
    """What a page holds of each group that lies beside others, whatever the order."""
    out: dict[str, Any] = {}
    if page.small is None:
        return out
    for k, key in enumerate(page.small.keys):
        columns = {name: column.tolist() for name, column in page.small.part([k]).columns.items()}
        names = sorted(columns.pop("newest_id"))
        out[key] = {name: str(column) for name, column in columns.items()}, names
    return out


def test_rows_that_did_not_travel_since_others_cover_them_are_counted():
    """Neither the first instant of a chunk nor the last: those travel."""
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=3, by=["g"])
    rows = [
        {"id": f"{g}{k}{m}", "g": f"g{g}", "t": 6 * k + m, "a": (4.0, 1.0, 2.0, 3.0, 5.0, 9.0)[m]}
        for k in range(6)
        for m in range(6)
        for g in range(3)
    ]
    table = pa.Table.from_pylist(rows)
    plan = make_plan(query, table.schema, buckets=1, every="batch", ahead=100)
    alone, beside = Engine(plan, 100, 100), ShardEngine(plan, 100, 100)
    with counted() as found:
        for k in range(6):
            part = table.slice(18 * k, 18)
            then = beside.batch([part])
            assert by_group(then, plan) == by_group(alone.batch([part]), plan)
    assert found["together"] > 0
    assert {(row["rows"], row["screened"], row["live"]) for row in rows_of(then, HEALTH)} == {(6, 3, 1)}
    assert [row["change"] for row in rows_of(then, CHANGES)].count("leave") == 3


def saved_in_both_ways(tables: list[pa.Table], plan: Plan) -> Iterator[dict[str, int]]:
    """After each batch: how many have taken their rows together. What is reported and saved is the same either way."""
    engines = {few: ShardEngine(plan, 10_000, 10_000, 10_000) for few in (1, NEVER)}
    for table in tables:
        asked = []
        reported = []
        for few, engine in engines.items():
            with counted(few) as found:
                reported.append(by_group(engine.batch([table]), plan))
            asked.append(found)
        assert reported[0] == reported[1]
        saved = [described(shard.opened(plan, engine.stores[0].values["groups", "", 0])) for engine in engines.values()]
        assert saved[0] == saved[1]
        yield asked[0]


def pairs_of(rows: list[tuple[int, int, float, float]], call: int) -> pa.Table:
    """For each group rows (arrival, expiry, a, b); a is one of two values."""
    out = [
        {"id": f"{call}-{k}", "g": f"g{g}", "t": t, "until": until, "b": b}
        | {"a": [{"value": a, "weight": 1.0}, {"value": a + 0.25, "weight": 1.0}]}
        for g in range(4)
        for k, (t, until, a, b) in enumerate(rows)
    ]
    fields = [("id", pa.string()), ("g", pa.string()), ("t", pa.int64()), ("until", pa.int64())]
    return pa.Table.from_pylist(out, pa.schema([*fields, ("a", DISTRIBUTION), ("b", pa.float64())]))


def pairs_plan(schema: pa.Schema, every: str) -> Plan:
    query = fl.Query(
        attributes={"a": "max", "b": "max"}, id="id", time="t", expires="until", alpha=0.3, by=["g"]
    )  # fmt: skip
    return make_plan(query, schema, buckets=1, every=every, ahead=500)


def test_a_crowd_that_is_to_be_judged_at_once_is_counted_as_it_would_be_alone():
    """Rows that are the same are judged once."""
    tables = [pairs_of([(0, 10, 900.0, 900.0), (0, 10, 0.0, 999.0)], 0)]  # the first keeps all of the others out
    for call in range(1, 6):
        some = [call * 48 + m for m in range(48)]
        tables.append(pairs_of([(call, 100, float(m // 2), 500.0 - m // 2) for m in some], call))
    tables.append(pairs_of([(12, 100, 600.0 + m // 2, 100.0 - m // 2) for m in range(16)], 6))
    found = list(saved_in_both_ways(tables, pairs_plan(tables[0].schema, "batch")))
    assert [each["together"] for each in found] == [0, 4, 4, 4, 4, 4, 4]


def test_a_group_most_of_whose_rows_leave_on_the_way_lies_as_it_would_alone():
    """A loaded group puts its slots in order then."""
    random = np.random.default_rng(1)
    tables = [pairs_of([(0, int(random.integers(5, 12)), float(k), 99.0 - k) for k in range(45)], 0)]
    rows = [(1 + k // 4, 16 + int(random.integers(0, 90)), 100.0 + k, -1.0 - k) for k in range(60)]
    tables.append(pairs_of(rows, 1))
    tables.append(pairs_of([(60, 99, 500.0, -500.0)], 2))
    found = list(saved_in_both_ways(tables, pairs_plan(tables[0].schema, "tick")))
    assert [each["together"] for each in found] == [0, 0, 4]
