"""Where do the live rows of groups lie, and how do they make room?

Groups lie side by side in the same columns; one group is a case of many. A group is a run of slots with a record of its
own (`GROUP`): where the run begins, how much of it is in use, and what is counted. Pools of values and sums are common.
A live row has one slot, roughly by expiry. A slot that died keeps its columns until the next `compact`, which closes
the gaps, sorts by expiry and chooses new cut points. It comes when half of a group's slots are dead, so its cost is
constant per arrival.

Lists of values that cells of many rows share (`shared`) lie once, at the head of the pools, and stay there.

Invariant: dead slots have state DEAD and expiry -inf. The words of all others are made by the present cut points.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import (
    CHANGE,
    GROUP,
    SHARED,
    Batch,
    Columns,
    Delta,
    Flags,
    Floats,
    Ints,
    LiveArrays,
    ManyLiveArrays,
    Objects,
    Sums,
    UncertainRows,
    empty_rows,
    unshared,
)
from fogline.kernels.instances import ROOM
from fogline.kernels.states import IN
from fogline.kernels.uncertain import copy_sharing, dense, own_values
from fogline.kernels.words import cut_points, fences, words

SUM_LIMIT = 4096  # instances of a member; one of more is evaluated anew when something changes
NO_SLOTS: Ints = np.empty(0, np.int64)
SAMPLE = 50_000  # more rows than this choose no better cut points
CELLS = ("lo", "hi", "start", "size")
POOLS = ("value", "weight", "tail")

TYPES: dict[str, Any] = {
    "arrived": np.float64,
    "expires": np.float64,
    "until": np.float64,
    "probability": np.float64,
    "reported": np.float64,
    "within": np.float64,
    "instances": np.int64,
    "at": np.int64,
    "word_lo": np.uint64,
    "word_hi": np.uint64,
    "state": np.uint8,
    "counted": np.bool_,
}


_rooms = local()


class Fields:
    """The fields of the groups' records, each as an array (groups,) that sees what kernels write."""

    used: Ints
    named: Ints
    alive: Ints
    now: Floats
    soon: Floats

    def __init__(self, groups: NDArray[Any]) -> None:
        for name in self.__annotations__:
            setattr(self, name, groups[name])


class Slots:
    """The columns of the live rows of groups. Growing is amortised O(rows · d), `compact` O(live · (d + log live)).

    `used`, `pool`, `filled` and `last_expiry`, `alive()` and what takes slots are meant for one group.
    """

    def __init__(
        self, d: int, sum_limit: int = SUM_LIMIT, known: int = 0, shared: UncertainRows | None = None, groups: int = 1
    ) -> None:
        self.d = d
        self.sum_limit = sum_limit
        self.lists = empty_rows(0, d, 0) if shared is None else shared  # one row: the lists that cells share
        self.shared = unshared(d) if shared is None else np.where(shared.start[0] >= 0, shared.start[0], SHARED)
        self.distributed = shared is not None  # has there been a distribution, or a row with bounds only?
        self.packed = 0  # how much of the sums was in use when gaps were last closed
        self.coded = 0  # how many rows the cut points were made from
        self.fence = fences(d)
        self.cuts = cut_points(np.empty((0, d)), np.empty((0, d)))
        self.groups = np.zeros(groups, GROUP)
        for name, value in (("now", -np.inf), ("soon", np.inf), ("last_expiry", -np.inf)):
            self.groups[name] = value
        self.of = Fields(self.groups)
        self.pruned = np.zeros((groups, 4), np.int64)
        self.ends = np.array([len(self.lists.value), 0])  # how much of the pools, and of the sums, is in use
        self.id: NDArray[Any] = np.empty(0, object)  # or the numbers of rows, where ids lie elsewhere
        self.known: Floats = np.empty((0, known))  # what imputers keep of a row
        self.raw: Floats = np.empty((0, d))  # as it came
        self.kept: Objects | None = None  # what else comes along with each row; None: nothing has
        self.columns = Columns(**{name: np.empty(0, kind) for name, kind in TYPES.items()})
        self.uncertain: UncertainRows = self._room_for_rows(0, 16)
        self.work: Ints = np.empty((6, 0), np.int64)  # lists that a tick works with: see `arrays.CAME`
        self.source: Ints = np.empty(0, np.int64)  # which row of the call that filled it a slot holds
        self.changes: Any = np.empty(64, CHANGE)  # what the present tick changed
        self.sums = Sums(np.zeros((16, 2), np.int64), np.zeros(16, np.int64))

    # --- As kernels see them ------------------------------------------------------------------------------------------

    def all_arrays(self) -> ManyLiveArrays:
        """All groups."""
        return ManyLiveArrays(
            self.uncertain, self.columns, self.sums, self.raw, self.cuts, self.fence, self.shared, self.groups,
            self.ends, self.source, self.work, self.pruned, self.scratch,
        )  # fmt: skip

    def live_arrays(self, g: int = 0) -> LiveArrays:
        """One group, whose slots it counts from 0."""
        group, columns, uncertain, raw = self.groups[g], self.columns, self.uncertain, self.raw
        if len(self.groups) > 1:
            part = slice(int(group["first"]), int(group["first"] + group["room"]))
            columns, uncertain = Columns._make(each[part] for each in columns), uncertain.part(part)
            raw = raw[part]
        return LiveArrays(
            uncertain, columns, raw, self.sums, self.cuts, self.fence, int(group["used"]), self.pool, self.filled,
            float(group["last_expiry"]), self.shared,
        )  # fmt: skip

    @property
    def scratch(self) -> Floats:
        """Room for walks over instances: this thread's own, made once."""
        size = max(self.sum_limit, ROOM) + self.d
        found: Floats | None = getattr(_rooms, "room", None)
        if found is None or found.shape[1] < size:
            _rooms.room = found = np.empty((8, size))
        return found

    @property
    def used(self) -> int:
        """How many slots of one group are alive or dead."""
        return int(self.of.used[0])

    @used.setter
    def used(self, end: int) -> None:
        self.of.used[0] = end

    @property
    def last_expiry(self) -> float:
        """The last expiry of one group so far, while its slots lie in order of expiry; +inf when they do not."""
        return float(self.groups["last_expiry"][0])

    @last_expiry.setter
    def last_expiry(self, last: float) -> None:
        self.groups["last_expiry"] = last

    @property
    def pool(self) -> int:
        """How much of the pools is in use."""
        return int(self.ends[0])

    @pool.setter
    def pool(self, end: int) -> None:
        self.ends[0] = end

    @property
    def filled(self) -> int:
        """How much of the members' sums is in use."""
        return int(self.ends[1])

    @filled.setter
    def filled(self, end: int) -> None:
        self.ends[1] = end

    # --- Some of the slots --------------------------------------------------------------------------------------------

    def in_use(self) -> Ints:
        """The slots of all groups that are alive or dead."""
        return ranges(self.groups["first"], self.groups["used"])

    def alive(self) -> Ints:
        """The slots of one group that are not dead, in their order."""
        return np.flatnonzero(self.columns.state[: self.used])

    def by_key(self, which: Ints) -> Ints:
        """These slots in the order of (arrival, id)."""
        if len(which) < 2:
            return which
        arrived, ids = self.columns.arrived[which].tolist(), self.id[which].tolist()
        return which[sorted(range(len(which)), key=lambda k: (arrived[k], ids[k]))]

    def again(self, which: Ints) -> Batch:
        """Some rows on their way in once more."""
        c, uncertain = self.columns, dense(self.uncertain, which, self.shared)
        kept = None if self.kept is None else self.kept[which]
        return Batch(
            self.id[which], c.arrived[which], c.expires[which], self.raw[which], self.known[which], uncertain, kept=kept
        )

    def instances_of(self, uncertain: UncertainRows) -> Ints:
        """How many instances these rows have; 0 for too many to keep sums for."""
        instances = np.prod(uncertain.size, axis=1, dtype=np.float64)
        return np.where(instances <= self.sum_limit, instances, 0).astype(np.int64)

    def delta(
        self,
        slot: Ints,
        time: Any,
        changes: tuple[Ints, Ints, Floats, Floats],
        dominator: Ints | None = None,
        names: Callable[[Any, Flags | None], Any] | None = None,
    ) -> Delta:
        """What changed of the rows in these slots at a time (of all, or of each).

        `changes`: the change of each, its reason, its probability, and within how much. `dominator`: the slot of the
        row that surely dominates it; negative: there is none. `names`: the ids as they are shown for what lies in `id`,
        None for those that are flagged.
        """
        change, reason, probability, within = changes
        names, c = _as_they_lie if names is None else names, self.columns
        delta = Delta(
            time, names(self.id[slot], None), c.arrived[slot], change, probability, within, self.raw[slot], reason,
            kept=None if self.kept is None else self.kept[slot],
        )  # fmt: skip
        if dominator is None or not (named := dominator >= 0).any():  # nearly always
            return delta
        there = np.where(named, dominator, slot)
        return delta._replace(
            dominator=names(self.id[there], ~named), dominator_time=np.where(named, c.arrived[there], np.nan)
        )

    def view(self) -> UncertainRows:
        """The rows of the slots in use."""
        c, n = self.uncertain, self.used
        return c._replace(lo=c.lo[:n], hi=c.hi[:n], start=c.start[:n], size=c.size[:n])

    # --- Room ---------------------------------------------------------------------------------------------------------

    def make_room(self, rows: Batch, begin: Ints | None = None) -> None:
        """Make sure that all rows would fit, with their distributions. `begin` (groups + 1,): where each group's do."""
        if not len(rows.arrived):
            return
        if self.coded == 0:
            self.recode(rows.uncertain)
        if begin is None or len(begin) == 2:
            if (n := self.used + len(rows.arrived)) > len(self.raw):
                self._widen(np.array([max(2 * len(self.raw), n, 16)]))
        else:
            need, room = self.groups["used"] + np.diff(begin), self.groups["room"]
            if (need > room).any():
                self._widen(np.where(need > room, 2 * need, room))
        if (pool := self.pool + len(rows.uncertain.value)) > len(self.uncertain.value):
            self._deepen(max(2 * len(self.uncertain.value), pool))

    def begin_with(self, sizes: Ints, pool: int, ids: Any = object) -> None:
        """Room for groups of so many rows, which are alive, and so many values. `ids`: their type."""
        groups, self.id = self.groups, np.empty(0, ids)
        room = sizes if len(groups) > 1 else np.maximum(sizes, 16)
        groups["first"], groups["room"] = np.cumsum(room) - room, room
        groups["used"] = groups["named"] = groups["alive"] = sizes
        self._lay(room, NO_SLOTS, NO_SLOTS)
        self._deepen(max(len(self.uncertain.value), self.pool + pool))

    def _widen(self, room: Ints) -> None:
        """Lay the groups anew, with so many slots each."""
        old, first = self.in_use(), np.cumsum(room) - room
        self.groups["first"], self.groups["room"] = first, room
        self._lay(room, self.in_use(), old)

    def _lay(self, room: Ints, new: Ints, old: Ints) -> None:
        """Columns for groups of so many slots, in which what lay at `old` lies at `new`."""
        n = int(room.sum())
        self.uncertain = self.uncertain._replace(
            **{name: moved(getattr(self.uncertain, name), n, new, old) for name in CELLS}
        )
        self.columns = Columns(*(moved(column, n, new, old) for column in self.columns))
        self.id, self.raw, self.known = (moved(each, n, new, old) for each in (self.id, self.raw, self.known))
        if self.kept is not None:
            self.kept = moved(self.kept, n, new, old)
        self._lay_work(n, new, old)

    def _lay_work(self, n: int, new: Ints, old: Ints) -> None:
        before = self.work
        self.work = np.empty((6, n), np.int64)
        if len(old):
            self.work[:, new] = before[:, old]
        self.source = np.empty(n, np.int64)

    def _deepen(self, size: int) -> None:
        """Make the pools longer."""
        c = self.uncertain
        self.uncertain = c._replace(**{name: longer(getattr(c, name), size) for name in POOLS})

    def room_for_sums(self, instances: int) -> None:
        """Make sure that new members' sums fit."""
        if self.filled + instances > len(self.sums.logs):
            size = max(2 * len(self.sums.logs), self.filled + instances)
            self.sums = Sums(*(longer(each, size) for each in self.sums))

    def room_for_changes(self, n: int) -> None:
        """Make sure that so many changes can be written."""
        if n > len(self.changes):
            self.changes = longer(self.changes, max(2 * len(self.changes), n))

    def name(self, rows: Batch, which: Ints) -> None:
        """The rows that got new slots: their ids, and what is known of them. `which`: the groups."""
        named, used = self.of.named, self.of.used
        if len(used) == 1:
            first, end = int(named[0]), int(used[0])
            new: Any = slice(first, end)
            n = end - first
        else:
            new = ranges(self.groups["first"][which] + named[which], used[which] - named[which])
            n = len(new)
        if n:
            source = self.source[new]
            self.id[new] = rows.id[source]
            if self.known.shape[1]:
                self.known[new] = rows.known[source]
            if rows.kept is not None:
                self.keep(new, rows.kept[source])
            named[:] = used

    def keep(self, slots: Any, kept: Objects) -> None:
        """What else comes along with the rows in these slots."""
        if self.kept is None:
            self.kept = np.empty(len(self.raw), object)
        self.kept[slots] = kept

    def pack_sums(self) -> None:
        """Close the gaps that former members left among the sums."""
        slots = self.in_use()
        members = slots[self.columns.state[slots] == IN]
        length, at = self.columns.instances[members], self.columns.at
        end = np.cumsum(length)
        self.filled = int(end[-1]) if len(end) else 0
        source = ranges(at[members], length)
        for each in self.sums:
            each[: self.filled] = each[source]
        at[members] = end - length
        self.packed = self.filled

    def compact(self) -> None:
        """Close the gaps of one group, put its slots in order and choose new cut points. The members' sums stay."""
        self.pack_sums()
        order, old = self.in_order(self.alive()), self.uncertain
        size = max(16, 2 * len(order))
        self.uncertain = self._room_for_rows(size, max(16, 2 * own_values(old, order, self.shared)))
        self.pool = copy_sharing(old, order, self.uncertain, 0, len(self.lists.value), self.shared, self.shared)
        self.columns = Columns(*(longer(column[order], size) for column in self.columns))
        self.id, self.raw, self.known = (longer(each[order], size) for each in (self.id, self.raw, self.known))
        self.kept = None if self.kept is None else longer(self.kept[order], size)
        self._lay_work(size, NO_SLOTS, NO_SLOTS)
        self.groups["room"], self.groups["used"], self.groups["named"] = size, len(order), len(order)
        self.look_at_order()
        self.recode(self.view())

    def in_order(self, alive: Ints) -> Ints:
        """Living slots in the order in which they are to lie."""
        return alive[np.lexsort((self.columns.arrived[alive], self.columns.expires[alive]))]

    def _room_for_rows(self, rows: int, pool: int) -> UncertainRows:
        """Room for rows, with the lists that they share at the head of the pools."""
        head = len(self.lists.value)
        out = empty_rows(rows, self.d, head + pool)
        for name in POOLS:
            getattr(out, name)[:head] = getattr(self.lists, name)
        return out

    def look_at_order(self) -> None:
        """Do the slots of one group, none of them dead, lie in order of expiry?"""
        expires = self.columns.expires[: self.used]
        self.last_expiry = np.inf if np.any(np.diff(expires) < 0) else expires.max(initial=-np.inf)

    def recode(self, uncertain: UncertainRows) -> None:
        """Choose cut points that spread these rows, or some of very many, and make every word anew."""
        some = slice(None, None, len(uncertain.lo) // SAMPLE + 1)
        self.cuts = cut_points(uncertain.lo[some], uncertain.hi[some])
        self.coded = len(uncertain.lo)
        last = self.groups[-1]
        if n := int(last["first"] + last["used"]):
            c = self.columns
            c.word_lo[:n], c.word_hi[:n] = words(self.uncertain.lo[:n], self.uncertain.hi[:n], self.cuts)


def _as_they_lie(ids: Any, hidden: Flags | None) -> Any:
    if hidden is not None:
        ids[hidden] = None
    return ids


def cell_means(uncertain: UncertainRows, row: Ints, attribute: Ints) -> Floats:
    """(n,) the means of these cells, larger is better; each has a value, or a list of them."""
    start, size = uncertain.start[row, attribute], uncertain.size[row, attribute]
    out, listed = uncertain.lo[row, attribute], np.flatnonzero(start >= 0)
    if len(listed):
        size = size[listed]
        at = ranges(start[listed], size)
        out[listed] = np.add.reduceat(uncertain.value[at] * uncertain.weight[at], np.cumsum(size) - size)
    return out


def row_means(uncertain: UncertainRows, rows: Ints) -> Floats:
    """(n, d) the means of all cells of these rows."""
    n, d = len(rows), uncertain.lo.shape[1]
    return cell_means(uncertain, np.repeat(rows, d), np.tile(np.arange(d), n)).reshape(n, d)


def ranges(begin: Ints, size: Ints) -> Ints:
    """The numbers from each beginning on, so many, one range after the other."""
    end = np.cumsum(size)
    return np.repeat(begin - (end - size), size) + np.arange(end[-1] if len(end) else 0)


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The same array with room for `size` rows."""
    out = np.empty((size, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


def moved(array: NDArray[Any], size: int, new: Ints, old: Ints) -> NDArray[Any]:
    """An array of so many rows, in which what lay at `old` lies at `new`."""
    out = np.empty((size, *array.shape[1:]), array.dtype)
    if len(old):
        out[new] = array[old]
    return out
