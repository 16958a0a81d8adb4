"""On which stream is everything measured, and what would be true?

A case is a query, a history R, and a stream whose masked cells are known to the case alone. Two protocols, never mixed:

- `honest`: R ends before the stream begins; what the stream will look like is not known, not even its range;
- `paper`: R is drawn at random from the same set, so it may hold the very rows whose cells are masked.

Masks are drawn row by row from their own seed: a longer stream begins with the same gaps, and a higher rate, or more
gaps per row, only adds to them. So a knob that is turned changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats
from fogline.errors import FoglineError
from fogline.model import Query

ID, TIME, SENSOR, AT = "row", "tick", "sensor", "at"
PROTOCOLS = ("honest", "paper")


class LabError(FoglineError, ValueError):
    """An experiment that cannot be made."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The knobs of the paper at its defaults (Table 4), and some more."""

    alpha: float = 0.5
    d: int | None = None
    """How many attributes; None: the set's own number, 4 if it is synthetic."""
    window: int = 20_000
    history: int = 120_000
    theta: int = 30
    """Rows per tick."""
    m: int = 1
    """Missing cells per incomplete row."""
    xi: float = 0.3
    """Share of incomplete rows."""
    ticks: int = 100
    """How many follow when the window is full."""
    protocol: str = "honest"
    seed: int = 1
    start: int | None = None
    """The row of a real set with which the stream begins; None: as early as the protocol allows."""
    nulls: bool = False
    """Keep rows of a real set that lack values: then the truth about them is unknown."""
    wishes: bool = False
    """Directions that a person would choose, instead of `max` throughout."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise LabError(f"the protocol is {self.protocol!r}; it may be {' or '.join(PROTOCOLS)}.")
        if not 0 <= self.xi <= 1:
            raise LabError(f"xi is {self.xi!r}; it is the share of incomplete rows, from 0 to 1.")
        if min(self.theta, self.window, self.history) < 1 or self.ticks < 0:
            raise LabError("theta, window and history count rows, from 1 on; ticks counts from 0 on.")

    @property
    def lifetime(self) -> int:
        """Ticks that a row lives: the window then holds as many rows as asked, or just over."""
        return -(-self.window // self.theta)

    @property
    def rows(self) -> int:
        """Rows of the whole stream: to fill the window, and to go on."""
        return (self.lifetime + self.ticks) * self.theta


DEFAULTS = Settings()


@dataclass(frozen=True, eq=False)
class Case:
    """A query, a history, and a stream with its truth."""

    name: str
    settings: Settings
    query: Query
    history: pa.Table = field(repr=False)
    """R: complete rows, the attributes and, where there are any, sensor and at (seconds)."""
    rules: tuple[str, ...] | None
    """The rules the rows are known to obey; None: to be discovered."""
    rows: pa.Table = field(repr=False)
    """The stream: row, tick, sensor, at, attributes with gaps."""
    truth: Floats = field(repr=False)
    """(n, d) the same without gaps; NaN where it is unknown."""

    @property
    def length(self) -> int:
        """Ticks of the stream."""
        return len(self.truth) // self.settings.theta

    @property
    def full(self) -> int:
        """The first tick at which the window is full."""
        return self.settings.lifetime - 1

    def tick(self, k: int) -> pa.Table:
        """The rows of one tick; nothing is copied."""
        return self.rows.slice(k * self.settings.theta, self.settings.theta)

    def ticks(self, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Every tick with its rows, in order."""
        for k in range(begin, self.length if end is None else end):
            yield k, self.tick(k)

    @cached_property
    def gaps(self) -> Flags:
        """(n, d) which cells are missing in the stream."""
        return np.isnan(matrix(self.rows, self.query.names))

    @cached_property
    def incomplete(self) -> Flags:
        """(n,) which rows have a gap."""
        return np.asarray(self.gaps.any(axis=1))

    @cached_property
    def certain(self) -> Flags:
        """(n,) of which rows the truth is known."""
        return np.asarray(~np.isnan(self.truth).any(axis=1))


def build(
    name: str,
    settings: Settings,
    directions: dict[str, str],
    history: pa.Table,
    truth: Floats,
    extra: dict[str, Any],
    rules: tuple[str, ...] | None = None,
) -> Case:
    """A case of complete rows (NaN = really missing): masks, ticks and the query around them."""
    n, names = len(truth), tuple(directions)
    query = Query(attributes=directions, id=ID, time=TIME, lifetime=settings.lifetime, alpha=settings.alpha)
    gaps = mask(truth, settings.xi, settings.m, settings.seed)
    cells = {name: pa.array(truth[:, j], mask=gaps[:, j] | np.isnan(truth[:, j])) for j, name in enumerate(names)}
    order = np.arange(n)
    rows = pa.table({ID: order, TIME: order // settings.theta, **extra, **cells})
    return Case(name, settings, query, history, rules, rows, truth)


def mask(truth: Floats, xi: float, m: int, seed: int) -> Flags:
    """(n, d) which cells to hide: m of each chosen row; rows that lack something anyway are left alone."""
    n, d = truth.shape
    if not 0 < m < d:
        raise LabError(f"m is {m} and there are {d} attributes; at least one cell goes missing, and one stays.")
    which = np.asarray(np.random.default_rng([seed, 1]).random(n) < xi)
    rank = np.random.default_rng([seed, 2]).random((n, d)).argsort(axis=1).argsort(axis=1)
    which &= ~np.isnan(truth).any(axis=1)
    return np.asarray((rank < m) & which[:, None])


def matrix(rows: pa.Table, names: tuple[str, ...]) -> Floats:
    """(n, d) attributes as numbers, NaN = missing."""
    out = np.empty((rows.num_rows, len(names)))
    for j, name in enumerate(names):
        out[:, j] = rows.column(name).to_numpy()
    return out
