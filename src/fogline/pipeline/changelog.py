"""What is written of a large group when a few of its ids change?

What reached it: its *turn*, as a value of its own. The whole group lies beside it as it was a while ago, the *base*;
base and turns since lead to what it is now, to the bit, since a turn has one outcome. When the turns have become many,
the base is written anew.

A worker that has the group at hand as it was a few turns ago takes those turns, instead of opening the base. A state is
known by its *mark*: the digest of the first base and all turns since. What is at hand under a mark that the state does
not know (a task was retried, another worker was faster) is not used. So it saves time, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np

from fogline.engine.group import Group
from fogline.pipeline import loaded as cache
from fogline.pipeline.exchange import from_arrays, to_arrays
from fogline.pipeline.latest import GroupTurn, advance
from fogline.pipeline.loaded import Log, Noted
from fogline.pipeline.plan import Plan
from fogline.rows.names import Key
from fogline.saved import Arrays
from fogline.state.format import from_value, to_value
from fogline.state.store import StateStore, must_get

FEW = 1_000  # ids of a group that is written as a whole every time
TURNS = 64  # so many turns may lie behind the base, …
SHARE = 2  # … and their rows may be up to so many-th a part of the group
SPARE = 8  # turns that stay though the base holds them, for workers that have the group as it was before

_LOG = "changelog"  # in the store
_BASE = 0  # the part that is the base
_WHAT = "turn of a group"


def read(plan: Plan, log: Log, store: StateStore, key: Key, load: Callable[[bytes], Group]) -> Group:
    """The group: as it is at hand, or from its base, and then turn by turn."""
    for mark in dict.fromkeys([*(turn.mark for turn in reversed(log.turns)), log.base]):
        if (found := cache.pop((mark.encode(), plan.digest))) is not None:
            return _replayed(plan, found.group, log.after(mark), store, key)
    return _replayed(plan, load(must_get(store, _LOG, key, _BASE)), log.after(log.base), store, key)


def _replayed(plan: Plan, group: Group, turns: tuple[Noted, ...], store: StateStore, key: Key) -> Group:
    for each in turns:
        advance(plan, group, _opened(plan, must_get(store, _LOG, key, each.part)))
    return group


def write(
    plan: Plan,
    log: Log | None,
    group: Group,
    turn: GroupTurn | None,
    store: StateStore,
    key: Key,
    save: Callable[[], bytes],
) -> Log | None:
    """Write what the group's turn makes necessary; where it lies then. None: it is small, and lies in the state.

    `turn`: None: nothing has reached it.
    """
    ids = group.ids
    if ids <= FEW:
        clear(log, store, key)
        return None
    if turn is None and log is not None:
        return log
    rows = 0 if turn is None or turn.rows is None else len(turn.rows.arrived)
    if log is None or turn is None or SHARE * rows > ids:
        clear(log, store, key)
        return _based(store, key, save(), None, ())
    packed = _packed(plan, turn)
    mark = blake2b(log.mark.encode() + packed, digest_size=16).hexdigest()
    last = Noted(1 + max((each.part for each in log.turns), default=_BASE), mark, rows)
    store.put(_LOG, key, last.part, packed)
    since = (*log.after(log.base), last)
    if len(since) <= TURNS and SHARE * sum(each.rows for each in since) <= ids:
        return Log(log.base, log.size, (*log.turns, last))
    turns = (*log.turns, last)
    for each in turns[:-SPARE]:
        store.delete(_LOG, key, each.part)
    return _based(store, key, save(), mark, turns[-SPARE:])


def clear(log: Log | None, store: StateStore, key: Key) -> None:
    """Nothing is left of it."""
    if log is not None:
        for part in (_BASE, *(each.part for each in log.turns)):
            store.delete(_LOG, key, part)


def _based(store: StateStore, key: Key, saved: bytes, mark: str | None, turns: tuple[Noted, ...]) -> Log:
    store.put(_LOG, key, _BASE, saved)
    return Log(mark or blake2b(saved, digest_size=16).hexdigest(), len(saved), turns)


def _packed(plan: Plan, turn: GroupTurn) -> bytes:
    header, arrays = {"since": turn.since, "until": turn.until}, Arrays()
    if turn.rows is not None:
        named = turn.rows._replace(columns=turn.rows.columns.select([plan.query.id]))
        arrays = to_arrays(named, plan.signs) | {"imputed": turn.imputed}
    return to_value(header, arrays)


def _opened(plan: Plan, saved: bytes) -> GroupTurn:
    header, arrays = from_value(saved, _WHAT)
    times = header["since"], header["until"]
    if "imputed" not in arrays:
        return GroupTurn(*times, None, np.empty((0, len(plan.query.carry)), np.bool_))
    return GroupTurn(*times, from_arrays(arrays, plan.signs, plan.width), arrays["imputed"])
