"""How does a stream of files become a folder of changes, and survive the night?

`Run` reads files as they come, watches, and after each micro-batch writes what it has to tell: one file per batch in
each of `changes/`, `rejects/` and `health/`. A batch that is done again after a crash has the same number and the same
content, so its files are written over by themselves: exactly once.

`about.json` in the folder remembers the question and the columns of the stream; going on with another is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from fogline.errors import FoglineError
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.spark import files
from fogline.spark.errors import plainly
from fogline.spark.folder import Folder, folder
from fogline.spark.pipeline import journal
from fogline.spark.processor import COUNTERS, SCORES
from fogline.spark.session import PARTITIONS

ABOUT = "about.json"
KINDS = {"change": "changes", "reject": "rejects", "health": "health"}


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be watched, and where the answer goes."""

    stream: str
    output: str
    query: Query
    repository: Repository | None = None
    every: str = "tick"
    lateness: Any = 0

    def about(self) -> dict[str, Any]:
        """What must stay the same when a run is resumed."""
        return {
            "query": self.query.to_dict(),
            "repository": None if self.repository is None else self.repository.fingerprint,
            "every": self.every,
            "lateness": str(self.lateness),
        }


@dataclass(slots=True)
class Pulse:
    """How a run is doing, as its batches tell."""

    batch: int = -1
    seconds: float = 0.0  # of the last batch
    rows: int = 0  # of the last batch
    total: int = 0
    rejected: int = 0
    changes: int = 0
    waiting: int = 0
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # group -> live rows, members

    @property
    def live(self) -> int:
        return sum(live for live, _ in self.sizes.values())

    @property
    def answer(self) -> int:
        return sum(members for _, members in self.sizes.values())


class Run:
    """One stream being watched into a folder."""

    def __init__(self, spark: SparkSession, order: Order, tell: Callable[[Pulse], None] = lambda pulse: None) -> None:
        self.spark, self.order, self.tell = spark, order, tell
        self.place = folder(files.absolute(order.output), spark)
        self.pulse = Pulse()

    def start(self, *, follow: bool = False, files_per_batch: int | None = None) -> StreamingQuery:
        """Begin, or go on where an earlier run stopped. Without `follow` it ends when all files are read."""
        order = self.order
        source = self._source(files_per_batch)
        with plainly():
            told = journal(source, order.query, order.repository, every=order.every, lateness=order.lateness)
            writer = told.writeStream.foreachBatch(self._write).queryName("fogline")
            writer = writer.option("checkpointLocation", f"{files.absolute(order.output)}/checkpoint")
            writer = writer.trigger(processingTime="0 seconds") if follow else writer.trigger(availableNow=True)
            remembers = order.repository is not None and order.repository.sensors is not None
            with _partitions(self.spark, None if order.query.by or remembers else 1):
                return writer.start()

    def _source(self, files_per_batch: int | None) -> DataFrame:
        """The stream in the columns it had when this run was first started."""
        known = self.place.get(ABOUT)
        about = self.order.about()
        if known is None:
            shape = files.shape_of(self.spark, self.order.stream)
            self.place.put(ABOUT, json.dumps({**about, "shape": shape}, indent=1).encode())
        else:
            before = json.loads(known)
            shape = before.pop("shape")
            refuse_other(before, about, self.order.output)
        return files.stream(self.spark, self.order.stream, shape, files_per_batch)

    def _write(self, batch: DataFrame, number: int) -> None:
        began = perf_counter()
        table = batch.toArrow()
        if not table.num_rows:
            return
        parts = {kind: _part(table, kind) for kind in KINDS}
        seconds = perf_counter() - began
        size = parts["health"].num_rows
        about = {"batch": pa.repeat(number, size), "seconds": pa.repeat(seconds, size)}
        parts["health"] = pa.table({**about, **dict(zip(parts["health"].schema.names, parts["health"], strict=True))})
        for kind, part in parts.items():
            if part.num_rows:
                put_table(self.place, f"{KINDS[kind]}/batch-{number:09}.parquet", part)
        self._feel(parts, number, seconds)

    def _feel(self, parts: dict[str, pa.Table], number: int, seconds: float) -> None:
        pulse, health = self.pulse, parts["health"]
        pulse.batch, pulse.seconds = number, seconds
        pulse.rows = pc.sum(health["rows"]).as_py() or 0
        pulse.total += pulse.rows
        pulse.rejected += parts["reject"].num_rows
        pulse.changes += parts["change"].num_rows
        names = [_beside(name, (*COUNTERS, SCORES)) for name in self.order.query.by]
        for row in health.select([*names, "live", "answer"]).to_pylist():
            pulse.sizes[json.dumps([row[name] for name in names], default=str)] = row["live"], row["answer"]
        pulse.waiting = pc.sum(health["waiting"]).as_py() or 0
        self.tell(pulse)


@contextmanager
def _partitions(spark: SparkSession, count: int | None) -> Iterator[None]:
    """What starts meanwhile has so many state stores: one group needs no more than one."""
    before = spark.conf.get(PARTITIONS)
    try:
        if count is not None:
            spark.conf.set(PARTITIONS, str(count))
        yield
    finally:
        spark.conf.set(PARTITIONS, before)


def refuse_other(before: dict[str, Any], now: dict[str, Any], output: str) -> None:
    """A run goes on with what it was started with, or not at all."""
    for name, was in before.items():
        if was != now[name]:
            raise FoglineError(
                f"{output!r} was begun with another {name}.\n  it was {was}\n  now it is {now[name]}\n"
                "Go on with the old one, or choose another output."
            )


def put_table(place: Folder, name: str, table: pa.Table) -> None:
    """A table as one Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    place.put(name, sink.getvalue().to_pybytes())


def _part(table: pa.Table, kind: str) -> pa.Table:
    """The rows of one kind, their struct spread out; rejects and health with their group."""
    rows = table.filter(pc.equal(table["kind"], kind))
    columns = _spread(rows[kind])
    if kind != "change" and "by" in rows.schema.names:
        by = {_beside(name, columns): column for name, column in _spread(rows["by"]).items()}
        columns = by | columns
    return pa.table(columns)


def _spread(column: pa.ChunkedArray) -> dict[str, pa.Array]:
    struct = column.combine_chunks()
    struct = struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct
    return dict(zip((each.name for each in struct.type), struct.flatten(), strict=True))


def _beside(name: str, taken: Container[str]) -> str:
    """The name of a group's column where others have names of their own."""
    return f"{name}_" if name in taken else name
