"""How does a row with gaps become a cloud?

The repository gives, for each missing cell, the values that matching rows of history hold and how often; imputed values
never feed other imputations. Before that it gives bounds, which are often enough: a row whose box is surely beaten
needs no distribution (paper: "imputation and query processing at the same time").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.arrays import ONE, VAGUE, Batch, Clouds, Distributions, Floats, Ints, empty_clouds
from fogline.errors import HistoryError
from fogline.kernels.sorted import pour
from fogline.model import Query
from fogline.repository.repository import LEVEL_0, Repository
from fogline.repository.sensors.model import counted
from fogline.repository.sensors.state import SensorState, sensor_names

CONTEXT = "fogline context"  # the column in which rows on their way carry what their sensors said before
TOLD = "fogline told"  # a column of bits: which attributes a function of the user's told
PAST = -2  # the choice of a distribution that no combination of rules gave, but the sensor's transition


class Chain:
    """Fills gaps from a repository, for one query."""

    def __init__(self, repository: Repository, query: Query) -> None:
        lacking = [name for name in query.names if name not in repository.lattices]
        if lacking:
            raise HistoryError(
                f"the repository was fitted for another query: it imputes {', '.join(sorted(repository.lattices))}, "
                f"not {', '.join(lacking)}."
            )
        self.repository, self.query = repository, query
        self.names = repository.determinants
        place = {name: k for k, name in enumerate(self.names)}
        self.mine = [k for k, name in enumerate(self.names) if name in query.attributes]  # determinants that are …
        self.theirs = [query.names.index(self.names[k]) for k in self.mine]  # … attributes, and which
        self.extra = [(k, name) for k, name in enumerate(self.names) if name not in query.attributes]
        self.asked = [  # per attribute: what its rules ask for, and where that stands in `known`
            [(name, place[name]) for name in repository.lattices[each].determinants] for each in query.names
        ]
        self.signs = np.array(query.signs)
        self.sensors = repository.sensors
        past, now = (0, 0) if self.sensors is None else (self.sensors.width, len(self.sensors.names))
        self.context = slice(len(self.names), len(self.names) + past)  # where what sensors said stands in `known`, …
        self.readings = slice(self.context.stop, self.context.stop + now)  # … and what they say, in the same order
        self.width = self.readings.stop
        self.limits = [query.limits.get(name, (-np.inf, np.inf)) for name in query.names]

    def known(self, column: Callable[[str], pa.Array | None], clouds: Clouds) -> Floats:
        """(n, width) what may be asked for. Of the skyline's attributes only single, plausible values count."""
        single = self.single(clouds)
        if (told := column(TOLD)) is not None:  # what a function of the user's told is not known
            bits = told.to_numpy(zero_copy_only=False)
            single = np.where((bits[:, None] >> np.arange(single.shape[1])) & 1, np.nan, single)
        out = np.full((len(single), self.width), np.nan)
        out[:, self.mine] = single[:, self.theirs]
        if self.sensors is not None:
            for k, name in enumerate(self.sensors.names):
                if name in self.query.attributes:
                    out[:, self.readings.start + k] = single[:, self.query.names.index(name)]
            if (context := column(CONTEXT)) is not None:
                there = context.is_valid().to_numpy(zero_copy_only=False)
                out[there, self.context] = context.drop_null().flatten().to_numpy().reshape(-1, self.sensors.width)
        for k, name in self.extra:
            if (values := column(name)) is not None:
                out[:, k] = self.repository.history.columns[name].encode(values)
        return out

    def single(self, clouds: Clouds) -> Floats:
        """(n, d) attributes as they came, where they did as single, plausible values; of clouds with NaN for gaps."""
        return np.where(clouds.start < 0, clouds.lo * self.signs + 0.0, np.nan)

    def recall(
        self, memory: SensorState, batch: Batch, keys: Sequence[tuple[Any, ...]] | None = None, also: Ints | None = None
    ) -> None:
        """Write what the sensors said before into what is known of rows with gaps; then these rows are remembered.

        `keys`: the groups of the rows; `also`: other rows that want to know.
        """
        names = sensor_names(batch.id.tolist(), keys)
        readings = batch.known[:, self.readings]
        gaps = np.asarray(np.isnan(readings).any(axis=1))
        if also is not None:
            gaps[also] = True
        told = memory.update(names, batch.arrived, readings, gaps)
        batch.known[gaps, self.context] = told

    def hopeless(self, known: Floats, gaps: NDArray[np.bool_]) -> dict[int, str]:
        """Rows that lack an attribute of which nobody knows any value, with that as the reason."""
        out: dict[int, str] = {}
        if all(len(each.values) for each in self.repository.lattices.values()):
            return out
        for j, rows, source in self._sources(known, gaps):
            name = self.query.names[j]
            if source == LEVEL_0 and not len(self.repository.lattices[name].values):
                reason = f"{name!r} is missing, and the repository has no value for it"
                out |= dict.fromkeys(rows.tolist(), reason)
        return out

    def bound(self, clouds: Clouds, known: Floats, gaps: NDArray[np.bool_], *, rough: bool = False) -> Clouds:
        """The clouds with bounds where `gaps` (n, d) says that a cell is missing; VAGUE where they are apart.

        They are the ends of the distribution that `fill` gives; `rough`: or beyond, where that is quicker.
        """
        lo, hi, start = clouds.lo.copy(), clouds.hi.copy(), clouds.start.copy()
        for j, rows, source in self._sources(known, gaps):
            low, high = self._ends(j, rows, source, known, rough)
            lo[rows, j], hi[rows, j] = (low, high) if self.signs[j] > 0 else (0.0 - high, 0.0 - low)
            start[rows, j] = np.where(low == high, ONE, VAGUE)
        return clouds._replace(lo=lo, hi=hi, start=start)

    def fill(self, clouds: Clouds, known: Floats, gaps: NDArray[np.bool_]) -> Clouds:
        """The clouds with distributions where `gaps` (n, d) says that a cell is missing."""
        found = self.search(known, gaps)
        used = len(clouds.value)
        n, d = clouds.lo.shape
        out = empty_clouds(n, d, used + sum(int(each.size.sum()) for _, _, each in found))
        for name in ("lo", "hi", "start", "size"):
            getattr(out, name)[:] = getattr(clouds, name)
        for name in ("value", "weight", "tail"):
            getattr(out, name)[:used] = getattr(clouds, name)
        for j, rows, each in found:
            used = pour(each.start, each.size, each.value, each.often, rows, j, self.signs[j], out, used)
        return out

    def search(self, known: Floats, gaps: NDArray[np.bool_]) -> list[tuple[int, Ints, Distributions]]:
        """The distributions of all missing cells: attribute, rows, and one for each of them."""
        return [(j, rows, self._told(j, rows, source, known)) for j, rows, source in self._sources(known, gaps)]

    def _told(self, j: int, rows: Ints, source: int, known: Floats) -> Distributions:
        """The distributions of attribute j."""
        name = self.query.names[j]
        if source == LEVEL_0 or self.sensors is None:
            return self.repository.search(name, self.centres(j, known, rows), len(rows))
        values, context = known[rows, self.readings], known[rows, self.context]
        if source == PAST:
            spread = self.sensors.distributions(name, values, context, *self.limits[j])
        else:
            spread = counted(self.sensors.recent_values(PAST - 1 - source, context))
        return spread._replace(source=np.full(len(rows), source))

    def _ends(self, j: int, rows: Ints, source: int, known: Floats, rough: bool) -> tuple[Floats, Floats]:
        """The least and the greatest value of the same, or what lies beyond them."""
        name = self.query.names[j]
        if source == LEVEL_0 or self.sensors is None:
            return self.repository.bounds(name, self.centres(j, known, rows), len(rows))
        values, context = known[rows, self.readings], known[rows, self.context]
        if source != PAST:
            found = self.sensors.recent_values(PAST - 1 - source, context)
            return np.nanmin(found, axis=1), np.nanmax(found, axis=1)
        if rough:
            return self.sensors.transitions[name].rough_bounds(self.sensors.last(name, context), *self.limits[j])
        return self.sensors.bounds(name, values, context, *self.limits[j])

    def _sources(self, known: Floats, gaps: NDArray[np.bool_]) -> list[tuple[int, Ints, int]]:
        """Per attribute that any row lacks, who tells it of which rows.

        A rule about the recent past (PAST - 1 for the first, and so on), the sensor's PAST, or, for those of whom
        neither knows anything, the lattice of rules (LEVEL_0, if none of them does either).
        """
        out: list[tuple[int, Ints, int]] = []
        for j, rows in self.missing(gaps):
            for source, able in self._asked_first(self.query.names[j], known[:, self.context]):
                mine = rows[able[rows]]
                rows = rows[~able[rows]]
                out += [(j, mine, source)] if len(mine) else []
            out += [(j, rows, LEVEL_0)] if len(rows) else []
        return out

    def _asked_first(self, name: str, context: Floats) -> list[tuple[int, NDArray[np.bool_]]]:
        """Who is asked for an attribute before the lattice is, and for which rows they have something to say."""
        if self.sensors is None:
            return []
        rules = [r for r, rule in enumerate(self.sensors.recent) if rule.then == name]
        out = [(PAST - 1 - r, np.asarray(~np.isnan(self.sensors.recent_values(r, context)).all(axis=1))) for r in rules]
        if name in self.sensors.transitions:
            out.append((PAST, np.asarray(~np.isnan(self.sensors.last(name, context)))))
        return out

    def missing(self, gaps: NDArray[np.bool_]) -> list[tuple[int, Ints]]:
        """Per attribute that any row lacks, the rows that lack it."""
        return [(j, rows) for j in range(gaps.shape[1]) if len(rows := np.flatnonzero(gaps[:, j]))]

    def centres(self, j: int, known: Floats, rows: Ints) -> dict[str, Floats]:
        """What the rules for attribute j ask of these rows."""
        return {name: known[rows, k] for name, k in self.asked[j]}
