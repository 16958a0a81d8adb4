"""What is an imputed object, and with which probability is it in the skyline? (Sections 2 and 4.)

| paper | here |
|---|---|
| Definition 1, an object o_i that arrives, expires, and may lack values | `Incomplete` |
| Definition 2, its imputed object o_i^p with instances; MBR, o.min, o.max | `Imputed` |
| Definition 3 and Eq. 1, possible worlds | `possible_worlds` |
| Definition 4, dominance between certain objects | `dominates` |
| Definition 5 and Eq. 2, dominance probability | `dominance_probability` |
| Definition 6 and Eq. 3, skyline probability over possible worlds | `probability_over_worlds` |
| Eq. 14, the same as a product over objects | `skyline_probability` |

Larger is better. Attributes of an object are independent, as in the paper's Table 2 (0.56 = 0.8 × 0.7). So Eq. 2 and
the Pr{c ≺ x} of Eq. 14 are products over attributes, and instances of the dominating side are never listed:

    Pr{a ≺ b} = Π_j Pr{a_j ≥ b_j} - Π_j Pr{a_j = b_j}

A probability within 1e-9 of α counts as equal to it. At α = 0 likely means surely.

Where the paper contradicts itself: below Eq. 3 the sign ⊀ between o_js and o_il is read as "o_js is not dominated by
o_il"; the sum needs the reverse, "o_js does not dominate o_il". Its Table 2 imputes o_5[D] by 2 with probability 1;
section 3.2 imputes the same cell by 1 and 2, half each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fogline.arrays import Flags, Floats
from fogline.query import TOLERANCE
from lab.case import LabError

INSTANCES = 5_000_000  # of one object: more are not listed


_ONE, _SURE = np.ones(1), np.array([1.0, 0.0])


class Cell(NamedTuple):
    """The distribution of one attribute."""

    values: Floats  # (k,) ascending
    weights: Floats  # (k,) adding up to 1
    tail: Floats  # (k + 1,) Pr{A >= values[i]}, and 0

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> Cell:
        """Equal values are merged, and weights made to add up to 1.

        >>> Cell.of([2.0, 1.0, 2.0]).weights.round(2).tolist()
        [0.33, 0.67]
        """
        values = np.atleast_1d(np.asarray(values, np.float64))
        if len(values) == 1:
            return cls(values, _ONE, _SURE)
        weights = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
        merged, which = np.unique(values, return_inverse=True)
        share = np.bincount(which, weights) / weights.sum()
        tail = np.concatenate((np.cumsum(share[::-1])[::-1], [0.0]))
        tail[0] = 1.0
        return cls(merged, share, tail)

    def at_least(self, x: ArrayLike) -> Floats:
        """Pr{A >= x}."""
        found: Floats = self.tail[self.values.searchsorted(x, "left")]
        return found

    def above(self, x: ArrayLike) -> Floats:
        """Pr{A > x}."""
        found: Floats = self.tail[self.values.searchsorted(x, "right")]
        return found


@dataclass(eq=False, slots=True)
class Incomplete:
    """An object o_i of the incomplete stream (Definition 1); NaN is the paper's "-"."""

    id: Hashable
    arrives: Any
    expires: Any
    values: Floats  # (d,)


@dataclass(eq=False, slots=True)
class Imputed:
    """An imputed object o_i^p (Definition 2): a distribution per attribute, and its MBR."""

    id: Hashable
    arrives: Any
    expires: Any
    cells: Sequence[Cell] = field(repr=False)
    min: Floats  # (d,) corner of the MBR
    max: Floats  # (d,)

    @classmethod
    def of(cls, id: Hashable, arrives: Any, expires: Any, cells: Sequence[Cell]) -> Self:
        """From its cells."""
        low, high = (np.array([cell.values[end] for cell in cells]) for end in (0, -1))
        return cls(id, arrives, expires, cells, low, high)

    def instances(self) -> tuple[Floats, Floats]:
        """Its instances o_il (k, d), and their probabilities o_il.p (k,)."""
        if prod(len(cell.values) for cell in self.cells) > INSTANCES:
            raise LabError(
                f"object {self.id!r} has more than {INSTANCES:,} instances; take fewer gaps, or closer rules."
            )
        grid = np.meshgrid(*(cell.values for cell in self.cells), indexing="ij")
        share = np.meshgrid(*(cell.weights for cell in self.cells), indexing="ij")
        return np.stack([each.ravel() for each in grid], axis=1), np.prod([each.ravel() for each in share], axis=0)


Item = TypeVar("Item")


class Boxes(Generic[Item]):
    """Things by their MBRs, as columns: one comparison of arrays finds the few that may dominate, or be dominated."""

    def __init__(self) -> None:
        self.items: list[Item | None] = []
        self.low = self.high = np.empty((0, 0))  # (slots, d), NaN where a slot is free
        self.free: list[int] = []

    def add(self, item: Item, low: Floats, high: Floats) -> int:
        """Its slot. O(d), now and then O(slots)."""
        if not self.free:
            slots, d = len(self.items), len(low)
            room = np.full((max(64, slots), d), np.nan)
            self.low, self.high = (np.concatenate((each.reshape(-1, d), room)) for each in (self.low, self.high))
            self.items += [None] * len(room)
            self.free = list(range(len(self.items) - 1, slots - 1, -1))
        slot = self.free.pop()
        self.items[slot], self.low[slot], self.high[slot] = item, low, high
        return slot

    def drop(self, slot: int) -> None:
        """O(d)."""
        self.items[slot], self.low[slot], self.high[slot] = None, np.nan, np.nan
        self.free.append(slot)

    def above(self, point: Floats) -> list[Item]:
        """What may dominate an object whose min is this point. O(slots · d)."""
        return self._where(self.high >= point) if self.items else []

    def below(self, point: Floats) -> list[Item]:
        """What an object whose max is this point may dominate. O(slots · d)."""
        return self._where(self.low <= point) if self.items else []

    def surely_below(self, point: Floats) -> list[Item]:
        """What an object whose min is this point dominates surely, or equals. O(slots · d)."""
        return self._where(self.high <= point) if self.items else []

    def _where(self, hit: Flags) -> list[Item]:
        return [item for slot in np.flatnonzero(hit.all(axis=1)).tolist() if (item := self.items[slot]) is not None]


# ------------------------------------------------------------------------------------------------------------ dominance


def dominates(a: Floats, b: Floats) -> bool:
    """Definition 4: is the point a (d,) nowhere worse than b (d,), and somewhere better?"""
    return bool((a >= b).all() and (a > b).any())


def dominance_over(a: Imputed, points: Floats) -> Floats:
    """(k,) Pr{a ≺ x} for points x (k, d)."""
    at_least, equal = np.ones((2, len(points)))
    for j, cell in enumerate(a.cells):
        reached, over = cell.at_least(points[:, j]), cell.above(points[:, j])
        at_least *= reached
        equal *= reached - over
    return np.asarray(at_least - equal)


def dominance_of(point: Floats, o: Imputed) -> float:
    """Pr{x ≺ o} for a point x (d,)."""
    at_most = equal = 1.0
    for x, cell in zip(point, o.cells, strict=True):
        over = float(cell.above(x))
        at_most *= 1 - over
        equal *= float(cell.at_least(x)) - over
    return at_most - equal


def dominance_probability(a: Imputed, b: Imputed) -> float:
    """Eq. 2: Pr{a ≺ b}."""
    if not (a.max >= b.min).all():
        return 0.0
    if dominates(a.min, b.max):
        return 1.0
    at_least = equal = 1.0
    for one, other in zip(a.cells, b.cells, strict=True):
        reached, over = one.at_least(other.values), one.above(other.values)
        at_least *= float(other.weights @ reached)
        equal *= float(other.weights @ (reached - over))
    return at_least - equal


def enough(probability: float, alpha: float) -> bool:
    """Pr >= 1 - α, which leaves the dominated object a skyline probability of at most α. At α = 0 none is enough."""
    return alpha > 0 and probability >= 1 - alpha - TOLERANCE


def likely(a: Imputed, b: Imputed, alpha: float) -> bool:
    """Pr{a ≺ b} >= 1 - α: what the skyline tree is made of."""
    if not (a.max >= b.min).all():
        return False
    return dominates(a.min, b.max) or enough(dominance_probability(a, b), alpha)


def answers(probability: float, alpha: float) -> bool:
    """P > α (Definition 6)."""
    return probability > (alpha + TOLERANCE if alpha > 0 else 0.0)


# ---------------------------------------------------------------------------------------------------------- probability


def possible_dominators(o: Imputed, window: Iterable[Imputed]) -> list[Imputed]:
    """Those of the window that dominate o in some world. The others have factor 1 in Eq. 14."""
    return [c for c in window if c is not o and (c.max >= o.min).all() and (c.max > o.min).any()]


def skyline_probability(o: Imputed, dominators: Iterable[Imputed]) -> float:
    """Eq. 14: Σ over instances of o_il.p · Π over other objects of (1 - Pr{c ≺ o_il})."""
    points, left = o.instances()
    for c in dominators:
        left = left * (1 - dominance_over(c, points))
    return float(left.sum())


def lower_bound(o: Imputed, dominators: Iterable[Imputed]) -> float:
    """lb_P of section 5.3.2: the skyline probability of o.min."""
    left, worst = 1.0, o.min[None]
    for c in dominators:
        left *= 1 - float(dominance_over(c, worst)[0])
        if not left:
            break
    return left


def possible_worlds(window: Sequence[Imputed]) -> Iterator[tuple[Floats, float]]:
    """Definition 3 and Eq. 1: an instance of each object (n, d), and the probability of the whole. For few objects."""
    listed = [tuple(zip(*o.instances(), strict=True)) for o in window]
    for world in product(*listed):
        yield np.array([point for point, _ in world]), float(np.prod([weight for _, weight in world]))


def probability_over_worlds(o: Imputed, window: Sequence[Imputed]) -> float:
    """Eq. 3: the probability of the worlds in which no other object dominates o."""
    at = window.index(o)
    return sum(p for world, p in possible_worlds(window) if not _dominated(world, at).any())


def _dominated(world: Floats, at: int) -> Flags:
    """(n,) which points dominate this one?"""
    return np.asarray((world >= world[at]).all(axis=1) & (world > world[at]).any(axis=1))
