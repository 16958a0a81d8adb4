"""Do the partitions of a topic run apart, and how much lateness would have sufficed?

Rows of a partition that lags come late where others have moved the clock on. They are counted (`late`), and that is
stated once, with the lateness by which no row of the newest batches would have been late: how far their times lie
behind the newest one of the batches before. For that the times of the newest batches are read once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from fogline.errors import FoglineError
from fogline.files.origin import LINE
from fogline.files.settled import Layout
from fogline.flow.output import Output, RunStatus
from fogline.kafka.address import Address
from fogline.kafka.config import TopicOptions
from fogline.rows.cells import is_text
from fogline.rows.clock import CLOCKS, read_times
from fogline.spark.errors import plainly
from fogline.spark.offsets import Offsets, known_batches, offsets_of
from fogline.spark.topic import messages, reader

BATCHES = 4  # that are read once more
_SECOND = 1e6  # microseconds


class PartitionsApart:
    """Looks at the batches of a run whose lateness is 0."""

    def __init__(
        self, spark: SparkSession, output: Output, address: Address, options: TopicOptions, layout: Layout
    ) -> None:
        self.spark, self.output, self.address, self.options, self.layout = spark, output, address, options, layout
        self.stated = False

    def look(self, status: RunStatus) -> list[str]:
        """A sentence, the first time that rows are late and there are several partitions."""
        if self.stated or not status.late:
            return []
        numbers = known_batches(self.output)[-BATCHES - 1 :]
        ends = [found for each in numbers if (found := offsets_of(self.output, each, self.address.topic)) is not None]
        if len(ends) < 2 or len(ends[-1]) < 2:
            return []
        self.stated = True
        try:
            length = needed(self._times(ends))
        except FoglineError:  # such as messages that are gone by now: the figure is a help, no more
            length = 0.0
        name = self.layout.roles.times[0]
        enough = f"; for the newest batches {_length(length, self._kind(name))} would have sufficed" if length else ""
        return [
            f"{status.late:,} rows came late, and the clock waits for none: the {len(ends[-1])} partitions of topic "
            f"{self.address.topic!r} run apart. State how long to wait with --lateness{enough}."
        ]

    def _kind(self, name: str) -> pa.DataType:
        kind = self.layout.columns.field(name).type
        return CLOCKS[self.layout.clock] if is_text(kind) else kind

    def _times(self, ends: list[Offsets]) -> list[tuple[float, float]]:
        """The least and the greatest time of each batch that lies between two of these ends."""
        name = self.layout.roles.times[0]
        kind = self._kind(name)
        narrow = replace(self.layout, columns=pa.schema([self.layout.columns.field(name)]))
        read = reader(narrow, self.address)

        def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for rows in read([batch]):
                    yield _extremes(rows, batch, read_times(rows[name], name, kind).value, ends)

        first = {partition: ends[0].get(partition, 0) for partition in ends[-1]}
        given = {
            "startingOffsets": json.dumps({self.address.topic: first}),
            "endingOffsets": json.dumps({self.address.topic: ends[-1]}),
        }
        df = messages(self.spark.read, self.address, self.options, narrow, given)
        with plainly():
            found = df.mapInArrow(look, "batch long, least double, most double").toArrow().to_pylist()
        return [_joined(each for each in found if each["batch"] == k) for k in range(len(ends) - 1)]


def _extremes(rows: pa.RecordBatch, batch: pa.RecordBatch, times: Any, ends: list[Offsets]) -> pa.RecordBatch:
    """The least and the greatest time of the rows, all of one partition, by the batch to which they belonged."""
    partition = batch["partition"][0].as_py()
    borders = [each.get(partition, 0) for each in ends[1:]]
    of_batch = np.searchsorted(borders, rows[LINE].to_numpy(), "right")
    found = []
    for k in np.unique(of_batch).tolist():
        some = times[of_batch == k]
        some = some[np.isfinite(some)]
        found += [(k, some.min(), some.max())] if len(some) else []
    columns = [list(each) for each in zip(*found, strict=True)] or [[], [], []]
    kinds = pa.int64(), pa.float64(), pa.float64()
    arrays = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
    return pa.record_batch(arrays, ["batch", "least", "most"])


def _joined(found: Iterable[dict[str, Any]]) -> tuple[float, float]:
    some = list(found)
    return min((each["least"] for each in some), default=np.inf), max((each["most"] for each in some), default=-np.inf)


def needed(batches: list[tuple[float, float]]) -> float:
    """How far times of a batch lie behind the newest of the batches before, at most.

    >>> needed([(0, 10), (4, 12), (11, 20)])
    6
    """
    newest, found = -np.inf, 0.0
    for least, most in batches:
        found = max(found, newest - least) if np.isfinite(newest) and np.isfinite(least) else found
        newest = max(newest, most)
    return found


def _length(found: float, kind: pa.DataType) -> str:
    """A length of time as --lateness takes it."""
    return f"'{int(np.ceil(found / _SECOND))} seconds'" if pa.types.is_timestamp(kind) else f"{np.ceil(found):g}"
