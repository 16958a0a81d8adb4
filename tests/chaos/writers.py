"""What else does Fogline write, beside the runs in one process, and what must come of it?

An output as the driver of Spark writes it, with a checkpoint that is not synced by itself; a repository over an older
one; repositories that a machine keeps; a query that `fogline init` writes; rows that `fogline impute` writes.
"""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.cli.init import written
from fogline.files.writing import write_folder
from fogline.output.answers import OutputReader, read_answer
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import Reported
from fogline.pipeline.names import KINDS
from fogline.repository import cache as machine
from fogline.runs.checkpoint import SourceLog, Synced, mend
from fogline.runs.config import Output, RunConfig
from tests.chaos.runs import Scenario, learnt, learnt_later, names_in
from tests.flow.test_output import QUERY, batches, expected, in_order, rows_in
from tests.flow.test_views import reports

MADE = 6  # batches


@cache
def made() -> tuple[list[dict[str, pa.Table]], list[dict[str, pa.Table]]]:
    return batches(MADE, seed=2), reports(MADE, 2)


def nothing(root: Path) -> None:
    """Is there before."""


def driven() -> Scenario:
    """Spark's driver: the engine writes down which files a batch reads, and after it that it is done, without waiting
    for the disk; between, the batch is put into the output."""

    def output_in(root: Path) -> Output:
        config = RunConfig("in", str(root / "out"), QUERY, explain=True, keep_batches=2)
        output = Output(LocalFolder(root / "out"), config)
        output.folder.compaction.block = 2
        return output

    def note(checkpoint: Path, log: str, number: int, text: str) -> None:
        if (checkpoint / log / str(number)).exists():
            return  # the engine never writes an entry of its logs again
        draft = checkpoint / log / f".{number}.tmp"
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text)
        draft.rename(checkpoint / log / str(number))

    def done(checkpoint: Path) -> int:
        return max((int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")), default=-1)

    def run(root: Path) -> None:
        checkpoint = root / "out" / "checkpoint"
        mend(checkpoint)
        output = output_in(root)
        if output.shape() is None:
            output.begin({})
        changes, views = made()
        SourceLog(output.place).gone()
        synced = Synced(checkpoint)
        for number in range(done(checkpoint) + 1, MADE):
            note(checkpoint, "sources/0", number, f'v1\n{{"path":"file:///{number}","timestamp":1,"batchId":{number}}}')
            note(checkpoint, "offsets", number, f'v1\n{{"logOffset":{number}}}')
            synced.sync()
            shown = {kind: Reported(output.place, kind, number, views[number].get(kind), []) for kind in views[number]}
            output.folder.put_views(number, shown)
            output.folder.write(number, changes[number])
            note(checkpoint, "commits", number, "v1\n{}")

    def seen(root: Path) -> Any:
        place, (changes, _) = LocalFolder(root / "out"), made()
        kept = {kind: rows_in(root / "out", kind) for kind in (*KINDS, "near", "next")}
        answer = in_order(read_answer(place, "out"))
        assert answer == expected(changes)
        return [list(kept.values()), answer, plain_scores(place)]  # what was joined may go later

    def between(root: Path) -> None:
        if (root / "out" / "about.json").exists():
            changes, _ = made()
            answer = in_order(read_answer(LocalFolder(root / "out"), "out"))
            assert any(answer == expected(changes[:k]) for k in range(MADE + 1)), "an answer that never was"

    return Scenario("output", "of Spark's driver", nothing, run, seen, between)


def plain_scores(place: LocalFolder) -> list[tuple[Any, ...]]:
    return [(*key, *values) for key, values in OutputReader(place, "out").scores().items()]


def saved() -> Scenario:
    """A repository over an older one."""
    marks = learnt().fingerprint, learnt_later().fingerprint

    def found(root: Path) -> str:
        return fl.Repository.load(root / "r").fingerprint

    def between(root: Path) -> None:
        assert found(root) in marks, "neither the old nor the new one"

    def run(root: Path) -> None:
        learnt_later().save(root / "r")

    def seen(root: Path) -> Any:
        return [found(root), fl.Repository.load(root / "r", marks[0]).fingerprint]

    return Scenario("repository", "saved over another", lambda root: learnt().save(root / "r"), run, seen, between)


def fetched() -> Scenario:
    """A repository that came from elsewhere, kept by this machine."""

    def prepare(root: Path) -> None:
        learnt().save(root / "there")
        machine.pack(root / "there", learnt().fingerprint, root / "packed.tar")
        shutil.rmtree(root / "there")

    def run(root: Path) -> None:
        with patch.dict(os.environ, {machine.PLACE: str(root / "kept")}):
            folder = machine.unpacked(learnt().fingerprint, lambda: root / "packed.tar")
            assert fl.Repository.load(folder).fingerprint == learnt().fingerprint

    return Scenario("repository", "kept by a machine", prepare, run, lambda root: names_in(root))


def begun() -> Scenario:
    """What `fogline init` writes."""

    def run(root: Path) -> None:
        path = root / "query.yaml"
        if path.exists():  # a command that was cut off after it had written all
            assert fl.Query.load(path).id == "i"
            return
        written(path, json.dumps(QUERY.to_dict()))

    def seen(root: Path) -> Any:
        return [fl.Query.load(root / "query.yaml").to_dict(), names_in(root)]

    return Scenario("query", "of init", nothing, run, seen)


def imputed() -> Scenario:
    """What `fogline impute` writes, over what is there."""
    old, new = (pa.table({"id": [f"{word}{k}" for k in range(9)]}) for word in ("old", "new"))

    def run(root: Path) -> None:
        write_folder(new, str(root / "rows.parquet"), overwrite=True)

    def seen(root: Path) -> Any:
        return [pq.read_table(root / "rows.parquet").to_pylist(), names_in(root)]

    def between(root: Path) -> None:
        if (root / "rows.parquet").exists():
            assert pq.read_table(root / "rows.parquet").num_rows == 9

    def prepare(root: Path) -> None:
        write_folder(old, str(root / "rows.parquet"), overwrite=False)

    return Scenario("rows", "of impute", prepare, run, seen, between)


WRITERS = (driven, saved, fetched, begun, imputed)
