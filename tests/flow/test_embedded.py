"""Does one process give what a monitor gives, and the same again when it stops and goes on?

That a fault at any operation on its files changes nothing is tried in `tests/chaos/io.py`.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError, SnapshotError
from fogline.files.listing import files_of
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.pipeline import loaded, small_groups
from fogline.pipeline.names import CHANGES
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.runs import embedded
from fogline.runs import taken as embedded_files
from fogline.runs.embedded import Embedded
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.evaluation import Evaluation
from fogline.state import sqlite
from tests.contracts import net
from tests.flow.embedding import (
    APPENDED,
    CASES,
    Case,
    config_of,
    kept,
    readings,
    reported,
    run,
    state_of,
    write_stream,
)
from tests.walks import QUERY


def lines(table: pa.Table) -> list[tuple]:
    names = [name for name in ("time", "site", "id", "sensor", "t", "change") if name in table.schema.names]
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
    monkeypatch.setattr(loaded, "MOST", 30_000)  # groups that lie apart come and go
    monkeypatch.setattr(loaded, "LARGE", 0)
    monkeypatch.setattr(small_groups, "ROWS", 2)
    case = CASES[name]
    write_stream(case, tmp_path / "in")
    whole = run(config_of(case, tmp_path, "whole"), files_per_batch=1)
    for _ in range(case.files):
        loaded._cached.clear()  # as in another process
        started = Embedded(config_of(case, tmp_path)).start(files_per_batch=1)
        assert not started.awaitTermination(0)
        there = kept(tmp_path / "out")
        started.running.close()
        assert kept(tmp_path / "out") == there
    assert run(config_of(case, tmp_path)).status.total == 0
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "whole", kind)
    assert len(reported(tmp_path / "out")) == whole.status.changes > 20


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


def one_by_one(root: Path, made: list[tuple[str, str, int]], **how: Any) -> dict[Any, Any]:
    """The answer of a run that follows, after these rows (site, id, time) have come, one file and batch each."""
    case = Case(APPENDED, lambda: readings(0, 1), how)
    (root / "in").mkdir(parents=True)
    for k, (site, name, t) in enumerate(made):
        path = root / "in" / f"{k:04}.csv"
        path.write_text(f"id,site,t,a,b\n{name},{site},{t},1,1\n")
        if k % 5 == 0:  # it is started again now and then
            started = Embedded(config_of(case, root)).start(follow=True)
        started.awaitTermination(0)
    for _ in range(2):
        started.awaitTermination(0)
    return net(pq.read_table(root / "out" / "changes"), ("site",))


def test_rows_of_a_silent_group_expire_where_every_file_has_one_row(tmp_path):
    quiet = [("q", "q1", 1)]
    two = [("n", f"i{t % 2}", t) for t in range(2, 200, 3)]
    assert not any(key[0] == "q" for key in one_by_one(tmp_path / "two", quiet + two, idle=50))
    one = [("n", "i1", t) for t in range(2, 200, 3)]  # no id moves the query's clock alone
    assert any(key[0] == "q" for key in one_by_one(tmp_path / "one", [("q", "q1", 1), *one], idle=50))


def test_rows_that_run_ahead_do_not_move_silent_groups_though_each_has_a_file_of_its_own(tmp_path):
    made = [("q", "q1", 1), ("s", "j1", 1), ("s", "j2", 1)]
    made += [("n", f"i{t % 2}", t) for t in range(2, 12)]
    wild = [("n", "i0", 10**9), ("s", "j1", 10**9 + 1), ("n", "i1", 12), ("n", "i0", 13)]
    there = one_by_one(tmp_path, [*made, *wild], idle=50)
    assert any(key[0] == "q" for key in there)
    held = pq.read_table(tmp_path / "out" / "rejects")
    assert held.num_rows == 2


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


def test_a_batch_of_a_run_that_followed_is_done_again_as_it_was_meant(tmp_path, monkeypatch):
    case = Case(APPENDED, lambda: readings(400, 1), {"idle": 1}, files=2)
    write_stream(case, tmp_path / "in")
    calm, started = (
        Embedded(config_of(case, tmp_path, output)).start(follow=True, files_per_batch=1) for output in ("calm", "out")
    )
    for _ in range(3):
        calm.awaitTermination(0)
    for _ in range(calm.state.batch):
        started.awaitTermination(0)
    monkeypatch.setattr(EmbeddedState, "commit", pulled)
    with pytest.raises(KeyboardInterrupt):
        started.awaitTermination(0)
    monkeypatch.undo()
    run(config_of(case, tmp_path))
    for kind in ("changes", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
    assert state_of(tmp_path / "out").batch == calm.state.batch


def pulled(state: EmbeddedState, *, reported: bool = False) -> None:
    """The power is cut when a batch's files are there, and before it is committed."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", CASES)
def test_two_cuts_between_the_files_of_a_batch_and_its_commit_report_each_change_once(name, tmp_path, monkeypatch):
    case = CASES[name]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path, "calm"), files_per_batch=1)
    assert not Embedded(config_of(case, tmp_path)).start(files_per_batch=1).awaitTermination(0)
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedState, "commit", pulled)
            with pytest.raises(KeyboardInterrupt):
                Embedded(config_of(case, tmp_path)).start(files_per_batch=1).awaitTermination(0)
        assert state_of(tmp_path / "out").batch == 0
        assert len(list((tmp_path / "out" / "health").glob("*.parquet"))) == 2
    run(config_of(case, tmp_path), files_per_batch=1)
    for kind in ("changes", "rejects", "health"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
    assert state_of(tmp_path / "out").batch == state_of(tmp_path / "calm").batch


def test_a_run_that_failed_in_the_midst_of_a_batch_leaves_the_state_as_it_was(tmp_path, monkeypatch):
    case = CASES["lateness"]
    write_stream(case, tmp_path / "in")
    started = Embedded(config_of(case, tmp_path)).start(files_per_batch=1)
    assert not started.awaitTermination(0)
    before = kept(tmp_path / "out")
    monkeypatch.setattr(embedded, "write_batch", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left")))
    with pytest.raises(OSError, match="no space left"):
        started.awaitTermination(0)
    assert kept(tmp_path / "out") == before
    with pytest.raises(FoglineError, match="this run has failed"):
        started.awaitTermination(0)


def test_an_older_copy_of_the_state_is_refused_and_so_is_a_new_one(tmp_path):
    case = CASES["lateness"]
    write_stream(case, tmp_path / "in")
    started = Embedded(config_of(case, tmp_path)).start(files_per_batch=1)
    checkpoint = tmp_path / "out" / "checkpoint"
    for k in range(3):
        assert not started.awaitTermination(0)
        started.running.close()
        shutil.copytree(checkpoint, tmp_path / f"checkpoint-{k}")
        started = Embedded(config_of(case, tmp_path)).start(files_per_batch=1)
    started.running.close()
    run(config_of(case, tmp_path), 1)
    good = (checkpoint / "state.sqlite").read_bytes()
    shutil.copy(tmp_path / "checkpoint-1" / "state.sqlite", checkpoint / "state.sqlite")
    with pytest.raises(SnapshotError, match=r"batch 4 was done, but its state ends with batch 1: .* is an old copy"):
        run(config_of(case, tmp_path))
    (checkpoint / "state.sqlite").unlink()
    with pytest.raises(SnapshotError, match="batch 4 was done, but its state is not there"):
        run(config_of(case, tmp_path))
    (checkpoint / "reached").unlink()
    with pytest.raises(FoglineError, match="knows of batches up to -1, but there are files of batch 4"):
        run(config_of(case, tmp_path))
    shutil.copy(tmp_path / "checkpoint-1" / "state.sqlite", checkpoint / "state.sqlite")
    with pytest.raises(FoglineError, match="knows of batches up to 1, but there are files of batch 4"):
        run(config_of(case, tmp_path))
    (checkpoint / "state.sqlite").write_bytes(good)
    assert run(config_of(case, tmp_path)).status.total == 0


def test_the_state_of_another_run_is_refused(tmp_path):
    case = CASES["lateness"]
    write_stream(case, tmp_path / "in")
    for output in ("out", "copy"):
        run(config_of(case, tmp_path, output), 1)
    shutil.copy(*(tmp_path / each / "checkpoint" / "state.sqlite" for each in ("copy", "out")))
    with pytest.raises(SnapshotError, match=r"'checkpoint/state.sqlite' belongs to another run"):
        run(config_of(case, tmp_path))


def test_an_output_on_a_network_file_system_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(sqlite, "MOUNTS", mounts)
    with pytest.raises(FoglineError, match=r"lies on a network file system \(nfs4\).* --engine spark"):
        Embedded(config_of(CASES["lateness"], tmp_path))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"mar": 1}'])
def test_a_mark_of_a_checkpoint_that_is_damaged_is_named(content, tmp_path):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    (tmp_path / "out" / "checkpoint" / "fogline.json").write_bytes(content)
    with pytest.raises(FoglineError, match=r"'checkpoint/fogline.json' is damaged"):
        run(config_of(case, tmp_path))


def test_columns_of_the_stream_that_were_changed_behind_the_back_of_a_run_are_refused(tmp_path):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    path = tmp_path / "out" / "about.json"
    path.write_text(path.read_text().replace('"us"', '"ms"').replace("[us", "[ms").replace('"a"', '"A"'))
    with pytest.raises(FoglineError, match=r"about.json of the output is damaged"):
        run(config_of(case, tmp_path))


def test_a_stream_whose_folder_is_away_stops_the_run_and_is_read_when_it_is_back(tmp_path):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    calm = run(config_of(case, tmp_path, "calm"), 1)
    started = Embedded(config_of(case, tmp_path)).start(files_per_batch=1)
    assert not started.awaitTermination(0)
    (tmp_path / "in").rename(tmp_path / "away")
    with pytest.raises(FoglineError, match=r"the folder of the stream.*is away"):
        started.awaitTermination(0)
    (tmp_path / "away").rename(tmp_path / "in")
    run(config_of(case, tmp_path), 1)
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")
    assert len(reported(tmp_path / "out")) == calm.status.changes


def test_a_run_that_waits_lists_its_files_again_only_where_something_was_done_to_them(tmp_path, monkeypatch):
    case = CASES["timestamps"]
    write_stream(case, tmp_path / "in")
    listed: list[str] = []

    def listing(path: str) -> list[Path]:
        listed.append(path)
        return files_of(path)

    monkeypatch.setattr(embedded, "files_of", listing)
    going = Embedded(config_of(case, tmp_path))
    started = going.start(follow=True)
    started.awaitTermination(0)
    batch = going.status.batch
    started.awaitTermination(0)
    del listed[:]
    for _ in range(5):
        started.awaitTermination(0)
    assert (listed, going.status.batch) == ([], batch)
    (tmp_path / "in" / "copy.parquet").write_bytes((tmp_path / "in" / "000.parquet").read_bytes())
    started.awaitTermination(0)
    assert (len(listed), going.status.batch) == (1, batch + 1)
    with monkeypatch.context() as slow:  # a look at a large folder takes a second
        seconds = iter(range(100))
        slow.setattr(embedded, "thread_time", lambda: next(seconds))
        (tmp_path / "in" / "later.txt").touch()
        started.awaitTermination(0)
        (tmp_path / "in" / "later.txt").rename(tmp_path / "in" / "later.parquet")
        started.awaitTermination(0)
        assert (len(listed), next(seconds)) == (2, 2)
    going.close()


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


def test_a_file_with_a_known_name_in_a_stream_that_was_moved_is_named(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    (tmp_path / "in").rename(tmp_path / "there")
    moved = replace(config_of(case, tmp_path, moved=True), stream=str(tmp_path / "there"))
    run(moved)
    (tmp_path / "there" / "more").mkdir()
    pq.write_table(readings(100, 9), tmp_path / "there" / "more" / "000.parquet")
    remarks = list[str]()
    running = Embedded(moved, remark=remarks.append)
    assert running.start().awaitTermination()
    running.look()
    (remark,) = remarks
    assert remark.startswith("several files have one name")
    assert remark.endswith("000.parquet, more/000.parquet.")


def test_files_are_taken_in_the_order_of_their_times_and_as_many_as_fit(tmp_path, monkeypatch):
    case = Case(APPENDED, lambda: readings(400, 1), files=4)
    write_stream(case, tmp_path / "in")
    os.utime(tmp_path / "in" / "000.parquet", (2e9, 2e9))
    size = (tmp_path / "in" / "001.parquet").stat().st_size
    monkeypatch.setattr(embedded_files, "BATCH", size * 2.5)
    started = Embedded(config_of(case, tmp_path)).start()
    seen = []
    while not started.awaitTermination(0):
        known = started.log.known(map(str, (tmp_path / "in").iterdir())).items()
        taken = sorted((each.when, Path(path).name) for path, each in known if each.batch == len(seen))
        seen.append([name for _, name in taken])
    assert seen == [["001.parquet", "002.parquet"], ["003.parquet", "000.parquet"]]


def test_the_answer_is_read_as_of_any_run(tmp_path):
    case = CASES["rows that are appended, in groups"]
    write_stream(case, tmp_path / "in")
    run(config_of(case, tmp_path))
    found = read_answer(LocalFolder(tmp_path / "out"), "out")
    there = net(pq.read_table(tmp_path / "out" / "changes"), ("site",))
    assert {(row["site"], row["id"], row["t"]) for row in found.to_pylist()} == set(there)
    assert json.loads((tmp_path / "out" / "about.json").read_text())["engine"] == "embedded"


def test_a_stream_in_another_file_system_is_refused(tmp_path):
    with pytest.raises(FoglineError, match="--engine spark"):
        Embedded(type(config_of(CASES["timestamps"], tmp_path))("hdfs://there/in", "out", APPENDED, engine="embedded"))


def test_groups_that_time_alone_changes_are_reported_in_one_order_also_after_a_restart(tmp_path):
    rows = pa.table({"id": ["a", "b", "c", "d"], "g": ["y", "x", "z", "z"], "t": [1, 1, 900, 900], "a": [1.0] * 4})
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5, by=["g"])
    plan, place = make_plan(query, rows.schema, idle=0, ahead="off"), LocalFolder(tmp_path)
    going_on = Evaluation(Plans.alone(plan), EmbeddedState(place))
    list(going_on.take(rows.to_batches(), 0))
    going_on.state.commit()
    reports = []
    for each in (going_on, Evaluation(Plans.alone(plan), EmbeddedState(place))):
        found = [table for journal in each.take([], 0) for kind, table in journal if kind == CHANGES]
        reports.append([row["g"] for table in found for row in table.to_pylist()])
    assert reports[0] == reports[1]
    assert sorted(reports[0]) == ["x", "y"]


def test_of_an_intent_without_marks_the_files_are_not_compared(tmp_path):
    """Earlier checkpoints had none; what else is old in them is refused by name, and not by this."""
    state = EmbeddedState(LocalFolder(str(tmp_path)), "m")
    state.checkpoint.begin({"files": [["a.csv", 5]], "now": 7, "follows": False, "spans": []})
    intent = state.intent()
    assert intent is not None
    assert (intent.files, list(intent.marks)) == ([("a.csv", 5)], [])
    state.close()
