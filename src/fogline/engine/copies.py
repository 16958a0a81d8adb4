"""Which rows have a copy: another row with their group, id and arrival?

Of copies that come together one counts (`rows.names`). What has entered stays, as far as the live set remembers it: a
copy that comes later is refused.

On a pipeline other rows may have been dropped before they came here, because a copy dominates them. If that copy is
refused, this does no harm as long as a row stays that could have dropped them as well: one that is nowhere worse and
expires no earlier. If there is none, the copy is needed: of several that come together it is the one that counts, and
beside a row that has entered it is kept as a *conflict*. In a skyband several rows with names of their own could have
dropped them, and each needs a row in its place: only one of its own name will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.engine.group import Group
from fogline.kernels.static import as_good_as
from fogline.kernels.uncertain import extent
from fogline.rows.names import Contents, copies_of, stamp_names


def entered(group: Group | None, id: Sequence[Any], arrived: Floats, clock: float) -> list[int]:
    """The positions of rows that have entered already. `clock`: up to when the group has been advanced."""
    if group is None or not len(id) or extent(arrived)[0] > clock:
        return []
    behind = np.flatnonzero(arrived <= clock)
    there = group.knows([id[k] for k in behind.tolist()], arrived[behind], None)
    return [int(k) for k in behind[there]]


def duplicates(
    group: Group | None,
    id: Sequence[Any],
    arrived: Floats,
    clock: float,
    contents: Callable[[], Contents],
    covering: Flags | None = None,
    *,
    skyband: bool = False,
) -> tuple[list[int], list[int]]:
    """The positions of rows of one group that are refused, and those of conflicts, which are kept beside other rows.

    `clock`: up to when the group has been advanced; `covering`: rows because of which others were dropped.
    """
    again: set[int] = set()
    held = cache(contents)  # what rows hold is put together once
    for copies in copies_of(stamp_names(id, arrived, None), held):
        again.update(copies)
        again.remove(_chosen(copies, held(), covering))
    again.update(entered(group, id, arrived, clock))
    needed = [] if covering is None else [k for k in sorted(again) if covering[k]]
    kept = _conflicts(needed, again, group, (id, arrived), held(), skyband) if needed else []
    return sorted(again.difference(kept)), kept


def _conflicts(
    needed: list[int],
    again: set[int],
    group: Group | None,
    names: tuple[Sequence[Any], Floats],
    contents: Contents,
    skyband: bool,
) -> list[int]:
    """Of the needed copies, those for which no row that stays is as good.

    O(rows + needed · log live) where few live rows overlap.
    """
    covered = set(
        _covered(group, contents, needed) if not skyband else _covered_by_name(group, contents, needed, names)
    )
    left = [k for k in needed if k not in covered]
    if not left:
        return []
    id, arrived = names
    copies: dict[Any, list[int]] = {}  # by name, those that stay
    for n, name in enumerate(zip(id, arrived.tolist(), strict=True)):
        if n not in again:
            copies.setdefault(name, []).append(n)
    kept: list[int] = []
    for k in left:
        there = copies.setdefault((id[k], float(arrived[k])), [])
        if not any(contents.as_good(n, k) for n in there):
            kept.append(k)
            there.append(k)
    return kept


def _chosen(copies: list[int], contents: Contents, covering: Flags | None) -> int:
    """The copy that counts: the best one, or where others need one that it is not as good as, the best of those."""
    best = copies[0]
    if covering is None or not covering[copies].any():
        return best
    needed = [k for k in copies if covering[k] and not contents.as_good(best, k)]
    return contents.best(needed) if needed and not covering[best] else best


def _covered(group: Group | None, contents: Contents, needed: list[int]) -> list[int]:
    """Those of the rows for which a live one is nowhere worse and expires no earlier."""
    if group is None:
        return []
    slots = group.live.slots
    alive: Ints = slots.alive()
    there = np.column_stack((slots.uncertain.lo[alive], slots.columns.expires[alive]))
    found = as_good_as(there, np.column_stack((contents.uncertain.lo[needed], contents.expires[needed])))
    return [k for k, there_is in zip(needed, found.tolist(), strict=True) if there_is]


def _covered_by_name(
    group: Group | None, contents: Contents, needed: list[int], names: tuple[Sequence[Any], Floats]
) -> list[int]:
    """Those of the rows of whose name a live one is nowhere worse and expires no earlier."""
    if group is None:
        return []
    (id, arrived), slots = names, group.live.slots
    alive = slots.alive()
    named = zip(slots.id[alive].tolist(), slots.columns.arrived[alive].tolist(), strict=True)
    there = dict(zip(named, alive.tolist(), strict=True))
    found = []
    for k in needed:
        slot = there.get((id[k], float(arrived[k])))
        lives = slot is not None and slots.columns.expires[slot] >= contents.expires[k]
        if lives and (slots.uncertain.lo[slot] >= contents.uncertain.lo[k]).all():
            found.append(k)
    return found
