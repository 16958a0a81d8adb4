"""What of a chunk of the stream can ever matter to the answer?

Decoded rows get rough bounds for what they lack and are compared with others of their group and bucket of time: what
is surely beaten for all of its life need not travel (see `kernels/cover.py`). What is left gets its exact bounds and
goes to its group (`RowsByGroup`). No state, no order, no clock: any cut of the stream into chunks will do.

A row may be a copy of another one, in the state or in another chunk, and be refused where its group is. So a row that
may well be one drops no other, and is not dropped itself, so that its name is known there: of each group the rows of
the instants at which the slice or chunk begins and ends, where a tick may be cut in two; nor do late rows drop others.
Small chunks are not compared at all. What is left are rows in the midst of a large chunk: those that dropped others are
marked as `covering`, and the group does not do without them (see `engine/group.py`). Where sensors are remembered
it is known which rows are new, and these alone drop others.

Each row ends up in exactly one place: in the rows of its group, in its rejects, or among its `screened`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import BOUNDS_ONLY, Flags, Floats, Ints, UncertainRows
from fogline.impute.fill import ImputedRows, bounded, look, unfilled
from fogline.impute.protocol import Evidence
from fogline.impute.scores import Sums, add
from fogline.impute.scoring import Scorer
from fogline.kernels.cover import Lives, matter
from fogline.kernels.sorting import borders, repeats
from fogline.kernels.uncertain import dense
from fogline.pipeline.decode import DecodedRows, asked_at_once, copies_in, numbered
from fogline.pipeline.exchange import NUMBERS, RowBlock, RowsByGroup, concat, empty_block
from fogline.pipeline.latest import newest
from fogline.pipeline.plan import Plan
from fogline.pipeline.rejects import RejectedRow, rejected
from fogline.pipeline.time_buckets import BucketCollector, hash_ids
from fogline.pipeline.watermark import HeardPair, few_pairs, together
from fogline.repository.sensors.gaps import Hidden
from fogline.rows.names import DUPLICATE, KeyText, others

SMALL = 2_000  # rows of a chunk that all travel: their group takes them in a few milliseconds
FINAL = 40_000  # more survivors of slices than this are not compared again
CROWD = 5_000  # rows of one instant and group that are more than this are compared like all others


class Survivors(NamedTuple):
    """Rows that can matter, and in which time bucket of the chunk."""

    bucket: Ints  # (n,)
    rows: RowBlock
    fresh: Flags  # (n,) whether it is no copy, as far as is known
    place: Ints  # (n,) the row's number in the chunk

    def part(self, which: Ints) -> Survivors:
        """Some of them."""
        return Survivors(self.bucket[which], self.rows.part(which), self.fresh[which], self.place[which])


class Screening:
    """Collects one chunk: `take` pieces, then `pack`.

    Chunks of up to `small` rows are not compared. `imputes`: whether gaps get bounds here, and not when rows are due.
    """

    def __init__(self, plan: Plan, small: float = SMALL, *, imputes: bool = True) -> None:
        self.plan, self.query, self.chain, self.small = plan, plan.query, plan.chain if imputes else None, small
        self.imputes = imputes
        self.scorer = Scorer(self.chain) if self.chain is not None and plan.scores else None
        self.at_end = plan.at_end
        self.kept = np.empty(0, np.int64)
        self._clear()

    def _clear(self) -> None:
        self.groups: dict[KeyText, int] = {}
        self.counts = np.zeros((0, 3), np.int64)  # of each group: rows, cells outside limits, rows with gaps
        self.rejects: dict[int, list[RejectedRow]] = {}  # by group
        self.scores: dict[int, Sums] = {}
        self.pairs: dict[int, list[HeardPair]] = {}
        self.survivors: list[Survivors] = []
        self.collector = BucketCollector(self.plan.ahead)
        self.reached = -math.inf  # the instant that ids have reached together
        self.size = 0

    def take(
        self,
        piece: DecodedRows,
        context: Floats | None = None,
        fresh: Flags | None = None,
        hidden: Hidden | None = None,
        left_out: Sequence[int] = (),
    ) -> None:
        """Refuse what cannot be taken, and keep what can matter.

        `context`: (n, w) what sensors have read before; `fresh`: (n,) which rows are later than all that; `hidden`:
        which known values are hidden, where that depends on sensors; `left_out`: rows that do not matter.
        """
        if self.chain is not None and piece.whole:
            piece = asked_at_once(piece, self.plan)
        rows, group = piece.rows, self._number(piece.keys)[piece.group]
        which, looked = self._bounds(piece, context, left_out)
        if self.scorer is not None:
            self._score(piece, group, hidden)
        self._count(piece, group, which, looked.lacking)
        every = slice(None) if which is None else which
        bucket = self._hear(piece, group[every], rows.arrived[every], which)
        new = (np.ones(len(group), np.bool_) if fresh is None else fresh)[every]
        kept, covering = np.arange(len(new)), np.zeros(len(new), np.bool_)
        if len(group) > self.small and self.query.latest:
            kept = self._newest_of(bucket, piece.name[every], rows.arrived[every], piece.block.version, every)
            covering = covering[kept]
        elif len(group) > self.small:
            kept, covering = self._matter(bucket, rows.arrived[every], rows.expires[every], looked.uncertain, new)
        found = looked.part(kept)
        some = kept if which is None else which[kept]
        block = piece.block.part(some)._replace(uncertain=found.uncertain, known=found.of_all(), covering=covering)
        self.survivors.append(Survivors(bucket[kept], block, new[kept], self.size + some))
        self.size += len(group)

    def _refuse_copies(self, piece: DecodedRows) -> None:
        """Of the copies in one piece one counts, unless a later row of an id replaces the others anyway."""
        if not self.query.latest:
            piece.rows.refused.update((int(k), DUPLICATE) for k in others(copies_in(piece, self.plan)))

    def add_rejects(self, key: KeyText, rejects: list[RejectedRow], outside_limits: int) -> None:
        """Count rows that were refused before they came here."""
        [k] = self._number([key]).tolist()
        if rejects:
            self.rejects.setdefault(k, []).extend(rejects)
        self.counts[k, :2] += len(rejects), outside_limits

    def pack(self) -> RowsByGroup:
        """What is left, by groups; then the next chunk begins. `kept`: the numbers of the rows that are left."""
        left = self._compared(self._left())
        self.kept = left.place
        group, n = self.collector.group[left.bucket], len(self.groups)
        if n > 1:
            order = np.argsort(group, kind="stable")
            group, left = group[order], left.part(order)
        block = left.rows
        if len(block.uncertain.value):  # so that pools lie in the order of the rows, and nothing of dropped rows
            block = block._replace(uncertain=dense(block.uncertain, np.arange(len(block.arrived))))
        numbers, lengths = np.zeros((n, len(NUMBERS)), np.int64), np.zeros((n, 3), np.int64)
        lengths[:, 0] = np.bincount(group, minlength=n)
        lengths[:, 1], heard = self.collector.by_group(n)
        numbers[:, :3] = self.counts
        numbers[:, 3] = self.counts[:, 0] - lengths[:, 0]  # screened: neither there nor rejected
        for k, some in self.rejects.items():
            numbers[k, 3] -= len(some)
        found = RowsByGroup(
            list(self.groups), block, lengths, numbers, heard, None, self.rejects, self.scores, self.pairs, self.reached
        )
        self._clear()
        return found

    def _compared(self, left: Survivors) -> Survivors:
        """The survivors with exact bounds; where those are narrower than the rough ones, compared once more."""
        exact = left._replace(rows=self._exact(left.rows))
        if self.query.latest or np.array_equal(exact.rows.uncertain.hi, left.rows.uncertain.hi):
            return exact
        return self._again(exact)

    def _left(self) -> Survivors:
        """All survivors of the chunk, compared once more."""
        if not self.survivors:
            none = np.empty(0, np.int64)
            return Survivors(none, empty_block(len(self.query.names), self.plan.width), none.astype(np.bool_), none)
        if len(self.survivors) == 1:
            return self.survivors[0]
        bucket, fresh, place = (
            np.concatenate([getattr(each, name) for each in self.survivors]) for name in ("bucket", "fresh", "place")
        )
        left = Survivors(bucket, concat([each.rows for each in self.survivors]), fresh, place)
        name = numbered(left.rows.columns.column(self.query.id))
        if self.query.latest:
            if self.size <= self.small:
                return left
            return left.part(self._newest_of(bucket, name, left.rows.arrived, left.rows.version))
        later, first = repeats(bucket, name, left.rows.arrived)
        fresh[later] = False
        if self.query.last is None:
            fresh[first] = False  # their group decides which of the copies stays
        bound = np.concatenate([self._edge(each.bucket, each.rows.arrived) for each in self.survivors])
        done = ~bound  # those that have been compared in their slices
        return self._again(left, done if np.count_nonzero(done) > FINAL else None)

    def _edge(self, bucket: Ints, arrived: Floats) -> Flags:
        """Which rows could not go from a slice."""
        edge: Flags = borders(bucket, arrived, len(self.collector.group), CROWD)[1]
        return edge

    def _again(self, left: Survivors, done: Flags | None = None) -> Survivors:
        """What can matter of the survivors, but for those that are done."""
        if self.size <= self.small:
            return left
        rows = left.rows
        kept, covering = self._matter(left.bucket, rows.arrived, rows.expires, rows.uncertain, left.fresh, done)
        some = left.part(kept)
        return some._replace(rows=some.rows._replace(covering=some.rows.covering | covering))

    def _number(self, keys: list[KeyText]) -> Ints:
        """(k,) the numbers of these groups in the chunk."""
        for key in keys:
            if key not in self.groups:
                self.groups[key] = len(self.groups)
        if more := len(self.groups) - len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros((more, 3), np.int64)))
        return np.array([self.groups[key] for key in keys], np.int64)

    def _bounds(
        self, piece: DecodedRows, context: Floats | None, left_out: Sequence[int]
    ) -> tuple[Ints | None, ImputedRows]:
        """Which rows can be taken (None: all), and these with rough bounds for what they lack.

        Those with a gap that nothing can fill are refused, then copies of others.
        """
        rows, chain, which = piece.rows, self.chain, piece.rows.left()
        if not self.imputes:  # copies, too, wait for the moment they are due
            uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
            return which, ImputedRows(uncertain, np.empty(0, np.int64), np.empty((0, self.plan.width)))
        near = context if context is None or which is None else context[which]
        looked = bounded(chain, look(chain, rows, which, near, at_once=False), rough=True)
        raw = rows.raw if which is None else rows.raw[which]
        for k, reason in unfilled(looked, raw, self.query, self.plan.repository).items():
            rows.refused.setdefault(k if which is None else int(which[k]), reason)
        self._refuse_copies(piece)
        left = rows.left()
        if left_out:
            left = np.setdiff1d(np.arange(len(rows.arrived)) if left is None else left, left_out)
        if left is not None and len(left) < len(looked.uncertain.lo):
            looked = looked.part(left if which is None else np.searchsorted(which, left))
        return left, looked

    def _hear(self, piece: DecodedRows, group: Ints, arrived: Floats, which: Ints | None) -> Ints:
        """(n,) the time buckets of the rows that are left. Only rows of one are compared: all of it is held, or none.

        `which`: the rows that are left; None: all.
        """
        plan, ids = self.plan, None
        if plan.ahead < math.inf or plan.idle is not None:
            column = piece.block.columns.column(self.query.id)
            ids = hash_ids(column) if which is None else hash_ids(column)[which]
        bucket = self.collector.hear(group, arrived, ids)
        if plan.idle is not None and plan.moves_idle and ids is not None:
            self.reached = max(self.reached, together(group, ids, arrived, self.collector.near(bucket)))
            for number, pair in few_pairs(group, ids, arrived):
                self.pairs.setdefault(number, []).append(pair)
        return bucket

    def _matter(
        self,
        bucket: Ints,
        arrived: Floats,
        expires: Floats,
        uncertain: UncertainRows,
        fresh: Flags,
        done: Flags | None = None,
    ) -> tuple[Ints, Flags]:
        """Which rows can matter, if only for a while, and which of these cover others that cannot; `done`: may stay.

        Rows that run ahead of the others all stay: if they are held, each is reported.
        """
        if self.query.last is not None:
            kept = self._newest(bucket, arrived, fresh) if self.at_end else np.arange(len(bucket))
            return kept, np.zeros(len(kept), np.bool_)
        inside, edge = borders(bucket, arrived, len(self.collector.group), CROWD)
        if self.plan.remembers:
            inside = fresh
        else:
            inside &= fresh
            edge |= ~fresh
        if done is not None:
            edge |= done
        if (near := self.collector.near(bucket)) is not None:
            edge |= ~near
        if not self.at_end:
            rows = Lives(uncertain.lo, uncertain.hi, arrived, expires, inside, edge)
            return matter(bucket, rows, skyband=self.query.skyband)
        # What has expired by the end, or is beaten then, never counts.
        there = np.flatnonzero((expires > self.collector.heard.times[bucket, 2]) | edge)
        rows = Lives(uncertain.lo, uncertain.hi, np.zeros(len(bucket)), expires, inside, edge)
        if len(there) == len(bucket):
            return matter(bucket, rows, skyband=self.query.skyband)
        kept, covering = matter(bucket[there], rows.part(there), skyband=self.query.skyband)
        return there[kept], covering

    def _newest_of(
        self, bucket: Ints, name: Ints, arrived: Floats, version: Ints | None, which: Any = slice(None)
    ) -> Ints:
        """The rows `which` that no other of their bucket and id replaces for sure; those that run ahead all stay."""
        assert version is not None
        kept = newest(bucket, name, arrived, version[which], at_end=self.at_end)
        if (near := self.collector.near(bucket)) is None:
            return kept
        stay = ~near
        stay[kept] = True
        return np.flatnonzero(stay)

    def _newest(self, bucket: Ints, arrived: Floats, fresh: Flags) -> Ints:
        """The newest `last` rows of each bucket, and those that arrived with the last of them; copies count once."""
        assert self.query.last is not None
        buckets = len(self.collector.group)
        order = np.flatnonzero(fresh)
        order = order[np.lexsort((-arrived[order], bucket[order]))]
        begin = np.searchsorted(bucket[order], np.arange(buckets))
        rank = np.arange(len(order)) - begin[bucket[order]]
        edge = np.full(buckets, -np.inf)
        at = order[rank == self.query.last - 1]
        edge[bucket[at]] = arrived[at]
        return np.flatnonzero(arrived >= edge[bucket])

    def _exact(self, rows: RowBlock) -> RowBlock:
        """Bounds that are the ends of the distributions, for the few rows that are left."""
        gaps = rows.uncertain.start == BOUNDS_ONLY
        which = np.flatnonzero(gaps.any(axis=1))
        if self.chain is None or not len(which):
            return rows
        exact = self.chain.bound(rows.uncertain.part(which), rows.known[which], gaps[which])
        lo, hi, start = rows.uncertain.lo.copy(), rows.uncertain.hi.copy(), rows.uncertain.start.copy()
        lo[which], hi[which], start[which] = exact.lo, exact.hi, exact.start
        return rows._replace(uncertain=rows.uncertain._replace(lo=lo, hi=hi, start=start))

    def _score(self, piece: DecodedRows, group: Ints, hidden: Hidden | None) -> None:
        """Hide a value here and there, and see how well it would have been imputed."""
        assert self.scorer is not None
        rows = piece.rows
        values = self.scorer.chain.values(rows.uncertain, rows.raw)
        values[list(rows.refused)] = np.nan
        if rows.gone is not None:
            values[rows.gone] = np.nan  # a removal has none
        if hidden is None:
            hidden = self.scorer.hiding(rows.arrived, values).hidden
        taken = np.array([i not in rows.refused for i in hidden.row.tolist()], np.bool_)
        evidence = Evidence(values, np.isnan(rows.uncertain.lo), rows.source)
        for row, one in self.scorer.score(evidence, hidden.part(taken), rows.kind):
            add(self.scores.setdefault(int(group[row]), {}), one)

    def _count(self, piece: DecodedRows, group: Ints, which: Ints | None, lacking: Ints) -> None:
        rows, n = piece.rows, len(self.counts)
        self.counts[:, 0] += np.bincount(group, minlength=n)
        if rows.outside is not None:
            self.counts[:, 1] += np.bincount(group, rows.outside, n).astype(np.int64)
        self.counts[:, 2] += np.bincount(group[lacking if which is None else which[lacking]], minlength=n)
        for i in sorted(rows.refused):
            self.rejects.setdefault(int(group[i]), []).append(rejected(piece.row(i, self.plan), rows.refused[i]))
