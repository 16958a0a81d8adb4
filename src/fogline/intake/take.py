"""Which rows of a call count, and what does each group get of them?

The fate of a row. The first rule that applies decides:

1. REJECTED: it cannot be read, or it is from after `now` (`rows.reader`, `Monitor`).
2. REJECTED as a duplicate: a row with its id and time has entered before. Where each id has one current row (`latest`)
   instead STALE: its group knows a later word about its id. It joins its sensor's readings, and goes no further.
3. REJECTED: the user's own imputer, one that cannot wait, gives it cells that make no sense.
4. REJECTED: it has a gap that nothing can fill (UNABLE).
5. COPY: another row of its stamp (group, id, time and version) counts, see `rows.names`. It is rejected as a
   duplicate; where each id has one current row it is dropped without a word.
6. TAKEN: it counts. (NO_READING: so does this, but its sensor has had a row of its instant.)

A late row, from before the clock, counts like any other. Its group takes it at the clock (`engine.group.taken_at`), and
counts how many were late.

Removals are set apart. With `carry` a row gets cells of the row that it replaces before rule 3. On a pipeline a row
that runs ahead of its group is HELD before rule 2 (`pipeline.clock_guard`). The stages of a pipeline apply the same
rules by the same functions: `copies_of`, `needs_of`, `Chain.undecided`, `Chain.take`, `refused_first`.

A call has two steps. The reader has applied rule 1. `sift` applies rules 2 and 3 and finds the copies; with `carry` it
also applies rule 5 and what is sure of rule 4, since what a row lacks depends on which rows before it count. It changes
nothing of the monitor. `decide` applies the rest: whether rules 4 and 5 do may depend on what the row's sensor has
read, and so on which earlier rows count. One walk over the sensors' readings decides row by row, in the order of time
(`SensorState.take`), and the rows that count join the readings on the way; to decide first and apply then would be the
same walk twice. What can raise an error is in `sift`, so a call that raises one has changed nothing. (A user's imputer
that can wait may raise later: see `Monitor._saved`. A warning is given last, when the call is done: where the user has
made it an error the rows are taken nevertheless.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np

from fogline.arrays import Batch, Flags, Floats, Ints, Removals, Revisions, UncertainRows, objects
from fogline.engine.group import NOTHING, Incoming
from fogline.errors import RowsRejectedWarning
from fogline.impute.chain import Chain
from fogline.impute.fill import (
    ImputedRows,
    bounded,
    filled,
    filled_at_once,
    look,
    needs_of,
    put,
    unfilled,
    why_rejected,
)
from fogline.impute.protocol import Evidence
from fogline.impute.scores import Sums, add
from fogline.impute.scoring import Scorer
from fogline.intake.carry import Coming, Standing, carry_over, join_standing, standing_of
from fogline.kernels.sensors import COPY, TAKEN, UNABLE
from fogline.kernels.uncertain import extent
from fogline.query import NO_REPOSITORY
from fogline.repository.sensors.gaps import Revised, gaps_of
from fogline.repository.sensors.state import SensorRows, SensorState, sensor_names
from fogline.results import Reject
from fogline.rows.changes import GroupKey
from fogline.rows.names import DUPLICATE, Contents, Copies, copies_of, others, stamp_names
from fogline.rows.reader import Decoded
from fogline.show import count_of, quoted

if TYPE_CHECKING:
    from fogline.monitor import Monitor

NO_ROWS: Ints = np.empty(0, np.int64)
MOST_WARNED = 20  # kinds of reasons that a monitor warns of
_VALUE = re.compile(r"(?<= is )(['\"]).*?\1(?=[,;])|(?<![\w'])-?\d[\d.,:TZ+-]*")  # what differs from row to row


def take(monitor: Monitor, read: Decoded) -> dict[GroupKey, Incoming]:
    """Decide what becomes of each row of a call, and count it. Returns what comes to each group."""
    call = _LatestCall(monitor, read) if monitor.query.latest else _Call(monitor, read)
    call.sift()
    taken, refused = call.decide(), read.refused
    call.count_stale()
    if refused:
        last = sorted(refused)[-(monitor.rejects.maxlen or 0) :]
        monitor.rejects.extend(Reject(call.rows.row(i), refused[i]) for i in last)
    monitor.counts["rows"] += len(read.id)
    monitor.counts["rejected"] += len(refused)
    monitor.counts["outside_limits"] += 0 if call.rows.outside is None else int(call.rows.outside.sum())
    monitor.counts["incomplete"] += call.incomplete
    return taken


# --- what is warned of ---


def warn_of(read: Decoded, warned: set[str] | None) -> None:
    """Warn the caller of `Monitor.advance` of each reason for which rows were rejected, the first time that it occurs.

    `warned`: the kinds of reasons of which it was done, to which these are added; None: there are no warnings.
    """
    if not read.refused or warned is None or len(warned) >= MOST_WARNED:
        return
    for kind, (i, count) in _first_of_kinds(read.refused, warned).items():
        warned.add(kind)  # first: the warning may be an error
        warn(_warning(read.refused[i], read.id[i], count, len(read.id)), RowsRejectedWarning, stacklevel=3)


def _first_of_kinds(refused: Mapping[int, str], known: Collection[str]) -> dict[str, tuple[int, int]]:
    """Of each kind of reason that is not known yet the first row, and how many rows of this call have it."""
    found: dict[str, tuple[int, int]] = {}
    counts = Counter(refused.values())
    first: dict[str, int] = {}
    for i in sorted(refused, reverse=True):
        first[refused[i]] = i
    for reason, count in counts.items():
        kind = _VALUE.sub("…", reason)
        i, before = found.get(kind, (first[reason], 0))
        found[kind] = min(i, first[reason]), before + count
    return {kind: found[kind] for kind in sorted(found, key=found.__getitem__) if kind not in known}


def _warning(reason: str, id: Any, count: int, rows: int) -> str:
    """How many rows were rejected, why, which for instance, and the way out."""
    text = f"{count:,} of {count_of(rows, 'row')} rejected: {reason} (for instance the row of {quoted(id)})."
    if reason.endswith(NO_REPOSITORY):
        text += (
            " Fit a repository to complete history, Monitor(query, fl.Repository.fit(history, query)), or give such a "
            "cell a list of (value, weight) pairs."
        )
    if reason.endswith(" a timestamp"):
        text += (
            " Make timestamps of the column first, such as pandas.to_datetime(column, format='%d.%m.%Y %H:%M'); fl.run "
            "reads files with such times as they are."
        )
    return f"{text} The rows are in monitor.rejects; of each reason the first call is warned of."


# --- rules that are pure: from rows and state to fates ---


def fates(needs: Flags | None, copies: Copies, n: int) -> Ints:
    """(n,) the fates of rows where no sensor's past helps; needs (n, d): see `needs_of`."""
    fate = np.zeros(n, np.int64)  # TAKEN
    if needs is not None:
        fate[needs.any(axis=1)] = UNABLE
    if copies:
        fate[others(copies, fate == TAKEN)] = COPY
    return fate


def refused_first(chain: Chain | None, needs: Flags, unable: Flags, carried: Ints, name: Ints, time: Floats) -> Ints:
    """Where values are carried over: which of the rows that are unable (n,) to reject now. The rest is looked at again.

    needs (n, d): the gaps that are left; carried: the columns that are carried over; name (n,), time (n,): the rows'
    ids, as numbers, and times. What a row lacks may depend on which earlier rows of its id count. So it is rejected if

    - it is the first of its id that is unable, or
    - no change in what counts could help it. Without a chain: it has a gap in a column that is not carried over. With
      one: all its gaps lie in columns that only readings fill, and rejecting rows leaves fewer readings. (Not where a
      user's imputer, or a rule about the recent past, may answer otherwise for fewer readings.)
    """
    plain = np.ones(needs.shape[1], np.bool_)
    plain[carried] = False
    surely = np.asarray(needs[:, plain].any(axis=1))
    if chain is not None:
        recent = {rule.then for rule in (() if chain.sensors is None else chain.sensors.recent)}
        plain &= [name not in recent for name in chain.query.names]
        surely = np.asarray(~needs[:, ~plain].any(axis=1)) & (chain.own is None)
    which = np.flatnonzero(unable)
    order = which[np.lexsort((time[which], name[which]))]
    begins = np.append(True, name[order][1:] != name[order][:-1]) if len(order) else np.empty(0, np.bool_)
    first = time[order[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]]
    return np.asarray(order[(time[order] == first) | surely[order]])


# --- what a monitor remembers of rows ---


class Intake:
    """What a monitor keeps of all its rows: its sensors' readings, and the scores of imputers on hidden values."""

    def __init__(self, chain: Chain | None, *, eager: bool, scoring: bool) -> None:
        self.chain, self.eager = chain, eager and chain is not None
        self.state: SensorState | None = None if chain is None or chain.sensors is None else chain.sensors.state()
        self.scorer = Scorer(chain) if chain is not None and scoring else None
        self.scored: Sums = {}

    def take(
        self, rows: Decoded, which: Ints | None, sensors: Sequence[Any], copies: Copies, stale: Flags | None = None
    ) -> tuple[ImputedRows, Revised | None, Ints]:
        """Decide which of the rows `which` (None: all) count, and impute them. Those join their sensors' readings.

        sensors: the names of their sensors; empty, where none are remembered. copies: positions in `which`.
        stale (which,): rows whose gaps do not matter.

        Returns the rows, the gaps that they revise (None: there is no hindsight), and (which,) their fates: TAKEN,
        UNABLE, COPY or NO_READING, see `kernels.sensors.Candidates`.
        """
        context, revised, fate = self._pass_sensors(rows, which, sensors, copies, stale)
        looked = look(self.chain, rows, which, context, at_once=False)
        imputed = filled(self.chain, looked) if self.chain is not None and self.eager else bounded(self.chain, looked)
        hindsight = self.chain is not None and self.chain.hindsight
        return imputed, revised if hindsight else None, fate

    def unable(self, rows: Decoded, which: Ints, sensors: Sequence[Any], stale: Flags, needs: Flags) -> Flags:
        """(which,) rows with gaps that nothing can fill, if all of them were taken; nothing changes. See `needs_of`."""
        if self.state is None:
            return np.asarray(needs.any(axis=1))
        trial = Intake(self.chain, eager=False, scoring=False)
        trial.state = self.state.part(sensors)
        return np.asarray(trial._pass_sensors(rows, which, sensors, [], stale)[2] == UNABLE)

    def _pass_sensors(
        self, rows: Decoded, which: Ints | None, sensors: Sequence[Any], copies: Copies, stale: Flags | None
    ) -> tuple[Floats | None, Revised | None, Ints]:
        """Contexts, revised gaps and fates. Now and then a known value is hidden, to keep score."""
        chain, n = self.chain, len(rows.arrived) if which is None else len(which)
        needs = needs_of(chain, rows, which, stale)
        if chain is None or (self.state is None and self.scorer is None):
            return None, None, fates(needs, copies, n)
        every = slice(None) if which is None else which
        uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
        missing, values = np.isnan(uncertain.lo), chain.values(uncertain, rows.raw[every])
        hiding = None if self.scorer is None else self.scorer.hiding(rows.arrived[every], values)
        context, revised = None, None
        if self.state is None:
            fate = fates(needs, copies, n)
        else:
            wanted = np.asarray(np.isnan(values).any(axis=1))
            gaps = gaps_of(chain.query, missing, rows.expires[every])
            asked = SensorRows(sensors, rows.arrived[every], values, wanted, gaps=gaps, hiding=hiding)
            version = None if rows.version is None else rows.version[every]
            asked = chain.undecided(asked, copies, needs, np.ones(n, np.bool_), version)
            context, revised, fate = chain.take(self.state, asked)
        if self.scorer is not None and hiding is not None:
            hidden = hiding.hidden.part(fate[hiding.hidden.row] == TAKEN)
            for _, one in self.scorer.score(Evidence(values, missing, rows.source, which), hidden, rows.kind):
                add(self.scored, one)
        return context, revised, fate


# --- one call of a monitor ---


class _Call:
    """The rows of a call, where every row counts for itself."""

    def __init__(self, monitor: Monitor, read: Decoded) -> None:
        self.monitor, self.rows = monitor, read
        self.which: Ints | None = None  # (m,) the rows left by rules 1 to 3, as they are taken; None: all, as they came
        self.copies: Copies = []  # positions in `which`
        self.keys: Sequence[GroupKey] | None = list(zip(*read.by, strict=True)) if monitor.query.by else None
        self.incomplete = 0  # rows whose gaps were filled

    def sift(self) -> None:
        """Apply rules 1 to 3, and find copies. `rows` then has what is carried over, and what imputers gave at once."""
        self._refuse_entered()
        self.rows = filled_at_once(self.monitor.chain, self.rows, self.rows.left())
        self.which = self.rows.left()
        self.copies = self.copies_among(self.which, None)

    def decide(self) -> dict[GroupKey, Incoming]:
        """Apply rules 4 to 6: the rows pass their sensors. Returns what comes to each group."""
        rows, which = self.rows, self.which
        imputed, revised, fate = self._impute(which)
        numbers = np.arange(len(fate)) if which is None else which
        if self.copies:
            rows.refused.update((k, DUPLICATE) for k in numbers[fate == COPY].tolist())
        batch = self.batch(which, imputed.of_all(), imputed.uncertain)
        revisions, readings = self._revisions(numbers, revised)
        if (left := rows.left()) is not None and len(left) < len(numbers):  # some are rejected by now
            batch, numbers = batch.part(np.flatnonzero(np.isin(numbers, left))), left
        return self.by_group(Incoming(batch, revisions), numbers, readings)

    def batch(self, which: Ints | None, known: Floats, uncertain: UncertainRows) -> Batch:
        """The rows `which` (None: all), imputed."""
        rows, id = self.rows, objects(self.ids(which))
        if which is None:
            return Batch(id, rows.arrived, rows.expires, rows.raw, known, uncertain, kept=rows.kept)
        kept = None if rows.kept is None else rows.kept[which]
        return Batch(id, rows.arrived[which], rows.expires[which], rows.raw[which], known, uncertain, kept=kept)

    def count_stale(self) -> None:
        """Count the rows that are stale: there are none."""

    def _refuse_entered(self) -> None:
        """Refuse the rows that have entered already."""
        rows = self.rows
        if not len(rows.arrived) or extent(rows.arrived)[0] > self.monitor.clock:
            return
        left = rows.left()
        which = np.arange(len(rows.arrived)) if left is None else left
        rows.refused.update((i, DUPLICATE) for i in which[self.already_there(which)].tolist())

    def already_there(self, which: Ints, version: Ints | None = None) -> Flags:
        """(which,) the rows that bring their groups nothing new. What is newer than the clock does."""
        out, arrived, groups = np.zeros(len(which), np.bool_), self.rows.arrived, self.monitor.groups
        behind = np.flatnonzero(arrived[which] <= self.monitor.clock)
        for key, at in self.groups_of(which[behind]).items():
            if (group := groups.get(key)) is not None:
                some = which[behind[at]]
                stamps = arrived[some], None if version is None else version[some]
                out[behind[at]] = group.knows(self.ids(some), *stamps)
        return out

    def copies_among(self, which: Ints | None, version: Ints | None) -> Copies:
        """Of the rows `which`, in their order, those that share a stamp: their positions, the best first."""
        names = self.names(which)
        if len(set(names)) == len(names):  # nearly always
            return []
        arrived = self.rows.arrived if which is None else self.rows.arrived[which]
        return copies_of(stamp_names(names, arrived, version), partial(self._contents, which))

    def _contents(self, which: Ints | None) -> Contents:
        rows = self.rows
        every = Contents(rows.raw, rows.expires, rows.uncertain, np.array(self.monitor.query.signs))
        return every if which is None else every.part(which)

    def _impute(self, which: Ints | None, stale: Flags | None = None) -> tuple[ImputedRows, Revised | None, Ints]:
        """See `Intake.take`. A row with a gap that nothing can fill is refused."""
        monitor, rows, every = self.monitor, self.rows, slice(None) if which is None else which
        imputed, revised, fate = monitor.intake.take(rows, which, self.sensors(which), self.copies, stale)
        if len(imputed.lacking):
            for k, reason in unfilled(imputed, rows.raw[every], monitor.query, monitor.repository).items():
                if fate[k] != COPY and (stale is None or not stale[k]):
                    self.refuse_gap(k if which is None else int(which[k]), reason)
            done = ~np.isnan(imputed.uncertain.lo[imputed.lacking]).any(axis=1) & (fate[imputed.lacking] != COPY)
            self.incomplete += int(np.count_nonzero(done))
        return imputed, revised, fate

    def refuse_gap(self, i: int, reason: str) -> None:
        """Refuse a row with a gap that nothing can fill."""
        if i not in self.rows.refused:
            self.rows.refused[i] = reason

    def _revisions(self, numbers: Ints, revised: Revised | None) -> tuple[Revisions | None, Ints]:
        """What the rows of these numbers revise, and the row whose reading each revision is."""
        if revised is None or not len(revised.reading):
            return None, NO_ROWS
        chain, rows, which = self.monitor.chain, self.rows, numbers[revised.reading]
        assert chain is not None
        values = chain.values(rows.uncertain.part(which), rows.raw[which])
        ids = objects(self.ids(which))
        return Revisions(ids, revised.target, rows.arrived[which], revised.cells, values), which

    def ids(self, which: Ints | None) -> Sequence[Any]:
        """The ids of the rows `which`; None: all."""
        return self.rows.id if which is None else [self.rows.id[k] for k in which.tolist()]

    def keys_of(self, which: Ints | None) -> Sequence[GroupKey] | None:
        """The groups of the rows `which` (None: all); None: there is one group."""
        return self.keys if self.keys is None or which is None else [self.keys[k] for k in which.tolist()]

    def names(self, which: Ints | None) -> Sequence[Any]:
        """What distinguishes the ids of these rows: in one group they do themselves."""
        ids, keys = self.ids(which), self.keys_of(which)
        return ids if keys is None else list(zip(keys, ids, strict=True))

    def sensors(self, which: Ints | None) -> list[Any]:
        """What the sensors of these rows are called; nothing, where none are remembered."""
        return [] if self.monitor.intake.state is None else sensor_names(self.ids(which), self.keys_of(which))

    def groups_of(self, which: Ints) -> dict[GroupKey, Ints]:
        """By their groups, the positions in `which` of the rows."""
        if self.keys is None:
            return {(): np.arange(len(which))} if len(which) else {}
        found: dict[GroupKey, list[int]] = {}
        for position, k in enumerate(which.tolist()):
            found.setdefault(self.keys[k], []).append(position)
        return {key: np.array(some, np.int64) for key, some in found.items()}

    def by_group(self, come: Incoming, rows: Ints, others: Ints) -> dict[GroupKey, Incoming]:
        """What comes to each group.

        `rows`: positions in the call of `come.rows`; `others`: of its revisions or removals.
        """
        if self.keys is None:
            come = come if len(rows) else come._replace(rows=None)
            return {(): come} if len(rows) + len(others) else {}
        out: dict[GroupKey, Incoming] = {}
        if come.rows is not None:
            out = {key: Incoming(come.rows.part(some)) for key, some in self.groups_of(rows).items()}
        for key, some in self.groups_of(others).items():
            revisions = None if come.revisions is None else come.revisions.part(some)
            removals = None if come.removals is None else come.removals.part(some)
            out[key] = out.get(key, NOTHING)._replace(revisions=revisions, removals=removals)
        return out


class _LatestCall(_Call):
    """The rows and removals of a call, where each id has one current row."""

    def __init__(self, monitor: Monitor, read: Decoded) -> None:
        super().__init__(monitor, read)
        n, version = len(read.id), read.version
        self.gone = read.removals()  # (n,)
        self.version = np.zeros(n, np.int64) if version is None else version  # (n,)
        first, last = extent(read.arrived) if n else (0.0, 0.0)
        self.oldest = first
        self.as_it_came = version is None and first == last  # then rows are taken in their order
        self.stale = NO_ROWS  # the rows that are, once it is known
        self.imputed: Flags | None = None  # (m, columns) with `carry`: cells that nothing was carried over to

    def sift(self) -> None:
        monitor = self.monitor
        columns = np.array([monitor.query.names.index(name) for name in monitor.query.carry], np.int64)
        if len(columns):
            self.which, self.imputed = self._carry(columns)
            return
        if self.rows.gaps:
            self.rows = filled_at_once(monitor.chain, self.rows, self._candidates())
        self.which, self.copies = self._in_turn()

    def decide(self) -> dict[GroupKey, Incoming]:
        rows, which = self.rows, self.which
        assert which is not None
        stale = _among(which, self.stale)
        every = None if len(which) == len(self.gone) and self.as_it_came else which
        found, _, fate = self._impute(every, stale)
        known = found.of_all()
        if self.imputed is not None:  # what was imputed is no fact, should the next row lack it
            known = np.hstack((known, self.imputed))
        batch = self.batch(every, known, found.uncertain)._replace(version=self.version[which])
        if len(self.stale) or rows.refused or self.copies:
            stay = ~(stale | _among(which, rows.refused) | (fate == COPY))
            batch, which = batch.part(stay), which[stay]
        removed = np.flatnonzero(self.gone)
        removals = Removals(objects(self.ids(removed)), rows.arrived[removed], self.version[removed])
        return self.by_group(Incoming(batch, None, removals), which, removed)

    def count_stale(self) -> None:
        for key, some in self.groups_of(self.stale).items():
            self.monitor.groups[key].ignore(self.rows.arrived[self.stale[some]])

    def _candidates(self) -> Ints:
        """The rows, but for removals and what is refused."""
        stay = ~self.gone
        stay[list(self.rows.refused)] = False
        return np.flatnonzero(stay)

    def _in_turn(self) -> tuple[Ints, Copies]:
        """The rows by their times, of one instant the greatest version first; and copies. Finds what is stale."""
        which, arrived = self._candidates(), self.rows.arrived
        self.stale = which[self.already_there(which, self.version)] if self.oldest <= self.monitor.clock else NO_ROWS
        if not self.as_it_came:
            which = which[np.lexsort((~self.version[which], arrived[which]))]
        return which, self.copies_among(which, self.version[which])

    def _carry(self, columns: Ints) -> tuple[Ints, Flags]:
        """The rows in turn, one of each stamp, with what they carry over in these columns, then with what imputers give
        that cannot wait; and (which, columns) the cells that nothing is carried over to.

        What is rejected gives nothing, and is no copy of another: then once more without it, of each id the first.
        """
        refused = self.rows.refused
        while True:
            before = len(refused)
            which, copies = self._in_turn()
            which = np.delete(which, others(copies)) if copies else which
            carried = self._carried(which, columns)
            rows = filled_at_once(self.monitor.chain, carried, which)
            if len(refused) == before:
                self._refuse_first(rows, which, columns, copied=bool(copies))
            if len(refused) == before:
                self.rows = rows
                return which, np.isnan(carried.uncertain.lo[which][:, columns])

    def _refuse_first(self, rows: Decoded, which: Ints, columns: Ints, *, copied: bool) -> None:
        """Refuse rows with gaps that nothing can fill, as many as are sure of it. `copied`: some have copies."""
        monitor, stale = self.monitor, _among(which, self.stale)
        needs = needs_of(monitor.chain, rows, which, stale)
        if needs is None:
            return
        number: dict[Any, int] = {}
        name = np.array([number.setdefault(each, len(number)) for each in self.names(which)], np.int64)
        all_may = copied and monitor.chain is not None  # a copy may have what it lacks
        carried = np.arange(needs.shape[1]) if all_may else columns
        unable = monitor.intake.unable(rows, which, self.sensors(which), stale, needs)
        for k in refused_first(monitor.chain, needs, unable, carried, name, rows.arrived[which]).tolist():
            i, j = int(which[k]), int(np.flatnonzero(needs[k])[0])
            self.refuse_gap(i, why_rejected(monitor.query, j, rows.raw[i, j], monitor.repository))

    def _carried(self, which: Ints, columns: Ints) -> Decoded:
        """The rows with what they carry over in these columns."""
        rows = self.rows
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
        """What the groups know of these ids; number: of their names."""
        ids_of: dict[GroupKey, list[Any]] = {}
        numbers_of: dict[GroupKey, list[int]] = {}
        for name, k in number.items():
            key, id = ((), name) if self.keys is None else name
            ids_of.setdefault(key, []).append(id)
            numbers_of.setdefault(key, []).append(k)
        clock, found = self.monitor.clock, []
        for key, ids in ids_of.items():
            if (group := self.monitor.groups.get(key)) is not None:
                found.append(standing_of(group, ids, np.array(numbers_of[key]), columns, clock))
        return join_standing(found, len(self.monitor.query.names))


def _among(which: Ints, some: Collection[int] | Ints) -> Flags:
    """(which,) those that are among some others, mostly none."""
    return np.isin(which, list(some)) if len(some) else np.zeros(len(which), np.bool_)
