"""Which ids were heard when, in a group?

Time is cut into *stretches* of one length, numbered floor(t / length). Of each stretch are known the least and the
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


class Cell(NamedTuple):
    """What is known of one stretch of a group's time."""

    least: float
    greatest: float
    rows: int
    ids: Words  # the least hashes of the ids, ascending

    def join(self, other: Cell) -> Cell:
        """Both together."""
        ids = merged(self.ids, other.ids, KEPT) if len(self.ids) or len(other.ids) else NO_IDS
        return Cell(min(self.least, other.least), max(self.greatest, other.greatest), self.rows + other.rows, ids)

    @property
    def several_instants(self) -> bool:
        """Whether its rows came at different instants."""
        return self.least < self.greatest


Heard = Mapping[float, Cell]  # by stretch


def count_ids(ids: Words) -> int:
    """How many different ids have left this sketch: exact below its size, estimated from there on."""
    if len(ids) < KEPT:
        return len(ids)
    return max(KEPT, round((KEPT - 1) * 2.0**64 / (float(ids[-1]) + 1.0)))


def joined(parts: Iterable[Heard]) -> dict[float, Cell]:
    """What all parts together have heard."""
    out: dict[float, Cell] = {}
    for part in parts:
        for stretch, cell in part.items():
            out[stretch] = out[stretch].join(cell) if stretch in out else cell
    return out


def stretches(times: Floats, length: float) -> Floats:
    """(n,) the stretches of these instants: whole numbers, as floats. 0 for all where there is no length."""
    if length == math.inf:
        return np.zeros(len(times))
    with np.errstate(over="ignore"):
        found: Floats = np.clip(np.floor(times / length), -FARTHEST, FARTHEST)
    return found


def to_arrays(heard: Heard) -> Arrays:
    """As flat arrays."""
    return columns(list(heard), list(heard.values()))


def columns(stretch: Sequence[float], cells: Sequence[Cell]) -> Arrays:
    """Cells, and the stretches that they are of, as flat arrays; none where there are none."""
    if not cells:
        return {}
    times = [[s, cell.least, cell.greatest] for s, cell in zip(stretch, cells, strict=True)]
    return {
        f"{PREFIX}times": np.array(times),
        f"{PREFIX}sizes": np.array([[cell.rows, len(cell.ids)] for cell in cells], np.int64),
        f"{PREFIX}ids": np.concatenate([cell.ids for cell in cells]).astype(np.uint64),
    }


def from_arrays(arrays: Arrays) -> dict[float, Cell]:
    """The inverse of `to_arrays`, among other arrays."""
    return dict(cells_of(arrays))


def cells_of(arrays: Arrays) -> list[tuple[float, Cell]]:
    """The inverse of `columns`, among other arrays."""
    if f"{PREFIX}times" not in arrays:
        return []
    times, sizes, ids = (arrays[f"{PREFIX}{name}"] for name in ("times", "sizes", "ids"))
    cuts = pairwise([0, *np.cumsum(sizes[:, 1]).tolist()])
    found = zip(times.tolist(), sizes[:, 0].tolist(), cuts, strict=True)
    return [(s, Cell(least, greatest, rows, ids[a:b])) for (s, least, greatest), rows, (a, b) in found]


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


# --- ground ---
# How far have the ids of a group come together?
#
# The *ground* of a group is a stretch of its time (`heard`). It begins with the earliest stretch heard, and moves on
#
# - to the next stretch, when two different ids have been heard in it (one, where the ground and the stretch before it
#   know of one id only);
# - by a *jump*, to the first later stretch such that in it and the next one rows of at least a tenth of the ids of
#   the
#   ground and the stretch before it, and of two at least, have come at two different instants. Where those know of
# one id
#   only, that id may jump alone; another one that is alone, too, if it is heard in three stretches in a row.
#
# Some groups have rows at single instants farther apart than stretches are long. So where the ground and the stretch
# before it show one instant only, a jump may rest on the eight stretches that were heard from its own on; or on one
# instant, if half of the ids have come, and two at least.
#
# So one bad row, or one bad id however many rows it sends, does not move the ground by more than a stretch, and a
# time
# that many ids show by mistake does not either. After a silence the ground goes on as soon as a few ids are back.

MANY = 8  # stretches with rows that a jump may rest on, where rows come far apart


def moved(ground: float, heard: Heard) -> float:
    """Where the ground is, after this was heard. It never moves back."""
    order = sorted(heard)
    while (then := _after(ground, heard, order)) is not None:
        ground = then
    return ground


def _after(ground: float, heard: Heard, order: list[float]) -> float | None:
    """The next ground; None: it stays. `order`: the stretches, ascending."""
    coming = heard.get(ground + 1)
    if coming is not None and len(coming.ids) > 1:
        return ground + 1
    near = _join([heard[s] for s in (ground - 1, ground) if s in heard])
    if coming is not None and len(near.ids) <= 1:
        return ground + 1
    for at in range(bisect_right(order, ground), len(order)):
        if _may_jump(order[at : at + MANY], heard, near):
            return order[at]
    return None


def _may_jump(stretches: list[float], heard: Heard, near: Cell) -> bool:
    """May the ground jump to the first of these stretches, which were heard one after the other?"""
    s, *_ = stretches
    known = count_ids(near.ids)
    few = max(2, -(-known // 10)) if known > 1 else 1
    seen = [[k for k in (s, s + 1) if k in heard], *([] if near.several_instants else [stretches])]
    for some in seen:
        if sum(len(heard[k].ids) for k in some) >= few and _come(_join([heard[k] for k in some]), few, near):
            return True
    if known > 1:
        return not near.several_instants and count_ids(heard[s].ids) >= max(2, -(-known // 2))
    return s + 1 in heard and s + 2 in heard


def _come(cell: Cell, few: int, near: Cell) -> bool:
    """Have so many ids come, at two instants? One is enough if it is the one that is known."""
    count = count_ids(cell.ids)
    return cell.several_instants and (count >= max(2, few) or (few == 1 and np.array_equal(cell.ids, near.ids)))


def _join(cells: list[Cell]) -> Cell:
    first, *others = cells
    for each in others:
        first = first.join(each)
    return first


# --- hearing ---
# What has one chunk heard of its groups, and which of its rows run ahead of the others?
#
# Rows are numbered by *cells*, a group's stretches of time (`heard`). What the chunk alone shows of a group's ground
# is
# enough to know which rows are better not dropped, since they may be held; where a group really stands, its state
# knows.


class Hearing:
    """Collects what one chunk has heard of its groups. `length` of a stretch; inf: time is not cut, no id counts."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.numbers: dict[tuple[int, float], int] = {}  # (group, stretch) -> cell
        self.cells: list[Cell] = []
        self.of_group: dict[int, dict[float, int]] = {}  # group -> stretch -> cell
        self.grounds: dict[int, float] = {}  # group -> its ground, as far as this chunk shows it

    def hear(self, group: Ints, arrived: Floats, ids: Words | None) -> Ints:
        """(n,) the cells of these rows, numbered in the chunk; `ids`: hashes."""
        if self.length == math.inf:
            return self._hear_newest(group, arrived)
        cell, of, stretch, least, greatest, rows = find_buckets(group, arrived, self.length)
        hashes, size = sketch(cell, len(of), ids)
        plain = zip(*(each.tolist() for each in (of, stretch, least, greatest, rows, size)), strict=True)
        places = [
            self._add(g, s, Cell(low, high, count, hashes[k, :m].copy()))
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
            places[g] = self._add(g, 0.0, Cell(last[g], last[g], int(count[g]), NO_IDS))
        return places[group]

    def _add(self, group: int, stretch: float, cell: Cell) -> int:
        place = self.numbers.setdefault((group, stretch), len(self.cells))
        if place == len(self.cells):
            self.cells.append(cell)
            self.of_group.setdefault(group, {})[stretch] = place
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
                self.grounds[group] = moved(self.grounds.get(group, min(heard)), heard)
                for stretch, place in places.items():
                    reached[place] = stretch <= self.grounds[group] + 1
        return None if reached.all() else reached[cell]

    def groups(self) -> Ints:
        """(cells,) the group of each cell."""
        return np.array([group for group, _ in self.numbers], np.int64)

    def greatest(self) -> Floats:
        """(cells,) the greatest time of each."""
        return np.array([cell.greatest for cell in self.cells])

    def heard(self, group: int) -> dict[float, Cell]:
        """What was heard of a group."""
        return {stretch: self.cells[place] for stretch, place in self.of_group.get(group, {}).items()}
