"""What has one chunk heard of its groups, and which of its rows run ahead of the others?

Rows are numbered by *cells*, a group's stretches of time (`heard`). What the chunk alone shows of a group's ground is
enough to know which rows are better not dropped, since they may be held; where a group really stands, its state knows.
"""

from __future__ import annotations

import math

import numpy as np

from fogline.arrays import Flags, Floats, Ints, Words
from fogline.flow.ground import moved
from fogline.flow.heard import NO_IDS, Cell
from fogline.kernels.heard import find_buckets, sketch
from fogline.kernels.sorting import newest


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
