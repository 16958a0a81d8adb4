"""How do the states of many small groups lie side by side, and how do their rows enter all at once?

In columns (`GroupStates`): so many states are opened, and saved, at the price of a few. Some can be taken out, and
others put in, without opening the rest. What a group seldom has (rows that wait or are held, readings of its sensors)
has no columns here: a group that has it, or is large, lies apart (`fits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Delta, Flags, Floats, Ints
from fogline.engine.group import advance_all, columns_of
from fogline.engine.live import EXACT_LIMIT, Changes, ManyLiveSets
from fogline.engine.slots import CELLS, POOLS, ranges
from fogline.engine.store import (
    COLUMNS,
    NAMES,
    count_as_saved,
    fill_live,
    header_columns,
    headers_of,
    join_columns,
    live_numbers,
    save_group,
    save_live,
    split_columns,
)
from fogline.pipeline.clock_guard import Ahead
from fogline.pipeline.exchange import NUMBERS, ArrivedRows, MergedRows, RowBlock, empty_block
from fogline.pipeline.loaded import LoadedGroup
from fogline.pipeline.names import CHANGES, HEALTH
from fogline.pipeline.plan import Plan
from fogline.pipeline.report import BatchResult, health_table
from fogline.pipeline.runner import GroupRunner
from fogline.pipeline.time_buckets import NO_BUCKETS, PREFIX, BucketColumns, end_to_end, merged_buckets, moved, numbered
from fogline.rows.kept import as_structs, structs_of
from fogline.rows.names import KeyText, key_columns
from fogline.rows.table import joined_column
from fogline.saved import Arrays, table_as_bytes, table_from_bytes

ROWS = 256  # live rows of a group that lies here, at most …
VALUES = 8_192  # … and values of their distributions, and sums

# Which columns have one cell for each group, for each of its rows, …
_OF = {
    "groups": (
        "clock", "timer", "frontier", "now", "newest", "counts", "shadowed", "late", "expired_on_arrival", "taken",
        "latest clock", "latest stale", "latest removed",
    ),
    "rows": (*CELLS, *COLUMNS, "raw", "known", "id", "kept", "guard", "version"),
    "pools": POOLS,
    "sums": ("logs", "zeros"),
    "newest": ("newest_id",),
    "queue": ("queue_arrived", "queue_id"),
    "out": ("joint",),
    "open": ("open",),
    "markers": ("marker_time", "marker_version", "marker_id"),
    "buckets": (f"{PREFIX}times", f"{PREFIX}sizes"),
    "hashes": (f"{PREFIX}ids",),
}  # fmt: skip
KIND_OF = {name: kind for kind, names in _OF.items() for name in names}
_SIZE = "size of "  # before the names of arrays
_NEVER = -1  # the timer of a group that has none: timers are event times, from 0 on


class GroupStates(NamedTuple):
    """The states of groups, side by side."""

    keys: list[KeyText]
    sizes: dict[str, Ints]  # of each kind of column but the first, how many cells each group has
    columns: dict[str, Any]  # arrays, Arrow's for names

    def part(self, which: Sequence[int]) -> GroupStates:
        """Some of the groups, in this order."""
        n = len(which)
        if n and which[-1] - which[0] == n - 1 and all(k == i for k, i in enumerate(which, which[0])):
            return self._between(which[0], which[-1] + 1)
        some = np.array(which, np.int64)
        places = {kind: ranges((np.cumsum(size) - size)[some], size[some]) for kind, size in self.sizes.items()}
        places["groups"] = some
        columns = {name: _taken(column, places[KIND_OF[name]]) for name, column in self.columns.items()}
        sizes = {kind: size[some] for kind, size in self.sizes.items()}
        return GroupStates([self.keys[k] for k in which], sizes, columns)

    def _between(self, first: int, end: int) -> GroupStates:
        """Neighbouring groups: nothing is copied."""
        if (first, end) == (0, len(self.keys)):
            return self
        parts = {kind: slice(int(size[:first].sum()), int(size[:end].sum())) for kind, size in self.sizes.items()}
        parts["groups"] = slice(first, end)
        columns = {name: column[parts[KIND_OF[name]]] for name, column in self.columns.items()}
        return GroupStates(self.keys[first:end], {kind: size[first:end] for kind, size in self.sizes.items()}, columns)

    @property
    def timers(self) -> list[int | None]:
        """When time alone changes each group."""
        return [None if timer == _NEVER else timer for timer in self.columns["timer"].tolist()]

    @property
    def first_timer(self) -> int | None:
        """The first of these; None: time alone changes none of them."""
        timers = self.columns["timer"]
        return (
            int(timers.min(initial=np.iinfo(np.int64).max, where=timers != _NEVER))
            if np.any(timers != _NEVER)
            else None
        )

    def to_arrays(self) -> Arrays:
        """For `saved.pack`, beside keys."""
        out: Arrays = {f"{_SIZE}{kind}": size for kind, size in self.sizes.items()}
        for name, column in self.columns.items():
            out[name] = table_as_bytes(pa.table({"values": column})) if name in NAMES else column
        return out

    @classmethod
    def from_arrays(cls, keys: list[KeyText], arrays: Arrays) -> GroupStates:
        """The inverse of `to_arrays`, among other arrays."""
        sizes = {kind: arrays[f"{_SIZE}{kind}"] for kind in _OF if f"{_SIZE}{kind}" in arrays}
        columns: dict[str, Any] = {name: arrays[name] for name in KIND_OF if name in arrays}
        for name in NAMES:
            if name in columns:
                columns[name] = table_from_bytes(columns[name]).column(0).combine_chunks()
        return cls(keys, sizes, columns)


def joined(parts: Sequence[GroupStates]) -> GroupStates | None:
    """The groups of all parts, in order; None if there are none."""
    there = [each for each in parts if each.keys]
    if len(there) < 2:
        return there[0] if there else None
    columns = {}
    for name in there[0].columns:
        pieces = [each.columns[name] for each in there]
        columns[name] = joined_column(pieces, name) if name in NAMES else np.concatenate(pieces)
    sizes = {kind: np.concatenate([each.sizes[kind] for each in there]) for kind in there[0].sizes}
    return GroupStates([key for each in there for key in each.keys], sizes, columns)


def fits(loaded: LoadedGroup) -> bool:
    """Whether the group may lie beside others: it has nothing that has no columns here, and is small."""
    ahead, s = loaded.ahead, loaded.group.live.slots
    if loaded.waiting is not None or loaded.segments or loaded.sensors is not None or loaded.log is not None:
        return False
    if not ahead.holds_nothing:
        return False
    if loaded.group.ids > ROWS:
        return False
    if loaded.group.window is not None and loaded.group.window.size > ROWS:
        return False
    return loaded.group.live.alive <= ROWS and max(s.pool - len(s.lists.value), s.filled) <= VALUES


def saved_states(runner: GroupRunner, groups: Sequence[tuple[KeyText, LoadedGroup]]) -> GroupStates:
    """The states of groups that fit."""
    plan, each_group = runner.plan, [each for _, each in groups]
    columns = join_columns([each.group for each in each_group], len(plan.query.names), plan.id, plan.kept)
    numbers, sizes = header_columns([save_group(each.group) for each in each_group])
    sizes |= {kind: columns.pop(kind) for kind in ("pools", "sums")}
    heard = BucketColumns.of(each.ahead.heard for each in each_group)
    sizes["buckets"] = np.array([len(each.ahead.heard) for each in each_group], np.int64)
    columns |= numbers | {
        "clock": np.array([each.clock for each in each_group]),
        "timer": np.array([_NEVER if each.timer is None else each.timer for each in each_group], np.int64),
        "frontier": np.array([each.ahead.frontier for each in each_group]),
    }
    _put_buckets(columns, sizes, heard)
    return GroupStates([key for key, _ in groups], sizes, columns)


def loaded_groups(runner: GroupRunner, states: GroupStates) -> list[LoadedGroup]:
    """The groups again, each for itself."""
    arrays = states.columns | {kind: states.sizes[kind] for kind in ("pools", "sums")}
    groups = split_columns(headers_of(states.columns, states.sizes), arrays, runner.plan.query, runner.empty)
    heard, at, out = _buckets(states), 0, []
    each = (
        states.columns["clock"].tolist(),
        states.timers,
        states.columns["frontier"].tolist(),
        states.sizes["buckets"].tolist(),
    )
    for group, clock, timer, frontier, count in zip(groups, *each, strict=True):
        ahead = Ahead(frontier, heard.by_bucket(at, at + count))
        out.append(LoadedGroup(group, clock, None, timer, ahead))
        at += count
    return out


def _buckets(states: GroupStates) -> BucketColumns:
    return BucketColumns(*(states.columns[name] for name in (*_OF["buckets"], *_OF["hashes"])))


def _put_buckets(columns: dict[str, Any], sizes: dict[str, Ints], heard: BucketColumns) -> None:
    """Time buckets as columns; `sizes["buckets"]` is there."""
    columns |= dict(zip((*_OF["buckets"], *_OF["hashes"]), heard, strict=True))
    group = np.repeat(np.arange(len(sizes["buckets"])), sizes["buckets"])
    sizes["hashes"] = np.bincount(group, heard.sizes[:, 1], len(sizes["buckets"])).astype(np.int64)


def _taken(column: Any, places: Ints) -> Any:
    return column.take(pa.array(places)) if isinstance(column, pa.Array) else column[places]


# --- Groups that take their rows side by side -------------------------------------------------------------------------
#
# Which groups can take their rows together, and what becomes of them?
#
# Those whose rows simply enter: none is late, a copy, held, rejected or revised, and nothing has to be looked at that
# only a loaded group can do. That is nearly every group of nearly every call. They go from columns to columns
# (`engine.live`) and report what each would report alone. The others are left as they were, to be loaded one by one.
# A group takes an eighth of the time that it takes by itself (docs/results/small_changes.md).


FEW = 4  # groups for which it does not pay
SMALL = 2_000_000  # bytes that no group takes whose state lies beside others
MANY_ROWS = 64  # rows of one group for which it does not pay either


class Together(NamedTuple):
    """Groups that have taken their rows."""

    states: GroupStates
    result: BatchResult


class _Heard(NamedTuple):
    """What groups have heard, this call included."""

    newest: Floats  # (groups,) the greatest time
    frontier: Floats  # (groups,)
    buckets: BucketColumns  # what of it is kept, group after group
    sizes: Ints  # (groups,) how many buckets each keeps


class _Call(NamedTuple):
    """Groups, and what has come for them."""

    states: GroupStates
    come: MergedRows
    heard: _Heard
    rows: Batch  # instead of its id each has its place among `ids`
    group: Ints  # of each row
    ids: pa.Array  # of the rows that are saved, then of those that arrive
    clocks: Floats  # of each group from now on
    kept: pa.StructArray | None  # what else comes along with these rows, in the order of `ids`; None: nothing does


def may_go_together(plan: Plan) -> bool:
    """Whether groups of this plan ever do: each row enters once, as soon as it is there, and is not revised.

    Those that are to be explained are loaded, and skybands, whose live sets are of one group each; so are all, where
    even small ones may be too large.
    """
    query, hindsight = plan.query, plan.chain is not None and plan.chain.revising
    waits = plan.settles or plan.lateness or hindsight
    tight = plan.max_state is not None and plan.max_state < SMALL
    alone = query.latest or query.last is not None or query.skyband > 1
    return not (alone or waits or plan.explain or plan.views or tight)


def take_together(runner: GroupRunner, states: GroupStates, come: ArrivedRows) -> Together | None:
    """The groups take their rows, as many of them as can; None: none does."""
    call = _call(runner.plan, states, come)
    if call is None:
        return None
    chain = runner.plan.chain
    clipped = 0.0 if chain is None else chain.tally.clipped
    live = _live(runner.plan, call.states)
    changes, expired, odd = advance_all(
        live, call.clocks, call.rows, call.group, _names(call.ids), ticks=runner.plan.every == "tick"
    )
    assert chain is None or chain.tally.clipped == clipped, "only hindsight clips"
    saved = _saved(runner, call, live, expired)
    large = (saved.sizes["pools"] > VALUES) | (saved.sizes["sums"] > VALUES)
    stay = np.flatnonzero(~(odd | large | (saved.sizes["rows"] > ROWS)))
    if not len(stay):
        return None
    return Together(saved.part(stay.tolist()), _result(runner, call, live, changes, stay))


def _live(plan: Plan, states: GroupStates) -> ManyLiveSets:
    """The live sets of the groups, side by side. Instead of its id each row has its place among those of the states."""
    query, chain, columns = plan.query, plan.chain, states.columns
    fill, shared = (None, None) if chain is None else (chain.fill_sharing, chain.shared)
    live = ManyLiveSets(
        len(query.names), query.alpha, groups=len(states.keys), exact_limit=EXACT_LIMIT, known=plan.width, fill=fill,
        shared=shared,
    )  # fmt: skip
    fill_live(live, np.arange(len(columns["arrived"])), columns, states.sizes, columns["now"])
    live.finish_load()
    count_as_saved(live, columns["counts"], columns["shadowed"])
    return live


def _call(plan: Plan, states: GroupStates, arrived: ArrivedRows) -> _Call | None:
    """The groups whose rows simply enter, with those; None: there are too few."""
    come = arrived.together(states.keys)
    heard, near = _heard(plan, states, come)
    clock = states.columns["clock"]
    rows = empty_block(len(plan.query.names), plan.width) if come.rows is None else come.rows
    group, names = come.group, _ids(plan, come.rows)
    odd = _odd(group, rows.arrived, clock, names) | come.apart | ~near | ~np.isfinite(clock)
    if np.count_nonzero(~odd) < FEW:
        return None
    if odd.any():
        stay = np.flatnonzero(~odd)
        some = np.flatnonzero(~odd[group])
        rows, names, group = rows.part(some), names.take(pa.array(some)), np.searchsorted(stay, group[some])
        states, heard, come = states.part(stay.tolist()), _part(heard, odd), _some(come, stay)
    source = len(states.columns["arrived"]) + np.arange(len(group))
    coming = Batch(source, rows.arrived, rows.expires, rows.raw, rows.known, rows.uncertain)
    clocks = np.maximum(states.columns["clock"], heard.newest)
    ids = joined_column([states.columns["id"], names], "id")
    kept = None
    if plan.kept:
        own = as_structs(None, 0, plan.kept) if come.rows is None else structs_of(rows.columns, plan.kept)
        kept = joined_column([states.columns["kept"], own], "kept")
    return _Call(states, come, heard, coming, group, ids, clocks, kept)


def _heard(plan: Plan, states: GroupStates, come: MergedRows) -> tuple[_Heard, Flags]:
    """What the groups have heard, and (groups,) which of them have no row that runs ahead (see `clock_guard`)."""
    n, frontier = len(states.keys), states.columns["frontier"].copy()
    newest = np.full(n, -np.inf)
    np.maximum.at(newest, come.of_bucket, come.heard.times[:, 2])
    if plan.ahead == np.inf:
        return _Heard(newest, frontier, NO_BUCKETS, np.zeros(n, np.int64)), np.ones(n, np.bool_)
    of = np.concatenate((np.repeat(np.arange(n), states.sizes["buckets"]), come.of_bucket))
    both = end_to_end([_buckets(states), come.heard])
    number, count = numbered(of, both.times[:, 0])
    merged, group = merged_buckets(number, count, both), np.empty(count, np.int64)
    group[number] = of
    order = np.argsort(group, kind="stable")
    merged, group = merged.part(order), group[order]
    bucket, farthest = merged.times[:, 0], np.full(n, -np.inf)
    np.maximum.at(farthest, group, bucket)
    np.maximum.at(newest, group, merged.times[:, 2])
    for k in np.flatnonzero((farthest > frontier) & np.isfinite(frontier)).tolist():
        first, end = np.searchsorted(group, (k, k + 1)).tolist()
        frontier[k] = moved(float(frontier[k]), merged.by_bucket(first, end))
    kept = np.flatnonzero(bucket >= frontier[group] - 1)
    heard = _Heard(newest, frontier, merged.part(kept), np.bincount(group[kept], minlength=n))
    return heard, farthest <= frontier + 1


def _part(heard: _Heard, without: Flags) -> _Heard:
    """What groups have heard, but for some of them."""
    stay = ~without
    kept = np.flatnonzero(np.repeat(stay, heard.sizes))
    return _Heard(heard.newest[stay], heard.frontier[stay], heard.buckets.part(kept), heard.sizes[stay])


def _some(come: MergedRows, which: Ints) -> MergedRows:
    """What has come for some groups, but for the rows."""
    scores = {k: come.scores[g] for k, g in enumerate(which.tolist()) if g in come.scores}
    return come._replace(numbers=come.numbers[which], scores=scores)


def _ids(plan: Plan, rows: RowBlock | None) -> pa.Array:
    if rows is None:
        return pa.array([], plan.id)
    column = rows.columns.column(plan.query.id)
    return column if column.type == plan.id else pa.array(column.to_pylist(), plan.id)


def _odd(group: Ints, arrived: Floats, clocks: Floats, names: pa.Array) -> Flags:
    """(groups,) which have rows that are late or may be copies, or very many."""
    odd = np.bincount(group, minlength=len(clocks)) > MANY_ROWS
    odd[group[arrived <= clocks[group]]] = True
    order = np.lexsort((arrived, group))
    a, b = order[:-1], order[1:]
    for g in np.unique(group[a][(group[a] == group[b]) & (arrived[a] == arrived[b])]).tolist():
        own = np.flatnonzero(group == g)
        ids = names.take(pa.array(own)).to_pylist()
        odd[g] |= len(set(ids)) < len(ids)
    return odd


def _names(ids: pa.Array) -> Any:
    return lambda which: ids.take(pa.array(which)).to_pylist()


def _saved(runner: GroupRunner, call: _Call, live: ManyLiveSets, expired: Ints) -> GroupStates:
    """The states of the groups now."""
    was, rows = call.states, call.rows
    columns, sizes, source, _ = save_live(live)
    columns |= live_numbers(live)
    columns["id"] = call.ids.take(pa.array(source))
    if call.kept is not None:
        columns["kept"] = call.kept.take(pa.array(source))
    newest = was.columns["newest"].copy()
    np.maximum.at(newest, call.group, rows.arrived)
    columns["newest_id"], sizes["newest"] = _newest(call, newest)
    sizes["buckets"] = call.heard.sizes
    _put_buckets(columns, sizes, call.heard.buckets)
    each = zip(call.clocks.tolist(), newest.tolist(), live.slots.groups["soon"].tolist(), strict=True)
    timers = [runner.timers.of(clock, last, first) for clock, last, first in each]
    columns |= {
        "clock": call.clocks,
        "timer": np.array([_NEVER if timer is None else timer for timer in timers], np.int64),
        "frontier": call.heard.frontier,
        "newest": newest,
        "expired_on_arrival": was.columns["expired_on_arrival"] + expired,
    }
    return GroupStates(was.keys, was.sizes | sizes, was.columns | columns)


def _newest(call: _Call, newest: Floats) -> tuple[pa.Array, Ints]:
    """The ids of the rows that arrived at the newest instant of each group, and how many they are."""
    rows, was, groups = call.rows, call.states, len(newest)
    comes = np.bincount(call.group, minlength=groups) > 0
    of = np.repeat(np.arange(groups), was.sizes["newest"])
    old, new = np.flatnonzero(~comes[of]), np.flatnonzero(rows.arrived == newest[call.group])
    group = np.concatenate((of[old], call.group[new]))
    before = was.columns["newest_id"]
    whole = joined_column([before, call.ids.slice(len(was.columns["arrived"]))], "id")
    order = np.argsort(group, kind="stable")
    which = np.concatenate((old, len(before) + new))[order]
    return whole.take(pa.array(which)), np.bincount(group, minlength=groups)


def _result(runner: GroupRunner, call: _Call, live: ManyLiveSets, changes: Changes, which: Ints) -> BatchResult:
    """What the groups `which` report."""
    plan, keys = runner.plan, call.states.keys
    place = np.full(len(keys), -1, np.int64)
    place[which] = np.arange(len(which))
    by = key_columns([keys[k] for k in which.tolist()], plan.by)
    parts: BatchResult = []
    changes = changes[place[changes["group"]] >= 0]
    if len(changes):
        there = [each.take(pa.array(place[changes["group"]])) for each in by]
        parts.append((CHANGES, runner.tables.table(_columns(call, live, changes), there, plan.kinds)))
    numbers: dict[str, Any] = {name: call.come.numbers[which, k] for k, name in enumerate(NUMBERS)}
    numbers |= {"rows": numbers.pop("came")} | {name: each[which] for name, each in live.sizes().items()}
    scores = [call.come.scores.get(k, {}) for k in which.tolist()]
    return [*parts, (HEALTH, health_table(plan, by, call.clocks[which], numbers, scores))]


def _columns(call: _Call, live: ManyLiveSets, changes: Changes) -> Delta:
    s = live.slots
    first = s.groups["first"][changes["group"]]
    dominator = np.where(changes["dominator"] >= 0, first + changes["dominator"], changes["dominator"])

    def names(ids: Ints, hidden: Flags | None) -> pa.Array:
        return call.ids.take(pa.array(ids, mask=hidden))

    slot = first + changes["slot"]
    delta = s.delta(slot, changes["time"], columns_of(changes), dominator, names)
    return delta if call.kept is None else delta._replace(kept=call.kept.take(pa.array(s.id[slot])))
