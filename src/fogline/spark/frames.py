"""How does a user's own stream reach sinks?

As the stream of `fogline run` does: the folder `checkpoint` remembers what the run is about, and holds Spark's
checkpoint, and each batch is put into every sink before Spark commits it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from os import PathLike, fspath
from threading import Thread
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from fogline.errors import FoglineError
from fogline.files.listing import absolute
from fogline.impute.own import ImputeFunction
from fogline.impute.protocol import Imputer
from fogline.output.sink import Sink
from fogline.pipeline.limits import STOP, GroupLimits
from fogline.pipeline.plans import Plans
from fogline.queries import asked_of
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.runs.config import PLANNED, RunConfig
from fogline.runs.lock import holding
from fogline.sinks.places import sinks_of
from fogline.spark.errors import plainly
from fogline.spark.pipeline import must_hold_numbers, plans_for
from fogline.spark.writing import SparkRun

FRAME = "dataframe:/"  # where the stream of such a run comes from, in about.json
_CLOSING = 60.0  # seconds that sinks of a query that has ended may take to close
_started: dict[str, tuple[StreamingQuery, Thread]] = {}  # by folder: the last query of this process, and what ends it


def run(
    df: DataFrame,
    query: Query | Mapping[str, Query],
    repository: Repository | None = None,
    *,
    sinks: Sequence[Sink | str],
    checkpoint: str | PathLike[str],
    trigger: Mapping[str, Any] | None = None,
    every: str = "tick",
    lateness: Any = 0,
    imputer: Imputer | ImputeFunction | None = None,
    ahead: Any = "auto",
    idle: Any = None,
    buckets: int | None = None,
    clock: str | None = None,
    hindsight: bool | None = None,
    explain: bool = False,
    max_live: int | None = None,
    max_state: int | str | None = None,
    when_full: str = STOP,
    remark: Callable[[str], None] | None = None,
) -> StreamingQuery:
    """Watch a stream, and put changes, rejects and health of each batch into sinks; the query has been started.

    `sinks`: objects with `put` (see `fogline.Sink`), or texts as for `fogline run --to`.
    `checkpoint`: a folder that driver and workers share; the same call with the same folder goes on where it stopped,
    also after a crash: every sink has each batch exactly once, if it ignores numbers that it knows.
    `trigger`: as Spark's `trigger` takes it, such as {"availableNow": True}; by default a batch follows the other.
    `max_live`, `max_state`: how many live rows one group may have, and how many bytes ("2GB"). `when_full`: what is
    done beyond: "stop": the query ends with a LimitError before the batch is put anywhere, and goes on from there when
    it is called with a higher limit; "warn": it goes on, and `alarms.json` in the checkpoint's folder names the groups,
    as it does from 80 % of a limit on. Rows are never dropped. How many rows a batch has, the source of `df` states,
    such as Spark's maxFilesPerTrigger or maxOffsetsPerTrigger.
    The others are those of `watch`. `remark` is called with what the user should read; by default that is logged, as a
    warning of the logger "fogline".
    """
    remark = logging.getLogger("fogline").warning if remark is None else remark
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise FoglineError(
            "run takes a stream (spark.readStream); for a table use fl.spark.watch, which gives its changes."
        )
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise FoglineError(
            "run puts batches into sinks of this process, and a Spark Connect server cannot call those. Use a "
            "session of this process, or fl.spark.watch with a sink of Spark's."
        )
    must_hold_numbers(df, asked_of(query))
    root = absolute(fspath(checkpoint))
    places = sinks_of(sinks, root)
    if not places:
        raise FoglineError("run needs at least one sink: an object with put, or a text that names a place.")
    more: dict[str, Any] = {
        "imputer": imputer,
        "hindsight": hindsight,
        "sinks": places,
        "keeps": False,
        "explain": explain,
    }
    more["limits"] = GroupLimits.of(max_live, max_state, when_full)
    config = RunConfig(FRAME, root, asked_of(query), repository, every, lateness, ahead, idle, **more)
    when = {"processingTime": "0 seconds"} if trigger is None else dict(trigger)
    moves_idle = not when.get("availableNow") and not when.get("once")
    _wait_for_the_last(root)
    with ExitStack() as held, plainly():
        held.enter_context(holding(root, config.engine, remark))
        running = SparkRun(df.sparkSession, config, remark=remark)
        held.callback(running.close)
        running.look_around()
        running.mend()
        new = running.output.shape() is None

        def planned(config: RunConfig) -> Plans:
            how = {name: getattr(config, name) for name in PLANNED}
            how |= {"clock": clock, "moves_idle": moves_idle, "buckets": running.output.buckets or buckets}
            made: Plans = plans_for(df, config.query, config.repository, **how)
            return made

        started = running.watch(df, {} if new else None, planned, when)
        _started[root] = started, _at_the_end(started, held.pop_all())
    return started


def _wait_for_the_last(root: str) -> None:
    """A query of this process that has ended there may still be closing its sinks."""
    if root in _started and not _started[root][0].isActive:
        _started.pop(root)[1].join(_CLOSING)


def _at_the_end(started: StreamingQuery, held: ExitStack) -> Thread:
    """When the query ends, however it does, sinks are closed and the folder is free."""

    def wait() -> None:
        with held, suppress(PySparkException):  # the caller of the query gets its errors
            started.awaitTermination()

    thread = Thread(target=wait, name="fogline-sinks", daemon=True)
    thread.start()
    return thread
