"""How far have the ids of a group come together?

The *ground* of a group is a stretch of its time (`heard`). It begins with the earliest stretch heard, and moves on

- to the next stretch, when two different ids have been heard in it (one, where the ground and the stretch before it
  know of one id only);
- by a *jump*, to the first later stretch such that in it and the next one rows of at least a tenth of the ids of the
  ground and the stretch before it, and of two at least, have come at two different instants. Where those know of one id
  only, that id may jump alone; another one that is alone, too, if it is heard in three stretches in a row.

Some groups have rows at single instants farther apart than stretches are long. So where the ground and the stretch
before it show one instant only, a jump may rest on everything that was heard from its stretch on; or on one instant, if
half of the ids have come, and two at least.

So one bad row, or one bad id however many rows it sends, does not move the ground by more than a stretch, and a time
that many ids show by mistake does not either. After a silence the ground goes on as soon as a few ids are back.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from fogline.arrays import Words
from fogline.flow.heard import Cell, Heard, count_ids


def moved(ground: float, heard: Heard) -> float:
    """Where the ground is, after this was heard. It never moves back."""
    order = sorted(heard)
    while (then := _after(ground, heard, order)) is not None:
        ground = then
    return ground


def _after(ground: float, heard: Heard, order: list[float]) -> float | None:
    """The next ground; None: it stays."""
    coming = heard.get(ground + 1)
    if coming is not None and len(coming.ids) > 1:
        return ground + 1
    near = _join([heard[s] for s in (ground - 1, ground) if s in heard])
    if coming is not None and len(near.ids) <= 1:
        return ground + 1
    later = order[bisect_right(order, ground) :]
    rest = _from_each_on(heard, later) if later and not near.several_instants else {}
    for s in later:
        if _may_jump(s, heard, near, rest.get(s)):
            return s
    return None


def _may_jump(s: float, heard: Heard, near: Cell, rest: Cell | None) -> bool:
    """`rest`: all that was heard from s on, where the ground shows one instant only."""
    there = _join([heard[k] for k in (s, s + 1) if k in heard])
    known = count_ids(near.ids)
    if known > 1:
        few = max(2, -(-known // 10))
        if any(_come(each, few) for each in (there, rest) if each is not None):
            return True
        return rest is not None and count_ids(heard[s].ids) >= max(2, -(-known // 2))
    if any(_come(each, 2) or _same(each, near.ids) for each in (there, rest) if each is not None):
        return True
    return s + 1 in heard and s + 2 in heard


def _come(cell: Cell, few: int) -> bool:
    return cell.several_instants and count_ids(cell.ids) >= few


def _same(cell: Cell, ids: Words) -> bool:
    return cell.several_instants and np.array_equal(cell.ids, ids)


def _from_each_on(heard: Heard, later: list[float]) -> dict[float, Cell]:
    """All that was heard from each of these stretches on."""
    out: dict[float, Cell] = {}
    whole: Cell | None = None
    for s in reversed(later):
        whole = heard[s] if whole is None else whole.join(heard[s])
        out[s] = whole
    return out


def _join(cells: list[Cell]) -> Cell:
    first, *others = cells
    for each in others:
        first = first.join(each)
    return first
