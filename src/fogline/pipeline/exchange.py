"""What do stages hand to each other?

`GroupRows`: what one chunk of a partition has for one group, that is decoded rows, what they revise, counters and
rejects. Before it, where sensors are remembered, `BucketRows`: what the chunk has for one bucket of sensors. Stages
hand objects over; only an engine that carries bytes packs them, in one codec, at the end of this file.

A `RowBlock` is rows in numbers, with the columns that name them. It is packed as flat arrays and opened as it was: no
stage decodes a row again. Beside the numbers go only columns that numbers cannot stand for (ids, groups, times as they
came, determinants, attributes that did not come as plain numbers), so that a reject can still show the row as it came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import (
    ASKED_NO_MORE,
    BOUNDS_ONLY,
    ONE,
    Batch,
    Flags,
    Floats,
    Ints,
    Objects,
    Removals,
    Revisions,
    UncertainRows,
    empty_rows,
    objects,
)
from fogline.impute.scores import Sums, from_plain, to_plain
from fogline.kernels.uncertain import dense
from fogline.pipeline import time_buckets
from fogline.pipeline.plan import Plan
from fogline.pipeline.rejects import RejectedRow
from fogline.pipeline.time_buckets import BucketStatistics, TimeBuckets
from fogline.pipeline.watermark import HeardPair
from fogline.query import Query
from fogline.rows.cells import REAL
from fogline.rows.kept import kept_of
from fogline.rows.names import KeyText, without_sign_of_zero
from fogline.rows.reader import Decoded
from fogline.rows.table import joined as one_table
from fogline.rows.table import row_of
from fogline.saved import Arrays, as_bytes, from_bytes, pack, table_as_bytes, table_from_bytes, unpack, whole

_POOLS = ("value", "weight", "tail")


class RowBlock(NamedTuple):
    """n decoded rows."""

    columns: pa.RecordBatch  # what numbers cannot stand for
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    raw: Floats  # (n, d)
    known: Floats  # (n, width) what imputers keep; NaN for rows without gaps
    uncertain: UncertainRows
    covering: Flags  # (n,) whether others were dropped because of it
    gone: Flags | None = None  # (n,) which rows remove their id, where each id has one current row; None: it has many
    version: Ints | None = None  # (n,) orders what befalls one id at one time

    def part(self, which: Ints | slice) -> RowBlock:
        """Some of the rows; pools are shared."""
        if isinstance(which, slice):
            columns = self.columns.slice(which.start, which.stop - which.start)
        else:
            columns = self.columns.take(pa.array(which))
        gone = None if self.gone is None else self.gone[which]
        version = None if self.version is None else self.version[which]
        return RowBlock(
            columns, self.arrived[which], self.expires[which], self.raw[which], self.known[which],
            self.uncertain.part(which), self.covering[which], gone, version,
        )  # fmt: skip

    def between(self, a: int, b: int) -> RowBlock:
        """The rows from a to b, with their part of the pools, where these lie in the order of the rows."""
        rows = self.part(slice(a, b))
        if not len(rows.uncertain.value):
            return rows
        uncertain, own = rows.uncertain, rows.uncertain.start >= 0
        first = int(uncertain.start[own].min(initial=len(uncertain.value)))
        pool = slice(first, first + int(uncertain.size[own].sum()))
        pools = {name: getattr(uncertain, name)[pool] for name in _POOLS}
        return rows._replace(
            uncertain=uncertain._replace(start=np.where(own, uncertain.start - first, uncertain.start), **pools)
        )

    def names(self, query: Query) -> Objects:
        """The ids of the rows."""
        return objects(self.columns.column(query.id).to_pylist())

    def batch(self, query: Query) -> Batch:
        """As the live set takes them."""
        names = self.names(query)
        kept = kept_of(self.columns, query)
        return Batch(names, self.arrived, self.expires, self.raw, self.known, self.uncertain, self.version, kept)

    def removals(self, query: Query) -> Removals:
        """Of rows that all remove their ids, what there is to know."""
        assert self.version is not None
        return Removals(self.names(query), self.arrived, self.version)

    def row(self, i: int, query: Query) -> dict[str, Any]:
        """A row as it came."""
        row = row_of(self.columns, i)
        plain = {name: self.raw[i, j] for j, name in enumerate(query.names) if name not in row}
        return row | {name: None if np.isnan(value) else float(value) for name, value in plain.items()}


def block_of(rows: Decoded, names: Sequence[str], query: Query, width: int) -> RowBlock:
    """Decoded rows as a block; `names`: the columns that are needed."""
    batch = rows.source.batch
    assert batch is not None, "a stage takes Arrow batches"
    kept = [name for name in names if name not in query.attributes or batch.schema.field(name).type != REAL]
    came = {name: batch.column(name) for name in kept}
    came[query.id] = without_sign_of_zero(came[query.id])
    columns = pa.RecordBatch.from_arrays(list(came.values()), kept)
    known = np.full((len(rows.arrived), width), np.nan)
    none = np.zeros(len(rows.arrived), np.bool_)
    block = RowBlock(columns, rows.arrived, rows.expires, rows.raw, known, rows.uncertain, none)
    if not query.latest:
        return block
    version = np.zeros(len(none), np.int64) if rows.version is None else rows.version
    return block._replace(gone=none if rows.gone is None else rows.gone, version=version)


def empty_block(d: int, width: int) -> RowBlock:
    """No rows."""
    none = np.empty(0)
    columns = pa.RecordBatch.from_arrays([], names=[])
    uncertain = empty_rows(0, d, 0)
    return RowBlock(columns, none, none, np.empty((0, d)), np.empty((0, width)), uncertain, np.empty(0, np.bool_))


def concat(blocks: Sequence[RowBlock]) -> RowBlock:
    """All rows of some blocks (of at least one), in order."""
    if len(blocks) == 1:
        return blocks[0]
    columns = one_table(_alike([each.columns for each in blocks]))
    names = ("arrived", "expires", "raw", "known", "covering")
    arrived, expires, raw, known, covering = (
        np.concatenate([getattr(each, name) for each in blocks]) for name in names
    )
    uncertain = _joined([each.uncertain for each in blocks])
    gone, version = (_both([getattr(each, name) for each in blocks]) for name in ("gone", "version"))
    return RowBlock(columns, arrived, expires, raw, known, uncertain, covering, gone, version)


def _alike(parts: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Batches of the same columns; where some have others, as after a change of the repository, all have all."""
    if all(each.schema.names == parts[0].schema.names for each in parts):
        return parts
    types = {field.name: field.type for each in parts for field in each.schema}
    return [
        pa.RecordBatch.from_arrays(
            [
                each[name] if name in each.schema.names else pa.nulls(each.num_rows, kind)
                for name, kind in types.items()
            ],
            list(types),
        )
        for each in parts
    ]


def _both(parts: Sequence[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _joined(uncertain: Sequence[UncertainRows]) -> UncertainRows:
    """All uncertain rows in order; pools that some of them share lie there once."""
    starts, offsets, pools, end = [], dict[int, int](), list[UncertainRows](), 0
    for each in uncertain:
        if id(each.value) not in offsets:
            offsets[id(each.value)] = end
            pools.append(each)
            end += len(each.value)
        offset = offsets[id(each.value)]
        starts.append(np.where(each.start >= 0, each.start + offset, each.start) if offset else each.start)
    cells = {name: np.concatenate([getattr(each, name) for each in uncertain]) for name in ("lo", "hi", "size")}
    values = {name: np.concatenate([getattr(each, name) for each in pools]) for name in _POOLS}
    return UncertainRows(start=np.concatenate(starts), **cells, **values)


def to_arrays(block: RowBlock, signs: Floats) -> Arrays:
    """The block as named arrays, for `saved.pack`. Cells that are what came are left out: they can be derived."""
    out: Arrays = {"arrived": block.arrived, "expires": block.expires, "raw": block.raw}
    out["columns"] = table_as_bytes(pa.Table.from_batches([block.columns]))
    if block.covering.any():
        out["covering"] = np.flatnonzero(block.covering)
    if block.gone is not None and block.version is not None:
        out |= {"gone": np.flatnonzero(block.gone), "version": block.version}
    uncertain, came = block.uncertain, block.raw * signs + 0.0
    if block.known.shape[1]:
        lacking = np.flatnonzero((uncertain.start == BOUNDS_ONLY).any(axis=1) | (block.known[:, 0] == ASKED_NO_MORE))
        out |= {"lacking": lacking, "known": block.known[lacking]}
    same = (uncertain.start == ONE) & ((uncertain.lo == came) | (np.isnan(uncertain.lo) & np.isnan(came)))
    if not same.all():
        cells = np.flatnonzero(~same.ravel())
        few = dense(uncertain, np.arange(len(block.arrived))) if (uncertain.start >= 0).any() else uncertain
        out |= {"cells": cells, "size": few.size.ravel()[cells], "start": few.start.ravel()[cells]}
        out |= {"lo": few.lo.ravel()[cells], "hi": few.hi.ravel()[cells]}
        if few is not uncertain:
            out |= {name: getattr(few, name) for name in _POOLS}
    return out


def from_arrays(arrays: Arrays, signs: Floats, width: int) -> RowBlock:
    """The inverse of `to_arrays`."""
    columns = one_table(table_from_bytes(arrays["columns"]))
    raw = arrays["raw"]
    known = np.full((len(raw), width), np.nan)
    if "lacking" in arrays:
        known[arrays["lacking"]] = arrays["known"]
    lo = raw * signs + 0.0
    hi, start, size = lo.copy(), np.full(lo.shape, ONE, np.int64), np.ones(lo.shape, np.int64)
    if "cells" in arrays:
        for whole, name in ((lo, "lo"), (hi, "hi"), (start, "start"), (size, "size")):
            whole.ravel()[arrays["cells"]] = arrays[name]
    none = np.empty(0)
    uncertain = UncertainRows(lo, hi, start, size, *(arrays.get(name, none) for name in _POOLS))
    covering = np.zeros(len(raw), np.bool_)
    covering[arrays.get("covering", np.empty(0, np.int64))] = True
    block = RowBlock(columns, arrays["arrived"], arrays["expires"], raw, known, uncertain, covering)
    if "version" not in arrays:
        return block
    gone = np.zeros(len(raw), np.bool_)
    gone[arrays["gone"]] = True
    return block._replace(gone=gone, version=arrays["version"])


# --- Revisions --------------------------------------------------------------------------------------------------------
#
# They travel, and wait, as arrays beside those of rows, under names of their own. A revision is an event at the tick of
# its reading, and shares the reading's fate: it is held as long as a row of that time would be.


def joined_revisions(parts: Sequence[Revisions | None]) -> Revisions | None:
    """All of them; None if there are none."""
    there = [each for each in parts if each is not None and len(each.id)]
    if len(there) < 2:
        return there[0] if there else None
    return Revisions(*(np.concatenate(each) for each in zip(*there, strict=True)))


def some_revisions(revisions: Revisions | None, which: Flags) -> Revisions | None:
    """Some of them; None if there are none."""
    if revisions is None or which.all():
        return revisions
    return revisions.part(np.flatnonzero(which)) if which.any() else None


def revisions_to_arrays(revisions: Revisions | None, kind: pa.DataType, prefix: str) -> Arrays:
    """As named arrays, for `saved.pack`; `kind` of the ids."""
    if revisions is None:
        return {}
    numbers = {f"{prefix}{name}": each for name, each in revisions._asdict().items() if name != "id"}
    return {f"{prefix}id": as_bytes(revisions.id.tolist(), kind), **numbers}


def revisions_from_arrays(arrays: Arrays, prefix: str) -> Revisions | None:
    """The inverse of `to_arrays`, among other arrays."""
    if f"{prefix}id" not in arrays:
        return None
    found: dict[str, Any] = {name: arrays[f"{prefix}{name}"] for name in Revisions._fields}
    return Revisions(**found | {"id": objects(from_bytes(found["id"])[0])})


_REVISIONS = "revised "  # before the names of arrays
NUMBERS = ("came", "outside_limits", "incomplete", "screened", "unwatched", "sensors_forgotten")


@dataclass(frozen=True, slots=True)
class GroupRows:
    """What one chunk of a partition has for one group."""

    rows: RowBlock  # what can matter
    heard: TimeBuckets  # of the rows that were not rejected, screened ones included
    came: int  # rows of every sort
    outside_limits: int  # cells
    incomplete: int  # rows with gaps
    screened: int  # rows that cannot matter
    rejects: list[RejectedRow] = field(default_factory=list)
    scores: Sums = field(default_factory=dict)  # of values that were hidden for a moment
    reached: float = -math.inf  # the instant that the chunk's ids have reached together; it does not travel
    revisions: Revisions | None = None  # gaps of these and of earlier rows that the chunk's readings revise
    pairs: tuple[HeardPair, ...] = ()  # of this group, if the chunk has few rows: see `watermark.Farthest`
    unwatched: int = 0  # rows whose gaps no reading will revise, since too many are open where their sensors lie
    sensors_forgotten: int = 0  # sensors that left with what they had read, since there were too many where they lay

    @property
    def newest(self) -> float:
        """The greatest time of the rows that were not rejected; -inf: there were none."""
        return max((cell.greatest for cell in self.heard.values()), default=-math.inf)


class GroupRejects(NamedTuple):
    """Rows of one group that could not be decoded."""

    key: KeyText
    rejects: list[RejectedRow]
    outside_limits: int  # cells


class BucketRows(NamedTuple):
    """What one chunk of a partition has for one bucket of sensors."""

    rows: RowBlock | None  # None: there are only rejects
    groups: list[KeyText]
    group: Ints  # (n,) which of the groups a row has
    sensors: list[KeyText]
    sensor: Ints  # (n,) and which of the sensors
    outside: Ints | None  # (n,) cells outside of their limits; None: there are none
    rejects: list[GroupRejects]


# --- Packed, where an engine carries bytes ----------------------------------------------------------------------------
#
# An engine hands values to a stateful operator one by one, so many rows had better be one value. The rows of many
# groups lie in one block, group after group, and beside them how many rows, time buckets, rejects and revisions each
# group has: packing and opening cost as much for a thousand groups as for one.

_GROUPS, _BUCKET = "value of rows by group", "value of rows for a bucket of sensors"


def pack_groups(plan: Plan, groups: Sequence[tuple[KeyText, GroupRows]]) -> bytes:
    """Rows of these groups as one bytes object. What is known of a chunk (`reached`, `pairs`) does not travel."""
    each = [one for _, one in groups]
    there = [one.rows for one in each if len(one.rows.arrived)]
    rows = concat(there) if there else empty_block(len(plan.query.names), plan.width)
    header = {
        "keys": [key for key, _ in groups],
        "rejects": [one.rejects for one in each],
        "scores": {k: to_plain(one.scores) for k, one in enumerate(each) if one.scores},
    }
    arrays = to_arrays(rows, plan.signs) | {
        "numbers": np.array([[getattr(one, name) for name in NUMBERS] for one in each], np.int64),
        "lengths": np.array([_lengths(one) for one in each], np.int64),
    }
    cells = [(bucket, cell) for one in each for bucket, cell in one.heard.items()]
    arrays |= time_buckets.columns([bucket for bucket, _ in cells], [cell for _, cell in cells])
    events = joined_revisions([one.revisions for one in each])
    return pack(header, arrays | revisions_to_arrays(events, plan.id, _REVISIONS))


def _lengths(one: GroupRows) -> tuple[int, int, int]:
    revised = 0 if one.revisions is None else len(one.revisions.id)
    return len(one.rows.arrived), len(one.heard), revised


def unpack_groups(plan: Plan, packed: bytes) -> list[tuple[KeyText, GroupRows]]:
    """The inverse of `pack_groups`."""
    header, arrays = unpack(packed, _GROUPS)
    with whole(_GROUPS):
        return _unpacked(plan, header, arrays)


def _unpacked(plan: Plan, header: dict[str, Any], arrays: Arrays) -> list[tuple[KeyText, GroupRows]]:
    every = from_arrays(arrays, plan.signs, plan.width)
    rows, heard, revised = (_cuts(each) for each in arrays["lengths"].T)
    cells = time_buckets.cells_of(arrays)
    events = revisions_from_arrays(arrays, _REVISIONS)
    out = []
    counted = NUMBERS[: arrays["numbers"].shape[1]]  # earlier versions had fewer
    for k, (key, numbers) in enumerate(zip(header["keys"], arrays["numbers"].tolist(), strict=True)):
        of_group: dict[float, BucketStatistics] = dict(cells[slice(*heard[k])])
        one = GroupRows(
            every.between(*rows[k]), of_group, **dict(zip(counted, numbers, strict=True)),
            rejects=[RejectedRow(*each) for each in header["rejects"][k]],
            scores=from_plain(header["scores"][str(k)]) if str(k) in header["scores"] else {},
            revisions=None if events is None or revised[k][0] == revised[k][1] else events.part(slice(*revised[k])),
        )  # fmt: skip
        out.append((key, one))
    return out


def _cuts(lengths: Ints) -> list[tuple[int, int]]:
    """Where each of the parts, one after the other, begins and ends."""
    return list(pairwise([0, *np.cumsum(lengths).tolist()]))


def pack_bucket(plan: Plan, bucket: BucketRows) -> bytes:
    """Rows for a bucket of sensors as one bytes object."""
    header = {"rejected": [list(each) for each in bucket.rejects], "keys": bucket.groups, "sensors": bucket.sensors}
    if bucket.rows is None:
        return pack(header, {})
    arrays = to_arrays(bucket.rows, plan.signs)
    arrays |= {"sensor": bucket.sensor.astype(np.int32), "group": bucket.group.astype(np.int32)}
    if bucket.outside is not None:
        arrays["outside"] = bucket.outside
    return pack(header, arrays)


def unpack_bucket(plan: Plan, packed: bytes) -> BucketRows:
    """The inverse of `pack_bucket`."""
    header, arrays = unpack(packed, _BUCKET)
    with whole(_BUCKET):
        rejects = [
            GroupRejects(key, [RejectedRow(*each) for each in rows], outside)
            for key, rows, outside in header["rejected"]
        ]
        if "raw" not in arrays:
            none = np.empty(0, np.int64)
            return BucketRows(None, header["keys"], none, header["sensors"], none, None, rejects)
        rows = from_arrays(arrays, plan.signs, 0)
        return BucketRows(
            rows, header["keys"], arrays["group"], header["sensors"], arrays["sensor"], arrays.get("outside"), rejects
        )
