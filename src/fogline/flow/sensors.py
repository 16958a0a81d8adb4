"""What has a row's sensor read before it, wherever the row lies?

Sensors are dealt into the plan's number of buckets; each has its readings as state (`readings`), so buckets work in
parallel and every reading is remembered exactly once, as any state of the engine is. Decoded rows travel to their
bucket in one packet per bucket and chunk; there those with gaps get their context, and all are screened at once. From
there on no stage needs to know whose readings they are.

With hindsight a bucket also keeps the open gaps of rows that went on from here. What a reading revises goes to the
group of the row, as an event at the reading's tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints
from fogline.flow.block import RowBlock, concat, from_arrays, to_arrays
from fogline.flow.cells import Cells
from fogline.flow.heard import hash_ids
from fogline.flow.hearing import Hearing
from fogline.flow.newest import in_turn
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Decoder, Piece, Rows, asked_at_once
from fogline.flow.plan import Plan
from fogline.flow.readings import Opened, ReadingStore, bucket_of, name_of
from fogline.flow.recall import Recall, Recalled
from fogline.flow.rejects import RejectedRow, rejected
from fogline.flow.screening import SMALL, Screening
from fogline.repository.sensors.state import Name
from fogline.rows.names import DUPLICATE, Key
from fogline.rows.reader import Decoded
from fogline.rows.table import RowSource
from fogline.saved import Arrays, pack, unpack

Packet = tuple[dict[str, Any], Arrays]  # unpacked


class Rejected(NamedTuple):
    """Rows of one group that could not be decoded."""

    key: Key
    rows: list[RejectedRow]
    outside_limits: int


class Dealer:
    """Decodes rows and deals them to the buckets of their sensors."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.decoder = plan, Decoder(plan)

    def deal(self, batch: Rows) -> Iterator[tuple[int, bytes]]:
        """Bucket and packet, for each bucket that any of the rows is in."""
        plan = self.plan
        piece, sensors = self.decoder.decode_sensors(batch)
        piece = asked_at_once(piece, plan)
        bucket = np.array([bucket_of(name_of(key), plan.buckets) for key in sensors], np.int64)[piece.name]
        rows = piece.rows
        bucket[list(rows.refused)] = -1
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(plan.buckets + 1))
        for k in range(plan.buckets):
            which = order[ends[k] : ends[k + 1]]
            if len(which):
                yield k, self._packet(piece, sensors, which)
        if rows.refused:
            yield 0, pack({"rejected": [list(each) for each in self._rejected(piece)], "keys": [], "sensors": []}, {})

    def _packet(self, piece: Piece, sensors: list[Key], which: Ints) -> bytes:
        there, code = np.unique(piece.name[which], return_inverse=True)
        header = {"rejected": [], "keys": piece.keys, "sensors": [sensors[k] for k in there.tolist()]}
        arrays = to_arrays(piece.block.part(which), self.plan.signs)
        arrays |= {"sensor": code.reshape(-1).astype(np.int32), "group": piece.group[which].astype(np.int32)}
        if piece.rows.outside is not None:
            arrays["outside"] = piece.rows.outside[which]
        return pack(header, arrays)

    def _rejected(self, piece: Piece) -> Iterator[Rejected]:
        found: dict[int, list[int]] = {}
        for i in sorted(piece.rows.refused):
            found.setdefault(int(piece.group[i]), []).append(i)
        outside = piece.rows.outside
        for k, which in found.items():
            shown = [rejected(piece.row(i, self.plan), piece.rows.refused[i]) for i in which]
            yield Rejected(piece.keys[k], shown, 0 if outside is None else int(outside[which].sum()))


class Remembered(NamedTuple):
    """The rows of a bucket, with what their sensors have read before; all are in the state then."""

    piece: Piece
    names: list[Name]  # of sensors: piece.name counts them
    opened: Opened
    fresh: Flags  # (n,) which rows are later than all that their sensors have sent
    found: Recalled


class SensorStage:
    """Keeps the readings of buckets of sensors, and their open gaps, between calls."""

    def __init__(self, plan: Plan, small: float = SMALL) -> None:
        self.plan, self.recall = plan, Recall(plan)
        self.screening, self.readings = Screening(plan, small), ReadingStore(plan, self.recall.sensors)

    def take(
        self, bucket: int, state: bytes | None, packets: list[bytes], cells: Cells
    ) -> tuple[list[tuple[Key, Parcel]], bytes | None]:
        """What can matter of the rows of a bucket, one parcel per group; and the state after them, if it is another.

        What a reading revises travels, though the reading itself may not; gaps of rows that do not are forgotten.
        """
        parts, rejected = _opened(packets)
        for each in rejected:
            self.screening.add_rejects(each.key, each.rows, each.outside_limits)
        if not parts:
            return self.screening.pack(), None
        piece, names, opened, fresh, found = self._remember(bucket, state, parts, cells)
        left_out = found.copies if self.plan.query.latest else ()  # else they are rejected
        self.screening.take(piece, found.context, fresh, found.hidden, left_out)
        parcels = self.screening.pack()
        events = self.recall.revisions(opened.kept, names, piece, found, self.screening.kept)
        parcels = [(key, replace(parcel, revisions=events.get(key))) for key, parcel in parcels]
        if opened.kept.lost or opened.kept.forgotten:  # it is not known of which groups: the first one reports it
            key, parcel = parcels[0]
            parcels[0] = key, replace(parcel, unwatched=opened.kept.lost, sensors_forgotten=opened.kept.forgotten)
        return parcels, self.readings.save(opened, cells)

    def impute(
        self, bucket: int, state: bytes | None, packets: list[bytes], cells: Cells
    ) -> tuple[Piece | None, Floats, bytes | None]:
        """The rows of a bucket (None: there are none) with their contexts, and the state after them."""
        if not (parts := _opened(packets)[0]):
            return None, np.empty((0, self.recall.sensors.width)), None
        found = self._remember(bucket, state, parts, cells)
        return found.piece, found.found.context, self.readings.save(found.opened, cells)

    def _remember(self, bucket: int, state: bytes | None, parts: list[Packet], cells: Cells) -> Remembered:
        """The rows of a bucket with their contexts; they join the state."""
        piece, sensors = self._joined(parts)
        names = [name_of(key) for key in sensors]
        opened = self.readings.open(bucket, state, names, cells)
        fresh = piece.rows.arrived > opened.kept.newest(names)[piece.name]
        found = self.recall.recall(opened.kept, names, piece, self._near(piece))
        if not self.plan.query.latest:
            piece.rows.refused.update((k, DUPLICATE) for k in found.copies)
        return Remembered(piece, names, opened, fresh, found)

    def _near(self, piece: Piece) -> Flags | None:
        """Which rows do not run ahead of their groups, as far as this call shows it; None: all."""
        hearing, ids = Hearing(self.plan.ahead), piece.block.columns.column(self.plan.query.id)
        cell = hearing.hear(piece.group, piece.rows.arrived, hash_ids(ids))
        return hearing.near(cell)

    def _joined(self, parts: list[Packet]) -> tuple[Piece, list[Key]]:
        """The rows of several packets as one piece, and the keys of the sensors that its names stand for."""
        groups: dict[Key, int] = {}
        sensors: dict[Key, int] = {}
        group, name, blocks, outside = [], [], [], []
        for header, arrays in parts:
            numbers = np.array([groups.setdefault(key, len(groups)) for key in header["keys"]], np.int64)
            codes = np.array([sensors.setdefault(key, len(sensors)) for key in header["sensors"]], np.int64)
            group.append(numbers[arrays["group"]])
            name.append(codes[arrays["sensor"]])
            blocks.append(from_arrays(arrays, self.plan.signs, 0))
            outside.append(arrays.get("outside", np.zeros(len(arrays["raw"]), np.int64)))
        block = concat(blocks)
        columns = tuple(np.concatenate(each) for each in (group, name, outside))
        if block.version is not None:
            order = in_turn(block.arrived, block.version)
            block, columns = block.part(order), tuple(each[order] for each in columns)
        of_group, of_sensor, beyond = columns
        rows = decoded(block, self.plan, beyond)
        return Piece(rows, block, list(groups), of_group, of_sensor, whole=False), list(sensors)


def _opened(packets: list[bytes]) -> tuple[list[Packet], list[Rejected]]:
    """The packets that hold rows, and rows that were rejected as they were dealt."""
    found = [unpack(each, "packet of readings") for each in packets]
    rejected = [
        Rejected(key, [RejectedRow(*each) for each in rows], outside)
        for header, _ in found
        for key, rows, outside in header["rejected"]
    ]
    return [each for each in found if "raw" in each[1]], rejected


def decoded(block: RowBlock, plan: Plan, outside: Ints | None = None) -> Decoded:
    """The rows of a block, to be looked at by imputers."""
    gaps, few = bool(np.isnan(block.uncertain.lo).any()), outside if outside is not None and outside.any() else None
    columns = block.columns
    if plan.imputer is not None:  # it may ask for attributes as they came
        left = [(j, name) for j, name in enumerate(plan.query.names) if name not in columns.schema.names]
        for j, name in left:
            columns = columns.append_column(name, pa.array(block.raw[:, j], from_pandas=True))
    source = RowSource(columns)
    cells = block.raw, block.uncertain, few, gaps
    return Decoded(source, plan.kind, block.arrived, block.expires, *cells, {}, block.gone, block.version)
