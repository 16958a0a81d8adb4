"""How do many small groups lie in one value?

In columns, side by side: so many are opened, and saved, at the price of a few. Some can be taken out, and others put
in, without opening the rest. What a group seldom has (rows that wait or are held, readings of its sensors) has no
columns here: a group that has it, or is large, lies apart (`fits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Delta, Flags, Floats, Ints
from fogline.engine.group import advance_all, columns_of
from fogline.engine.live import MOST_EXACT, Changes, ManyLiveSets
from fogline.engine.slots import CELLS, POOLS
from fogline.engine.store import (
    COLUMNS,
    NAMES,
    count_as_saved,
    fill_live,
    join_columns,
    live_headers,
    save_group,
    save_live,
    split_columns,
)
from fogline.impute.scores import Sums, add
from fogline.pipeline import time_buckets
from fogline.pipeline.clock_guard import Ahead, Sifted, sift_ahead
from fogline.pipeline.exchange import NUMBERS, GroupRows, RowBlock, concat, empty_block
from fogline.pipeline.loaded import LoadedGroup
from fogline.pipeline.names import CHANGES, HEALTH
from fogline.pipeline.plan import Plan
from fogline.pipeline.report import Journal, health_table
from fogline.pipeline.runner import GroupRunner
from fogline.rows.kept import as_structs, structs_of
from fogline.rows.names import KeyText, key_columns
from fogline.rows.table import joined_column
from fogline.saved import Arrays, table_as_bytes, table_from_bytes

ROWS = 256  # live rows of a group that lies here, at most …
VALUES = 8_192  # … and values of their distributions, and sums

# Of which each group has how many: the columns that lie side by side.
_OF = {
    "rows": (*CELLS, *COLUMNS, "raw", "known", "id", "kept", "guard", "version"),
    "pools": POOLS,
    "sums": ("logs", "zeros"),
    "newest": ("newest_id",),
    "queue": ("queue_arrived", "queue_id"),
    "out": ("joint",),
    "open": ("open",),
    "markers": ("marker_time", "marker_version", "marker_id"),
    "buckets": (f"{time_buckets.PREFIX}times", f"{time_buckets.PREFIX}sizes"),
    "hashes": (f"{time_buckets.PREFIX}ids",),
}  # fmt: skip
SORT_OF = {name: kind for kind, names in _OF.items() for name in names}
_SIZE = "size of "  # before the names of arrays


class Bundle(NamedTuple):
    """Groups side by side."""

    keys: list[KeyText]
    headers: list[dict[str, Any]]
    sizes: dict[str, Ints]  # of each sort of column, how many cells each group has
    columns: dict[str, Any]  # arrays, Arrow's for names

    def part(self, which: Sequence[int]) -> Bundle:
        """Some of the groups."""
        if len(which) == len(self.keys) and all(k == i for k, i in enumerate(which)):
            return self
        some = np.array(which, np.int64)
        places = {kind: _places(size, some) for kind, size in self.sizes.items()}
        columns = {name: _taken(column, places[SORT_OF[name]]) for name, column in self.columns.items()}
        sizes = {kind: size[some] for kind, size in self.sizes.items()}
        return Bundle([self.keys[i] for i in which], [self.headers[i] for i in which], sizes, columns)

    def to_arrays(self) -> Arrays:
        """For `saved.pack`, beside keys and headers."""
        out: Arrays = {f"{_SIZE}{kind}": size for kind, size in self.sizes.items()}
        for name, column in self.columns.items():
            out[name] = table_as_bytes(pa.table({"values": column})) if name in NAMES else column
        return out

    @classmethod
    def from_arrays(cls, keys: list[KeyText], headers: list[dict[str, Any]], arrays: Arrays) -> Bundle:
        """The inverse of `to_arrays`, among other arrays."""
        sizes = {kind: arrays[f"{_SIZE}{kind}"] for kind in _OF if f"{_SIZE}{kind}" in arrays}
        columns: dict[str, Any] = {name: arrays[name] for name in SORT_OF if name in arrays}
        for name in NAMES:
            if name in columns:
                columns[name] = table_from_bytes(columns[name]).column(0).combine_chunks()
        return cls(keys, headers, sizes, columns)


def joined(bundles: Sequence[Bundle]) -> Bundle | None:
    """The groups of all bundles, in order; None if there are none."""
    there = [each for each in bundles if each.keys]
    if len(there) < 2:
        return there[0] if there else None
    columns = {}
    for name in there[0].columns:
        parts = [each.columns[name] for each in there]
        columns[name] = joined_column(parts, name) if name in NAMES else np.concatenate(parts)
    sizes = {kind: np.concatenate([each.sizes[kind] for each in there]) for kind in there[0].sizes}
    keys, headers = ([one for each in there for one in getattr(each, name)] for name in ("keys", "headers"))
    return Bundle(keys, headers, sizes, columns)


def fits(loaded: LoadedGroup) -> bool:
    """Whether the group may lie in a bundle: it has nothing that has no columns here, and is small."""
    ahead, s = loaded.ahead, loaded.group.live.slots
    if loaded.waiting is not None or loaded.slots or loaded.sensors is not None or loaded.log is not None:
        return False
    if not ahead.holds_nothing:
        return False
    if loaded.group.ids > ROWS:
        return False
    if loaded.group.window is not None and loaded.group.window.size > ROWS:
        return False
    return loaded.group.live.alive <= ROWS and max(s.pool - len(s.lists.value), s.filled) <= VALUES


def bundled(runner: GroupRunner, groups: Sequence[tuple[KeyText, LoadedGroup]]) -> Bundle:
    """Groups that fit as they lie in a bundle."""
    plan = runner.plan
    columns = join_columns([each.group for _, each in groups], len(plan.query.names), plan.id, plan.kept)
    headers = [
        {"clock": each.clock, "timer": each.timer, "frontier": each.ahead.frontier, **save_group(each.group)}
        for _, each in groups
    ]
    latest = [each["latest"] or {"out": 0, "open": 0, "markers": 0} for each in headers]
    counts = {
        "rows": [each["rows"] for each in headers],
        "newest": [each["newest_ids"] for each in headers],
        "queue": [0 if each["order"] is None else each["order"][1] for each in headers],
        **{kind: [each[kind] for each in latest] for kind in ("out", "open", "markers")},
        "buckets": [len(each.ahead.heard) for _, each in groups],
        "hashes": [sum(len(cell.ids) for cell in each.ahead.heard.values()) for _, each in groups],
    }
    sizes = {kind: np.array(each, np.int64) for kind, each in counts.items()}
    sizes |= {kind: columns.pop(kind) for kind in ("pools", "sums")}
    cells = [(bucket, cell) for _, each in groups for bucket, cell in each.ahead.heard.items()]
    heard = time_buckets.columns([bucket for bucket, _ in cells], [cell for _, cell in cells])
    columns |= heard or {
        f"{time_buckets.PREFIX}times": np.empty((0, 3)),
        f"{time_buckets.PREFIX}sizes": np.empty((0, 2), np.int64),
        f"{time_buckets.PREFIX}ids": time_buckets.NO_IDS,
    }
    return Bundle([key for key, _ in groups], headers, sizes, columns)


def unbundled(runner: GroupRunner, bundle: Bundle) -> list[LoadedGroup]:
    """The groups of a bundle, loaded."""
    arrays = bundle.columns | {kind: bundle.sizes[kind] for kind in ("pools", "sums")}
    groups = split_columns(bundle.headers, arrays, runner.plan.query, runner.empty)
    cells, at, out = time_buckets.cells_of(bundle.columns), 0, []
    for group, header, count in zip(groups, bundle.headers, bundle.sizes["buckets"].tolist(), strict=True):
        ahead = Ahead(header["frontier"], dict(cells[at : at + count]))
        out.append(LoadedGroup(group, header["clock"], None, header["timer"], ahead))
        at += count
    return out


def _places(size: Ints, which: Ints) -> Ints:
    """Where the cells of some groups lie, group after group."""
    length = size[which]
    end = np.cumsum(length)
    begin = (np.cumsum(size) - size)[which]
    return np.repeat(begin - (end - length), length) + np.arange(end[-1] if len(end) else 0)


def _taken(column: Any, places: Ints) -> Any:
    return column.take(pa.array(places)) if isinstance(column, pa.Array) else column[places]


# --- Groups that take their rows side by side -------------------------------------------------------------------------
#
# Which groups of a bundle can take their rows together, and what becomes of them?
#
# Those whose rows simply enter: none is late, a copy, held, rejected or revised, and nothing has to be looked at that
# only a loaded group can do. That is nearly every group of nearly every call. They go from columns to columns
# (`engine.live`) and report what each would report alone. The others are left as they were, to be loaded one by one.


FEW = 4  # groups for which it does not pay
SMALL = 2_000_000  # bytes that no group in a bundle takes
MANY_ROWS = 64  # rows of one group for which it does not pay either


class Together(NamedTuple):
    """Groups that have taken their rows."""

    bundle: Bundle
    journal: Journal


class _ManyTurns(NamedTuple):
    """Groups of a bundle, and what has come for them."""

    bundle: Bundle
    come: list[Sequence[GroupRows]]
    sifted: list[Sifted]
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


def take_together(runner: GroupRunner, bundle: Bundle, come: Mapping[KeyText, Sequence[GroupRows]]) -> Together | None:
    """The groups of a bundle take their rows, as many of them as can; None: none does."""
    call = _call(runner.plan, bundle, come)
    if call is None:
        return None
    chain, there = runner.plan.chain, call.bundle
    clipped = 0.0 if chain is None else chain.tally.clipped
    groups = _loaded(runner.plan, there)
    changes, expired, odd = advance_all(
        groups, call.clocks, call.rows, call.group, _names(call.ids), ticks=runner.plan.every == "tick"
    )
    assert chain is None or chain.tally.clipped == clipped, "only hindsight clips"
    saved = _saved(runner, call, groups, expired)
    large = (saved.sizes["pools"] > VALUES) | (saved.sizes["sums"] > VALUES)
    stay = np.flatnonzero(~(odd | large | (saved.sizes["rows"] > ROWS)))
    if not len(stay):
        return None
    return Together(saved.part(stay.tolist()), _journal(runner, call, groups, changes, stay))


def _loaded(plan: Plan, bundle: Bundle) -> ManyLiveSets:
    """The groups of a bundle side by side. Instead of its id each row has its place among those of the bundle."""
    query, chain = plan.query, plan.chain
    fill, shared = (None, None) if chain is None else (chain.fill_sharing, chain.shared)
    groups = ManyLiveSets(
        len(query.names), query.alpha, groups=len(bundle.keys), instances=MOST_EXACT, known=plan.width, fill=fill,
        shared=shared,
    )  # fmt: skip
    fill_live(groups, np.arange(len(bundle.columns["arrived"])), bundle.columns, bundle.sizes, bundle.headers)
    groups.finish_load()
    count_as_saved(groups, bundle.headers)
    return groups


def _call(plan: Plan, bundle: Bundle, come: Mapping[KeyText, Sequence[GroupRows]]) -> _ManyTurns | None:
    """The groups whose rows simply enter, with those; None: there are too few."""
    cells, at = time_buckets.cells_of(bundle.columns), 0
    sifted: list[Sifted] = []
    which = []
    for k, (key, header, heard) in enumerate(
        zip(bundle.keys, bundle.headers, bundle.sizes["buckets"].tolist(), strict=True)
    ):
        some = come[key]
        found = sift_ahead(Ahead(header["frontier"], dict(cells[at : at + heard])), some, plan.ahead)
        at += heard
        if _is_plain(found, some, header["clock"]):
            which.append(k)
            sifted.append(found)
    taken = [[block for block in found.taken if len(block.arrived)] for found in sifted]
    blocks = [block for some in taken for block in some]
    rows = concat(blocks) if blocks else empty_block(len(plan.query.names), plan.width)
    group = np.repeat(np.arange(len(which)), [sum(len(block.arrived) for block in some) for some in taken])
    before = np.array([bundle.headers[k]["clock"] for k in which])
    names = _ids(plan, rows, bool(blocks))
    odd = _odd(group, rows.arrived, before, names)
    stay = np.flatnonzero(~odd)
    if len(stay) < FEW:
        return None
    there = bundle.part([which[k] for k in stay])
    if odd.any():
        some_rows = np.flatnonzero(~odd[group])
        group = np.searchsorted(stay, group[some_rows])
        rows, names = rows.part(some_rows), names.take(pa.array(some_rows))
    source = len(there.columns["arrived"]) + np.arange(len(group))
    coming = Batch(source, rows.arrived, rows.expires, rows.raw, rows.known, rows.uncertain)
    found_of = [sifted[k] for k in stay]
    clocks = np.maximum(before[stay], [each.newest for each in found_of])
    ids = joined_column([there.columns["id"], names], "id")
    kept = None
    if plan.kept:
        own = structs_of(rows.columns, plan.kept) if blocks else as_structs(None, 0, plan.kept)
        kept = joined_column([there.columns["kept"], own], "kept")
    return _ManyTurns(there, [come[key] for key in there.keys], found_of, coming, group, ids, clocks, kept)


def _is_plain(found: Sifted, come: Sequence[GroupRows], clock: float) -> bool:
    if found.anew or found.released or found.revisions is not None or found.newly_held:
        return False
    return found.state.holds_nothing and np.isfinite(clock) and not any(each.rejects for each in come)


def _ids(plan: Plan, rows: RowBlock, there: bool) -> pa.Array:
    if not there:
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


def _saved(runner: GroupRunner, call: _ManyTurns, groups: ManyLiveSets, expired: Ints) -> Bundle:
    """The groups as they are to lie."""
    was, rows = call.bundle, call.rows
    columns, sizes, source, _ = save_live(groups)
    columns["id"] = call.ids.take(pa.array(source))
    if call.kept is not None:
        columns["kept"] = call.kept.take(pa.array(source))
    newest = np.array([each["newest"] for each in was.headers], np.float64)
    np.maximum.at(newest, call.group, rows.arrived)
    columns["newest_id"], sizes["newest"] = _newest(call, newest)
    cells = [(bucket, cell) for each in call.sifted for bucket, cell in each.state.heard.items()]
    sizes["buckets"] = np.array([len(each.state.heard) for each in call.sifted], np.int64)
    sizes["hashes"] = np.array([sum(len(c.ids) for c in each.state.heard.values()) for each in call.sifted], np.int64)
    columns |= time_buckets.columns([bucket for bucket, _ in cells], [cell for _, cell in cells])
    headers = _headers(runner, call, groups, (newest, sizes["newest"], expired))
    return Bundle(was.keys, headers, was.sizes | sizes, was.columns | columns)


def _headers(
    runner: GroupRunner, call: _ManyTurns, groups: ManyLiveSets, more: tuple[Floats, Ints, Ints]
) -> list[dict[str, Any]]:
    soon = groups.slots.groups["soon"]
    each_group = zip(*(each.tolist() for each in (call.clocks, soon, *more)), strict=True)
    out = []
    for was, found, live, (clock, first, newest, ids, expired) in zip(
        call.bundle.headers, call.sifted, live_headers(groups), each_group, strict=True
    ):
        timer = runner.timers.of(clock, newest, first)
        own = {"clock": clock, "timer": timer, "frontier": found.state.frontier, "newest": newest, "newest_ids": ids}
        out.append(was | live | own | {"expired_on_arrival": was["expired_on_arrival"] + expired})
    return out


def _newest(call: _ManyTurns, newest: Floats) -> tuple[pa.Array, Ints]:
    """The ids of the rows that arrived at the newest instant of each group, and how many they are."""
    rows, was, groups = call.rows, call.bundle, len(newest)
    comes = np.bincount(call.group, minlength=groups) > 0
    of = np.repeat(np.arange(groups), was.sizes["newest"])
    old, new = np.flatnonzero(~comes[of]), np.flatnonzero(rows.arrived == newest[call.group])
    group = np.concatenate((of[old], call.group[new]))
    before = was.columns["newest_id"]
    whole = joined_column([before, call.ids.slice(len(was.columns["arrived"]))], "id")
    order = np.argsort(group, kind="stable")
    which = np.concatenate((old, len(before) + new))[order]
    return whole.take(pa.array(which)), np.bincount(group, minlength=groups)


def _journal(runner: GroupRunner, call: _ManyTurns, groups: ManyLiveSets, changes: Changes, which: Ints) -> Journal:
    """What the groups `which` report."""
    plan, bundle = runner.plan, call.bundle
    place = np.full(len(bundle.keys), -1, np.int64)
    place[which] = np.arange(len(which))
    by = key_columns([bundle.keys[k] for k in which], plan.by)
    parts: Journal = []
    changes = changes[place[changes["group"]] >= 0]
    if len(changes):
        there = [each.take(pa.array(place[changes["group"]])) for each in by]
        parts.append((CHANGES, runner.tables.table(_columns(call, groups, changes), there, plan.kinds)))
    some = [call.come[k] for k in which]
    numbers: dict[str, Any] = {
        name: [sum(getattr(one, name) for one in each) for each in some] for name in NUMBERS if name != "came"
    }
    numbers |= {"rows": [sum(one.came for one in each) for each in some]}
    numbers |= {name: each[which] for name, each in groups.sizes().items()}
    scores = [_scores(each) for each in some]
    return [*parts, (HEALTH, health_table(plan, by, call.clocks[which], numbers, scores))]


def _scores(come: Sequence[GroupRows]) -> Sums:
    scores: Sums = {}
    for each in come:
        add(scores, each.scores)
    return scores


def _columns(call: _ManyTurns, groups: ManyLiveSets, changes: Changes) -> Delta:
    s = groups.slots
    first = s.groups["first"][changes["group"]]
    dominator = np.where(changes["dominator"] >= 0, first + changes["dominator"], changes["dominator"])

    def names(ids: Ints, hidden: Flags | None) -> pa.Array:
        return call.ids.take(pa.array(ids, mask=hidden))

    slot = first + changes["slot"]
    delta = s.delta(slot, changes["time"], columns_of(changes), dominator, names)
    return delta if call.kept is None else delta._replace(kept=call.kept.take(pa.array(s.id[slot])))
