"""What is written of a large group when a few of its ids change?

What reached it, an *update*, as a value of its own. The whole group lies beside it as it was a while ago, the *base*;
base and updates since lead to what it is now, to the bit, since an update has one outcome. When the updates have become
many, the base is written anew.

A worker that has the group at hand as it was a few updates ago takes those updates, instead of opening the base. A
state is known by its *mark*: the digest of the first base and all updates since. What is at hand under a mark that the
state does not know (a task was retried, another worker was faster) is not used. So it saves time, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np

from fogline.engine.group import Group
from fogline.pipeline import loaded as cache
from fogline.pipeline.exchange import from_arrays, to_arrays
from fogline.pipeline.latest import GroupUpdate, advance
from fogline.pipeline.loaded import Log, LoggedUpdate
from fogline.pipeline.plan import Plan
from fogline.rows.names import KeyText
from fogline.saved import Arrays
from fogline.state.format import from_value, to_value
from fogline.state.store import StateStore, must_get

FEW = 1_000  # ids of a group that is written as a whole every time
UPDATES = 64  # so many updates may lie behind the base, …
SHARE = 2  # … and their rows may be up to so many-th a part of the group
SPARE = 8  # updates that stay though the base holds them, for workers that have the group as it was before

_LOG = "changelog"  # in the store
_BASE = 0  # the part that is the base
_WHAT = "update of a group"


def read(plan: Plan, log: Log, store: StateStore, key: KeyText, load: Callable[[bytes], Group]) -> Group:
    """The group: as it is at hand, or from its base, and then update by update."""
    for mark in dict.fromkeys([*(update.mark for update in reversed(log.updates)), log.base]):
        if (found := cache.pop((mark.encode(), plan.digest))) is not None:
            return _replayed(plan, found.group, log.after(mark), store, key)
    return _replayed(plan, load(must_get(store, _LOG, key, _BASE)), log.after(log.base), store, key)


def _replayed(plan: Plan, group: Group, updates: tuple[LoggedUpdate, ...], store: StateStore, key: KeyText) -> Group:
    for each in updates:
        advance(plan, group, _opened(plan, must_get(store, _LOG, key, each.part)))
    return group


def write(
    plan: Plan,
    log: Log | None,
    group: Group,
    update: GroupUpdate | None,
    store: StateStore,
    key: KeyText,
    save: Callable[[], bytes],
) -> Log | None:
    """Write what the group's update makes necessary; where it lies then. None: it is small, and lies in the state.

    `update`: None: nothing has reached it.
    """
    ids = group.ids
    if ids <= FEW:
        clear(log, store, key)
        return None
    if update is None and log is not None:
        return log
    rows = 0 if update is None or update.rows is None else len(update.rows.arrived)
    if log is None or update is None or SHARE * rows > ids:
        clear(log, store, key)
        return _based(store, key, save(), None, ())
    packed = _packed(plan, update)
    mark = blake2b(log.mark.encode() + packed, digest_size=16).hexdigest()
    last = LoggedUpdate(1 + max((each.part for each in log.updates), default=_BASE), mark, rows)
    store.put(_LOG, key, last.part, packed)
    since = (*log.after(log.base), last)
    if len(since) <= UPDATES and SHARE * sum(each.rows for each in since) <= ids:
        return Log(log.base, log.size, (*log.updates, last))
    updates = (*log.updates, last)
    for each in updates[:-SPARE]:
        store.delete(_LOG, key, each.part)
    return _based(store, key, save(), mark, updates[-SPARE:])


def clear(log: Log | None, store: StateStore, key: KeyText) -> None:
    """Nothing is left of it."""
    if log is not None:
        for part in (_BASE, *(each.part for each in log.updates)):
            store.delete(_LOG, key, part)


def _based(store: StateStore, key: KeyText, saved: bytes, mark: str | None, updates: tuple[LoggedUpdate, ...]) -> Log:
    store.put(_LOG, key, _BASE, saved)
    return Log(mark or blake2b(saved, digest_size=16).hexdigest(), len(saved), updates)


def _packed(plan: Plan, update: GroupUpdate) -> bytes:
    header, arrays = {"since": update.since, "until": update.until}, Arrays()
    if update.rows is not None:
        named = update.rows._replace(columns=update.rows.columns.select([plan.query.id, *plan.query.kept]))
        arrays = to_arrays(named, plan.signs) | {"imputed": update.imputed}
    return to_value(header, arrays)


def _opened(plan: Plan, saved: bytes) -> GroupUpdate:
    header, arrays = from_value(saved, _WHAT)
    times = header["since"], header["until"]
    if "imputed" not in arrays:
        return GroupUpdate(*times, None, np.empty((0, len(plan.query.carry)), np.bool_))
    return GroupUpdate(*times, from_arrays(arrays, plan.signs, plan.width), arrays["imputed"])
