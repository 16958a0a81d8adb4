"""Is everything that can matter still there after screening, and everything else accounted for?"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.errors import QueryError
from fogline.kernels.cover import Lives, matter
from fogline.kernels.sorting import repeats
from fogline.pipeline.decode import slices
from fogline.pipeline.exchange import GroupRows
from fogline.pipeline.plan import make_plan
from fogline.pipeline.rejects import as_json
from fogline.pipeline.stages import refused
from fogline.pipeline.watermark import event, reached, timer
from fogline.rows.names import key_columns
from tests.flow.driving import pruned_rows

QUERY = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", expires="e", by=["g"])
SCHEMA = pa.schema(
    [("id", pa.int64()), ("t", pa.int64()), ("e", pa.int64()), ("g", pa.string())]
    + [(name, pa.float64()) for name in ("a", "b")]
)


@st.composite
def boxes(draw):
    """Rows of two groups as boxes with lives, over tiny domains."""
    n = draw(st.integers(1, 14))
    small = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    group, arrived = np.array(draw(small)) % 2, np.array(draw(small), float)
    expires = arrived + np.array(draw(small), float) + 1
    lo = np.array([draw(small), draw(small)], float).T
    hi = lo + np.array([draw(small), draw(small)], float).T // 3
    return group, np.ascontiguousarray(lo), np.ascontiguousarray(hi), arrived, expires


def lives(lo, hi, arrived, expires) -> Lives:
    """Boxes of which all may cover and all may go."""
    return Lives(lo, hi, arrived, expires, np.ones(len(lo), bool), np.zeros(len(lo), bool))


def open_at(t, group, lo, hi, arrived, expires) -> set:
    """The rows that no row of the window at t surely beats: all that any probability depends on."""
    there = [i for i in range(len(lo)) if arrived[i] <= t < expires[i]]

    def beats(n, q) -> bool:
        return group[n] == group[q] and bool((lo[n] >= hi[q]).all() and (lo[n] > hi[q]).any())

    return {q for q in there if not any(beats(n, q) for n in there)}


@given(boxes(), st.integers(1, 3), st.sampled_from([0, 1, 2, 4096]), st.data())
@settings(deadline=None, max_examples=300)
def test_at_every_instant_the_same_rows_are_open_after_screening(rows, strong, most, data):
    group, lo, hi, arrived, expires = rows
    box = lo, hi, arrived, expires
    flags = st.lists(st.booleans(), min_size=len(group), max_size=len(group))
    covers, stays = (np.array(data.draw(flags)) for _ in range(2))
    kept, covering = matter(group, Lives(lo, hi, arrived, expires, covers, stays), strong, most)
    assert set(np.flatnonzero(stays)) <= set(kept)
    assert not (covering & ~covers[kept]).any()
    for t in range(12):
        full = open_at(t, group, *box)
        assert {int(kept[k]) for k in open_at(t, group[kept], *(each[kept] for each in box))} == full
        # those that went are covered by those that are marked, whatever becomes of the others
        gone = np.setdiff1d(np.arange(len(group)), kept)
        some = np.concatenate((gone, kept[covering]))
        assert not {int(some[k]) for k in open_at(t, group[some], *(each[some] for each in box))} & set(gone.tolist())


@given(boxes())
@settings(deadline=None)
def test_where_only_the_end_counts_nothing_stays_that_another_outlives_and_beats(rows):
    group, lo, hi, _, expires = rows
    lo = lo + np.arange(len(lo))[:, None] * 1e-6  # no equal sums
    hi = np.maximum(lo, hi)
    kept, _ = matter(group, lives(lo, hi, np.zeros(len(lo)), expires), 1)
    for q in kept:
        for n in kept:
            beaten = (lo[n] >= hi[q]).all() and (lo[n] > hi[q]).any()
            assert not (group[n] == group[q] and expires[n] >= expires[q] and beaten)


def test_most_rows_of_an_ordinary_chunk_go():
    rng = np.random.default_rng(1)
    points, time = rng.random((20_000, 3)), np.arange(20_000.0)
    group = np.zeros(len(points), np.int64)
    assert len(matter(group, lives(points, points, time, time + 1e6))[0]) < 1_000
    assert len(matter(group, lives(points, points, np.zeros(len(time)), time + 1e6))[0]) < 600


def test_repeats_are_found_by_group_name_and_arrival():
    found = repeats(np.array([0, 0, 1, 0, 0]), np.array([5, 5, 5, 5, 6]), np.array([1.0, 2.0, 1.0, 1.0, 1.0]))
    assert [each.tolist() for each in found] == [[3], [0]]


def table(*rows: tuple) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def group_rows(plan, rows: pa.Table, **sizes) -> dict[str, list[GroupRows]]:
    return pruned_rows(plan, rows, **sizes)


@given(st.integers(1, 7), st.integers(1, 9))
@settings(deadline=None, max_examples=20)
def test_every_row_travels_is_screened_or_is_rejected(slice_rows, chunk_rows):
    rows = [(i, i // 3, i // 3 + 2, "xy"[i % 2], float(i % 5), float(i % 3)) for i in range(30)]
    rows += [(None, 1, 2, "x", 1.0, 1.0), (50, 5, 1, "y", 1.0, 1.0), (51, 1, 2, "y", None, 1.0)]
    plan = make_plan(QUERY, SCHEMA)
    for key, found in group_rows(plan, table(*rows), slice_rows=slice_rows, chunk_rows=chunk_rows, small=0).items():
        group = json.loads(key)[0]
        assert sum(p.came for p in found) == sum(row[3] == group for row in rows)
        assert sum(p.came - p.screened - len(p.rejects) - len(p.rows.arrived) for p in found) == 0
        assert sum(len(p.rejects) for p in found) == {"x": 1, "y": 2}[group]
        assert max(each.greatest for p in found for each in p.heard.values()) == 9


def test_only_the_newest_rows_of_a_count_window_travel_where_only_the_end_counts():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", last=2)
    rows = table(*((i, i // 2, 0, "x", 1.0, 1.0) for i in range(9)))
    ids = {
        every: group_rows(make_plan(query, SCHEMA, every=every), rows, slice_rows=4, small=0)["[]"][0]
        .rows.columns["id"]
        .to_pylist()
        for every in ("tick", "batch")
    }
    assert ids == {
        "tick": list(range(9)),
        "batch": [6, 7, 8],
    }  # 6 and 7 came together: the group decides


def test_slices_hold_all_rows_in_order():
    rows = pa.table({"x": list(range(23))})
    cut = list(slices(rows.to_batches(max_chunksize=4), 10))
    assert [batch.num_rows for batch in cut] == [12, 11]
    assert [x for batch in cut for x in batch["x"].to_pylist()] == list(range(23))
    assert max(batch.num_rows for batch in slices(rows.to_batches(), 5)) <= 5


KEYS = [
    ("x", pa.string()),
    (7, pa.int16()),
    (2.5, pa.float64()),
    (True, pa.bool_()),
    (date(2024, 5, 1), pa.date32()),
    (datetime(2024, 5, 1, 12, 0, 0, 5, UTC), pa.timestamp("us", "UTC")),
    (datetime(2024, 5, 1, 12), pa.timestamp("us")),
    (Decimal("1.50"), pa.decimal128(9, 2)),
    (b"\x00\xff", pa.binary()),
]


@pytest.mark.parametrize(("value", "kind"), KEYS)
def test_a_group_has_one_name_that_gives_its_values_back(value, kind):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, by=["g"])
    rows = pa.table({"id": [1, 2, 3], "t": [1, 1, 1], "a": [1.0, 1.0, 1.0], "g": pa.array([value, None, value], kind)})
    plan = make_plan(query, rows.schema)
    found = group_rows(plan, rows)
    assert len(found) == 2
    assert {key_columns([key], plan.by)[0][0].as_py() for key in found} == {value, None}


def test_not_a_number_and_null_name_the_same_group():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, by=["g"])
    rows = pa.table({"id": [1, 2, 3], "t": [1, 1, 1], "a": [1.0] * 3, "g": [float("nan"), 0.0, -0.0]})
    rows = pa.concat_tables([rows, pa.table({"id": [4], "t": [1], "a": [1.0], "g": pa.array([None], pa.float64())})])
    assert set(group_rows(make_plan(query, rows.schema), rows)) == {"[null]", "[0.0]"}


def test_a_rejected_row_is_readable_as_it_came():
    row = {"a": float("nan"), "b": [{"value": 1.0, "weight": float("inf")}], "c": b"\x01", "d": date(2024, 1, 2)}
    assert json.loads(as_json(row)) == {
        "a": "nan", "b": [{"value": 1.0, "weight": "inf"}], "c": "01", "d": "2024-01-02",
    }  # fmt: skip


def test_texts_that_are_no_times_are_rejected_and_the_others_are_read():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime="1 hour")
    rows = pa.table({"id": [1, 2, 3], "t": ["2024-05-01T12:00:00", "noon", ""], "a": ["1", " 2 ", "x"]})
    plan = make_plan(query, rows.schema)
    reasons = [row["reason"] for batch in refused(plan, rows.to_batches()) for row in batch.to_pylist()]
    assert reasons == ["'t' is 'noon', which is not a timestamp", "the time 't' is missing or not finite"]
    [of_group] = group_rows(plan, rows)["[]"]
    [heard] = of_group.heard.values()
    assert heard.greatest == datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp() * 1e6


def test_texts_for_times_need_something_that_shows_what_they_are():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", last=5)
    with pytest.raises(QueryError, match="whether they mean numbers or timestamps"):
        make_plan(query, pa.schema([("id", pa.string()), ("t", pa.string()), ("a", pa.float64())]))


NUMBERS = st.floats(-1e300, 1e300)


@given(NUMBERS, NUMBERS)
def test_numbers_as_event_times_keep_their_order(x, y):
    real = pa.float64()
    assert (x <= y) <= (event(real, x) <= event(real, y))
    assert reached(real, event(real, x)) <= x <= reached(real, timer(real, x))
    assert 0 < event(real, x) <= timer(real, x) < 2**63 // 1000


def test_event_times_of_ordinary_numbers_are_exact():
    ordinary = [-3.0, -0.5, 0.0, 0.5, 1.0, 7.25, 1e6, 1.7e9 + 0.125, 1.7e12]
    assert [reached(pa.float64(), event(pa.float64(), x)) for x in ordinary] == ordinary
    assert all(a < b for a, b in pairwise(event(pa.int64(), x) for x in ordinary))


def test_event_times_of_timestamps_are_themselves():
    kind = pa.timestamp("us", "UTC")
    assert (event(kind, 1_500_700.0), timer(kind, 1_500_700.0), reached(kind, 1_500)) == (1_500, 1_501, 1_500_000.0)
    assert event(kind, -1.0) is None  # Spark's time begins in 1970
    assert reached(kind, 0) == -np.inf
