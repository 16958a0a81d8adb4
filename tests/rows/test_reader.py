"""What happens to odd clocks, names and numbers? Each of these once went wrong, or nearly did."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.engine import live

ONE = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime=10)


def row(name="a", t=1, v=1.0, **more):
    return {"id": name, "t": t, "v": v, **more}


@pytest.mark.parametrize("now", [float("inf"), float("nan"), True, "soon", 10**400])
def test_a_clock_must_be_moved_to_a_finite_time(now):
    monitor = fl.Monitor(ONE)
    monitor.advance(1, [row()])
    with pytest.raises(fl.errors.ClockError, match="now is"):
        monitor.advance(now)


@pytest.mark.parametrize("rows", [(each for each in [row()]), 5, "rows.csv", [1]])
def test_what_is_not_rows_is_refused_in_words(rows):
    with pytest.raises(fl.errors.RowsError, match="rows come as"):
        fl.Monitor(ONE).advance(1, rows)


@pytest.mark.parametrize(
    ("first", "second"), [(1, 1.5), (1, date(2026, 1, 1)), ("a", 1), (1, "a"), (pa.scalar(1, pa.int8()).as_py(), True)]
)
def test_a_stream_has_one_kind_of_id_and_a_row_of_another_kind_is_rejected(first, second):
    monitor = fl.Monitor(ONE)
    monitor.advance(1, [row(first)])
    changes = monitor.advance(2, [row(second, t=2), row(first, t=2, v=2.0)])
    assert "one stream has one kind" in monitor.rejects[0].reason
    assert [each["id"] for each in changes.to_pylist() if each["change"] == "enter"] == [first]
    if isinstance(second, float):  # numbers are looked at one by one: some may be the same in the stream's kind
        monitor.advance(3, pa.table({"id": [second], "t": [3], "v": [1.0]}))
        assert [reject.row["id"] for reject in monitor.rejects] == [second, second]
        return
    with pytest.raises(
        fl.errors.RowsError, match="one stream has one kind"
    ):  # a whole column: not a matter of its rows
        monitor.advance(3, pa.table({"id": [second], "t": [3], "v": [1.0]}))


def test_ids_of_one_family_widen():
    monitor = fl.Monitor(ONE)
    monitor.advance(1, pa.table({"id": pa.array([1], pa.int8()), "t": [1], "v": [1.0]}))
    monitor.advance(2, pa.table({"id": [1000], "t": [2], "v": [2.0]}))
    assert monitor.answer()["id"].to_pylist() == [1000]
    texts = fl.Monitor(ONE)
    texts.advance(1, pa.table({"id": pa.array(["a"]), "t": [1], "v": [1.0]}))
    texts.advance(2, pa.table({"id": pa.array(["b"], pa.large_string()), "t": [2], "v": [2.0]}))
    assert texts.answer()["id"].to_pylist() == ["b"]
    numbers = fl.Monitor(ONE)
    for t, name in enumerate(["1.5", "123.55"]):
        numbers.advance(t, [row(Decimal(name), t=t, v=float(t))])
    assert numbers.answer()["id"].to_pylist() == [Decimal("123.55")]


def test_a_group_of_another_kind_rejects_its_row():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime=10, by="g")
    monitor = fl.Monitor(query)
    monitor.advance(1, [row(g=1)])
    monitor.advance(2, [row(t=2, g="x"), row(t=2, g=[1]), row(t=2, g=1)])
    assert len(monitor.rejects) == 2
    assert monitor.answer()["g"].to_pylist() == [1, 1]


def test_ticks_between_whole_numbers_are_reported_as_they_are():
    monitor = fl.Monitor(fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime=2.5))
    monitor.advance(1, [row()])
    assert monitor.advance(9)["time"].to_pylist() == [3.5]
    column = fl.Monitor(fl.Query(attributes={"v": "max"}, id="id", time="t", expires="e"))
    assert column.advance(9, [row(e=1.5)])["time"].to_pylist() == [1.0, 1.5]
    late = fl.Monitor(ONE)
    late.advance(3.75, [])
    assert late.advance(4, [row(t=3)])["time"].to_pylist() == [3.75]


def test_whole_numbers_too_large_to_be_exact_are_refused():
    monitor = fl.Monitor(ONE)
    monitor.advance(1_700_000_000_000_000_002, [row(t=1_700_000_000_000_000_001)])
    assert "beyond 2^53" in monitor.rejects[0].reason


def test_clocks_with_and_without_a_zone_do_not_mix_but_zones_do():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime="1 minute")
    berlin = timezone(timedelta(hours=1))
    monitor = fl.Monitor(query)
    monitor.advance(datetime(2026, 1, 1, 11, tzinfo=UTC))
    table = pa.table(
        {"id": [1], "t": pa.array([datetime(2026, 1, 1, 11, 30)], pa.timestamp("us", "Europe/Berlin")), "v": [1.0]}
    )
    changes = monitor.advance(datetime(2026, 1, 1, 13, tzinfo=berlin), table)
    assert str(changes.schema.field("time").type) == "timestamp[us, tz=Europe/Berlin]"
    with pytest.raises(fl.errors.ClockError, match="Europe/Berlin"):
        monitor.advance(datetime(2026, 1, 1, 14))


@pytest.mark.parametrize("cell", [10**400, [(10**400, 1)], np.array([1, 2]), b"x", {"value": 1}])
def test_an_impossible_cell_refuses_its_row_only(cell):
    monitor = fl.Monitor(ONE)
    monitor.advance(1, [row("bad", v=cell), row("good")])
    assert [reject.row["id"] for reject in monitor.rejects] == ["bad"]
    assert monitor.answer()["id"].to_pylist() == ["good"]


def test_an_id_that_cannot_be_held_refuses_its_row_only():
    monitor = fl.Monitor(ONE)
    monitor.advance(1, pd.DataFrame({"id": pd.Series([2**70, pd.NA, 3], dtype=object), "t": 1, "v": 1.0}))
    assert monitor.answer()["id"].to_pylist() == [3]
    assert len(monitor.rejects) == 2


def test_a_zero_dimensional_array_is_a_number():
    monitor = fl.Monitor(ONE)
    monitor.advance(1, [row(v=np.array(5.0))])
    assert monitor.answer()["v"].to_pylist() == [5.0]


def test_huge_weights_do_not_overflow():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime=10, alpha=0.1)
    monitor = fl.Monitor(query)
    monitor.advance(1, [row("a", v=1.5), row("b", v=[(1, 1e308), (2, 1e308)])])
    assert monitor.answer()["probability"].to_pylist() == pytest.approx([0.5, 0.5])


def test_a_rejected_row_of_a_frame_is_as_it_came():
    monitor = fl.Monitor(ONE)
    monitor.advance(1, pd.DataFrame({"id": [9007199254740993], "t": [1], "v": [np.inf]}))
    assert monitor.rejects[0].row["id"] == 9007199254740993


def test_at_alpha_0_a_bracket_is_narrow():
    query = fl.Query(attributes={f"a{j}": "max" for j in range(4)}, id="id", time="t", lifetime=10, alpha=0)
    rng = np.random.default_rng(1)
    cells = lambda: {f"a{j}": [(int(v), 1) for v in rng.integers(0, 99, 12)] for j in range(4)}  # noqa: E731
    rows = [{"id": i, "t": 1, **cells()} for i in range(3)]
    exact, coarse = fl.Monitor(query), fl.Monitor(query, exact_limit=500)
    exact.advance(1, rows)
    coarse.advance(1, rows)
    assert coarse.stats()["inexact"] == 3
    difference = np.array(exact.answer()["probability"]) - np.array(coarse.answer()["probability"])
    assert np.abs(difference).max() <= live.WIDTH


def test_explain_finds_the_sure_one_among_many_that_are_all_but_sure():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", expires="e")
    monitor = fl.Monitor(query)
    nearly = [row(f"n{i}", v=[(4, 1), (1, 1e-18)], e=5) for i in range(10)]
    monitor.advance(1, [*nearly, row("sure", v=3, e=5), row("o", v=2, e=9)])
    assert "surely beats it" in monitor.explain("o")[0].reason


def test_a_restored_monitor_keeps_its_limit_of_places():
    query = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=10, alpha=0.1)
    wide = [(k, 1) for k in range(20)]
    monitor = fl.Monitor(query, exact_limit=50)
    monitor.advance(1, [{"id": i, "t": 1, "a": wide, "b": wide} for i in range(3)])
    again = fl.Monitor.restore(query, monitor.snapshot())
    assert again.answer().equals(monitor.answer())
    with pytest.raises(fl.FoglineError, match="exact_limit"):
        fl.Monitor(query, exact_limit=0)


def test_groups_without_live_rows_are_forgotten_but_counted():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", lifetime=2, by="g")
    monitor = fl.Monitor(query)
    for t in range(20):
        monitor.advance(t, [row(i, t=t, v=float(i), g=t) for i in range(3)])
    stats = monitor.stats()
    assert stats["groups"] <= 3
    assert stats["forgotten"] == 40
    assert fl.Monitor.restore(query, monitor.snapshot()).stats() == stats


def test_two_columns_of_one_name_are_an_error():
    table = pa.Table.from_arrays([pa.array([1.0])] * 4, names=["v", "v", "id", "t"])
    with pytest.raises(fl.errors.RowsError, match="several columns 'v'"):
        fl.Monitor(ONE).advance(1, table)
    with pytest.raises(fl.errors.RowsError, match="several columns of one name"):
        fl.Monitor(ONE).advance(1, pd.DataFrame([[1, 2, 3, 4]], columns=["v", "v", "id", "t"]))


def test_monitors_of_streams_with_other_columns_take_turns():
    one, two = fl.Monitor(ONE), fl.Monitor(fl.Query(attributes={"v": "min"}, id="name", time="when", lifetime=10))
    for t in range(1, 4):
        first = pa.table({"id": [f"a{t}"], "t": [t], "v": [float(t)]})
        second = pa.table({"v": [-float(t)], "name": [t], "more": ["x"], "when": [t]})
        assert one.advance(t, first).select(["id", "v"]).to_pylist()[-1] == {"id": f"a{t}", "v": float(t)}
        assert two.advance(t, second).select(["name", "v"]).to_pylist()[-1] == {"name": t, "v": -float(t)}


def test_columns_may_change_their_places_and_types_within_a_stream():
    monitor = fl.Monitor(ONE)
    monitor.advance(1, pa.table({"id": ["a"], "t": [1], "v": [1.0]}))
    monitor.advance(2, pa.table({"v": pa.array([2], pa.int32()), "more": [0], "t": [2], "id": ["b"]}))
    monitor.advance(3, pa.table({"t": [3.0], "v": ["3"], "id": pa.array(["c"]).dictionary_encode()}))
    assert monitor.answer().select(["id", "v"]).to_pylist() == [{"id": "c", "v": 3.0}]
