"""Which instants do texts mean, whatever their zones, and on which clock?"""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

import fogline as fl
from fogline.pipeline.plan import make_plan
from fogline.rows.cells import REAL
from fogline.rows.clock import (
    INTEGER,
    STAMP,
    ZONED,
    as_instant,
    read_times,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROS = NOON.timestamp() * 1e6
SAME = (
    "2026-03-01T12:00:00Z", "2026-03-01T14:00:00+02:00", "2026-03-01 14:00:00+0200", "2026-03-01 12:00:00",
    "2026-03-01T12:00", "2026-03-01T12:00:00,000000999", "2026-03-01T12:00:00.000000999Z", " 2026-03-01T07:00-05 ",
)  # fmt: skip


@pytest.mark.parametrize("kind", [None, STAMP, ZONED, pa.timestamp("us", "Asia/Tokyo")])
def test_texts_of_every_form_are_one_instant(kind):
    for texts in ([each] for each in SAME):
        assert read_times(texts, "t", kind).value.tolist() == [MICROS]
    read = read_times(pa.array(SAME), "t", kind)
    assert read.value.tolist() == [MICROS] * len(SAME)
    assert read.refused == {}
    assert read.kind == (kind or ZONED)


def test_texts_without_any_zone_show_none_unless_the_clock_does():
    assert read_times(["2026-03-01T12:00:00"], "t").kind == STAMP
    assert read_times(["2026-03-01T12:00:00Z"], "t").kind == ZONED
    assert read_times(["2026-03-01T12:00:00"], "t", ZONED).kind == ZONED


@pytest.mark.parametrize(
    "text", ["2026-02-30", "noon", "2026-03-01T25:00", "5", "0000-01-01", "9999-12-31T23:59:59-14:00"]
)
def test_what_is_no_instant_refuses_its_row_only(text):
    read = read_times(["2026-03-01T12:00:00Z", text], "t", ZONED)
    assert read.value[0] == MICROS
    assert list(read.refused) == [1]


def test_where_a_clock_is_new_most_texts_decide_what_they_mean():
    assert read_times(["1", "n/a", "3"], "t").kind == REAL
    read = read_times(["1", "2026-03-01", "2026-03-02"], "t")
    assert read.kind == STAMP
    assert list(read.refused) == [0]
    mixed = read_times([1, "2", 3.5, NOON, None], "t")
    assert list(mixed.refused) == [1, 3]  # a text among numbers of a new clock is no number: nothing shows it
    assert read_times([1, "2"], "t", INTEGER).value.tolist() == [1.0, 2.0]


def test_times_at_the_ends_of_what_a_column_holds_are_refused_not_raised():
    for unit in ("s", "ms", "us", "ns"):
        column = pa.array([0, 2**63 - 1, -(2**63) + 1, None]).cast(pa.timestamp(unit))
        read = read_times(column, "t")
        assert list(read.refused) == [1, 2]
        assert np.isnan(read.value).tolist() == [False, True, True, True]


def test_a_monitor_moves_on_by_texts_of_both_sorts():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime="1 hour")
    monitor = fl.Monitor(query)
    for k, (now, text) in enumerate(zip(SAME, reversed(SAME), strict=True)):
        monitor.advance(now, [{"id": k, "t": text, "v": 1.0}])
    assert monitor.counts == {"rows": 8, "rejected": 0, "outside_limits": 0, "incomplete": 0}
    assert monitor.answer().num_rows == 8


def test_a_stream_of_texts_has_a_clock_that_shows_utc():
    schema = pa.schema([("id", pa.string()), ("t", pa.string()), ("v", pa.float64())])
    counting = fl.Query(attributes={"v": "max"}, id="id", time="t", last=5)
    assert make_plan(counting, schema, clock="timestamp").kind == ZONED
    assert make_plan(counting, schema, clock="number").kind == REAL
    assert make_plan(counting, schema, lateness="5 s").kind == ZONED
    with pytest.raises(fl.errors.QueryError, match="state it: clock='number' or clock='timestamp'"):
        make_plan(counting, schema)
    with pytest.raises(fl.errors.QueryError, match="it may be 'number' or 'timestamp'"):
        make_plan(counting, schema, clock="sundial")
    typed = schema.set(1, pa.field("t", pa.int64()))
    with pytest.raises(fl.errors.QueryError, match="but the times in 't' are int64; leave it out"):
        make_plan(counting, typed, clock="timestamp")
    living = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime=5)
    with pytest.raises(fl.errors.QueryError, match="are timestamps, so lifetime is a duration"):
        make_plan(living, schema, clock="timestamp")


def test_an_instant_that_a_person_writes_may_have_a_zone_or_none():
    for kind in (STAMP, ZONED):
        assert {as_instant(text, kind).cast(pa.int64()).as_py() for text in SAME} == {int(MICROS)}
