"""Which stages does an engine run over record batches?

Functions from the record batches of a partition to record batches of packed values, one per group or bucket: what any
engine that can map Arrow batches can carry. The keyed stages are `keeper.Keeper` and `sensors.SensorStage`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pyarrow as pa

from fogline.pipeline.decode import CHUNK, SLICE, Decoder, SharedRows, asked_at_once, shared, slices
from fogline.pipeline.exchange import Parcel, to_crate
from fogline.pipeline.plan import Plan
from fogline.pipeline.plans import AnyPlan, Kin, kin_of
from fogline.pipeline.prune import SMALL, Screening
from fogline.pipeline.sensors import Dealer
from fogline.pipeline.shard import shelf_of
from fogline.pipeline.watermark import event
from fogline.rows.names import Key
from fogline.saved import table_from_bytes


def screened(
    plan: AnyPlan,
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
    lines = [_Line(kin, small, together=together) for kin in kin_of(plan)]
    for each in slices(batches, slice_rows):
        rows = shared(each, plan.columns)
        for line in lines:
            line.take(rows)
        if lines[0].size >= chunk_rows:
            yield from (line.pack() for line in lines)
    yield from (line.pack() for line in lines if line.size)


class _Line:
    """The way of a partition's rows to the groups of some kin."""

    def __init__(self, kin: Kin, small: int, *, together: bool) -> None:
        self.packed = as_crates if together else as_batch
        self.kin, self.plan, self.decoder = kin, kin.plan, Decoder(kin.plan)
        self.screening = (
            Screening(self.plan, math.inf, imputes=False) if self.plan.settles else Screening(self.plan, small)
        )

    @property
    def size(self) -> int:
        """How many rows the chunk has so far."""
        return self.screening.size

    def take(self, rows: SharedRows) -> None:
        piece, plan = self.decoder.decode(rows), self.plan
        self.screening.take(asked_at_once(piece, plan) if plan.settles and not plan.query.carry else piece)

    def pack(self) -> pa.RecordBatch:
        return self.packed(self.kin, self.screening.pack())


def dealt(plan: AnyPlan, batches: Iterable[pa.RecordBatch], *, chunk_rows: int = CHUNK) -> Iterator[pa.RecordBatch]:
    """The rows of a partition for the buckets of their sensors: bucket, packet."""
    dealers = [Dealer(kin.plan) for kin in kin_of(plan)]
    for each in slices(batches, chunk_rows):
        rows = shared(each, plan.columns)
        for number, dealer in enumerate(dealers):
            first, found = number * dealer.plan.buckets, list(dealer.deal(rows))
            buckets = pa.array([first + k for k, _ in found], pa.int32())
            yield pa.record_batch([buckets, pa.array([p for _, p in found], pa.binary())], ["bucket", "packet"])


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


def as_batch(of: Plan | Kin, parcels: list[tuple[Key, Parcel]]) -> pa.RecordBatch:
    """Parcels as rows of a record batch: group, parcel, event time."""
    keys, packed, times = sent(of if isinstance(of, Kin) else Kin(of), parcels)
    columns = pa.array(keys, pa.string()), pa.array(packed, pa.binary()), pa.array(times, pa.int64())
    return pa.record_batch([*columns[:2], columns[2].cast(pa.timestamp("us", "UTC"))], ["group", "parcel", "event"])


def sent(kin: Kin, parcels: list[tuple[Key, Parcel]]) -> tuple[list[Key], list[bytes], list[int | None]]:
    """Groups, packed parcels, and the event times that these have reached, in microseconds: a parcel for each kin."""
    keys = [kin.keys(key) for key, _ in parcels]
    packed, times = [parcel.to_bytes(kin.plan) for _, parcel in parcels], event_times(kin.plan, parcels)
    of = [k for k, each in enumerate(keys) for _ in each]
    return [key for each in keys for key in each], [packed[k] for k in of], [times[k] for k in of]


def as_crates(of: Plan | Kin, parcels: list[tuple[Key, Parcel]]) -> pa.RecordBatch:
    """Parcels of the groups of one shelf in one crate: shelf, crate, event time; each query has shelves of its own."""
    kin = of if isinstance(of, Kin) else Kin(of)
    plan, shelves = kin.plan, dict[int, list[tuple[Key, Parcel]]]()
    for key, parcel in parcels:
        shelves.setdefault(shelf_of(key, plan.buckets), []).append((key, parcel))
    crates = [to_crate(plan, some) for some in shelves.values()] * len(kin.numbers)
    newest = [[max(some, key=lambda each: each[1].reached)] for some in shelves.values()]
    times = [event_times(plan, each)[0] for each in newest] * len(kin.numbers)
    places = [number * plan.buckets + shelf for number in kin.numbers for shelf in shelves]
    columns = pa.array(places, pa.int32()), pa.array(crates, pa.binary()), pa.array(times, pa.int64())
    return pa.record_batch([*columns[:2], columns[2].cast(pa.timestamp("us", "UTC"))], ["shelf", "crate", "event"])


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
