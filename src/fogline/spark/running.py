"""How does a stream of files become a folder of changes, and survive the night?

`Run` reads files as they come, watches, and after each micro-batch writes what it has to report into the output folder
(`flow.output`). Spark's checkpoint lies in the same folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fogline.errors import FoglineError
from fogline.flow.folder import absolute
from fogline.flow.listing import SourceLog, Unread
from fogline.flow.output import Output, RunConfig, RunStatus, tables_of
from fogline.spark import files
from fogline.spark.errors import plainly
from fogline.spark.hadoop import folder
from fogline.spark.pipeline import journal, plan_for
from fogline.spark.session import PARTITIONS


class Run:
    """One stream being watched into a folder."""

    def __init__(
        self,
        spark: SparkSession,
        config: RunConfig,
        report: Callable[[RunStatus], None] = lambda status: None,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.spark, self.config, self.report, self.remark = spark, config, report, remark
        self.output = Output(folder(absolute(config.output), spark), config)
        self.status = RunStatus()
        self.unread: Unread | None = None

    def start(
        self, *, follow: bool = False, files_per_batch: int | None = None, clock: str | None = None
    ) -> StreamingQuery:
        """Begin, or go on where an earlier run stopped. Without `follow` it ends when all files are read.

        `clock`: what times that are texts mean, "number" or "timestamp"; without, the first rows show it.
        """
        config = self.config
        source, meant = self._source(files_per_batch, clock)
        with plainly():
            how = {"every": config.every, "lateness": config.lateness, "clock": meant}
            plan = plan_for(source, config.query, config.repository, **how)
            writer = journal(source, plan).writeStream.foreachBatch(self._write).queryName("fogline")
            writer = writer.option("checkpointLocation", f"{absolute(config.output)}/checkpoint")
            writer = writer.trigger(processingTime="0 seconds") if follow else writer.trigger(availableNow=True)
            with _partitions(self.spark, None if config.query.by or plan.remembers else 1):
                return writer.start()

    def _source(self, files_per_batch: int | None, clock: str | None) -> tuple[DataFrame, str | None]:
        """The stream in the columns it had when this run was first started; and what times that are texts mean."""
        config, shape = self.config, self.output.shape()
        if shape is None:
            how = {"clock": clock, "lateness": config.lateness, "remark": self.remark}
            shape = files.shape_of(self.spark, config.stream, config.query, **how)
            self.output.begin(shape)
        elif "clock" not in shape:
            raise FoglineError(f"{config.output!r} was begun by another version of Fogline; choose another output.")
        elif clock is not None and clock != shape["clock"]:
            was = shape["clock"] or "what its column shows"
            raise FoglineError(f"{config.output!r} was begun with the clock {was}, not {clock}; choose another output.")
        self.unread = Unread(config.stream, shape["kind"], shape["pattern"], SourceLog(self.output.place))
        for text in self.unread.begin():
            self.remark(text)
        return files.stream(self.spark, config.stream, shape, files_per_batch), shape["clock"] or None

    def look(self) -> None:
        """Remark on files that are not read, each once."""
        for text in [] if self.unread is None else self.unread.look():
            self.remark(text)

    def _write(self, batch: DataFrame, number: int) -> None:
        began = perf_counter()
        packed = batch.toArrow()
        if not packed.num_rows:
            return
        seconds = perf_counter() - began
        parts = tables_of(packed.to_batches(), number, seconds)
        self.output.write(number, parts)
        self.status.update(parts, number, seconds, self.config.query)
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
