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
from fogline.demo.view import BatchReport
from fogline.output.answers import OutputReader
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded, EmbeddedRun

_NONE = pa.table({name: [] for name in ("time", "sensor", "ts", "change", "probability")})  # no change


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
        self.running = Embedded(config)
        self.run: EmbeddedRun = self.running.start(follow=True, files_per_batch=at_once)
        self.reader, self.started = OutputReader(self.output), True

    def poll(self, patience: float) -> BatchReport | None:
        began = perf_counter()
        self.run.awaitTermination(0)
        news = self.reader.follow(self.batch) if self.running.status.batch > self.batch else None
        if news is None:
            sleep(max(0.0, patience - (perf_counter() - began)))
            return None
        self.batch = news.batch
        *_, health = pa.concat_tables(news.health).to_pylist()  # rows may come, and then their timer
        changes = [table for _, table in news.changes]
        table = pa.concat_tables(changes) if changes else _NONE
        return BatchReport(table, health["time"], health["live"], perf_counter() - began)

    def stop(self) -> None:
        if self.started:
            self.running.close()
        shutil.rmtree(self.files, ignore_errors=True)
