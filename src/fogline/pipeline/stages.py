"""Which stages does an engine run over the record batches of a partition?

They need no state and no order: any cut of a stream into partitions will do. `pruned` decodes rows and drops what can
never matter; `dealt`, where sensors are remembered, decodes rows for the buckets of their sensors. Both hand objects
over. The stages with state are `sensors.SensorStage` and `shard.Shard`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fogline.pipeline.decode import CHUNK, SLICE, Decoder, SharedRows, asked_at_once, shared_rows, slices
from fogline.pipeline.exchange import BucketRows, RowsByGroup
from fogline.pipeline.plan import Plan
from fogline.pipeline.plans import NamedPlan, Plans, SharedPlan
from fogline.pipeline.prune import SMALL, Screening
from fogline.pipeline.sensors import Dealer
from fogline.pipeline.shard import shard_of
from fogline.pipeline.watermark import event
from fogline.saved import table_from_bytes


class Pruned(NamedTuple):
    """What can matter of one chunk, for the queries that share its stages."""

    shared: SharedPlan
    groups: RowsByGroup

    @property
    def event(self) -> int | None:
        """The event time, in milliseconds, that the chunk has surely reached; None where groups stand alone."""
        plan = self.shared.plan
        return event(plan.kind, self.groups.reached - plan.lateness)

    def by_shard(self) -> Iterator[tuple[int, NamedPlan, RowsByGroup]]:
        """The groups by their shards, for each query: all queries get the same rows, see `of_query`."""
        shards, groups = self.shared.plan.shards, self.groups
        number = np.array([shard_of(key, shards) for key in groups.keys], np.int64)
        found = {k: groups.part(np.flatnonzero(number == k)) for k in dict.fromkeys(number.tolist())}
        for query, first in zip(self.shared.queries, self.shared.first_shards, strict=True):
            for shard, some in found.items():
                yield first + shard, query, some


def of_query(shared: SharedPlan, query: Plan, groups: RowsByGroup) -> RowsByGroup:
    """Rows that queries share, with the expiries that they have for one of these."""
    if not shared.lives_differ:
        return groups
    rows = groups.rows
    return replace(groups, rows=rows._replace(expires=query.query.expiries(rows.arrived)))


def pruned(
    plans: Plans,
    batches: Iterable[pa.RecordBatch],
    *,
    slice_rows: int = SLICE,
    chunk_rows: int = CHUNK,
    small: int = SMALL,
) -> Iterator[Pruned]:
    """What can matter of the rows of a partition, chunk by chunk. Chunks of up to `small` rows travel as they are.

    So do all rows where their contexts wait until they are due: each is a reading.
    """
    lines = [_Line(shared, small) for shared in plans.shared]
    for each in slices(batches, slice_rows):
        rows = shared_rows(each, plans.columns)
        for line in lines:
            line.take(rows)
        if lines[0].size >= chunk_rows:
            yield from (line.pack() for line in lines)
    yield from (line.pack() for line in lines if line.size)


class _Line:
    """The way of a partition's rows to the groups of queries that share it."""

    def __init__(self, shared: SharedPlan, small: int) -> None:
        self.shared, self.plan, self.decoder = shared, shared.plan, Decoder(shared.plan)
        self.screening = (
            Screening(self.plan, math.inf, imputes=False) if self.plan.settles else Screening(self.plan, small)
        )

    @property
    def size(self) -> int:
        """How many rows the chunk has so far."""
        return self.screening.size

    def take(self, rows: SharedRows) -> None:
        decoded, plan = self.decoder.decode(rows), self.plan
        self.screening.take(asked_at_once(decoded, plan) if plan.settles and not plan.query.carry else decoded)

    def pack(self) -> Pruned:
        return Pruned(self.shared, self.screening.pack())


def dealt(
    plans: Plans, batches: Iterable[pa.RecordBatch], *, chunk_rows: int = CHUNK
) -> Iterator[tuple[int, BucketRows]]:
    """The rows of a partition for the buckets of their sensors, chunk by chunk."""
    dealers = [Dealer(each.plan) for each in plans.shared]
    for each in slices(batches, chunk_rows):
        rows = shared_rows(each, plans.columns)
        for number, dealer in enumerate(dealers):
            for bucket, some in dealer.deal(rows):
                yield number * plans.buckets + bucket, some


def refused(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition that cannot be taken: row as JSON, reason."""
    decoder = Decoder(plan)
    for each in slices(batches, SLICE):
        screening = Screening(plan, imputes=not plan.query.carry)  # what is carried over is known where groups are
        screening.take(decoder.decode(each))
        found = [each for some in screening.rejects.values() for each in some]
        columns = [
            pa.array([each.row for each in found], pa.string()),
            pa.array([each.reason for each in found], pa.string()),
        ]
        yield pa.record_batch(columns, ["row", "reason"])


def opened(batches: Iterable[pa.RecordBatch], kind: str) -> Iterator[pa.Table]:
    """The tables of one kind, of packed results."""
    for batch in batches:
        for each, part in zip(batch.column("kind").to_pylist(), batch.column("part"), strict=True):
            if each == kind:
                yield table_from_bytes(part.as_buffer())
