"""What of a chunk of the stream can ever matter to the answer?

Decoded rows get rough bounds for what they lack and are compared with each other: what is surely beaten for all of its
life, or from some instant on, need not travel (see `kernels/cover.py`). What is left gets its exact bounds and is
packed, one parcel per group and chunk. No state, no order, no clock: any cut of the stream into chunks will do.

Each row ends up in exactly one place: in the rows of a parcel, in its rejects, or among its `screened`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fogline.arrays import VAGUE, Floats, Ints
from fogline.flow.block import RowBlock, concat, empty_block
from fogline.flow.heard import Heard, hash_ids
from fogline.flow.hearing import Hearing
from fogline.flow.parcel import Parcel
from fogline.flow.piece import Piece
from fogline.flow.plan import Plan
from fogline.flow.rejects import as_json
from fogline.flow.watermark import together
from fogline.impute.imputer import Evidence
from fogline.impute.intake import Looked, bounded, look, unable
from fogline.impute.scoring import MOST, Scorer, Sums, add, chosen
from fogline.kernels.batches import repeats
from fogline.kernels.cover import matter
from fogline.rows.keys import Key
from fogline.skyline.duplicates import DUPLICATE

FINAL = 40_000  # more survivors of slices than this are not compared again


@dataclass(slots=True)
class GroupCounts:
    """What is counted of one group in one chunk."""

    rows: int = 0
    outside_limits: int = 0
    incomplete: int = 0
    rejects: list[tuple[str, str]] = field(default_factory=list)  # row as JSON, reason
    scores: Sums = field(default_factory=dict)


class Survivors(NamedTuple):
    """Rows that can matter, and in which cell of the chunk: a group's stretch of time, see `heard`."""

    cell: Ints  # (n,)
    rows: RowBlock  # their expiry: when they expire, or others take over

    def part(self, which: Ints, until: Floats) -> Survivors:
        """Some of them, until these instants."""
        return Survivors(self.cell[which], self.rows.part(which)._replace(expires=until))


class Screening:
    """Collects one chunk: `take` pieces, then `pack`."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.query, self.chain = plan, plan.query, plan.chain
        scored = self.chain is not None and plan.repository is not None and plan.imputer is None
        self.scorer = Scorer(self.chain) if scored and self.chain is not None else None
        self.at_end = plan.every == "batch" and plan.lateness == 0  # all of the chunk will be there when it counts
        self._clear()

    def _clear(self) -> None:
        self.groups: dict[Key, int] = {}
        self.counts: list[GroupCounts] = []
        self.survivors: list[Survivors] = []
        self.hearing = Hearing(self.plan.ahead)
        self.reached = -math.inf  # the instant that ids have reached together
        self.size = 0

    def take(self, piece: Piece, context: Floats | None = None) -> None:
        """Refuse what cannot be taken, and keep what can matter. `context`: (n, w) what sensors have read before."""
        rows, group = piece.rows, self._number(piece.keys)[piece.group]
        standing = rows.arrived.copy()
        standing[list(rows.refused)] = np.nan  # a row that is refused is no row that another could repeat
        for i in repeats(piece.group, piece.name, standing).tolist():
            rows.refused.setdefault(i, DUPLICATE)
        if self.scorer is not None:
            self._score(piece, group, context)
        which, looked = self._bounds(piece, context)
        self._count(piece, group, which, looked.lacking)
        every = slice(None) if which is None else which
        cell = self._hear(piece, group[every], rows.arrived[every], which)
        kept, until = self._matter(cell, rows.arrived[every], rows.expires[every], looked)
        taken = piece.block.part(kept if which is None else which[kept])._replace(expires=until)
        left, found = Survivors(cell[kept], taken), looked.part(kept)
        self.survivors.append(left._replace(rows=left.rows._replace(clouds=found.clouds, known=found.of_all())))
        self.size += len(group)

    def add_rejects(self, key: Key, rejects: list[tuple[str, str]], outside_limits: int) -> None:
        """Count rows that were refused before they came here."""
        counts = self.counts[int(self._number([key])[0])]
        counts.rejects += rejects
        counts.rows += len(rejects)
        counts.outside_limits += outside_limits

    def pack(self) -> list[tuple[Key, Parcel]]:
        """One parcel per group; then the next chunk begins."""
        left = self._compared(self._left())
        group = self.hearing.groups()[left.cell]
        if len(self.groups) > 1:
            order = np.argsort(group, kind="stable")
            group, left = group[order], left.part(order, left.rows.expires[order])
        block = left.rows
        cuts = np.searchsorted(group, np.arange(len(self.groups) + 1)).tolist()
        parcels = []
        for key, k in self.groups.items():
            part = block if len(self.groups) == 1 else block.part(np.arange(cuts[k], cuts[k + 1]))
            parcels.append((key, _parcel(self.counts[k], self.hearing.heard(k), part, self.reached)))
        self._clear()
        return parcels

    def _compared(self, left: Survivors) -> Survivors:
        """The survivors with exact bounds; where those are narrower than the rough ones, compared once more."""
        exact = self._exact(left.rows)
        if exact is left.rows or np.array_equal(exact.clouds.hi, left.rows.clouds.hi):
            return left._replace(rows=exact)
        looked = Looked(exact.clouds, np.empty(0, np.int64), np.empty((0, 0)))
        again = left._replace(rows=exact)
        return again.part(*self._matter(left.cell, exact.arrived, exact.expires, looked))

    def _left(self) -> Survivors:
        """All survivors of the chunk, compared once more."""
        if not self.survivors:
            return Survivors(np.empty(0, np.int64), empty_block(len(self.query.names), self.plan.width))
        cell = np.concatenate([each.cell for each in self.survivors])
        rows = concat([each.rows for each in self.survivors])
        left = Survivors(cell, rows)
        if len(self.survivors) > 1 and len(cell) <= FINAL:
            looked = Looked(rows.clouds, np.empty(0, np.int64), np.empty((0, 0)))
            left = left.part(*self._matter(cell, rows.arrived, rows.expires, looked))
        return left

    def _number(self, keys: list[Key]) -> Ints:
        """(k,) the numbers of these groups in the chunk."""
        for key in keys:
            if key not in self.groups:
                self.groups[key] = len(self.groups)
                self.counts.append(GroupCounts())
        return np.array([self.groups[key] for key in keys], np.int64)

    def _bounds(self, piece: Piece, context: Floats | None) -> tuple[Ints | None, Looked]:
        """Which rows can be taken (None: all), and these with rough bounds for what they lack."""
        rows, chain, which = piece.rows, self.chain, piece.rows.left()
        if chain is None:
            clouds = rows.clouds if which is None else rows.clouds.part(which)
            lacking = np.flatnonzero(np.isnan(clouds.lo).any(axis=1)) if rows.gaps else np.empty(0, np.int64)
            looked = Looked(clouds, lacking, np.empty((len(lacking), 0)))
        else:
            near = context if context is None or which is None else context[which]
            looked = look(chain, rows, which, near, rows.refused, at_once=piece.whole)
            looked = looked._replace(clouds=bounded(chain, looked, rough=True))
        for k, reason in unable(looked.clouds, looked, self.query.names, self.plan.repository is not None).items():
            rows.refused.setdefault(k if which is None else int(which[k]), reason)
        left = rows.left()
        if left is not None and len(left) < len(looked.clouds.lo):
            looked = looked.part(left if which is None else np.searchsorted(which, left))
        return left, looked

    def _hear(self, piece: Piece, group: Ints, arrived: Floats, which: Ints | None) -> Ints:
        """(n,) the cells of the rows that are left. Only rows of one cell are compared: all of it is held, or none.

        `which`: the rows that are left; None: all.
        """
        plan, ids = self.plan, None
        if plan.ahead < math.inf or plan.idle is not None:
            column = piece.block.columns.column(self.query.id)
            ids = hash_ids(column) if which is None else hash_ids(column)[which]
        cell = self.hearing.hear(group, arrived, ids)
        if plan.idle is not None and plan.moves_idle and ids is not None:
            self.reached = max(self.reached, together(group, ids, arrived, self.hearing.near(cell)))
        return cell

    def _matter(self, cell: Ints, arrived: Floats, expires: Floats, looked: Looked) -> tuple[Ints, Floats]:
        """Which rows can matter, if only for a while, and until when each can.

        Rows that run ahead of the others all stay: if they are held, each is reported.
        """
        near = self.hearing.near(cell)
        if near is None or near.all():
            return self._comparable(cell, arrived, expires, looked)
        which, far = np.flatnonzero(near), np.flatnonzero(~near)
        kept, until = self._comparable(cell[which], arrived[which], expires[which], looked.part(which))
        both, ends = np.concatenate((which[kept], far)), np.concatenate((until, expires[far]))
        order = np.argsort(both)
        return both[order], ends[order]

    def _comparable(self, cell: Ints, arrived: Floats, expires: Floats, looked: Looked) -> tuple[Ints, Floats]:
        if self.query.last is not None:
            kept = self._newest(cell, arrived) if self.at_end else np.arange(len(cell))
            return kept, expires[kept]
        lo, hi = looked.clouds.lo, looked.clouds.hi
        if not self.at_end:
            return matter(cell, lo, hi, arrived, expires)
        # What has expired by the end, or is beaten then, never counts.
        alive = expires > self.hearing.greatest()[cell]
        if alive.all():
            return matter(cell, lo, hi, np.zeros(len(cell)), expires)
        which = np.flatnonzero(alive)
        kept, until = matter(cell[which], lo[which], hi[which], np.zeros(len(which)), expires[which])
        return which[kept], until

    def _newest(self, cell: Ints, arrived: Floats) -> Ints:
        """The newest `last` rows of each cell, and those that arrived with the last of them."""
        assert self.query.last is not None
        cells = len(self.hearing.cells)
        order = np.lexsort((-arrived, cell))
        begin = np.searchsorted(cell[order], np.arange(cells))
        rank = np.arange(len(order)) - begin[cell[order]]
        edge = np.full(cells, -np.inf)
        at = order[rank == self.query.last - 1]
        edge[cell[at]] = arrived[at]
        return np.flatnonzero(arrived >= edge[cell])

    def _exact(self, rows: RowBlock) -> RowBlock:
        """Bounds that are the ends of the distributions, for the few rows that are left."""
        gaps = rows.clouds.start == VAGUE
        which = np.flatnonzero(gaps.any(axis=1))
        if self.chain is None or not len(which):
            return rows
        exact = self.chain.bound(rows.clouds.part(which), rows.known[which], gaps[which])
        lo, hi, start = rows.clouds.lo.copy(), rows.clouds.hi.copy(), rows.clouds.start.copy()
        lo[which], hi[which], start[which] = exact.lo, exact.hi, exact.start
        return rows._replace(clouds=rows.clouds._replace(lo=lo, hi=hi, start=start))

    def _score(self, piece: Piece, group: Ints, context: Floats | None) -> None:
        """Hide a value here and there, and see how well it would have been imputed."""
        assert self.scorer is not None
        rows, chain = piece.rows, self.scorer.chain
        values = chain.values(rows.clouds, rows.raw)
        hidden, attribute = chosen(rows.arrived, values)
        taken = np.array([i not in rows.refused for i in hidden.tolist()], np.bool_)
        place, attribute = hidden[taken][:MOST], attribute[taken][:MOST]
        near = None if context is None else context[place]
        evidence = Evidence(values[place], np.isnan(rows.clouds.lo[place]), rows.source, place, near)
        for k, one in self.scorer.score(evidence, attribute):
            add(self.counts[group[place[k]]].scores, one)

    def _count(self, piece: Piece, group: Ints, which: Ints | None, lacking: Ints) -> None:
        rows, n = piece.rows, len(self.counts)
        gaps = group[lacking if which is None else which[lacking]]
        came, incomplete = np.bincount(group, minlength=n), np.bincount(gaps, minlength=n)
        outside = np.zeros(n) if rows.outside is None else np.bincount(group, rows.outside, minlength=n)
        for counts, *numbers in zip(self.counts, came, incomplete, outside, strict=True):
            counts.rows += int(numbers[0])
            counts.incomplete += int(numbers[1])
            counts.outside_limits += int(numbers[2])
        for i in sorted(rows.refused):
            self.counts[group[i]].rejects.append((as_json(piece.row(i, self.plan)), rows.refused[i]))


def _parcel(counts: GroupCounts, heard: Heard, rows: RowBlock, reached: float) -> Parcel:
    screened = counts.rows - len(counts.rejects) - len(rows.arrived)
    numbers = counts.rows, counts.outside_limits, counts.incomplete, screened
    return Parcel(rows, heard, *numbers, counts.rejects, counts.scores, reached)
