"""Which stream is there to try things on?

`spark.readStream.format("fogline")`: rows of a synthetic incomplete stream, after Börzsönyi et al. (2001): uniform,
correlated or anti-correlated values on [0, 10]. A row is a copy of one of 5,000 seed points, moved by at most 0.0005.
Values of different seeds are 0.002 apart in every attribute, so `a0(0.001) -> a1(0.001)` and the like hold: history
tells about missing values. Tick t has the rows with id // rate = t.

Invariant: a row depends on the stream's description and its id alone, not on partitions, batches or restarts; random
numbers are drawn per block of ids. `missing` and `m` change which cells are missing, never the values of the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from fogline.errors import FoglineError, did_you_mean

BLOCK = 4096  # ids that share a random generator
CHUNK = 16 * BLOCK  # rows in an Arrow batch
NEAR = 0.0005  # how far a copy may be from its seed point
DISTRIBUTIONS = ("uniform", "correlated", "anti")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stream:
    """A synthetic incomplete stream; the same fields give the same rows. Its fields are the options of the source."""

    distribution: str = "uniform"
    d: int = 4
    """Attributes a0, a1, …; more is better."""
    rows: int | None = None
    """How many there are; a stream may be endless, a table may not."""
    start: int = 0
    """The first id: history from far away has the same seed points, but none of the rows."""
    rate: int = 30
    """Rows per tick."""
    missing: float = 0.3
    """The share of rows with gaps …"""
    m: int = 1
    """… and how many gaps such a row has."""
    seed: int = 1
    seeds: int = 5_000
    """How many seed points; with 0 every row is a point of its own."""
    groups: int = 0
    """How many values the column `site` has; with 0 there is no such column."""
    batch: int = 100_000
    """At most so many rows in a micro-batch."""
    partitions: int = 0
    """Into how many a read is cut; with 0, one per core of the driver."""

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise FoglineError(
                f"distribution is {self.distribution!r}; it may be {', '.join(DISTRIBUTIONS)}."
                f"{did_you_mean(self.distribution, DISTRIBUTIONS)}"
            )
        least = {"d": 1, "rate": 1, "batch": 1}
        for each in fields(self):
            value, low = getattr(self, each.name), least.get(each.name, 0)
            if isinstance(value, int) and value < low:
                raise FoglineError(f"{each.name} is {value}; it is at least {low}.")
        if not 0 <= self.missing <= 1:
            raise FoglineError(f"missing is {self.missing:g}; it is a share of the rows, from 0 to 1.")
        if self.m > self.d:
            raise FoglineError(f"m is {self.m}, but a row has only {self.d} attributes to miss (d).")

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Stream:
        """A stream from options as Spark hands them over: texts."""
        kinds = {each.name: str(each.type) for each in fields(cls)}
        given: dict[str, Any] = {}
        for name, text in options.items():
            if name not in kinds:
                guess = did_you_mean(name, kinds)
                raise FoglineError(f"the source 'fogline' has no option {name!r}; it has {', '.join(kinds)}.{guess}")
            given[name] = _value(name, text, kinds[name])
        return cls(**given)

    @property
    def end(self) -> int | None:
        """The id after the last."""
        return None if self.rows is None else self.start + self.rows

    @property
    def schema(self) -> pa.Schema:
        """id, time, site if there are groups, a0, a1, …"""
        site = [("site", pa.string())] if self.groups else []
        values = [(f"a{j}", pa.float64()) for j in range(self.d)]
        return pa.schema([("id", pa.int64()), ("time", pa.int64()), *site, *values])


def rows(stream: Stream, start: int, end: int) -> pa.RecordBatch:
    """The rows with ids from `start` to before `end`. O(rows · d), and a block at either side."""
    ids = np.arange(start, end)
    value, gap = np.empty((stream.d, len(ids))), np.empty((stream.d, len(ids)), bool)
    for block in range(start // BLOCK, -(-end // BLOCK)):
        first = block * BLOCK
        low, high = max(start, first), min(end, first + BLOCK)
        points, gaps = stream_block(stream, block)
        value[:, low - start : high - start] = points[:, low - first : high - first]
        gap[:, low - start : high - start] = gaps[:, low - first : high - first]
    columns = [pa.array(ids), pa.array(ids // stream.rate)]
    if stream.groups:
        sites = pa.array([f"s{k}" for k in range(stream.groups)])
        columns.append(sites.take(pa.array(ids % stream.groups)))
    columns += [pa.array(column, mask=mask) for column, mask in zip(value, gap, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=stream.schema)


def stream_block(stream: Stream, block: int) -> tuple[Floats, Bools]:
    """Values (d, BLOCK) of a block of ids, before any goes missing, and which do (d, BLOCK)."""
    rng = np.random.default_rng([stream.seed, block + 1])
    if stream.seeds:
        centre = _seed_points(stream.distribution, stream.d, stream.seeds, stream.seed)
        value = centre[:, rng.integers(stream.seeds, size=BLOCK)] + rng.uniform(-NEAR, NEAR, (stream.d, BLOCK))
        value = np.clip(value, 0, 10, out=value)
    else:
        value = _points(stream.distribution, stream.d, BLOCK, rng)
    gap = np.zeros((stream.d, BLOCK), bool)
    holed = np.flatnonzero(rng.random(BLOCK) < stream.missing)
    if stream.m and len(holed):
        lots = rng.random((len(holed), stream.d))
        gap[lots.argpartition(stream.m - 1, axis=1)[:, : stream.m].T, holed] = True
    return value, gap


@lru_cache(maxsize=4)
def _seed_points(distribution: str, d: int, seeds: int, seed: int) -> Floats:
    """Points (d, seeds) whose values are evenly spaced in every attribute: their ranks."""
    points = _points(distribution, d, seeds, np.random.default_rng([seed, 0]))
    return np.asarray((points.argsort(axis=1).argsort(axis=1) + 0.5) * (10 / seeds), np.float64)


def _points(distribution: str, d: int, n: int, rng: np.random.Generator) -> Floats:
    """Points (d, n) of [0, 10]^d; what falls outside is drawn again."""
    out = np.empty((d, 0))
    while (lack := n - out.shape[1]) > 0:
        point = rng.random((d, 2 * lack if distribution == "anti" else lack))
        if distribution == "correlated":  # a point on the diagonal, most likely near its middle, moved a little
            point = rng.random((12, lack)).mean(axis=0) + rng.normal(0, 0.05, (d, lack))
        elif distribution == "anti":  # anywhere on a plane of equal sums near the middle
            point += rng.normal(0.5, 0.05, point.shape[1]) - point.mean(axis=0)
        inside = ((point >= 0) & (point <= 1)).all(axis=0)
        out = np.concatenate((out, point[:, inside]), axis=1)
    return out[:, :n] * 10


def _value(name: str, text: str, kind: str) -> Any:
    if kind == "str":
        return text.strip().lower()
    try:
        return float(text) if kind == "float" else int(text)
    except ValueError:
        what = "a number" if kind == "float" else "a whole number"
        raise FoglineError(f"the option {name!r} of the source 'fogline' is {what}, not {text!r}.") from None


class Span(InputPartition):
    """The ids that one task makes rows of: from `start` to before `end`."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


def cut(start: int, end: int, parts: int) -> list[Span]:
    """At most `parts` spans of whole blocks, about equal; at the ends what there is."""
    first, last = start // BLOCK, -(-end // BLOCK)
    edges = np.unique(np.linspace(first, last, parts + 1).round().astype(np.int64)) * BLOCK
    inner = edges[(edges > start) & (edges < end)].tolist()
    return [Span(low, high) for low, high in pairwise([start, *inner, end]) if low < high]


def _read(stream: Stream, span: Span) -> Iterator[pa.RecordBatch]:
    edges = [span.start, *range((span.start // CHUNK + 1) * CHUNK, span.end, CHUNK), span.end]
    return (rows(stream, low, high) for low, high in pairwise(edges) if low < high)


def _parts(stream: Stream) -> int:
    return stream.partitions or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(2))


class FoglineReader(DataSourceReader):
    """The stream as a table."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def partitions(self) -> Sequence[Span]:
        if self.stream.end is None:
            raise FoglineError("the stream is endless; to read it as a table, say how much of it: .option('rows', …).")
        return cut(self.stream.start, self.stream.end, _parts(self.stream))

    def read(self, partition: Span) -> Iterator[pa.RecordBatch]:
        return _read(self.stream, partition)


class FoglineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream as a stream: as fast as it is asked for, `batch` rows at most in a micro-batch."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.last = stream.end  # the id to stop before
        self.once = False

    def initialOffset(self) -> dict[str, int]:
        return {"id": self.stream.start}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.stream.batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self.once = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        here = start["id"]
        last = self.last if self.last is not None else here + self.stream.batch  # all that an endless stream has now
        if self.once:
            self.last = last
        until = min(here + limit.max_rows, last) if isinstance(limit, ReadMaxRows) else last
        return {"id": max(here, until)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Span]:
        return cut(start["id"], end["id"], _parts(self.stream))

    def read(self, partition: Span) -> Iterator[pa.RecordBatch]:
        return _read(self.stream, partition)

    def stop(self) -> None:
        """End the process that PySpark runs a reader in, once the JVM has closed the connection.

        PySpark would go on to write into the closed socket, and print the traceback of the broken pipe.
        """
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)


class FoglineSource(DataSource):
    """The data source `fogline`; its options are the fields of `Stream`."""

    @classmethod
    def name(cls) -> str:
        return "fogline"

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.stream = Stream.of(options)

    def schema(self) -> str:
        types = {pa.int64(): "bigint", pa.string(): "string", pa.float64(): "double"}
        return ", ".join(f"{field.name} {types[field.type]}" for field in self.stream.schema)

    def reader(self, schema: Any) -> DataSourceReader:
        return FoglineReader(self.stream)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return FoglineStreamReader(self.stream)


def register(spark: SparkSession) -> None:
    """Make the format `fogline` known to this session."""
    spark.dataSource.register(FoglineSource)
