"""How do many small groups go on together?

Side by side in the same arrays (`kernels.many`), from the columns in which they were saved to the columns in which they
are saved again: no group becomes an object. Each has its own clock. Gaps of all groups are filled in one call.

What a group does here is what `Live.step` does for one; a group that needs more than that is *odd*, and is left to the
caller as it was, since nothing that was given is changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import (
    SHARED,
    VAGUE,
    Arrivals,
    Clouds,
    Columns,
    Flags,
    Floats,
    Ints,
    Limits,
    Sums,
    empty_clouds,
    unshared,
)
from fogline.errors import SnapshotError
from fogline.kernels import tick as tick_kernels
from fogline.kernels.clouds import copy_sharing, dense
from fogline.kernels.many import (
    ManyChanges,
    ManyLive,
    count_many,
    live_slots,
    screen_many,
    stand_up,
    tick_many,
    vague_rows,
)
from fogline.kernels.states import IN
from fogline.kernels.words import cut_points, fences, words
from fogline.skyline.live import SHADOWED, SLACK
from fogline.skyline.revision import Fill, fill_within
from fogline.skyline.slots import SAMPLE, TYPES
from fogline.skyline.store import COLUMNS, POOLS, GroupColumns

NONE = np.empty(0, np.int64)
_NUMBERS = ("spatial", "forgotten", "evaluations", "imputed")  # of `Counts`, those that may grow here


class ComingRows(NamedTuple):
    """Rows on their way into groups, group by group."""

    group: Ints
    arrived: Floats
    expires: Floats
    raw: Floats
    known: Floats
    clouds: Clouds
    source: Ints  # which row it is: those that are saved come first, then those that arrive
    origin: Ints = NONE  # the slots that they come from, of their group's own; empty: they arrive

    def part(self, which: Any) -> ComingRows:
        """Some of the rows; pools are shared."""
        cells = (self.group, self.arrived, self.expires, self.raw, self.known)
        origin = self.origin[which] if len(self.origin) else self.origin
        some = [*(each[which] for each in cells), self.clouds.part(which), self.source[which], origin]
        return ComingRows._make(some)


class ManyGroups:
    """Groups that were saved side by side, with room for the rows that come."""

    def __init__(
        self,
        saved: GroupColumns,
        sizes: dict[str, Ints],
        headers: list[dict[str, Any]],
        rows: ComingRows,
        limits: Limits,
        fill: Fill | None,
        shared: Clouds | None,
    ) -> None:
        d = saved["lo"].shape[1]
        self.d, self.fill, self.known = d, fill, np.concatenate((saved["known"], rows.known))
        self.limits = limits
        self.lists = empty_clouds(0, d, 0) if shared is None else shared
        self.now = np.array([each["now"] for each in headers], np.float64)
        counts = {name: np.array([each["counts"][name] for each in headers], np.int64) for name in _NUMBERS}
        self.imputed = counts.pop("imputed")
        size, comes = sizes["rows"], np.bincount(rows.group, minlength=len(headers))
        again = np.zeros(len(headers), np.int64) if fill is None else _per_group(size, vague_rows(saved["start"]))
        room = size + again + comes * (1 if fill is None else 2)
        first = np.concatenate(([0], np.cumsum(room)))
        self.many = self._filled(saved, sizes, first, rows.clouds, counts, headers)
        self.ends = (
            len(self.lists.value) + len(saved["value"]),
            len(saved["logs"]),
        )  # of what is used of the pools, and of the sums
        self.odd = stand_up(self.many, self.now)

    def _filled(
        self,
        saved: GroupColumns,
        sizes: dict[str, Ints],
        first: Ints,
        coming: Clouds,
        counts: dict[str, Ints],
        headers: list[dict[str, Any]],
    ) -> ManyLive:
        """The saved clouds in their slots."""
        d, slots, head = self.d, int(first[-1]), len(self.lists.value)
        n, groups = len(saved["arrived"]), len(headers)
        starts = (
            unshared(d)
            if not len(self.lists.start)
            else np.where(self.lists.start[0] >= 0, self.lists.start[0], SHARED)
        )
        sharing = saved["start"] == SHARED
        if sharing.any() and np.any(
            sharing & (saved["size"] != np.where(starts >= 0, self.lists.size[:1].sum(axis=0), -1))
        ):
            raise SnapshotError("the repository that this was saved with had other values; use the same one.")
        of = np.repeat(np.arange(groups), sizes["rows"])
        there = np.arange(n) + (first[:-1] - _begin(sizes["rows"]))[of]
        clouds = empty_clouds(slots, d, 0)
        pools = {name: np.concatenate((getattr(self.lists, name), saved[name])) for name in POOLS}
        offset = (head + _begin(sizes["pools"]))[of][:, None]
        begin = np.where(saved["start"] >= 0, saved["start"] + offset, np.where(sharing, starts, saved["start"]))
        for name, cells in (("lo", saved["lo"]), ("hi", saved["hi"]), ("start", begin), ("size", saved["size"])):
            getattr(clouds, name)[there] = cells
        columns = Columns(**{name: np.zeros(slots, kind) for name, kind in TYPES.items()})
        for name in COLUMNS:
            getattr(columns, name)[there] = saved[name]
        places = np.prod(saved["size"], axis=1, dtype=np.float64)
        columns.places[there] = places = np.where(places <= self.limits.places, places, 0).astype(np.int64)
        members = np.flatnonzero((saved["state"] == IN) & (places > 0))
        columns.at[there[members]] = _begin(places[members])
        every = max(1, n // SAMPLE)
        lo, hi = (np.concatenate((saved[name][::every], getattr(coming, name)[::every])) for name in ("lo", "hi"))
        cuts = cut_points(lo, hi)
        columns.word_lo[there], columns.word_hi[there] = words(saved["lo"], saved["hi"], cuts)
        raw, source = np.empty((slots, d)), np.empty(slots, np.int64)
        raw[there], source[there] = saved["raw"], np.arange(n)
        zeros = [np.zeros(groups, np.int64) for _ in range(4)]
        shadowed = np.array([each["counts"]["shadowed"] for each in headers], np.int64).reshape(groups, len(SHADOWED))
        sums = Sums(np.array(saved["logs"], np.int64), np.array(saved["zeros"], np.int64))
        return ManyLive._make([
            clouds._replace(**pools), columns, raw, sums, cuts, fences(d), starts, first,
            sizes["rows"].copy(), sizes["rows"].copy(), zeros[3], np.empty(groups), np.empty(groups), source,
            *(np.empty(slots, np.int64) for _ in range(3)), *zeros[:3], shadowed,
            counts["spatial"], counts["forgotten"], counts["evaluations"],
        ])  # fmt: skip

    def step(self, which: Ints, now: Floats, rows: ComingRows) -> ManyChanges:
        """One tick of the groups `which`, at the instants `now` of all groups; the rows are theirs.

        Returns what changed.
        """
        many = self.many
        self.now[which] = now[which]
        many.new[which] = many.used[which]
        screened, until = np.zeros(len(now), np.bool_), np.full(len(rows.group), -np.inf)
        some = np.unique(rows.group[vague_rows(rows.clouds.start)]) if self.fill is not None else NONE
        if len(some):
            rows, until = self._screened(rows, some, now, screened)
        changes = []
        while True:
            left, found = self._tick(which, now, rows, until, screened)
            changes.append(found)
            self.odd[which[(left == tick_kernels.HEAVY) | (left == tick_kernels.CROWD)]] = True
            which = which[left == tick_kernels.VAGUE]
            if not len(which):
                return joined_changes(changes)
            rows = self._again(which)
            screened, until = np.zeros(len(now), np.bool_), np.empty(len(rows.group))

    def untidy(self) -> Flags:
        """(groups,) of which a `Live` would close gaps before its next tick: its slots lie in another order then."""
        out: Flags = (self.many.used > SLACK) & (2 * self.many.alive < self.many.used)
        return out

    def _screened(self, rows: ComingRows, some: Ints, now: Floats, screened: Flags) -> tuple[ComingRows, Floats]:
        """Without rows that are surely beaten, and with distributions where no row surely beats them now."""
        arrivals = Arrivals(rows.clouds, rows.arrived, rows.expires, rows.raw, np.empty(0), NONE)
        stay, until, needed = screen_many(self.many, arrivals, self._begin(rows), some, now)
        screened[some] = True
        if needed.any():
            rows, narrower = self._known_better(rows, needed)
            screened[narrower] = False  # their boxes are looked at again
        gone = np.bincount(rows.group[~stay], minlength=len(now))
        self.many.forgotten[:] += gone
        self.many.spatial[:] += gone
        return (rows, until) if stay.all() else (rows.part(stay), until[stay])

    def _known_better(self, rows: ComingRows, which: Flags) -> tuple[ComingRows, Ints]:
        """Some rows with distributions in place of bounds; and the groups in which boxes became narrower."""
        assert self.fill is not None
        gaps = (rows.clouds.start == VAGUE) & which[:, None]
        lacking = np.flatnonzero(gaps.any(axis=1))
        self.imputed += np.bincount(rows.group[lacking], minlength=len(self.imputed))
        clouds, narrower = fill_within(self.fill, rows.clouds, rows.known, gaps)
        if not narrower:
            return rows._replace(clouds=clouds), NONE
        cells = gaps & ((clouds.lo > rows.clouds.lo) | (clouds.hi < rows.clouds.hi))
        return rows._replace(clouds=clouds), rows.group[cells.any(axis=1)]

    def _again(self, which: Ints) -> ComingRows:
        """Clouds of these groups that lost their seals, on their way in again, better known."""
        many, c = self.many, self.many.columns
        size = many.vague_size[which]
        group = np.repeat(which, size)
        own = many.vague[_ranges(many.first[which], size)]
        slots = many.first[group] + own
        clouds, source = dense(many.clouds, slots, many.shared), many.source[slots]
        rows = ComingRows(
            group, c.arrived[slots], c.expires[slots], many.raw[slots], self.known[source], clouds, source, own
        )
        c.expires[slots] = -np.inf
        return self._known_better(rows, np.ones(len(slots), np.bool_))[0]

    def _begin(self, rows: ComingRows) -> Ints:
        """Where the rows of each group begin."""
        begin: Ints = np.searchsorted(rows.group, np.arange(len(self.now) + 1))
        return begin

    def _tick(
        self, which: Ints, now: Floats, rows: ComingRows, until: Floats, screened: Flags
    ) -> tuple[Ints, ManyChanges]:
        """`tick_many`; returns what is left to do of each group, and what changed."""
        many, returns = self.many, len(rows.origin) > 0
        own = rows.clouds.size[rows.clouds.start >= 0]
        self._room(self.ends[0] + int(own.sum()))
        many = self.many
        n = int(many.used[which].sum()) + len(rows.group)
        whole = [np.empty(n, np.int64) for _ in range(5)]
        group, slot, change, reason, rival = whole
        changes = ManyChanges(group, slot, np.empty(n), change, reason, rival, np.empty(n), np.empty(n))
        arrivals = Arrivals(rows.clouds, rows.arrived, rows.expires, rows.raw, until, rows.origin)
        left: Ints
        left, pool, filled, sums, end = tick_many(
            many, arrivals, rows.source, self._begin(rows), which, now, screened, returns, self.ends, self.limits,
            changes, 0,
        )  # fmt: skip
        self.many, self.ends = many._replace(sums=sums), (pool, filled)
        return left, ManyChanges._make(each[:end] for each in changes)

    def _room(self, pool: int) -> None:
        """Make sure that the pools have so much room."""
        clouds = self.many.clouds
        if pool > len(clouds.value):
            more = np.empty(max(2 * len(clouds.value), pool) - len(clouds.value))
            longer = {name: np.concatenate((getattr(clouds, name), more)) for name in POOLS}
            self.many = self.many._replace(clouds=clouds._replace(**longer))

    def counts(self) -> tuple[Ints, Ints, Ints]:
        """Of each group: how many rows are in the answer, of how many only bounds are known, how many are undecided."""
        members, inexact, undecided = count_many(self.many, self.limits.threshold)
        return members, inexact, undecided

    def save(self) -> tuple[GroupColumns, dict[str, Ints], Ints]:
        """The columns of all groups but for ids, how many cells each group has of them, and which rows they hold."""
        many, groups = self.many, len(self.now)
        slots, values, places = live_slots(many)
        group = np.searchsorted(many.first, slots, "right") - 1
        sizes = {"rows": np.bincount(group, minlength=groups)}
        for kind, each in (("pools", values), ("sums", places)):
            sizes[kind] = np.bincount(group, each, groups).astype(np.int64)
        clouds = empty_clouds(len(slots), self.d, int(values.sum()))
        copy_sharing(many.clouds, slots, clouds, 0, 0, many.shared, unshared(self.d))
        own = clouds.start >= 0
        begin = np.where(own, clouds.start - _begin(sizes["pools"])[group][:, None], clouds.start)
        out: GroupColumns = {**clouds._replace(start=begin)._asdict()}
        out |= {name: getattr(many.columns, name)[slots] for name in COLUMNS}
        members = slots[places > 0]
        at = _ranges(many.columns.at[members], many.columns.places[members])
        source = many.source[slots]
        out |= {"logs": many.sums.logs[at], "zeros": many.sums.zeros[at]}
        out |= {"raw": many.raw[slots], "known": self.known[source]}
        return out, sizes, source


def joined_changes(parts: list[ManyChanges]) -> ManyChanges:
    """All of them (of one part at least), in order."""
    return parts[0] if len(parts) == 1 else ManyChanges(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _begin(sizes: Ints) -> Ints:
    """Where each of the parts, one after the other, begins."""
    begin: Ints = np.cumsum(sizes) - sizes
    return begin


def _ranges(begin: Ints, size: Ints) -> Ints:
    """The numbers from each beginning on, so many, one range after the other."""
    return np.repeat(begin - _begin(size), size) + np.arange(size.sum())


def _per_group(size: Ints, which: Flags) -> Ints:
    """How many of each group's rows, which lie group by group, are `which`."""
    return np.bincount(np.repeat(np.arange(len(size)), size)[which], minlength=len(size))
