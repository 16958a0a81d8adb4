"""How does the mine reach Spark, and how does the answer come back?

As with `OutputEngine`: rows go into a folder, one small Parquet file per portion, a run (`spark.running`, what `fogline
run --engine spark` starts) turns them into an output, and the screen is drawn from its files. Files are stamped in
their order, so Spark takes them in that order however fast they were written, and a batch never ends in the middle of a
tick.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.demo.control_room import CLOCK
from fogline.demo.mine import ATTRIBUTES, OPENING
from fogline.demo.output_engine import OutputEngine
from fogline.demo.view import BatchReport
from fogline.pipeline.exchange import ArrivedRows
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.runner import GroupRunner
from fogline.pipeline.shard import Shard
from fogline.pipeline.stages import pruned
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.runs.config import RunConfig
from fogline.spark import fit
from fogline.spark.errors import plainly
from fogline.spark.running import Run
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


class SparkEngine(OutputEngine):
    """A run of files on a Spark session."""

    def __init__(self, spark: Any) -> None:
        self.spark, self.folder = spark, Path(mkdtemp(prefix="fogline-demo-"))
        super().__init__(self.folder / "out")
        self.query: Any = None

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
            run = Run(self.spark, RunConfig(str(files), str(self.folder / "warm"), query))
            run.to_the_end(signals=())
            run.close()

    def start(self, query: Query, repository: Repository, *, at_once: int | None) -> None:
        with plainly(), _set(self.spark, BRISK):
            self.running = Run(self.spark, RunConfig(str(self.files), str(self.output), query, repository))
            self.query = self.running.start(follow=at_once is None, files_per_batch=at_once)
        self.begun()

    def poll(self, patience: float) -> BatchReport | None:
        ended = not self.query.isActive
        if (report := self.news()) is None and ended:
            with plainly():
                self.query.awaitTermination()  # raises what ended it, if it was an error
        if report is None:
            sleep(patience)
        return report

    def stop(self) -> None:
        """The batch at hand may finish."""
        if self.query is not None:
            end = monotonic() + PATIENCE
            while self.query.isActive and self.query.status["isTriggerActive"] and monotonic() < end:
                sleep(0.02)
            self.query.stop()
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def rehearse(rows: pa.Table, query: Query, repository: Repository) -> None:
    """What workers will do with rows, here and now, in two batches."""
    plan = make_plan(query, rows.schema, opened=shared(repository))
    runner, store, half = GroupRunner(plan), MemoryStore(), rows.num_rows // 2
    for part in (rows.slice(0, half), rows.slice(half)):
        for chunk in pruned(Plans.alone(plan), part.to_batches()):
            shard = Shard(runner, store)
            for _ in shard.take(ArrivedRows([chunk.groups])):
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
