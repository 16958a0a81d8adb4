"""Does one process give what a monitor gives, and the same again after a crash at any step?"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError, SnapshotError
from fogline.flow import embedded_batch, embedded_files, embedded_state, log, waiting
from fogline.flow.answers import read_answer
from fogline.flow.embedded import Embedded
from fogline.flow.embedded_batch import Evaluation
from fogline.flow.embedded_state import EmbeddedState, Entry
from fogline.flow.folder import LocalFolder
from fogline.flow.names import CHANGES, KINDS, VIEWS
from fogline.flow.plan import make_plan
from tests.contracts import net
from tests.flow.embedding import (
    APPENDED,
    CASES,
    NEWEST,
    Case,
    changes_of_ids,
    config_of,
    learnt,
    readings,
    reported,
    run,
    write_stream,
)
from tests.walks import QUERY, walks


def lines(table: pa.Table) -> list[tuple]:
    names = [name for name in ("time", "site", "id", "arrived", "change") if name in table.schema.names]
    return sorted((*(row[name] for name in names), round(row["probability"] or 0, 9)) for row in table.to_pylist())


def of_a_monitor(case: Case) -> pa.Table:
    """The changes of a monitor that gets all rows at once; each group ends with its own last row."""
    table, query = case.table(), case.query
    whole = [table]
    if query.by:
        whole = [table.filter(pc.equal(table["site"], site)) for site in ("n", "s")]
    found = []
    for part in whole:
        good = part.filter(pc.is_finite(part["a"])) if "a" in part.schema.names else part
        last = pc.max(good[query.time]).as_py()
        found.append(fl.Monitor(query, case.repository()).advance(last, good))
    return pa.concat_tables(found)


@pytest.mark.parametrize("name", ["rows that are appended, in groups", "timestamps", "sensors, with hindsight"])
def test_the_changes_are_those_of_a_monitor(name, tmp_path):
    case = CASES[name]
    write_stream(case, tmp_path / "in")
    running = run(config_of(case, tmp_path))
    assert lines(pq.read_table(tmp_path / "out" / "changes")) == lines(of_a_monitor(case))
    assert running.status.total == case.table().num_rows
    assert running.status.rejected == (8 if "t" in case.query.time and case.query is not QUERY else 0)
    assert running.status.changes == pq.read_table(tmp_path / "out" / "changes").num_rows


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_stops_after_every_batch_reports_what_an_undisturbed_one_does(name, tmp_path, monkeypatch):
    monkeypatch.setattr(embedded_batch, "LOADED", 30_000)  # groups come and go
    case = CASES[name]
    write_stream(case, tmp_path / "in")
    whole = run(config_of(case, tmp_path, "whole"), files_per_batch=1)
    for _ in range(case.files):
        started = Embedded(config_of(case, tmp_path)).start(files_per_batch=1)
        assert not started.awaitTermination(0)
        assert EmbeddedState(LocalFolder(tmp_path / "out")).kept == started.state.kept
    assert run(config_of(case, tmp_path)).status.total == 0
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "whole", kind)
    assert len(reported(tmp_path / "out")) == whole.status.changes > 20


class Plug(BaseException):
    """Pulled."""


class Steps:
    """Each write to disk, rename and removal is a step; the process ends before one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last = 0, -1
        monkeypatch.setattr(os, "fsync", lambda opened: None)  # disks are slow; that they are waited for is a step
        for name in ("fsync", "replace", "unlink", "mkdir", "rmdir"):
            monkeypatch.setattr(os, name, self.step(getattr(os, name)))

    def step(self, do):
        def done(*given, **named):
            if self.count == self.last:
                raise Plug
            self.count += 1
            return do(*given, **named)

        return done

    def plugged(self, n: int) -> None:
        self.count, self.last = 0, n


EXPLAIN = {"explain": True}
CRASHED = {
    "rows that wait in cells": Case(APPENDED, lambda: readings(160, 3, late=8), {"lateness": 6, **EXPLAIN}, files=2),
    "ids in pages": Case(NEWEST, lambda: changes_of_ids(300, 4, 80), files=3),
    "sensors": Case(QUERY, lambda: walks(steps=12, gaps=0.2, begin=200), EXPLAIN, learnt, files=2),
}


def kept_in(output: str) -> set[Entry]:
    """Of what there is state on disk: what was removed is gone, too."""
    return set(EmbeddedState(LocalFolder(output)).kept)


@pytest.mark.parametrize("name", CRASHED)
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(name, tmp_path, monkeypatch):
    for module, few in ((waiting, 5), (log, 10)):
        monkeypatch.setattr(module, "FEW", few)
    monkeypatch.setattr(embedded_state, "SMALL", 3_000)  # bases are written now and then
    case = CRASHED[name]
    write_stream(case, tmp_path / "in")
    started = Embedded(config_of(case, tmp_path, "calm")).start(files_per_batch=1)
    assert started.awaitTermination()
    kept = set(started.state.kept)
    assert kept_in(str(tmp_path / "calm")) == kept
    steps, n = Steps(monkeypatch), 0
    while True:
        config = config_of(case, tmp_path, f"out{n}")
        steps.plugged(n)
        try:
            run(config, 1)
        except Plug:
            steps.plugged(-1)
            run(config, 1)
            for kind in (*KINDS, *VIEWS):
                assert reported(Path(config.output), kind) == reported(tmp_path / "calm", kind), (n, kind)
            assert kept_in(config.output) == kept, n
            shutil.rmtree(config.output)
            n += 1
        else:
            break
    assert n > 40


def test_a_group_that_falls_silent_follows_only_while_new_files_are_awaited(tmp_path):
    quiet, busy = readings(40, 1), readings(2000, 2)
    case = Case(APPENDED, lambda: quiet.set_column(1, "site", pa.array(["q"] * 40)), {"idle": 50}, files=1)
    write_stream(case, tmp_path / "in")
    pq.write_table(busy, tmp_path / "in" / "busy.parquet")
    run(config_of(case, tmp_path))
    there = net(pq.read_table(tmp_path / "out" / "changes"), ("site",))
    assert any(key[0] == "q" for key in there)
    followed = Embedded(config_of(case, tmp_path)).start(follow=True)
    pq.write_table(busy.slice(1900), tmp_path / "in" / "later.parquet")
    for _ in range(3):
        assert not followed.awaitTermination(0.01)
    there = net(pq.read_table(tmp_path / "out" / "changes"), ("site",))
    assert not any(key[0] == "q" for key in there)
    assert any(key[0] == "n" for key in there)


def test_a_run_that_follows_and_stops_after_every_batch_knows_how_far_its_clock_has_come(tmp_path):
    quiet = readings(40, 1).set_column(1, "site", pa.array(["q"] * 40))
    case = Case(APPENDED, lambda: pa.concat_tables([quiet, readings(2000, 2)]), {"idle": 50}, files=2)
    write_stream(case, tmp_path / "in")
    calm = Embedded(config_of(case, tmp_path, "calm")).start(follow=True, files_per_batch=1)
    for _ in range(2):
        calm.awaitTermination(0)
        Embedded(config_of(case, tmp_path)).start(follow=True, files_per_batch=1).awaitTermination(0)
    for kind in ("changes", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
    assert not any(key[0] == "q" for key in net(pq.read_table(tmp_path / "out" / "changes"), ("site",)))


def test_a_batch_of_a_run_that_followed_is_done_again_as_it_was_meant(tmp_path):
    case = Case(APPENDED, lambda: readings(400, 1), {"idle": 1}, files=2)
    write_stream(case, tmp_path / "in")
    for output in ("calm", "out"):
        started = Embedded(config_of(case, tmp_path, output)).start(follow=True, files_per_batch=1)
        for _ in range(3):
            started.awaitTermination(0)
    state = tmp_path / "out" / "checkpoint" / "state"
    last = max(state.glob("*.delta"))
    last.unlink()  # its batch was never committed
    run(config_of(case, tmp_path))
    for kind in ("changes", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
    assert last.exists()


def test_a_checkpoint_that_is_damaged_old_or_not_whole_is_an_error_in_words(tmp_path):
    case = CASES["lateness"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path), 1)
    state = tmp_path / "out" / "checkpoint" / "state"
    third = state / "000000002.delta"
    good = third.read_bytes()
    for wrong, words in (
        (good[:-5] + b"xxxxx", "'checkpoint/state/000000002.delta' of the checkpoint is damaged"),
        (good[: len(good) // 2], "is damaged"),
        (b"", "is damaged"),
        (good[:8] + b"\x09" + good[9:], "another version of Fogline"),
    ):
        third.write_bytes(wrong)
        with pytest.raises(SnapshotError, match=words) as found:
            run(config_of(case, tmp_path))
        assert "choose another output" in str(found.value)
    third.unlink()
    with pytest.raises(SnapshotError, match="is missing, and later files build on it"):
        run(config_of(case, tmp_path))
    third.write_bytes(good)
    for number in (3, 4):
        (state / f"{number:09}.delta").unlink()
    with pytest.raises(SnapshotError, match="batch 3 was done, but its state ends with batch 2"):
        run(config_of(case, tmp_path))


def test_what_was_taken_stays_taken_also_where_it_was_changed_moved_or_is_gone(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    before, remarks = reported(tmp_path / "out"), []
    os.utime(tmp_path / "in" / "001.parquet")
    running = Embedded(config_of(case, tmp_path), remark=remarks.append)
    assert running.start().awaitTermination()
    assert "001.parquet" in remarks[0]
    assert "changed after it was taken up" in remarks[0]
    (tmp_path / "in").rename(tmp_path / "there")
    moved = config_of(case, tmp_path, moved=True)
    elsewhere = type(moved)(**{**{f: getattr(moved, f) for f in moved.__slots__}, "stream": str(tmp_path / "there")})
    assert run(elsewhere).status.total == 0
    assert reported(tmp_path / "out") == before


def test_files_are_taken_in_the_order_of_their_times_and_as_many_as_fit(tmp_path, monkeypatch):
    case = Case(APPENDED, lambda: readings(400, 1), files=4)
    write_stream(case, tmp_path / "in")
    os.utime(tmp_path / "in" / "000.parquet", (2e9, 2e9))
    size = (tmp_path / "in" / "001.parquet").stat().st_size
    monkeypatch.setattr(embedded_files, "BATCH", size * 2.5)
    started = Embedded(config_of(case, tmp_path)).start()
    seen = []
    while not started.awaitTermination(0):
        seen.append([Path(path).name for path, each in started.log.read().items() if each.batch == len(seen)])
    assert seen == [["001.parquet", "002.parquet"], ["003.parquet", "000.parquet"]]


def test_the_answer_is_read_as_of_any_run(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    found = read_answer(LocalFolder(tmp_path / "out"), "out")
    there = net(pq.read_table(tmp_path / "out" / "changes"), ("site",))
    assert {(row["site"], row["id"], row["arrived"]) for row in found.to_pylist()} == set(there)
    assert json.loads((tmp_path / "out" / "about.json").read_text())["engine"] == "embedded"


def test_a_stream_in_another_file_system_is_refused(tmp_path):
    with pytest.raises(FoglineError, match="--engine spark"):
        Embedded(type(config_of(CASES["timestamps"], tmp_path))("hdfs://there/in", "out", APPENDED, engine="embedded"))


def test_groups_that_time_alone_changes_are_reported_in_one_order_also_after_a_restart(tmp_path):
    rows = pa.table({"id": ["a", "b", "c", "d"], "g": ["y", "x", "z", "z"], "t": [1, 1, 900, 900], "a": [1.0] * 4})
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, by=["g"])
    plan, place = make_plan(query, rows.schema, idle=0, ahead="off"), LocalFolder(tmp_path)
    going_on = Evaluation(plan, EmbeddedState(place))
    list(going_on.take(rows.to_batches(), 0))
    going_on.state.commit()
    reports = []
    for each in (going_on, Evaluation(plan, EmbeddedState(place))):
        found = [table for journal in each.take([], 0) for kind, table in journal if kind == CHANGES]
        reports.append([row["g"] for table in found for row in table.to_pylist()])
    assert reports[0] == reports[1] == ["x", "y"]
