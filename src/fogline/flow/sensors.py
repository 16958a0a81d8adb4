"""What has a row's sensor read before it, wherever the row lies?

Sensors are dealt into the plan's number of buckets; each has its readings as state (`readings`), so buckets work in
parallel and every reading is remembered exactly once, as any state of the engine is. Decoded rows travel to their
bucket in one packet per bucket and chunk; there those with gaps get their context, and all are screened at once. From
there on no stage needs to know whose readings they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints
from fogline.flow.block import RowBlock, concat, from_arrays, to_arrays
from fogline.flow.cells import Cells
from fogline.flow.heard import hash_ids
from fogline.flow.hearing import Hearing
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Decoder, Piece, asked_at_once
from fogline.flow.plan import Plan
from fogline.flow.readings import ReadingStore, bucket_of, name_of
from fogline.flow.rejects import as_json
from fogline.flow.screening import SMALL, Screening
from fogline.impute.scoring import chosen
from fogline.packing import pack, unpack
from fogline.repository.sensors.state import Name, SensorState
from fogline.rows.keys import Key
from fogline.rows.reader import Decoded
from fogline.rows.source import RowSource


class Rejected(NamedTuple):
    """Rows of one group that could not be decoded."""

    key: Key
    rows: list[tuple[str, str]]  # row as JSON, reason
    outside_limits: int


class Dealer:
    """Decodes rows and deals them to the buckets of their sensors."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.decoder = plan, Decoder(plan)

    def deal(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
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
            shown = [(as_json(piece.row(i, self.plan)), piece.rows.refused[i]) for i in which]
            yield Rejected(piece.keys[k], shown, 0 if outside is None else int(outside[which].sum()))


class Recall:
    """Gives rows what their sensors have read before."""

    def __init__(self, plan: Plan) -> None:
        assert plan.chain is not None
        assert plan.chain.sensors is not None
        self.chain, self.sensors = plan.chain, plan.chain.sensors

    def contexts(self, kept: SensorState, names: Sequence[Name], piece: Piece, near: Flags | None = None) -> Floats:
        """(n, w) the contexts of rows with gaps; then the rows join the state.

        Rows that are not `near` (None: all are) run ahead of their group, and are no readings yet.
        """
        rows = piece.rows
        values = self.chain.values(rows.clouds, rows.raw)
        values[list(rows.refused)] = np.nan  # what is refused is no reading, …
        if near is not None:
            values[~near] = np.nan  # … nor is what runs ahead of its group
        wanted = np.asarray(np.isnan(values).any(axis=1))
        wanted[chosen(rows.arrived, values)[0]] = True  # they may be hidden, to keep score
        return self.chain.contexts(kept, names, rows.arrived, values, wanted, piece.name)


class Remembered(NamedTuple):
    """The rows of a bucket, with what their sensors have read before."""

    piece: Piece | None  # None: there is nothing but rejects
    context: Floats  # (n, w)
    fresh: Flags  # (n,) which rows are later than all that their sensors have sent
    rejected: list[Rejected]
    state: bytes | None  # None: it is as it was


class SensorStage:
    """Keeps the readings of buckets of sensors between calls."""

    def __init__(self, plan: Plan, small: float = SMALL) -> None:
        self.plan, self.recall = plan, Recall(plan)
        self.screening, self.readings = Screening(plan, small), ReadingStore(plan, self.recall.sensors)

    def take(
        self, bucket: int, state: bytes | None, packets: list[bytes], cells: Cells
    ) -> tuple[list[tuple[Key, Parcel]], bytes | None]:
        """What can matter of the rows of a bucket, one parcel per group; and the state after them, if it is another."""
        found = self.remember(bucket, state, packets, cells)
        for each in found.rejected:
            self.screening.add_rejects(each.key, each.rows, each.outside_limits)
        if found.piece is not None:
            self.screening.take(found.piece, found.context, found.fresh)
        return self.screening.pack(), found.state

    def remember(self, bucket: int, state: bytes | None, packets: list[bytes], cells: Cells) -> Remembered:
        """The rows of a bucket with their contexts; they join the state."""
        found = [unpack(each, "packet of readings") for each in packets]
        rejected = [
            Rejected(key, [(row, reason) for row, reason in rows], outside)
            for header, _ in found
            for key, rows, outside in header["rejected"]
        ]
        parts = [(header, arrays) for header, arrays in found if "raw" in arrays]
        if not parts:
            none = np.empty(0, np.bool_)
            return Remembered(None, np.empty((0, self.recall.sensors.width)), none, rejected, None)
        piece, sensors = self._joined(parts)
        rows = piece.rows
        self.screening.refuse_copies(piece)
        names = [name_of(key) for key in sensors]
        opened = self.readings.open(bucket, state, names, cells)
        fresh = rows.arrived > opened.kept.newest(names)[piece.name]
        context = self.recall.contexts(opened.kept, names, piece, self._near(piece))
        return Remembered(piece, context, fresh, rejected, self.readings.save(opened, cells))

    def _near(self, piece: Piece) -> Flags | None:
        """Which rows do not run ahead of their groups, as far as this call shows it; None: all."""
        hearing, ids = Hearing(self.plan.ahead), piece.block.columns.column(self.plan.query.id)
        cell = hearing.hear(piece.group, piece.rows.arrived, hash_ids(ids))
        return hearing.near(cell)

    def _joined(self, parts: list[tuple[dict[str, Any], dict[str, Any]]]) -> tuple[Piece, list[Key]]:
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
        rows = decoded(block, self.plan, np.concatenate(outside))
        piece = Piece(rows, block, list(groups), np.concatenate(group), np.concatenate(name), whole=False)
        return piece, list(sensors)


def decoded(block: RowBlock, plan: Plan, outside: Ints | None = None) -> Decoded:
    """The rows of a block, to be looked at by imputers."""
    gaps, few = bool(np.isnan(block.clouds.lo).any()), outside if outside is not None and outside.any() else None
    columns = block.columns
    if plan.imputer is not None:  # it may ask for attributes as they came
        left = [(j, name) for j, name in enumerate(plan.query.names) if name not in columns.schema.names]
        for j, name in left:
            columns = columns.append_column(name, pa.array(block.raw[:, j], from_pandas=True))
    source = RowSource(columns)
    return Decoded(source, plan.kind, block.arrived, block.expires, block.raw, block.clouds, few, gaps, {})
