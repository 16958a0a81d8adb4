"""How does what Spark evaluates reach the sinks of a run, batch by batch?

After each micro-batch is evaluated, exactly once, what it reports is put into every sink; then Spark commits the batch.

Where workers reach the output folder, the driver collects what is small, and for the rest the names of files that
workers have written (`fogline.runs.spill`). Where only Spark does, such as in HDFS, Spark writes the batch into files
there, and the driver reads them one after another. Either way a batch is evaluated exactly once, since Spark counts how
often its state is committed, and no limit of Spark's on what a driver collects is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fogline.files.listing import absolute, is_local
from fogline.output.files import CHECKED
from fogline.output.folder import Folder
from fogline.output.folder_sink import file_of
from fogline.pipeline.limits import LARGE
from fogline.pipeline.names import CHANGES, CHECKPOINT, HEALTH, REJECTS, VIEWS
from fogline.pipeline.plans import Plans
from fogline.pipeline.stages import opened
from fogline.runs.batch import Collected, collected, from_packed, write_batch
from fogline.runs.checkpoint import Synced, mend, note_reported, reported_by_spark
from fogline.runs.config import RunConfig, RunStatus
from fogline.runs.spill import COLLECTED, PIECES, Spill
from fogline.runs.start import StreamRun
from fogline.spark.connect import must_have_jvm
from fogline.spark.files import Read
from fogline.spark.hadoop import folder
from fogline.spark.partitions import PARTITIONS
from fogline.spark.pipeline import results
from fogline.spark.preflight import preflight
from fogline.spark.session import starting_a_query

FEW = 16  # packed tables that are read from a file at once


def collect(batch: DataFrame, place: Folder) -> Collected:
    """From workers that reach the output folder."""
    return from_packed(place, batch.toArrow().to_batches())


def collect_through_files(batch: DataFrame, place: Folder, root: str, most: int) -> Collected:
    """Through files that Spark writes; `root` is the path of the folder, `most` bytes of files are read at once."""
    batch.write.mode("overwrite").parquet(f"{root}/{PIECES}/batch")
    names = place.listing(f"{PIECES}/batch")
    if sum(names.values()) <= most:
        packed = list(_packed(place, names))
        place.clear(f"{PIECES}/batch")
        return from_packed(place, packed)
    files = []
    for kind in (CHANGES, REJECTS, *VIEWS):
        name = f"{PIECES}/{kind}.parquet"
        if _streamed(place, name, opened(_packed(place, names), kind)):
            files.append((kind, name))
    health, large = (list(opened(_packed(place, names), kind)) for kind in (HEALTH, LARGE))
    return collected(place, [], files, health, large)


def _packed(place: Folder, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The packed results in files that Spark wrote, a few at a time."""
    for name in names:
        yield from file_of(place, name).iter_batches(batch_size=FEW)


def _streamed(place: Folder, name: str, tables: Iterator[pa.Table]) -> bool:
    """One file of tables that come one by one; False: none came."""
    first = next(tables, None)
    if first is None:
        return False
    with place.filling(name) as path, pq.ParquetWriter(path, first.schema, **CHECKED) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
    return True


class SparkRun(StreamRun):
    """A stream that Spark evaluates, on its way to the sinks of a run.

    After each micro-batch is evaluated, exactly once, what it reports is put into every sink; then Spark commits it.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: RunConfig,
        report: Callable[[RunStatus], None] = lambda status: None,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        must_have_jvm(
            spark,
            "a run puts its batches into sinks from the driver",
            "run it with the master of the cluster itself (spark://…, local[*]), or write the changes that "
            "fl.spark.watch gives with a sink of Spark's own",
        )
        self.spark, self.root = spark, absolute(config.output)
        super().__init__(config, folder(self.root, spark), report, remark)
        self.looked = False
        self.checkpoint = Path(self.root) / CHECKPOINT if is_local(self.root) else None
        self.synced = None if self.checkpoint is None else Synced(self.checkpoint)

    def look_around(self) -> None:
        """An error, if a machine of the cluster cannot do its part; looked at once."""
        if not self.looked:
            preflight(self.spark, {"output": self.root}, self.output.config.repository, self.remark)
            self.looked = True

    def mend(self) -> None:
        """The checkpoint of an earlier run may have lost its newest files in a power cut."""
        for path in [] if self.checkpoint is None else mend(self.checkpoint):
            self.remark(f"{str(path)!r} had no content, as after a power cut: its batch is done again.")

    def watch(
        self,
        source: DataFrame,
        shape: dict[str, Any] | None,
        planned: Callable[[RunConfig], Plans],
        trigger: dict[str, Any],
        read: Read | None = None,
    ) -> StreamingQuery:
        """Begin (see `StreamRun.begin`), or go on from the checkpoint; `read` makes rows of what the source has."""
        self.source, self.read = source, read
        return self._started(self.begin(shape, planned), trigger)

    def last(self) -> int | None:
        """The last batch that Spark has committed; None: none."""
        return self._last("commits")

    def reported(self) -> int:
        """The last batch that Spark has committed and that had something to report; -1: none."""
        return reported_by_spark(self.output.place)

    def finish(self, plan: Plans) -> None:
        """The batch that was begun is done as it was begun."""
        if self._last("offsets") != self._last("commits"):
            self._started(plan, {"once": True}).awaitTermination()

    def _started(self, plan: Plans, trigger: dict[str, Any]) -> StreamingQuery:
        count = None if plan.shards > 1 or plan.deals else 1
        with starting_a_query(self.spark, count):  # one group needs no more than one state store
            report = results(self.source, plan, self._spill(count), self.read)
            writer = report.writeStream.foreachBatch(self._write).queryName("fogline")
            return writer.option("checkpointLocation", f"{self.root}/{CHECKPOINT}").trigger(**trigger).start()

    def _last(self, log: str) -> int | None:
        """The last batch in a log of the checkpoint: `offsets` (begun) or `commits` (done); None: none."""
        names = (name.rsplit("/", 1)[1] for name in self.output.place.listing(f"{CHECKPOINT}/{log}"))
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _spill(self, partitions: int | None) -> Spill | None:
        """Where tasks leave what is too much for the driver; None where only the JVM reaches the folder."""
        if not is_local(self.root):
            return None
        tasks = int(self.spark.conf.get(PARTITIONS)) if partitions is None else partitions
        return Spill(self.root, COLLECTED // tasks)

    def _write(self, batch: DataFrame, number: int) -> None:
        """The batch is evaluated exactly once: Spark counts how often its state is committed."""
        began = perf_counter()
        place = self.output.place
        if is_local(self.root):
            collected = collect(batch, place)
        else:
            collected = collect_through_files(batch, place, self.root, COLLECTED // 4)
        if not collected:
            return
        seconds = perf_counter() - began
        if self.synced is not None:
            self.synced.sync()
        write_batch(self.output, self.status, collected, number, seconds, self.remark)
        note_reported(place, number)
        self.report(self.status)
