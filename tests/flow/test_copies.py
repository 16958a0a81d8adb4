"""Does screening answer as if it did not drop rows, when rows come in copies that do not agree?"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.arrays import UncertainRows
from fogline.engine.copies import duplicates
from fogline.kernels.sorting import borders
from fogline.pipeline import prune as screening
from fogline.pipeline.exchange import RowsByGroup, pack_groups, unpack_groups
from fogline.pipeline.plan import make_plan
from fogline.pipeline.report import BatchResult
from fogline.rows.names import DUPLICATE, Contents
from tests.contracts import CLOSE, agree, answer_of, net
from tests.flow.driving import Engine, changes_of, pruned_rows, rows_of

SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("e", pa.int64()), ("a", pa.float64()), ("b", pa.float64())])
ONE = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10)
TWO = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", expires="e")
ALL = 10**9  # no chunk is as large as that: all rows travel

Row = tuple[int, int, int, float, float]


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def row(id: int, t: int, a: float, b: float = 0.0, life: int = 10) -> Row:
    return id, t, t + life, a, b


def engine(query: fl.Query = ONE, **how: Any) -> Engine:
    return Engine(make_plan(query, SCHEMA, every=how.pop("every", "tick")), **how)


def ids(driven: Engine, *batches: list[list[Row]]) -> set[Any]:
    """The ids of the answer after batches of partitions."""
    answer: dict = {}
    for partitions in batches:
        answer = net(changes_of(driven.batch([table(rows) for rows in partitions]), driven.plan), since=answer)
    return {name[0] for name in answer}


def counted(journal: BatchResult, name: str) -> int:
    return sum(each[name] for each in rows_of(journal, "health"))


SIZES = [
    {"small": screening.SMALL, "slice_rows": 50, "chunk_rows": 500},
    {"small": 0, "slice_rows": 50, "chunk_rows": 500},
    {"small": 0, "slice_rows": 2, "chunk_rows": 3},
    {"small": 0, "slice_rows": 1, "chunk_rows": 1},
]
EVERY = pytest.mark.parametrize("every", ["tick", "batch"])
CUT = pytest.mark.parametrize("sizes", SIZES, ids=["small", "whole", "slices", "rows"])


@CUT
@EVERY
def test_a_copy_that_the_state_refuses_drops_no_other_row(sizes, every):
    first, then = [row(7, 5, 1.0)], [row(7, 5, 100.0), row(8, 5, 50.0)]
    driven = engine(every=every, **sizes)
    driven.batch([table(first)])
    journal = driven.batch([table(then)])
    assert [(r["reason"]) for r in rows_of(journal, "rejects")] == [DUPLICATE]
    assert ids(engine(every=every, **sizes), [first], [then]) == {8}
    monitor = fl.Monitor(ONE)
    monitor.advance(5, table(first))
    monitor.advance(5, table(then))
    assert {name[0] for name in answer_of(monitor)} == {8}


@pytest.mark.parametrize("sizes", SIZES[:2], ids=["small", "whole"])
@EVERY
def test_a_correction_that_comes_late_amid_rows_in_order_drops_no_other_row(sizes, every):
    first = [row(7, 5, 1.0), row(1, 6, 0.0)]
    late = [row(3, 4, 0.0), row(7, 5, 100.0, life=15)]
    then = [row(1, 7, 2.0), *late, *(row(k, k, 3.0) for k in range(8, 18)), row(2, 18, 0.0)]
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", expires="e")
    driven = engine(query, every=every, **sizes)
    driven.batch([table(first)])
    journal = driven.batch([table(then)])
    assert [r["reason"] for r in rows_of(journal, "rejects")] == [DUPLICATE]
    assert counted(journal, "conflicts") == 0
    assert ids(engine(query, every=every, **sizes), [first], [then]) == set(range(9, 18))


@CUT
@EVERY
@pytest.mark.parametrize("apart", [False, True])
def test_of_copies_in_one_batch_the_better_one_stays_wherever_they_stand(sizes, every, apart):
    some = [row(1, 1, 0.0), row(7, 5, 1.0), row(8, 5, 4.0), row(9, 5, 1.0), row(9, 5, 2.0)]
    for copy in (row(7, 5, 9.0), row(7, 5, 0.5)):
        for rows in ([*some, copy], [copy, *reversed(some)]):
            parts = [rows[:2], rows[2:4], rows[4:]] if apart else [rows]
            best = 7 if copy[3] == 9.0 else 8
            assert ids(engine(every=every, **sizes), parts) == {best}
            monitor = fl.Monitor(ONE)
            monitor.advance(5, table(rows))
            assert {name[0] for name in answer_of(monitor)} == {best}


@CUT
@EVERY
def test_a_row_of_the_newest_instant_leaves_its_name_even_if_it_never_matters(sizes, every):
    first = [row(1, 1, 0.0), row(8, 4, 5.0), row(9, 5, 5.0), row(7, 5, 1.0)]
    then = [row(7, 5, 100.0), row(2, 6, 0.0)]
    driven = engine(every=every, **sizes)
    driven.batch([table(first)])
    journal = driven.batch([table(then)])
    assert [r["reason"] for r in rows_of(journal, "rejects")] == [DUPLICATE]
    assert ids(engine(every=every, **sizes), [first], [then]) == {8, 9}


def test_a_row_that_cannot_be_read_does_not_make_a_good_one_its_copy():
    rows = [row(7, 5, np.inf), row(7, 5, 1.0)]
    journal = engine(slice_rows=9).batch([table(rows)])
    assert [r["reason"] for r in rows_of(journal, "rejects")] == ["'a' holds a value that is missing or not finite"]
    assert ids(engine(slice_rows=9), [rows]) == {7}


@CUT
def test_copies_take_no_place_among_the_newest_rows(sizes):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", last=2)
    rows = [row(1, 1, 9.0), row(2, 2, 1.0), row(2, 2, 0.5), row(2, 2, 0.1)]
    assert ids(engine(query, every="batch", **sizes), [rows]) == {1}


# --- Whatever the stream ----------------------------------------------------------------------------------------------


@st.composite
def rows_with_copies(draw, in_order: bool) -> list[list[Row]]:
    """Batches of rows over tiny domains, many of them copies; in order, or not."""
    n, small = draw(st.integers(2, 16)), st.integers(0, 3)
    rows = [(draw(small), draw(st.integers(0, 5)), draw(small) + 1, draw(small), draw(small)) for _ in range(n)]
    if in_order:
        rows.sort(key=lambda each: each[1])
    rows = [(id, t, t + life, float(a), float(b)) for id, t, life, a, b in rows]
    ends = sorted({*draw(st.lists(st.integers(1, n), max_size=3)), n})
    return [rows[begin:end] for begin, end in pairwise([0, *ends])]


SIZE = st.tuples(st.integers(1, 6), st.integers(1, 12))


def compare(driven: Engine, batches: list[list[list[Row]]], truths: list[pa.Table]) -> bool:
    """Is the answer the same at every tick?"""
    given, true = {}, {}
    for partitions, expected in zip(batches, truths, strict=True):
        changes = changes_of(driven.batch([table(rows) for rows in partitions]), driven.plan)
        for time in sorted({*changes["time"].to_pylist(), *expected["time"].to_pylist()}):
            if set(net(changes, since=given, until=time)) != set(net(expected, since=true, until=time)):
                return False
        given, true = net(changes, since=given), net(expected, since=true)
        try:
            agree(given, true, 2.5 * CLOSE)
        except AssertionError:
            return False
    return True


def reported(query: fl.Query, batches: list[list[Row]], ticks: bool = True) -> list[pa.Table]:
    """What a monitor reports of these batches."""
    monitor, clock, out = fl.Monitor(query), -1, []
    for rows in batches:
        clock = max([clock, *(each[1] for each in rows)])
        out.append(monitor.advance(clock, table(rows), every="tick" if ticks else "batch"))
    return out


@given(rows_with_copies(in_order=True), SIZE, st.sampled_from([ONE, TWO]), st.booleans())
@settings(deadline=None, max_examples=300)
def test_in_order_the_answer_is_that_of_a_monitor_at_every_tick(batches, size, query, ticks):
    driven = engine(query, every="tick" if ticks else "batch", slice_rows=size[0], chunk_rows=size[1])
    assert compare(driven, [[rows] for rows in batches], reported(query, batches, ticks))


@given(rows_with_copies(in_order=False), SIZE, st.sampled_from([ONE, TWO]), st.sampled_from(["tick", "batch"]))
@settings(deadline=None, max_examples=300)
def test_in_any_order_screening_changes_nothing_unless_a_conflict_is_counted(batches, size, query, every):
    batches = [list({each[:2]: each for each in rows}.values()) for rows in batches]  # copies are in the state
    plain, driven = (
        engine(query, every=every, small=small, slice_rows=size[0], chunk_rows=size[1]) for small in (ALL, 0)
    )
    journals = [plain.batch([table(rows)]) for rows in batches]
    again = engine(query, every=every, small=0, slice_rows=size[0], chunk_rows=size[1])
    assume(not sum(counted(again.batch([table(rows)]), "conflicts") for rows in batches))
    assert compare(driven, [[rows] for rows in batches], [changes_of(each, plain.plan) for each in journals])


@given(rows_with_copies(in_order=True), SIZE, st.sampled_from([ONE, TWO]), st.data())
@settings(deadline=None, max_examples=300)
def test_of_copies_in_several_partitions_one_counts(batches, size, query, data):
    cut = []
    for rows in batches:
        owner = [data.draw(st.integers(0, 2)) for _ in rows]
        cut.append([[each for each, k in zip(rows, owner, strict=True) if k == part] for part in range(3)])
    sizes = {"slice_rows": size[0], "chunk_rows": size[1]}
    driven = engine(query, **sizes)
    assume(not sum(counted(driven.batch([table(rows) for rows in each]), "conflicts") for each in cut))
    assert any(compare(engine(query, **sizes), cut, reported(query, chosen)) for chosen in choices(batches)), (
        "no choice of copies gives this answer"
    )


def choices(batches: list[list[Row]]):
    """The batches with one of the copies in each, in every way."""
    for each in product(*(product(*names(rows)) for rows in batches)):
        yield [list(rows) for rows in each]


def names(rows: list[Row]) -> list[list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for each in rows:
        found[each[:2]].append(each)
    return list(found.values())


# --- The parts --------------------------------------------------------------------------------------------------------


def contents(*rows: tuple[float, ...], expires: tuple[float, ...] | None = None) -> Contents:
    """Rows with plain values; the second attribute is better when smaller."""
    raw = np.array(rows, float)
    signs, ends = np.array([1.0, -1.0]), np.array(expires or [10.0] * len(rows))
    start, none = np.full(raw.shape, -1), np.empty(0)
    return Contents(raw, ends, UncertainRows(raw * signs, raw * signs, start, -start, none, none, none), signs)


def test_of_copies_the_better_stays_then_the_one_without_a_gap_then_the_one_that_lives_longer():
    assert contents((1, 5), (2, 9), (2, 8)).best([0, 1, 2]) == 2
    assert contents((np.nan, 0), (-7, 3)).best([0, 1]) == 1
    assert contents((1, 1), (1, 1), (1, 1), expires=(4, 6, 6)).best([0, 1, 2]) == 1


def test_a_copy_because_of_which_others_went_is_chosen_or_kept_unless_another_does_as_well():
    here, both = ["x", "x"], np.array([True, True])
    one = np.array([5.0, 5.0])
    apart = contents((3, 9), (2, 1))  # neither beats the other
    assert duplicates(None, here, one, -np.inf, lambda: apart) == ([1], [])
    assert duplicates(None, here, one, -np.inf, lambda: apart, np.array([False, True])) == ([0], [])
    assert duplicates(None, here, one, -np.inf, lambda: apart, both) == ([], [1])
    better = contents((3, 1), (2, 1))
    assert duplicates(None, here, one, -np.inf, lambda: better, both) == ([1], [])
    same = contents((3, 1), (3, 1))
    assert duplicates(None, here, one, -np.inf, lambda: same, both) == ([1], [])


def test_a_conflict_with_the_state_is_kept_and_counted():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=10)
    driven = engine(query, slice_rows=50, chunk_rows=500)
    driven.batch([table([row(7, 5, 1.0), row(1, 9, 0.0)])])
    # rows in no order: nothing shows that this 7 is late, and 8 has gone because of it
    jumbled = [row(1, 4, 0.0), row(2, 3, 0.0), row(3, 2, 0.0), row(7, 5, 100.0), row(8, 5, 50.0), row(9, 9, 0.5)]
    journal = driven.batch([table(jumbled)])
    assert counted(journal, "screened") == 1
    assert counted(journal, "conflicts") == 1
    assert not rows_of(journal, "rejects")
    assert {r["a"] for r in rows_of(journal, "changes") if r["change"] == "enter"} == {100.0}
    equal = engine(query, slice_rows=50, chunk_rows=500)  # a copy that agrees is refused
    equal.batch([table([row(7, 5, 100.0), row(1, 9, 0.0)])])
    journal = equal.batch([table(jumbled)])
    assert counted(journal, "conflicts") == 0
    assert [r["reason"] for r in rows_of(journal, "rejects")] == [DUPLICATE]


def test_borders_are_where_a_group_begins_and_ends():
    def found(times, crowd=9):
        inside, edge = borders(np.zeros(len(times), np.int64), np.array(times, float), 1, crowd)
        return "".join("i" if i else "e" if e else "-" for i, e in zip(inside, edge, strict=True))

    assert found([3, 3, 4, 5, 5]) == "eeiee"
    assert found([3, 4, 1, 4, 5, 6, 7, 2, 8, 8, 8, 8, 9]) == "eieiiii-iiiie"  # two late ones
    assert found([5, 2, 4, 3, 6]) == "ieiie"  # in no order
    assert found([3, 3, 4, 5, 5, 5], crowd=2) == "eeiiii"
    assert found([]) == ""


def test_whatever_is_marked_survives_the_way_to_the_group():
    driven = engine(slice_rows=50, chunk_rows=500)
    rows = [row(1, 1, 0.0), row(2, 2, 5.0), row(3, 2, 1.0), row(4, 4, 0.0)]
    [(key, [come])] = pruned_rows(driven.plan, table(rows), small=0).items()
    [(_, of_group)] = unpack_groups(driven.plan, pack_groups(driven.plan, RowsByGroup.of(driven.plan, [(key, come)])))
    assert dict(zip(of_group.rows.columns["id"].to_pylist(), of_group.rows.covering.tolist(), strict=True)) == {
        1: False, 2: True, 4: False,
    }  # fmt: skip
