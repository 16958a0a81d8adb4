"""What does a row that lacks a value carry over from the row that it replaces?

Where each id has one current row, some attributes are facts (a location) that not every row repeats. A row that comes
without such a value gets that of its id's current row: as that row came with it, or carried it over itself; a number or
a distribution. A row that was removed, has expired or is stale gives nothing. An imputed value is no fact and is not
carried over: the gap is imputed anew.

Rows of one id are taken in the order of (time, version). So a value is that of the last row of the id before it that
has one, as far back as each row replaced the one before. It does not matter how rows are cut into calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints, UncertainRows, empty_rows
from fogline.engine.group import Group, taken_at
from fogline.engine.latest import LatestGroup
from fogline.kernels.uncertain import dense

_STANDING, _ROW, _REMOVAL = 0, 1, 2  # of one id, time and version they follow in this order


class Standing(NamedTuple):
    """What a group holds of m ids before a call: the current row, or the marker of one that was removed or expired."""

    name: Ints  # (m,) the number of the id
    time: Floats  # (m,)
    version: Ints  # (m,)
    expires: Floats  # (m,) -inf: it is gone
    raw: Floats  # (m, d) as it came
    uncertain: UncertainRows
    fact: Flags  # (m, d) which cells it came with or carried over


class Coming(NamedTuple):
    """The rows and removals of a call, of any ids; of one id, time and version at most one of either."""

    name: Ints  # (n,) the number of the id
    time: Floats  # (n,)
    version: Ints  # (n,)
    expires: Floats  # (n,)
    gone: Flags  # (n,)
    raw: Floats  # (n, d)
    uncertain: UncertainRows


def carry_over(coming: Coming, standing: Standing, columns: Ints, clock: float) -> tuple[Floats, UncertainRows]:
    """The rows' values as they came (n, d) and the uncertain rows, both with what they carry over in these columns.

    Rows from before the `clock` are taken at the clock. O(n log n + m).
    """
    n, m = len(coming.name), len(standing.name)
    name, time, version, expires = (
        np.concatenate((getattr(coming, each), getattr(standing, each)))
        for each in ("name", "time", "version", "expires")
    )
    kind = np.concatenate((np.where(coming.gone, _REMOVAL, _ROW), np.full(m, _STANDING)))
    order = np.lexsort((kind, version, time, name))
    order = order[_in_force(name[order], kind[order] == _STANDING)]
    name, time, expires, kind = name[order], time[order], expires[order], kind[order]
    gives_on = (kind[:-1] != _REMOVAL) & (expires[:-1] > taken_at(time[1:], clock)) & (name[1:] == name[:-1])
    begins = np.maximum.accumulate(np.where(np.concatenate(([True], ~gives_on)), np.arange(len(order)), 0))
    raw, uncertain = np.concatenate((coming.raw, standing.raw)), _joined([coming.uncertain, standing.uncertain])
    has = np.concatenate((~np.isnan(coming.uncertain.lo), standing.fact))[order]
    for j in columns.tolist():
        last = np.maximum.accumulate(np.where(has[:, j] & (kind != _REMOVAL), np.arange(len(order)), -1))
        needs = np.flatnonzero((kind == _ROW) & ~has[:, j] & (last >= begins))
        to, source = order[needs], order[last[needs]]
        for array in (raw, uncertain.lo, uncertain.hi, uncertain.start, uncertain.size):
            array[to, j] = array[source, j]
    return raw[:n], uncertain.part(slice(n))


def standing_of(group: Group, ids: Sequence[Any], name: Ints, columns: Ints, clock: float) -> Standing:
    """What a group holds of the ids, whose numbers in the call are `name`.

    Of a row's `known` numbers the last ones, one per column, state whether the cell was imputed: 0 means it was not.
    """
    assert isinstance(group, LatestGroup)
    names, s = group.names, group.live.slots
    number = np.array([names.number.get(each, -1) for each in ids], np.int64)
    name, number = name[number >= 0], number[number >= 0]
    there = names.slot[number] >= 0
    marked = ~there & (names.time[number] + names.remember >= clock)
    d, order = s.d, np.concatenate((np.flatnonzero(there), np.flatnonzero(marked)))
    number, name, m = number[order], name[order], int(np.count_nonzero(marked))
    slots = names.slot[number[: len(number) - m]]
    uncertain, fact = dense(s.uncertain, slots, s.shared), np.zeros((len(slots), d), np.bool_)
    fact[:, columns] = s.known[slots, s.known.shape[1] - len(columns) :] == 0.0
    return Standing(
        name,
        names.time[number],
        names.version[number],
        np.concatenate((s.columns.expires[slots], np.full(m, -np.inf))),
        np.concatenate((s.raw[slots], np.full((m, d), np.nan))),
        _joined([uncertain, empty_rows(m, d, 0)]),
        np.concatenate((fact, np.zeros((m, d), np.bool_))),
    )


def join_standing(parts: Sequence[Standing], d: int) -> Standing:
    """What several groups hold, as one."""
    whole, real = np.empty(0, np.int64), np.empty(0)
    none = Standing(whole, real, whole, real, np.empty((0, d)), empty_rows(0, d, 0), np.empty((0, d), np.bool_))
    parts = [none, *parts]

    def joined(name: str) -> Any:
        return np.concatenate([getattr(each, name) for each in parts])

    numbers = joined("name"), joined("time"), joined("version"), joined("expires"), joined("raw")
    return Standing(*numbers, _joined([each.uncertain for each in parts]), joined("fact"))


def _in_force(name: Ints, standing: Flags) -> Flags:
    """(n,) the events that are not stale: not older than what stands of their id. They lie by (id, time, version)."""
    n = len(name)
    first = np.maximum.accumulate(np.where(np.concatenate(([True], name[1:] != name[:-1])), np.arange(n), 0))
    last_standing = np.maximum.accumulate(np.where(standing, np.arange(n), -1))
    behind = last_standing >= first  # what stands of the id lies before the event, or is the event
    some = np.isin(name, name[standing])
    return np.asarray(behind | ~some)


def _joined(parts: Sequence[UncertainRows]) -> UncertainRows:
    """Uncertain rows one after the other, with one pool."""
    ends = np.cumsum([0, *(len(each.value) for each in parts)]).tolist()
    start = [np.where(each.start >= 0, each.start + end, each.start) for each, end in zip(parts, ends, strict=False)]

    def joined(name: str) -> Any:
        return np.concatenate([getattr(each, name) for each in parts])

    cells = joined("lo"), joined("hi"), np.concatenate(start), joined("size")
    return UncertainRows(*cells, joined("value"), joined("weight"), joined("tail"))
