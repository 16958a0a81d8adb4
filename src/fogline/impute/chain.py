"""Who fills which gap? Imputers are asked in order; the first that is able decides.

A chain gives rows with gaps *bounds* first, the least and the greatest value each missing cell may have: a row whose
box is surely beaten needs no distribution (paper: "imputation and query processing at the same time"). `fill` makes
distributions of bounds when it comes to that. Imputed values never feed other imputations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fogline.arrays import ONE, SHARED, VAGUE, Clouds, Distributions, Flags, Floats, Ints, empty_clouds
from fogline.impute.fewer import fewer
from fogline.impute.imputer import Evidence, Imputer, part
from fogline.impute.others import Others
from fogline.impute.past import Last, Past, RecentRule, readings
from fogline.impute.rules import Rules
from fogline.impute.whole import Constant, Mean, Whole
from fogline.kernels.distributions import pour
from fogline.kernels.hiding import known_values
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.repository.sensors.model import SensorModel
from fogline.repository.sensors.state import Name, SensorState


class Answer(NamedTuple):
    """What one imputer gives for one attribute of some rows."""

    attribute: int
    rows: Ints  # (q,)
    imputer: Imputer
    found: Distributions  # of q cells


class Chain:
    """Imputers in the order in which they are asked. `sensors`: whose readings give rows their context, if any do."""

    def __init__(self, imputers: Sequence[Imputer], query: Query, sensors: SensorModel | None = None) -> None:
        self.imputers, self.query, self.sensors = tuple(imputers), query, sensors
        self.signs = np.array(query.signs)
        self.lasting = [each for each in self.imputers if each.lasting]
        ends = np.cumsum([0, *(each.width for each in self.lasting)]).tolist()
        self.at = {id(each): slice(*span) for each, span in zip(self.lasting, pairwise(ends), strict=True)}
        self.width = ends[-1]
        self.shared = self._shared()

    def evidence(self, rows: Evidence) -> Floats:
        """(n, width) what is kept of these rows."""
        out = np.empty((len(rows.values), self.width))
        for each in self.lasting:
            out[:, self.at[id(each)]] = each.look(rows)
        return out

    def at_once(self, rows: Evidence, known: Floats, clouds: Clouds) -> Clouds:
        """The clouds with distributions by imputers that cannot wait, where they come before all that are able."""
        if len(self.lasting) == len(self.imputers):
            return clouds
        return self._write(clouds, list(self._at_once(rows, known, np.isnan(clouds.lo))))

    def values(self, clouds: Clouds, raw: Floats) -> Floats:
        """(n, d) attributes as the user sees them, where they came as single, plausible values; raw (n, d): as they
        came.

        What an imputer has filled in is not among them.
        """
        values: Floats = known_values(clouds.lo, raw, self.signs)
        return values

    def contexts(
        self, state: SensorState, names: Sequence[Name], arrived: Floats, values: Floats, wanted: Flags,
        code: Ints | None = None,
    ) -> Floats:  # fmt: skip
        """(n, w) what the sensors of the wanted rows have read before, NaN for the others; then the rows join the
        state.

        `code` (n,): which of the names a row has, if not its own.
        """
        assert self.sensors is not None
        out = np.full((len(arrived), self.sensors.width), np.nan)
        out[wanted] = state.update(names, arrived, readings(values, self.sensors, self.query), wanted, code)
        return out

    def bound(self, clouds: Clouds, known: Floats, gaps: Flags, *, rough: bool = False) -> Clouds:
        """The clouds with bounds where `gaps` (n, d) are: VAGUE where they are apart, NaN where no imputer is able.

        They are the ends of the distribution that `fill` gives; `rough`: or beyond, where that is quicker, and VAGUE in
        any case.
        """
        lo, hi, start = clouds.lo.copy(), clouds.hi.copy(), clouds.start.copy()
        for j, rows in missing(gaps):
            for each in self.lasting:
                low, high = each.bounds(known[rows, self.at[id(each)]], j, rough=rough)
                none = np.isnan(low)
                there = rows if not none.any() else rows[~none]
                if len(there):
                    low, high = (low, high) if len(there) == len(rows) else (low[~none], high[~none])
                    turned = (low, high) if self.signs[j] > 0 else (0.0 - high, 0.0 - low)
                    lo[there, j], hi[there, j] = turned
                    start[there, j] = VAGUE if rough else np.where(low == high, ONE, VAGUE)
                rows = rows[none]
                if not len(rows):
                    break
        return clouds._replace(lo=lo, hi=hi, start=start)

    def fill(self, clouds: Clouds, known: Floats, gaps: Flags) -> Clouds:
        """The clouds with distributions where `gaps` (n, d) are."""
        return self._write(clouds, list(self.search(known, gaps)))

    def fill_sharing(self, clouds: Clouds, known: Floats, gaps: Flags) -> Clouds:
        """As `fill`; but a cell that gets what `shared` lists for its attribute is SHARED, and has no values."""
        return self._write(clouds, list(self.search(known, gaps)), sharing=True)

    def _shared(self) -> Clouds:
        """One cloud: the distributions that the last imputer gives every row, if it is such a one."""
        d, row = len(self.signs), np.zeros(1, np.int64)
        answers = []
        for each in self.lasting[-1:]:
            if isinstance(each, Constant):
                found = [each.distributions(np.empty((1, 0)), j) for j in range(d)]
                answers = [Answer(j, row, each, one) for j, one in enumerate(found) if one.size[0] > 1]
        return self._write(empty_clouds(1, d, 0), answers)

    def search(self, known: Floats, gaps: Flags, after: Imputer | None = None) -> Iterator[Answer]:
        """The distributions of all missing cells; `after`: by the imputers behind this one only."""
        asked = self.lasting[self.lasting.index(after) + 1 :] if after is not None else self.lasting
        for j, rows in missing(gaps):
            for each in asked:
                found = each.distributions(known[rows, self.at[id(each)]], j)
                there = found.size > 0
                if there.any():
                    yield Answer(j, rows[there], each, fewer(found if there.all() else part(found, there)))
                rows = rows[~there]
                if not len(rows):
                    break

    def _at_once(self, rows: Evidence, known: Floats, gaps: Flags) -> Iterator[Answer]:
        """The cells that fall to imputers that cannot wait."""
        looked = {id(each): each.look(rows) for each in self.imputers if not each.lasting}
        for j, left in missing(gaps):
            for each in self.imputers:
                if each.lasting:
                    left = left[~each.able(known[left, self.at[id(each)]], j)]
                    continue
                found = each.distributions(looked[id(each)][left], j)
                there = found.size > 0
                if there.any():
                    yield Answer(j, left[there], each, part(found, there))
                left = left[~there]

    def _write(self, clouds: Clouds, answers: Sequence[Answer], *, sharing: bool = False) -> Clouds:
        used, (n, d) = len(clouds.value), clouds.lo.shape
        common = [each for each in answers if sharing and self._is_shared(each)]
        answers = [each for each in answers if not sharing or not self._is_shared(each)]
        out = empty_clouds(n, d, used + sum(int(each.found.size.sum()) for each in answers))
        for name in ("lo", "hi", "start", "size"):
            getattr(out, name)[:] = getattr(clouds, name)
        for name in ("value", "weight", "tail"):
            getattr(out, name)[:used] = getattr(clouds, name)
        for j, rows, _, found in answers:
            used = pour(found, rows, j, self.signs[j], out, used)
        for j, rows, _, _ in common:
            for name in ("lo", "hi", "size"):
                getattr(out, name)[rows, j] = getattr(self.shared, name)[0, j]
            out.start[rows, j] = SHARED
        return out

    def _is_shared(self, answer: Answer) -> bool:
        return answer.imputer is self.lasting[-1] and bool(self.shared.start[0, answer.attribute] >= 0)


def missing(gaps: Flags) -> list[tuple[int, Ints]]:
    """Per attribute that any row lacks, the rows that lack it."""
    return [(j, rows) for j in range(gaps.shape[1]) if len(rows := np.flatnonzero(gaps[:, j]))]


def chain_of(
    repository: Repository | None, query: Query, imputer: Imputer | None = None, *, remember: bool = True
) -> Chain | None:
    """The imputers of a repository, after the user's own; None if there is neither.

    `remember`: whether sensors' own readings count. First what a user has stated about the recent past, then what was
    learnt of the sensor's past, then of the row's other attributes, then rules, then the whole history.
    """
    asked = [] if imputer is None else [imputer]
    if repository is None:
        return Chain(asked, query) if asked else None
    rules, sensors = Rules(repository, query), repository.sensors if remember else None
    level_0 = [each.values for each in rules.lattices], [each.counts for each in rules.lattices]
    if sensors is not None:
        sensors.check_keys(query)
        asked += [RecentRule(rule, r, sensors, query) for r, rule in enumerate(sensors.recent)]
        asked += [Last(sensors, query)] if repository.method == "last" else []
        asked += [Past(sensors, query)] if sensors.transitions else []
    asked += [Others(repository.others, repository.history.columns, query)] if repository.others else []
    asked += [rules] if repository.rules else []
    asked.append(Mean(*level_0) if repository.method == "mean" else Whole(*level_0))
    return Chain(asked, query, sensors)
