"""Do groups that lie together on shards report what each would report alone, and are silent ones left alone?"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.errors import SnapshotError
from fogline.pipeline import loaded as cache
from fogline.pipeline import shard, small_groups
from fogline.pipeline.exchange import ArrivedRows, GroupRows, RowsByGroup, pack_groups, unpack_groups
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.plans import plans_of
from fogline.pipeline.report import BatchResult
from fogline.pipeline.runner import GroupRunner
from fogline.pipeline.shard import Block, Shard, ShardIndex, once, opened, shard_of
from fogline.pipeline.watermark import event
from fogline.queries import Queries
from fogline.state.store import MemoryStore
from tests.flow import test_latest as newest
from tests.flow.driving import Engine, ShardEngine, arrived, cut, plan_of, pruned_rows, rows_of, take
from tests.flow.moving import BORDER, MOVES
from tests.flow.moving import cut as cut_into_files
from tests.flow.test_runner import drives, flush
from tests.test_latest import changing

SIMPLE = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10, by=["g"])
SCHEMA = pa.schema([("id", pa.string()), ("g", pa.string()), ("t", pa.int64()), ("a", pa.float64())])


@contextmanager
def sizes(full: int, rows: int, large: int, at_once: int = 2) -> Iterator[None]:
    """So that pages are many, and some groups lie apart, in their page or under their own keys."""
    before = shard.FULL, small_groups.ROWS, cache.LARGE, shard.AT_ONCE, small_groups.FEW
    shard.FULL, small_groups.ROWS, cache.LARGE, shard.AT_ONCE, small_groups.FEW = full, rows, large, at_once, 1
    cache._cached.clear()
    try:
        yield
    finally:
        shard.FULL, small_groups.ROWS, cache.LARGE, shard.AT_ONCE, small_groups.FEW = before


def by_group(journal: BatchResult, plan: Plan) -> dict[Any, list[Any]]:
    """What is reported of each group, in its order."""
    out = defaultdict(list)
    for kind in (CHANGES, REJECTS, HEALTH):
        for row in rows_of(journal, kind):
            out[kind, *(row[name] for name in plan.query.by)].append(json.dumps(row, default=str))
    return dict(out)


TINY = st.sampled_from([(1, 256, 10**6), (2, 1, 10**6), (1, 2, 0), (48, 256, 10**6)])


EVERY = st.sampled_from(["tick", "batch"])


@given(drives(groups=3), TINY, st.sampled_from([None, 0, 3]), st.integers(1, 3), EVERY)
@settings(deadline=None, max_examples=60)
def test_groups_on_shards_report_what_each_reports_alone(drive, tiny, idle, buckets, every):
    together_as_alone(drive, tiny, idle, buckets, every)


@given(drives(groups=3, lateness=True), TINY, st.sampled_from([None, 0]), st.integers(1, 3), EVERY)
@settings(deadline=None, max_examples=20)
def test_so_do_groups_whose_rows_wait(drive, tiny, idle, buckets, every):
    together_as_alone(drive, tiny, idle, buckets, every)


def together_as_alone(drive, tiny, idle, buckets, every) -> None:
    stream, pieces, hold, slice_rows, chunk_rows = drive
    if not stream.by:
        return
    plan = plan_of(stream, pieces[0][0].schema, lateness=hold, idle=idle, buckets=buckets, every=every)
    alone, together = Engine(plan, slice_rows, chunk_rows), ShardEngine(plan, slice_rows, chunk_rows)
    with sizes(*tiny):
        for partitions in pieces:
            assert by_group(together.batch(partitions), plan) == by_group(alone.batch(partitions), plan)
        if idle is not None:
            assert by_group(flush(together), plan) == by_group(flush(alone), plan)
            assert bool(alone.states) == any(store.values for store in together.stores.values())


@given(changing(), newest.BORDERS, newest.EVERY, st.sampled_from([0, 0, 3]), TINY)
@settings(deadline=None, max_examples=30)
def test_so_do_groups_in_which_the_newest_row_of_each_id_counts(stream, borders, every, lateness, tiny):
    plan = newest.plan_of(stream, every=every, lateness=lateness, buckets=2)
    reported = []
    for engine in (Engine(plan, **newest.SIZES), ShardEngine(plan, **newest.SIZES)):
        with sizes(*tiny), newest.tiny(few=3):
            calls = [newest.table_of(rows, list(stream.attributes)) for _, rows in stream.calls if rows]
            reported.append([by_group(engine.batch(list(cut(rows, borders))), plan) for rows in calls])
    assert reported[1] == reported[0]


def table(*rows: Sequence[Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def group_rows(plan: Plan, *rows: Sequence[Any]) -> dict[str, list[GroupRows]]:
    return pruned_rows(plan, table(*rows))


class Noted(MemoryStore):
    """A store that notes which pages, and large groups, are read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: list[tuple[str, Any]] = []

    @property
    def pages(self) -> dict[int, bytes]:
        """By number."""
        return {part: value for (what, _, part), value in self.values.items() if what == "groups"}

    @property
    def large(self) -> dict[str, bytes]:
        """States of large groups, by key."""
        return {key: value for (what, key, _), value in self.values.items() if what == "large"}

    def get(self, namespace: str, key: str = "", part: int = 0) -> bytes | None:
        self._note("get", namespace, key, part)
        return super().get(namespace, key, part)

    def put(self, namespace: str, key: str, part: int, value: bytes) -> None:
        self._note("put", namespace, key, part)
        super().put(namespace, key, part, value)

    def _note(self, what: str, namespace: str, key: str, part: int) -> None:
        if namespace in ("groups", "large"):
            self.looked.append((what, part if namespace == "groups" else key))


def handed(plan: Plan, store: Noted, *rows: Sequence[Any], watermark: int | None = None) -> BatchResult:
    """One call for a worker that begins anew."""
    call = Shard(GroupRunner(plan), store)
    out = [
        part
        for report in call.take(arrived(plan, group_rows(plan, *rows)) if rows else ArrivedRows(), watermark)
        for part in report
    ]
    call.finish()
    return out


def test_pages_of_silent_groups_are_neither_read_nor_written():
    plan, store = make_plan(SIMPLE, SCHEMA, buckets=1), Noted()
    with sizes(2, 256, 10**6, at_once=2_000):
        handed(plan, store, *((f"{k}{g}", f"g{g}", k, float(k)) for g in range(40) for k in (0, 1)))
        counts, _ = json.loads(store.values["index", "", 0])
        assert len(counts) == 32
        assert sum(counts) == 40
        before = dict(store.values)
        store.looked.clear()
        handed(plan, store, ("new", "g7", 2, 5.0))
    number = {name for _, name in store.looked}
    assert len(number) == 1
    assert store.looked == [("get", *number), ("put", *number)]
    changed = {name for name in store.values if store.values[name] != before[name]}
    assert changed <= {("index", "", 0), *(("groups", "", each) for each in number)}


def test_a_task_that_is_done_again_does_the_same():
    plan, store = make_plan(SIMPLE, SCHEMA, buckets=1), Noted()
    handed(plan, store, ("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "y", 1, 0.5))
    again = copy.deepcopy(store)
    rows = [("d", "x", 2, 2.0), ("e", "z", 2, 1.0), ("f", "y", 3, 0.1)]
    assert by_group(handed(plan, store, *rows), plan) == by_group(handed(plan, again, *rows), plan)
    assert store.values == again.values


def test_groups_leave_their_pages_when_they_are_forgotten_and_the_shard_with_the_last():
    plan, store = make_plan(SIMPLE, SCHEMA, idle=0, buckets=1), Noted()
    with sizes(1, 256, 10**6):
        handed(plan, store, ("a", "x", 1, 1.0), ("b", "y", 5, 1.0))
        dues = [due for due in json.loads(store.values["index", "", 0])[1] if due is not None]
        assert min(dues) == event(plan.kind, 11)  # when the first row expires
        gone = handed(plan, store, watermark=event(plan.kind, 12))
        assert [(row["g"], row["id"], row["change"]) for row in rows_of(gone, CHANGES)] == [("x", "a", "leave")]
        handed(plan, store, watermark=event(plan.kind, 1_000))
        handed(plan, store, watermark=event(plan.kind, 2_000))
    assert not store.values


def test_groups_that_time_reaches_report_in_one_order_however_they_lie_in_their_page():
    plan, store = make_plan(SIMPLE, SCHEMA, idle=0, buckets=1), Noted()
    for t, group in enumerate("xyyx"):
        handed(plan, store, (f"{t}", group, t, 1.0))
    assert opened(plan, store.pages[0]).keys == ['["y"]', '["x"]']  # the group that was written last lies last
    gone = handed(plan, store, watermark=event(plan.kind, 100))
    assert [row["g"] for row in rows_of(gone, HEALTH)] == ["x", "y"]


def test_state_of_another_plan_is_refused():
    plan, store = make_plan(SIMPLE, SCHEMA, buckets=1), Noted()
    handed(plan, store, ("a", "x", 1, 1.0))
    other = make_plan(fl.Query.from_dict(SIMPLE.to_dict() | {"lifetime": 11}), SCHEMA, buckets=1)
    with pytest.raises(
        SnapshotError, match=r"block of groups is that of another query: lifetime was 10\.0 and is now 11"
    ):
        handed(other, store, ("b", "x", 2, 1.0))


@pytest.mark.parametrize("tiny", [(1, 256, 10**6), (1, 1, 10**6), (1, 2, 0)], ids=["pages", "apart", "large"])
@pytest.mark.parametrize("name", ["rules", "rules, with lateness", "the newest of each id", "several queries"])
def test_a_run_that_moves_to_another_repository_moves_its_shards(name, tiny):
    several, move = name == "several queries", MOVES["rules" if name == "several queries" else name]
    other = fl.Query(**move.query.to_dict() | {"alpha": 0.6, "lifetime": 9})
    asked = Queries({"one": move.query, "two": other}) if several else move.query
    parts, before, after = cut_into_files(move), move.before(), move.after()
    how = {"schema": parts[0].schema, "buckets": 2, **move.how}
    old, new = (
        plans_of(asked, opened=lambda: before, **how),
        plans_of(asked, opened=lambda: after, formers=[lambda: before], **how),
    )
    alone, together = Engine(old, at_hand=False), ShardEngine(old)
    with sizes(*tiny):
        for k, part in enumerate(parts):
            if k == BORDER:
                alone.plan = together.plan = new
            reports = [sorted(json.dumps(row, default=str) for row in rows_of(engine.batch([part]), CHANGES))
                       for engine in (alone, together)]  # fmt: skip
            assert reports[0] == reports[1]
            assert reports[0]


def test_a_large_group_lies_under_its_own_key_and_comes_back_when_it_is_small(monkeypatch):
    plan, store = make_plan(SIMPLE, SCHEMA, idle=0, buckets=1), Noted()
    monkeypatch.setattr(small_groups, "ROWS", 2)
    monkeypatch.setattr(cache, "LARGE", 0)
    rows = [(f"{k}", "x", k, 9.0 - k) for k in range(5)]
    handed(plan, store, *rows, ("s", "y", 1, 1.0), ("t", "y", 1, 2.0))
    assert store.large.keys() == {'["x"]'}
    handed(plan, store, ("best", "x", 20, 1.0))
    assert not store.large


def test_a_page_does_not_carry_groups_that_are_heavy(monkeypatch):
    plan, store = make_plan(fl.Query(**SIMPLE.to_dict() | {"lifetime": 10_000}), SCHEMA, buckets=1), Noted()
    monkeypatch.setattr(cache, "_cached", type(cache._cached)())
    names = np.random.default_rng(1).integers(0, 2**60, (20, 900))
    handed(plan, store, *((f"{names[g, k]}", f"g{g}", k, 9_000.0 - k) for g in range(20) for k in range(900)))
    assert store.large.keys() == {f'["g{g}"]' for g in range(20)}
    assert all(len(each) > cache.LARGE for each in store.large.values())
    assert len(store.pages[0]) < 5_000
    cache._cached.clear()
    store.looked.clear()
    handed(plan, store, ("new", "g7", 900, 0.0))
    assert store.looked == [("get", 0), ("get", '["g7"]'), ("put", '["g7"]'), ("put", 0)]


def test_pages_are_as_many_as_groups_need():
    index = ShardIndex()
    assert not index.grow(shard.FULL)
    assert index.grow(shard.FULL + 1)
    assert len(index.counts) == len(index.dues) == 2
    assert index.grow(10 * shard.FULL)
    assert len(index.counts) == 16


def test_many_new_groups_are_dealt_into_pages_at_a_price_that_does_not_grow_with_the_pages(monkeypatch):
    plan, store, looked = make_plan(SIMPLE, SCHEMA, buckets=1), Noted(), list[int]()

    def part(page: Block, keys: set[str], really: Any = Block.part) -> Any:
        looked.append(len(page.keys))
        return really(page, keys)

    monkeypatch.setattr(Block, "part", part)
    with sizes(1, 256, 10**6, at_once=2_000):
        handed(plan, store, ("a", "x", 1, 1.0))
        looked.clear()
        handed(plan, store, *((f"{g}", f"g{g}", 1, 1.0) for g in range(500)))
    counts, _ = json.loads(store.values["index", "", 0])
    assert (len(counts), sum(counts)) == (512, 501)
    assert sum(looked) < 30 * 501
    pages = [opened(plan, store.pages[k]) for k, count in enumerate(counts) if count]
    assert len({key for page in pages for key in page.keys}) == 501


def test_shards_are_filled_evenly():
    counts = np.bincount([shard_of(json.dumps([f"s{k}"]), 8) for k in range(10_000)], minlength=8)
    assert counts.min() > 1_100
    assert counts.max() < 1_400


@given(drives(groups=3))
@settings(deadline=None, max_examples=20)
def test_rows_of_groups_are_unpacked_as_they_were_packed(drive):
    stream, pieces, *_ = drive
    plan = plan_of(stream, pieces[0][0].schema)
    for partitions in pieces:
        for part in partitions:
            there = [(key, each) for key, some in pruned_rows(plan, part).items() for each in some]
            again = list(unpack_groups(plan, pack_groups(plan, RowsByGroup.of(plan, there)))) if there else []
            for found in (again, there):  # of no rows the columns need no names
                found[:] = [(key, each) for key, each in found if len(each.rows.arrived) or each.rejects]
            assert [_plain(each, plan) for each in again] == [_plain(each, plan) for each in there]


def _plain(found: tuple[str, GroupRows], plan: Plan) -> tuple[Any, ...]:
    key, rows = found
    if not len(rows.rows.arrived):
        return key, rows.came, rows.rejects
    return key, pack_groups(plan, RowsByGroup.of(plan, [found]))


def test_a_table_is_taken_as_a_whole(monkeypatch):
    monkeypatch.setattr(shard, "AT_ONCE", 3)
    plan, rows = make_plan(SIMPLE, SCHEMA, lateness=2), [(f"{k}", f"g{k % 7}", k // 7, float(k % 5)) for k in range(40)]
    some = group_rows(plan, *rows)
    alone = [part for key, each in some.items() for part in take(plan, key, None, each, end=True).journal]
    together = [part for report in once(GroupRunner(plan), arrived(plan, some)) for part in report]
    assert by_group(together, plan) == by_group(alone, plan)


def test_groups_are_reported_in_one_order_whatever_the_order_in_which_their_rows_are_handed_over():
    plan = make_plan(SIMPLE, SCHEMA, buckets=1)
    come = group_rows(plan, *((f"{k}", f"g{k}", k % 3, float(k)) for k in range(9)))
    for one_by_one in (1, 10**6):
        found = []
        for keys in (list(come), list(reversed(come))):
            with sizes(2, 256, 10**6, at_once=one_by_one):
                call = Shard(GroupRunner(plan), MemoryStore())
                reports = call.take(arrived(plan, {key: come[key] for key in keys}))
                found.append([row for report in reports for row in rows_of(report, CHANGES)])
        assert found[0] == found[1]
