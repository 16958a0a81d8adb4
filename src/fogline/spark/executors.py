"""Which executors does a cluster have, and how is each of them given a task?"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.core.rdd import RDD
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from fogline.spark.partitions import asked_executors, master_of

PATIENCE = 30.0  # seconds until it is remarked that no executor has come
LOOK = 0.5  # seconds between looks


@dataclass(frozen=True, slots=True)
class Executor:
    """A process of the cluster that runs tasks."""

    id: str
    host: str

    def __str__(self) -> str:
        return f"{self.host} (executor {self.id})"


def executors(spark: SparkSession) -> list[Executor]:
    """Those that are there now."""
    known = spark.sparkContext._jsc.sc().statusStore().executorList(True).iterator()
    found = []
    while known.hasNext():
        each = known.next()
        if each.id() != "driver":
            found.append(Executor(str(each.id()), str(each.hostPort()).rpartition(":")[0]))
    return sorted(found, key=lambda each: (len(each.id), each.id))


def awaited(spark: SparkSession, remark: Callable[[str], None]) -> list[Executor]:
    """The executors, once as many have come as were asked for, or no more follow for a while; at least one."""
    asked, begun, before, since = asked_executors(spark), time.monotonic(), -1, time.monotonic()
    remarked = False
    while True:
        there, now = executors(spark), time.monotonic()
        if len(there) != before:
            before, since = len(there), now
        if there and (len(there) >= asked > 0 or now - since > 4 * LOOK):
            return there
        if not there and not remarked and now - begun > PATIENCE:
            remarked = True
            remark(
                f"no executor of {master_of(spark)} has come within {PATIENCE:.0f} s, and the run waits: has it "
                "workers with free cores, and as much free memory as spark.executor.memory asks for?"
            )
        time.sleep(LOOK)


def one_task_each(spark: SparkSession, there: list[Executor]) -> Any:
    """An RDD of their numbers, each in a task of its own that its executor prefers."""
    context = spark.sparkContext
    jvm, pairs = context._jvm, context._jvm.java.util.ArrayList()
    for number, each in enumerate(there):
        place = jvm.java.util.ArrayList()
        place.add(f"executor_{each.host}_{each.id}")
        pairs.add(jvm.scala.Tuple2(pickle.dumps(number), _seq(jvm, place)))
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
    numbers = context._jsc.sc().makeRDD(_seq(jvm, pairs), tag).toJavaRDD()
    return RDD(numbers, context, CPickleSerializer())


@contextmanager
def noting_failures(spark: SparkSession, failed: dict[Executor, str]) -> Iterator[None]:
    """Note at the end which executors failed to run a task of the jobs that are started meanwhile, and why.

    Those that were lost are left out: they are there no longer.
    """
    context, group = spark.sparkContext, uuid4().hex
    context.setLocalProperty("spark.jobGroup.id", group)
    try:
        yield
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context._jsc.sc().listenerBus().waitUntilEmpty()
        store, tracker = context._jsc.sc().statusStore(), context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        for stage in [stage for job in jobs if job is not None for stage in job.stageIds]:
            tasks = store.taskList(stage, 0, 100_000).iterator()
            while tasks.hasNext():
                task = tasks.next()
                text = task.errorMessage().get() if task.errorMessage().isDefined() else None
                if text is not None and "ExecutorLostFailure" not in text:
                    failed[Executor(str(task.executorId()), str(task.host()))] = str(text)


def _seq(jvm: Any, values: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()
