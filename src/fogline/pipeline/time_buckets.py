"""Which ids were heard when, in a group?

Time is cut into *time buckets* of one length, numbered floor(t / length). Of each bucket are known the least and the
greatest time, how many rows came, and a sketch of their ids (`kernels/heard.py`). All of it is a function of the set of
rows: what several chunks have heard joins into what one chunk would have heard.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats, Ints, Words
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
        for bucket, cell in part.items():
            out[bucket] = out[bucket].join(cell) if bucket in out else cell
    return out


def buckets_of(times: Floats, length: float) -> Floats:
    """(n,) the buckets of these instants: whole numbers, as floats. 0 for all where there is no length."""
    if length == math.inf:
        return np.zeros(len(times))
    with np.errstate(over="ignore"):
        found: Floats = np.clip(np.floor(times / length), -FARTHEST, FARTHEST)
    return found


def to_arrays(heard: TimeBuckets) -> Arrays:
    """As flat arrays."""
    return columns(list(heard), list(heard.values()))


def columns(bucket: Sequence[float], cells: Sequence[BucketStatistics]) -> Arrays:
    """Cells, and the buckets that they are of, as flat arrays; none where there are none."""
    if not cells:
        return {}
    times = [[s, cell.least, cell.greatest] for s, cell in zip(bucket, cells, strict=True)]
    return {
        f"{PREFIX}times": np.array(times),
        f"{PREFIX}sizes": np.array([[cell.rows, len(cell.ids)] for cell in cells], np.int64),
        f"{PREFIX}ids": np.concatenate([cell.ids for cell in cells]).astype(np.uint64),
    }


def from_arrays(arrays: Arrays) -> dict[float, BucketStatistics]:
    """The inverse of `to_arrays`, among other arrays."""
    return dict(cells_of(arrays))


def cells_of(arrays: Arrays) -> list[tuple[float, BucketStatistics]]:
    """The inverse of `columns`, among other arrays."""
    if f"{PREFIX}times" not in arrays:
        return []
    times, sizes, ids = (arrays[f"{PREFIX}{name}"] for name in ("times", "sizes", "ids"))
    cuts = pairwise([0, *np.cumsum(sizes[:, 1]).tolist()])
    found = zip(times.tolist(), sizes[:, 0].tolist(), cuts, strict=True)
    return [(s, BucketStatistics(least, greatest, rows, ids[a:b])) for (s, least, greatest), rows, (a, b) in found]


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


def _come(cell: BucketStatistics, few: int, near: BucketStatistics) -> bool:
    """Have so many ids come, at two instants? One is enough if it is the one that is known."""
    count = count_ids(cell.ids)
    return cell.several_instants and (count >= max(2, few) or (few == 1 and np.array_equal(cell.ids, near.ids)))


def _join(cells: list[BucketStatistics]) -> BucketStatistics:
    first, *others = cells
    for each in others:
        first = first.join(each)
    return first


# --- What one chunk has heard -----------------------------------------------------------------------------------------
#
# What has one chunk heard of its groups, and which of its rows run ahead of the others?
#
# Rows are numbered by *cells*, a group's time buckets. What the chunk alone shows of a group's frontier is
# enough to know which rows are better not dropped, since they may be held; where a group really stands, its state
# knows.


class BucketCollector:
    """Collects what one chunk has heard of its groups. `length` of a bucket; inf: time is not cut, no id counts."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.numbers: dict[tuple[int, float], int] = {}  # (group, bucket) -> cell
        self.cells: list[BucketStatistics] = []
        self.of_group: dict[int, dict[float, int]] = {}  # group -> bucket -> cell
        self.frontiers: dict[int, float] = {}  # group -> its frontier, as far as this chunk shows it

    def hear(self, group: Ints, arrived: Floats, ids: Words | None) -> Ints:
        """(n,) the cells of these rows, numbered in the chunk; `ids`: hashes."""
        if self.length == math.inf:
            return self._hear_newest(group, arrived)
        cell, of, bucket, least, greatest, rows = find_buckets(group, arrived, self.length)
        hashes, size = sketch(cell, len(of), ids)
        plain = zip(*(each.tolist() for each in (of, bucket, least, greatest, rows, size)), strict=True)
        places = [
            self._add(g, s, BucketStatistics(low, high, count, hashes[k, :m].copy()))
            for k, (g, s, low, high, count, m) in enumerate(plain)
        ]
        numbers: Ints = np.array(places, np.int64)[cell]
        return numbers

    def _hear_newest(self, group: Ints, arrived: Floats) -> Ints:
        if not len(group):
            return group
        last, count = newest(group, arrived, int(group.max()) + 1), np.bincount(group)
        places = np.empty(len(last), np.int64)
        for g in np.flatnonzero(count).tolist():
            places[g] = self._add(g, 0.0, BucketStatistics(last[g], last[g], int(count[g]), NO_IDS))
        return places[group]

    def _add(self, group: int, bucket: float, cell: BucketStatistics) -> int:
        place = self.numbers.setdefault((group, bucket), len(self.cells))
        if place == len(self.cells):
            self.cells.append(cell)
            self.of_group.setdefault(group, {})[bucket] = place
        else:
            self.cells[place] = self.cells[place].join(cell)
        return place

    def near(self, cell: Ints) -> Flags | None:
        """(n,) which of these cells their groups have reached, as far as this chunk shows it; None: all of them."""
        if all(max(places) - min(places) <= 1 for places in self.of_group.values()):
            return None
        reached = np.ones(len(self.cells), np.bool_)
        for group, places in self.of_group.items():
            if max(places) - min(places) > 1:
                heard = self.heard(group)
                self.frontiers[group] = moved(self.frontiers.get(group, min(heard)), heard)
                for bucket, place in places.items():
                    reached[place] = bucket <= self.frontiers[group] + 1
        return None if reached.all() else reached[cell]

    def groups(self) -> Ints:
        """(cells,) the group of each cell."""
        return np.array([group for group, _ in self.numbers], np.int64)

    def greatest(self) -> Floats:
        """(cells,) the greatest time of each."""
        return np.array([cell.greatest for cell in self.cells])

    def heard(self, group: int) -> dict[float, BucketStatistics]:
        """What was heard of a group."""
        return {bucket: self.cells[place] for bucket, place in self.of_group.get(group, {}).items()}
