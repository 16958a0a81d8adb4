"""What happens in the shift that is shown, and what may its lost values be?

Mine -> control room -> rows, a few ticks at a time. Beside the rows, which are all that the engine gets, the shift
keeps what only the screen and the comparison need: what truly happened, and how the repository spreads what was
lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fogline.demo.control_room import ControlRoom
from fogline.demo.mine import ATTRIBUTES, PERIOD, STEP, Floats, Indices, Mine, Reports
from fogline.impute.written import DistributionTable
from fogline.query import Query
from fogline.repository.repository import Repository


def question(alpha: float, *, latest: bool = False) -> Query:
    """Which places are most dangerous? A reading counts until the sensor's next one.

    Sensors report at fixed intervals, so that is a lifetime; or it is stated as such (`latest`), and then a change is
    one of a sensor, not of a reading.
    """
    life = None if latest else PERIOD * STEP
    return Query(attributes=ATTRIBUTES, id="sensor", time="ts", lifetime=life, latest=latest, alpha=alpha)


@dataclass(frozen=True, slots=True)
class ShiftTick:
    """One tick: what truly happened, and what the repository makes of it."""

    reports: Reports
    low: Floats  # (k, 4) the least …
    high: Floats  # (k, 4) … and the greatest value that a cell may have …
    mean: Floats  # (k, 4) … and the mean of all; for a known value, itself


class Shift:
    """The mine, the room that hears it, and the repository that fills its gaps."""

    def __init__(self, sensors: int, seed: int, query: Query, repository: Repository) -> None:
        self.mine = Mine(sensors, seed)
        self.room = ControlRoom(self.mine.names, self.mine.readings())
        self.distributions = DistributionTable(query, repository)

    def next(self, ticks: int) -> tuple[pa.Table, list[ShiftTick]]:
        """The rows of the next ticks, and what happened in each."""
        reports = [self.mine.tick() for _ in range(ticks)]
        rows = pa.concat_tables([self.room.take(each) for each in reports])
        low, high, mean = self._spread(rows)
        happened, at = [], 0
        for each in reports:
            part = slice(at, at := at + len(each.who))
            happened.append(ShiftTick(each, low[part], high[part], mean[part]))
        return rows, happened

    def _spread(self, rows: pa.Table) -> tuple[Floats, Floats, Floats]:
        """Least, greatest and mean possible value of each cell (k, 4)."""
        known = np.column_stack([rows[name].to_numpy() for name in ATTRIBUTES])
        low, high, mean, gaps = known.copy(), known.copy(), known.copy(), np.isnan(known)
        spread = self.distributions.write(rows)
        value, weight = spread["value"].to_numpy(), spread["probability"].to_numpy()
        start = _starts(spread, ("sensor", "ts", "attribute"))  # cells come in the order of the gaps
        low[gaps], high[gaps] = np.minimum.reduceat(value, start), np.maximum.reduceat(value, start)
        mean[gaps] = np.add.reduceat(value * weight, start)
        return low, high, mean


def _starts(table: pa.Table, names: tuple[str, ...]) -> Indices:
    """Where a row differs from the one before in any of these columns."""
    columns = [table[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in names]
    return np.flatnonzero(np.any([np.diff(column, prepend=-1) != 0 for column in columns], axis=0))
