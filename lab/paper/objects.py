"""What is an imputed object, and with which probability is it in the skyline? (Sections 2 and 4.)

| paper | here |
|---|---|
| Definition 1, an object o_i that arrives, expires, and may lack values | `Incomplete` |
| Definition 2, its imputed object o_i^p with instances; MBR, o.min, o.max | `Imputed` |
| Definition 3 and Eq. 1, possible worlds | `possible_worlds` |
| Definition 4, dominance between certain objects | `dominates` |
| Definition 5 and Eq. 2, dominance probability | `dominance_probability` |
| Definition 6 and Eq. 3, skyline probability over possible worlds | `probability_over_worlds` |
| Eq. 4, the same as a product over objects | `skyline_probability` |
| Table 1 (a coal mine), Table 3 (imputed), Table 4 (its possible worlds) | `tests/vectors/paper.json` |
| Table 2 (routers) | the same kind of stream; the paper works nothing out with it |
| Table 5 (symbols): iDS, pDS, W_t | rows of `Incomplete`, of `Imputed`, a `Store` of what lives |

Larger is better. Attributes of an object are independent, as in the paper's Table 3 (0.56 = 0.8 × 0.7). So Eq. 2 and
the Pr{c ≺ x} of Eq. 4 are products over attributes, and instances of the dominating side are never listed:

    Pr{a ≺ b} = Π_j Pr{a_j ≥ b_j} - Π_j Pr{a_j = b_j}

A probability within 1e-9 of α counts as equal to it. At α = 0 likely means surely.

Where the paper contradicts itself: below Eq. 3 the sign ⊀ between o_js and o_il is read as "o_js is not dominated by
o_il"; the sum needs the reverse, "o_js does not dominate o_il". Its Table 3 imputes o_5[D] by 2 with probability 1;
section 3.2 imputes the same cell by 1 and 2, half each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fogline.arrays import Flags, Floats, Ints
from fogline.query import TOLERANCE
from lab.case import LabError
from lab.kernels import paper as kernels
from lab.kernels.paper import Objects

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


@dataclass(eq=False)
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

    @cached_property
    def columns(self) -> Objects:
        """The same as the kernels take it: columns of one slot."""
        size = np.array([len(cell.values) for cell in self.cells], np.int64)
        values, weights = (np.concatenate([cell[part] for cell in self.cells]) for part in (0, 1))
        tail = np.concatenate([cell.tail[:-1] for cell in self.cells])
        start, expires = np.cumsum(size) - size, np.array([float(self.expires)])
        return Objects(self.min[None], self.max[None], expires, start[None], size[None], values, weights, tail)

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


class Store(Generic[Item]):
    """Imputed objects side by side, each with what it stands for: one compiled walk asks all of them."""

    def __init__(self) -> None:
        self.items: list[Item | None] = []
        self.free: list[int] = []
        self.used = self.pool = 0  # slots and values that were ever in use
        self.columns: Objects | None = None

    def add(self, item: Item, o: Imputed) -> int:
        """Its slot. O(values), now and then O(slots)."""
        new = o.columns
        columns = self._with_room(new)
        slot = self.free.pop() if self.free else self.used
        self.used = max(self.used, slot + 1)
        many = len(new.values)
        columns.low[slot], columns.high[slot], columns.expires[slot] = new.low[0], new.high[0], new.expires[0]
        columns.start[slot], columns.size[slot] = new.start[0] + self.pool, new.size[0]
        for pool, own in zip(columns[5:], new[5:], strict=True):
            pool[self.pool : self.pool + many] = own
        self.pool += many
        if slot == len(self.items):
            self.items.append(item)
        else:
            self.items[slot] = item
        return slot

    def drop(self, slot: int) -> None:
        """O(d)."""
        assert self.columns is not None
        self.items[slot] = None
        self.columns.low[slot] = self.columns.high[slot] = np.nan
        self.free.append(slot)

    def above(self, o: Imputed) -> Ints:
        """The slots of those that may dominate o. O(slots · d), as the next ones."""
        return self._ask(kernels.ABOVE, o)

    def surely_below(self, o: Imputed) -> list[Item]:
        """What o dominates surely, or equals."""
        return self.at(self._ask(kernels.SURELY_BELOW, o))

    def likely_above(self, o: Imputed, alpha: float) -> list[Item]:
        """What dominates o with 1 - α."""
        return self._likely(kernels.ABOVE, o, alpha)

    def likely_below(self, o: Imputed, alpha: float) -> list[Item]:
        """What o dominates with 1 - α."""
        return self._likely(kernels.BELOW, o, alpha)

    def pruned_by(self, o: Imputed, alpha: float, lemmas: Ints) -> int:
        """The first of these lemmas by which some object prunes o, or 0."""
        return 0 if self.columns is None else int(kernels.pruned_by(self.columns, self.used, o.columns, alpha, lemmas))

    def expired(self, now: Any) -> list[Item]:
        """What expires by now."""
        return [] if self.columns is None else self.at(kernels.find_expired(self.columns, self.used, float(now)))

    def lower_bound(self, o: Imputed, near: Ints) -> float:
        """lb_P of section 5.3.2: the skyline probability of o.min, over the objects in these slots."""
        return 1.0 if self.columns is None else float(kernels.corner_probability(self.columns, near, o.columns))

    def skyline_probability(self, o: Imputed, near: Ints) -> float:
        """Eq. 4: Σ over instances of o_il.p · Π over other objects of (1 - Pr{c ≺ o_il})."""
        if (many := prod(o.columns.size[0].tolist())) > INSTANCES:
            raise LabError(f"object {o.id!r} has {many:,} instances; take fewer gaps, or closer rules.")
        return 1.0 if self.columns is None else float(kernels.product_over_objects(self.columns, near, o.columns))

    def at(self, slots: Ints) -> list[Item]:
        """What stands in these slots."""
        return [item for slot in slots.tolist() if (item := self.items[slot]) is not None]

    def _ask(self, side: int, o: Imputed) -> Ints:
        found: Ints = np.empty(0, np.int64)
        if self.columns is not None:
            found = kernels.find(self.columns, self.used, o.columns, side)
        return found

    def _likely(self, side: int, o: Imputed, alpha: float) -> list[Item]:
        if self.columns is None:
            return []
        return self.at(kernels.find_likely(self.columns, self.used, o.columns, side, alpha))

    def _with_room(self, new: Objects) -> Objects:
        """Room for one slot and its values more; values of those that were dropped are squeezed out first."""
        slots, d, many = (0 if self.columns is None else len(self.columns.low)), new.low.shape[1], len(new.values)
        if self.columns is not None and (self.free or self.used < slots) and self.pool + many <= len(self.columns[5]):
            return self.columns
        old, here = self.columns, np.flatnonzero([item is not None for item in self.items])
        room = max(64, slots if self.free or self.used < slots else 2 * slots)
        kept = 0 if old is None else int(old.size[here].sum())
        start, size = np.zeros((2, room, d), np.int64)
        low, high, expires = np.full((room, d), np.nan), np.full((room, d), np.nan), np.zeros(room)
        pools = [np.zeros(max(256, 2 * (kept + many))) for _ in range(3)]
        self.pool = 0
        if old is not None:
            low[:slots], high[:slots], expires[:slots], size[:slots] = old.low, old.high, old.expires, old.size
            counts = old.size[here].ravel()
            first = np.cumsum(counts) - counts
            which = np.arange(kept) + np.repeat(old.start[here].ravel() - first, counts)
            for pool, values in zip(pools, old[5:], strict=True):
                pool[:kept] = values[which]
            start[here], self.pool = first.reshape(-1, d), kept
        self.columns = Objects(low, high, expires, start, size, *pools)
        return self.columns


# ------------------------------------------------------------------------------------------------------------ dominance


def dominates(a: Floats, b: Floats) -> bool:
    """Definition 4: is the point a (d,) nowhere worse than b (d,), and somewhere better?"""
    return bool((a >= b).all() and (a > b).any())


def dominance_probability(a: Imputed, b: Imputed) -> float:
    """Eq. 2: Pr{a ≺ b}."""
    return float(kernels.dominance(a.columns, b.columns))


def likely(a: Imputed, b: Imputed, alpha: float) -> bool:
    """Pr{a ≺ b} >= 1 - α, which leaves b a skyline probability of at most α: what the skyline tree is made of.

    At α = 0 none is enough but 1.
    """
    return bool(kernels.is_likely(a.columns, b.columns, alpha))


def answers(probability: float, alpha: float) -> bool:
    """P > α (Definition 6)."""
    return probability > (alpha + TOLERANCE if alpha > 0 else 0.0)


# ---------------------------------------------------------------------------------------------------------- probability


def possible_dominators(o: Imputed, window: Iterable[Imputed]) -> list[Imputed]:
    """Those of the window that dominate o in some world. The others have factor 1 in Eq. 4."""
    return [c for c in window if c is not o and (c.max >= o.min).all() and (c.max > o.min).any()]


def skyline_probability(o: Imputed, dominators: Iterable[Imputed]) -> float:
    """Eq. 4 over these objects."""
    store = _held(dominators)
    return store.skyline_probability(o, store.above(o))


def lower_bound(o: Imputed, dominators: Iterable[Imputed]) -> float:
    """lb_P of section 5.3.2 over these objects."""
    store = _held(dominators)
    return store.lower_bound(o, store.above(o))


def _held(objects: Iterable[Imputed]) -> Store[Imputed]:
    store = Store[Imputed]()
    for o in objects:
        store.add(o, o)
    return store


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
