"""Do other columns of a row come along, and is all else as without them?

The streams of the net, once more with `keep`: every engine reports what was recorded, and beside each row the columns
of just that row. Each row of the net has a number, `n`.
"""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.output.answers import OutputReader
from fogline.output.certainty import near_of, with_certainty
from fogline.query import OF_CHANGES
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from tests.net import driving, record
from tests.net.compare import LIKE, differences
from tests.net.streams import stream, streams

ENGINES = ("monitor", "restored", "small batches", "followed")
MODES = sorted({each.mode for each in streams() if {*ENGINES}.intersection(driving.engines_of(each))})
QUERY: dict[str, Any] = {"attributes": {"gas": "max"}, "id": "s", "time": "t", "lifetime": 10}


def keeping(this, keep):
    """The stream, whose queries keep columns."""
    queries = {name: {**query, "keep": keep} for name, query in this.queries.items()}
    return replace(this, queries=queries)


def without_number(reject):
    """A reject without the number of its row, which only a column that is read has."""
    return [str(cell) for k, cell in enumerate(reject) if k != 1]


def looked_at(monkeypatch, this, seen):
    """Every table that the net puts down is looked at first."""
    rows = {row["n"]: row for row in this.rows}
    put = driving.section

    def section(found, names, **more):
        found = list(found)
        if names is driving.ANSWER or "reason" in names:
            for each in found:
                came = rows[each["n"]]
                assert each["id"] == came["id"]
                assert each["t"] == driving.instant(this, came["t"])
                assert "g" not in each or each["g"] == came["g"]
                seen.append(each["n"])
        return put(found, names, **more)

    monkeypatch.setattr(driving, "section", section)


@pytest.mark.parametrize("mode", MODES)
def test_with_keep_every_engine_answers_as_without_and_each_row_has_its_own_columns(mode, monkeypatch):
    this, seen = stream(mode, 0), list[int]()
    kept = record.read(record.KEPT)[this.name]
    several = len(this.queries) > 1
    for engine in (each for each in driving.engines_of(this) if each in ENGINES):
        more = keeping(this, ["n"] if several or engine != "restored" else True)
        with monkeypatch.context() as patched:
            looked_at(patched, more, seen)
            now = json.loads(json.dumps(driving.recorded(more, engine)))
        was = json.loads(kept)["engines"][LIKE.get(engine, engine)]
        for each in (was, now):
            each["rejects"] = sorted(map(without_number, each.get("rejects", {}).get("rows", [])))
        wrong = [one for one in differences(this.name, engine, was, now) if not one.soft]
        assert not wrong, str(wrong[0])
    assert seen or not this.rows


# --- Types ------------------------------------------------------------------------------------------------------------

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
CELLS = {
    "text": "lab", "number": 3, "real": 2.5, "flag": True, "day": date(1, 1, 1), "at": NOON, "clock": time(1, 2, 3),
    "span": timedelta(seconds=5), "exact": Decimal("1.10"), "bytes": b"\xff", "none": None,
}  # fmt: skip


def rows_with(cells, count=6, gas=lambda k: k):
    return [{"s": f"s{k}", "t": k // 2, "gas": float(gas(k)), **cells} for k in range(count)]


@pytest.mark.parametrize("make", [list, pa.Table.from_pylist, pd.DataFrame, pl.DataFrame])
def test_values_come_back_as_they_came_whatever_their_type_and_after_a_restart(make):
    query = fl.Query(**QUERY, keep="all")
    monitor = fl.Monitor(query)
    monitor.advance(make(rows_with(CELLS)))
    monitor = fl.Monitor.restore(query, monitor.snapshot())
    (row,) = monitor.answer().to_pylist()
    assert {name: row[name] for name in CELLS} == CELLS
    left = monitor.advance(100).to_pylist()
    assert [{name: row[name] for name in CELLS} for row in left if row["change"] == "leave"] == [CELLS]


def test_instants_beyond_the_years_that_python_has_are_kept_too():
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    table = pa.table({"s": ["a"], "t": [1], "gas": [1.0], "far": far})
    monitor = fl.Monitor(fl.Query(**QUERY, keep=["far"]))
    assert monitor.advance(table)["far"].chunk(0).equals(far)
    assert fl.Monitor.restore(monitor.query, monitor.snapshot()).answer()["far"].chunk(0).equals(far)


def test_columns_that_come_later_join_all_and_whole_numbers_become_reals():
    monitor = fl.Monitor(fl.Query(**QUERY, keep=True))
    monitor.advance([{"s": "a", "t": 1, "gas": 5, "floor": 2**53 - 1}])
    monitor.advance([{"s": "b", "t": 2, "gas": 5, "floor": 2.5, "room": "lab", "lists": [1, 2]}])
    rows = [(row["floor"], row["room"]) for row in monitor.answer().to_pylist()]
    assert rows == [(2.0**53 - 1, None), (2.5, "lab")]
    assert "lists" not in monitor.answer().schema.names


def test_one_column_holds_one_kind_of_value_and_a_call_that_breaks_that_changes_nothing():
    monitor = fl.Monitor(fl.Query(**QUERY, keep=["room"]))
    monitor.advance([{"s": "a", "t": 1, "gas": 5, "room": "lab"}])
    with pytest.raises(fl.FoglineError, match="'room' holds string and int64"):
        monitor.advance([{"s": "b", "t": 2, "gas": 5, "room": 3}])
    assert monitor.clock == 1
    assert monitor.stats()["rows"] == 1


# --- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ("s", "keep names 's', which comes out anyway, as id"),
        (["gas"], "keep names 'gas', which comes out anyway, as attribute"),
        (["probability"], "collide with the column 'probability' .* or do not keep it"),
        (["Gas"], "differ in more than their case"),
        (["room", "room"], "differ in more than their case"),
        ([3], "keep names columns"),
        ({"room": 1}, "no list of columns"),
    ],
)
def test_names_that_clash_are_refused_when_the_query_is_made(keep, words):
    with pytest.raises(fl.errors.QueryError, match=words):
        fl.Query(**QUERY, keep=keep)


def test_where_all_is_kept_names_that_clash_are_refused_when_rows_show_them():
    monitor = fl.Monitor(fl.Query(**QUERY, keep=True))
    with pytest.raises(fl.errors.QueryError, match=r"'batch' .* or do not keep it"):
        monitor.advance([{"s": "a", "t": 1, "gas": 5, "batch": 4}])


def test_a_column_that_is_not_there_is_an_error_that_names_those_that_are():
    monitor = fl.Monitor(fl.Query(**QUERY, keep=["rom"]))
    with pytest.raises(fl.errors.QueryError, match=r"no column to keep 'rom'.*\n?.*'room'"):
        monitor.advance([{"s": "a", "t": 1, "gas": 5, "room": "lab"}])


def test_a_column_of_lists_cannot_be_kept_by_name():
    monitor = fl.Monitor(fl.Query(**QUERY, keep=["lists"]))
    with pytest.raises(fl.errors.RowsError, match="only single values come along"):
        monitor.advance(pa.table({"s": ["a"], "t": [1], "gas": [5.0], "lists": [[1, 2]]}))


# --- Memory, tables, runs ---------------------------------------------------------------------------------------------


def test_what_is_kept_goes_with_its_row():
    monitor = fl.Monitor(fl.Query(attributes={"gas": "max"}, id="s", time="t", lifetime=3, keep=["room"]))
    for k in range(300):
        monitor.advance([{"s": f"s{k}", "t": k, "gas": k % 7, "room": "x" * 1000}])
    assert len(monitor.snapshot()) < 100_000


def test_skyline_with_a_query_shows_what_is_kept():
    rows = rows_with({"room": "lab"})
    assert fl.skyline(rows, fl.Query(**QUERY, keep=["room"]))["room"].to_pylist() == ["lab"]
    assert fl.skyline(pa.Table.from_pylist(rows), fl.Query(**QUERY, keep=True))["room"].to_pylist() == ["lab"]
    with pytest.raises(fl.errors.QueryError, match="no column to keep 'rom'"):
        fl.skyline(rows, fl.Query(**QUERY, keep=["rom"]))


def test_an_answer_has_the_columns_of_changes_but_for_those_of_a_change_and_certainty_at_its_end():
    monitor = fl.Monitor(fl.Query(**QUERY, by=["g"], keep=["room"]))
    changes = monitor.advance([{"s": "a", "g": "x", "t": 1, "gas": 5, "room": "lab"}])
    own = [name for name in changes.schema.names if name not in ("time", *OF_CHANGES)]
    assert monitor.answer().schema.names == [*own, "certainty"]


def test_a_change_as_a_value_has_what_is_kept():
    query = fl.Query(**QUERY, keep=["room"])
    table = fl.Monitor(query).advance([{"s": "a", "t": 1, "gas": 5, "room": "lab"}])
    assert fl.types.changes_of(table.to_pylist(), query)[0].kept == {"room": "lab"}


def put(path, k, rows):
    path.mkdir(exist_ok=True)
    driving.put_file(path / f"{k}.parquet", pa.Table.from_pylist(rows), k)


def test_a_run_that_keeps_all_goes_on_with_the_columns_that_it_was_begun_with(tmp_path):
    query = fl.Query(attributes={"gas": "max"}, id="s", time="t", lifetime=100, keep=True)
    put(tmp_path / "in", 0, [{"s": "a", "t": 1, "gas": 5.0, "room": "lab"}])
    done = fl.run(tmp_path / "in", query, output=tmp_path / "out")
    put(tmp_path / "in", 1, [{"s": "b", "t": 2, "gas": 5.0, "room": "hall", "floor": 3}])
    done = fl.run(tmp_path / "in", query, output=tmp_path / "out")
    assert done.answer().sort_by("s").select(["s", "room"]).to_pylist() == [
        {"s": "a", "room": "lab"},
        {"s": "b", "room": "hall"},
    ]
    current = pq.read_table(tmp_path / "out" / "answer" / "current.parquet")
    assert sorted(current["room"].to_pylist()) == ["hall", "lab"]
    assert "floor" not in current.schema.names


def test_queries_of_one_stream_keep_what_each_asks_for(tmp_path):
    rows = [{"s": "a", "t": 1, "gas": 5.0, "heat": "3", "room": "lab", "floor": 2}]
    put(tmp_path / "in", 0, rows)
    fire = fl.Query(**QUERY, keep=True)
    heat = fl.Query(attributes={"heat": "max"}, id="s", time="t", lifetime=10, keep=["floor"], by=["room"])
    done = fl.run(tmp_path / "in", {"fire": fire, "heat": heat}, output=tmp_path / "out")
    found = {row["query"]: row for row in pq.read_table(tmp_path / "out" / "changes").to_pylist()}
    assert (found["fire"]["room"], found["fire"]["floor"], found["fire"]["heat"]) == ("lab", 2, None)
    assert (found["heat"]["room"], found["heat"]["floor"], found["heat"]["heat"]) == ("lab", 2, 3.0)
    assert done.answer() is not None


def test_many_small_groups_keep_what_their_rows_came_with(tmp_path):
    query = fl.Query(**QUERY, by=["g"], keep=["note", "at"])
    running = None
    came = {}
    draw = np.random.default_rng(3)
    for k in range(12):
        rows = [
            {"s": f"s{draw.integers(4)}", "g": g, "t": 3 * k + int(draw.integers(3)), "gas": float(draw.integers(5))}
            for g in range(40)
        ]
        for i, row in enumerate(rows):
            row |= {"note": f"{k}/{i}", "at": NOON + timedelta(seconds=i)}
            came[row["g"], row["s"], row["t"]] = row["note"], row["at"]
        put(tmp_path / "in", k, rows)
        if k % 4 == 0:
            running = Embedded(RunConfig(str(tmp_path / "in"), str(tmp_path / "out"), query, engine=EMBEDDED))
            started = running.start(follow=True, files_per_batch=1)
        started.awaitTermination(0)
    changes = driving.batches(tmp_path / "out" / "changes")
    assert len(changes) > 400
    assert all((row["note"], row["at"]) == came[row["g"], row["s"], row["t"]] for row in changes)


@pytest.mark.parametrize("by", [[], ["g"]])
def test_rows_that_are_only_possible_have_what_is_kept_in_a_run_that_explains(tmp_path, by):
    query = fl.Query(**QUERY, keep=["room"], by=by)
    history = [{"s": "a", "t": k, "g": "x", "gas": float(k % 9), "heat": k % 3} for k in range(60)]
    rows = [{"s": "a", "t": 100, "g": "x", "gas": 5.0, "room": "lab"}]
    rows += [{"s": "b", "t": 100, "g": "x", "gas": None, "room": "hall"}]
    put(tmp_path / "in", 0, rows)
    repository = fl.Repository.fit(history, query)
    fl.run(tmp_path / "in", query, repository, output=tmp_path / "out", explain=True)
    (row,) = pq.read_table(tmp_path / "out" / "near").filter(pc.field("s") == "b").to_pylist()
    assert row["room"] == "hall"
    reader = OutputReader(tmp_path / "out")
    (shown,) = reader.shown().values()
    found = with_certainty(shown, near_of(reader, None, None), "possible", None).rows
    assert {row["s"]: row["room"] for row in found.to_pylist()} == {"a": "lab", "b": "hall"}
