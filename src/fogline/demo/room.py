"""What can somebody at the surface know about a value that did not arrive?

The control room sees only what arrived. Of a lost cell it says: the sensor's last known value, moved the way each of
its neighbours has moved since then. Every neighbour gives one possible value; nearer ones weigh more.

Invariant: a lost value is never read, neither now nor later, so no distribution can know anything of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fogline.demo.mine import ATTRIBUTES, DECIMALS, Floats, Indices, Reports

OFFSETS = np.array([-4, -3, -2, -1, 1, 2, 3, 4])  # neighbours along the ring …
WEIGHTS = 1.0 / np.abs(OFFSETS)  # … and what each one's word counts

Row = dict[str, Any]
Pairs = list[tuple[float, float]]


class ControlRoom:
    """Turns reports into rows: a known value is a number, a lost one a distribution."""

    def __init__(self, names: list[str], history: Floats) -> None:
        n = len(names)
        self.names = names
        self.near: Indices = (np.arange(n)[:, None] + OFFSETS) % n  # (n, 8)
        self.latest = history.copy()  # (n, 4) the last known value of each cell …
        self.around = history[self.near]  # (n, 8, 4) … and those of its neighbours, as they were known at that time
        self.rows: dict[str, Row] = {}  # the row of each sensor that counts now

    def take(self, reports: Reports) -> list[Row]:
        """The rows of one tick. O(rows · neighbours)."""
        who, lost = reports.who, reports.lost
        arrived = np.where(lost, np.nan, reports.truth)  # from here on nobody sees what was lost
        self.latest[who] = np.where(lost, self.latest[who], arrived)
        now = self.latest[self.near[who]]  # (k, 8, 4)
        self.around[who] = np.where(lost[:, None], self.around[who], now)
        moved = self.latest[who][:, None] + now - self.around[who]  # (k, 8, 4)
        rows = [self._row(*each, reports) for each in zip(who, arrived, moved, strict=True)]
        self.rows.update((row["sensor"], row) for row in rows)
        return rows

    def _row(self, i: int, arrived: Floats, moved: Floats, reports: Reports) -> Row:
        cells = {
            name: possible(moved[:, j], DECIMALS[j]) if np.isnan(arrived[j]) else float(arrived[j])
            for j, name in enumerate(ATTRIBUTES)
        }
        return {"sensor": self.names[i], "ts": reports.when, **cells}


def possible(moved: Floats, decimals: int) -> Pairs:
    """The (value, weight) pairs of a lost cell, one per neighbour (8,)."""
    values = np.round(np.maximum(moved, 0.0), decimals)
    return list(zip(values.tolist(), WEIGHTS.tolist(), strict=True))


def expected(cell: float | Pairs) -> float:
    """The mean of a cell's possible values."""
    if not isinstance(cell, list):
        return cell
    return sum(value * weight for value, weight in cell) / sum(weight for _, weight in cell)
