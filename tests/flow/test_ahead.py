"""Does one wrong clock, or a silence, change what others are worth?"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.errors import QueryError
from fogline.kernels.heard import KEPT
from fogline.pipeline.clock_guard import Ahead
from fogline.pipeline.exchange import GroupRows
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import BatchResult
from fogline.pipeline.time_buckets import (
    BucketColumns,
    BucketStatistics,
    count_ids,
    end_to_end,
    hash_ids,
    joined,
    merged_buckets,
    moved,
    numbered,
)
from fogline.rows.changes import answer_of
from tests.flow.driving import Engine, changes_of, cut, pruned_rows, rows_of, take

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=10)
SCHEMA = pa.schema([("id", pa.string()), ("t", pa.int64()), ("a", pa.float64()), ("b", pa.float64())])
Row = tuple[str, int, float, float]
FAR = 10**9


def crowd(count: int, ids: int = 30, *, begin: int = 0, step: float | None = None, seed: int = 1) -> list[Row]:
    """Rows of some ids, in the order of their times; none comes twice."""
    rng, step = random.Random(seed), step or 1 / min(3, ids)
    return [(f"s{k % ids}", begin + int(k * step), rng.random(), rng.random()) for k in range(count)]


def bad(t: int = FAR, name: str = "bad") -> Row:
    return name, t, 2.0, 2.0  # it would beat all


def drive(
    rows: list[Row], cuts: list[int], *, parts: int = 1, sizes: tuple[int, int] = (40, 100), **how: Any
) -> tuple[list[Any], BatchResult]:
    """The answers one after the other, with the tick from which each holds; and what was reported."""
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
    plan = make_plan(QUERY, SCHEMA, **how)
    engine, journal = Engine(plan, *sizes), BatchResult()
    for piece in cut(table, cuts):
        journal += engine.batch(
            [piece.take(pa.array(range(k, piece.num_rows, parts), pa.int64())) for k in range(parts)]
        )
    return answers(changes_of(journal, plan)), journal


@cache
def undisturbed(count: int, ids: int = 30) -> list[Any]:
    """The answers without any bad row."""
    return drive(crowd(count, ids), [], sizes=(500, 1000))[0]


def answers(changes: pa.Table) -> list[Any]:
    answer: dict[Any, float] = {}
    out: list[Any] = [(None, {})]
    rows = sorted(changes.to_pylist(), key=lambda row: row["time"])
    for k, row in enumerate(rows):
        if row["change"] == "leave":
            del answer[row["id"], row["t"]]
        else:
            answer[row["id"], row["t"]] = row["probability"]
        if (k + 1 == len(rows) or rows[k + 1]["time"] != row["time"]) and answer != out[-1][1]:
            out.append((row["time"], dict(answer)))
    return out


def counted(journal: BatchResult) -> dict[str, int]:
    health = rows_of(journal, "health")
    return {name: sum(row[name] for row in health) for name in ("rows", "rejected", "held", "released", "late")}


def reasons(journal: BatchResult) -> list[str]:
    return [row["reason"] for row in rows_of(journal, "rejects")]


HELD = "held: its time runs ahead of its group by more than 100; it enters if other ids follow"


@pytest.mark.parametrize("place", [0, 1, 1499, 3000])
@pytest.mark.parametrize("borders", [[], [1], [2, 1500], [1000, 2000]])
def test_one_row_from_the_future_changes_no_answer_wherever_it_stands_and_however_the_stream_is_cut(place, borders):
    good = crowd(3000)
    alone = undisturbed(3000)
    found, journal = drive([*good[:place], bad(), *good[place:]], list(borders), parts=2, sizes=(500, 1000))
    assert found == alone
    assert reasons(journal) == [HELD]
    sums = counted(journal)
    assert (sums["rows"], sums["rejected"], sums["held"], sums["released"]) == (3001, 0, 1, 0)
    if place != 0:
        assert sums["late"] == 0


@given(st.data())
@settings(deadline=None, max_examples=20)
def test_one_id_that_runs_ahead_changes_no_answer_however_many_rows_it_sends(data):
    ids = data.draw(st.sampled_from([2, 5, 30]))
    come = crowd(400, ids)
    count = data.draw(st.integers(1, 60))
    start, step = data.draw(st.sampled_from([400, 2000, FAR])), data.draw(st.sampled_from([0, 1, 7]))
    for k in range(count):
        come.insert(data.draw(st.integers(3, len(come))), bad(start + k * step + (k if step == 0 else 0)))
    borders = data.draw(st.lists(st.integers(5, len(come)), max_size=5))
    found, journal = drive(come, borders)
    assert found == undisturbed(400, ids)
    sums = counted(journal)
    assert (sums["rows"], sums["held"], sums["released"]) == (400 + count, count, 0)


@pytest.mark.parametrize("borders", [[], [30], [200, 210], range(0, 400, 20)])
def test_a_time_that_many_ids_show_by_mistake_changes_no_answer(borders):
    come = crowd(400)
    for k in range(12):
        come.insert(31 + 25 * k, bad(FAR, f"s{k}"))
    found, journal = drive(come, list(borders))
    assert found == undisturbed(400)
    assert reasons(journal) == [HELD] * 12


@pytest.mark.parametrize("back", [2, 3, 30])
@pytest.mark.parametrize("borders", [[], [300], [301, 302, 305], range(0, 400, 7)])
def test_after_a_silence_the_stream_goes_on_as_soon_as_a_few_ids_are_back(back, borders):
    ids = 20 if back == 2 else 30
    come = crowd(300, ids) + crowd(100, back, begin=50_000, seed=2)
    monitored = drive(come, [], ahead="off")[0]
    found, journal = drive(come, list(borders))
    assert found == monitored
    sums = counted(journal)
    assert sums["held"] == sums["released"] == len(reasons(journal))
    assert sums["late"] == 0


def test_one_id_that_is_back_alone_is_held_and_so_reported():
    come = crowd(300) + crowd(100, 1, begin=50_000, seed=2)
    found, journal = drive(come, [320, 350])
    assert found == drive(crowd(300), [])[0]
    assert counted(journal)["held"] == 100
    assert sum(1 for reason in reasons(journal) if reason.startswith(HELD)) == len(reasons(journal)) > 0


@pytest.mark.parametrize("borders", [[], [150], [1, 2, 3], [300, 301], range(0, 400, 9)])
def test_in_a_group_of_one_id_a_row_alone_is_held_and_a_silence_ends_at_the_second_instant(borders):
    good = crowd(300, 1, step=1)
    alone, _ = drive(good, [])
    found, journal = drive([*good[:150], bad(name="s0"), *good[150:]], list(borders))
    assert found == alone
    assert counted(journal)["held"] == 1
    back = good + crowd(100, 1, begin=50_000, step=1, seed=2)
    found, journal = drive(back, list(borders))
    assert found == drive(back, [], ahead="off")[0]
    assert counted(journal)["held"] == counted(journal)["released"]


def test_rows_at_single_instants_far_apart_enter_when_half_of_the_ids_are_there():
    days = [(f"s{k}", 1000 * day, k / 10, 1 - k / 10) for day in range(5) for k in range(6)]
    for borders in ([], [6, 12, 18, 24], [3, 9, 20]):
        found, journal = drive(days, borders)
        assert found == drive(days, [], ahead="off")[0]
        assert counted(journal)["held"] == counted(journal)["released"]
    alone = [("s", 1000 * k, 1.0, 1.0) for k in range(5)]
    found, journal = drive(alone, [1, 2, 3, 4])
    assert [tick for tick, _ in found[1:]] == [tick for tick, _ in drive(alone[:4], [], ahead="off")[0][1:]]
    assert counted(journal) == {"rows": 5, "rejected": 0, "held": 4, "released": 3, "late": 0}  # the last one waits


def test_what_a_group_has_gone_on_without_is_given_up_and_the_state_stays_small():
    plan, kept = make_plan(QUERY, SCHEMA), None
    for k in range(12):
        rows = [*crowd(120, 6, begin=60 * k, step=1 / 2, seed=k), bad(FAR + 1000 * k)]
        taken = take(plan, "[]", kept, rows_of_group(plan, rows))
        kept, state = taken.state, taken.group
        assert state.ahead.held is None or len(state.ahead.held.arrived) <= 4
        assert len(state.ahead.heard) <= 8
        again = Ahead.from_arrays(state.ahead.to_arrays(plan.signs, plan.id), plan.signs, plan.width)
        assert (again.frontier, again.since, list(again.heard)) == (
            state.ahead.frontier,
            state.ahead.since,
            list(state.ahead.heard),
        )
    assert state.ahead.frontier == 7


def rows_of_group(plan: Any, rows: list[Row]) -> list[GroupRows]:
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
    return [each for some in pruned_rows(plan, table).values() for each in some]


def test_at_the_end_of_a_table_what_runs_ahead_is_rejected():
    good = crowd(300)
    for every in ("tick", "batch"):
        plan = make_plan(QUERY, SCHEMA, every=every)
        alone = take(plan, "[]", None, rows_of_group(plan, good), end=True).journal
        found = take(plan, "[]", None, rows_of_group(plan, [*good, bad(), bad(FAR + 7)]), end=True).journal
        assert answers(changes_of(found, plan)) == answers(changes_of(alone, plan))
        reason = "its time runs ahead of its group by more than 100, and no other id followed"
        assert reasons(found) == [reason] * 2
        assert (counted(found)["rejected"], counted(found)["held"]) == (2, 0)


def test_rows_that_are_held_do_not_decide_about_others_with_every_batch():
    good = crowd(300)
    for borders in ([], [100, 200]):
        alone = drive(good, borders, every="batch")[0]
        come = [*good[:99], bad(), *good[99:]]
        assert drive(come, [b + 1 for b in borders], every="batch")[0] == alone


def test_rows_that_run_ahead_together_are_counted_though_they_were_screened():
    plan = make_plan(QUERY, SCHEMA)
    state = take(plan, "[]", None, rows_of_group(plan, crowd(300))).state
    come = [("bad", FAR, 0.5, 0.5), ("bad", FAR + 1, 0.1, 0.1), ("bad", FAR + 2, 0.9, 0.9)]
    taken = take(plan, "[]", state, rows_of_group(plan, come))  # in a chunk of their own none runs ahead of another
    [health] = rows_of(taken.journal, "health")
    assert (health["rows"], health["held"], health["screened"]) == (3, 3, 0)
    assert sum(int(r.split("(")[1].split()[0]) if "(" in r else 1 for r in reasons(taken.journal)) == 3


def test_switched_off_one_row_moves_the_clock_as_far_as_it_likes():
    come = [*crowd(100), bad(), *crowd(100, begin=40, seed=2)]
    _, journal = drive(come, [101], ahead="off")
    assert counted(journal)["late"] > 0
    assert not reasons(journal)


def test_times_of_any_size_are_taken_or_held_and_never_an_error():
    schema = pa.schema([("id", pa.string()), ("t", pa.float64()), ("a", pa.float64()), ("b", pa.float64())])
    plan = make_plan(QUERY, schema, ahead=1e-3)
    wild = [-9e15, -1e-300, 0.0, 5e-324, 1e-3, 1.0, 2.0**52, 2.0**53, 9e307, float("inf"), float("nan")]
    table = pa.table({"id": [f"s{k}" for k in range(11)], "t": wild, "a": [1.0] * 11, "b": [1.0] * 11}, schema=schema)
    journal = BatchResult()
    engine = Engine(plan, 3, 5)
    for piece in cut(table, [2, 5, 9]):
        journal += engine.batch([piece])
    sums = counted(journal)
    assert sums["rows"] == 11
    assert sums["rejected"] + sums["held"] == len(reasons(journal))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"ahead": "1 hour"}, "the times in 't' are numbers, so ahead is a number, not '1 hour'"),
        ({"ahead": 0}, "ahead is 0; it is a finite length of time above 0, or 'off'"),
        ({"ahead": True}, "so ahead is a number, not True"),
        ({"idle": "soon"}, "so idle is a number, not 'soon'"),
        ({"idle": -1}, "idle is -1; it is a finite length of time from 0 on, or 'never'"),
    ],
)
def test_lengths_of_the_wrong_kind_are_refused_in_words(given, text):
    with pytest.raises(QueryError) as error:
        make_plan(QUERY, SCHEMA, **given)
    assert text in str(error.value)


def test_the_default_is_ten_lifetimes_or_a_day_or_off():
    stamps = pa.schema([("id", pa.string()), ("t", pa.timestamp("us")), ("a", pa.float64()), ("b", pa.float64())])

    def ahead(schema, **window):
        query = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", **window)
        return make_plan(query, schema).ahead

    assert ahead(SCHEMA, lifetime=10) == 100
    assert ahead(stamps, lifetime="1 hour") == 36e9
    assert ahead(stamps, last=5) == 86.4e9
    assert ahead(SCHEMA, last=5) == float("inf")


# --- The frontier, and what is heard ----------------------------------------------------------------------------------


def cell(names: str, least: float, greatest: float | None = None) -> BucketStatistics:
    ids = sorted(hash_ids(pa.array(list(names))).tolist())[:KEPT]
    return BucketStatistics(least, least if greatest is None else greatest, len(names), np.array(ids, np.uint64))


def test_the_ground_moves_as_its_rule_states():
    assert moved(0, {0: cell("abc", 0, 5)}) == 0
    assert moved(0, {0: cell("abc", 0, 5), 1: cell("a", 10, 15)}) == 0
    assert moved(0, {0: cell("abc", 0, 5), 1: cell("ab", 10)}) == 1
    assert moved(0, {0: cell("a", 0, 5), 1: cell("b", 10)}) == 1  # a group of one id at a time
    assert moved(0, {0: cell("abc", 0, 5), 7: cell("ab", 70)}) == 0  # one instant
    assert moved(0, {0: cell("abc", 0, 5), 7: cell("ab", 70, 71)}) == 7
    assert moved(0, {0: cell("abc", 0, 5), 7: cell("a", 70), 8: cell("b", 80)}) == 8
    assert moved(0, {0: cell("abc", 0, 5), 7: cell("a", 70), 9: cell("b", 90)}) == 0
    assert moved(0, {0: cell("a", 0, 5), 7: cell("a", 70, 71)}) == 7
    assert moved(0, {0: cell("a", 0, 5), 7: cell("b", 70, 71)}) == 0
    assert moved(0, {0: cell("a", 0, 5), 7: cell("b", 70, 71), 8: cell("b", 80), 9: cell("b", 90)}) == 9
    many = "".join(chr(65 + k) for k in range(50))
    assert moved(0, {0: cell(many, 0, 5), 7: cell("ABCD", 70, 71)}) == 0
    assert moved(0, {0: cell(many, 0, 5), 7: cell(many[:9], 70, 71)}) == 7  # about 50 ids: a sketch estimates


@given(st.lists(st.integers(0, 10**6), max_size=400), st.integers(1, 5))
@settings(deadline=None, max_examples=25)
def test_what_chunks_have_heard_joins_into_what_all_rows_show(ids, parts):
    plan = make_plan(QUERY, SCHEMA)
    rows = [(f"s{k}", i % 350, 1.0, 1.0) for i, k in enumerate(ids)]
    whole = joined(p.heard for p in rows_of_group(plan, rows))
    pieces = joined(p.heard for k in range(parts) for p in rows_of_group(plan, rows[k::parts]))
    assert {s: (c.least, c.greatest, c.ids.tolist()) for s, c in whole.items()} == {
        s: (c.least, c.greatest, c.ids.tolist()) for s, c in pieces.items()
    }
    for s, c in whole.items():
        true = len({name for name, t, *_ in rows if t // 100 == s})
        assert count_ids(c.ids) == true if true < 32 else 0.4 * true < count_ids(c.ids) < 2.2 * true


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 200)), min_size=1), st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_time_buckets_of_many_groups_merge_in_columns_as_each_group_s_would(heard, parts):
    pieces: list[dict[int, dict[float, BucketStatistics]]] = [{} for _ in range(parts)]
    for k, (group, bucket, name) in enumerate(heard):
        names = "".join(chr(65 + name + j) for j in range(name % 40))
        one = {float(bucket): cell(names, bucket * 10, bucket * 10 + k)}
        there = pieces[k % parts].setdefault(group, {})
        pieces[k % parts][group] = joined([there, one])
    group = np.array([g for piece in pieces for g, own in piece.items() for _ in own])
    columns = end_to_end([BucketColumns.of(piece.values()) for piece in pieces])
    number, count = numbered(group, columns.times[:, 0])
    merged, of = merged_buckets(number, count, columns), np.empty(count, np.int64)
    of[number] = group
    for g in range(2):
        own = merged.part(np.flatnonzero(of == g)).by_bucket()
        expected = joined([piece.get(g, {}) for piece in pieces])
        assert {s: (c.least, c.greatest, c.rows, c.ids.tolist()) for s, c in own.items()} == {
            s: (c.least, c.greatest, c.rows, c.ids.tolist()) for s, c in expected.items()
        }


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float32(), pa.string(), pa.large_string(), pa.binary(), pa.date32(), pa.bool_()]
)
def test_ids_of_every_kind_have_hashes_that_do_not_depend_on_where_they_lie(kind):
    values = pa.array([0, 1, 0, None, 1, 0], pa.int8())
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
    column = values.cast(pa.string()).cast(kind) if texts else values.cast(pa.int32()).cast(kind)
    found = hash_ids(column)
    assert found[0] == found[2] == found[5] != found[1] == found[4]
    assert hash_ids(column.slice(1, 4)).tolist() == found[1:5].tolist()
    assert hash_ids(column.dictionary_encode())[:3].tolist() == found[:3].tolist()
    assert not len(hash_ids(column.slice(0, 0)))


def test_changes_of_a_group_that_began_anew_add_up_to_its_answer():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10)
    kinds = pa.schema([("id", pa.string()), ("t", pa.float64()), ("a", pa.float64())])
    engine, journal = Engine(make_plan(query, kinds), 50, 500), BatchResult()
    calls = [[("A", 400, 9)], [("A", 405, 1)], [("B", 250, 5), ("C", 250, 4)], [("B", 310, 5), ("C", 310, 4)]]
    for call in calls:
        made = [{"id": name, "t": float(at), "a": float(a)} for name, at, a in call]
        journal += engine.batch([pa.Table.from_pylist(made, schema=kinds)])
    tables = [table for kind, table in journal if kind == "changes"]
    assert [(row["id"], row["t"]) for row in answer_of(tables, query).to_pylist()] == [("A", 400.0)]
    health = rows_of(journal, "health")
    assert [sum(row[name] for row in health) for name in ("held", "released")] == [2, 2]
