"""How does the mine become an output folder that the page shows?

Rows go into a folder, one small file per portion, and a run in this process (`runs.embedded`, what `fogline run
--engine embedded --explain` starts) turns them into changes, with why each row is in, which rows are near, and what to
measure next. What the demo's screen shows is read back from the same files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.demo.engine import Engine
from fogline.demo.view import LOOKED_AT, BatchReport
from fogline.output.answers import OutputReader
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.start import StreamRun

_NONE = pa.table({name: [] for name in LOOKED_AT})  # no change


@contextmanager
def into_folder(output: Path) -> Iterator[Engine]:
    """An engine that writes an output; what it reads lies beside it, and goes with the engine."""
    engine = OutputEngine(output)
    try:
        yield engine
    finally:
        engine.stop()


class OutputEngine:
    """A run of files in this process."""

    def __init__(self, output: Path) -> None:
        self.output, self.files = output, output.with_name(f"{output.name}-rows")
        self.files.mkdir(parents=True)
        self.sent, self.started, self.batch = 0, False, -1

    def learn(self, history: pa.Table, query: Query) -> Repository:
        return Repository.fit(history, query)

    def send(self, rows: pa.Table) -> None:
        written = self.files / f".{self.sent:06}"  # hidden until it is whole
        pq.write_table(rows, written)
        os.utime(written, (self.sent, self.sent))  # files are taken in this order
        written.rename(self.files / f"{self.sent:06}.parquet")
        self.sent += 1

    def start(self, query: Query, repository: Repository, *, at_once: int | None) -> None:
        config = RunConfig(str(self.files), str(self.output), query, repository, explain=True, engine=EMBEDDED)
        self.running: StreamRun = Embedded(config)
        self.batches = self.running.start(follow=True, files_per_batch=at_once)
        self.begun()

    def begun(self) -> None:
        """The run writes its output from now on."""
        self.reader, self.started = OutputReader(self.output), True

    def poll(self, patience: float) -> BatchReport | None:
        began = perf_counter()
        self.batches.awaitTermination(0)
        if (report := self.news()) is None:
            sleep(max(0.0, patience - (perf_counter() - began)))
        return report

    def news(self) -> BatchReport | None:
        """What the newest batches have written; None: there is none."""
        news = self.reader.follow(self.batch) if self.running.status.batch > self.batch else None
        if news is None:
            return None
        self.batch = news.batch
        health = pa.concat_tables(news.health).to_pylist()
        changes = [table for _, table in news.changes]
        table = pa.concat_tables(changes) if changes else _NONE
        return BatchReport(table, health[-1]["time"], health[-1]["live"], sum(each["seconds"] for each in health))

    def stop(self) -> None:
        if self.started:
            self.running.close()
        shutil.rmtree(self.files, ignore_errors=True)
