"""How does a stream of files become a folder of changes, and survive the night?

`Run` reads files as they come, watches, and after each micro-batch writes what it has to report into the output folder
(`flow.output`). Spark's checkpoint lies in the same folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fogline.files.paths import absolute, is_local
from fogline.flow.checkpoint import Synced, mend
from fogline.flow.collected import write_batch
from fogline.flow.output import Output, RunConfig, RunStatus
from fogline.flow.resume import as_begun
from fogline.flow.spill import COLLECTED, Spill
from fogline.spark.collecting import collect, collect_through_files
from fogline.spark.errors import plainly
from fogline.spark.hadoop import folder
from fogline.spark.partitions import PARTITIONS
from fogline.spark.pipeline import journal, plan_for
from fogline.spark.sources import Source, opened


class Run:
    """One stream being watched into a folder."""

    def __init__(
        self,
        spark: SparkSession,
        config: RunConfig,
        report: Callable[[RunStatus], None] = lambda status: None,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        place = folder(absolute(config.output), spark)
        config = as_begun(config, place)
        self.spark, self.config, self.report, self.remark = spark, config, report, remark
        self.output = Output(place, config)
        self.status = RunStatus()
        self.source: Source | None = None
        self.checkpoint = Path(absolute(config.output)) / "checkpoint" if is_local(config.output) else None
        self.synced = None if self.checkpoint is None else Synced(self.checkpoint)

    def start(
        self, *, follow: bool = False, files_per_batch: int | None = None, clock: str | None = None
    ) -> StreamingQuery:
        """Begin, or go on where an earlier run stopped. Without `follow` it ends when all files are read.

        While files that are already there are read, silent groups are not moved on by others: theirs may come yet.
        `clock`: what times that are texts mean, "number" or "timestamp"; without, the first rows show it.
        """
        config = self.config
        self.source = self._source(files_per_batch, clock)
        source, layout = self.source.stream, self.source.layout
        with plainly():
            how = {name: getattr(config, name) for name in ("every", "lateness", "ahead", "idle", "hindsight")}
            how |= {
                "clock": layout.clock or None,
                "versions": layout.versions or None,
                "moves_idle": follow,
                "buckets": self.output.buckets,
            }
            plan = plan_for(source, config.query, config.repository, schema=layout.schema, **how)
            if self.source.new:
                self.output.begin(layout.to_dict(), plan.buckets)
            count = None if config.query.by or plan.deals else 1
            report = journal(source, plan, self._spill(count), self.source.read)
            writer = report.writeStream.foreachBatch(self._write).queryName("fogline")
            writer = writer.option("checkpointLocation", f"{absolute(config.output)}/checkpoint")
            writer = writer.trigger(processingTime="0 seconds") if follow else writer.trigger(availableNow=True)
            with _partitions(self.spark, count):
                return writer.start()

    def _source(self, files_per_batch: int | None, clock: str | None) -> Source:
        if self.checkpoint is not None:
            for path in mend(self.checkpoint):
                self.remark(f"{str(path)!r} had no content, as after a power cut: its batch is done again.")
        return opened(self.spark, self.output, files_per_batch=files_per_batch, clock=clock, remark=self.remark)

    def _spill(self, partitions: int | None) -> Spill | None:
        """Where tasks leave what is too much for the driver; None where only the JVM reaches the output."""
        if not is_local(self.config.output):
            return None
        tasks = int(self.spark.conf.get(PARTITIONS)) if partitions is None else partitions
        return Spill(absolute(self.config.output), COLLECTED // tasks)

    def look(self) -> None:
        """Remark on what is new around the stream, such as files that are not read, each once."""
        for text in [] if self.source is None else self.source.look(self.status):
            self.remark(text)

    def _write(self, batch: DataFrame, number: int) -> None:
        """The batch is evaluated exactly once: Spark counts how often its state is committed."""
        began = perf_counter()
        place = self.output.place
        if is_local(self.config.output):
            collected = collect(batch, place)
        else:
            collected = collect_through_files(batch, place, self.config.output, COLLECTED // 4)
        if not collected:
            return
        seconds = perf_counter() - began
        if self.synced is not None:
            self.synced.sync()
        write_batch(self.output, self.status, collected, number, seconds)
        self.report(self.status)


@contextmanager
def _partitions(spark: SparkSession, count: int | None) -> Iterator[None]:
    """What starts meanwhile has so many state stores: one group needs no more than one."""
    before = spark.conf.get(PARTITIONS)
    try:
        if count is not None:
            spark.conf.set(PARTITIONS, str(count))
        yield
    finally:
        spark.conf.set(PARTITIONS, before)
