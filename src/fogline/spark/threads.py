"""Which threads does this process have, which may it start, and which settings keep libraries from starting some when
they are imported?

OpenBLAS, in NumPy, starts one for every core but one; the jemalloc in Arrow starts one that cleans up. Neither is
missed: Spark runs as many workers as there are cores, and Arrow's memory comes from another allocator.
"""

from __future__ import annotations

import threading
from pathlib import Path

QUIET = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def threads() -> list[str]:
    """The names of all threads, those that Python does not know included where the system lists them."""
    try:
        return sorted(each.joinpath("comm").read_text().strip() for each in Path("/proc/self/task").iterdir())
    except OSError:  # not Linux
        return sorted(each.name for each in threading.enumerate())


def allow_threads() -> None:
    """In a task: large groups may use as many threads as Spark has given it cores, by `spark.task.cpus`."""
    from pyspark import TaskContext

    from fogline.engine.bulk import allow

    context = TaskContext.get()
    allow(1 if context is None else context.cpus())
