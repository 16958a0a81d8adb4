"""Is `answer/current.parquet` the answer after each batch, for tools that know nothing of Fogline?"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fogline as fl
from fogline.errors import FoglineError
from fogline.output import current, folder
from fogline.output.answers import OutputReader
from fogline.output.current import ALWAYS, BATCH_KEY, TIME_KEY, batch_of_current
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import FolderSink
from fogline.pipeline.names import CURRENT
from fogline.queries import Queries
from fogline.runs.config import RunStatus
from fogline.runs.embedded import Embedded
from tests.flow.embedding import APPENDED, CASES, NEWEST, Case, config_of, readings, write_stream

BY_X = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=30)
SEVERAL = Queries({"both": APPENDED, "a alone": BY_X})


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch):
    """Disks are slow."""
    monkeypatch.setattr(folder, "to_disk", lambda path: None)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.items()) for row in table.to_pylist()), key=repr)


def must_be_the_answer(root: Path, batch: int | None = None) -> pa.Table:
    """The file, which has the rows and columns of the answer, and the batch beside them."""
    found = pq.read_table(root / CURRENT)
    answer = OutputReader(root).answer()
    assert found.schema.names == [*answer.schema.names, "batch"]
    assert rows_of(found.drop_columns(["batch"])) == rows_of(answer)
    assert int(found.schema.metadata[BATCH_KEY]) == batch_of_current(LocalFolder(root))
    assert set(found["batch"].to_pylist()) <= {batch_of_current(LocalFolder(root))}
    assert batch is None or batch_of_current(LocalFolder(root)) == batch
    return found


def watched(config: Any, **how: Any) -> tuple[Embedded, list[int]]:
    """A run that is looked at after each batch."""
    seen: list[int] = []

    def look(status: RunStatus) -> None:
        if (Path(config.output) / CURRENT).exists():
            must_be_the_answer(Path(config.output))
            seen.append(status.batch)

    running = Embedded(config, look)
    assert running.start(**{"files_per_batch": 1, **how}).awaitTermination()
    running.close()
    return running, seen


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("explain", [False, True])
def test_after_every_batch_the_file_is_the_answer(tmp_path, name, explain):
    case = CASES[name]
    write_stream(case, tmp_path / "in")
    running, seen = watched(config_of(case, tmp_path, explain=explain), max_rows_per_batch=60)
    assert len(seen) > 3
    found = must_be_the_answer(tmp_path / "out", running.status.batch)
    reached = next(iter(OutputReader(tmp_path / "out").shown().values())).reached
    assert found.schema.metadata[TIME_KEY].decode() == str(reached).removesuffix("+00:00")


def test_of_several_queries_each_row_names_its_own(tmp_path):
    case = Case(SEVERAL, lambda: readings(300, 5))
    write_stream(case, tmp_path / "in")
    watched(config_of(case, tmp_path), max_rows_per_batch=40)
    assert set(must_be_the_answer(tmp_path / "out")["query"].to_pylist()) == set(SEVERAL)


def test_other_tools_read_it(tmp_path):
    write_stream(CASES["timestamps"], tmp_path / "in")
    watched(config_of(CASES["timestamps"], tmp_path))
    answer, file = OutputReader(tmp_path / "out").answer(), str(tmp_path / "out" / CURRENT)
    pandas = pytest.importorskip("pandas").read_parquet(file)
    assert sorted(pandas["id"]) == sorted(answer["id"].to_pylist())
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(f"select id, probability, batch from '{file}' order by id").fetchall()
    assert [row[0] for row in found] == sorted(answer["id"].to_pylist())
    known = duckdb.sql(f"select value from parquet_kv_metadata('{file}') where key = 'fogline.batch'").fetchall()
    assert {row[2] for row in found} == {int(known[0][0])}


def test_a_batch_that_was_interrupted_before_the_file_was_written_is_done_again(tmp_path, monkeypatch):
    write_stream(CASES["lateness"], tmp_path / "in")
    config = config_of(CASES["lateness"], tmp_path)
    with monkeypatch.context() as crashing:
        written = current.CurrentAnswer._write
        crashing.setattr(
            current.CurrentAnswer, "_write", lambda each: written(each) if each.batch < 2 else pytest.fail("crash")
        )
        with pytest.raises(pytest.fail.Exception):
            watched(config)
    assert batch_of_current(LocalFolder(tmp_path / "out")) == 1
    news = OutputReader(tmp_path / "out").follow(1)
    assert news is not None  # its own files are there
    assert news.batch == 2
    running, seen = watched(config)
    assert seen[0] == 2
    must_be_the_answer(tmp_path / "out", running.status.batch)


def test_a_large_answer_is_written_now_and_then_and_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(current, "ALWAYS", 0)
    monkeypatch.setattr(current, "SHARE", 10**6)
    write_stream(CASES["lateness"], tmp_path / "in")
    running = Embedded(config_of(CASES["lateness"], tmp_path))
    assert running.start(files_per_batch=1).awaitTermination()
    assert batch_of_current(LocalFolder(tmp_path / "out")) < running.status.batch
    running.close()
    must_be_the_answer(tmp_path / "out", running.status.batch)


def test_what_was_put_off_is_written_when_no_batch_follows_and_when_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(current, "ALWAYS", 0)
    monkeypatch.setattr(current, "SHARE", 10**6)
    write_stream(CASES["lateness"], tmp_path / "in")
    config = config_of(CASES["lateness"], tmp_path)
    running = Embedded(config)
    assert running.start(files_per_batch=1).awaitTermination()
    assert batch_of_current(LocalFolder(tmp_path / "out")) < running.status.batch  # as after a kill
    again = Embedded(config)
    again.output.shape()
    must_be_the_answer(tmp_path / "out", running.status.batch)
    (tmp_path / "out" / CURRENT).unlink()
    again.output.folder.current._write_when_due()  # a moment later, by itself
    again.output.folder.current.due = 0.0
    later = again.output.folder.current.later
    assert later is not None
    later.cancel()
    later.function()
    must_be_the_answer(tmp_path / "out", running.status.batch)


def test_an_error_while_writing_late_stops_the_next_batch(tmp_path):
    kept = current.CurrentAnswer(LocalFolder(tmp_path), APPENDED, "out")
    kept.failed = OSError("full")
    with pytest.raises(OSError, match="full"):
        kept.add(1, 2.0, [])


def test_what_failed_late_is_written_at_the_end_or_the_end_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(current, "ALWAYS", 0)
    monkeypatch.setattr(current, "SHARE", 10**6)
    write_stream(CASES["lateness"], tmp_path / "in")
    running = Embedded(config_of(CASES["lateness"], tmp_path))
    assert running.start(files_per_batch=1).awaitTermination()
    kept = running.output.folder.current
    assert kept.later is not None
    with monkeypatch.context() as failing:

        def full(_: str) -> None:
            raise OSError("full")

        failing.setattr(kept.folder, "filling", full)
        kept.later.cancel()
        kept.later.function()
        with pytest.raises(OSError, match="full"):
            kept.close()
    running.close()
    must_be_the_answer(tmp_path / "out", running.status.batch)


@pytest.mark.parametrize("pending", [False, True])
def test_where_files_are_missing_no_start_goes_on_and_the_file_stays_as_it_was(tmp_path, pending):
    write_stream(CASES["lateness"], tmp_path / "in")
    config = config_of(CASES["lateness"], tmp_path)
    running = Embedded(config)
    batches = running.start(files_per_batch=1)
    for _ in range(3):
        batches.awaitTermination(0)
    running.close()
    place = LocalFolder(tmp_path / "out")
    before = (tmp_path / "out" / CURRENT).read_bytes()
    first = next(iter(place.listing("changes")))
    place.delete([first, CURRENT] if pending else [first])
    for _ in range(3):
        with pytest.raises(FoglineError, match="is not whole"), closing(Embedded(config)) as again:
            again.start(files_per_batch=1).awaitTermination()
    assert (tmp_path / "out" / CURRENT).exists() is not pending
    assert pending or (tmp_path / "out" / CURRENT).read_bytes() == before


def test_a_folder_beside_the_output_has_it_too(tmp_path):
    write_stream(CASES["the newest of each id"], tmp_path / "in")
    config = config_of(CASES["the newest of each id"], tmp_path)
    watched(replace(config, sinks=(FolderSink.at(str(tmp_path / "other")),)))
    assert rows_of(must_be_the_answer(tmp_path / "other")) == rows_of(must_be_the_answer(tmp_path / "out"))
    assert NEWEST.latest


def test_batches_without_changes_leave_the_file_alone(tmp_path):
    write_stream(Case(APPENDED, lambda: readings(20, 1), files=1), tmp_path / "in")
    running = Embedded(config_of(Case(APPENDED, lambda: readings(20, 1)), tmp_path))
    running.start().awaitTermination()
    before = (tmp_path / "out" / CURRENT).stat().st_mtime_ns
    time.sleep(0.01)
    running.output.folder.write(9, {"health": pa.table({"time": [1], "batch": [9]})})
    assert (tmp_path / "out" / CURRENT).stat().st_mtime_ns == before
    assert ALWAYS > 1000
