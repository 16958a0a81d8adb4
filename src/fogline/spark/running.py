"""How does a stream of files become a folder of changes, and survive the night?

`Run` reads files as they come, watches, and after each micro-batch puts what it has to report into the output folder
(`flow.output`) and other sinks (`spark.writing`). Spark's checkpoint lies in the same folder.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fogline.files.layout import Layout
from fogline.files.paths import absolute
from fogline.files.unread import Unread
from fogline.flow.output import Output, RunConfig, RunStatus
from fogline.flow.plan import Plan
from fogline.flow.resume import as_begun, moved
from fogline.flow.source_log import SourceLog
from fogline.spark import files
from fogline.spark.errors import plainly
from fogline.spark.hadoop import folder
from fogline.spark.pipeline import plan_for
from fogline.spark.writing import Writing


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
        self.unread: Unread | None = None

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

            def planned(config: RunConfig) -> Plan:
                known, formers = config.repository, config.formers
                return plan_for(source, config.query, known, schema=layout.schema, formers=formers, **how)

            plan = planned(config)
            if new:
                self.output.begin(layout.to_dict(), plan.buckets)
            if config.successor is not None:
                plan = self.writing.move(source, plan, planned(moved(config)), files.reader(layout))
                self.config = self.output.config
            trigger = {"processingTime": "0 seconds"} if follow else {"availableNow": True}
            return self.writing.start(source, plan, trigger, files.reader(layout))

    def _source(self, files_per_batch: int | None, clock: str | None) -> tuple[DataFrame, Layout, bool]:
        """The files; how they are read, as settled when this run was first started; and whether that is now."""
        self.writing.mend()
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

    def look(self) -> None:
        """Remark on files that are not read, each once."""
        for text in [] if self.unread is None else self.unread.look():
            self.remark(text)

    def close(self) -> None:
        """No more batches come from this process."""
        self.writing.close()
