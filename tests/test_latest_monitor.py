"""What does a user of a Monitor see, where the newest row of each id counts?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.rows.changes import answer_of
from fogline.saved import pack, unpack
from tests.walks import walks

FIELDS: dict[str, Any] = {"attributes": {"heat": "max", "damp": "min"}, "id": "id", "time": "t", "latest": True}


def row(id: Any, t: Any, heat: Any = 1, damp: Any = 1, **more: Any) -> dict[str, Any]:
    return {"id": id, "t": t, "heat": heat, "damp": damp, **more}


def monitor_of(**more: Any) -> fl.Monitor:
    return fl.Monitor(fl.Query(**FIELDS | {"gone": "gone"} | more))


def changes_of(changes: pa.Table) -> list[tuple[Any, ...]]:
    return [(each["time"], each["id"], each["change"], each["t"], each["heat"]) for each in changes.to_pylist()]


# --- Changes ----------------------------------------------------------------------------------------------------------


def test_a_new_row_of_an_id_that_stays_in_is_one_update():
    monitor = monitor_of()
    assert changes_of(monitor.advance(1, [row("a", 1, 5)])) == [(1, "a", "enter", 1, 5.0)]
    assert changes_of(monitor.advance(2, [row("a", 2, 6)])) == [(2, "a", "update", 2, 6.0)]
    assert changes_of(monitor.advance(3, [row("b", 3, 9)])) == [(3, "a", "leave", 2, 6.0), (3, "b", "enter", 3, 9.0)]
    assert changes_of(monitor.advance(4, [row("b", 4, 2)])) == [(4, "a", "enter", 2, 6.0), (4, "b", "leave", 3, 9.0)]


def test_the_same_row_again_changes_nothing_and_is_no_duplicate():
    monitor = monitor_of()
    monitor.advance(1, [row("a", 1), row("a", 1)])
    assert monitor.advance(1, [row("a", 1)]).num_rows == 0
    assert monitor.advance(2, [row("a", 1)]).num_rows == 0
    assert (monitor.stats()["rejected"], monitor.stats()["stale"], monitor.stats()["rows"]) == (0, 0, 4)


def test_changes_add_up_to_the_answer_by_id():
    monitor, rows = monitor_of(lifetime=6), walks(sensors=6, steps=20)
    rows = rows.rename_columns(["id", "t", "heat", "damp", "light"])
    rows = rows.append_column("gone", pa.array([k % 17 == 3 for k in range(rows.num_rows)]))
    tables, answers = [], []
    for t in range(30):
        tables.append(monitor.advance(t, rows.filter(pa.compute.equal(rows["t"], t))))
        answers.append(monitor.answer())

    def shown(table: pa.Table) -> list[dict[str, Any]]:
        return sorted(table.select(["id", "t", "probability"]).to_pylist(), key=lambda row: row["id"])

    for upto, answer in enumerate(answers):
        assert shown(answer_of(tables[: upto + 1], monitor.query)) == shown(answer)
        assert shown(answer_of(tables, monitor.query, at=upto)) == shown(answer)
    assert len({row["t"] for answer in answers for row in shown(answer)}) > 10


# --- Removals ---------------------------------------------------------------------------------------------------------


def test_a_removal_needs_a_name_and_a_time_and_leaves_a_marker():
    monitor = monitor_of()
    monitor.advance(3, [row("a", 3)])
    changes = monitor.advance(4, [{"id": "a", "t": 4, "gone": "true"}])
    assert changes_of(changes) == [(4, "a", "leave", 3, 1.0)]
    assert monitor.advance(5, [row("a", 3)]).num_rows == 0  # older: stale
    assert changes_of(monitor.advance(6, [row("a", 4, 7)])) == [(5, "a", "enter", 4, 7.0)]  # of the same time
    stats = monitor.stats()
    assert (stats["stale"], stats["removed"], stats["markers"], stats["rejected"]) == (1, 1, 0, 0)


def test_a_stale_removal_is_ignored_and_one_of_an_unknown_id_is_remembered():
    monitor = monitor_of()
    monitor.advance(3, [row("a", 3)])
    monitor.advance(4, [{"id": "a", "t": 2, "gone": True}, {"id": "b", "t": 3, "gone": True}])
    monitor.advance(5, [row("b", 2)])
    assert monitor.answer()["id"].to_pylist() == ["a"]
    assert (monitor.stats()["stale"], monitor.stats()["markers"]) == (2, 1)


@pytest.mark.parametrize("made", [list, pd.DataFrame, pa.Table.from_pylist])
def test_operations_of_a_change_log_remove_by_their_listed_values(made):
    monitor = fl.Monitor(fl.Query(**FIELDS, gone={"op": ["d", "delete"]}))
    monitor.advance(1, made([row("a", 1, op="c"), row("b", 1, 1, 0, op="r")]))
    monitor.advance(2, made([{"id": "a", "t": 2, "op": "d"}]))
    monitor.advance(3, made([row("b", 3, 2, 0, op="u"), row("c", 3, 3, 1, op=None)]))
    assert monitor.answer()["id"].to_pylist() == ["b", "c"]
    assert monitor.stats()["rejected"] == 0


def test_what_cannot_be_understood_is_rejected_with_the_reason_and_disturbs_no_other():
    monitor = monitor_of(version="v")
    rows = [
        row("a", 1, gone="maybe", v=1),
        row("b", 1, gone=False, v="x"),
        {"id": None, "t": 1, "gone": True},
        {"id": "c", "t": None, "gone": True},
        {"id": "d", "t": 9, "gone": True},
        row("e", 1, v=1),
        {"id": "f", "t": 1, "gone": True, "heat": "n/a"},
    ]
    monitor.advance(2, rows)
    assert monitor.answer()["id"].to_pylist() == ["e"]
    reasons = [each.reason for each in monitor.rejects]
    assert len(reasons) == 5
    for reason, text in zip(
        reasons, ("neither true nor false", "version", "the id", "the time", "later than"), strict=True
    ):
        assert text in reason


def test_a_group_whose_ids_are_all_gone_stays_as_long_as_markers_do():
    for more, kept in (({}, 2), ({"remember_removed": 3}, 1)):
        monitor = monitor_of(by=["g"], **more)
        monitor.advance(1, [row("a", 1, g="x"), row("a", 1, g="y")])
        monitor.advance(2, [{"id": "a", "t": 2, "g": "x", "gone": True}])
        assert (len(monitor.groups), monitor.stats()["markers"]) == (2, 1)
        monitor.advance(9)
        assert (len(monitor.groups), monitor.stats()["markers"]) == (kept, kept - 1)
        assert monitor.stats()["removed"] == 1
        again = fl.Monitor.restore(monitor.query, monitor.snapshot())
        assert again.stats() == monitor.stats()
        for each in (monitor, again):
            each.advance(10, [row("a", 1, 5, g="x")])
            assert each.answer()["g"].to_pylist() == (["y"] if kept == 2 else ["y", "x"])


# --- Time -------------------------------------------------------------------------------------------------------------


def test_a_silent_id_leaves_when_its_life_ends_and_stays_without_one():
    for more, left in (({}, ["a"]), ({"lifetime": 3}, []), ({"expires": "e"}, [])):
        monitor = monitor_of(**more)
        monitor.advance(1, [row("a", 1, e=4)])
        monitor.advance(3, [row("a", 1, 2, e=4)])  # a correction, at the clock
        monitor.advance(5)
        assert monitor.answer()["id"].to_pylist() == left


def test_times_and_versions_may_be_timestamps():
    noon = datetime(2024, 5, 1, 12)
    monitor = monitor_of(version="v", lifetime="5 minutes", remember_removed="1 hour")
    monitor.advance(noon, [row("a", noon, 1, v=noon), row("a", noon, 2, v=noon + timedelta(seconds=1))])
    assert monitor.answer()["heat"].to_pylist() == [2.0]
    monitor.advance(noon, [row("a", noon, 3, v=noon)])
    assert monitor.answer()["heat"].to_pylist() == [2.0]
    again = fl.Monitor.restore(monitor.query, monitor.snapshot())
    again.advance(noon, [row("a", noon, 4, v=7)])
    assert "no timestamp" in again.rejects[0].reason
    again.advance(noon + timedelta(minutes=6), [{"id": "a", "t": noon, "gone": True, "v": noon}])
    assert (again.stats()["markers"], again.answer().num_rows) == (1, 0)


def test_a_snapshot_belongs_to_its_question():
    monitor = monitor_of()
    monitor.advance(1, [row("a", 1)])
    with pytest.raises(fl.errors.SnapshotError, match="another query"):
        fl.Monitor.restore(fl.Query(**FIELDS), monitor.snapshot())


def test_a_snapshot_of_the_version_before_is_restored():
    monitor = monitor_of()
    monitor.advance(1, [row("a", 1)])
    header, arrays = unpack(monitor.snapshot(), "snapshot")
    del arrays["marker_id"]  # it was not there where no id had been removed
    again = fl.Monitor.restore(monitor.query, pack(header, arrays))
    assert again.answer() == monitor.answer()


# --- Looking inside ---------------------------------------------------------------------------------------------------


def test_a_monitor_explains_why_an_id_is_out_and_shows_its_tree():
    monitor = monitor_of()
    monitor.advance(1, [row("a", 1, 5), row("b", 1, 3), row("c", 1, 2), row("d", 1, [(1, 1), (9, 3)], 1)])
    assert {node.id: node.layer for node in monitor.tree()}.keys() == {"a", "b", "c", "d"}
    [why] = monitor.explain("b")
    assert "'a' (arrived 1) surely beats it" in str(why)
    monitor.advance(2, [row("a", 2, 0)])
    [why] = monitor.explain("b")
    assert why.probability == pytest.approx(0.25)
    assert monitor.scores() == []
    monitor.check()


def test_a_table_that_is_looked_at_once_has_no_newest_rows():
    with pytest.raises(fl.errors.QueryError, match=r"Monitor\(query\).advance"):
        fl.skyline([row("a", 1)], fl.Query(**FIELDS))


# --- What sensors have read before ------------------------------------------------------------------------------------

SENSORS: dict[str, Any] = {"attributes": {"heat": "max", "damp": "min", "light": "max"}, "id": "sensor", "time": "t"}
LATEST = fl.Query(**SENSORS, latest=True, gone="gone", version="v")
LAST = fl.Repository.fit(walks(sensors=4, steps=40), LATEST, method="last")


def reading(t: float, heat: float | None, **more: Any) -> dict[str, Any]:
    return {"sensor": "s0", "t": t, "heat": heat, "damp": 1, "light": 1, **more}


def heat_after(*rows: dict[str, Any]) -> Any:
    """What the heat of s0 may be, after calls of one row each and a restart before the last."""
    monitor = fl.Monitor(LATEST, LAST)
    for each in rows[:-1]:
        monitor.advance(max(each["t"], monitor.clock), [each])
    monitor = fl.Monitor.restore(LATEST, monitor.snapshot(), LAST)
    monitor.advance(max(rows[-1]["t"], monitor.clock), [rows[-1]])
    monitor.check()
    return monitor.explain("s0")[0].row.values["heat"]


def test_the_gap_of_a_new_row_is_what_its_sensor_read_last():
    assert heat_after(reading(101, 5), reading(102, None)) == ((5.0, 1.0),)


def test_a_correction_is_what_was_read():
    assert heat_after(reading(101, 5), reading(101, 6), reading(102, None)) == ((6.0, 1.0),)
    assert heat_after(reading(101, 5, v=2), reading(101, 6, v=1), reading(102, None)) == ((5.0, 1.0),)


def test_after_a_restart_a_smaller_version_still_does_not_correct_what_was_read():
    for versions, expected in (((2, 1), 5.0), ((2, 2), 6.0), ((2, 3), 6.0), ((2, None), 5.0)):
        monitor = fl.Monitor(LATEST, LAST)
        monitor.advance(101, [reading(101, 5, v=versions[0])])
        monitor = fl.Monitor.restore(LATEST, monitor.snapshot(), LAST)
        monitor.advance(101, [reading(101, 6, v=versions[1])])
        monitor.advance(102, [reading(102, None)])
        assert monitor.explain("s0")[0].row.values["heat"] == ((expected, 1.0),)


def test_of_corrections_that_come_together_the_last_word_is_what_was_read():
    rows = [reading(101, 6, v=1), reading(101, 5, v=2), reading(101, 7, v=0)]
    for together in (rows, rows[::-1]):
        monitor = fl.Monitor(LATEST, LAST)
        monitor.advance(101, together)
        monitor.advance(102, [reading(102, None)])
        assert monitor.explain("s0")[0].row.values["heat"] == ((5.0, 1.0),)


def test_a_stale_reading_enters_the_memory_and_revises_nothing():
    rows = [reading(101, 5), reading(105, None), reading(103, 7)]
    assert heat_after(*rows) == ((5.0, 1.0),)
    assert heat_after(*rows, reading(106, None)) == ((7.0, 1.0),)


def test_a_removal_does_not_make_a_sensor_forget():
    gone = {"sensor": "s0", "t": 102, "gone": True}
    assert heat_after(reading(101, 5), gone, reading(103, None)) == ((5.0, 1.0),)


@pytest.fixture(scope="module")
def learnt() -> fl.Repository:
    return fl.Repository.fit(walks(sensors=8, steps=150), LATEST)


def test_gaps_are_imputed_as_those_of_any_row(learnt):
    """Where every sensor is heard at every step, the newest rows are those that live for one step."""
    rows = walks(sensors=8, steps=25, gaps=0.3, begin=150)
    newest = fl.Monitor(fl.Query(**SENSORS, latest=True, alpha=0.1), learnt)
    steps = fl.Monitor(fl.Query(**SENSORS, lifetime=1, alpha=0.1), learnt, hindsight=False)
    shown = 0
    for t in range(150, 175):
        now = rows.filter(pa.compute.equal(rows["t"], t))
        newest.advance(t, now)
        steps.advance(t, now)
        assert newest.answer().equals(steps.answer())
        shown += newest.answer().num_rows
    assert shown > 50
    assert newest.stats()["incomplete"] == steps.stats()["incomplete"] > 50


def test_hindsight_makes_no_sense_where_the_next_reading_replaces_the_row(learnt):
    for query, on in ((fl.Query(**SENSORS, lifetime=9), True), (LATEST, False)):
        chain = fl.Monitor(query, learnt).chain
        assert chain is not None
        assert chain.hindsight is on
    with pytest.raises(fl.FoglineError, match="a sensor's next reading replaces the row"):
        fl.Monitor(LATEST, learnt, hindsight=True)
