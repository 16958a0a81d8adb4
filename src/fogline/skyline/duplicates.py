"""Which rows are there already, and which of several copies stays?

A copy has the group, id and arrival of another row. What has entered stays, as far as the live set remembers it. Of
copies that come together one stays, by what they hold and not by their order: the one that is better in the first
attribute in which they differ, a number before a gap, then the one that expires later.

A copy that is refused may be one because of which others were dropped before they came here. That is no matter if
another row could have dropped them as well: one that is nowhere worse, and there as long. If there is none, they need
that copy: it is chosen of several, or kept beside the row that is there already (a *conflict*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Clouds, Flags, Floats, Ints
from fogline.kernels.clouds import extent
from fogline.skyline.group import Group

DUPLICATE = "a row with this id and time is there already"  # the reason of a reject


class Contents(NamedTuple):
    """What rows hold, beside their names."""

    raw: Floats  # (n, d) as it came
    expires: Floats  # (n,)
    clouds: Clouds
    signs: Floats  # (d,)

    def part(self, which: list[int] | Ints) -> Contents:
        """Of some of the rows."""
        return Contents(self.raw[which], self.expires[which], self.clouds.part(which), self.signs)

    def rank(self, i: int) -> tuple[Any, ...]:
        """Greater for the copy that stays."""
        cells, clouds = self.raw[i] * self.signs, self.clouds
        pools = []
        for start, size in zip(clouds.start[i].tolist(), clouds.size[i].tolist(), strict=True):
            many = slice(start, start + size) if start >= 0 else slice(0, 0)
            pools.append((clouds.value[many].tolist(), clouds.weight[many].tolist()))
        return (_ordered(cells), float(self.expires[i]), _ordered(clouds.lo[i]), _ordered(clouds.hi[i]), pools)

    def best(self, copies: Iterable[int]) -> int:
        """The one that stays, the first of those that are the same."""
        return max(copies, key=self.rank)

    def as_good(self, n: int, c: int) -> bool:
        """Could row n have dropped whatever row c did, both having arrived at one instant?"""
        lo = self.clouds.lo
        return bool(self.expires[n] >= self.expires[c] and (lo[n] >= lo[c]).all())


def duplicates(
    group: Group | None,
    id: Sequence[Any],
    arrived: Floats,
    clock: float,
    contents: Callable[[], Contents],
    covering: Flags | None = None,
) -> tuple[list[int], list[int]]:
    """The positions of rows of one group that are refused, and of conflicts, which are kept beside others.

    `clock`: up to when the group has been advanced; `covering`: rows because of which others were dropped.
    """
    again: set[int] = set()
    if len(set(id)) < len(id):  # ids repeat: look again with all that names a row
        for copies in _together(zip(id, arrived.tolist(), strict=True)):
            again.update(copies)
            again.remove(_chosen(copies, contents(), covering))
    if group is not None and len(id) and extent(arrived)[0] <= clock:
        again.update(k for k in np.flatnonzero(arrived <= clock).tolist() if group.has(id[k], arrived[k]))
    needed = [] if covering is None else [k for k in sorted(again) if covering[k]]
    kept = _conflicts(needed, again, group, (id, arrived), contents()) if needed else []
    return sorted(again.difference(kept)), kept


def without_copies(names: Sequence[Any], time: Floats, version: Ints, contents: Callable[[], Contents]) -> Ints:
    """The places of rows, of which each name has one for a time and version: of copies, the one that stays."""
    stay = np.ones(len(names), np.bool_)
    if len(set(names)) < len(names):
        held: Contents | None = None
        for copies in _together(zip(names, time.tolist(), version.tolist(), strict=True)):
            held = held or contents()
            stay[copies] = False
            stay[held.best(copies)] = True
    return np.flatnonzero(stay)


def _conflicts(
    needed: list[int], again: set[int], group: Group | None, names: tuple[Sequence[Any], Floats], contents: Contents
) -> list[int]:
    """The copies whose place no row that stays can take."""
    id, arrived = names
    kept: list[int] = []
    for k in needed:
        copies = [n for n in np.flatnonzero(arrived == arrived[k]).tolist() if id[n] == id[k]]
        there = [n for n in copies if n not in again or n in kept]
        if not any(contents.as_good(n, k) for n in there) and not _covered(group, contents, k):
            kept.append(k)
    return kept


def _together(names: Iterable[Any]) -> list[list[int]]:
    """The positions of rows that share a name, for each name that several have."""
    found: dict[Any, list[int]] = {}
    for i, name in enumerate(names):
        found.setdefault(name, []).append(i)
    return [which for which in found.values() if len(which) > 1]


def _chosen(copies: list[int], contents: Contents, covering: Flags | None) -> int:
    """The copy that stays: one that others need, if there is any."""
    best = contents.best(copies)
    if covering is None or not covering[copies].any():
        return best
    needed = [k for k in copies if covering[k] and not contents.as_good(best, k)]
    return contents.best(needed) if needed and not covering[best] else best


def _covered(group: Group | None, contents: Contents, k: int) -> bool:
    """Is there a live row that could have dropped whatever row k did?"""
    if group is None:
        return False
    slots = group.live.slots
    alive: Ints = slots.alive()
    as_long = slots.columns.expires[alive] >= contents.expires[k]
    return bool((as_long & (slots.clouds.lo[alive] >= contents.clouds.lo[k]).all(axis=1)).any())


def _ordered(values: Floats) -> list[float]:
    """To be compared; what is missing comes last."""
    return [-np.inf if np.isnan(value) else value for value in values.tolist()]
