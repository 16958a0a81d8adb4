"""Which rows count, and how do those with gaps become clouds?

First it is decided what each row is, then anything changes. Imputers that cannot wait, such as a user's own, are asked
before all else. A row that lacks a value which no imputer can give is refused; of copies, the best that is not refused
counts. Both may depend on what the row's sensor has read before, and so on which earlier rows count: sensors settle it
row by row, in the order of time (`SensorState.settle`).

Imputers look at the rows that lack something, once; what they keep travels with the row (`known`). They give bounds
now, and distributions when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import BOUNDS_ONLY, Flags, Floats, Ints, UncertainRows
from fogline.impute.chain import Chain
from fogline.impute.protocol import Evidence
from fogline.impute.scores import Scorer, Sums, add
from fogline.kernels.sensors import COPY, TAKEN, UNABLE
from fogline.query import NO_REPOSITORY, NO_VALUE, Query
from fogline.repository.repository import Repository
from fogline.repository.sensors.gaps import Revised, gaps_of
from fogline.repository.sensors.state import SensorState
from fogline.rows.cells import Reasons
from fogline.rows.names import Copies, in_order, others, stamps
from fogline.rows.reader import Decoded


class Looked(NamedTuple):
    """Rows that imputers have looked at. What only later imputation can give is still NaN in the clouds."""

    uncertain: UncertainRows  # of n rows
    lacking: Ints  # (m,) those that lack something
    known: Floats  # (m, width) what imputers keep of these

    def part(self, which: Ints) -> Looked:
        """Some of the rows."""
        number = np.full(len(self.uncertain.lo), -1)
        number[self.lacking] = np.arange(len(self.lacking))
        found = number[which]
        return Looked(self.uncertain.part(which), np.flatnonzero(found >= 0), self.known[found[found >= 0]])

    def of_all(self) -> Floats:
        """(n, width) what is kept of every row: nothing of complete ones."""
        out = np.full((len(self.uncertain.lo), self.known.shape[1]), np.nan)
        out[self.lacking] = self.known
        return out


def look(
    chain: Chain,
    rows: Decoded,
    which: Ints | None,
    context: Floats | None,
    refused: Reasons,
    *,
    at_once: bool = True,
) -> Looked:
    """Let the imputers look at the rows `which` (None: all). `context`: (n, w) what their sensors have read before.

    Imputers that cannot wait fill their cells `at_once`, unless they have done so before.
    """
    uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
    missing = np.isnan(uncertain.lo)
    lacking = np.flatnonzero(missing.any(axis=1))
    if not len(lacking):
        return Looked(uncertain, lacking, np.empty((0, chain.width)))
    few = uncertain.part(lacking)
    place = lacking if which is None else which[lacking]
    near = None if context is None else context[lacking]
    evidence = Evidence(chain.values(few, rows.raw[place]), missing[lacking], rows.source, place, near, refused)
    known = chain.evidence(evidence)
    answered = chain.at_once(evidence, known, few) if at_once else few
    return Looked(uncertain if answered is few else put(uncertain, lacking, answered), lacking, known)


def bounded(chain: Chain, looked: Looked, *, rough: bool = False) -> UncertainRows:
    """The clouds with bounds for what is missing; still NaN where no imputer is able."""
    if not len(looked.lacking):
        return looked.uncertain
    few = looked.uncertain.part(looked.lacking)
    return put_bounds(looked.uncertain, looked.lacking, chain.bound(few, looked.known, np.isnan(few.lo), rough=rough))


def filled(chain: Chain, looked: Looked) -> UncertainRows:
    """The clouds with distributions for what is missing; still NaN where no imputer is able."""
    if not len(looked.lacking):
        return looked.uncertain
    few = bounded(chain, looked).part(looked.lacking)
    return put(looked.uncertain, looked.lacking, chain.fill_sharing(few, looked.known, few.start == BOUNDS_ONLY))


def unlooked(rows: Decoded, which: Ints | None) -> Looked:
    """The rows `which` (None: all), where there is no imputer to look at them."""
    uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
    lacking = np.flatnonzero(np.isnan(uncertain.lo).any(axis=1)) if rows.gaps else np.empty(0, np.int64)
    return Looked(uncertain, lacking, np.empty((len(lacking), 0)))


def unable(
    uncertain: UncertainRows, looked: Looked, raw: Floats, query: Query, repository: Repository | None
) -> dict[int, str]:
    """The rows with a gap that no imputer can fill, with that as the reason; raw (n, d): as they came."""
    still = np.isnan(uncertain.lo[looked.lacking])
    rows, attributes = np.nonzero(still)
    reasons: dict[int, str] = {}
    for row, j in zip(looked.lacking[rows].tolist(), attributes.tolist(), strict=True):
        reasons.setdefault(row, why_rejected(query, j, raw[row, j], repository))
    return reasons


def why_rejected(query: Query, j: int, came: float, repository: Repository | None) -> str:
    """Why a row is rejected whose gap in attribute j nothing can fill; `came`: what it came with, NaN for nothing."""
    name, why = query.names[j], NO_REPOSITORY if repository is None else NO_VALUE
    if np.isnan(came):
        return f"{name!r} is missing, and {why}"
    low, high = query.limits[name]
    return f"{name!r} is outside its limits ({low:.9g}, {high:.9g}), and {why}"


def put_bounds(uncertain: UncertainRows, rows: Ints, few: UncertainRows) -> UncertainRows:
    """The clouds with other bounds for some rows: what has only bounds has no values of its own."""
    lo, hi, start = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy()
    lo[rows], hi[rows], start[rows] = few.lo, few.hi, few.start
    return uncertain._replace(lo=lo, hi=hi, start=start)


def put(uncertain: UncertainRows, rows: Ints, few: UncertainRows) -> UncertainRows:
    """The clouds with some rows replaced. Pools of `few` begin with those of the clouds."""
    lo, hi, start, size = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy(), uncertain.size.copy()
    lo[rows], hi[rows], start[rows], size[rows] = few.lo, few.hi, few.start, few.size
    return UncertainRows(lo, hi, start, size, few.value, few.weight, few.tail)


class Asked(NamedTuple):
    """Rows of a call that may count, of one query."""

    which: Ints | None  # the rows; None: all
    names: Sequence[Any]  # of the rows `which`: what their sensors are called; empty, where none are remembered
    copies: Copies  # positions in `which` of rows that share a stamp
    spared: Flags | None = None  # (which,) rows whose gaps do not matter


class Imputed(NamedTuple):
    """Rows as the live set takes them."""

    looked: Looked
    uncertain: UncertainRows  # NaN where no imputer is able
    revised: Revised | None  # the gaps that they revise; None: there is no hindsight
    fate: Ints  # (n,) what becomes of each row, see `kernels.sensors.Candidates`


def answered_at_once(chain: Chain, rows: Decoded, which: Ints | None) -> Decoded:
    """The rows, those `which` (None: all) with what imputers give that cannot wait: as if they had come with it.

    Rows with imputed cells that make no sense are refused.
    """
    if len(chain.lasting) == len(chain.imputers):
        return rows
    found = look(chain, rows, which, None, rows.refused).uncertain
    return rows._replace(uncertain=found if which is None else put(rows.uncertain, which, found))


def lacking_context(
    chain: Chain | None, rows: Decoded, which: Ints | None, spared: Flags | None = None
) -> Flags | None:
    """(which, d) the gaps of rows that only their sensors' past can fill, if anything can; None: there are none."""
    uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
    missing = np.isnan(uncertain.lo)
    if spared is not None:
        missing[spared] = False
    if chain is None:
        return missing if missing.any() else None
    if not (missing & ~chain.always).any():
        return None
    values = chain.values(uncertain, rows.raw if which is None else rows.raw[which])
    return chain.needs(Evidence(values, missing, rows.source, which))


def decided(needs: Flags | None, copies: Copies, n: int) -> Ints:
    """(n,) what becomes of rows where no sensor's past helps."""
    fate = np.zeros(n, np.int64)  # TAKEN
    if needs is not None:
        fate[needs.any(axis=1)] = UNABLE
    if copies:
        fate[others(copies, fate == TAKEN)] = COPY
    return fate


def refused_first(chain: Chain | None, needs: Flags, unable: Flags, carried: Ints, name: Ints, time: Floats) -> Ints:
    """Which of the rows that are unable (n,) are rejected whatever becomes of others: where values are carried over,
    what a row lacks may depend on which earlier rows count.

    Of each name (n,) the first are; and all whose gaps (n, d) lie in columns where only readings could help, of which
    fewer rows give fewer. (Unless a user's own imputer or a rule about the recent past may see it otherwise.)
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


class Intake:
    """Imputes the rows of one monitor as they come: remembers sensors' readings, and keeps score on hidden values."""

    def __init__(self, chain: Chain, *, eager: bool, scoring: bool) -> None:
        self.chain, self.eager = chain, eager
        self.state: SensorState | None = None if chain.sensors is None else chain.sensors.state()
        self.scorer = Scorer(chain) if scoring else None
        self.scored: Sums = {}

    def impute(self, rows: Decoded, asked: Asked) -> Imputed:
        """What becomes of the rows, what imputers keep of them, their clouds, and the gaps that they revise.

        Rows that are taken join their sensors' readings. Only an imputer of the user's own can raise an error then.
        """
        context, revised, fate = self._context(rows, asked)
        looked = look(self.chain, rows, asked.which, context, rows.refused, at_once=False)
        uncertain = filled(self.chain, looked) if self.eager else bounded(self.chain, looked)
        return Imputed(looked, uncertain, revised if self.chain.hindsight else None, fate)

    def unable(self, rows: Decoded, asked: Asked, needs: Flags) -> Flags:
        """(which,) rows with gaps that nothing can fill, if all of them were taken; nothing changes. See `needs`."""
        if self.state is None:
            return np.asarray(needs.any(axis=1))
        trial = Intake(self.chain, eager=False, scoring=False)
        trial.state = self.state.part(asked.names)
        return np.asarray(trial._context(rows, asked)[2] == UNABLE)

    def _context(self, rows: Decoded, asked: Asked) -> tuple[Floats | None, Revised | None, Ints]:
        """What the sensors of rows with gaps have read before; now and then a known value is hidden, to keep score."""
        which, n = asked.which, len(rows.arrived) if asked.which is None else len(asked.which)
        needs = lacking_context(self.chain, rows, which, asked.spared)
        if self.state is None and self.scorer is None:
            return None, None, decided(needs, asked.copies, n)
        every = slice(None) if which is None else which
        uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
        arrived, values = rows.arrived[every], self.chain.values(uncertain, rows.raw[every])
        hiding = None if self.scorer is None else self.scorer.hiding(arrived, values)
        context, revised, missing, fate = None, None, np.isnan(uncertain.lo), decided(needs, asked.copies, n)
        if self.state is not None:
            wanted, latest = np.asarray(np.isnan(values).any(axis=1)), self.chain.query.latest
            version = rows.version[every] if latest and rows.version is not None else None
            order, stamp = in_order(arrived, version, asked.copies), stamps(asked.copies, n)
            corrects = (np.zeros(n, np.int64) if version is None else version) if latest else None
            claims = self.chain.claims(order, stamp, needs, np.ones(n, np.bool_), corrects)
            gaps = gaps_of(self.chain.query, missing, rows.expires[every])
            watched = self.state, asked.names, arrived, values, wanted, gaps, claims
            context, revised, fate = self.chain.settle(*watched, hiding=hiding)
        if self.scorer is not None and hiding is not None:
            evidence = Evidence(values, missing, rows.source, which)
            hidden = hiding.hidden.part(fate[hiding.hidden.row] == TAKEN)
            for _, one in self.scorer.score(evidence, hidden, rows.kind):
                add(self.scored, one)
        return context, revised, fate
