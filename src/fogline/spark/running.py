"""Where does a run on Spark get its rows from: files, or a topic of Kafka?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fogline.files.listing import absolute, is_local
from fogline.files.settled import Layout
from fogline.files.unread import Unread
from fogline.kafka.client import is_topic
from fogline.pipeline.plans import Plans
from fogline.runs.checkpoint import SourceLog
from fogline.runs.config import PLANNED, Output, RunConfig, RunStatus
from fogline.runs.start import as_begun, moved
from fogline.spark import files
from fogline.spark.errors import plainly
from fogline.spark.files import Read
from fogline.spark.hadoop import folder
from fogline.spark.kafka import Topic, reader
from fogline.spark.pipeline import plans_for
from fogline.spark.writing import Writing

Remark = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Source:
    """A stream, and what a task makes of it."""

    stream: DataFrame
    layout: Layout  # as settled when the run was first started
    new: bool  # whether that is now
    read: Read
    look: Callable[[RunStatus], list[str]]  # sentences about what is new around the stream, each once


def opened(
    spark: SparkSession,
    output: Output,
    *,
    files_per_batch: int | None,
    max_rows_per_batch: int | None,
    clock: str | None,
    remark: Remark,
) -> Source:
    """The stream that the output's run reads."""
    config, shape = output.config, output.shape()
    if shape is not None:
        layout = Layout.from_dict(shape, config.stream)
        layout.check(config.options, clock, config.output)
    if is_topic(config.stream):
        topic = Topic(spark, output)
        if shape is None:
            layout = topic.settle(clock)
        topic.check(remark)
        return Source(topic.stream(layout), layout, shape is None, reader(layout, topic.address), topic.look)
    if shape is None:
        how = {"clock": clock, "lateness": config.lateness, "remark": remark}
        layout = files.settle(spark, config.stream, config.query, config.options, **how)
    unread = Unread(config.stream, SourceLog(output.place), by_name=output.by_name)
    strays = None if is_local(config.stream) else files.StraysThere(spark, config.stream)

    def others() -> list[str]:
        return [] if strays is None else strays.look()

    def look(status: RunStatus) -> list[str]:
        found = [*unread.look(), *others()]
        status.behind = unread.behind
        return found

    for text in [*unread.begin(), *others()]:
        remark(text)
    limit = files.limit_of(config.stream, files_per_batch, max_rows_per_batch, remark)
    stream = files.stream(spark, config.stream, limit, by_name=output.by_name)
    return Source(stream, layout, shape is None, files.reader(layout), look)


# --- running ---
# How does a stream of files become a folder of changes, and survive the night?
#
# `Run` reads files as they come, watches, and after each micro-batch puts what it has to report into the output
# folder
# (`runs.config`) and other sinks (`spark.writing`). Spark's checkpoint lies in the same folder.


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
        self.spark, self.config, self.remark = spark, config, remark
        self.output = Output(place, config)
        self.writing = Writing(spark, self.output, report, remark)
        self.status = self.writing.status
        self.source: Source | None = None

    def start(
        self,
        *,
        follow: bool = False,
        files_per_batch: int | None = None,
        max_rows_per_batch: int | None = None,
        clock: str | None = None,
    ) -> StreamingQuery:
        """Begin, or go on where an earlier run stopped. Without `follow` it ends when all files are read.

        While files that are already there are read, silent groups are not moved on by others: theirs may come yet.
        A batch has so many files or, without, files of about so many rows; of a topic its options state it.
        `clock`: what times that are texts mean, "number" or "timestamp"; without, the first rows show it.
        """
        config = self.config
        self.source = self._source(files_per_batch, max_rows_per_batch, clock)
        source, layout = self.source.stream, self.source.layout
        with plainly():
            how = {name: getattr(config, name) for name in PLANNED}
            how |= {
                "clock": layout.clock or None,
                "versions": layout.versions or None,
                "moves_idle": follow,
                "buckets": self.output.buckets,
            }

            def planned(config: RunConfig) -> Plans:
                known, formers = config.repository, config.formers
                made: Plans = plans_for(source, config.query, known, schema=layout.schema, formers=formers, **how)
                return made

            plan = planned(config)
            if self.source.new:
                self.output.begin(layout.to_dict(), plan.buckets)
            if config.successor is not None:
                plan = self.writing.move(source, plan, planned(moved(config)), self.source.read)
                self.config = self.output.config
            trigger = {"processingTime": "0 seconds"} if follow else {"availableNow": True}
            return self.writing.start(source, plan, trigger, self.source.read)

    def _source(self, files: int | None, rows: int | None, clock: str | None) -> Source:
        self.writing.look_around()
        self.writing.mend()
        how: dict[str, Any] = {"files_per_batch": files, "max_rows_per_batch": rows, "clock": clock}
        return opened(self.spark, self.output, **how, remark=self.remark)

    def look(self) -> None:
        """Remark on what is new around the stream, such as files that are not read, each once."""
        for text in [] if self.source is None else self.source.look(self.status):
            self.remark(text)

    def close(self) -> None:
        """No more batches come from this process."""
        self.writing.close()
