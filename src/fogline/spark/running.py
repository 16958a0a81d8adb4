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

from fogline.files.layout import Layout
from fogline.files.paths import absolute, is_local
from fogline.files.unread import Unread
from fogline.flow.checkpoint import Synced, mend
from fogline.flow.collected import write_batch
from fogline.flow.output import Output, RunConfig, RunStatus
from fogline.flow.resume import as_begun
from fogline.flow.source_log import SourceLog
from fogline.flow.spill import COLLECTED, Spill
from fogline.spark import files
from fogline.spark.collecting import collect, collect_through_files
from fogline.spark.connect import must_have_jvm
from fogline.spark.errors import plainly
from fogline.spark.hadoop import folder
from fogline.spark.partitions import PARTITIONS
from fogline.spark.pipeline import journal, plan_for


class Run:
    """One stream being watched into a folder."""

    def __init__(
        self,
        spark: SparkSession,
        config: RunConfig,
        report: Callable[[RunStatus], None] = lambda status: None,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        must_have_jvm(
            spark,
            "a run writes its output from the driver after each batch",
            "run it with the master of the cluster itself (spark://…, local[*]), or write the changes that "
            "fl.spark.watch gives with a sink of Spark's own",
        )
        place = folder(absolute(config.output), spark)
        config = as_begun(config, place)
        self.spark, self.config, self.report, self.remark = spark, config, report, remark
        self.output = Output(place, config)
        self.status = RunStatus()
        self.unread: Unread | None = None
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
        source, layout, new = self._source(files_per_batch, clock)
        with plainly():
            how = {name: getattr(config, name) for name in ("every", "lateness", "ahead", "idle", "hindsight")}
            how |= {
                "clock": layout.clock or None,
                "versions": layout.versions or None,
                "moves_idle": follow,
                "buckets": self.output.buckets,
            }
            plan = plan_for(source, config.query, config.repository, schema=layout.schema, **how)
            if new:
                self.output.begin(layout.to_dict(), plan.buckets)
            read = files.reader(layout)
            count = None if config.query.by or plan.deals else 1
            report = journal(source, plan, self._spill(count), read)
            writer = report.writeStream.foreachBatch(self._write).queryName("fogline")
            writer = writer.option("checkpointLocation", f"{absolute(config.output)}/checkpoint")
            writer = writer.trigger(processingTime="0 seconds") if follow else writer.trigger(availableNow=True)
            with _partitions(self.spark, count):
                return writer.start()

    def _source(self, files_per_batch: int | None, clock: str | None) -> tuple[DataFrame, Layout, bool]:
        """The files; how they are read, as settled when this run was first started; and whether that is now."""
        if self.checkpoint is not None:
            for path in mend(self.checkpoint):
                self.remark(f"{str(path)!r} had no content, as after a power cut: its batch is done again.")
        config, shape = self.config, self.output.shape()
        if shape is None:
            how = {"clock": clock, "lateness": config.lateness, "remark": self.remark}
            layout = files.settle(self.spark, config.stream, config.query, config.options, **how)
        else:
            layout = Layout.from_dict(shape, config.stream)
            layout.check(config.options, clock, config.output)
        self.unread = Unread(config.stream, SourceLog(self.output.place))
        for text in self.unread.begin():
            self.remark(text)
        there = files.stream(self.spark, config.stream, files_per_batch, by_name=self.output.by_name)
        return there, layout, shape is None

    def _spill(self, partitions: int | None) -> Spill | None:
        """Where tasks leave what is too much for the driver; None where only the JVM reaches the output."""
        if not is_local(self.config.output):
            return None
        tasks = int(self.spark.conf.get(PARTITIONS)) if partitions is None else partitions
        return Spill(absolute(self.config.output), COLLECTED // tasks)

    def look(self) -> None:
        """Remark on files that are not read, each once."""
        for text in [] if self.unread is None else self.unread.look():
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
