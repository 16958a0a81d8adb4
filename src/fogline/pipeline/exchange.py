"""What do stages hand to each other?

`RowsByGroup`: what one chunk of a partition has for its groups, that is decoded rows, what they revise, counters and
rejects; of one group, `GroupRows`. Before it, where sensors are remembered, `BucketRows`: what the chunk has for one
bucket of sensors. Stages hand objects over; only an engine that carries bytes packs them, in one codec, at the end of
this file.

A `RowBlock` is rows in numbers, with the columns that name them. It is packed as flat arrays and opened as it was: no
stage decodes a row again. Beside the numbers go only columns that numbers cannot stand for (ids, groups, times as they
came, determinants, attributes that did not come as plain numbers), so that a reject can still show the row as it came.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from fogline.engine.slots import ranges
from fogline.impute.scores import Sums, add, from_plain, to_plain
from fogline.kernels.uncertain import dense
from fogline.pipeline.plan import Plan
from fogline.pipeline.rejects import RejectedRow
from fogline.pipeline.time_buckets import NO_BUCKETS, BucketColumns, TimeBuckets, end_to_end
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


@dataclass(frozen=True, slots=True)
class RowsByGroup:
    """What one chunk of a partition has for many groups, in columns: the rows of one group after those of another.

    So no object is made for each group on the way to its shard. Looked at one by one, each group is a `GroupRows`.
    """

    keys: list[KeyText]
    rows: RowBlock  # pools of distributions lie in the order of the rows
    lengths: Ints  # (groups, 3) how many rows, time buckets and revisions each has
    numbers: Ints  # (groups, NUMBERS)
    heard: BucketColumns  # of the rows that were not rejected, screened ones included
    revisions: Revisions | None = None
    rejects: Mapping[int, list[RejectedRow]] = field(default_factory=dict)  # of groups that have any, by their place
    scores: Mapping[int, Sums] = field(default_factory=dict)  # likewise
    pairs: Mapping[int, Sequence[HeardPair]] = field(default_factory=dict)  # likewise
    reached: float = -math.inf  # the instant that the chunk's ids have reached together

    @classmethod
    def of(cls, plan: Plan, groups: Sequence[tuple[KeyText, GroupRows]]) -> RowsByGroup:
        """The rows of these groups."""
        each = [one for _, one in groups]
        there = [one.rows for one in each if len(one.rows.arrived)]
        return cls(
            [key for key, _ in groups],
            concat(there) if there else empty_block(len(plan.query.names), plan.width),
            np.array([_lengths(one) for one in each], np.int64).reshape(-1, 3),
            np.array([[getattr(one, name) for name in NUMBERS] for one in each], np.int64).reshape(-1, len(NUMBERS)),
            BucketColumns.of(one.heard for one in each),
            joined_revisions([one.revisions for one in each]),
            {k: one.rejects for k, one in enumerate(each) if one.rejects},
            {k: one.scores for k, one in enumerate(each) if one.scores},
            {k: one.pairs for k, one in enumerate(each) if one.pairs},
            max((one.reached for one in each), default=-math.inf),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[KeyText, GroupRows]]:
        return ((key, self.group(k)) for k, key in enumerate(self.keys))

    def group(self, k: int) -> GroupRows:
        """The rows of one group."""
        rows, heard, revised = self.lengths[:k].sum(axis=0).tolist()
        n, buckets, events = self.lengths[k].tolist()
        revisions = self.revisions.part(slice(revised, revised + events)) if self.revisions and events else None
        return GroupRows(
            self.rows.between(rows, rows + n),
            self.heard.by_bucket(heard, heard + buckets),
            **dict(zip(NUMBERS, self.numbers[k].tolist(), strict=True)),
            rejects=list(self.rejects.get(k, ())),
            scores=self.scores.get(k, {}),
            reached=self.reached,
            revisions=revisions,
            pairs=tuple(self.pairs.get(k, ())),
        )  # fmt: skip

    def part(self, which: Ints) -> RowsByGroup:
        """Some of the groups, in ascending order."""
        if len(which) == len(self.keys):
            return self
        begin = np.cumsum(self.lengths, axis=0) - self.lengths
        rows, heard, revised = (ranges(begin[which, j], self.lengths[which, j]) for j in range(3))
        block = self.rows.part(rows) if len(rows) else self.rows.part(slice(0, 0))
        if len(block.uncertain.value):
            block = block._replace(uncertain=dense(block.uncertain, np.arange(len(rows))))
        place = dict(zip(which.tolist(), range(len(which)), strict=True))
        rejects = {place[k]: each for k, each in self.rejects.items() if k in place}
        scores = {place[k]: each for k, each in self.scores.items() if k in place}
        pairs = {place[k]: each for k, each in self.pairs.items() if k in place}
        revisions = self.revisions.part(revised) if self.revisions is not None and len(revised) else None
        keys, heard_then = [self.keys[k] for k in which.tolist()], self.heard.part(heard)
        lengths, numbers = self.lengths[which], self.numbers[which]
        return RowsByGroup(keys, block, lengths, numbers, heard_then, revisions, rejects, scores, pairs, self.reached)

    def with_revisions(self, events: Mapping[KeyText, Revisions | None]) -> RowsByGroup:
        """The same with these revisions."""
        each = [events.get(key) for key in self.keys]
        lengths = self.lengths.copy()
        lengths[:, 2] = [0 if one is None else len(one.id) for one in each]
        return replace(self, lengths=lengths, revisions=joined_revisions(each))


class ArrivedRows(Mapping[KeyText, list[GroupRows]]):
    """What has come for the groups of a shard in one batch, chunk after chunk; by their keys, one by one."""

    def __init__(self, chunks: Iterable[RowsByGroup] = ()) -> None:
        self.chunks = list(chunks)
        self.places = dict[KeyText, list[tuple[int, int]]]()  # in which chunks, and where there
        for c, chunk in enumerate(self.chunks):
            for k, key in enumerate(chunk.keys):
                self.places.setdefault(key, []).append((c, k))

    def __getitem__(self, key: KeyText) -> list[GroupRows]:
        return [self.chunks[c].group(k) for c, k in self.places[key]]

    def __iter__(self) -> Iterator[KeyText]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def pairs(self) -> dict[KeyText, list[HeardPair]]:
        """The pairs of groups that have any."""
        found: dict[KeyText, list[HeardPair]] = {}
        for chunk in self.chunks:
            for k, some in chunk.pairs.items():
                found.setdefault(chunk.keys[k], []).extend(some)
        return found

    def together(self, keys: Sequence[KeyText]) -> MergedRows:
        """What has come for these groups, of all chunks together, in columns."""
        place = {key: k for k, key in enumerate(keys)}
        found = []
        for chunk in self.chunks:
            to = np.array([place.get(key, -1) for key in chunk.keys], np.int64)
            if len(there := np.flatnonzero(to >= 0)):
                found.append((chunk.part(there), to[there]))
        numbers, apart = np.zeros((len(keys), len(NUMBERS)), np.int64), np.zeros(len(keys), np.bool_)
        scores: dict[int, Sums] = {}
        for chunk, to in found:
            np.add.at(numbers, to, chunk.numbers)
            apart[to[chunk.lengths[:, 2] > 0]] = True
            apart[to[list(chunk.rejects)]] = True
            for k, some in chunk.scores.items():
                add(scores.setdefault(int(to[k]), {}), some)
        blocks = [(chunk.rows, np.repeat(to, chunk.lengths[:, 0])) for chunk, to in found if len(chunk.rows.arrived)]
        group = np.concatenate([np.empty(0, np.int64), *(of for _, of in blocks)])
        of_bucket = np.concatenate([np.empty(0, np.int64), *(np.repeat(to, one.lengths[:, 1]) for one, to in found)])
        heard = end_to_end([NO_BUCKETS, *(chunk.heard for chunk, _ in found)])
        rows = concat([block for block, _ in blocks]) if blocks else None
        if rows is not None and np.any(group[1:] < group[:-1]):
            order = np.argsort(group, kind="stable")
            rows, group = rows.part(order), group[order]
        return MergedRows(rows, group, heard, of_bucket, numbers, scores, apart)


class MergedRows(NamedTuple):
    """What has come for some groups, of all chunks together."""

    rows: RowBlock | None  # of one group after those of another; None: there are none
    group: Ints  # (n,) whose each row is
    heard: BucketColumns  # a time bucket may be there several times
    of_bucket: Ints  # whose each bucket is
    numbers: Ints  # (groups, NUMBERS)
    scores: dict[int, Sums]
    apart: Flags  # (groups,) which have rejects or revisions: these are looked at one by one


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
# An engine hands values to a stateful operator one by one, so many rows had better be one value. What is packed are
# columns of many groups: packing and opening cost about as much for a thousand groups as for one.

_GROUPS, _BUCKET = "value of rows by group", "value of rows for a bucket of sensors"


def pack_groups(plan: Plan, groups: RowsByGroup) -> bytes:
    """Rows of groups as one bytes object. What is known of a chunk (`reached`, `pairs`) does not travel."""
    header = {
        "keys": groups.keys,
        "rejects": [groups.rejects.get(k, ()) for k in range(len(groups))],
        "scores": {k: to_plain(each) for k, each in groups.scores.items()},
    }
    arrays = to_arrays(groups.rows, plan.signs) | {"numbers": groups.numbers, "lengths": groups.lengths}
    arrays |= groups.heard.to_arrays() | revisions_to_arrays(groups.revisions, plan.id, _REVISIONS)
    return pack(header, arrays)


def _lengths(one: GroupRows) -> tuple[int, int, int]:
    revised = 0 if one.revisions is None else len(one.revisions.id)
    return len(one.rows.arrived), len(one.heard), revised


def unpack_groups(plan: Plan, packed: bytes) -> RowsByGroup:
    """The inverse of `pack_groups`."""
    header, arrays = unpack(packed, _GROUPS)
    with whole(_GROUPS):
        return _unpacked(plan, header, arrays)


def _unpacked(plan: Plan, header: dict[str, Any], arrays: Arrays) -> RowsByGroup:
    keys, lengths, known = header["keys"], arrays["lengths"], arrays["numbers"]
    rows, heard = from_arrays(arrays, plan.signs, plan.width), BucketColumns.from_arrays(arrays)
    events = revisions_from_arrays(arrays, _REVISIONS)
    numbers = np.zeros((len(keys), len(NUMBERS)), np.int64)
    numbers[:, : known.shape[1]] = known  # the kept example of an earlier version has fewer
    assert len(keys) == len(known) == len(header["rejects"])
    assert lengths.shape == (len(keys), 3)
    assert lengths.min(initial=0) >= 0
    there = len(rows.arrived), len(heard.times), 0 if events is None else len(events.id)
    assert lengths.sum(axis=0).tolist() == list(there)
    rejects = {k: [RejectedRow(*each) for each in some] for k, some in enumerate(header["rejects"]) if some}
    scores = {int(k): from_plain(each) for k, each in header["scores"].items()}
    return RowsByGroup(keys, rows, lengths, numbers, heard, events, rejects, scores)


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
