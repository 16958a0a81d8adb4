"""Which streams are timed?

5,000 seeds on [0, 10]^d after Börzsönyi et al. (2001): uniform, correlated, anti-correlated. A row is a copy of a
random seed within ±0.005; with probability `missing` one of its cells is unknown, and the row has a distribution
instead: `values` numbers within ±`spread` of the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Ints
from fogline.synthetic import SEEDS, points

PAIR = pa.struct([("value", pa.float64()), ("weight", pa.float64())])
NEAR = 0.005  # how far a copy may be from its seed


@dataclass(frozen=True)
class Stream:
    """A synthetic incomplete stream; the same fields give the same rows."""

    kind: str  # uniform, correlated, anti
    d: int = 4
    seeds: int = SEEDS
    missing: float = 0.3
    values: int = 25
    spread: float = NEAR
    seed: int = 1

    def batches(self, rows: int) -> Iterator[tuple[pa.Table, Floats]]:
        """Endless batches, one per tick: the Arrow table, and the same rows as numbers with NaN for missing."""
        rng = np.random.default_rng(self.seed)
        seeds = seed_points(self.kind, self.seeds, self.d, rng)
        tick = 0
        while True:
            centre = seeds[rng.integers(len(seeds), size=rows)]
            point = centre + rng.uniform(-NEAR, NEAR, centre.shape)
            gap = np.full(rows, -1)
            holes = rng.random(rows) < self.missing
            gap[holes] = rng.integers(self.d, size=int(holes.sum()))
            yield self._table(tick, centre, point, gap, rng), np.where(gap[:, None] == np.arange(self.d), np.nan, point)
            tick += 1

    def _table(self, tick: int, centre: Floats, point: Floats, gap: Ints, rng: np.random.Generator) -> pa.Table:
        rows = len(point)
        columns = {"id": pa.array(np.arange(tick * rows, (tick + 1) * rows)), "t": pa.array(np.full(rows, tick))}
        for j in range(self.d):
            sizes = np.where(gap == j, self.values, 1)
            offsets = np.concatenate(([0], np.cumsum(sizes)))
            value = np.repeat(point[:, j], sizes)
            wide = np.repeat(gap == j, sizes)
            value[wide] = np.repeat(centre[:, j], sizes)[wide] + rng.uniform(-self.spread, self.spread, int(wide.sum()))
            pairs = pa.StructArray.from_arrays([pa.array(value), pa.array(np.ones(len(value)))], fields=list(PAIR))
            columns[f"a{j}"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs)
        return pa.table(columns)


def seed_points(kind: str, n: int, d: int, rng: np.random.Generator) -> Floats:
    """(n, d) seeds on [0, 10]^d."""
    return np.ascontiguousarray(points(kind, d, n, rng).T)
