"""How wide should a grid cell be?

The cost model of the paper's Appendix D (section 5.4; Eq. 8 to Eq. 15, Algorithm 6). A query reads every cell that its
box touches: narrow cells are many, wide ones bring rows that do not match. How many rows a box holds follows from a
power law, whose exponent D₂ is the correlation fractal dimension: a cell of side s around a random row holds about
(N - 1) · factor · s^D₂ others.

All of it happens in a scaled space, where each determinant runs from 0 to 1. What differs from the paper, and why:

- Eq. 15 has β and 1 - β the other way round than Eq. 13 and Eq. 14. `slope` is the derivative of Eq. 14, with `printed`
  that of Eq. 15. At β = 0.5 they are the same. Appendix E goes with Eq. 15: "when β is set to a smaller value, the cell
  length u will be large". By Eq. 14 cells then cost less, and u is small.
- The paper counts cells for the worst case, an interval of w touching w/u + 2. At a random place it touches w/u + 1:
  10.8 cells for two determinants with w = 2.28 u, where 10.3 were counted and the paper has 18.3 (`margin=2`).
- The paper's law has factor 1, true of rows that fill their space evenly. Clusters do not follow one line on all scales
  and the line nearest to them need not start at 1, so the factor comes from the same fit as D₂. Equal rows are left out
  of it: no cell can separate them.
- The paper calls Eq. 14 a parabola. It is not, but it has one minimum: in u · slope(u), the part of the cells
  is negative and rises towards 0, and the part of the rows is positive and rises.
- The tree over the cells is in t_cell, which is measured on an index with its tree. The model, like the paper's,
  counts empty cells too, which that tree never visits: it makes cells dearer than they are where many are empty.

Useful for: one side for all determinants, relative to their ranges. Not useful for: predicting how long a query takes;
what all sides have in common (walking down, sorting what matched) is left out, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from fogline.arrays import Floats, Ints
from fogline.errors import RowsError
from lab.paper.index import Index

SAMPLE, SEED = 100_000, 11  # so many rows are enough to fit the power law
PAIRS = 100  # fewer pairs of rows in one cell do not count for the law
DEEPEST = 20  # the narrowest cells of box counting have side 2 ** -20
BETA = 0.5  # unit costs are seconds, which weigh the same wherever they are spent
MARGIN = 1.0  # cells that a box touches beyond its own width
FEWEST = 8  # rows in a cell: with fewer, walking a taller tree takes longer than reading them, even for radius 0


@dataclass(frozen=True, slots=True)
class Law:
    """A cell of side s around a random row holds the share factor · s ** dimension of the other rows."""

    dimension: float  # D₂, 0 where rows do not spread at all
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Seconds to visit a cell (the paper's t_cell) and to look at a row (t_sr)."""

    cell: float
    row: float


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of an index, in the scaled space. A radius of inf: the rule does not ask for that determinant."""

    n: float  # N, rows that a query's words leave
    radii: Floats  # (rules, k) ε of each rule (the sum over Ω' in the paper)
    law: Law
    units: UnitCosts
    beta: float = BETA
    margin: float = MARGIN  # 2 = the paper's worst case


# -------------------------------------------------------------------------------------------------------- the power law


def fractal_dimension(points: ArrayLike) -> float:
    """The correlation fractal dimension D₂ of rows (n, k). Rows with NaN are left out. O(n log n).

    >>> round(fractal_dimension(np.random.default_rng(1).random((5000, 2))), 1)
    2.0
    """
    points = _table(points)
    return power_law(_scaled(points, *_ranges(points))).dimension


def power_law(scaled: Floats) -> Law:
    """Fitted to the pairs of rows that share a cell, over all sides 2 ** -level at which there are enough of them."""
    scaled = _sample(scaled[~np.isnan(scaled).any(axis=1)])
    n, k = scaled.shape
    if n < 2 or not k:
        return Law(0.0)
    pairs = _pairs_by_level(scaled) - _equal_pairs(scaled)
    level = np.flatnonzero((pairs > 0) & (pairs >= min(PAIRS, pairs[0] / PAIRS)))
    if len(level) < 2:
        return Law(0.0)
    falling, start = np.polyfit(level * np.log(2), np.log(pairs[level] / (n * (n - 1.0))), 1)
    return Law(float(np.clip(-falling, 0.0, k)), float(np.exp(start)))


def _pairs_by_level(scaled: Floats) -> Floats:
    """Ordered pairs of rows in one cell of side 2 ** -level, level 0, 1, …

    The digits of all determinants are interleaved, highest first, so that one sort serves all levels.
    """
    n, k = scaled.shape
    deepest = max(1, min(DEEPEST, 62 // k))
    place = np.minimum(scaled * 2.0**deepest, 2.0**deepest - 1).astype(np.int64)
    code = np.zeros(n, np.int64)
    for digit in reversed(range(deepest)):
        for j in range(min(k, 62)):
            code = (code << 1) | ((place[:, j] >> digit) & 1)
    code.sort()
    return np.array([_pairs(code >> (min(k, 62) * (deepest - level))) for level in range(deepest + 1)])


def _equal_pairs(scaled: Floats) -> float:
    """Ordered pairs of equal rows, recognised by a random sum of the columns."""
    total, rng = np.zeros(len(scaled)), np.random.default_rng(SEED)
    for column in scaled.T:
        total += column * rng.uniform(1, 2)
    return _pairs(np.sort(total))


def _pairs(ascending: Ints | Floats) -> float:
    """Ordered pairs of equal items."""
    first = np.flatnonzero(np.concatenate(([True], ascending[1:] != ascending[:-1])))
    count = np.diff(first, append=len(ascending)).astype(np.float64)
    return float(count @ (count - 1))


# ------------------------------------------------------------------------------------------------------------- the cost


def cost(u: float, load: Load) -> float:
    """Eq. 7 as in Eq. 13 and Eq. 14, for cells of side u: Σ over rules of

        β · t_cell · cells + (1 - β) · t_sr · false alarms.

    cells = Π (2ε/u + margin) · Π 1/u, false alarms = (N - 1) · factor · (Π (2ε + margin·u)^(D₂/d) - Π (2ε)^(D₂/d)); the
    first product is over the rule's determinants (A_x ∈ Y), the second over the others, whose l_x is 1 here.
    """
    cells, read = _visited(u, load)
    wanted = _visited(0.0, load)[1]
    units, beta = load.units, load.beta
    return float((beta * units.cell * cells + (1 - beta) * units.row * (read - wanted)).sum())


def slope(u: float, load: Load, *, printed: bool = False) -> float:
    """The derivative of `cost`, from Eq. 14; `printed`: Eq. 15, which swaps β and 1 - β."""
    width, margin = _boxes(load)
    cells, read = _visited(u, load)
    reach = width + margin * u  # (rules, k), positive for u > 0
    fewer = -cells * (width / (u * reach)).sum(axis=1)
    more = read * load.law.dimension / width.shape[1] * (margin / reach).sum(axis=1)
    units, beta = load.units, 1 - load.beta if printed else load.beta
    return float((beta * units.cell * fewer + (1 - beta) * units.row * more).sum())


def algorithm_6(load: Load, *, precision: float = 1e-3) -> float:
    """Algorithm 6 as printed, with Eq. 15: u in (0, 1] to within η. Beside it: `best_side`."""
    low, high = 0.0, 1.0  # lines 1-2
    while high - low >= 2 * precision:  # line 3
        u = (low + high) / 2  # line 4
        if slope(u, load, printed=True) > 0:  # lines 5-6
            high = u  # line 7
        else:
            low = u  # lines 8-9
    return (low + high) / 2  # line 10


def best_side(load: Load, *, precision: float = 1e-3) -> float:
    """The u of least cost, by bisection on the sign of the slope (Algorithm 6), in (0, 1].

    Halved is the logarithm, so that the precision is relative. Cells that hold fewer than FEWEST rows are not tried.
    """
    low, high = _narrowest(load), 1.0
    while high / low > 1 + precision:
        u = float(np.sqrt(low * high))
        low, high = (low, u) if slope(u, load) > 0 else (u, high)
    return float(np.sqrt(low * high))


def _narrowest(load: Load) -> float:
    law = load.law
    if law.dimension <= 0:
        return 2.0**-DEEPEST
    share = min(FEWEST / (max(load.n, 1.0) * law.factor), 1.0)
    return float(max(share ** (1 / law.dimension), 2.0**-DEEPEST))


def _boxes(load: Load) -> tuple[Floats, Floats]:
    """Width of the queries (Eq. 8) and what cells add to it (Eq. 9), (rules, k). No query is wider than the data."""
    asked = np.isfinite(load.radii)
    return 2 * np.minimum(np.where(asked, load.radii, 0.5), 0.5), np.where(asked, load.margin, 0.0)


def _visited(u: float, load: Load) -> tuple[Floats, Floats]:
    """Per rule, the cells that a query touches, and the rows in them; with u = 0 the rows in the query itself.

    Rows by Eq. 12, whose side of a standard cube (Eq. 10, Eq. 11) cancels out; a product over all k determinants.
    """
    width, margin = _boxes(load)
    with np.errstate(over="ignore"):
        cells = np.prod(width / u + margin, axis=1) if u else np.zeros(len(width))
    part = np.prod(width + margin * u, axis=1) ** (load.law.dimension / width.shape[1])
    return cells, max(load.n - 1, 0.0) * load.law.factor * part


# ------------------------------------------------------------------------------------------------ measured, not guessed


@cache
def unit_costs() -> UnitCosts:
    """Measured once per process, in about a tenth of a second: evenly spread rows, in cells of several sides.

    The same questions are asked of each; what they take beyond a common constant is explained by cells and rows. The
    least of several rounds is taken, for whatever else the machine does only adds to it.
    """
    rng, n = np.random.default_rng(SEED), 40_000
    points, centres, radius = rng.random((n, 2)), rng.random((500, 2)), np.sqrt([25 / n, 25 / n]) / 2  # 25 rows match
    tried = np.sqrt(np.array([6.0, 20.0, 60.0, 250.0]) / n)  # so many rows to a cell
    indexes = [Index.build(points, points[:, 0], [u, u]) for u in tried]
    took = np.array([[_seconds(index, centres, radius) for index in indexes] for _ in range(8)]).min(axis=0)
    load = Load(n, radius[None], Law(2.0), UnitCosts(0.0, 0.0))
    counts = np.array([(1.0, *np.concatenate(_visited(u, load))) for u in tried])  # constant, cells, rows
    _, cell, row = np.linalg.lstsq(counts / took[:, None], np.ones(len(tried)), rcond=None)[0]  # relative errors
    return UnitCosts(max(float(cell), 1e-9), max(float(row), 1e-10))


def _seconds(index: Index, centres: Floats, radius: Floats) -> float:
    began = perf_counter()
    index.find(centres, radius)
    return (perf_counter() - began) / len(centres)


# ------------------------------------------------------------------------------------------------------------ the sides


def sides(
    points: ArrayLike,
    radii: ArrayLike,
    *,
    words: Sequence[bool] | None = None,
    units: UnitCosts | None = None,
    printed: bool = False,
    beta: float = BETA,
) -> Floats:
    """(k,) sides of a cell for rows (n, k), NaN = missing, each in its determinant's own unit.

    radii (k,), or (rules, k) for several rules; inf = not asked for. A determinant of words, which are codes, gets one
    word per cell; so does a constant one, for which any side will do. `printed`: Algorithm 6 to the letter.
    """
    points, radii = _table(points), np.atleast_2d(np.asarray(radii, np.float64))
    word = np.zeros(points.shape[1], np.bool_) if words is None else np.asarray(words, np.bool_)
    if radii.shape[1:] != points.shape[1:] or word.shape != points.shape[1:] or not np.all(radii >= 0):
        raise RowsError(f"radii {radii.tolist()} and words {word.tolist()} do not fit {points.shape[1]} determinants")
    low, extent = _ranges(points)
    out, spread = np.ones(points.shape[1]), ~word & (extent > 0)
    if not spread.any():
        return out
    scaled = _scaled(points, low, extent)[:, spread]
    complete = int((~np.isnan(scaled).any(axis=1)).sum())
    law = power_law(scaled) if complete > 1 else Law(float(spread.sum()))  # nothing known: evenly spread
    with np.errstate(over="ignore"):
        asked = radii[:, spread] / extent[spread]
    rows = len(points) * _share(points[:, word])
    units = units or unit_costs()
    if printed:
        u = algorithm_6(Load(rows, asked, Law(law.dimension), units, beta, margin=2.0))
    else:
        u = best_side(Load(rows, asked, law, units, beta))
    out[spread] = np.maximum(u * extent[spread], np.finfo(float).tiny)
    return out


def _share(codes: Floats) -> float:
    """Of rows that have the same words as a random one."""
    codes = _sample(codes)
    return (_equal_pairs(np.nan_to_num(codes, nan=-1.0)) + len(codes)) / len(codes) ** 2 if len(codes) else 1.0


def _table(points: ArrayLike) -> Floats:
    points = np.asarray(points, np.float64)
    if points.ndim != 2:
        raise RowsError(f"determinants of shape {points.shape} are not a table of rows (n, k)")
    return points


def _ranges(points: Floats) -> tuple[Floats, Floats]:
    """(k,) least value and extent of each determinant; 0 and 0 where there is none."""
    absent = np.isnan(points)
    low = np.where(absent, np.inf, points).min(axis=0, initial=np.inf)
    high = np.where(absent, -np.inf, points).max(axis=0, initial=-np.inf)
    low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
    with np.errstate(over="ignore"):
        return low, np.minimum(high - low, np.finfo(float).max)


def _scaled(points: Floats, low: Floats, extent: Floats) -> Floats:
    """(n, k) from 0 to 1 in each determinant."""
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum((points - low) / np.where(extent > 0, extent, 1.0), 1.0))


def _sample(rows: Floats) -> Floats:
    if len(rows) <= SAMPLE:
        return rows
    return rows[np.random.default_rng(SEED).choice(len(rows), SAMPLE, replace=False)]
