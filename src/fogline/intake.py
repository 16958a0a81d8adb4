"""Which rows of a call are taken, and as what?

First it is decided what each row is, from the rows and what is known of earlier ones; only then anything changes.
Rejects go out with their reasons, gaps get bounds, and the others go to their groups. Where each id has one current row
(`latest`), removals are set apart, a row may carry values over from the row that it replaces, and one that is stale
goes no further than into its sensor's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from warnings import warn

import numpy as np

from fogline.arrays import Batch, Flags, Floats, Ints, Removals, Revisions, UncertainRows, objects
from fogline.engine.carry import Coming, Standing, carry_over, join_standing, standing_of
from fogline.engine.current import LatestGroup
from fogline.engine.group import Group, entered
from fogline.errors import RowsWarning
from fogline.impute.intake import (
    Asked,
    Imputed,
    answered_at_once,
    decided,
    lacking_context,
    put,
    refused_first,
    unable,
    unlooked,
    why_rejected,
)
from fogline.kernels.sensors import COPY
from fogline.kernels.uncertain import extent
from fogline.repository.sensors.gaps import Revised
from fogline.repository.sensors.state import sensor_names
from fogline.results import Reject
from fogline.rows.changes import Key
from fogline.rows.names import (
    DUPLICATE,
    Contents,
    Copies,
    copies_of,
    others,
    stamp_names,
)
from fogline.rows.reader import Decoded, Named

if TYPE_CHECKING:
    from fogline.monitor import Monitor


Keys = Sequence[Key] | None  # of each row; None: there is one group
Parts = TypeVar("Parts", Batch, Removals)


class TakenRows(NamedTuple):
    """What a call has for each group."""

    rows: dict[Key, Batch]
    revisions: dict[Key, Revisions]
    removals: dict[Key, Removals]


NOTHING = TakenRows({}, {}, {})


def take(monitor: Monitor, read: Named) -> TakenRows:
    """Decide what each row is; then rejects go out, and the others to their groups, with what they revise."""
    keys = list(zip(*read.by, strict=True)) if monitor.query.by else None
    taken = _take_latest(monitor, read, keys) if monitor.query.latest else _take(monitor, read, keys)
    _count(monitor, read.rows)
    return taken


def _take(monitor: Monitor, read: Named, keys: Keys) -> TakenRows:
    """Where every row counts for itself."""
    _refuse_entered(monitor, read, keys)
    rows = _answered_at_once(monitor, read.rows, read.rows.left())
    which = rows.left()
    every = slice(None) if which is None else which
    ids, arrived = (
        (read.id, rows.arrived) if which is None else ([read.id[k] for k in which.tolist()], rows.arrived[which])
    )
    names = ids if keys is None else [(keys[k], read.id[k]) for k in np.arange(len(read.id))[every].tolist()]
    contents = partial(_contents, rows, which, monitor.query.signs)
    copies = copies_of(stamp_names(names, arrived, None), contents)
    known, uncertain, revised, fate = _impute(monitor, read._replace(rows=rows), keys, which, copies)
    for k in np.flatnonzero(fate == COPY).tolist() if copies else ():
        rows.refused[k if which is None else int(which[k])] = DUPLICATE
    revisions = _revisions(monitor, read, keys, every, revised)
    batch = Batch(objects(ids), arrived, rows.expires[every], rows.raw[every], known, uncertain)
    if (which := rows.left()) is not None and len(which) < len(batch.id):  # some are rejected by now
        stay = np.isin(np.arange(len(read.id))[every], which)
        batch = batch.part(np.flatnonzero(stay))
    if keys is None:
        return TakenRows({(): batch} if len(batch.id) else {}, revisions, {})
    by_key = _by_key(keys, which, len(keys), numbered=True)
    return TakenRows({key: batch.part(np.array(rows, np.int64)) for key, rows in by_key.items()}, revisions, {})


def _take_latest(monitor: Monitor, read: Named, keys: Keys) -> TakenRows:
    """Where each id has one current row."""
    columns = np.array([monitor.query.names.index(name) for name in monitor.query.carry], np.int64)
    if len(columns):
        called, which, ignored, copies, imputed = _carried(monitor, read, keys, columns)
    else:
        if monitor.chain is not None and read.rows.gaps:
            stays = np.flatnonzero(~(read.rows.removals() | _among(np.arange(len(read.id)), read.rows.refused)))
            read = read._replace(rows=_answered_at_once(monitor, read.rows, stays))
        called = _Call(monitor, read, keys)
        which, ignored, copies = called.in_turn()
        imputed = np.zeros((len(which), 0), np.bool_)
    rows, stale = called.read.rows, _among(which, ignored)
    every = None if len(which) == len(read.id) and called.at_once else which
    known, uncertain, _, fate = _impute(monitor, called.read, keys, every, copies, stale)
    if len(columns):  # what was imputed is no fact, should the next row lack it
        known = np.hstack((known, imputed))
    called.ignore(ignored)
    ids, some = objects(read.id), slice(None) if every is None else which
    cells = rows.arrived[some], rows.expires[some], rows.raw[some], known, uncertain
    batch = Batch(ids[some], *cells, called.version[some])
    if len(ignored) or rows.refused or copies:
        stay = ~(stale | _among(which, rows.refused) | (fate == COPY))
        batch, which = batch.part(stay), which[stay]
    removed = np.flatnonzero(called.gone)
    removals = Removals(ids[removed], rows.arrived[removed], called.version[removed])
    return TakenRows(_of_groups(batch, which, keys), {}, _of_groups(removals, removed, keys))


def _carried(monitor: Monitor, read: Named, keys: Keys, columns: Ints) -> tuple[_Call, Ints, Ints, Copies, Flags]:
    """The rows with what they carry over in these columns, then with what imputers give that cannot wait; as `in_turn`,
    and (which, columns) the cells that nothing is carried over to.

    What is rejected gives nothing, and is no copy of another: once more without it, of each id the first that is.
    """
    while True:
        called, before = _Call(monitor, read, keys), len(read.rows.refused)
        which, ignored, copies = called.in_turn()
        which = np.delete(which, others(copies)) if copies else which
        carried = called.carried(which, columns)
        rows = _answered_at_once(monitor, carried, which)
        if len(rows.refused) == before:
            asked = Asked(which, _sensors(monitor, read, keys, which), [], _among(which, ignored))
            _refuse_first(monitor, read._replace(rows=rows), asked, called.names(which), columns, bool(copies))
        if len(rows.refused) == before:
            called.read = read._replace(rows=rows)
            return called, which, ignored, [], np.isnan(carried.uncertain.lo[which][:, columns])


def _refuse_first(monitor: Monitor, read: Named, asked: Asked, names: list[Any], columns: Ints, copied: bool) -> None:
    """Refuse rows with gaps that nothing can fill, as many as are sure of it. `copied`: some have copies."""
    rows, intake, chain, which = read.rows, monitor.intake, monitor.chain, asked.which
    assert which is not None
    needs = lacking_context(chain, rows, which, asked.spared)
    if needs is None:
        return
    number: dict[Any, int] = {}
    name = np.array([number.setdefault(each, len(number)) for each in names], np.int64)
    carried = np.arange(needs.shape[1]) if copied and chain is not None else columns  # a copy may have what it lacks
    unable = np.asarray(needs.any(axis=1)) if intake is None else intake.unable(rows, asked, needs)
    for k in refused_first(chain, needs, unable, carried, name, rows.arrived[which]).tolist():
        i, j = int(which[k]), int(np.flatnonzero(needs[k])[0])
        _refuse_gap(monitor, read, i, why_rejected(monitor.query, j, rows.raw[i, j], monitor.repository))


def _refuse_gap(monitor: Monitor, read: Named, i: int, reason: str) -> None:
    """Refuse a row with a gap that nothing can fill; where there is no repository, the first is warned of.

    Nothing has changed yet, so a caller who makes an error of the warning can make the call again.
    """
    if i in read.rows.refused:
        return
    read.rows.refused[i] = reason
    if monitor.repository is None and not monitor.warned:
        warn(
            f"row {read.id[i]!r} is rejected, as every row is with a gap that nothing fills: {reason}. Fit one to "
            "complete history, Monitor(query, fl.Repository.fit(history, query)), or give such a cell a list of "
            "(value, weight) pairs.",
            RowsWarning,
            stacklevel=6,
        )
        monitor.warned = True


def _answered_at_once(monitor: Monitor, rows: Decoded, which: Ints | None) -> Decoded:
    """The rows, of which those `which` (None: all) count, with what imputers give that cannot wait."""
    return rows if monitor.chain is None or not rows.gaps else answered_at_once(monitor.chain, rows, which)


def _sensors(monitor: Monitor, read: Named, keys: Keys, which: Ints | None) -> list[Any]:
    """What the sensors of these rows are called; nothing, where none are remembered."""
    if monitor.intake is None or monitor.intake.state is None:
        return []
    if which is None:
        return sensor_names(read.id, keys)
    some = which.tolist()
    return sensor_names([read.id[k] for k in some], None if keys is None else [keys[k] for k in some])


def _of_groups(parts: Parts, which: Ints, keys: Keys) -> dict[Key, Parts]:
    """The parts, those of the rows `which`, by their groups."""
    if keys is None:
        return {(): parts} if len(which) else {}
    by_key = _by_key(keys, which, 0, numbered=True)
    return {key: parts.part(np.array(some, np.int64)) for key, some in by_key.items()}


def _among(which: Ints, some: Collection[int] | Ints) -> Flags:
    """(which,) those that are among some others, mostly none."""
    return np.isin(which, list(some)) if len(some) else np.zeros(len(which), np.bool_)


class _Call:
    """The rows and removals of one call, beside what their groups know of their ids."""

    def __init__(self, monitor: Monitor, read: Named, keys: Keys) -> None:
        self.monitor, self.read, self.keys = monitor, read, keys
        n, version = len(read.id), read.rows.version
        self.gone = read.rows.removals()  # (n,)
        self.version = np.zeros(n, np.int64) if version is None else version  # (n,)
        first, last = extent(read.rows.arrived) if n else (0.0, 0.0)
        self.oldest = first
        self.at_once = version is None and first == last  # then the rows are in their order as they came

    def in_turn(self) -> tuple[Ints, Ints, Copies]:
        """The rows by their times, of one instant the greatest version first; those that are stale; and copies."""
        rows = self.read.rows
        which = np.flatnonzero(~self.gone)
        if rows.refused:
            which = which[~_among(which, rows.refused)]
        ignored = which[self._stale(which)]
        if not self.at_once:
            which = which[np.lexsort((~self.version[which], rows.arrived[which]))]
        named = stamp_names(self.names(which), rows.arrived[which], self.version[which])
        return which, ignored, copies_of(named, partial(_contents, rows, which, self.monitor.query.signs))

    def names(self, which: Ints) -> list[Any]:
        """What distinguishes the ids of these rows: in one group they do themselves."""
        ids, keys, some = self.read.id, self.keys, which.tolist()
        return [ids[k] for k in some] if keys is None else [(keys[k], ids[k]) for k in some]

    def _group(self, key: Key) -> LatestGroup | None:
        group = self.monitor.groups.get(key)
        return group if isinstance(group, LatestGroup) else None

    def _stale(self, which: Ints) -> Flags:
        """(which,) the rows that are older than what their groups know of their ids."""
        out, arrived = np.zeros(len(which), np.bool_), self.read.rows.arrived
        if self.oldest > self.monitor.clock:
            return out
        behind = np.flatnonzero(arrived[which] <= self.monitor.clock)  # what is newer than the clock is newer than all
        for key, places in _by_key(self.keys, which[behind], 0, numbered=True).items():
            some = which[behind[places]]
            if (group := self._group(key)) is not None:
                ids = [self.read.id[k] for k in some.tolist()]
                out[behind[places]] = group.is_stale(ids, arrived[some], self.version[some])
        return out

    def ignore(self, which: Ints) -> None:
        """Count these rows, which are stale."""
        for key, some in _by_key(self.keys, which, 0).items():
            if (group := self._group(key)) is not None:
                group.ignore(self.read.rows.arrived[some])

    def carried(self, which: Ints, columns: Ints) -> Decoded:
        """The rows with what they carry over in these columns."""
        rows = self.read.rows
        needy = which[np.isnan(rows.uncertain.lo[which][:, columns]).any(axis=1)]
        if not len(needy):
            return rows
        number: dict[Any, int] = {}
        for name in self.names(needy):
            number.setdefault(name, len(number))
        both = np.concatenate((which, np.flatnonzero(self.gone)))
        code = np.array([number.get(name, -1) for name in self.names(both)], np.int64)
        some, code = both[code >= 0], code[code >= 0]
        cells = rows.expires[some], self.gone[some], rows.raw[some], rows.uncertain.part(some)
        coming = Coming(code, rows.arrived[some], self.version[some], *cells)
        found, uncertain = carry_over(coming, self._standing(number, columns), columns, self.monitor.clock)
        raw = rows.raw.copy()
        raw[some] = found
        return rows._replace(raw=raw, uncertain=put(rows.uncertain, some, uncertain))

    def _standing(self, number: dict[Any, int], columns: Ints) -> Standing:
        """What the groups know of these ids."""
        names, found = list(number), []
        ids = names if self.keys is None else [id for _, id in names]
        for key, some in _by_key(None if self.keys is None else [key for key, _ in names], None, len(names)).items():
            if (group := self._group(key)) is not None:
                asked = [ids[k] for k in some]
                found.append(standing_of(group, asked, np.array(some), columns, self.monitor.clock))
        return join_standing(found, len(self.monitor.query.names))


def _contents(rows: Decoded, which: Ints | None, signs: Sequence[float]) -> Contents:
    """What rows hold."""
    every = Contents(rows.raw, rows.expires, rows.uncertain, np.array(signs))
    return every if which is None else every.part(which)


def _revisions(monitor: Monitor, read: Named, keys: Keys, every: Any, revised: Revised | None) -> dict[Key, Revisions]:
    """What the rows revise, by their groups; `every`: the rows that `revised` speaks of."""
    if revised is None or not len(revised.reading):
        return {}
    assert monitor.chain is not None
    rows, which = read.rows, np.arange(len(read.id))[every][revised.reading]
    values = monitor.chain.values(rows.uncertain.part(which), rows.raw[which])
    ids = objects([read.id[k] for k in which.tolist()])
    found = Revisions(ids, revised.target, rows.arrived[which], revised.cells, values)
    if keys is None:
        return {(): found}
    by_key = _by_key(keys, which, len(which), numbered=True)
    return {key: found.part(np.array(some, np.int64)) for key, some in by_key.items()}


def _refuse_entered(monitor: Monitor, read: Named, keys: Keys) -> None:
    """Refuse the rows that have entered already."""
    rows, left = read.rows, read.rows.left()
    if not len(rows.arrived) or extent(rows.arrived)[0] > monitor.clock:
        return
    for key, which in _by_key(keys, left, len(read.id)).items():
        again = entered(_group(monitor, key), [read.id[k] for k in which], rows.arrived[which], monitor.clock)
        rows.refused.update((which[k], DUPLICATE) for k in again)


def _group(monitor: Monitor, key: Key) -> Group | None:
    group = monitor.groups.get(key)
    return group if isinstance(group, Group) else None


def _impute(
    monitor: Monitor, read: Named, keys: Keys, which: Ints | None, copies: Copies, ignored: Flags | None = None
) -> tuple[Floats, UncertainRows, Revised | None, Ints]:
    """What imputers keep of these rows, their clouds, what they revise, and what becomes of them.

    Those with a gap that no imputer can fill are refused. `ignored` (which,): rows whose gaps do not matter.
    """
    rows, every = read.rows, slice(None) if which is None else which
    asked = Asked(which, _sensors(monitor, read, keys, which), copies, ignored)
    looked, uncertain, revised, fate = _imputed(monitor, rows, asked)
    if len(looked.lacking):
        places = np.arange(len(rows.arrived))[every]
        for k, reason in unable(uncertain, looked, rows.raw[every], monitor.query, monitor.repository).items():
            if fate[k] != COPY and (ignored is None or not ignored[k]):
                _refuse_gap(monitor, read, int(places[k]), reason)
        imputed = ~np.isnan(uncertain.lo[looked.lacking]).any(axis=1) & (fate[looked.lacking] != COPY)
        monitor.counts["incomplete"] += int(np.count_nonzero(imputed))
    return looked.of_all(), uncertain, revised, fate


def _imputed(monitor: Monitor, rows: Decoded, asked: Asked) -> Imputed:
    """What imputers make of the rows, if there are any."""
    if monitor.intake is not None:
        return monitor.intake.impute(rows, asked)
    looked = unlooked(rows, asked.which)
    needs = lacking_context(None, rows, asked.which, asked.spared) if len(looked.lacking) else None
    return Imputed(looked, looked.uncertain, None, decided(needs, asked.copies, len(looked.uncertain.lo)))


def _count(monitor: Monitor, rows: Decoded) -> None:
    refused, most = rows.refused, monitor.rejects.maxlen or 0
    monitor.rejects.extend(Reject(rows.row(i), refused[i]) for i in sorted(refused)[-most:])  # no more are kept
    monitor.counts["rows"] += len(rows.arrived)
    monitor.counts["rejected"] += len(refused)
    monitor.counts["outside_limits"] += 0 if rows.outside is None else int(rows.outside.sum())


def _by_key(keys: Keys, which: Ints | None, n: int, *, numbered: bool = False) -> dict[Key, list[int]]:
    """The rows `which` (None: all n) by their groups; `numbered`: by their places in `which`."""
    out: dict[Key, list[int]] = {}
    for place, k in enumerate(range(n) if which is None else which.tolist()):
        out.setdefault(() if keys is None else keys[k], []).append(place if numbered else k)
    return out
