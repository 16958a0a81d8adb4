"""In which order are the changes of many groups reported, and which rows beat those that left?

By group, and within one by (arrival, id); rivals as `reasons` names them. All of that nearly always without ids: only
rows that arrived at one instant are distinguished by those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import (
    BEATEN,
    BOUNDS_ONLY,
    SHARED,
    Arrivals,
    Columns,
    Flags,
    Floats,
    Ints,
    Limits,
    LiveSet,
    Sums,
    UncertainRows,
    empty_rows,
    unshared,
)
from fogline.engine.live import SHADOWED, SLACK
from fogline.engine.revise import Fill, fill_within
from fogline.engine.slots import SAMPLE, TYPES
from fogline.engine.store import COLUMNS, POOLS, GroupColumns
from fogline.errors import SnapshotError
from fogline.kernels import tick as tick_kernels
from fogline.kernels.many import (
    ManyChanges,
    ManyLive,
    count_many,
    live_slots,
    rows_with_bounds_only,
    screen_many,
    stand_up,
    tick_many,
)
from fogline.kernels.states import IN
from fogline.kernels.tick import NO_RIVAL, sure_rivals
from fogline.kernels.uncertain import copy_sharing, dense
from fogline.kernels.words import cut_points, fences, words

Names = Callable[[Ints], list[Any]]  # the ids of some rows


def in_order(groups: ManyGroups, changes: ManyChanges, names: Names) -> ManyChanges:
    """What changed at a tick that the groups have just had, by group, arrival and id, with all rivals."""
    many = groups.many
    arrived = many.columns.arrived[changes.slot]
    order = np.lexsort((arrived, changes.group))
    _by_name(order, arrived, changes, lambda which: names(many.source[changes.slot[which]]))
    changes = ManyChanges._make(each[order] for each in changes)
    for k in np.flatnonzero((changes.reason == BEATEN) & (changes.rival < 0)).tolist():
        changes.rival[k] = _first(groups, changes, k, names)
    return changes


def _by_name(order: Ints, arrived: Floats, changes: ManyChanges, names: Names) -> None:
    """Put changes of one group and arrival, which lie together, in the order of their ids."""
    a, b = order[:-1], order[1:]
    same = (changes.group[a] == changes.group[b]) & (arrived[a] == arrived[b])
    at = 0
    ties = np.flatnonzero(same).tolist()
    while at < len(ties):
        begin = ties[at]
        while at + 1 < len(ties) and ties[at + 1] == ties[at] + 1:
            at += 1
        some = order[begin : ties[at] + 2]
        ids = names(some)
        order[begin : ties[at] + 2] = some[sorted(range(len(some)), key=ids.__getitem__)]
        at += 1


def _first(groups: ManyGroups, changes: ManyChanges, k: int, names: Names) -> int:
    """The slot of the first of the open rows that surely beat the one that left; negative: there is none."""
    many, g, slot = groups.many, int(changes.group[k]), int(changes.slot[k])
    first, new = int(many.first[g]), int(many.new[g])
    live = live_set(groups, g)
    found = sure_rivals(live, live.uncertain, slot - first, new if slot - first < new else 0) + first
    ids = dict(zip(found.tolist(), names(many.source[found]), strict=True))
    return min(found.tolist(), key=lambda each: (many.columns.arrived[each], ids[each]), default=NO_RIVAL)


def live_set(groups: ManyGroups, g: int) -> LiveSet:
    """One of the groups, as kernels see it."""
    many, part = groups.many, slice(int(groups.many.first[g]), int(groups.many.first[g + 1]))
    columns = type(many.columns)._make(each[part] for each in many.columns)
    return LiveSet(
        many.uncertain.part(part), columns, many.raw[part], many.sums, many.cuts, many.fence, int(many.used[g]),
        *groups.ends, float(many.latest[g]), many.shared,
    )  # fmt: skip


# --- many ---
# How do many small groups go on together?
#
# Side by side in the same arrays (`kernels.many`), from the columns in which they were saved to the columns in which
# they
# are saved again: no group becomes an object. Each has its own clock. Gaps of all groups are filled in one call.
#
# What a group does here is what `Live.step` does for one; a group that needs more than that is *odd*, and is left to
# the
# caller as it was, since nothing that was given is changed.

NONE = np.empty(0, np.int64)
_NUMBERS = ("spatial", "forgotten", "evaluations", "imputed")  # of `Counts`, those that may grow here


class ComingRows(NamedTuple):
    """Rows on their way into groups, group by group."""

    group: Ints
    arrived: Floats
    expires: Floats
    raw: Floats
    known: Floats
    uncertain: UncertainRows
    source: Ints  # which row it is: those that are saved come first, then those that arrive
    origin: Ints = NONE  # the slots that they come from, of their group's own; empty: they arrive

    def part(self, which: Any) -> ComingRows:
        """Some of the rows; pools are shared."""
        cells = (self.group, self.arrived, self.expires, self.raw, self.known)
        origin = self.origin[which] if len(self.origin) else self.origin
        some = [*(each[which] for each in cells), self.uncertain.part(which), self.source[which], origin]
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
        shared: UncertainRows | None,
    ) -> None:
        d = saved["lo"].shape[1]
        self.d, self.fill, self.known = d, fill, np.concatenate((saved["known"], rows.known))
        self.limits = limits
        self.lists = empty_rows(0, d, 0) if shared is None else shared
        self.now = np.array([each["now"] for each in headers], np.float64)
        counts = {name: np.array([each["counts"][name] for each in headers], np.int64) for name in _NUMBERS}
        self.imputed = counts.pop("imputed")
        size, comes = sizes["rows"], np.bincount(rows.group, minlength=len(headers))
        again = (
            np.zeros(len(headers), np.int64)
            if fill is None
            else _per_group(size, rows_with_bounds_only(saved["start"]))
        )
        room = size + again + comes * (1 if fill is None else 2)
        first = np.concatenate(([0], np.cumsum(room)))
        self.many = self._filled(saved, sizes, first, rows.uncertain, counts, headers)
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
        coming: UncertainRows,
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
        uncertain = empty_rows(slots, d, 0)
        pools = {name: np.concatenate((getattr(self.lists, name), saved[name])) for name in POOLS}
        offset = (head + _begin(sizes["pools"]))[of][:, None]
        begin = np.where(saved["start"] >= 0, saved["start"] + offset, np.where(sharing, starts, saved["start"]))
        for name, cells in (("lo", saved["lo"]), ("hi", saved["hi"]), ("start", begin), ("size", saved["size"])):
            getattr(uncertain, name)[there] = cells
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
            uncertain._replace(**pools), columns, raw, sums, cuts, fences(d), starts, first,
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
        some = np.unique(rows.group[rows_with_bounds_only(rows.uncertain.start)]) if self.fill is not None else NONE
        if len(some):
            rows, until = self._screened(rows, some, now, screened)
        changes = []
        while True:
            left, found = self._tick(which, now, rows, until, screened)
            changes.append(found)
            self.odd[which[(left == tick_kernels.HEAVY) | (left == tick_kernels.CROWD)]] = True
            which = which[left == tick_kernels.UNFILLED]
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
        arrivals = Arrivals(rows.uncertain, rows.arrived, rows.expires, rows.raw, np.empty(0), NONE)
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
        gaps = (rows.uncertain.start == BOUNDS_ONLY) & which[:, None]
        lacking = np.flatnonzero(gaps.any(axis=1))
        self.imputed += np.bincount(rows.group[lacking], minlength=len(self.imputed))
        uncertain, narrower = fill_within(self.fill, rows.uncertain, rows.known, gaps)
        if not narrower:
            return rows._replace(uncertain=uncertain), NONE
        cells = gaps & ((uncertain.lo > rows.uncertain.lo) | (uncertain.hi < rows.uncertain.hi))
        return rows._replace(uncertain=uncertain), rows.group[cells.any(axis=1)]

    def _again(self, which: Ints) -> ComingRows:
        """Clouds of these groups that lost their seals, on their way in again, better known."""
        many, c = self.many, self.many.columns
        size = many.bounds_only_size[which]
        group = np.repeat(which, size)
        own = many.bounds_only[_ranges(many.first[which], size)]
        slots = many.first[group] + own
        uncertain, source = dense(many.uncertain, slots, many.shared), many.source[slots]
        rows = ComingRows(
            group, c.arrived[slots], c.expires[slots], many.raw[slots], self.known[source], uncertain, source, own
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
        own = rows.uncertain.size[rows.uncertain.start >= 0]
        self._room(self.ends[0] + int(own.sum()))
        many = self.many
        n = int(many.used[which].sum()) + len(rows.group)
        whole = [np.empty(n, np.int64) for _ in range(5)]
        group, slot, change, reason, rival = whole
        changes = ManyChanges(group, slot, np.empty(n), change, reason, rival, np.empty(n), np.empty(n))
        arrivals = Arrivals(rows.uncertain, rows.arrived, rows.expires, rows.raw, until, rows.origin)
        left: Ints
        left, pool, filled, sums, end = tick_many(
            many, arrivals, rows.source, self._begin(rows), which, now, screened, returns, self.ends, self.limits,
            changes, 0,
        )  # fmt: skip
        self.many, self.ends = many._replace(sums=sums), (pool, filled)
        return left, ManyChanges._make(each[:end] for each in changes)

    def _room(self, pool: int) -> None:
        """Make sure that the pools have so much room."""
        uncertain = self.many.uncertain
        if pool > len(uncertain.value):
            more = np.empty(max(2 * len(uncertain.value), pool) - len(uncertain.value))
            longer = {name: np.concatenate((getattr(uncertain, name), more)) for name in POOLS}
            self.many = self.many._replace(uncertain=uncertain._replace(**longer))

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
        uncertain = empty_rows(len(slots), self.d, int(values.sum()))
        copy_sharing(many.uncertain, slots, uncertain, 0, 0, many.shared, unshared(self.d))
        own = uncertain.start >= 0
        begin = np.where(own, uncertain.start - _begin(sizes["pools"])[group][:, None], uncertain.start)
        out: GroupColumns = {**uncertain._replace(start=begin)._asdict()}
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


# --- many_ticks ---
# What happens in many groups from their clocks on, tick by tick or at once?
#
# As in `group`: at each tick what has expired leaves, the rows that arrived enter, the answer is taken. Ticks of
# different groups have nothing to do with each other, so the first ticks of all are taken together, then the second
# ones.

Step = tuple[Ints, Floats, ComingRows]  # groups, the instant of each group, the rows that arrive


def advance(
    groups: ManyGroups, now: Floats, rows: ComingRows, names: Names, *, ticks: bool
) -> tuple[ManyChanges, Ints]:
    """Everything up to `now` (groups,); no row is late. Returns what changed, group by group and tick by tick, and how
    many rows of each group had expired when they arrived."""
    expired = np.zeros(len(now), np.int64)
    found = []
    for which, tick, coming in _ticks(groups, now, rows) if ticks else _at_once(groups, now, rows):
        gone = coming.expires <= tick[coming.group]
        if gone.any():
            expired += np.bincount(coming.group[gone], minlength=len(now))
            coming = coming.part(~gone)
        found.append(in_order(groups, groups.step(which, tick, coming), names))
    if not found:
        return NOTHING, expired
    changes = joined_changes(found)
    if len(found) > 1:
        order = np.argsort(changes.group, kind="stable")
        changes = ManyChanges._make(each[order] for each in changes)
    return changes, expired


def _at_once(groups: ManyGroups, now: Floats, rows: ComingRows) -> Iterator[Step]:
    """One tick for all, of groups that have rows or in which one expires."""
    comes = np.bincount(rows.group, minlength=len(now)) > 0
    which = np.flatnonzero((comes | (groups.many.soon <= now)) & ~groups.odd)
    if len(which):
        order = np.lexsort((rows.expires, rows.group))  # the last to expire is found first then
        yield which, now, _of(rows.part(order), which, len(now))


def _ticks(groups: ManyGroups, now: Floats, rows: ComingRows) -> Iterator[Step]:
    """The next instant of each group at which a row arrives or expires, again and again."""
    rows = rows.part(np.lexsort((rows.arrived, rows.group)))
    at, end = (np.searchsorted(rows.group, np.arange(len(now)) + k) for k in (0, 1))
    arrived = np.append(rows.arrived, np.inf)
    while True:
        tick = np.minimum(np.where(at < end, arrived[at], np.inf), groups.many.soon)
        more = (tick <= now) & np.isfinite(tick)
        groups.odd |= more & groups.untidy()
        which = np.flatnonzero(more & ~groups.odd)
        if not len(which):
            return
        there = np.zeros(len(now), np.bool_)
        there[which] = True
        coming = there[rows.group] & (rows.arrived == tick[rows.group])
        yield which, tick, rows.part(coming)
        at = at + np.bincount(rows.group[coming], minlength=len(now))


def _of(rows: ComingRows, which: Ints, groups: int) -> ComingRows:
    """The rows of some groups."""
    there = np.zeros(groups, np.bool_)
    there[which] = True
    return rows if there.all() else rows.part(there[rows.group])


NOTHING = ManyChanges._make(
    np.empty(0, np.float64 if name in ("time", "probability", "within") else np.int64) for name in ManyChanges._fields
)
