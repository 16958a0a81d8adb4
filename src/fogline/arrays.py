"""The arrays in which rows and answers travel from room to room.

They are columns, never objects with a field per row; the shape of each stands beside it. Values of uncertain rows are
oriented: larger is better. A missing cell without a distribution has `lo` NaN.

Invariant: where start >= 0, value[start : start + size] is strictly increasing, weight adds up to 1, and
tail[k] = Pr{value >= value[k]} with tail[first] exactly 1 (sure) and tail[last] exactly weight[last].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
Slots32 = NDArray[np.int32]  # slots, where there are many
Objects = NDArray[Any]

ONE, BOUNDS_ONLY = -1, -2  # the start of a cell that has no list of values …
ASKED_NO_MORE = float("inf")  # kept for imputers of a row about which none is asked again
SHARED = -3  # … or whose list many rows share: the live set holds it once
CHANGES = ("enter", "leave", "update")  # by number
ENTER, LEAVE, UPDATE = 0, 1, 2
REASONS = (None, "expired", "beaten", "less likely", "replaced", "removed", "begun anew")  # of a leave, by number
NO_REASON, EXPIRED, DOMINATED_BY, LESS_LIKELY, REPLACED, REMOVED, BEGUN_ANEW = range(len(REASONS))
EXACT = 2.0**53 - 1  # whole numbers up to here are exact as float64, and none beyond is rounded to one
DAY = 86_400e6  # microseconds
EARLIEST, LATEST = -62_135_596_800e6 + DAY, 253_402_300_800e6 - DAY  # the years 1 to 9999, in any zone


class UncertainRows(NamedTuple):
    """Uncertain rows in columns; a cell of more than one value points into three shared pools, sorted by value.

    A cell's box, `lo` to `hi`, holds its values, and whatever a later reading of its sensor may make of them. It never
    widens.
    """

    lo: Floats  # (n, d) no value will ever be lower
    hi: Floats  # (n, d) nor higher
    start: Ints  # (n, d) where its values begin in the pools; ONE: a single value; BOUNDS_ONLY; SHARED
    size: Ints  # (n, d) how many values
    value: Floats  # (p,)
    weight: Floats  # (p,)
    tail: Floats  # (p,)

    def part(self, which: Any) -> UncertainRows:
        """Some of the rows (a slice or indices); the pools are shared, not copied."""
        return UncertainRows(
            self.lo[which], self.hi[which], self.start[which], self.size[which], self.value, self.weight, self.tail
        )


class Columns(NamedTuple):
    """What the live set knows of each slot, beside the row's cells."""

    arrived: Floats
    expires: Floats  # -inf: the slot is dead
    until: Floats  # DOMINATED: surely dominated until then; OUT: kept out until then; DEAD: why, see `kernels.states`
    probability: Floats  # of a member
    reported: Floats  # the probability last reported; NaN: not in the answer
    within: Floats  # how far the truth may lie from the probability; 0: it is exact, or the row is surely out
    instances: Ints  # 0: too many to keep sums for
    at: Ints  # where a member's sums begin
    word_lo: Words
    word_hi: Words
    state: NDArray[np.uint8]  # DEAD, DOMINATED, OUT or IN
    counted: Flags  # under one of the pruning counters


class Boxes(NamedTuple):
    """Boxes to be compared: their corners, how long each lives, and the corners' words (see `kernels.words`)."""

    lo: Floats  # (n, d) worst corner
    hi: Floats  # (n, d) best corner
    expires: Floats  # (n,) -inf: there is none
    word_lo: Words  # (n,)
    word_hi: Words  # (n,)
    fence: Any  # the fence bits of a word


class SortedCorners(NamedTuple):
    """Boxes sorted by each attribute of one of their corners, best first."""

    value: Floats  # (d, n) the corner's value in that attribute
    slot: Ints  # (d, n)
    word: Words  # (d, n) the corner's word


class Grid(NamedTuple):
    """The values that a row's cells may take: all, or fewer that stand for them. An instance is one of each cell.

    Where start[j] >= 0, cell j takes value[start[j] : start[j] + size[j]]; otherwise it is known.
    """

    value: Floats  # (p,) ascending within a cell
    weight: Floats  # (p,)
    start: Ints  # (d,)
    size: Ints  # (d,) 1 for a known cell


class Scratch(NamedTuple):
    """Room for a walk over the instances of a row."""

    at_least: Floats  # of one value: Pr{a dominator has at least that much}
    equal: Floats  # of one value: Pr{a dominator has just that}
    chance: Floats  # of one instance: Pr{a row dominates it}
    tie: Floats
    weight: Floats  # of one instance
    left: Floats  # of one instance: its weight, times the probability that no row so far dominates it


class Sums(NamedTuple):
    """Sums of logarithms, one per instance of each member of the answer (see `kernels.sums`)."""

    logs: Ints  # (n, 2) two words each
    zeros: (
        Ints  # (n,) how many rows surely dominate the instance; of sums that were saved, -1: they are to be made anew
    )


class LiveArrays(NamedTuple):
    """The live set of one group, as kernels see it (see `engine.slots`)."""

    uncertain: UncertainRows
    columns: Columns
    raw: Floats  # (n, d) as it came
    sums: Sums
    cuts: Floats  # the cut points of words
    fence: Any
    used: int  # slots 0 … used - 1 are alive or dead
    pool: int  # how much of the rows' pools is in use
    filled: int  # how much of the sums is in use
    last_expiry: float  # the last expiry so far while slots lie in order of expiry; +inf when they do not
    shared: Ints  # (d,) where the list begins that cells of this attribute share; SHARED: there is none


class Arrivals(NamedTuple):
    """Rows on their way into groups, group by group, or into one of them, as kernels see them."""

    uncertain: UncertainRows
    arrived: Floats
    expires: Floats
    raw: Floats
    until: Floats  # of rows of groups that are `screened`: surely dominated until then; empty: of none
    origin: Ints  # (n,) the slot that a row comes from, of its group's own; -1: it was not there; empty: none was
    begin: Ints  # (groups + 1,) where the rows of each group begin
    screened: Flags  # (groups,) of whose rows `until` is known


GROUP = np.dtype(
    [
        ("first", np.int64),  # where the run of slots begins, …
        ("room", np.int64),  # … how many slots it has, …
        ("used", np.int64),  # … and how many of these are alive or dead
        ("new", np.int64),  # slots from here on were filled at the present tick
        ("named", np.int64),  # slots before this one have their id
        ("alive", np.int64),  # how many rows live
        ("came", np.int64),  # how many slots opened at this tick, …
        ("went", np.int64),  # … and how many were open and are not; members' sums do not know it yet
        ("unfilled", np.int64),  # how many rows come again, with distributions in place of bounds
        ("sums", np.int64),  # how many sums new members may need
        ("changes", np.int64),  # how many changes there are to write
        ("left", np.int64),  # what is left to do at this tick; see `kernels.tick`
        ("spatial", np.int64),  # counters; see `engine.live.Counts`
        ("forgotten", np.int64),
        ("evaluations", np.int64),
        ("imputed", np.int64),
        ("revised", np.int64),
        ("now", np.float64),
        ("soon", np.float64),  # when the first row expires
        ("last_expiry", np.float64),  # the last expiry so far while slots lie in order of expiry; +inf when they do not
    ]
)
CHANGE = np.dtype(
    [
        ("group", np.int64),
        ("slot", np.int64),  # of the group's own
        ("change", np.int64),  # see CHANGES
        ("reason", np.int64),  # see REASONS
        ("dominator", np.int64),  # the slot of the row that surely dominates it; negative: see `kernels.tick`
        ("time", np.float64),
        ("probability", np.float64),  # NaN on leave
        ("within", np.float64),
    ]
)
CAME, WENT, UNFILLED, DUE, OPENED, NEAR = range(6)  # lists of slots that a tick works with, one entry per slot


class ManyLiveArrays(NamedTuple):
    """The live sets of groups, side by side, as kernels see them (see `engine.slots`)."""

    uncertain: UncertainRows
    columns: Columns
    sums: Sums
    raw: Floats  # (n, d) as it came
    cuts: Floats  # the cut points of words
    fence: Any
    shared: Ints  # (d,) where the list begins that cells of this attribute share; SHARED: there is none
    groups: Any  # (groups,) GROUP
    ends: Ints  # (2,) how much of the pools, and of the sums, is in use
    source: Ints  # (n,) which row of the call that filled it a slot holds
    lists: Ints  # (6, n) see CAME, …
    pruned: Ints  # (groups, 4) rows kept out for life, by what showed it
    scratch: Floats  # room for a walk over instances: see `kernels.instances.scratch_of`


class Work(NamedTuple):
    """What one call of `kernels.tick` is to do."""

    which: Ints  # the groups
    now: Floats  # the instant of each of them; empty: they go on at the same one
    judge: bool  # False: only let the rows meet the live sets
    report: bool  # collect what changed in the answers, and count it as reported
    met: bool  # live rows that these rows surely dominate have been updated already


class Guards(NamedTuple):
    """Who keeps a row out, where any row may be replaced (see `kernels.latest`)."""

    sure: Slots32  # (n,) of a DOMINATED slot: one that surely dominates it
    joint: Slots32  # (n, most) of an OUT slot: those that keep it out together, then NO_GUARD; or TOO_MANY first


class LatestWork(NamedTuple):
    """What one call of `kernels.latest` is to do."""

    now: float
    first: float  # no row expires before
    opened: Ints  # the open slots, those that dominate many last
    left: Ints  # slots whose rows are replaced or removed
    successors: Ints  # (len(left),) the slots of the rows that replace them; negative: none does
    pending: Ints  # DOMINATED slots that have no guard
    went: Ints  # slots that were open and were closed before, at this instant; members' sums do not know it yet
    closed: Ints  # slots that were open before this instant; members' sums know that they no longer are
    before: Ints  # slots that were replaced and whose rows were last reported …
    after: Ints  # … and those that replaced them
    new: int  # slots from here on were filled at this instant
    report: bool  # collect what changed in the answer, and count it as reported


class Limits(NamedTuple):
    """The numbers that decide who is in, and how that is worked out."""

    threshold: float  # a member has a probability above it; negative: no row dominates a member surely
    least: float  # a row that dominates another with this probability guards it
    tolerance: float  # a probability that moved by no more is not reported again
    many: int  # from so many rows on, it pays to sort the others first
    sum_limit: int  # a member of more instances keeps no sums; at most `exact_limit`
    exact_limit: int  # the probability of a row of more instances may be bracketed


class Batch(NamedTuple):
    """Rows that are taken: their names, how long they stay, what came, and what it may mean."""

    id: Objects  # (n,)
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    raw: Floats  # (n, d) as it came, not oriented; NaN = was missing
    known: Floats  # (n, u) what imputers keep of a row, to be asked later; NaN = missing
    uncertain: UncertainRows
    version: Ints | None = None  # (n,) orders rows of one id and one time; None: there are no versions
    kept: Objects | None = None  # (n,) of each row a tuple of what else comes along (`rows.kept`); None: nothing does

    def part(self, which: Any) -> Batch:
        """Some of the rows (a slice or indices); the pools are shared, not copied."""
        return Batch(
            self.id[which],
            self.arrived[which],
            self.expires[which],
            self.raw[which],
            self.known[which],
            self.uncertain.part(which),
            None if self.version is None else self.version[which],
            None if self.kept is None else self.kept[which],
        )


class Removals(NamedTuple):
    """Ids that are gone, where each id has one current row."""

    id: Objects  # (n,)
    time: Floats  # (n,)
    version: Ints  # (n,) orders rows and removals of one id and time

    def part(self, which: Any) -> Removals:
        """Some of them (a slice or indices)."""
        return Removals(*(each[which] for each in self))


class Distributions(NamedTuple):
    """A distribution for each of q cells: value[start : start + size], values as the user sees them."""

    start: Ints  # (q,)
    size: Ints  # (q,)
    value: Floats  # (p,) ascending within a cell
    often: Floats  # (p,) how often each value occurs: positive, need not add up to 1
    source: Ints  # (q,) by which of its imputer's sources; see `Imputer.sources`


class Revisions(NamedTuple):
    """Gaps that are known better since their sensor was read again: each is an event at the tick of that reading."""

    id: Objects  # (n,) of the row, and of the reading
    target: Floats  # (n,) the arrival of the row with the gap
    time: Floats  # (n,) of the reading
    cells: Flags  # (n, d) which cells of the row are revised
    values: Floats  # (n, d) what was read, as the user sees it; NaN = missing

    def part(self, which: Any) -> Revisions:
        """Some of them (a slice or indices)."""
        return Revisions(*(each[which] for each in self))


class Delta(NamedTuple):
    """What changed in the answer: in that of a group at one tick, ordered by (arrival, id); or of several, joined."""

    time: Any  # of all; or (n,) of each
    id: Any  # (n,) values, or an Arrow array
    arrived: Floats  # (n,)
    change: Ints  # (n,) see CHANGES
    probability: Floats  # (n,) NaN on leave
    within: Floats  # (n,) how far the truth may lie from the probability; 0: it is exact
    raw: Floats  # (n, d)
    reason: Ints  # (n,) why it left, see REASONS
    dominator: Any = None  # (n,) the id of the row that surely beats it, if that is why; None: so it is of none
    dominator_time: Floats | None = None  # (n,) the arrival of that row; NaN: there is none
    kept: Any = None  # (n,) tuples of what else comes along, or an Arrow array of structs; None: nothing does


def objects(values: Sequence[Any]) -> Objects:
    """A list as an array of objects (never of texts or numbers, and never two-dimensional)."""
    out = np.empty(len(values), object)
    out[:] = values
    return out


def empty_rows(rows: int, d: int, pool: int) -> UncertainRows:
    """Room for uncertain rows, not yet filled."""
    return UncertainRows(
        lo=np.empty((rows, d)),
        hi=np.empty((rows, d)),
        start=np.full((rows, d), ONE, np.int64),
        size=np.ones((rows, d), np.int64),
        value=np.empty(pool),
        weight=np.empty(pool),
        tail=np.empty(pool),
    )


def unshared(d: int) -> Ints:
    """Where shared lists begin, among rows that do not hold them."""
    return np.full(d, SHARED, np.int64)


def no_rows(d: int) -> Batch:
    """A batch of nothing, for ticks at which something only expires."""
    none = np.empty(0)
    return Batch(np.empty(0, object), none, none, np.empty((0, d)), np.empty((0, 0)), empty_rows(0, d, 0))
