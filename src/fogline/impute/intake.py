"""How do decoded rows with gaps become clouds?

Imputers look at the rows that lack something, once; what they keep travels with the row (`known`). Those that cannot
wait fill their cells at once, the others give bounds now and distributions when they are needed. A row that lacks a
value which no imputer can give is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import VAGUE, Clouds, Floats, Ints
from fogline.impute.chain import Chain
from fogline.impute.imputer import Evidence
from fogline.impute.past import readings
from fogline.impute.scoring import Scorer, Sums, add, chosen
from fogline.repository.sensors.gaps import Revised, gaps_of
from fogline.repository.sensors.state import Name, SensorState, sensor_names
from fogline.rows.clock import Reasons
from fogline.rows.reader import Decoded

_NONE = np.empty(0, np.int64)


class Looked(NamedTuple):
    """Rows that imputers have looked at. What only later imputation can give is still NaN in the clouds."""

    clouds: Clouds  # of n rows
    lacking: Ints  # (m,) those that lack something
    known: Floats  # (m, width) what imputers keep of these

    def part(self, which: Ints) -> Looked:
        """Some of the rows."""
        number = np.full(len(self.clouds.lo), -1)
        number[self.lacking] = np.arange(len(self.lacking))
        found = number[which]
        return Looked(self.clouds.part(which), np.flatnonzero(found >= 0), self.known[found[found >= 0]])

    def of_all(self) -> Floats:
        """(n, width) what is kept of every row: nothing of complete ones."""
        out = np.full((len(self.clouds.lo), self.known.shape[1]), np.nan)
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
    clouds = rows.clouds if which is None else rows.clouds.part(which)
    missing = np.isnan(clouds.lo)
    lacking = np.flatnonzero(missing.any(axis=1))
    if not len(lacking):
        return Looked(clouds, lacking, np.empty((0, chain.width)))
    few = clouds.part(lacking)
    place = lacking if which is None else which[lacking]
    near = None if context is None else context[lacking]
    evidence = Evidence(chain.values(few, rows.raw[place]), missing[lacking], rows.source, place, near, refused)
    known = chain.evidence(evidence)
    answered = chain.at_once(evidence, known, few) if at_once else few
    return Looked(clouds if answered is few else put(clouds, lacking, answered), lacking, known)


def bounded(chain: Chain, looked: Looked, *, rough: bool = False) -> Clouds:
    """The clouds with bounds for what is missing; still NaN where no imputer is able."""
    if not len(looked.lacking):
        return looked.clouds
    few = looked.clouds.part(looked.lacking)
    return put_bounds(looked.clouds, looked.lacking, chain.bound(few, looked.known, np.isnan(few.lo), rough=rough))


def filled(chain: Chain, looked: Looked) -> Clouds:
    """The clouds with distributions for what is missing; still NaN where no imputer is able."""
    if not len(looked.lacking):
        return looked.clouds
    few = bounded(chain, looked).part(looked.lacking)
    return put(looked.clouds, looked.lacking, chain.fill_sharing(few, looked.known, few.start == VAGUE))


def unable(clouds: Clouds, looked: Looked, names: tuple[str, ...], repository: bool = True) -> dict[int, str]:
    """The rows with a gap that no imputer can fill, with that as the reason."""
    why = "the repository has no value for it" if repository else "there is no repository to impute it from"
    still = np.isnan(clouds.lo[looked.lacking])
    rows, attributes = np.nonzero(still)
    reasons: dict[int, str] = {}
    for row, j in zip(looked.lacking[rows].tolist(), attributes.tolist(), strict=True):
        reasons.setdefault(row, f"{names[j]!r} is missing, and {why}")
    return reasons


def put_bounds(clouds: Clouds, rows: Ints, few: Clouds) -> Clouds:
    """The clouds with other bounds for some rows: what has only bounds has no values of its own."""
    lo, hi, start = clouds.lo.copy(), clouds.hi.copy(), clouds.start.copy()
    lo[rows], hi[rows], start[rows] = few.lo, few.hi, few.start
    return clouds._replace(lo=lo, hi=hi, start=start)


def put(clouds: Clouds, rows: Ints, few: Clouds) -> Clouds:
    """The clouds with some rows replaced. Pools of `few` begin with those of the clouds."""
    lo, hi, start, size = clouds.lo.copy(), clouds.hi.copy(), clouds.start.copy(), clouds.size.copy()
    lo[rows], hi[rows], start[rows], size[rows] = few.lo, few.hi, few.start, few.size
    return Clouds(lo, hi, start, size, few.value, few.weight, few.tail)


class Imputed(NamedTuple):
    """Rows as the live set takes them."""

    looked: Looked
    clouds: Clouds  # NaN where no imputer is able
    revised: Revised | None  # the gaps that they revise; None: there is no hindsight


class Intake:
    """Imputes the rows of one monitor as they come: remembers sensors' readings, and keeps score on hidden values."""

    def __init__(self, chain: Chain, *, eager: bool, scoring: bool) -> None:
        self.chain, self.eager = chain, eager
        self.state: SensorState | None = None if chain.sensors is None else chain.sensors.state()
        self.scorer = Scorer(chain) if scoring else None
        self.scored: Sums = {}

    def impute(
        self, rows: Decoded, which: Ints | None, ids: Sequence[Any], keys: Sequence[tuple[Any, ...]] | None
    ) -> Imputed:
        """What imputers keep of the rows `which` (None: all), their clouds, and the gaps that they revise.

        `ids`, `keys`: of all rows. Rows with imputed cells that make no sense are refused.
        """
        if which is not None:
            ids, keys = [ids[k] for k in which], None if keys is None else [keys[k] for k in which]
        names = [] if self.state is None else sensor_names(ids, keys)
        context, revised = None, None
        if self.state is not None or self.scorer is not None:
            context, revised = self._context(rows, which, names)
        looked = look(self.chain, rows, which, context, rows.refused)
        if self.chain.hindsight and revised is not None:
            revised = self._still_gaps(rows, which, names, looked, revised)
        return Imputed(looked, filled(self.chain, looked) if self.eager else bounded(self.chain, looked), revised)

    def _context(
        self, rows: Decoded, which: Ints | None, names: Sequence[Name]
    ) -> tuple[Floats | None, Revised | None]:
        """What the sensors of rows with gaps have read before; now and then a known value is hidden, to keep score."""
        clouds = rows.clouds if which is None else rows.clouds.part(which)
        every = slice(None) if which is None else which
        arrived, values = rows.arrived[every], self.chain.values(clouds, rows.raw[every])
        hidden, attribute = chosen(arrived, values) if self.scorer is not None else (_NONE, _NONE)
        context, revised = None, None
        if self.state is not None:
            wanted = np.asarray(np.isnan(values).any(axis=1))
            wanted[hidden] = True
            if self.chain.query.latest and self.chain.sensors is not None:  # a correction is the truer reading
                version = None if rows.version is None else rows.version[every]
                came = readings(values, self.chain.sensors, self.chain.query)
                self.state.make_way(names, arrived, came, version)
            gaps = gaps_of(self.chain.query, np.isnan(clouds.lo), rows.expires[every])
            context, revised = self.chain.watch(self.state, names, arrived, values, wanted, gaps)
        if self.scorer is not None and len(hidden):
            place = hidden if which is None else which[hidden]
            near = None if context is None else context[hidden]
            evidence = Evidence(values[hidden], np.isnan(clouds.lo[hidden]), rows.source, place, near)
            for _, one in self.scorer.score(evidence, attribute):
                add(self.scored, one)
        return context, revised

    def _still_gaps(
        self, rows: Decoded, which: Ints | None, names: Sequence[Name], looked: Looked, revised: Revised
    ) -> Revised:
        """Without the cells that were filled at once: they count as if the row had come with them, and are final."""
        assert self.state is not None
        before = np.isnan((rows.clouds if which is None else rows.clouds.part(which)).lo)
        filled_now = before & ~np.isnan(looked.clouds.lo)
        if not filled_now.any():
            return revised
        some = np.flatnonzero(filled_now.any(axis=1))
        arrived = rows.arrived if which is None else rows.arrived[which]
        self.chain.close(self.state, [names[k] for k in some.tolist()], arrived[some], filled_now[some])
        here = revised.row >= 0
        revised.cells[here] &= ~filled_now[revised.row[here]]
        return revised.part(revised.cells.any(axis=1))
