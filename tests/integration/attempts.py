"""A stream whose tasks are killed, or run twice at once: `python -m tests.integration.attempts FOLDER HOW MASTER`.

`worker`: a Python worker is killed in the midst of a batch, `executor`: the process that runs it, `straggler`: a task
waits, so that Spark starts another attempt beside it. Each of them happens once the state of the batch is written by
that attempt, and before it has ended. What is reported goes to FOLDER/reported, one file for each batch.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

import fogline as fl
from tests.integration.scenario import QUERY, repository

BATCHES = (2, 5, 6)  # in which it happens
COLUMNS = "sensor string, site string, t long, a0 double, a1 double, xmin double"
EXECUTORS = {"spark.executor.memory": "700m", "spark.executor.cores": "1", "spark.cores.max": "2"}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
}


def disturbed(how: str, folder: str) -> Any:
    """What stands behind the state in the same task: it passes everything on, then disturbs a first attempt."""

    def disturb(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches  # to the end: by then the state is written
        task = TaskContext.get()
        batch = int(task.getLocalProperty("streaming.sql.batchId"))
        mark = Path(folder, f"disturbed-{batch}")
        if batch not in BATCHES or task.partitionId() != batch % 2 or mark.exists():
            return
        mark.touch()
        victim = os.getpid()
        if how == "executor":  # the worker's daemon, and the JVM that started it
            for _ in range(2):
                victim = int(Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2].split()[1])
        if how != "straggler":
            os.kill(victim, signal.SIGKILL)
        time.sleep(60.0)

    return disturb


def main(folder: str, how: str, master: str) -> None:
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.minBatchesToRetain": "100", **EXECUTORS}
    spark = fl.spark.session(master, settings=settings | (SPECULATION if how == "straggler" else {}))
    Path(folder, "reported").mkdir()

    def report(batch: Any, number: int) -> None:
        pq.write_table(batch.toArrow(), f"{folder}/reported/{number:03}.parquet")

    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").parquet(f"{folder}/in")
    changes = fl.spark.watch(stream, QUERY, repository())
    changes = changes.mapInArrow(disturbed(how, folder), changes.schema)
    writer = changes.writeStream.foreachBatch(report).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
