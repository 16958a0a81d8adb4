"""How does a synthetic stream reach Spark?

`spark.readStream.format("fogline")`, or `spark.read` with `rows`: the rows of a `fogline.synthetic.Stream`, whose
fields are the options. Tasks make rows of spans of ids; a row depends on its id alone, so partitions, batches and
restarts change none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from fogline.errors import FoglineError, did_you_mean
from fogline.synthetic import BLOCK, Stream, rows

CHUNK = 16 * BLOCK  # rows in an Arrow batch


def stream_of(options: Mapping[str, str]) -> Stream:
    """A stream from options as Spark hands them over: texts."""
    kinds = {each.name: str(each.type) for each in fields(Stream)}
    given: dict[str, Any] = {}
    for name, text in options.items():
        if name not in kinds:
            guess = did_you_mean(name, kinds)
            raise FoglineError(f"the source 'fogline' has no option {name!r}; it has {', '.join(kinds)}.{guess}")
        given[name] = _value(name, text, kinds[name])
    return Stream(**given)


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
            raise FoglineError(
                "the stream is endless; to read it as a table, state how much of it: .option('rows', …)."
            )
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
        self.stream = stream_of(options)

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
