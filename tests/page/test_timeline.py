"""Does a timeline stay short, and exact in what it adds up to?"""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fogline.page.state import ADDED, Point, Timeline


def point(batch: int, **counted: int) -> Point:
    return Point(batch=batch, time=batch, live=batch, answer=batch % 7, waiting=0, held=0, seconds=1.0, **counted)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=120), st.integers(4, 20))
def test_points_are_few_in_order_and_add_up(rows: list[int], most: int) -> None:
    line = Timeline(most)
    for batch, n in enumerate(rows):
        line.add(point(batch, rows=n))
        line.count(batch, [("enter", n), ("leave", 1)])
    assert len(line.points) <= most
    batches = [each.batch for each in line.points]
    assert batches == sorted(set(batches))
    assert batches[-1] == len(rows) - 1
    totals = line.totals()
    assert (totals["rows"], totals["enter"], totals["leave"]) == (sum(rows), sum(rows), len(rows))
    assert totals["batches"] == totals["seconds"] == len(rows)
    assert set(totals) == set(ADDED)


def test_changes_of_joined_files_are_counted_where_their_times_were_reached() -> None:
    line = Timeline()
    for batch, time in enumerate([10, 20, 30]):
        line.add(Point(batch, time, 0, 0, 0, 0))
    line.count_by_time(
        pa.table({"time": [5, 10, 11, 20, 31], "change": ["enter", "leave", "enter", "update", "leave"]})
    )
    assert [(each.enter, each.leave, each.update) for each in line.points] == [(1, 1, 0), (1, 0, 1), (0, 1, 0)]
    line.count_by_time(pa.table({"time": pa.array([], pa.int64()), "change": pa.array([], pa.string())}))


def test_an_instant_belongs_to_the_last_batch_by_then() -> None:
    line = Timeline()
    line.add(Point(0, None, 0, 0, 0, 0))
    assert line.batch_at(3) is None
    line.add(Point(1, 10, 0, 0, 0, 0))
    line.add(Point(2, 10, 0, 0, 0, 0))
    assert [line.batch_at(at) for at in (9, 10, 99)] == [None, 2, 2]
