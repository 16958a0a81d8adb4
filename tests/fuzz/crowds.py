"""Is a probability right beside very many rivals? Crowds of equal rows come, and go, beside a few odd ones.

The reference takes equal rows as a power of one, in decimals of fifty digits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

import fogline as fl
from tests.contracts import DISTRIBUTION
from tests.fuzz.judging import Difference

CLOSE = 2.1e-9  # as is promised, and what an update may wait for
NEAR = 1e-8  # so near to alpha a row may be in or out
Cell = tuple[tuple[int, int], ...]  # (value, weight)


@dataclass(frozen=True)
class Sort:
    """So many equal rows."""

    count: int
    cells: tuple[Cell, ...]
    arrives: int
    expires: int


@dataclass(frozen=True)
class Crowd:
    """A window of sorts of rows."""

    seed: int
    alpha: float
    latest: bool
    sorts: tuple[Sort, ...]

    @property
    def instants(self) -> list[int]:
        return sorted({sort.arrives for sort in self.sorts} | {sort.expires for sort in self.sorts})

    def there(self, t: int) -> list[Sort]:
        return [sort for sort in self.sorts if sort.arrives <= t < sort.expires]


def drawn(seed: int) -> Crowd:
    """The crowd of a seed: many rows that nearly surely beat another one, or hardly ever."""
    r = random.Random(f"crowd/{seed}")
    d = r.choice((1, 1, 2))
    much = 10 ** r.choice((4, 5, 6, 6, 7, 8, 9, 10, 11, 11, 11))
    strong = r.random() < 0.5
    many = tuple(((0, 1), (10, much)) if strong else ((0, much), (10, 1)) for _ in range(d))
    sorts = [Sort(r.choice((1000, 100_000, 120_000)), many, 0, r.choice((2, 9)))]
    for _ in range(r.choice((1, 2, 3))):
        cells = tuple(tuple((value, r.choice((1, 1, 3))) for value in _values(r)) for _ in range(d))
        arrives = r.choice((0, 1))
        sorts.append(Sort(r.choice((1, 1, 2)), cells, arrives, arrives + r.choice((3, 9))))
    return Crowd(seed, r.choice((0.1, 0.3, 0.0)), r.random() < 0.3, tuple(sorts))


def _values(r: random.Random) -> list[int]:
    return sorted(r.sample((1, 5, 10, 20), r.choice((1, 1, 2))))


def run_crowd(crowd: Crowd) -> None:
    """The crowd through a monitor, held to the reference at each instant."""
    names = [f"a{j}" for j in range(len(crowd.sorts[0].cells))]
    query = fl.Query(
        dict.fromkeys(names, "max"), id="id", time="t", expires="e", alpha=crowd.alpha, latest=crowd.latest
    )
    monitor, firsts = fl.Monitor(query), np.cumsum([0, *(sort.count for sort in crowd.sorts)])
    for t in crowd.instants:
        come = [_table(k, int(firsts[k]), sort) for k, sort in enumerate(crowd.sorts) if sort.arrives == t]
        monitor.advance(t, pa.concat_tables(come) if come else None)
        found, there = monitor.answer(), crowd.there(t)
        which = np.searchsorted(firsts, found["id"].to_numpy(), "right") - 1
        for k, sort in enumerate(crowd.sorts):
            chances = found["probability"].to_numpy()[which == k]
            _compare(crowd, t, sort, there, chances)


def _table(k: int, first: int, sort: Sort) -> pa.Table:
    one = np.zeros(sort.count, np.int64)
    columns = {"id": np.arange(first, first + sort.count), "t": one + sort.arrives, "e": one + sort.expires}
    cells = [pa.array([[{"value": v, "weight": w} for v, w in cell]], DISTRIBUTION) for cell in sort.cells]
    return pa.table({**columns, **{f"a{j}": cell.take(pa.array(one)) for j, cell in enumerate(cells)}})


def _compare(crowd: Crowd, t: int, sort: Sort, there: Sequence[Sort], chances: np.ndarray) -> None:
    if sort not in there:
        truth = 0.0
        fine = not len(chances)
    else:
        truth = float(probability(sort, there))
        inside = truth > crowd.alpha if crowd.alpha else not surely_beaten(sort, there)
        sure = not crowd.alpha or abs(truth - crowd.alpha) > NEAR
        fine = len(chances) in ((sort.count if inside else 0,) if sure else (0, sort.count))
        fine = fine and bool((np.abs(chances - truth) <= CLOSE).all())
    if not fine:
        few = f"{len(chances)} with {np.unique(chances)[:3].tolist()}"
        raise Difference("crowd answer", f"instant {t}: of {sort} reported {few}, in truth {truth!r}: {crowd}")


# --- The truth --------------------------------------------------------------------------------------------------------


def probability(sort: Sort, there: Sequence[Sort]) -> Decimal:
    """That none of the other rows beats one of this sort."""
    with localcontext(prec=50):
        total = Decimal(0)
        for place in product(*sort.cells):
            chance = Decimal(1)
            for other in there:
                left = 1 - beats(other.cells, [value for value, _ in place])
                count = other.count - (other is sort)
                chance *= (Decimal(left.numerator) / left.denominator) ** count if count else 1
            weights = [Fraction(w, sum(w for _, w in cell)) for (_, w), cell in zip(place, sort.cells, strict=True)]
            total += chance * prod(weights).numerator / prod(weights).denominator
        return total


def beats(cells: Sequence[Cell], place: Sequence[int]) -> Fraction:
    """That a row with these cells is nowhere worse than the place, and somewhere better."""
    at_least, equal = Fraction(1), Fraction(1)
    for cell, x in zip(cells, place, strict=True):
        total = sum(w for _, w in cell)
        at_least *= Fraction(sum(w for v, w in cell if v >= x), total)
        equal *= Fraction(sum(w for v, w in cell if v == x), total)
    return at_least - equal


def surely_beaten(sort: Sort, there: Sequence[Sort]) -> bool:
    """Whether the worst of any row beats the best of this one."""
    best = [max(v for v, _ in cell) for cell in sort.cells]
    return any(_over([min(v for v, _ in cell) for cell in other.cells], best) for other in there)


def _over(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(x >= y for x, y in zip(a, b, strict=True)) and list(a) != list(b)
