"""Of rows that share a stamp, which one counts?

Rows with one group, id and time (and version, where there is one) are *copies*. Of copies that come together one
counts, by what they hold and not by their order: the one that is better in the first attribute in which they differ, a
number before a gap or a distribution; then the one that expires later; then a distribution before a gap, and the better
of two distributions, from their worst values on. Rows that are rejected are no copies, so copies are kept in that
order: the first that is not rejected counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import ONE, Clouds, Flags, Floats, Ints

DUPLICATE = "a row with this id and time is there already"  # the reason of a reject


class Contents(NamedTuple):
    """What rows hold, beside their names."""

    raw: Floats  # (n, d) as it came
    expires: Floats  # (n,)
    clouds: Clouds
    signs: Floats  # (d,)
    points: bool = True  # whether a single value that did not come was given by a user's imputer, as if it had come

    def part(self, which: list[int] | Ints) -> Contents:
        """Of some of the rows."""
        return Contents(self.raw[which], self.expires[which], self.clouds.part(which), self.signs, self.points)

    def rank(self, i: int) -> tuple[Any, ...]:
        """Greater for the copy that counts. It does not depend on the boxes of gaps."""
        clouds = self.clouds
        point = (clouds.start[i] == ONE) & (clouds.lo[i] == clouds.hi[i])
        known = (self.raw[i] * self.signs == clouds.lo[i]) | (point if self.points else False)
        numbers = np.where(known, clouds.lo[i], -np.inf)
        pools = []
        for start, size in zip(clouds.start[i].tolist(), clouds.size[i].tolist(), strict=True):
            many = slice(start, start + size) if start >= 0 else slice(0, 0)
            pools.append((clouds.value[many].tolist(), clouds.weight[many].tolist()))
        came = np.where(np.isnan(self.raw[i]), -np.inf, self.raw[i] * self.signs)  # of equal ones: beyond its limits
        return numbers.tolist(), float(self.expires[i]), pools, came.tolist()

    def best(self, copies: Iterable[int]) -> int:
        """The one that counts, the first of those that are the same."""
        return max(copies, key=self.rank)

    def as_good(self, n: int, c: int) -> bool:
        """Could row n have dropped whatever row c did, both having arrived at one instant?"""
        lo = self.clouds.lo
        return bool(self.expires[n] >= self.expires[c] and (lo[n] >= lo[c]).all())


Copies = list[list[int]]  # for each stamp that several rows have: their positions, the best first


def copies_of(names: Iterable[Any], contents: Callable[[], Contents]) -> Copies:
    """The rows that share a stamp; names: of each row, its stamp. O(n), and sorting copies."""
    found: dict[Any, list[int]] = {}
    for i, name in enumerate(names):
        found.setdefault(name, []).append(i)
    several = [which for which in found.values() if len(which) > 1]
    if not several:
        return []
    held = contents()
    return [sorted(which, key=held.rank, reverse=True) for which in several]


def stamps(copies: Copies, n: int) -> Ints:
    """(n,) rows that share a stamp have one number; -1: no other row has it."""
    out = np.full(n, -1)
    for number, which in enumerate(copies):
        out[which] = number
    return out


def in_order(time: Floats, version: Ints | None, copies: Copies) -> Ints:
    """The rows in the order of their times; of one instant the greatest version first, of copies the best first."""
    order = np.argsort(time, kind="stable") if version is None else np.lexsort((~version, time))
    if copies:
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        for which in copies:
            order[np.sort(place[which])] = which
    return order


def others(copies: Copies, able: Flags | None = None) -> Ints:
    """The rows that do not count, since another of their stamp does: the first that is able (None: all are)."""
    out: list[int] = []
    for which in copies:
        fine = which if able is None else [k for k in which if able[k]]
        out += fine[1:]
    return np.array(sorted(out), np.int64)


def stamp_names(names: Sequence[Any], time: Floats, version: Ints | None) -> Iterable[Any]:
    """What names the stamps of rows; nothing, where no two rows have one name."""
    if len(set(names)) == len(names):
        return ()
    return zip(names, time.tolist(), [0] * len(names) if version is None else version.tolist(), strict=True)
