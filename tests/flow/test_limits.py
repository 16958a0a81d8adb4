"""Do limits hold what they promise: the same answer for any size of batches, and a stop that loses nothing?"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path, PosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError, LimitError, QueryError, SinkError
from fogline.files import one_file
from fogline.files.layout import layout_of
from fogline.files.options import Options
from fogline.output.about import Alarms, read_alarms
from fogline.output.folder import LocalFolder
from fogline.pipeline.limits import Full, GroupLimits, group_text
from fogline.runs import taken as embedded_reading
from fogline.runs.config import RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.taken import FileRows
from tests.flow.embedding import (
    APPENDED,
    CASES,
    NEWEST,
    Case,
    changes_of_ids,
    config_of,
    reported,
    state_of,
    write_stream,
)

ONE = fl.Query({"a": "max", "b": "max"}, id="id", time="t", lifetime=1000)


def answers(output: Path, query: fl.Query) -> list[Any]:
    """The answer at the end of every tick: changes that a batch has cut in two add up to the same."""
    names = [*query.by, query.id, *([] if query.latest else ["t"])]
    ticks: dict[Any, dict[Any, Any]] = {}
    known: dict[Any, Any] = {}
    for row in sorted(pq.read_table(output / "changes").to_pylist(), key=lambda row: row["time"]):
        name = tuple(row[each] for each in names)
        known[name] = None if row["change"] == "leave" else (row["t"], round(row["probability"], 9))
        ticks[row["time"]] = {name: each for name, each in known.items() if each is not None}
    answered = list(ticks.items())
    return [each for k, each in enumerate(answered) if k == 0 or each[1] != answered[k - 1][1]]


def rejects(output: Path) -> list[Any]:
    return [row[:-1] for row in reported(output, "rejects")]  # but for the number of the batch


def begun(config: RunConfig, rows: int | None = None, files: int | None = None) -> Embedded:
    running = Embedded(config)
    assert running.start(files_per_batch=files, max_rows_per_batch=rows).awaitTermination()
    return running


def rows_of_batches(output: Path) -> dict[int, int]:
    health = pq.read_table(output / "health")
    sums = health.group_by("batch").aggregate([("rows", "sum")])
    return dict(zip(sums["batch"].to_pylist(), sums["rows_sum"].to_pylist(), strict=True))


IN_TIME = {  # which rows are late depends on the cut, where none are waited for
    "lateness": CASES["lateness"],
    "sensors, with hindsight": CASES["sensors, with hindsight"],
    "the newest of each id": Case(NEWEST, lambda: changes_of_ids(600, 4, 80).sort_by("t")),
}


@pytest.mark.parametrize("name", IN_TIME)
def test_answers_are_the_same_however_many_rows_a_batch_may_have(name, tmp_path):
    case = IN_TIME[name]
    write_stream(case, tmp_path / "in")
    begun(config_of(case, tmp_path, "whole"))
    most = case.table().num_rows // 13
    begun(config_of(case, tmp_path, "cut"), most)
    assert answers(tmp_path / "cut", case.query) == answers(tmp_path / "whole", case.query)
    assert rejects(tmp_path / "cut") == rejects(tmp_path / "whole")
    counts = rows_of_batches(tmp_path / "cut")
    assert max(counts.values()) <= most
    assert sum(counts.values()) == case.table().num_rows
    assert len(rows_of_batches(tmp_path / "whole")) == 1


def test_a_file_that_was_cut_goes_on_where_it_was_after_a_restart_and_in_a_folder_that_was_moved(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    begun(config_of(case, tmp_path, "calm"), 37)
    for _ in range(4):
        assert not Embedded(config_of(case, tmp_path)).start(max_rows_per_batch=37).awaitTermination(0)
    assert list(state_of(tmp_path / "out").checkpoint.all("", "cut file"))
    os.rename(tmp_path / "in", tmp_path / "in2")
    moved = RunConfig(str(tmp_path / "in2"), str(tmp_path / "out"), case.query, moved=True, engine="embedded")
    remarks: list[str] = []
    assert Embedded(moved, remark=remarks.append).start(max_rows_per_batch=37).awaitTermination()
    assert not [text for text in remarks if "gone" in text]
    for kind in ("changes", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
    assert not list(state_of(tmp_path / "out").checkpoint.all("", "cut file"))


@pytest.mark.parametrize("stays", [False, True])
def test_a_batch_that_was_interrupted_goes_on_in_a_folder_that_was_moved(stays, tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    begun(config_of(case, tmp_path, "calm"), 37, 2)

    class Failing:
        def put(self, number: int, *_: Any) -> None:
            if number == 3:  # it begins within a file, and ends within another
                raise OSError("no")

    with pytest.raises(SinkError):
        begun(config_of(case, tmp_path, sinks=(Failing(),)), 37, 2)
    shutil.copytree(tmp_path / "in", tmp_path / "in2")  # with the times of files
    if not stays:
        shutil.rmtree(tmp_path / "in")
    moved = RunConfig(str(tmp_path / "in2"), str(tmp_path / "out"), case.query, moved=True, engine="embedded")
    remarks: list[str] = []
    running = Embedded(moved, remark=remarks.append)
    started = running.start(files_per_batch=2, max_rows_per_batch=37)
    assert not [text for text in remarks if "gone" in text]
    assert not started.awaitTermination(0)
    assert all(
        path.startswith(str(tmp_path / "in2"))
        for path, each in started.log.known(map(str, (tmp_path / "in2").iterdir())).items()
        if each.batch == 3
    )
    assert started.awaitTermination()
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)


def test_a_file_that_was_cut_and_is_back_after_a_moment_is_not_read_from_its_beginning(tmp_path, monkeypatch):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    begun(config_of(case, tmp_path, "calm"), 37)
    assert not Embedded(config_of(case, tmp_path)).start(max_rows_per_batch=37).awaitTermination(0)
    going = Embedded(config_of(case, tmp_path)).start(max_rows_per_batch=37)
    looks = iter([False])  # it is away at the first look

    class Away(PosixPath):
        def exists(self, *how: Any, **more: Any) -> bool:
            return next(looks, True)

    with monkeypatch.context() as away:
        away.setattr(embedded_reading, "Path", Away)
        with pytest.raises(FoglineError, match="was away for a moment"):
            going.awaitTermination(0)
    begun(config_of(case, tmp_path), 37)
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")


def test_a_file_may_be_cut_more_often_than_calls_may_be_nested(tmp_path, monkeypatch):
    monkeypatch.setattr(one_file, "ROWS", 1_000)
    count = 2_500
    table = pa.table({"id": [f"r{k}" for k in range(count)], "t": list(range(count)), "a": [1.0] * count})
    pq.write_table(table, tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    query = fl.Query({"a": "max"}, id="id", time="t", lifetime=10)
    reading, ids, skip = FileRows(layout_of(path, query, Options())), list[str](), 0
    while skip is not None:
        ids += [each for batch in reading.take([path], skip, 1) for each in batch["id"].to_pylist()]
        skip = None if reading.cut is None else reading.cut.rows
    assert ids == table["id"].to_pylist()


def test_a_batch_that_was_interrupted_is_done_again_with_the_rows_that_it_had_whatever_the_limit_is_then(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    begun(config_of(case, tmp_path, "calm"), 37)

    class Failing:
        def put(self, number: int, *_: Any) -> None:
            if number == 3:
                raise OSError("no")

    with pytest.raises(SinkError):
        begun(config_of(case, tmp_path, sinks=(Failing(),)), 37)
    begun(config_of(case, tmp_path), 1_000)
    counts = rows_of_batches(tmp_path / "out")
    assert [counts[k] for k in range(4)] == [37] * 4
    assert answers(tmp_path / "out", case.query) == answers(tmp_path / "calm", case.query)


def test_a_file_that_was_cut_and_is_gone_is_named_and_rejected(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    assert not Embedded(config_of(case, tmp_path)).start(max_rows_per_batch=37).awaitTermination(0)
    (tmp_path / "in" / "000.parquet").unlink()
    remarks: list[str] = []
    running = Embedded(config_of(case, tmp_path), remark=remarks.append)
    assert running.start().awaitTermination()
    assert any("000.parquet" in text and "lost" in text for text in remarks)
    assert any("cannot be read" in str(row) for row in reported(tmp_path / "out", "rejects"))


@pytest.mark.parametrize("rows", [20, 80])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_file_that_was_cut_and_replaced_is_an_error_and_goes_on_when_it_is_back(rows, restarted, tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    begun(config_of(case, tmp_path, "calm"), 37)
    going = Embedded(config_of(case, tmp_path)).start(max_rows_per_batch=37)
    assert not going.awaitTermination(0)
    path = tmp_path / "in" / "000.parquet"
    good, seen = path.read_bytes(), path.stat()
    other = tmp_path / "other"
    pq.write_table(case.table().slice(80, rows), other)  # as many rows as it had, or fewer
    os.utime(other, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    other.replace(path)
    going = Embedded(config_of(case, tmp_path)).start(max_rows_per_batch=37) if restarted else going
    with pytest.raises(FoglineError, match=r"000.parquet' is no longer the file of which rows were taken before"):
        going.awaitTermination(0)
    path.write_bytes(good)  # of another time, and the same
    begun(config_of(case, tmp_path), 37)
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")


def test_a_file_that_was_cut_and_has_become_longer_is_read_to_its_end(tmp_path):
    case = Case(ONE, lambda: growing(100), files=1)
    (tmp_path / "in").mkdir()
    path, lines = tmp_path / "in" / "rows.csv", [f"r{k},{k},{k},{-k}" for k in range(100)]
    path.write_text("\n".join(["id,t,a,b", *lines[:60], ""]))
    assert not Embedded(config_of(case, tmp_path)).start(max_rows_per_batch=40).awaitTermination(0)
    with path.open("a") as file:
        file.write("\n".join([*lines[60:], ""]))
    begun(config_of(case, tmp_path), 15)
    begun(config_of(case, tmp_path, "calm"))
    assert sum(rows_of_batches(tmp_path / "out").values()) == 100
    assert answers(tmp_path / "out", ONE) == answers(tmp_path / "calm", ONE)


# GroupLimits of groups


def growing(count: int, sites: int = 1) -> pa.Table:
    """Rows of which each can still matter: what is better in one attribute is worse in the other."""
    k = np.arange(count)
    site = np.where(k % 10 == 0, "south", "north") if sites > 1 else np.full(count, "north")
    return pa.table(
        {"id": [f"r{i}" for i in k], "site": site, "t": k // 4, "a": k.astype(float), "b": -k.astype(float)}
    )


GROWING = Case(ONE, lambda: growing(500))
SITES = Case(fl.Query({"a": "max", "b": "max"}, id="id", time="t", lifetime=1000, by=["site"]), lambda: growing(500, 2))
STATES = {"max_live": GroupLimits(max_live=250), "max_state": GroupLimits(max_state=60_000)}


@pytest.mark.parametrize("limit", STATES)
@pytest.mark.parametrize("case", [GROWING, SITES], ids=["one group", "groups"])
def test_a_group_beyond_its_limit_stops_the_run_and_with_a_higher_one_it_goes_on_exactly(limit, case, tmp_path):
    write_stream(case, tmp_path / "in")
    begun(config_of(case, tmp_path, "calm"), files=1)
    with pytest.raises(LimitError) as stopped:
        begun(config_of(case, tmp_path, limits=STATES[limit]), files=1)
    text = str(stopped.value)
    assert ("the group site north" if case is SITES else "the stream") in text
    assert f"--{limit.replace('_', '-')}" in text
    assert "nothing is lost" in text
    done = len(list((tmp_path / "out" / "changes").glob("*.parquet")))
    assert 0 < done < case.files
    begun(config_of(case, tmp_path, limits=GroupLimits(max_live=100_000, max_state=10**9)), files=1)
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)


@pytest.mark.parametrize("limit", STATES)
def test_a_run_that_only_warns_goes_on_and_the_alarm_stays_until_the_group_is_smaller(limit, tmp_path):
    short = fl.Query({"a": "max", "b": "max"}, id="id", time="t", lifetime=50, by=["site"])
    table = pa.concat_tables(
        [growing(400, 2), pa.table({"id": ["z"], "site": ["north"], "t": [400], "a": [1e9], "b": [1e9]})]
    )
    case = Case(short, lambda: table, files=5)
    write_stream(case, tmp_path / "in")
    limits = {
        "max_live": GroupLimits(max_live=100, when_full="warn"),
        "max_state": GroupLimits(max_state=30_000, when_full="warn"),
    }
    started = Embedded(config_of(case, tmp_path, limits=limits[limit]))
    going = started.start(files_per_batch=1)
    seen = []
    for _ in range(5):
        going.awaitTermination(0)
        seen.append([each.group for each in read_alarms(LocalFolder(tmp_path / "out"))])
        assert [each.group for each in started.status.alarms] == seen[-1]
    assert "the group site north" in seen[2]
    assert seen[-1] == []
    begun(config_of(case, tmp_path, "calm"), files=1)
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")


def test_a_group_without_a_name_has_one_alarm_as_others_have(tmp_path):
    known = Alarms(LocalFolder(tmp_path))
    name = group_text({"site": None})  # as a journal names it
    health = pa.table({"seconds": [1.0], "site": pa.array([None], pa.string()), "time": [1.0]})
    limits = GroupLimits(max_state=10)
    for size in (9, 10):
        assert known.update(limits, [Full(name, "max_state", size, 10)], health) == [Full(name, "max_state", size, 10)]
    assert known.update(limits, [], health) == []  # it has become smaller


def test_an_alarm_of_a_silent_group_is_by_the_limit_that_there_is_now(tmp_path):
    health = pa.table({"seconds": [1.0], "site": ["south"], "time": [1.0]})
    north = Full("the group site north", "max_live", 90, 100)
    found = {}
    for most in (100, 95, 1_000, None):
        place = LocalFolder(tmp_path / str(most))
        Alarms(place).update(GroupLimits(max_live=100), [north], None)
        found[most] = Alarms(place).update(GroupLimits(max_live=most), [], health)
    assert found == {100: [north], 95: [north._replace(most=95)], 1_000: [], None: []}


def test_an_alarm_comes_at_four_fifths_and_outlives_a_restart(tmp_path):
    write_stream(GROWING, tmp_path / "in")
    begun(config_of(GROWING, tmp_path, limits=GroupLimits(max_live=600)), files=1)
    (alarm,) = read_alarms(LocalFolder(tmp_path / "out"))
    assert alarm.sentence() == "the stream has 500 live rows, 83% of max_live (600)"
    assert json.loads((tmp_path / "out" / "alarms.json").read_text())["alarms"] == [["", "max_live", 500, 600]]
    begun(config_of(GROWING, tmp_path, "calm", limits=GroupLimits(max_live=700)), files=1)
    assert read_alarms(LocalFolder(tmp_path / "calm")) == []


def test_a_limit_that_is_none_is_an_error():
    for given in ({"when_full": "drop"}, {"max_live": 0}, {"max_state": "much"}, {"max_state": "0 GB"}):
        with pytest.raises(QueryError):
            GroupLimits.of(**given)


# Bursts, and sinks that are slow


class Slow:
    """A sink that takes its time: meanwhile a burst of files comes."""

    def __init__(self, burst) -> None:
        self.burst, self.rows, self.behind = burst, [], []

    def put(self, number: int, changes: Any, rejects: Any, health: Any) -> None:
        self.rows.append(sum(sum(each["rows"].to_pylist()) for each in health))
        if number == 1:
            self.burst()


def test_a_burst_while_a_sink_is_slow_is_read_in_bounded_batches_and_nothing_is_lost(tmp_path):
    table = growing(1_300)
    case = Case(APPENDED, lambda: table)
    (tmp_path / "in").mkdir()

    def write(number: int, begin: int, count: int) -> None:
        path = tmp_path / "in" / f"{number:03}.parquet"
        pq.write_table(table.slice(begin, count), path)
        os.utime(path, (1e9 + number, 1e9 + number))

    for k in range(2):
        write(k, 100 * k, 100)

    def burst() -> None:
        write(2, 200, 1_000)
        write(3, 1_200, 100)

    sink = Slow(burst)
    running = Embedded(config_of(case, tmp_path, sinks=(sink,)))
    going, behind = running.start(follow=True, files_per_batch=1, max_rows_per_batch=150), []
    while sum(sink.rows) < 1_300:
        going.awaitTermination(0)
        behind.append(running.status.behind)
    assert max(sink.rows) <= 150  # ten times as many rows in one file, and no larger a batch
    assert len(sink.rows) > 9
    assert behind[2] == 2  # the file that was cut, and the next one
    assert behind[-1] == 0
    other = Case(APPENDED, lambda: table, files=1)
    (tmp_path / "calm").mkdir()
    write_stream(other, tmp_path / "calm" / "in")
    begun(config_of(other, tmp_path / "calm"))
    assert answers(tmp_path / "out", APPENDED) == answers(tmp_path / "calm" / "out", APPENDED)


def test_alarms_name_the_query_where_there_are_several(tmp_path):
    write_stream(SITES, tmp_path / "in")
    short = fl.Query({"a": "max", "b": "max"}, id="id", time="t", lifetime=2, by=["site"])
    asked = fl.Queries({"long": SITES.query, "short": short})
    limits = GroupLimits(max_live=400, max_state=120_000, when_full="warn")
    config = RunConfig(str(tmp_path / "in"), str(tmp_path / "out"), asked, engine="embedded", limits=limits)
    running = begun(config, files=1)
    found = [(each.group, each.limit) for each in running.status.alarms]
    assert sorted(found) == [("the group site north of query long", name) for name in ("max_live", "max_state")]
