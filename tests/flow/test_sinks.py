"""Does every sink get each batch, once or again with the same content, whatever fails on the way?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fogline.errors import FoglineError, LimitError, SinkError
from fogline.output import folder
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import FolderSink
from fogline.output.sink import Batches, RunInfo
from fogline.pipeline.exchange import GroupRows
from fogline.pipeline.plan import make_plan
from fogline.runs import embedded, spill
from fogline.runs.config import RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.evaluation import Evaluation
from fogline.runs.lock import holding
from fogline.runs.taken import FileRows
from tests.flow.driving import pruned_rows, take
from tests.flow.embedding import CASES, config_of, reported, run, state_of, write_stream

CASE = CASES["rows that are appended, in groups"]


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch):
    monkeypatch.setattr(folder, "to_disk", lambda path: None)


class Keeping:
    """A user's own sink: what is written of each number, and how often it came."""

    def __init__(self, fails: int | None = None, after: bool = False) -> None:
        self.fails, self.after = fails, after
        self.batches: dict[int, dict[str, list[dict[str, Any]]]] = {}
        self.came: list[int] = []
        self.run: RunInfo | None = None
        self.closed = self.pieces = 0

    def begin(self, run: RunInfo) -> None:
        self.run = run

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        self.came.append(number)
        self.pieces += len(getattr(changes, "files", ()))
        if number == self.fails and not self.after:
            self.fails = None
            raise ValueError("the disk\nis full")
        found = {}
        for kind, each in (("changes", changes), ("rejects", rejects), ("health", health)):
            tables = list(each)
            assert self.run is not None
            assert all(table.schema.equals(self.run.schemas[kind]) for table in tables), kind
            found[kind] = [row for table in tables for row in table.to_pylist()]
        before = self.batches.setdefault(number, found)
        assert before["changes"] == found["changes"]  # in the same order, if it comes again
        assert before["rejects"] == found["rejects"]
        if number == self.fails:
            self.fails = None
            raise KeyError("gone")

    def close(self) -> None:
        self.closed += 1

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [row for number in sorted(self.batches) for row in self.batches[number][kind]]


def in_files(output: Path, kind: str) -> list[dict[str, Any]]:
    return [row for path in sorted((output / kind).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("name", CASES)
def test_a_sink_gets_what_the_folder_holds_in_the_same_order(tmp_path, name):
    case, sink = CASES[name], Keeping()
    write_stream(case, tmp_path / "in")
    running = run(config_of(case, tmp_path, sinks=(sink,)))
    running.close()
    assert sink.closed == 1
    assert sink.came == sorted(set(sink.came))
    for kind in ("changes", "rejects", "health"):
        assert sink.rows(kind) == in_files(tmp_path / "out", kind), kind
    assert sink.run is not None
    assert sink.run.query == case.query
    assert sink.run.last is None
    assert set(sink.run.key) >= {case.query.id, *case.query.by}


@pytest.mark.parametrize("after", [False, True])
def test_a_sink_that_fails_stops_the_run_which_then_goes_on_exactly(tmp_path, after):
    write_stream(CASE, tmp_path / "in")
    run(config_of(CASE, tmp_path, "calm"), files_per_batch=1)
    first, failing = Keeping(), Keeping(fails=2, after=after)
    expected = "KeyError: 'gone'" if after else "ValueError: the disk is full"
    with pytest.raises(SinkError, match=f"^Keeping could not take batch 2: {expected}$"):
        run(config_of(CASE, tmp_path, sinks=(first, failing)), files_per_batch=1)
    assert not list((tmp_path / "out" / "changes").glob("*2.parquet"))  # the folder comes last
    run(config_of(CASE, tmp_path, sinks=(first, failing)), files_per_batch=1)
    assert first.came == failing.came == [0, 1, 2, 2, 3, 4]
    assert first.run is not None
    assert first.run.last == 1
    for kind in ("changes", "rejects"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
        assert first.rows(kind) == failing.rows(kind) == in_files(tmp_path / "out", kind)


@pytest.mark.parametrize("follow", [False, True])
def test_a_run_whose_sink_failed_does_nothing_more_until_it_is_started_again(tmp_path, follow):
    write_stream(CASE, tmp_path / "in")
    run(config_of(CASE, tmp_path, "calm"), files_per_batch=1)
    sink = Keeping(fails=2)
    running = Embedded(config_of(CASE, tmp_path, sinks=(sink,)))
    started = running.start(files_per_batch=1, follow=follow)
    for _ in range(2):
        started.awaitTermination(0)
    with pytest.raises(SinkError, match="could not take batch 2"):
        started.awaitTermination(0)
    before = {str(path): path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    stated = (
        "^this run has failed, and does nothing more: Keeping could not take batch 2: ValueError: the disk is full. "
        "Started again, the same command goes on from the checkpoint.$"
    )
    for call in (lambda: started.awaitTermination(0), started.awaitTermination, started.finish):
        with pytest.raises(FoglineError, match=stated):
            call()
    assert sink.came == [0, 1, 2]
    assert before == {str(path): path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    started.stop()
    assert running.start(files_per_batch=1).awaitTermination()
    assert sink.came == [0, 1, 2, 2, 3, 4]
    for kind in ("changes", "rejects"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
        assert sink.rows(kind) == in_files(tmp_path / "out", kind)


def test_sinks_read_pieces_that_workers_wrote_before_the_folder_takes_them(tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "PIECE", 2000)
    monkeypatch.setattr(embedded, "COLLECTED", 3000)
    write_stream(CASE, tmp_path / "in")
    sinks = Keeping(), Keeping()
    run(config_of(CASE, tmp_path, sinks=sinks), files_per_batch=5)
    parts = sorted(path.name for path in (tmp_path / "out" / "changes").iterdir())
    assert parts == ["batch-000000000.0001of0002.parquet", "batch-000000000.0002of0002.parquet"]
    for kind in ("changes", "rejects", "health"):
        assert sinks[0].rows(kind) == sinks[1].rows(kind) == in_files(tmp_path / "out", kind)
    assert not (tmp_path / "out" / ".pieces").exists()
    assert sinks[0].pieces == 1


def test_changes_of_a_batch_come_in_one_order_whichever_rows_come_first():
    table = CASE.table()
    plan = make_plan(CASE.query, table.schema)
    parts = [table.take(pa.array(range(k, table.num_rows, 4))) for k in range(4)]

    def changes(order: list[int]) -> list[pa.Table]:
        group_rows: dict[str, list[GroupRows]] = {}
        for k in order:
            for key, some in pruned_rows(plan, parts[k]).items():
                group_rows.setdefault(key, []).extend(some)
        journals = (take(plan, key, None, group_rows[key]).journal for key in sorted(group_rows))
        return [each for journal in journals for kind, each in journal if kind == "changes"]

    first = changes([0, 1, 2, 3])
    assert sum(each.num_rows for each in first) > 50
    assert changes([3, 1, 0, 2]) == changes([2, 3, 1, 0]) == first


def test_a_folder_elsewhere_holds_the_same_and_is_answered(tmp_path):
    write_stream(CASE, tmp_path / "in")
    other = FolderSink.at(str(tmp_path / "other"))
    run(config_of(CASE, tmp_path, sinks=(other,)))
    run(config_of(CASE, tmp_path, "alone", sinks=(FolderSink.at(str(tmp_path / "third")),), keeps=False))
    assert not (tmp_path / "alone" / "changes").exists()
    for kind in ("changes", "rejects"):
        assert in_files(tmp_path / "other", kind) == in_files(tmp_path / "out", kind)
        assert in_files(tmp_path / "third", kind) == in_files(tmp_path / "out", kind)
    answers = [read_answer(LocalFolder(tmp_path / name), name) for name in ("out", "other", "third")]
    assert answers[0].num_rows > 0
    assert answers[0].equals(answers[1])
    assert answers[0].equals(answers[2])


@pytest.mark.parametrize("batches", [0, 3])
def test_a_folder_in_which_another_run_keeps_what_it_needs_is_no_sink(tmp_path, batches):
    write_stream(CASE, tmp_path / "in")
    other = FolderSink.at(str(tmp_path / "other"))
    first = config_of(CASE, tmp_path, "mine", sinks=(other,), keeps=False)
    going = Embedded(first).start(files_per_batch=1)
    for _ in range(batches):
        going.awaitTermination(0)
    before = (tmp_path / "mine" / "about.json").read_bytes()
    with pytest.raises(SinkError, match="it is the folder of another run; choose another folder"):
        run(config_of(CASE, tmp_path, "next", sinks=(FolderSink.at(str(tmp_path / "mine")),)))
    assert (tmp_path / "mine" / "about.json").read_bytes() == before


def test_a_folder_that_another_run_is_about_to_begin_is_no_sink(tmp_path):
    write_stream(CASE, tmp_path / "in")
    with holding(str(tmp_path / "mine"), "embedded"), pytest.raises(SinkError, match="it is the folder of another run"):
        run(config_of(CASE, tmp_path, sinks=(FolderSink.at(str(tmp_path / "mine")),)))


@pytest.mark.parametrize("where", ["out", "other"])
@pytest.mark.parametrize("kinds", [("changes", "rejects", "health"), ("health",)])
def test_a_place_that_has_lost_its_newest_batches_is_refused(tmp_path, where, kinds):
    write_stream(CASE, tmp_path / "in")
    config = config_of(CASE, tmp_path, sinks=(FolderSink.at(str(tmp_path / "other")),))
    going = Embedded(config)
    batches = going.start(files_per_batch=1)
    for _ in range(3):
        batches.awaitTermination(0)
    going.close()
    for kind in kinds:
        for number in (1, 2):
            (tmp_path / where / kind / f"batch-{number:09}.parquet").unlink(missing_ok=True)
    with pytest.raises(FoglineError, match=r"batch 2\b.*batches up to 0 only|batches up to 0 only.*batch 2\b"):
        run(config)


def test_a_batch_with_nothing_to_report_is_not_missed_and_a_place_may_be_ahead_of_the_commit(tmp_path, monkeypatch):
    write_stream(CASE, tmp_path / "in")
    config = config_of(CASE, tmp_path, sinks=(FolderSink.at(str(tmp_path / "other")),))
    with monkeypatch.context() as crashing:
        crashing.setattr(EmbeddedState, "commit", lambda *_, **__: pytest.fail("crash"))
        with pytest.raises(pytest.fail.Exception):
            run(config)
    run(config)
    (tmp_path / "in" / "empty.csv").write_text("")
    run(config)
    state = state_of(tmp_path / "out")
    assert (state.checkpoint.reported, state.batch) == (2, 3)
    state.close()
    run(config)


def test_a_run_goes_on_with_the_places_it_was_begun_with(tmp_path):
    write_stream(CASE, tmp_path / "in")

    def started(*places: str, keeps: bool = True, moved: bool = False) -> RunConfig:
        sinks = tuple(FolderSink.at(str(tmp_path / place)) for place in places)
        return config_of(CASE, tmp_path, sinks=(*sinks, Keeping()), keeps=keeps, moved=moved)

    run(started("a"))
    run(started("a"))  # a user's object without a place may come and go
    refused = r"(?s)was begun with another list of sinks.*it was \['its own folder', '.*/a'\]\n  now it is "
    for config in (started(), started("a", "b"), started("b"), started("a", keeps=False)):
        with pytest.raises(FoglineError, match=refused):
            run(config)
    with pytest.raises(FoglineError, match=r"/b cannot be begun with: the run has done its batches up to 2 without it"):
        run(started("b", moved=True))
    for places in ((), ("a", "b")):
        with pytest.raises(FoglineError, match="may have another address, but none may come or go"):
            run(started(*places, moved=True))
    (tmp_path / "a").rename(tmp_path / "c")
    run(started("c", moved=True))
    with pytest.raises(FoglineError, match="it holds the batches of another run; choose another folder"):
        run(config_of(CASE, tmp_path, "next", sinks=(FolderSink.at(str(tmp_path / "c")),)))


def test_a_sink_that_cannot_begin_stops_the_start_and_leaves_the_run_to_be_begun(tmp_path):
    class Refusing(Keeping):
        def begin(self, run: RunInfo) -> None:
            raise FoglineError("the room is locked; open it")

    write_stream(CASE, tmp_path / "in")
    with pytest.raises(SinkError, match=r"^Refusing cannot be begun with: the room is locked; open it$"):
        Embedded(config_of(CASE, tmp_path, sinks=(Refusing(),))).start()
    sink = Keeping()
    run(config_of(CASE, tmp_path, sinks=(sink,)))
    assert sink.rows("changes") == in_files(tmp_path / "out", "changes")


def test_the_example_in_the_pages_counts_what_enters(tmp_path):
    """Twelve lines of a user."""

    class Counting:
        def __init__(self) -> None:
            self.last, self.entered = -1, 0

        def put(self, number: int, changes: Any, rejects: Any, health: Any) -> None:
            if number <= self.last:
                return  # it came before, and comes again after a crash
            for batch in changes:
                self.entered += pa.compute.sum(pa.compute.equal(batch["change"], "enter")).as_py() or 0
            self.last = number

    write_stream(CASE, tmp_path / "in")
    sink = Counting()
    run(config_of(CASE, tmp_path, sinks=(sink,)))
    entered = [row for row in in_files(tmp_path / "out", "changes") if row["change"] == "enter"]
    assert sink.entered == len(entered) > 0


def _stopped_with_one_sink_ahead(folder: Path) -> Keeping:
    """A run of two batches: of the second one sink has the changes, and the other failed."""
    write_stream(CASE, folder / "in")
    run(config_of(CASE, folder, "calm"), files_per_batch=1)
    ahead = Keeping()
    with pytest.raises(SinkError):
        run(config_of(CASE, folder, sinks=(ahead, Keeping(fails=1))), files_per_batch=1)
    assert ahead.came == [0, 1]
    return ahead


@pytest.mark.parametrize("change", ["gone", "changed", "longer", "touched"])
def test_a_batch_is_done_again_only_with_the_files_that_it_had(change, tmp_path):
    ahead = _stopped_with_one_sink_ahead(tmp_path)
    path = tmp_path / "in" / "001.parquet"
    good = path.read_bytes()
    match change:
        case "gone":
            path.unlink()
        case "changed":
            pq.write_table(CASE.table().slice(0, 7), path)
        case "longer":
            path.write_bytes(good + b" ")
        case _:
            path.write_bytes(good)
    if change != "touched":
        for _ in range(2):  # it stays so, until the file is back
            with pytest.raises(
                FoglineError, match=r"001.parquet' is not what it was when a batch read it that was not"
            ):
                run(config_of(CASE, tmp_path, sinks=(ahead,)), files_per_batch=1)
        assert ahead.came == [0, 1]
        path.write_bytes(good)
    run(config_of(CASE, tmp_path, sinks=(ahead,)), files_per_batch=1)
    assert ahead.came == [0, 1, 1, 2, 3, 4]
    for kind in ("changes", "rejects"):
        assert reported(tmp_path / "out", kind) == reported(tmp_path / "calm", kind)
        assert ahead.rows(kind) == in_files(tmp_path / "out", kind)


def test_a_batch_that_failed_before_it_put_anything_needs_its_files_no_more(tmp_path, monkeypatch):
    write_stream(CASE, tmp_path / "in")
    take = Evaluation.take

    def fails(self, *how: Any) -> Any:
        yield from list(take(self, *how))[:1]  # the rows are read, and the state was changed
        raise LimitError("too many")

    with monkeypatch.context() as patch:
        patch.setattr(Evaluation, "take", fails)
        with pytest.raises(LimitError):
            run(config_of(CASE, tmp_path), files_per_batch=1)
    (tmp_path / "in" / "000.parquet").unlink()
    run(config_of(CASE, tmp_path), files_per_batch=1)
    run(config_of(CASE, tmp_path, "calm"), files_per_batch=1)
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")


def test_what_was_interrupted_before_it_put_anything_is_begun_anew_with_the_files_that_are_there(tmp_path, monkeypatch):
    write_stream(CASE, tmp_path / "in")
    read = FileRows.take

    def dies(self, *how: Any) -> Any:
        yield from list(read(self, *how))[:1]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileRows, "take", dies)
        with pytest.raises(KeyboardInterrupt):
            run(config_of(CASE, tmp_path), files_per_batch=1)
    (tmp_path / "in" / "000.parquet").unlink()
    run(config_of(CASE, tmp_path), files_per_batch=1)
    run(config_of(CASE, tmp_path, "calm"), files_per_batch=1)
    assert reported(tmp_path / "out") == reported(tmp_path / "calm")
