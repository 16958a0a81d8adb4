"""How does the mine reach Spark, and how does the answer come back?

Rows go into a folder, one small Parquet file per portion; Spark's file stream reads the folder and `journal` reports
changes and health; the rows of a micro-batch are put into a queue as Arrow. Files are stamped in their order, so Spark
takes them in that order however fast they were written, and a batch never ends in the middle of a tick.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from tempfile import mkdtemp
from threading import Lock, Thread
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.demo.control_room import CLOCK
from fogline.demo.mine import ATTRIBUTES, OPENING
from fogline.demo.view import BatchReport
from fogline.output.folder_sink import tables_of
from fogline.pipeline.names import CHANGES, HEALTH
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.report import schema_of
from fogline.pipeline.runner import GroupRunner
from fogline.pipeline.shard import Shard
from fogline.pipeline.stages import pruned
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.spark import fit
from fogline.spark.errors import plainly
from fogline.spark.pipeline import journal, plans_for
from fogline.spark.share import shared
from fogline.state.store import MemoryStore

# A demo lasts less than a minute: generated code costs more than it gains, and on two cores the first answer waits.
BRISK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",  # there is one group
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # without rows the clock does not move
}
PATIENCE = 5.0  # seconds for the batch at hand when the demo is stopped


class SparkEngine:
    """The engine on a Spark session."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.folder = Path(mkdtemp(prefix="fogline-demo-"))
        self.files = self.folder / "reports"
        self.files.mkdir()
        self.sent = 0
        self.batches: Queue[BatchReport] = Queue()
        self.query: Any = None
        self.busy, self.over = Lock(), False

    def learn(self, history: pa.Table, query: Query) -> Repository:
        with plainly(), _set(self.spark, BRISK):
            beside = Thread(target=self._warm_up, args=(query,), daemon=True)
            beside.start()
            repository = fit(self.spark.createDataFrame(history), query, folder=self.folder / "repository")
            beside.join()
            return repository

    def _warm_up(self, query: Query) -> None:
        """The first stateful stream of a session takes seconds to load what it needs: let it be a small one, now."""
        files = self.folder / "warm-up"
        files.mkdir()
        row = {"sensor": "", "ts": OPENING, **dict.fromkeys(ATTRIBUTES, 0.0)}
        schema = pa.schema([("sensor", pa.string()), ("ts", CLOCK), *((name, pa.float64()) for name in ATTRIBUTES)])
        pq.write_table(pa.Table.from_pylist([row], schema), files / "0.parquet")
        with suppress(Exception):  # whatever is wrong will show when it matters
            rows = self.spark.readStream.schema(_columns(schema)).parquet(str(files))
            journalled = journal(rows, plans_for(rows, query))
            self._started(journalled, lambda batch, number: batch.toArrow(), all_there=True).awaitTermination()

    def send(self, rows: pa.Table) -> None:
        written = self.files / f".{self.sent:06}"  # hidden from Spark until it is whole
        pq.write_table(rows, written)
        self.schema = rows.schema
        os.utime(written, (self.sent, self.sent))
        written.rename(self.files / f"{self.sent:06}.parquet")
        self.sent += 1

    def start(self, query: Query, repository: Repository, *, at_once: int | None) -> None:
        with plainly(), _set(self.spark, BRISK):
            reader = self.spark.readStream.schema(_columns(self.schema))
            reader = reader if at_once is None else reader.option("maxFilesPerTrigger", at_once)
            rows = reader.parquet(str(self.files))
            plan = plans_for(rows, query, repository)
            self.no_changes = schema_of(plan, CHANGES).empty_table()
            journalled = journal(rows, plan)
            self.query = self._started(journalled, self._collect, all_there=at_once is not None)

    def _started(self, journalled: Any, each: Callable[[Any, int], None], *, all_there: bool) -> Any:
        state = mkdtemp(prefix="state-", dir=self.folder)
        writer = journalled.writeStream.foreachBatch(each).option("checkpointLocation", state)
        how: dict[str, Any] = {"availableNow": True} if all_there else {"processingTime": "0 seconds"}
        return writer.trigger(**how).start()

    def _collect(self, batch: Any, number: int) -> None:
        with self.busy:
            if self.over:
                return
            begin = perf_counter()
            packed = batch.toArrow()
            seconds = perf_counter() - begin
        parts = tables_of(packed.to_batches(), number, seconds)
        for state in parts[HEALTH].to_pylist()[-1:] if HEALTH in parts else ():  # none where no row came
            table = parts.get(CHANGES, self.no_changes)
            self.batches.put(BatchReport(table, state["time"], state["live"], seconds))

    def poll(self, patience: float) -> BatchReport | None:
        try:
            return self.batches.get(timeout=patience)
        except Empty:
            if not self.query.isActive and self.batches.empty():
                with plainly():
                    self.query.awaitTermination()  # raises what ended it, if it was an error
            return None

    def stop(self) -> None:
        """The batch at hand may finish; those behind it have nothing more to do."""
        self.over = True
        if self.query is not None:
            finished = self.busy.acquire(timeout=PATIENCE)
            self.query.stop()
            if finished:
                self.busy.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def rehearse(rows: pa.Table, query: Query, repository: Repository) -> None:
    """What workers will do with rows, here and now, in two batches."""
    plan = make_plan(query, rows.schema, opened=shared(repository))
    runner, store, half = GroupRunner(plan), MemoryStore(), rows.num_rows // 2
    for part in (rows.slice(0, half), rows.slice(half)):
        for chunk in pruned(Plans.alone(plan), part.to_batches()):
            shard = Shard(runner, store)
            for _ in shard.take({key: [each] for key, each in chunk.groups}):
                pass
            shard.finish()


@contextmanager
def _set(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    """Settings for what is started meanwhile: a streaming query keeps those that it was started with."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _columns(schema: pa.Schema) -> str:
    """The same columns in Spark's words."""
    words = {pa.string(): "string", CLOCK: "timestamp", pa.float64(): "double"}
    return ", ".join(f"{field.name} {words[field.type]}" for field in schema)
