"""How do Python workers start while a query is still being planned?

Spark starts the daemon of its Python workers with the first task that needs one, and the daemon imports Fogline, for
seconds during which the first batch waits. A small job, meanwhile, has it started by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pyarrow as pa
from pyspark.sql import SparkSession

from fogline.spark.partitions import is_local, master_of


def wake(spark: SparkSession) -> Thread:
    """Have workers started, beside what the caller does. It may fail without harm: they also start when needed.

    On a cluster, what is looked at before the first batch starts them on every machine (`spark.preflight`).
    """

    def job() -> None:
        with suppress(Exception):  # the session may have ended; what is wrong with workers, a batch reports
            if is_local(master_of(spark)):
                spark.range(0, 2, 1, 2).mapInArrow(_as_they_are, "id long").count()

    thread = Thread(target=job, name="fogline-wake", daemon=True)
    thread.start()
    return thread


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
