"""Is a row that is later than the machine's clock rejected by name?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.pipeline.decode import NOW, asks_now
from fogline.pipeline.plan import make_plan
from fogline.pipeline.stages import refused
from tests.flow.driving import pruned_rows, rows_of, take

KIND = pa.timestamp("us", "UTC")
QUERY = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime="1 hour")
SCHEMA = pa.schema([("id", pa.string()), ("t", KIND), ("a", pa.float64())])
TODAY = 1_700_000_000_000_000  # 2023-11-14 22:13:20
HOUR = 3_600_000_000
LATER = 95_617_584_000_000_000  # the year 5000


def rows(*times: int) -> pa.Table:
    names = [f"s{k}" for k in range(len(times))]
    return pa.table({"id": names, "t": pa.array(times, KIND), "a": [float(k) for k in range(len(times))]}, SCHEMA)


def with_now(table: pa.Table, now: int = TODAY) -> pa.Table:
    return table.append_column(NOW, pa.array([now] * table.num_rows, KIND))


def rejects(table: pa.Table, **how: Any) -> list[str]:
    plan = make_plan(QUERY, SCHEMA, **how)
    return [reason for each in refused(plan, table.to_batches()) for reason in each["reason"].to_pylist()]


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        (TODAY + 20 * HOUR, None),
        (
            TODAY + 48 * HOUR,
            "its time, 2023-11-16 22:13:20, is 2 days ahead of this machine's clock",
        ),
        (
            TODAY * 1000,
            "its time, 55840-11-08 22:13:20, is 53,817 years ahead of this machine's clock; "
            "are milliseconds read as seconds?",
        ),
        (
            9_000_000_000_000_000_000,
            "its time, 287168-08-24 16:00:00, is 285,145 years ahead of this machine's clock",
        ),
    ],
)
def test_a_row_later_than_the_machines_clock_is_rejected_by_name(time, reason):
    found = rejects(with_now(rows(TODAY - HOUR, TODAY, time)))
    assert found == ([] if reason is None else [reason])


def test_the_machines_clock_is_not_asked_where_times_are_numbers_or_ahead_is_off():
    assert rejects(with_now(rows(LATER)), ahead="off") == []
    assert rejects(rows(LATER)) == []
    assert asks_now(make_plan(QUERY, SCHEMA))
    assert not asks_now(make_plan(QUERY, SCHEMA, ahead="off"))
    numbers = pa.schema([("id", pa.string()), ("t", pa.int64()), ("a", pa.float64())])
    assert not asks_now(make_plan(fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5), numbers))


def test_rows_of_such_a_time_are_shown_and_leave_no_trace():
    plan = make_plan(QUERY, SCHEMA)
    table = with_now(rows(TODAY, TODAY + HOUR, TODAY * 1000))
    group_rows = [each for some in pruned_rows(plan, table).values() for each in some]
    journal = take(plan, "[]", None, group_rows).journal
    [reject] = rows_of(journal, "rejects")
    assert "1700000000000000000" in reject["row"]
    assert NOW not in reject["row"]
    [health] = rows_of(journal, "health")
    assert (health["rows"], health["rejected"], health["held"], health["late"]) == (3, 1, 0, 0)


def test_a_time_of_another_millennium_is_held_and_shown():
    plan = make_plan(QUERY, SCHEMA)
    table = rows(TODAY, TODAY + 1, TODAY + HOUR, LATER)  # without the machine's clock
    group_rows = [each for some in pruned_rows(plan, table).values() for each in some]
    [reject] = rows_of(take(plan, "[]", None, group_rows).journal, "rejects")
    assert reject["reason"].startswith("held: its time runs ahead of its group by more than 10 hours")
    assert "5000-01-01" in reject["row"]
