"""Streams through Spark: `fl.spark.watch` of a table, and `fl.spark.run` over files. Few, for each takes seconds."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import fogline as fl
from tests.net import driving
from tests.net.driving import Record
from tests.net.record import Task
from tests.net.streams import Stream

ROOTS = (Path(__file__).parents[2], Path(fl.__file__).parents[1])  # where workers import `tests` and `fogline` from
TABLE, FILES = "spark table", "spark stream"
STREAMS = (  # few that cover all features
    "function/2", "queries/10", "lateness/20", "last/11", "carry/12", "rules discovered/0", "many groups/0", "limits/3",
    "uncertain/2", "rules of the paper/0", "sensors/0", "hindsight/0", "mean/0", "others/0", "knn/0", "ahead/0",
    "rejects/0", "explained/0", "timestamps/0", "large/0", "crowded/0", "dense/3", "walks/3",
    "many groups/3", "many groups/6",
)  # fmt: skip


def tasks(only: str = "", engine: str = "") -> list[Task]:
    """Which streams Spark runs."""
    out = []
    for name in STREAMS:
        mode, seed = name.rsplit("/", 1)
        engines = [each for each in (TABLE, FILES) if not engine or fnmatch(each, engine)]
        if engines and (not only or fnmatch(name, only) or fnmatch(mode, only)):
            out.append(Task(mode, int(seed), tuple(engines)))
    return out


@cache
def session() -> Any:
    """One small session for all streams."""
    before = os.environ.get("PYTHONPATH", "")
    paths = [*map(str, ROOTS), *before.split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    found = fl.spark.session(master="local[2]", name="net")
    atexit.register(found.stop)
    return found


def recorded(this: Stream, engine: str) -> Record:
    """What Spark reports of a stream."""
    return table(this) if engine == TABLE else files(this)


def _asked(this: Stream) -> tuple[Any, dict[str, Any]]:
    """The query, or several by their names, and how they are watched."""
    queries = driving.queries_of(this)
    asked: Any = queries.get("", queries)
    how: dict[str, Any] = dict(this.how)
    own = driving.imputer_of(this, next(iter(queries.values())))
    how |= {"buckets": 1} if this.mode == "many groups" else {}  # together: few groups of a shard go one by one
    return asked, how | ({"imputer": own} if own else {})


def table(this: Stream) -> Record:
    """All rows at once; rejects on their own."""
    asked, how = _asked(this)
    frame = session().createDataFrame(driving.table_of(this, this.rows)).repartition(2)
    repository = driving.repository_of(this)
    with driving.quiet():
        changes = fl.spark.watch(frame, asked, repository, **how).toArrow().to_pylist()
    return {"changes": driving.changes_section([row | {"batch": None} for row in changes], this, pipeline=True)}


class _Sink:
    """Keeps what is put."""

    def __init__(self) -> None:
        self.kinds: tuple[list[dict[str, Any]], ...] = ([], [], [])

    def put(self, number: int, *parts: Iterable[pa.RecordBatch]) -> None:
        for kept, part in zip(self.kinds, parts, strict=True):
            kept += [row | {"batch": number} for each in part for row in each.to_pylist()]


def files(this: Stream) -> Record:
    """One file a batch."""
    import json

    asked, how = _asked(this)
    with TemporaryDirectory(prefix="fogline-net-") as folder, driving.quiet():
        root, sink = Path(folder), _Sink()
        driving.write_files(this, root / "in")
        like = session().createDataFrame(driving.table_of(this, this.rows)).schema
        reader = session().readStream.schema(like).option("maxFilesPerTrigger", 1)
        where: dict[str, Any] = {"sinks": [sink], "checkpoint": root / "checkpoint", "trigger": {"availableNow": True}}
        running = fl.spark.run(reader.parquet(str(root / "in")), asked, driving.repository_of(this), **where, **how)
        running.awaitTermination()
    changes, rejects, health = sink.kinds
    found = [(json.loads(row["row"]), row["reason"], row.get("query") or "") for row in rejects]
    return {
        "changes": driving.changes_section(changes, this, pipeline=True),
        "rejects": driving.rejects_section(found),
        "counts": driving.health(health),
    }
