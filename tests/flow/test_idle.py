"""Does a group that lags lose rows because of others, and when is a silent one moved on?"""

from __future__ import annotations

import json
import random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.cli.run import status_line
from fogline.output.folder import LocalFolder
from fogline.pipeline.names import HEALTH
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import COUNTERS, BatchResult
from fogline.pipeline.stages import pruned
from fogline.pipeline.watermark import Farthest, HeardPair, event, few_pairs, later, reached
from fogline.runs.config import RunStatus
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.evaluation import Evaluation
from tests.contracts import net
from tests.flow.driving import Engine, changes_of, pruned_rows, rows_of, take

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=50, by=["site"])
ALL = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=50)
SCHEMA = pa.schema(
    [("id", pa.string()), ("site", pa.string()), ("t", pa.int64()), ("a", pa.float64()), ("b", pa.float64())]
)


def rows(site: str, begin: int, end: int, seed: int) -> pa.Table:
    """One row of a site at each instant."""
    rng = random.Random(seed)
    columns = [[f"{site}{t % 7}" for t in range(begin, end)], [site] * (end - begin), list(range(begin, end))]
    columns += [[rng.random() for _ in range(begin, end)] for _ in range(2)]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def drive(batches: list[list[pa.Table]], **how: Any) -> tuple[BatchResult, Any]:
    plan = make_plan(QUERY, SCHEMA, **how)
    engine, journal = Engine(plan, 60, 200), BatchResult()
    for tables in batches:
        journal += engine.batch(tables)
    return journal, plan


def changes(journal: BatchResult, plan: Any, site: str) -> list[dict[str, Any]]:
    return [row for row in changes_of(journal, plan).to_pylist() if row["site"] == site]


def total(journal: BatchResult, name: str, site: str) -> int:
    return sum(row[name] for row in rows_of(journal, "health") if row["site"] == site)


def test_one_file_per_site_loses_nothing():
    a, b = rows("a", 1, 1001, 1), rows("b", 501, 901, 2)
    alone, plan = drive([[b]])
    found, _ = drive([[a], [b]])
    assert len(changes(alone, plan, "b")) > 100
    assert changes(found, plan, "b") == changes(alone, plan, "b")
    assert total(found, "late", "b") == total(found, "expired", "b") == 0


def test_sites_together_then_one_alone_then_the_other_lose_nothing():
    a, b = rows("a", 1, 1001, 1), rows("b", 1, 1001, 2)
    alone, plan = drive([[b.slice(0, 300)], [b.slice(300)]])
    found, _ = drive([[a.slice(0, 300), b.slice(0, 300)], [a.slice(300)], [b.slice(300)]])
    assert changes(found, plan, "b") == changes(alone, plan, "b")
    assert total(found, "late", "b") == 0


def test_with_an_idle_time_a_silent_group_follows_at_its_distance():
    a, b = rows("a", 1, 1001, 1), rows("b", 1, 100, 2)
    for idle in (200, 930, None):
        found, plan = drive([[a.slice(0, 99), b], [a.slice(99)], [], []], idle=idle)
        assert (max(row["time"] for row in changes(found, plan, "b")) > 99) is (idle == 200)
        left = {(row["id"], row["t"]) for row in changes(found, plan, "b") if row["change"] == "leave"}
        came = {(row["id"], row["t"]) for row in changes(found, plan, "b") if row["change"] == "enter"}
        assert (left == came) is (idle == 200)  # all have expired, or the newest are there still


def test_a_site_that_is_behind_by_less_than_the_idle_time_loses_nothing():
    a, b = rows("a", 1, 1001, 1), rows("b", 1, 1001, 2)
    alone, plan = drive([[b]])
    batches = [[a.slice(0, 300), b.slice(0, 20)]] + [
        [a.slice(300 + 50 * k, 50), b.slice(20 + 50 * k, 50)] for k in range(14)
    ]
    found, _ = drive([*batches, [b.slice(720)]], idle=400)
    assert changes(found, plan, "b") == changes(alone, plan, "b")
    lost, _ = drive([*batches, [], [b.slice(720)]], idle=100)
    assert total(lost, "expired", "b") > 0
    assert total(lost, "late", "b") >= total(lost, "expired", "b")


def test_rows_that_expired_before_they_could_enter_are_counted():
    a = rows("a", 1, 1001, 1)
    found, plan = drive([[a.slice(500)], [a.slice(0, 500)]])
    assert total(found, "expired", "a") > 0
    assert total(found, "expired", "a") <= total(found, "late", "a")
    entered = {row["t"] for row in changes(found, plan, "a") if row["change"] == "enter"}
    assert not any(t <= 450 for t in entered)


def test_while_old_rows_are_read_no_group_is_moved_on_and_afterwards_it_is():
    a, b = rows("a", 1, 1001, 1), rows("b", 1, 100, 2)
    reading = make_plan(QUERY, SCHEMA, idle=200, moves_idle=False)
    engine, journal = Engine(reading, 60, 200), BatchResult()
    journal += engine.batch([a, b])
    journal += engine.batch([])
    assert engine.newest == 0
    engine.newest = event(reading.kind, 500)  # as an earlier run that followed has left it
    journal += engine.batch([])
    journal += engine.batch([])
    assert max(row["time"] for row in changes(journal, reading, "b")) <= 99
    engine.plan = make_plan(QUERY, SCHEMA, idle=200)
    more: BatchResult = []
    for tables in ([rows("a", 1001, 1101, 3)], [], []):
        more += engine.batch(tables)
    there = {key for key in net(changes_of([*journal, *more], reading), ("site",)) if key[0] == "b"}
    assert not there  # all of it has expired
    assert any(key[0] == "b" for key in net(changes_of(journal, reading), ("site",)))


def test_no_id_alone_moves_the_clock_of_the_query():
    plan = make_plan(QUERY, SCHEMA, idle=200)
    good = rows("a", 1, 101, 1)
    wild = pa.table({n: [v] for n, v in zip(SCHEMA.names, ["z", "z", 10**9, 1.0, 1.0], strict=True)}, schema=SCHEMA)

    def events(table: pa.Table) -> set[int | None]:
        out = pruned(Plans.alone(plan), table.to_batches())
        return {each.event for each in out}

    assert events(wild) == {None}
    [both] = events(pa.concat_tables([good, wild]))
    [alone] = events(good)
    assert reached(plan.kind, alone) == pytest.approx(97)  # the fourth of seven ids
    assert both is not None
    assert both <= alone * 1.0001


@st.composite
def few_rows(draw: Any) -> tuple[list[tuple[str, str, int]], list[int], list[bool]]:
    """Rows of up to four pairs (site, id, time), how they are cut into batches, and where the run is started again."""
    pairs = st.sampled_from([("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")])
    made = draw(st.lists(st.tuples(pairs, st.integers(1, 400)), min_size=1, max_size=12))
    cuts = draw(st.lists(st.integers(1, 4), min_size=len(made), max_size=len(made)))
    return [(*pair, t) for pair, t in made], cuts, draw(st.lists(st.booleans(), min_size=20, max_size=20))


@settings(max_examples=60, deadline=None)
@given(few_rows())
def test_the_clock_of_the_query_is_where_two_ids_have_come_however_rows_are_cut(made):
    rows, cuts, starts = made
    plan = make_plan(QUERY, SCHEMA, idle=200, ahead="off")
    with TemporaryDirectory() as root:
        state = EmbeddedState(LocalFolder(root))
        evaluation, left = Evaluation(Plans.alone(plan), state), list(rows)
        for cut, anew in zip(cuts, starts, strict=False):
            some, left = left[:cut], left[cut:]
            if not some:
                break
            columns = [[i for _, i, _ in some], [g for g, _, _ in some], [t for *_, t in some]]
            table = pa.table(dict(zip(SCHEMA.names, [*columns, *[[1.0] * len(some)] * 2], strict=True)), schema=SCHEMA)
            list(evaluation.take(table.to_batches(), 0))
            state.commit()
            if anew:
                state = EmbeddedState(LocalFolder(root))
                evaluation = Evaluation(Plans.alone(plan), state)
    newest = {(g, i): max(t for h, j, t in rows if (h, j) == (g, i)) for g, i, _ in rows}
    second = sorted(newest.values())[-2] if len(newest) > 1 else None
    assert evaluation.watermark == (0 if second is None else event(plan.kind, second))


def test_a_pair_whose_clock_is_wrong_is_not_for_ever_one_of_the_two():
    there = Farthest().with_pairs([HeardPair(1, 100.0), HeardPair(2, 1e9)], 50.0)
    assert there.clock == 100.0
    for t in range(101, 202, 3):
        assert [each.name for each in there.pairs] == [2, 1]
        there = there.with_pairs([HeardPair(1, float(t))], 50.0)
    assert [each.name for each in there.pairs] == [1]  # the other one has been left behind
    then = there.with_pairs([HeardPair(3, 5e8)], 50.0)
    assert then.clock == 200.0
    assert Farthest.from_plain(json.loads(json.dumps(then.to_plain()))) == then


def test_a_slice_of_many_pairs_or_of_none_is_not_remembered():
    hashes = np.arange(9, dtype=np.uint64)
    for count in (0, 4, 5, 9):
        found = few_pairs(np.zeros(count, np.int64), hashes[:count], np.arange(float(count)))
        assert [pair.newest for _, pair in found] == (list(range(count)) if count <= 4 else [])
    several = few_pairs(np.array([0, 1, 0]), np.array([7, 7, 7], np.uint64), np.array([3.0, 1.0, 2.0]))
    assert sorted((group, pair.newest) for group, pair in several) == [(0, 3.0), (1, 1.0)]


def test_held_rows_of_several_groups_do_not_move_the_clock_of_the_query():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10, by=["site"])
    kinds = pa.schema([("id", pa.string()), ("site", pa.string()), ("t", pa.int64()), ("a", pa.float64())])
    engine = Engine(make_plan(query, kinds, idle="auto"), 50_000, 500_000, small=2_000)
    sums: dict[str, int] = dict.fromkeys(COUNTERS, 0)
    for t in range(40):
        crowd = [(f"s{i}", f"g{g}", t, float(i)) for g in range(4) for i in range(4)]
        wild = [("s0", "g0", 10**9, 1.0), ("s1", "g1", 2 * 10**9, 1.0)] if t == 20 else []
        made = [dict(zip(kinds.names, row, strict=True)) for row in crowd + wild]
        for row in rows_of(engine.batch([pa.Table.from_pylist(made, schema=kinds)]), HEALTH):
            sums = {name: sums[name] + row[name] for name in sums}
    assert (sums["rows"], sums["held"], sums["late"], sums["expired"]) == (642, 2, 0, 0)


def test_the_timer_is_set_where_the_clock_will_surely_have_reached_the_expiry():
    for instant, idle in ((0.1, 0.2), (1e15, 0.3), (3.0, 1e16), (7.0, 5.0)):
        assert later(instant, idle) - idle >= instant


def test_a_group_is_not_moved_on_by_the_watermark_without_an_idle_time():
    plan = make_plan(QUERY, SCHEMA)
    table = rows("a", 1, 60, 1)
    come = [each for some in pruned_rows(plan, table).values() for each in some]
    first = take(plan, '["a"]', None, come)
    assert first.timer is None
    then = take(plan, '["a"]', first.state, watermark=event(plan.kind, 10**6))
    assert not rows_of(then.journal, "changes")


def test_the_status_of_a_run_shows_what_is_held_and_what_had_expired():
    status = RunStatus()
    zeros = dict.fromkeys(COUNTERS, 0)
    for number, counts in enumerate(({"rows": 9, "held": 3}, {"rows": 5, "released": 1, "expired": 2, "rejected": 1})):
        status.update({HEALTH: pa.table({name: [n] for name, n in (zeros | counts).items()})}, number, 1.0, ALL)
    assert (status.total, status.held, status.expired, status.rejected) == (14, 2, 2, 1)
    assert status_line(status).endswith("1 rejected, 2 held, 2 expired")
    assert status_line(RunStatus()).endswith("0 rejected")
