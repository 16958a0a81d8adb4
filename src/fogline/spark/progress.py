"""How far is it?

While a Spark job runs, a thread counts the tasks that are done and reports them to the caller's function.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pyspark.sql import SparkSession

from fogline.repository.fit import Progress as Progress
from fogline.spark.partitions import context_of

EVERY = 0.25  # seconds


def silent(what: str, done: int, of: int) -> None:
    """Report nothing."""


@contextmanager
def followed(spark: SparkSession, what: str, progress: Progress) -> Iterator[None]:
    """Report how the jobs of this block come along."""
    context = None if progress is silent else context_of(spark)
    if context is None:  # a Connect server does not show its tasks
        yield
        return
    over = Event()
    tracker = context.statusTracker()

    def report() -> None:
        while not over.wait(EVERY):
            stages = [stage for k in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(k)) is not None]
            if stages:
                progress(what, sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages))

    progress(what, 0, 1)
    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
        over.set()
        thread.join()
        progress(what, 1, 1)
    finally:
        over.set()
        thread.join()
