"""Which rows of a call are taken, and as what?

Rejects go out with their reasons, gaps get bounds, and the others go to their groups. Where each id has one current row
(`latest`), removals are set apart, a row may carry values over from the row that it replaces, and one that is stale
goes no further than into its sensor's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from fogline.arrays import Batch, Clouds, Flags, Floats, Ints, Removals, Revisions, objects
from fogline.errors import RowsError
from fogline.impute.intake import put, unable
from fogline.kernels.clouds import extent
from fogline.model import Reject
from fogline.repository.sensors.gaps import Revised
from fogline.rows.changes import Key
from fogline.rows.reader import Decoded, Named
from fogline.skyline.carry import Coming, Standing, carry_over, join_standing, standing_of
from fogline.skyline.duplicates import DUPLICATE, Contents, duplicates, without_copies
from fogline.skyline.group import Group
from fogline.skyline.latest import LatestGroup

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
    """Rejects out, what is missing imputed, and the others by their groups; what they revise of earlier rows."""
    keys = list(zip(*read.by, strict=True)) if monitor.query.by else None
    if monitor.query.latest:
        taken = _take_latest(monitor, read, keys)
    else:
        _refuse_duplicates(monitor, read, keys)
        taken = _take(monitor, read, keys)
    _count(monitor, read.rows)
    return taken


def _take(monitor: Monitor, read: Named, keys: Keys) -> TakenRows:
    """Where every row counts for itself."""
    rows, which = read.rows, read.rows.left()
    every = slice(None) if which is None else which
    known, clouds, revised = _impute(monitor, read, keys, which)
    revisions = _revisions(monitor, read, keys, every, revised)
    batch = Batch(objects(read.id)[every], rows.arrived[every], rows.expires[every], rows.raw[every], known, clouds)
    if (which := rows.left()) is not None and len(which) < len(batch.id):  # some could not be imputed
        stay = np.isin(np.arange(len(read.id))[every], which)
        batch = batch.part(np.flatnonzero(stay))
    if keys is None:
        return TakenRows({(): batch}, revisions, {})
    by_key = _by_key(keys, which, len(keys), numbered=True)
    return TakenRows({key: batch.part(np.array(rows, np.int64)) for key, rows in by_key.items()}, revisions, {})


def _take_latest(monitor: Monitor, read: Named, keys: Keys) -> TakenRows:
    """Where each id has one current row."""
    called = _Call(monitor, read, keys)
    carried = [monitor.query.names.index(name) for name in monitor.query.carry]
    incomplete, intake = monitor.counts["incomplete"], monitor.intake
    scored = {} if intake is None else dict(intake.scored)
    while True:
        which, ignored, copies = called.in_turn()
        rows = called.carried(which, np.array(carried)) if carried else read.rows
        stale, refused = _among(which, ignored), len(rows.refused)
        every = None if len(which) == len(read.id) and called.at_once else which
        known, clouds, _ = _impute(monitor, read._replace(rows=rows), keys, every, stale)
        if not (carried or copies) or len(rows.refused) == refused:
            break
        monitor.counts["incomplete"] = incomplete  # what is rejected gives nothing, and is no copy: once more without
        if intake is not None:
            intake.scored = dict(scored)
    if carried:  # what was imputed is no fact, should the next row lack it
        known = np.hstack((known, np.isnan(rows.clouds.lo[which][:, carried])))
    called.ignore(ignored)
    ids, some = objects(read.id), slice(None) if every is None else which
    cells = rows.arrived[some], rows.expires[some], rows.raw[some], known, clouds
    batch = Batch(ids[some], *cells, called.version[some])
    stay = ~(stale | _among(which, rows.refused))
    if not stay.all():
        batch, which = batch.part(stay), which[stay]
    removed = np.flatnonzero(called.gone)
    removals = Removals(ids[removed], rows.arrived[removed], called.version[removed])
    return TakenRows(_of_groups(batch, which, keys), {}, _of_groups(removals, removed, keys))


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

    def in_turn(self) -> tuple[Ints, Ints, bool]:
        """The rows by their times, of one instant the greatest version first; those that are stale; are there copies?

        Of rows with the same id, time and version one is left, by what they hold.
        """
        rows = self.read.rows
        which = np.flatnonzero(~self.gone)
        if rows.refused:
            which = which[~_among(which, rows.refused)]
        ignored = which[self._stale(which)]
        time, version = rows.arrived[which], self.version[which]
        one = which[without_copies(self._names(which), time, version, lambda: _contents(rows).part(which))]
        if not self.at_once:
            one = one[np.lexsort((~self.version[one], rows.arrived[one]))]
        return one, ignored, len(one) < len(which)

    def _names(self, which: Ints) -> list[Any]:
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
        needy = which[np.isnan(rows.clouds.lo[which][:, columns]).any(axis=1)]
        if not len(needy):
            return rows
        number: dict[Any, int] = {}
        for name in self._names(needy):
            number.setdefault(name, len(number))
        both = np.concatenate((which, np.flatnonzero(self.gone)))
        code = np.array([number.get(name, -1) for name in self._names(both)], np.int64)
        some, code = both[code >= 0], code[code >= 0]
        cells = rows.expires[some], self.gone[some], rows.raw[some], rows.clouds.part(some)
        coming = Coming(code, rows.arrived[some], self.version[some], *cells)
        found, clouds = carry_over(coming, self._standing(number, columns), columns, self.monitor.clock)
        raw = rows.raw.copy()
        raw[some] = found
        return rows._replace(raw=raw, clouds=put(rows.clouds, some, clouds))

    def _standing(self, number: dict[Any, int], columns: Ints) -> Standing:
        """What the groups know of these ids."""
        names, found = list(number), []
        ids = names if self.keys is None else [id for _, id in names]
        for key, some in _by_key(None if self.keys is None else [key for key, _ in names], None, len(names)).items():
            if (group := self._group(key)) is not None:
                asked = [ids[k] for k in some]
                found.append(standing_of(group, asked, np.array(some), columns, self.monitor.clock))
        return join_standing(found, len(self.monitor.query.names))


def _contents(rows: Decoded) -> Contents:
    """What rows hold, larger being better; what is outside its limits is missing."""
    cells = np.where(np.isnan(rows.raw), np.nan, rows.clouds.lo)
    return Contents(cells, rows.expires, rows.clouds, np.ones(cells.shape[1]))


def _revisions(monitor: Monitor, read: Named, keys: Keys, every: Any, revised: Revised | None) -> dict[Key, Revisions]:
    """What the rows revise, by their groups; `every`: the rows that `revised` speaks of."""
    if revised is None or not len(revised.reading):
        return {}
    assert monitor.chain is not None
    rows, which = read.rows, np.arange(len(read.id))[every][revised.reading]
    values = monitor.chain.values(rows.clouds.part(which), rows.raw[which])
    ids = objects([read.id[k] for k in which.tolist()])
    found = Revisions(ids, revised.target, rows.arrived[which], revised.cells, values)
    if keys is None:
        return {(): found}
    by_key = _by_key(keys, which, len(which), numbered=True)
    return {key: found.part(np.array(some, np.int64)) for key, some in by_key.items()}


def _refuse_duplicates(monitor: Monitor, read: Named, keys: Keys) -> None:
    rows, left = read.rows, read.rows.left()
    contents = partial(Contents, rows.raw, rows.expires, rows.clouds, np.array(monitor.query.signs))
    if keys is None and left is None:
        again, _ = duplicates(_group(monitor, ()), read.id, rows.arrived, monitor.clock, contents)
        rows.refused.update((k, DUPLICATE) for k in again)
        return
    for key, which in _by_key(keys, left, len(read.id)).items():
        names, arrived = [read.id[k] for k in which], rows.arrived[which]
        again, _ = duplicates(_group(monitor, key), names, arrived, monitor.clock, partial(contents().part, which))
        rows.refused.update((which[k], DUPLICATE) for k in again)


def _group(monitor: Monitor, key: Key) -> Group | None:
    group = monitor.groups.get(key)
    return group if isinstance(group, Group) else None


def _impute(
    monitor: Monitor, read: Named, keys: Keys, which: Ints | None, ignored: Flags | None = None
) -> tuple[Floats, Clouds, Revised | None]:
    """What imputers keep of these rows, their clouds, and what they revise; incomplete ones are refused.

    `ignored` (which,): rows whose gaps do not matter.
    """
    rows, intake = read.rows, monitor.intake
    clouds = rows.clouds if which is None else rows.clouds.part(which)
    if intake is None:
        if rows.gaps:
            _refuse_gaps(monitor, read, which, clouds, ignored)
        return np.empty((len(clouds.lo), 0)), clouds, None
    looked, clouds, revised = intake.impute(rows, which, read.id, keys)
    if len(looked.lacking):
        if monitor.repository is None:
            _refuse_gaps(monitor, read, which, clouds, ignored)
        for k, reason in unable(clouds, looked, monitor.query.names).items():
            if ignored is None or not ignored[k]:
                rows.refused.setdefault(k if which is None else int(which[k]), reason)
        monitor.counts["incomplete"] += int(np.count_nonzero(~np.isnan(clouds.lo[looked.lacking]).any(axis=1)))
    return looked.of_all(), clouds, revised


def _refuse_gaps(monitor: Monitor, read: Named, which: Ints | None, clouds: Clouds, ignored: Flags | None) -> None:
    """Without a repository a gap that is left is an error of the whole call."""
    gaps, query = np.isnan(clouds.lo), monitor.query
    gaps[np.isin(np.arange(len(read.id)) if which is None else which, list(read.rows.refused))] = False
    gaps[slice(0, 0) if ignored is None else ignored] = False
    if gaps.any():
        row, j = (int(each[0]) for each in np.nonzero(gaps))
        raise RowsError(
            f"{int(gaps.any(axis=1).sum())} of {len(gaps)} rows lack a value or have it outside its limits "
            f"(row {read.id[row if which is None else int(which[row])]!r}: {query.names[j]!r}), and there is "
            "nothing to impute it from.\n"
            "Give such a cell a distribution, a list of (value, weight) pairs, or the monitor a repository"
            f"{'' if query.outside == 'reject' or not query.limits else '; or set outside to reject'}."
        )


def _count(monitor: Monitor, rows: Decoded) -> None:
    refused = rows.refused
    monitor.rejects.extend(Reject(rows.row(i), refused[i]) for i in sorted(refused))
    monitor.counts["rows"] += len(rows.arrived)
    monitor.counts["rejected"] += len(refused)
    monitor.counts["outside_limits"] += 0 if rows.outside is None else int(rows.outside.sum())


def _by_key(keys: Keys, which: Ints | None, n: int, *, numbered: bool = False) -> dict[Key, list[int]]:
    """The rows `which` (None: all n) by their groups; `numbered`: by their places in `which`."""
    out: dict[Key, list[int]] = {}
    for place, k in enumerate(range(n) if which is None else which.tolist()):
        out.setdefault(() if keys is None else keys[k], []).append(place if numbered else k)
    return out
