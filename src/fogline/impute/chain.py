"""Which imputer fills which gap? They are asked in order; the first that is able decides.

`chain_of` makes the order. A chain gives gaps *bounds* first, the least and the greatest value each cell may have: a
row whose box is surely dominated needs no distribution (paper: "imputation and query processing at the same time").
`fill` makes distributions when they are needed. Imputed values never feed other imputations.

With hindsight a cell's box is the *reach* of its imputers: what they answer now, and what they may come to when the
row's sensor has been read again. Then `note` adds the reading to what is kept of the row, and `fill` gives the cell its
last distribution, clipped to the box, which then narrows to the ends of the distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fogline.arrays import (
    ASKED_NO_MORE,
    BOUNDS_ONLY,
    ONE,
    SHARED,
    Distributions,
    Flags,
    Floats,
    Ints,
    Revisions,
    UncertainRows,
    empty_rows,
)
from fogline.errors import FoglineError
from fogline.impute.protocol import Evidence, Hindsight, Imputer, fewer, part, with_defaults
from fogline.impute.row import Mean, Others, Rules, Whole
from fogline.impute.sensor import Last, Past, RecentRule, readings
from fogline.kernels.sensors import Candidates, known_values
from fogline.kernels.uncertain import pour
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.state import SensorResult, SensorRows, SensorState
from fogline.rows.names import Copies, in_order, stamps
from fogline.show import count_of


def chain_of(
    repository: Repository | None,
    query: Query,
    imputer: Imputer | None = None,
    *,
    remember: bool = True,
    hindsight: bool | None = None,
) -> Chain | None:
    """The user's own imputer and those of a repository, in the order in which they are asked; None if there are none.

    `remember`: whether what sensors have read before counts. `hindsight`: whether later readings do; None: where that
    was learnt and more than the newest row of each id counts.
    """
    sensors = _sensors(repository, query, remember, hindsight)
    own = [] if imputer is None else [imputer]
    if repository is None:
        return Chain(own, query, own=imputer) if own else None
    rules, others = Rules(repository, query), repository.others
    values, counts = [each.values for each in rules.lattices], [each.counts for each in rules.lattices]
    by_sensor: list[Imputer] = []
    if sensors is not None:
        sensors.check_keys(query)
        by_sensor += [RecentRule(rule, r, sensors, query) for r, rule in enumerate(sensors.recent)]
        by_sensor += [Last(sensors, query)] if repository.method == "last" else []
        by_sensor += [Past(sensors, query)] if sensors.transitions else []
    order: list[Imputer] = [
        *own,
        *by_sensor,  # what the user has stated about the recent past, then what was learnt of it
        *([Others(others, repository.history.columns, query)] if others else []),
        *([rules] if repository.rules else []),
        Mean(values, counts) if repository.method == "mean" else Whole(values, counts, repository.values),
    ]
    return Chain(order, query, sensors, most=repository.values, own=imputer)


def _sensors(repository: Repository | None, query: Query, remember: bool, hindsight: bool | None) -> SensorModel | None:
    """The repository's sensors, if they are remembered, with hindsight or without."""
    if query.latest and hindsight:
        raise FoglineError(
            "hindsight is on, and only the newest row of each id counts (latest): a sensor's next reading replaces "
            "the row whose gap it would revise; leave hindsight out."
        )
    sensors = None if repository is None or not remember else repository.sensors
    if hindsight and (sensors is None or not sensors.hindsight):
        why = "the repository has not learnt from both sides of gaps (fit it with hindsight, from a history of sensors)"
        if repository is None or not remember:
            why = "there is no repository" if repository is None else "sensors' readings are not remembered"
        raise FoglineError(f"hindsight is on, and {why}; leave hindsight out, and it is on where it was learnt.")
    if sensors is None:
        return None
    without = query.latest or hindsight is False
    return replace(sensors.without_hindsight() if without else sensors, most=query.max_sensors)


def fillers(chain: Chain, j: int) -> list[str]:
    """In words, the imputers that can fill gaps of attribute j, in the order in which they are asked."""
    return [way for each in chain.imputers if (way := with_defaults(each).way(j))]


class FilledCells(NamedTuple):
    """What one imputer gives for one attribute of some rows."""

    attribute: int
    rows: Ints  # (q,)
    imputer: Imputer
    found: Distributions  # of q cells


@dataclass(slots=True)
class Tally:
    """What hindsight has done so far."""

    revised: int = 0  # cells that were given their last distribution
    clipped: float = 0.0  # the mass of such distributions that lay outside their boxes


class Chain:
    """Imputers in the order in which they are asked.

    `sensors`: those whose readings give rows their contexts; None: rows have none. `most`: how many values a
    distribution has at most; those by `own`, the user's imputer, stay as they are.
    """

    def __init__(
        self,
        imputers: Sequence[Imputer],
        query: Query,
        sensors: SensorModel | None = None,
        *,
        most: int | None = None,
        own: Imputer | None = None,
    ) -> None:
        self.imputers, self.query, self.sensors = tuple(imputers), query, sensors
        self.most, self.own = most, own
        self.signs = np.array(query.signs)
        order = query.names if sensors is None else sensors.names
        self.in_state = np.array([order.index(name) for name in query.names])  # (d,) as sensors number them
        self.lasting = [each for each in self.imputers if each.lasting]  # asked when it matters; others at once
        ends = np.cumsum([0, *(each.width for each in self.lasting)]).tolist()
        self.at = {id(each): slice(*span) for each, span in zip(self.lasting, pairwise(ends), strict=True)}
        self.width = ends[-1]  # numbers kept of a row; `at`: those of each imputer
        self.revising = {id(each): each for each in self.lasting if isinstance(each, Hindsight)}
        blank = np.full((1, self.width), np.nan)
        asked = [(each, blank[:, self.at[number]]) for number, each in self.revising.items()]
        # (d,) attributes of which a later reading may revise gaps
        self.opens = np.array([any(each.open(one, j)[0] for each, one in asked) for j in range(len(self.signs))])
        self.tally = Tally()
        self.shared = self._shared()
        whole = [each for each in self.lasting if with_defaults(each).constant]
        # (d,) attributes that have an answer for every gap
        self.always = np.array([any(each.able(blank, j)[0] for each in whole) for j in range(len(self.signs))])

    @property
    def hindsight(self) -> bool:
        """Whether later readings may change answers."""
        return self.sensors is not None and bool(self.opens.any())

    def evidence(self, rows: Evidence) -> Floats:
        """(n, width) what is kept of these rows."""
        out = np.empty((len(rows.values), self.width))
        for each in self.lasting:
            kept = each.look(rows)
            if each is self.own:
                _must_be_kept(each, kept, out.shape[0])
            out[:, self.at[id(each)]] = kept
        return out

    def at_once(self, rows: Evidence, known: Floats, uncertain: UncertainRows) -> UncertainRows:
        """The rows with distributions by imputers that cannot wait, where these come before all that are able."""
        if len(self.lasting) == len(self.imputers):
            return uncertain
        return self._write(uncertain, list(self._at_once(rows, known, np.isnan(uncertain.lo))))

    def values(self, uncertain: UncertainRows, raw: Floats) -> Floats:
        """(n, d) attributes as the user sees them, where they came as single, plausible values; NaN where imputed.

        raw (n, d): the values as they came.
        """
        values: Floats = known_values(uncertain.lo, raw, self.signs)
        return values

    def take(self, state: SensorState, rows: SensorRows) -> SensorResult:
        """The rows pass their sensors (`SensorState.take`), attributes in the query's order, as in what is returned.

        The context is that of all rows here (n, w): NaN where it is not wanted.
        """
        assert self.sensors is not None
        gaps = rows.gaps
        if gaps is not None:
            gaps = gaps._replace(open=self._of_sensors(gaps.open & self.opens))
        values = readings(rows.values, self.sensors, self.query)
        context, revised, fate = state.take(rows._replace(values=values, gaps=gaps))
        out = np.full((len(rows.time), self.sensors.width), np.nan)
        out[rows.wanted] = context
        if self.sensors.names != self.query.names:
            revised = revised._replace(cells=revised.cells[:, self.in_state])
        return SensorResult(out, revised, fate)

    def undecided(
        self, rows: SensorRows, copies: Copies, needs: Flags | None, read: Flags, version: Ints | None
    ) -> SensorRows:
        """The same, with what their sensors need to decide which of them count.

        copies: see `rows.names`; needs (n, d): see `needs`; read (n,): rows that may be readings; version (n,): orders
        rows of one instant where only the newest row of each id counts.
        """
        n, d = rows.values.shape
        version = version if self.query.latest else None
        corrects = np.zeros(n if self.query.latest else 0, np.int64) if version is None else version
        lacked = np.empty((0, d), np.bool_) if needs is None else needs
        assert self.sensors is not None
        last = np.full(len(self.sensors.names), any(with_defaults(each).repeats_last for each in self.imputers))
        candidates = Candidates(stamps(copies, n), self._of_sensors(lacked), last, read, corrects)
        return rows._replace(order=in_order(rows.time, version, copies), candidates=candidates)

    def needs(self, rows: Evidence) -> Flags | None:
        """(n, d) the gaps that no imputer can fill without the sensor's past; None: there are none.

        rows: without context. O(gaps) if some attribute is lacking in the whole history, and else O(1).
        """
        asked = rows.missing & ~self.always
        which = np.flatnonzero(asked.any(axis=1))
        if not len(which):
            return None
        some = rows.part(which)
        known, n = self.evidence(some), len(which)
        blank = np.full((n, len(self.signs)), np.nan)
        boxes = self.bound(empty_rows(n, len(self.signs), 0)._replace(lo=blank, hi=blank.copy()), known, asked[which])
        out = np.zeros(asked.shape, np.bool_)
        out[which] = asked[which] & np.isnan(boxes.lo)
        return out if out.any() else None

    def _of_sensors(self, cells: Flags) -> Flags:
        """Cells (n, d) in the query's order of attributes, in that of the sensors."""
        assert self.sensors is not None
        if self.sensors.names == self.query.names:
            return cells
        out = np.zeros((len(cells), len(self.sensors.names)), np.bool_)
        out[:, self.in_state] = cells
        return out

    def note(self, known: Floats, revisions: Revisions) -> Floats:
        """(n, width) what is kept of rows, with a later reading of each one's sensor noted."""
        out = known.copy()
        for number, each in self.revising.items():
            at = self.at[number]
            out[:, at] = each.note(known[:, at], revisions)
        return out

    def bound(self, uncertain: UncertainRows, known: Floats, gaps: Flags, *, rough: bool = False) -> UncertainRows:
        """The rows with boxes where `gaps` (n, d) are; NaN where no imputer is able.

        A box is the ends of the distribution that `fill` gives, or where a later reading may change it, of all that it
        may become. Where these are apart the cell has bounds only. `rough`: boxes may be wider, where that is quicker,
        and cells have bounds only in any case.
        """
        lo, hi, start = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy()
        for j, rows in missing(gaps):
            low, high = self._box(known, j, rows, rough)
            if np.isnan(low).any():
                there = ~np.isnan(low)
                rows, low, high = rows[there], low[there], high[there]
            lo[rows, j], hi[rows, j] = (low, high) if self.signs[j] > 0 else (0.0 - high, 0.0 - low)
            start[rows, j] = BOUNDS_ONLY if rough else np.where(low == high, ONE, BOUNDS_ONLY)
        return uncertain._replace(lo=lo, hi=hi, start=start)

    def _box(self, known: Floats, j: int, rows: Ints, rough: bool) -> tuple[Floats, Floats]:
        """(rows,) the least and the greatest value that an imputer may give, up to the first that is able now."""
        low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        left = np.arange(len(rows))
        for each in self.lasting:
            kept = known[rows[left], self.at[id(each)]]
            if (revising := self.revising.get(id(each))) is not None:
                ends, able = revising.reach(kept, j, rough=rough), each.able(kept, j)
            else:
                ends = each.bounds(kept, j, rough=rough)
                able = ~np.isnan(ends[0])
            if each is self.lasting[0] and able.all():
                return ends
            low[left], high[left] = np.fmin(low[left], ends[0]), np.fmax(high[left], ends[1])
            left = left[~able]
            if not len(left):
                break
        low[left] = high[left] = np.nan
        return low, high

    def open(self, known: Floats, j: int, until: Imputer) -> Flags:
        """(n,) whether a later reading may still change the answer about attribute j, by `until` or one before."""
        out = np.zeros(len(known), np.bool_)
        for each in self.lasting[: self.lasting.index(until) + 1]:
            if (revising := self.revising.get(id(each))) is not None:
                out |= revising.open(known[:, self.at[id(each)]], j)
        return out

    def fill(self, uncertain: UncertainRows, known: Floats, gaps: Flags, *, sharing: bool = False) -> UncertainRows:
        """The rows with distributions where `gaps` (n, d) are, none beyond the box that the cell has.

        The box of a cell that no later reading can change becomes the ends of the distribution. `sharing`: a cell that
        gets just the list that `shared` has for its attribute is SHARED, and has no values of its own.
        """
        answers = list(self.search(known, gaps))
        final = [~self.open(known[each.rows], each.attribute, each.imputer) for each in answers]
        for each, done in zip(answers, final, strict=True):
            if id(each.imputer) in self.revising and self.opens[each.attribute]:
                self.tally.revised += int(np.count_nonzero(done))
        return self._write(uncertain, answers, final, sharing=sharing)

    def fill_sharing(self, uncertain: UncertainRows, known: Floats, gaps: Flags) -> UncertainRows:
        """`fill` as groups call it, which hold the shared lists once."""
        return self.fill(uncertain, known, gaps, sharing=True)

    def _shared(self) -> UncertainRows:
        """One row with the lists that the last imputer gives every row, if that is constant."""
        d, row, blank = len(self.signs), np.zeros(1, np.int64), np.full((1, len(self.signs)), np.nan)
        answers, last = [], self.lasting[-1] if self.lasting else None
        if last is not None and with_defaults(last).constant:
            found = [last.distributions(np.empty((1, 0)), j) for j in range(d)]
            answers = [FilledCells(j, row, last, one) for j, one in enumerate(found) if one.size[0] > 1]
        return self._write(empty_rows(1, d, 0)._replace(lo=blank, hi=blank.copy()), answers)

    def search(self, known: Floats, gaps: Flags, after: Imputer | None = None) -> Iterator[FilledCells]:
        """The distributions of all missing cells; `after`: by the imputers after this one only."""
        asked = self.lasting[self.lasting.index(after) + 1 :] if after is not None else self.lasting
        for j, rows in missing(gaps):
            for each in asked:
                found = each.distributions(known[rows, self.at[id(each)]], j)
                there = found.size > 0
                if there.any():
                    found = found if there.all() else part(found, there)
                    yield FilledCells(j, rows[there], each, found if each is self.own else fewer(found, self.most))
                rows = rows[~there]
                if not len(rows):
                    break

    def _at_once(self, rows: Evidence, known: Floats, gaps: Flags) -> Iterator[FilledCells]:
        """The distributions of cells that fall to imputers that cannot wait."""
        looked = {id(each): each.look(rows) for each in self.imputers if not each.lasting}
        for j, left in missing(gaps):
            for each in self.imputers:
                if each.lasting:
                    left = left[~each.able(known[left, self.at[id(each)]], j)]
                    continue
                found = each.distributions(looked[id(each)][left], j)
                there = found.size > 0
                if there.any():
                    yield FilledCells(j, left[there], each, part(found, there))
                left = left[~there]

    def _write(
        self,
        uncertain: UncertainRows,
        answers: Sequence[FilledCells],
        final: Sequence[Flags] | None = None,
        *,
        sharing: bool = False,
    ) -> UncertainRows:
        """The rows with these distributions. Boxes of `final` cells become their ends, as do all that are not there."""
        used, (n, d) = len(uncertain.value), uncertain.lo.shape
        out = empty_rows(n, d, used + sum(int(each.found.size.sum()) for each in answers))
        for name in ("lo", "hi", "start", "size"):
            getattr(out, name)[:] = getattr(uncertain, name)
        for name in ("value", "weight", "tail"):
            getattr(out, name)[:used] = getattr(uncertain, name)
        for each, done in zip(answers, final or [np.ones(len(each.rows), np.bool_) for each in answers], strict=True):
            j, rows, found = each.attribute, each.rows, each.found
            common = self._are_shared(each, uncertain) if sharing else np.zeros(len(rows), np.bool_)
            if common.any():
                self._share(out, rows[common], j)
                rows, found, done = rows[~common], part(found, ~common), done[~common]
            used, outside = pour(found, rows, j, self.signs[j], out, used, done)
            self.tally.clipped += outside
        return out._replace(value=out.value[:used], weight=out.weight[:used], tail=out.tail[:used])

    def _share(self, out: UncertainRows, rows: Ints, j: int) -> None:
        for name in ("lo", "hi", "size"):
            getattr(out, name)[rows, j] = getattr(self.shared, name)[0, j]
        out.start[rows, j] = SHARED

    def _are_shared(self, answer: FilledCells, uncertain: UncertainRows) -> Flags:
        """(q,) which cells get the shared list, and have just its ends as their box, or none."""
        j, rows = answer.attribute, answer.rows
        if answer.imputer is not self.lasting[-1] or self.shared.start[0, j] < 0:
            return np.zeros(len(rows), np.bool_)
        lo, hi, box = uncertain.lo[rows, j], uncertain.hi[rows, j], (self.shared.lo[0, j], self.shared.hi[0, j])
        return np.asarray(np.isnan(lo) | ((lo == box[0]) & (hi == box[1])))


def _must_be_kept(imputer: Imputer, kept: Floats, rows: int) -> None:
    """What a user's imputer keeps of rows keeps the contract; else an error that states how it does not."""
    if np.shape(kept) != (rows, imputer.width):
        raise FoglineError(
            f"the imputer {imputer.name!r} looked at {count_of(rows, 'row')} and returned an array of the shape "
            f"{np.shape(kept)}; it is (rows, width), here {(rows, imputer.width)}."
        )
    if (np.asarray(kept) == ASKED_NO_MORE).any():
        raise FoglineError(
            f"the imputer {imputer.name!r} keeps +inf of a row, which marks rows about which no imputer is asked; let "
            "`look` return NaN or a finite number instead."
        )


def missing(gaps: Flags) -> list[tuple[int, Ints]]:
    """Per attribute that any row lacks, the rows that lack it."""
    lacked = np.asarray(gaps.any(axis=0)).tolist()
    return [(j, np.flatnonzero(gaps[:, j])) for j, some in enumerate(lacked) if some]
