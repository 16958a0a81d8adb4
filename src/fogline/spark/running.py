"""How does a stream of files, or a topic of Kafka, become a folder of changes on Spark?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fogline.files.listing import is_local
from fogline.files.settled import Layout
from fogline.files.unread import Unread
from fogline.kafka.client import is_topic
from fogline.pipeline.plans import AnyPlan
from fogline.runs.checkpoint import SourceLog
from fogline.runs.config import PLANNED, Output, RunConfig, RunStatus
from fogline.spark import files
from fogline.spark.errors import plainly
from fogline.spark.files import Read
from fogline.spark.kafka import Topic, reader
from fogline.spark.pipeline import plan_for
from fogline.spark.writing import SparkRun

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


class Run(SparkRun):
    """Files as they come, or a topic, being watched into a folder."""

    rows: Source | None = None  # once it has started

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
        self.look_around()
        self.mend()
        how: dict[str, Any] = {"files_per_batch": files_per_batch, "max_rows_per_batch": max_rows_per_batch}
        self.rows = rows = opened(self.spark, self.output, **how, clock=clock, remark=self.remark)
        layout = rows.layout

        def planned(config: RunConfig) -> AnyPlan:
            how = {name: getattr(config, name) for name in PLANNED}
            how |= {"clock": layout.clock or None, "versions": layout.versions or None, "formers": config.formers}
            how |= {"moves_idle": follow, "buckets": self.output.buckets, "schema": layout.schema}
            made: AnyPlan = plan_for(rows.stream, config.query, config.repository, **how)
            return made

        trigger = {"processingTime": "0 seconds"} if follow else {"availableNow": True}
        with plainly():
            return self.watch(rows.stream, layout.to_dict() if rows.new else None, planned, trigger, rows.read)

    def look(self) -> None:
        """Remark on what is new around the stream, such as files that are not read, each once."""
        for text in [] if self.rows is None else self.rows.look(self.status):
            self.remark(text)
