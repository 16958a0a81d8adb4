"""Which synthetic streams are there to try things on?

Points on [0, 10]^d after Börzsönyi, Kossmann and Stocker (2001): uniform, correlated, anti-correlated. A row is a copy
of one of 5,000 seed points, moved by at most 0.0005. Values of different seeds are 0.002 apart in every attribute, so
two rows are within 0.001 in one attribute if and only if they are copies of one seed, and then in all: rules such as
`a0(0.001) -> a1(0.001)` hold, and history knows what a missing value may be: little, so that dominance between rows of
different seeds is 0 or 1. (The paper's own streams, where it is not, are in `lab/paper/generator.py`.) Tick t has the
rows with id // rate = t.

Invariant: a row depends on the stream's description and its id alone, not on partitions, batches or restarts; random
numbers are drawn per block of ids. `missing` and `m` change which cells are missing, never the values of the others.

>>> stream = Stream(distribution="correlated", d=2, rate=2, missing=0.5)
>>> rows(stream, 0, 4).column("time").to_pylist()
[0, 0, 1, 1]
>>> rows(stream, 2, 4) == rows(stream, 0, 4).slice(2)
True
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats
from fogline.errors import FoglineError, did_you_mean

BLOCK = 4096  # ids that share a random generator
SEEDS = 5_000
NEAR = 0.0005  # how far a copy may be from its seed point
TOP = 10.0  # attributes lie in [0, TOP]
DISTRIBUTIONS = ("uniform", "correlated", "anti")


@dataclass(frozen=True, slots=True)
class Stream:
    """A synthetic incomplete stream; the same fields give the same rows."""

    distribution: str = "uniform"
    d: int = 4
    """Attributes a0, a1, …; more is better."""
    rows: int | None = None
    """How many there are; a stream may be endless, a table may not."""
    start: int = 0
    """The first id: history from far away has the same seed points, but none of the rows."""
    rate: int = 30
    """Rows per tick."""
    missing: float = 0.3
    """The share of rows with gaps …"""
    m: int = 1
    """… and how many gaps such a row has."""
    seed: int = 1
    seeds: int = SEEDS
    """How many seed points; with 0 every row is a point of its own."""
    groups: int = 0
    """How many values the column `site` has; with 0 there is no such column."""
    batch: int = 100_000
    """At most so many rows in a micro-batch."""
    partitions: int = 0
    """Into how many a read is cut; with 0, one per core of the driver."""

    def __post_init__(self) -> None:
        check_distribution(self.distribution)
        least = {"d": 1, "rate": 1, "batch": 1}
        for each in fields(self):
            value, low = getattr(self, each.name), least.get(each.name, 0)
            if isinstance(value, int) and value < low:
                raise FoglineError(f"{each.name} is {value}; it is at least {low}.")
        if not 0 <= self.missing <= 1:
            raise FoglineError(f"missing is {self.missing:g}; it is a share of the rows, from 0 to 1.")
        if self.m > self.d:
            raise FoglineError(f"m is {self.m}, but a row has only {self.d} attributes to miss (d).")

    @property
    def end(self) -> int | None:
        """The id after the last."""
        return None if self.rows is None else self.start + self.rows

    @property
    def schema(self) -> pa.Schema:
        """id, time, site if there are groups, a0, a1, …"""
        site = [("site", pa.string())] if self.groups else []
        values = [(f"a{j}", pa.float64()) for j in range(self.d)]
        return pa.schema([("id", pa.int64()), ("time", pa.int64()), *site, *values])


def check_distribution(name: str) -> None:
    """Is it one of the three?"""
    if name not in DISTRIBUTIONS:
        guess = did_you_mean(name, DISTRIBUTIONS)
        raise FoglineError(f"distribution is {name!r}; it may be {', '.join(DISTRIBUTIONS)}.{guess}")


def rows(stream: Stream, start: int, end: int) -> pa.RecordBatch:
    """The rows with ids from `start` to before `end`. O(rows · d), and a block at either side."""
    ids = np.arange(start, end)
    value, gap = np.empty((stream.d, len(ids))), np.empty((stream.d, len(ids)), bool)
    for block in range(start // BLOCK, -(-end // BLOCK)):
        first = block * BLOCK
        low, high = max(start, first), min(end, first + BLOCK)
        whole, gaps = stream_block(stream, block)
        value[:, low - start : high - start] = whole[:, low - first : high - first]
        gap[:, low - start : high - start] = gaps[:, low - first : high - first]
    columns = [pa.array(ids), pa.array(ids // stream.rate)]
    if stream.groups:
        sites = pa.array([f"s{k}" for k in range(stream.groups)])
        columns.append(sites.take(pa.array(ids % stream.groups)))
    columns += [pa.array(column, mask=mask) for column, mask in zip(value, gap, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=stream.schema)


def stream_block(stream: Stream, block: int) -> tuple[Floats, Flags]:
    """Values (d, BLOCK) of a block of ids, before any goes missing, and which do (d, BLOCK)."""
    rng = np.random.default_rng([stream.seed, block + 1])
    if stream.seeds:
        value = copies(_stream_seeds(stream.distribution, stream.d, stream.seeds, stream.seed), BLOCK, rng)
    else:
        value = points(stream.distribution, stream.d, BLOCK, rng)
    gap = np.zeros((stream.d, BLOCK), bool)
    holed = np.flatnonzero(rng.random(BLOCK) < stream.missing)
    if stream.m and len(holed):
        lots = rng.random((len(holed), stream.d))
        gap[lots.argpartition(stream.m - 1, axis=1)[:, : stream.m].T, holed] = True
    return value, gap


@lru_cache(maxsize=4)
def _stream_seeds(distribution: str, d: int, seeds: int, seed: int) -> Floats:
    return seed_points(distribution, d, seeds, np.random.default_rng([seed, 0]))


def copies(seeds: Floats, n: int, rng: np.random.Generator, near: float = NEAR) -> Floats:
    """(d, n) copies of random seed points (d, s), each moved by at most `near`, within [0, TOP]."""
    value = seeds[:, rng.integers(seeds.shape[1], size=n)] + rng.uniform(-near, near, (len(seeds), n))
    return np.clip(value, 0, TOP, out=value)


def seed_points(distribution: str, d: int, n: int, rng: np.random.Generator) -> Floats:
    """(d, n) points whose values are evenly spaced over [0, TOP] in every attribute: their ranks."""
    ranks = points(distribution, d, n, rng).argsort(axis=1).argsort(axis=1)
    return np.asarray((ranks + 0.5) * (TOP / n), np.float64)


def points(distribution: str, d: int, n: int, rng: np.random.Generator) -> Floats:
    """(d, n) points of [0, TOP]^d; what falls outside is drawn again."""
    out = np.empty((d, 0))
    while (lack := n - out.shape[1]) > 0:
        point = rng.random((d, 2 * lack if distribution == "anti" else lack))
        if distribution == "correlated":  # a point on the diagonal, most likely near its middle, moved a little
            point = rng.random((12, lack)).mean(axis=0) + rng.normal(0, 0.05, (d, lack))
        elif distribution == "anti":  # anywhere on a plane of equal sums near the middle: good in one, bad in another
            point += rng.normal(0.5, 0.05, point.shape[1]) - point.mean(axis=0)
        inside = ((point >= 0) & (point <= 1)).all(axis=0)
        out = np.concatenate((out, point[:, inside]), axis=1)
    return out[:, :n] * TOP
