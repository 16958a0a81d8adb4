"""Which stages does an engine run over record batches?

Functions from the record batches of a partition to record batches of packed values, one per group or bucket: what any
engine that can map Arrow batches can carry. The keyed stages are `keeper.Keeper` and `sensors.SensorStage`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pyarrow as pa

from fogline.flow.crate import to_crate
from fogline.flow.parcel import Parcel
from fogline.flow.piece import CHUNK, SLICE, Decoder, asked_at_once, slices
from fogline.flow.plan import Plan
from fogline.flow.screening import SMALL, Screening
from fogline.flow.sensors import Dealer
from fogline.flow.shelf import shelf_of
from fogline.flow.watermark import event
from fogline.packing import table_from_bytes
from fogline.rows.keys import Key


def screened(
    plan: Plan,
    batches: Iterable[pa.RecordBatch],
    *,
    slice_rows: int = SLICE,
    chunk_rows: int = CHUNK,
    small: int = SMALL,
    together: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The parcels of a partition: group, parcel, event time. Chunks of up to `small` rows travel as they are.

    `together`: those of the groups of one shelf in a crate; see `as_crates`.

    So do all rows where their contexts wait until they are due: each is a reading.
    """
    screening, decoder, packed = Screening(plan, small), Decoder(plan), as_crates if together else as_batch
    if plan.settles:
        screening = Screening(plan, math.inf, imputes=False)
    for each in slices(batches, slice_rows):
        piece = decoder.decode(each)
        screening.take(asked_at_once(piece, plan) if plan.settles and not plan.query.carry else piece)
        if screening.size >= chunk_rows:
            yield packed(plan, screening.pack())
    if screening.size:
        yield packed(plan, screening.pack())


def dealt(plan: Plan, batches: Iterable[pa.RecordBatch], *, chunk_rows: int = CHUNK) -> Iterator[pa.RecordBatch]:
    """The rows of a partition for the buckets of their sensors: bucket, packet."""
    dealer = Dealer(plan)
    for each in slices(batches, chunk_rows):
        found = list(dealer.deal(each))
        buckets, packets = pa.array([k for k, _ in found], pa.int32()), pa.array([p for _, p in found], pa.binary())
        yield pa.record_batch([buckets, packets], ["bucket", "packet"])


def refused(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition that cannot be taken: row as JSON, reason."""
    decoder = Decoder(plan)
    for each in slices(batches, SLICE):
        screening = Screening(plan, imputes=not plan.query.carry)  # what is carried over is known where groups are
        screening.take(decoder.decode(each))
        found = [each for counts in screening.counts for each in counts.rejects]
        columns = [
            pa.array([each.row for each in found], pa.string()),
            pa.array([each.reason for each in found], pa.string()),
        ]
        yield pa.record_batch(columns, ["row", "reason"])


def as_batch(plan: Plan, parcels: list[tuple[Key, Parcel]]) -> pa.RecordBatch:
    """Parcels as rows of a record batch: group, parcel, event time."""
    keys = pa.array([key for key, _ in parcels], pa.string())
    packed = pa.array([parcel.to_bytes(plan) for _, parcel in parcels], pa.binary())
    times = pa.array(event_times(plan, parcels), pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.record_batch([keys, packed, times], ["group", "parcel", "event"])


def as_crates(plan: Plan, parcels: list[tuple[Key, Parcel]]) -> pa.RecordBatch:
    """Parcels of the groups of one shelf in one crate: shelf, crate, event time."""
    shelves: dict[int, list[tuple[Key, Parcel]]] = {}
    for key, parcel in parcels:
        shelves.setdefault(shelf_of(key, plan.buckets), []).append((key, parcel))
    crates = pa.array([to_crate(plan, some) for some in shelves.values()], pa.binary())
    newest = [[max(some, key=lambda each: each[1].reached)] for some in shelves.values()]
    times = pa.array([event_times(plan, each)[0] for each in newest], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.record_batch([pa.array(list(shelves), pa.int32()), crates, times], ["shelf", "crate", "event"])


def event_times(plan: Plan, parcels: list[tuple[Key, Parcel]]) -> list[int | None]:
    """The event times, in microseconds, that these parcels have surely reached; none where groups stand alone."""
    times = [event(plan.kind, parcel.reached - plan.lateness) for _, parcel in parcels]
    return [None if each is None else each * 1000 for each in times]


def opened(batches: Iterable[pa.RecordBatch], kind: str) -> Iterator[pa.Table]:
    """The tables of one kind, of packed journals."""
    for batch in batches:
        for each, part in zip(batch.column("kind").to_pylist(), batch.column("part"), strict=True):
            if each == kind:
                yield table_from_bytes(part.as_buffer())
