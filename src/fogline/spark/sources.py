"""Where does a run on Spark get its rows from: files, or a topic of Kafka?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from fogline.files.paths import is_local
from fogline.files.settled import Layout
from fogline.files.unread import Unread
from fogline.flow.output import Output, RunStatus
from fogline.flow.source_log import SourceLog
from fogline.kafka.address import is_topic
from fogline.spark import files
from fogline.spark.files import Read
from fogline.spark.kafka import Topic
from fogline.spark.topic import reader

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
