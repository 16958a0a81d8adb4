"""What can somebody at the surface know about a value that did not arrive?

The control room sees only what arrived. For a lost cell it says: the sensor's last known value, moved the way each of
its neighbours has moved since. Every neighbour gives one possible value; nearer ones weigh more.

Invariant: a lost value is never read, neither now nor later, so no distribution can know anything of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.demo.mine import ATTRIBUTES, DECIMALS, PERIOD, Floats, Indices, Reports

NEIGHBOURS = (-4, -3, -2, -1, 1, 2, 3, 4)  # along the ring

Row = dict[str, Any]
Pairs = list[tuple[float, float]]


class ControlRoom:
    """Turns reports into rows: known values as numbers, lost ones as distributions."""

    def __init__(self, names: list[str], history: Floats) -> None:
        self.names = names
        self.rounds = [history.copy()]  # each (n, 4): what arrived in one round of reports, NaN = nothing
        self.latest = history.copy()  # (n, 4) the last known values …
        self.known_in = np.zeros(history.shape, np.int64)  # … and the round they came in
        self.heard = 0  # ticks
        self.rows: dict[str, Row] = {}  # by sensor: the row that counts now

    def take(self, reports: Reports) -> list[Row]:
        """The rows of one tick. O(rows · neighbours)."""
        if self.heard % PERIOD == 0:
            self.rounds.append(np.full_like(self.latest, np.nan))
        self.heard += 1
        arrived = np.where(reports.lost, np.nan, reports.truth)  # from here on nobody sees what was lost
        who = reports.who
        self.rounds[-1][who] = arrived
        self.latest[who] = np.where(reports.lost, self.latest[who], arrived)
        self.known_in[who] = np.where(reports.lost, self.known_in[who], len(self.rounds) - 1)
        rows = [self._row(int(i), values, reports) for i, values in zip(who, arrived, strict=True)]
        self.rows.update((row["sensor"], row) for row in rows)
        return rows

    def _row(self, i: int, arrived: Floats, reports: Reports) -> Row:
        cells = {
            name: self.possible(i, j) if np.isnan(arrived[j]) else float(arrived[j])
            for j, name in enumerate(ATTRIBUTES)
        }
        return {"sensor": self.names[i], "ts": reports.when, **cells}

    def possible(self, i: int, j: int) -> Pairs:
        """What attribute j of sensor i may be now: (value, weight) pairs. O(neighbours)."""
        then, last = int(self.known_in[i, j]), self.latest[i, j]
        pairs = [(float(last), 0.5)]  # it may not have moved at all
        for offset in NEIGHBOURS:
            near = (i + offset) % len(self.names)
            moved = self.latest[near, j] - self.rounds[then][near, j]
            if near != i and not np.isnan(moved):
                value = max(0.0, round(float(last + moved), DECIMALS[j]))
                pairs.append((value, 1.0 / abs(offset)))
        return pairs


def span(cell: float | Pairs) -> tuple[float, float]:
    """The least and the greatest possible value of a cell."""
    values = [value for value, _ in cell] if isinstance(cell, list) else [cell]
    return min(values), max(values)


def expected(cell: float | Pairs) -> float:
    """The mean of a cell's possible values."""
    if not isinstance(cell, list):
        return cell
    return sum(value * weight for value, weight in cell) / sum(weight for _, weight in cell)


def numbers(who: Indices) -> list[int]:
    return [int(i) for i in who]
