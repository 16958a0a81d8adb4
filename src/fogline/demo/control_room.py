"""What is known at the surface when a reading comes in?

The control room sees only what arrived. Beside each reading it writes what the sensor's surroundings suggest, for every
attribute: `near_…`, the mean of what its neighbours last sent, nearer ones counting more; and `moved_…`, what the
sensor itself sent before, moved as that mean has moved since. In history both stand beside complete readings, so rules
can be found that impute a lost value from them.

Invariant: a lost value is never read, neither now nor later, so no row can know anything of it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fogline.demo.mine import ATTRIBUTES, PERIOD, SHIFT, Floats, Indices, Mine, Reports

OFFSETS = np.array([-4, -3, -2, -1, 1, 2, 3, 4])  # neighbours along the ring …
WEIGHTS = 1.0 / np.abs(OFFSETS) / (1.0 / np.abs(OFFSETS)).sum()  # … and how much each one counts
READINGS = 12_000  # of an earlier shift, to learn from


class ControlRoom:
    """Turns reports into rows: null where a value was lost."""

    def __init__(self, names: list[str], begin: Floats) -> None:
        n = len(names)
        self.names = np.array(names)
        self.near: Indices = (np.arange(n)[:, None] + OFFSETS) % n  # (n, 8)
        self.latest = begin.copy()  # (n, 4) the last known value of each cell …
        self.around = self._around(np.arange(n))  # (n, 4) … and what was known of its neighbours at that time

    def take(self, reports: Reports) -> pa.Table:
        """The rows of one tick. O(rows · neighbours)."""
        who, lost = reports.who, reports.lost
        arrived = np.where(lost, np.nan, reports.truth)  # from here on what was lost is not seen
        last = self.latest[who]
        self.latest[who] = np.where(lost, last, arrived)
        near = self._around(who)
        moved = last + near - self.around[who]
        self.around[who] = np.where(lost, self.around[who], near)
        columns = {"sensor": pa.array(self.names[who]), "ts": pa.repeat(reports.when, len(who)).cast(CLOCK)}
        columns |= {name: pa.array(arrived[:, j], from_pandas=True) for j, name in enumerate(ATTRIBUTES)}
        for j, name in enumerate(ATTRIBUTES):
            columns[f"near_{name}"] = pa.array(near[:, j])
            columns[f"moved_{name}"] = pa.array(moved[:, j])
        return pa.table(columns)

    def _around(self, who: Indices) -> Floats:
        around: Floats = np.einsum("k,nkj->nj", WEIGHTS, self.latest[self.near[who]])
        return around


CLOCK = pa.timestamp("us", "UTC")


def earlier_shift(sensors: int, seed: int, readings: int = READINGS) -> pa.Table:
    """About so many complete readings of the same mine, from the shift before: values without names, oldest first."""
    mine = Mine(sensors, seed, shift=-1)
    room = ControlRoom(mine.names, mine.readings())
    ticks = min(max(PERIOD * readings // sensors, 2 * PERIOD), SHIFT)
    rows = pa.concat_tables([room.take(mine.tick().complete()) for _ in range(ticks)])
    some = np.arange(0, rows.num_rows, max(rows.num_rows // readings, 1))
    return rows.drop_columns(["sensor", "ts"]).take(some).combine_chunks()
