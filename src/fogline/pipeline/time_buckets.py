"""Which ids were heard when, in a group?

Time is cut into *time buckets* of one length, numbered floor(t / length). Of each bucket are known the least and the
greatest time, how many rows came, and a sketch of their ids (`kernels/heard.py`). All of it is a function of the set of
rows: what several chunks have heard joins into what one chunk would have heard.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.engine.slots import ranges
from fogline.kernels.heard import FARTHEST, KEPT, find_buckets, hash_numbers, hash_texts, merged, sketch
from fogline.kernels.sorting import newest
from fogline.saved import Arrays

NO_IDS = np.empty(0, np.uint64)
PREFIX = "heard "


class BucketStatistics(NamedTuple):
    """What is known of one bucket of a group's time."""

    least: float
    greatest: float
    rows: int
    ids: Words  # the least hashes of the ids, ascending

    def join(self, other: BucketStatistics) -> BucketStatistics:
        """Both together."""
        ids = merged(self.ids, other.ids, KEPT) if len(self.ids) or len(other.ids) else NO_IDS
        return BucketStatistics(
            min(self.least, other.least), max(self.greatest, other.greatest), self.rows + other.rows, ids
        )

    @property
    def several_instants(self) -> bool:
        """Whether its rows came at different instants."""
        return self.least < self.greatest


TimeBuckets = Mapping[float, BucketStatistics]  # by bucket


def count_ids(ids: Words) -> int:
    """How many different ids have left this sketch: exact below its size, estimated from there on."""
    if len(ids) < KEPT:
        return len(ids)
    return max(KEPT, round((KEPT - 1) * 2.0**64 / (float(ids[-1]) + 1.0)))


def joined(parts: Iterable[TimeBuckets]) -> dict[float, BucketStatistics]:
    """What all parts together have heard."""
    out: dict[float, BucketStatistics] = {}
    for part in parts:
        for bucket, each in part.items():
            out[bucket] = out[bucket].join(each) if bucket in out else each
    return out


def buckets_of(times: Floats, length: float) -> Floats:
    """(n,) the buckets of these instants: whole numbers, as floats. 0 for all where there is no length."""
    if length == math.inf:
        return np.zeros(len(times))
    with np.errstate(over="ignore"):
        found: Floats = np.clip(np.floor(times / length), -FARTHEST, FARTHEST)
    return found


class BucketColumns(NamedTuple):
    """Time buckets of many groups, in columns."""

    times: Floats  # (c, 3) the bucket; the least and the greatest time
    sizes: Ints  # (c, 2) rows; ids of the sketch
    ids: Words  # the sketches, one after the other

    @classmethod
    def of(cls, heard: Iterable[TimeBuckets]) -> BucketColumns:
        """The buckets of these groups, one group after the other."""
        known = [(bucket, each) for group in heard for bucket, each in group.items()]
        if not known:
            return NO_BUCKETS
        times = [[bucket, each.least, each.greatest] for bucket, each in known]
        sizes = np.array([[each.rows, len(each.ids)] for _, each in known], np.int64)
        return cls(np.array(times), sizes, np.concatenate([each.ids for _, each in known]).astype(np.uint64))

    def part(self, which: Ints) -> BucketColumns:
        """Some of the buckets."""
        size = self.sizes[:, 1]
        ids = ranges((np.cumsum(size) - size)[which], size[which])
        return BucketColumns(self.times[which], self.sizes[which], self.ids[ids])

    def by_bucket(self, begin: int = 0, end: int | None = None) -> dict[float, BucketStatistics]:
        """The buckets from `begin` to `end`, which are those of one group."""
        cuts = np.concatenate(([0], np.cumsum(self.sizes[:, 1])))
        first, last = int(cuts[begin]), int(cuts[len(self.sizes) if end is None else end])
        ids, at, out = self.ids[first:last], 0, dict[float, BucketStatistics]()
        times, sizes = self.times[begin:end].tolist(), self.sizes[begin:end].tolist()
        for (bucket, least, greatest), (rows, size) in zip(times, sizes, strict=True):
            out[bucket] = BucketStatistics(least, greatest, rows, ids[at : at + size])
            at += size
        return out

    def to_arrays(self) -> Arrays:
        """As named arrays; none where there are no buckets."""
        if not len(self.times):
            return {}
        return {f"{PREFIX}times": self.times, f"{PREFIX}sizes": self.sizes, f"{PREFIX}ids": self.ids}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> BucketColumns:
        """The inverse of `to_arrays`, among other arrays."""
        if f"{PREFIX}times" not in arrays:
            return NO_BUCKETS
        found = cls(*(arrays[f"{PREFIX}{name}"] for name in ("times", "sizes", "ids")))
        assert len(found.times) == len(found.sizes)
        assert int(found.sizes[:, 1].sum()) == len(found.ids)
        return found


NO_BUCKETS = BucketColumns(np.empty((0, 3)), np.empty((0, 2), np.int64), NO_IDS)


def end_to_end(parts: Sequence[BucketColumns]) -> BucketColumns:
    """All buckets of some columns, in order."""
    return parts[0] if len(parts) == 1 else BucketColumns(*map(np.concatenate, zip(*parts, strict=True)))


def numbered(group: Ints, bucket: Floats) -> tuple[Ints, int]:
    """(c,) numbers that differ where group or bucket differs, in the order in which they first come; how many."""
    order = np.lexsort((bucket, group))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(group[order]) != 0) | (np.diff(bucket[order]) != 0)
    first = order[new]  # the earliest of those that are alike, since the order is stable
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    out = np.empty(len(order), np.int64)
    out[order] = rank[np.cumsum(new) - 1]
    return out, len(first)


def merged_buckets(number: Ints, count: int, parts: BucketColumns) -> BucketColumns:
    """`count` buckets: what the parts of each, those with its `number`, have heard together."""
    times, rows = np.empty((count, 3)), np.bincount(number, parts.sizes[:, 0], count).astype(np.int64)
    times[number, 0] = parts.times[:, 0]
    times[:, 1], times[:, 2] = np.inf, -np.inf
    np.minimum.at(times[:, 1], number, parts.times[:, 1])
    np.maximum.at(times[:, 2], number, parts.times[:, 2])
    of = np.repeat(number, parts.sizes[:, 1])
    order = np.lexsort((parts.ids, of))
    of, ids = of[order], parts.ids[order]
    new = np.ones(len(ids), np.bool_)
    new[1:] = (of[1:] != of[:-1]) | (ids[1:] != ids[:-1])
    of, ids = of[new], ids[new]
    rank = np.arange(len(of)) - np.searchsorted(of, np.arange(count))[of]
    of, ids = of[rank < KEPT], ids[rank < KEPT]
    return BucketColumns(times, np.stack((rows, np.bincount(of, minlength=count)), axis=1), ids)


def hash_ids(column: pa.Array) -> Words:
    """(n,) hashes of ids, the same in every process; of a null, any."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        each: Ints = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return hash_ids(column.dictionary)[each]
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        plain = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
        return _hash_integers(plain.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
    if pa.types.is_temporal(kind):
        return hash_ids(column.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    if pa.types.is_floating(kind):
        numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return _hash_integers((numbers + 0.0).view(np.int64))
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if wide or pa.types.is_string(kind) or pa.types.is_binary(kind):
        _, ends, letters = column.buffers()
        if ends is None or letters is None or not len(column):
            return np.zeros(len(column), np.uint64)
        places = np.frombuffer(ends, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
        found: Words = hash_texts(places, np.frombuffer(letters, np.uint8))
        return found
    return hash_ids(pa.array([str(each) for each in column.to_pylist()], pa.string()))


def _hash_integers(values: Any) -> Words:
    found: Words = hash_numbers(values)
    return found


# --- The frontier of a group ------------------------------------------------------------------------------------------
#
# How far have the ids of a group come together?
#
# The *frontier* of a group is one of its time buckets. It begins with the earliest bucket heard, and moves on
#
# - to the next bucket, when two different ids have been heard in it (one, where the frontier and the bucket before it
#   know of one id only);
# - by a *jump*, to the first later bucket such that in it and the next one rows of at least a tenth of the ids of the
#   frontier and the bucket before it, and of two at least, have come at two different instants. Where those know of one
#   id only, that id may jump alone; another one that is alone, too, if it is heard in three buckets in a row.
#
# Some groups have rows at single instants farther apart than buckets are long. So where the frontier and the bucket
# before it show one instant only, a jump may rest on the eight buckets that were heard from its own on; or on one
# instant, if half of the ids have come, and two at least.
#
# So one bad row, or one bad id however many rows it sends, does not move the frontier by more than a bucket, and a time
# that many ids show by mistake does not either. After a silence the frontier goes on as soon as a few ids are back.

MANY = 8  # buckets with rows that a jump may rest on, where rows come far apart


def moved(frontier: float, heard: TimeBuckets) -> float:
    """Where the frontier is, after this was heard. It never moves back."""
    order = sorted(heard)
    while (then := _after(frontier, heard, order)) is not None:
        frontier = then
    return frontier


def _after(frontier: float, heard: TimeBuckets, order: list[float]) -> float | None:
    """The next frontier; None: it stays. `order`: the buckets, ascending."""
    coming = heard.get(frontier + 1)
    if coming is not None and len(coming.ids) > 1:
        return frontier + 1
    near = _join([heard[s] for s in (frontier - 1, frontier) if s in heard])
    if coming is not None and len(near.ids) <= 1:
        return frontier + 1
    for at in range(bisect_right(order, frontier), len(order)):
        if _may_jump(order[at : at + MANY], heard, near):
            return order[at]
    return None


def _may_jump(buckets: list[float], heard: TimeBuckets, near: BucketStatistics) -> bool:
    """May the frontier jump to the first of these buckets, which were heard one after the other?"""
    s, *_ = buckets
    known = count_ids(near.ids)
    few = max(2, -(-known // 10)) if known > 1 else 1
    seen = [[k for k in (s, s + 1) if k in heard], *([] if near.several_instants else [buckets])]
    for some in seen:
        if sum(len(heard[k].ids) for k in some) >= few and _come(_join([heard[k] for k in some]), few, near):
            return True
    if known > 1:
        return not near.several_instants and count_ids(heard[s].ids) >= max(2, -(-known // 2))
    return s + 1 in heard and s + 2 in heard


def _come(seen: BucketStatistics, few: int, near: BucketStatistics) -> bool:
    """Have so many ids come, at two instants? One is enough if it is the one that is known."""
    count = count_ids(seen.ids)
    return seen.several_instants and (count >= max(2, few) or (few == 1 and np.array_equal(seen.ids, near.ids)))


def _join(parts: list[BucketStatistics]) -> BucketStatistics:
    first, *others = parts
    for each in others:
        first = first.join(each)
    return first


# --- What one chunk has heard -----------------------------------------------------------------------------------------
#
# What has one chunk heard of its groups, and which of its rows run ahead of the others?
#
# The chunk numbers the time buckets of its groups. What it alone shows of a group's frontier is enough to know which
# rows are better not dropped, since they may be held; where a group really stands, its state knows.


class BucketCollector:
    """Collects what one chunk has heard of its groups. `length` of a bucket; inf: time is not cut, no id counts."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.group = np.empty(0, np.int64)  # of each bucket
        self.heard = NO_BUCKETS
        self.frontiers: dict[int, float] = {}  # group -> its frontier, as far as this chunk shows it

    def hear(self, group: Ints, arrived: Floats, ids: Words | None) -> Ints:
        """(n,) the buckets of these rows, numbered in the chunk; `ids`: hashes."""
        cut = self.length < math.inf
        of_row, of_bucket, heard = self._found(group, arrived, ids) if cut else self._newest(group, arrived)
        if not len(self.group):
            self.group, self.heard = of_bucket, heard
            return of_row
        both = end_to_end([self.heard, heard])
        of = np.concatenate((self.group, of_bucket))
        number, count = numbered(of, both.times[:, 0])
        known, self.heard = len(self.group), merged_buckets(number, count, both)
        self.group = np.empty(count, np.int64)
        self.group[number] = of
        return number[known:][of_row]

    def _found(self, group: Ints, arrived: Floats, ids: Words | None) -> tuple[Ints, Ints, BucketColumns]:
        """The bucket of each row, the group of each bucket, and what it has heard."""
        of_row, of_bucket, bucket, least, greatest, rows = find_buckets(group, arrived, self.length)
        hashes, size = sketch(of_row, len(of_bucket), ids)
        kept = hashes[np.arange(hashes.shape[1]) < size[:, None]]
        heard = BucketColumns(np.stack((bucket, least, greatest), axis=1), np.stack((rows, size), axis=1), kept)
        return of_row, of_bucket, heard

    def _newest(self, group: Ints, arrived: Floats) -> tuple[Ints, Ints, BucketColumns]:
        """The same, all time being one bucket, of which only the newest instant counts."""
        of_bucket, of_row = np.unique(group, return_inverse=True)
        last = newest(of_row, arrived, len(of_bucket))
        sizes = np.stack((np.bincount(of_row, minlength=len(of_bucket)), np.zeros(len(of_bucket), np.int64)), axis=1)
        return of_row, of_bucket, BucketColumns(np.stack((np.zeros(len(last)), last, last), axis=1), sizes, NO_IDS)

    def near(self, number: Ints) -> Flags | None:
        """(n,) which of these buckets their groups have reached, as far as this chunk shows it; None: all of them."""
        bucket, groups = self.heard.times[:, 0], int(self.group.max(initial=-1)) + 1
        first, last = np.full(groups, np.inf), np.full(groups, -np.inf)
        np.minimum.at(first, self.group, bucket)
        np.maximum.at(last, self.group, bucket)
        wide = np.flatnonzero(last - first > 1)
        if not len(wide):
            return None
        reached = np.ones(len(bucket), np.bool_)
        for group in wide.tolist():
            own = np.flatnonzero(self.group == group)
            heard = self.heard.part(own).by_bucket()
            self.frontiers[group] = moved(self.frontiers.get(group, min(heard)), heard)
            reached[own] = bucket[own] <= self.frontiers[group] + 1
        return None if reached.all() else reached[number]

    def by_group(self, groups: int) -> tuple[Ints, BucketColumns]:
        """How many buckets each group has, and the buckets, group after group."""
        return np.bincount(self.group, minlength=groups), self.heard.part(np.argsort(self.group, kind="stable"))
