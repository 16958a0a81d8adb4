"""How many tasks can this session run at once, and how many parts shall the state of a query have?

A checkpoint keeps the number of its first run for life, and every micro-batch opens as many state stores. So there are
as many parts as tasks can run at once: on one machine its cores, on a cluster what it may become, not what has come in
the first second. A cluster is believed to have at least 8 cores; where dynamic allocation has no limit, at most 200,
which is Spark's own default. `spark.sql.shuffle.partitions` of a user's own has the last word.

Buckets of sensors and shards of groups are a multiple of them. Their numbers are chosen so that Spark's hash puts them
into one part after the other: with 0, 1, 2 … a third of the parts would stay empty, and others have three.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from threading import Thread
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
AT_LEAST, AT_MOST = 8, 200
PATIENCE = 10.0  # seconds for the executors of a cluster whose size is set nowhere


@cache
def bucket_labels(buckets: int) -> tuple[int, ...]:
    """What buckets are called: the k-th goes to the k-th of so many parts, and in turn where parts are a divisor."""
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(_hash(label) % buckets, label)
        if len(found) == buckets:
            return tuple(found[k] for k in range(buckets))
    raise AssertionError


def _hash(number: int) -> int:
    """Spark's hash of an integer column: Murmur3, of 32 bits, from the seed 42."""
    mask = 2**32 - 1
    k = _turned(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (_turned(42 ^ k, 13) * 5 + 0xE6546B64 & mask) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - 2**32 if h >> 31 else h


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & 2**32 - 1


def parts(spark: SparkSession) -> int | None:
    """How many parts suit this session; None if it cannot be known from here, as on Spark Connect."""
    there = running(spark)
    if is_local(master_of(spark)):
        return there
    most = max(_asked(spark), there or 0, AT_LEAST)
    return min(most, AT_MOST) if grows(spark) else most


def parts_of_new(spark: SparkSession) -> int:
    """The same for a session that has just been made, and may be waiting for its executors."""
    if not (is_local(master_of(spark)) or grows(spark) or _asked(spark)):
        _wait(spark)
    return parts(spark) or AT_LEAST


def running(spark: SparkSession) -> int | None:
    """How many tasks run at once, by what has come so far."""
    context = context_of(spark)
    if context is not None:
        return max(int(context.defaultParallelism), 1)
    given = re.match(r"local\[(\d+)", master_of(spark))
    return None if given is None else int(given[1])


def grows(spark: SparkSession) -> bool:
    """Whether executors come and go."""
    return setting(spark, "spark.dynamicAllocation.enabled", "false") == "true"


def is_local(master: str) -> bool:
    """Whether Spark runs on this machine alone."""
    return re.match(r"local(\[|$)", master) is not None


def master_of(spark: SparkSession) -> str:
    """Where this session runs."""
    return setting(spark, "spark.master", "")


def context_of(spark: SparkSession) -> Any:
    """The session's context, or None on Spark Connect, where there is none."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def setting(spark: SparkSession, key: str, otherwise: str) -> str:
    """What is set in the session, with Spark's default, which a default of ours would hide."""
    try:
        return str(spark.conf.get(key))
    except PySparkException:
        return otherwise


def asked_executors(spark: SparkSession) -> int:
    """The executors that the cluster's settings allow; 0 if they have no limit."""
    executors = "spark.dynamicAllocation.maxExecutors" if grows(spark) else "spark.executor.instances"
    given = setting(spark, executors, "0")
    return int(given) if given.isdecimal() and int(given) < 2**31 - 1 else 0


def _asked(spark: SparkSession) -> int:
    """The cores that the cluster's settings allow; 0 if they have no limit."""
    each, count = int(setting(spark, "spark.executor.cores", "1")), asked_executors(spark)
    limits = [n for n in (count * each, int(setting(spark, "spark.cores.max", "0"))) if n > 0]
    return min(limits, default=0)


def _wait(spark: SparkSession) -> None:
    """Until executors have come and no more follow, or patience ends."""
    context, end, before = context_of(spark), time.monotonic() + PATIENCE, 0
    while context is not None and time.monotonic() < end:
        executors = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is listed, too
        if executors and executors == before:
            return
        before = executors
        time.sleep(1.0)


def wake(spark: SparkSession) -> Thread:
    """Start Python workers by a small job beside what the caller does, such as planning a query.

    Else the first task that needs a worker waits some seconds, while the workers' daemon imports Fogline. The job may
    fail without harm. On a cluster it does nothing: `spark.preflight` starts workers on every machine.
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
