"""What does a user meet at the border: bad rows, clocks, types, restarts?"""

import re
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.results import Reject
from lab.experiments.pruning import layer_one

QUERY = fl.Query(attributes={"gas": "max", "oxygen": "min"}, id="id", time="t", lifetime=10)


def row(name="a", t=1, gas=5.0, oxygen=20.0, **more):
    return {"id": name, "t": t, "gas": gas, "oxygen": oxygen, **more}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"gas": float("inf")}, "not finite"),
        ({"gas": "much"}, "'gas' is 'much', which is not a number"),
        ({"gas": [(1, 0)]}, "weight that is not positive"),
        ({"gas": [(1, -2), (2, 1)]}, "weight that is not positive"),
        ({"gas": [(float("nan"), 1)]}, "missing or not finite"),
        ({"gas": [(float("inf"), 1), (1, 1)]}, "missing or not finite"),
        ({"gas": [1, 2]}, r"not a \(value, weight\) pair"),
        ({"id": None}, "the id 'id' is missing"),
        ({"t": None}, "the time 't' is missing"),
        ({"t": float("nan")}, "the time 't' is missing"),
        ({"t": "noon"}, "neither a number nor a timestamp"),
    ],
)
def test_a_bad_row_is_rejected_with_its_reason_and_disturbs_no_other(bad, reason):
    monitor, undisturbed = fl.Monitor(QUERY), fl.Monitor(QUERY)
    good = [row("x", gas=3.0), row("y", gas=[(1, 1), (9, 1)])]
    changes = monitor.advance(1, [good[0], row() | bad, good[1]])
    assert changes.equals(undisturbed.advance(1, good))
    [reject] = monitor.rejects
    assert re.search(reason, reject.reason)
    assert reject.row.keys() == row().keys()
    assert monitor.stats()["rejected"] == 1


def test_numbers_written_as_text_are_numbers():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row(gas="3.5")])
    assert monitor.answer()["gas"].to_pylist() == [3.5]


@pytest.mark.filterwarnings("error::fogline.errors.RowsRejectedWarning")
def test_without_a_repository_a_row_with_a_gap_is_rejected_and_the_first_one_is_warned_of():
    nothing: list[Any] = [None, float("nan"), []]
    for missing in nothing:
        monitor = fl.Monitor(QUERY)
        with pytest.warns(fl.RowsRejectedWarning) as caught:
            changes = monitor.advance(1, [row("a", gas=[(1, 1)]), row("b", gas=missing), row("c", gas=missing)])
        [warning] = caught
        assert str(warning.message) == (
            "2 of 3 rows rejected: 'gas' is missing, and there is no repository to impute it from (for instance the "
            "row of 'b'). Fit a repository to complete history, Monitor(query, fl.Repository.fit(history, query)), or "
            "give such a cell a list of (value, weight) pairs. The rows are in monitor.rejects; of each reason the "
            "first call is warned of."
        )
        assert warning.filename == __file__
        assert changes["id"].to_pylist() == ["a"]
        monitor.advance(2, [row("d", t=2, gas=missing)])  # not once more: here a warning would be an error
        assert [each.row["id"] for each in monitor.rejects] == ["b", "c", "d"]
        assert {each.reason for each in monitor.rejects} == {
            "'gas' is missing, and there is no repository to impute it from"
        }
        assert monitor.stats()["rejected"] == 3


def test_each_reason_is_warned_of_once_with_how_many_rows_it_concerns():
    monitor = fl.Monitor(QUERY)
    bad = [row("a", gas="much"), row("b", gas="lots"), row("c", t=9), row("d", t=8), row(None)]
    with pytest.warns(fl.RowsRejectedWarning) as caught:
        monitor.advance(1, bad)
    texts = [str(each.message).partition(" (for instance")[0] for each in caught]
    assert texts == [
        "2 of 5 rows rejected: 'gas' is 'much', which is not a number",
        "2 of 5 rows rejected: its time, 9, is later than now, 1",
        "1 of 5 rows rejected: the id 'id' is missing",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.RowsRejectedWarning)
        monitor.advance(2, [row("e", t=2, gas="more"), row("f", t=77), row(None, t=2)])
        with pytest.raises(fl.RowsRejectedWarning, match="1 of 1 row rejected: 'oxygen' is 'x'"):
            monitor.advance(2, [row("e", t=2, oxygen="x")])
    assert len(monitor.rejects) == 9


@pytest.mark.parametrize("remember", [False, True])
@pytest.mark.parametrize("how", [{"lifetime": 10}, {"latest": True, "carry": ["gas"]}])
def test_a_warning_that_is_made_an_error_is_raised_when_the_rows_are_taken(how, remember):
    query = fl.Query({"gas": "max", "oxygen": "min"}, id="id", time="t", **how)
    history = [{"id": f"old {k % 2}", "t": k, "gas": 3.0 + k, "oxygen": None} for k in range(8)]
    repository = fl.Repository.fit(history, query, method="last") if remember else None
    first, second = [row("a", oxygen=7.0)], [row("b", t=2), row("c", t=2, oxygen=None), row("a", t=3, oxygen=None)]
    taken, warned = (fl.Monitor(query, repository) for _ in range(2))
    for monitor in (taken, warned):
        monitor.advance(1, first)
    taken.warned = None
    taken.advance(3, second)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.RowsRejectedWarning)
        with pytest.raises(fl.RowsRejectedWarning, match="'oxygen' is missing"):
            warned.advance(3, second)
        assert warned.snapshot() == taken.snapshot()
        assert list(warned.rejects) == list(taken.rejects)
        warned.advance(4, [row("c", t=4, oxygen=None)])  # not once more
        taken.advance(4, [row("c", t=4, oxygen=None)])
    assert warned.snapshot() == taken.snapshot()
    assert warned.answer().equals(taken.answer())


def test_of_copies_the_one_without_a_gap_counts_where_there_is_no_repository():
    monitor = fl.Monitor(QUERY)
    with pytest.warns(fl.RowsRejectedWarning):
        monitor.advance(1, [row(gas=9.0, oxygen=None), row(gas=1.0)])
    assert monitor.answer()["gas"].to_pylist() == [1.0]


def test_an_unknown_column_is_an_error_with_a_guess():
    with pytest.raises(
        fl.errors.QueryError, match=r"no attribute 'oxygen'; it has gas, id, oxigen, t\.\nDid you mean 'oxigen'"
    ):
        fl.Monitor(QUERY).advance(1, [{"id": 1, "t": 1, "gas": 1, "oxigen": 2}])


def test_a_second_row_with_the_same_id_and_arrival_is_a_duplicate():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row(gas=1.0), row(gas=2.0), row("b", gas=9.0)])  # a is beaten, hence forgotten, at once
    monitor.advance(1, [row(gas=30.0)])
    monitor.advance(2, [row("b", t=2)])
    monitor.advance(3, [row("b", t=1, gas=9.0)])  # late
    assert [reject.row["gas"] for reject in monitor.rejects] == [1.0, 30.0, 9.0]
    assert monitor.stats()["late"] == 0


def test_rows_of_several_groups_may_share_id_and_arrival():
    query = fl.Query(attributes={"gas": "max"}, id="id", time="t", lifetime=10, by="site")
    monitor = fl.Monitor(query)
    changes = monitor.advance(1, [{"id": 1, "t": 1, "gas": 1, "site": s} for s in ("n", "s", None)])
    assert changes["site"].to_pylist() == ["n", "s", None]
    assert fl.Monitor.restore(query, monitor.snapshot()).answer().equals(monitor.answer())


def test_values_outside_their_limits_are_missing_or_reject_the_row():
    limits = {"gas": (0, 100)}
    base = QUERY.to_dict() | {"limits": limits}
    monitor = fl.Monitor(fl.Query.from_dict(base))
    monitor.advance(1, [row(gas=[(294, 1), (50, 1)])])
    assert monitor.answer()["probability"].to_pylist() == [1.0]
    assert monitor.stats()["outside_limits"] == 1
    with pytest.warns(fl.RowsRejectedWarning, match="'gas' is outside its limits .0, 100., and there is no repository"):
        monitor.advance(2, [row(t=2, gas=294)])
    assert monitor.stats()["rejected"] == 1
    strict = fl.Monitor(fl.Query.from_dict(base | {"outside": "reject"}))
    strict.advance(2, [row("a", t=2, gas=294), row("b", t=2)])
    assert strict.rejects[0].reason == "'gas' is outside its limits (0, 100)"
    assert strict.answer()["id"].to_pylist() == ["b"]


def test_timestamps_come_back_as_they_came():
    query = fl.Query(attributes={"gas": "max"}, id="id", time="t", lifetime="1 minute")
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    dicts = [{"id": 1, "t": start, "gas": 1.0}]
    frame, arrow = pd.DataFrame(dicts), pa.Table.from_pylist(dicts)
    iso = [{"id": 1, "t": start.isoformat(), "gas": 1.0}]
    for rows in (dicts, frame, arrow, iso):
        monitor = fl.Monitor(query)
        assert monitor.advance(start, rows)["time"].to_pylist() == [start]
        assert monitor.advance(start + timedelta(seconds=59)).num_rows == 0
        left = monitor.advance(start + timedelta(hours=1)).to_pylist()
        assert [(each["time"], each["change"]) for each in left] == [(start + timedelta(minutes=1), "leave")]


def test_naive_timestamps_dates_and_numpy_clocks_work():
    query = fl.Query(attributes={"gas": "max"}, id="id", time="t", lifetime="1 day")
    monitor = fl.Monitor(query)
    frame = pd.DataFrame({"id": [1], "t": pd.to_datetime(["2026-01-01"]), "gas": [1.0]})
    assert monitor.advance(np.datetime64("2026-01-01"), frame)["t"].to_pylist() == [datetime(2026, 1, 1)]
    assert monitor.advance(datetime(2026, 1, 2))["change"].to_pylist() == ["leave"]


@pytest.mark.parametrize(
    ("lifetime", "t", "text"),
    [("5 minutes", 3, "are numbers, so lifetime is a number"), (5, datetime(2026, 1, 1), "duration")],
)
def test_a_lifetime_of_the_wrong_kind_is_an_error(lifetime, t, text):
    query = fl.Query(attributes={"gas": "max"}, id="id", time="t", lifetime=lifetime)
    with pytest.raises(fl.errors.QueryError, match=text):
        fl.Monitor(query).advance(t, [{"id": 1, "t": t, "gas": 1}])


def test_numbers_and_timestamps_do_not_share_a_clock():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row()])
    with pytest.raises(fl.errors.ClockError, match="the times in 't' are int64"):
        monitor.advance(datetime(2026, 1, 1))
    monitor.advance(2, [row(t=datetime(2026, 1, 1)), row("good", t=2)])
    assert "but this clock shows numbers" in monitor.rejects[0].reason
    with pytest.raises(fl.FoglineError, match="one stream has one clock"):  # a whole column
        monitor.advance(3, pa.table({"id": ["a"], "t": [datetime(2026, 1, 1)], "gas": [1.0], "oxygen": [1.0]}))


@pytest.mark.parametrize(
    ("now", "t", "later", "reason"),
    [
        (10, 9, 12, "its time, 12, is later than now, 10"),
        (10.5, 9, 1e9, "its time, 1000000000, is later than now, 10.5"),
        (
            datetime(2026, 1, 1, 12),
            datetime(2026, 1, 1, 11),
            datetime(2026, 1, 1, 12, 30),
            "its time, 2026-01-01 12:30:00, is later than now, 2026-01-01 12:00:00",
        ),
    ],
)
def test_a_row_later_than_now_is_rejected_by_name_and_the_others_are_taken(now, t, later, reason):
    query = replace(QUERY, lifetime=10 if isinstance(t, int) else "1 hour 30 min")
    monitor, undisturbed = fl.Monitor(query), fl.Monitor(query)
    good = [row("x", t), row("y", t, gas=9.0, oxygen=30.0)]
    changes = monitor.advance(now, [good[0], row("ahead", later), {"id": None, "t": later}, good[1]])
    assert changes.equals(undisturbed.advance(now, good))
    assert [(each.row["id"], each.reason) for each in monitor.rejects] == [
        ("ahead", reason),
        (None, "the id 'id' is missing"),
    ]
    assert monitor.stats()["rows"] == 4
    if isinstance(later, int):  # it is not remembered: the same row may come when its time has
        assert monitor.advance(later, [row("ahead", later)])["id"].to_pylist() == ["ahead"]


def test_rows_of_another_shape_are_refused_in_words():
    with pytest.raises(fl.errors.RowsError, match="rows come as a pandas, Polars or Arrow table"):
        fl.Monitor(QUERY).advance(1, "rows.csv")
    table = pa.table({"id": [1], "t": [1], "gas": [[1.0]], "oxygen": [1.0]})
    with pytest.raises(fl.errors.RowsError, match="list<struct<value: double, weight: double>>"):
        fl.Monitor(QUERY).advance(1, table)
    with pytest.raises(fl.errors.RowsError, match="holds no numbers"):
        fl.Monitor(QUERY).advance(1, table.set_column(2, "gas", pa.array([b"x"])))


def test_sliced_and_chunked_tables_are_read_like_whole_ones():
    kind = pa.list_(pa.struct([("weight", pa.float32()), ("value", pa.int64())]))
    cells = [[{"value": v, "weight": 1.0}, {"value": v + 2, "weight": 3.0}] for v in range(6)]
    table = pa.table(
        {"id": list(range(6)), "t": [1] * 6, "gas": pa.array(cells, kind), "oxygen": [float(v) for v in range(6)]}
    )
    pieces = pa.concat_tables([table.slice(0, 2), table.slice(2, 1), table.slice(3)])
    for rows in (table.slice(1, 4), pieces.slice(1, 4), table.slice(1, 4).combine_chunks().to_batches()[0]):
        whole, part = fl.Monitor(QUERY), fl.Monitor(QUERY)
        assert part.advance(1, rows).equals(whole.advance(1, table.to_pylist()[1:5]))


def test_a_null_cell_in_a_column_of_distributions_is_missing():
    kind = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))
    table = pa.table({"id": [1, 2], "t": [1, 1], "gas": pa.array([[(1.0, 1.0)], None], kind), "oxygen": [1.0, 1.0]})
    with pytest.warns(fl.RowsRejectedWarning, match=r"1 of 2 rows rejected: 'gas' is missing.*the row of 2"):
        fl.Monitor(QUERY).advance(1, table)
    null_pair = table.set_column(2, "gas", pa.array([[(1.0, 1.0)], [None]], kind))
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, null_pair)
    assert [reject.row["id"] for reject in monitor.rejects] == [2]


def test_a_snapshot_of_another_query_or_of_nothing_is_refused_in_words():
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row()])
    saved = monitor.snapshot()
    other = fl.Query.from_dict(QUERY.to_dict() | {"alpha": 0.25})
    cases: list[tuple[fl.Query, Any, str]] = [
        (other, saved, "another query"),
        (QUERY, b"hello", "no snapshot"),
        (QUERY, saved[:-9], "cut short"),
        (QUERY, saved[:7] + b"\x63" + saved[8:], "has format"),
        (QUERY, saved[:-1] + bytes([saved[-1] ^ 1]), "damaged"),
        (QUERY, None, "no snapshot"),
    ]
    for query, data, text in cases:
        with pytest.raises(fl.errors.SnapshotError, match=text):
            fl.Monitor.restore(query, data)


def test_a_snapshot_is_restored_with_the_imputer_it_was_taken_with():
    def half(rows: pa.RecordBatch) -> dict[str, Any]:
        return {"gas": [0.5] * rows.num_rows}

    saved = fl.Monitor(QUERY, imputer=half).snapshot()
    fl.Monitor.restore(QUERY, saved, imputer=half)
    with pytest.raises(fl.errors.SnapshotError, match="was taken with half, and now there is none"):
        fl.Monitor.restore(QUERY, saved)


def test_an_untouched_monitor_can_be_saved_and_restored():
    again = fl.Monitor.restore(QUERY, fl.Monitor(QUERY).snapshot())
    assert again.advance(1, [row()])["change"].to_pylist() == ["enter"]


def test_explain_states_why_in_and_why_out():
    query = fl.Query(attributes={"v": "max"}, id="id", time="t", expires="e", alpha=0.5)
    monitor = fl.Monitor(query)
    cells = {"n": (5, [(3, 1), (0, 1)]), "c": (20, 2), "s": (30, [(-1, 1), (1, 1)]), "top": (2, 9)}
    monitor.advance(0, [{"id": k, "t": 0, "e": e, "v": v} for k, (e, v) in cells.items()])
    assert "'top' (arrived 0) surely beats it" in str(monitor.explain("c")[0])
    assert monitor.explain("top")[0].inside
    monitor.advance(2)
    assert str(monitor.explain("c")[0]).splitlines()[:4] == [
        "'c' is out of the answer with probability 0.5, which is not above 0.5: 'n' beats it with probability 0.5; it "
        "would enter if its v were 3 or more; to know the v of 'n' would move it most, by 0.5 on average.",
        "  'c' (arrived 0): 'n' (arrived 0) guards it",
        "  beaten by:",
        "    'n' (arrived 0): with probability 0.5",
    ]
    assert monitor.explain("n")[0].row.values["v"] == ((0.0, 0.5), (3.0, 0.5))
    monitor.advance(5)
    assert monitor.explain("c")[0].inside
    [unknown] = monitor.explain("no such row")
    assert not unknown.live
    assert unknown.sentence.endswith(
        "none came, or it was rejected, or has expired, or a row that lives at least as long surely beats it."
    )


def test_the_tables_of_an_explanation_show_what_a_later_reading_changed():
    was, now = ((1.0, 0.5), (9.0, 0.5)), ((2.0, 0.5), (4.0, 0.5))
    cell = fl.types.ImputedCell("v", was, "last", now, "a(1) -> v(2)", True, "rules", 3)
    row = fl.types.UncertainRow({"v": now})
    why = fl.types.Explanation((), "x", 1, True, "", 0.75, 0.0, row, (), (cell,))
    dominators, later = (fl.types.Dominator("y", 2, 0.25),), " (at first 1 to 9, by last), still open"
    assert replace(why, beaten_by=dominators, certainty="likely").tables() == [
        ("row", [("'x' (arrived 1)", "likely, P = 0.75")]),
        ("missing", [("v is missing", f"2 to 4, mean 3, by rule a(1) -> v(2), 3 rows of history{later}")]),
        ("beaten by", [("'y' (arrived 2)", "with probability 0.25")]),
    ]


def test_explain_states_what_is_known_of_a_row_that_is_not_live():
    def of(id, rows, now, **window):
        monitor = fl.Monitor(fl.Query({"v": "max"}, id="id", time="t", **window))
        for instant in range(1, now + 1):
            monitor.advance(instant, [each for each in rows if each["t"] == instant])
        [found] = monitor.explain(id)
        assert (found.live, found.inside, found.probability) == (False, False, 0)
        assert str(found) == found.sentence
        assert found._repr_html_().endswith("<td>out</td></tr></table>")
        return found.arrived, found.sentence.removeprefix(f"{id!r} is out of the answer: ").removesuffix(".")

    a, b, later = {"id": "a", "t": 1, "v": 5}, {"id": "b", "t": 1, "v": 3}, {"id": "c", "t": 2, "v": 9}
    beaten = "a row that lives at least as long surely beats it"
    unknown = f"it has no live row: none came, or it was rejected, or has expired, or {beaten}"
    assert of("b", [a, b], 1, lifetime=3) == of("b", [a, b], 3, lifetime=3) == (1, beaten)
    assert of("b", [a, b], 4, lifetime=3) == of("b", [a, b, later], 2, lifetime=3) == (None, unknown)
    assert of("b", [a, b, later], 2, last=3) == (1, beaten)  # it stands in the queue
    assert of("a", [a, b, later], 2, last=1) == (None, unknown)
    ends = [each | {"e": 9} for each in (a, b)]
    assert of("b", ends, 1, expires="e") == (1, f"its last row has expired, or {beaten}")
    removed = {"id": "b", "t": 2, "v": None, "gone": True}
    rows = [each | {"gone": False} for each in (a, b)]
    assert of("b", [*rows, removed], 3, latest=True, gone="gone") == (2, "its last row has expired or was removed")
    assert of("x", rows, 1, latest=True, gone="gone") == (
        None, "it has no live row: none came, or it was rejected, or has left long ago"
    )  # fmt: skip


def test_the_stats_count_each_row_once():
    rng = np.random.default_rng(3)
    query = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=7, alpha=0.4)
    monitor = fl.Monitor(query)
    for t in range(40):
        cells = rng.integers(0, 9, (8, 2)).tolist()
        rows = [
            {"id": k, "t": t, "a": [(a, 1), (a + 3, 2)] if k % 3 == 0 else a, "b": b} for k, (a, b) in enumerate(cells)
        ]
        monitor.advance(t, rows)
    stats = monitor.stats()
    pruned = sum(value for name, value in stats.items() if name.startswith("pruned_"))
    assert stats["rows"] == 320
    assert stats["forgotten"] <= pruned <= 320
    assert stats["pruned_spatial"] > 0
    assert stats["pruned_max_corner"] + stats["pruned_min_corner"] + stats["pruned_guard"] > 0
    layers = [node.layer for node in monitor.tree()]
    assert sum(layer_one(group.live) for group in monitor.groups.values()) == layers.count(1)
    assert stats["live"] == len(layers)
    assert stats["answer"] <= layers.count(1)


def test_the_stats_compare_no_row_with_another(monkeypatch):
    monitor = fl.Monitor(QUERY)
    monitor.advance(1, [row("a", gas=[(1, 1), (9, 1)]), row("b"), row("c", gas=8, oxygen=30)])

    def never(*_):
        raise AssertionError("rows were compared")

    monkeypatch.setattr(import_module("fogline.engine.audit"), "guards_among", never)
    assert monitor.stats()["live"] == 3
    with pytest.raises(AssertionError, match="rows were compared"):
        monitor.tree()


def test_of_very_many_rejects_only_those_that_are_kept_are_built(monkeypatch):
    built: list[Any] = []

    def counted(*parts):
        built.append(parts)
        return Reject(*parts)

    monkeypatch.setattr("fogline.monitor.KEPT_REJECTS", 3)
    monkeypatch.setattr("fogline.intake.take.Reject", counted)
    monitor = fl.Monitor(QUERY)
    monitor.advance(9, [row(t=t) for t in (12, 11, 4, 10, 14, 13)])
    assert [each.row["t"] for each in monitor.rejects] == [10, 14, 13]
    assert [each.reason.split(",")[1] for each in monitor.rejects] == [" 10", " 14", " 13"]
    assert (len(built), monitor.stats()["rejected"]) == (3, 5)
    monitor.advance(9, [row("b", t=20)])
    assert [each.row["t"] for each in monitor.rejects] == [14, 13, 20]


def test_changes_read_back_as_values():
    monitor = fl.Monitor(QUERY)
    [change] = fl.types.changes_of(monitor.advance(1, [row(gas=[(1, 1), (2, 1)])]).to_pylist(), QUERY)
    assert (change.change, change.id, change.probability, change.probability_error) == ("enter", "a", 1.0, 0.0)
    assert change.attributes == {"gas": None, "oxygen": 20.0}
