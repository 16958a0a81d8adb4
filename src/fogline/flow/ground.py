"""How far have the ids of a group come together?

The *ground* of a group is a stretch of its time (`heard`). It begins with the earliest stretch heard, and moves on

- to the next stretch, when two different ids have been heard in it (one, where the ground and the stretch before it
  know of one id only);
- by a *jump*, to the first later stretch such that in it and the next one rows of at least a tenth of the ids of the
  ground and the stretch before it, and of two at least, have come at two different instants. Where those know of one id
  only, that id may jump alone; another one that is alone, too, if it is heard in three stretches in a row.

Some groups have rows at single instants farther apart than stretches are long. So where the ground and the stretch
before it show one instant only, a jump may rest on the eight stretches that were heard from its own on; or on one
instant, if half of the ids have come, and two at least.

So one bad row, or one bad id however many rows it sends, does not move the ground by more than a stretch, and a time
that many ids show by mistake does not either. After a silence the ground goes on as soon as a few ids are back.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from fogline.flow.heard import Cell, Heard, count_ids

MANY = 8  # stretches with rows that a jump may rest on, where rows come far apart


def moved(ground: float, heard: Heard) -> float:
    """Where the ground is, after this was heard. It never moves back."""
    order = sorted(heard)
    while (then := _after(ground, heard, order)) is not None:
        ground = then
    return ground


def _after(ground: float, heard: Heard, order: list[float]) -> float | None:
    """The next ground; None: it stays. `order`: the stretches, ascending."""
    coming = heard.get(ground + 1)
    if coming is not None and len(coming.ids) > 1:
        return ground + 1
    near = _join([heard[s] for s in (ground - 1, ground) if s in heard])
    if coming is not None and len(near.ids) <= 1:
        return ground + 1
    for at in range(bisect_right(order, ground), len(order)):
        if _may_jump(order[at : at + MANY], heard, near):
            return order[at]
    return None


def _may_jump(stretches: list[float], heard: Heard, near: Cell) -> bool:
    """May the ground jump to the first of these stretches, which were heard one after the other?"""
    s, *_ = stretches
    known = count_ids(near.ids)
    few = max(2, -(-known // 10)) if known > 1 else 1
    seen = [[k for k in (s, s + 1) if k in heard], *([] if near.several_instants else [stretches])]
    for some in seen:
        if sum(len(heard[k].ids) for k in some) >= few and _come(_join([heard[k] for k in some]), few, near):
            return True
    if known > 1:
        return not near.several_instants and count_ids(heard[s].ids) >= max(2, -(-known // 2))
    return s + 1 in heard and s + 2 in heard


def _come(cell: Cell, few: int, near: Cell) -> bool:
    """Have so many ids come, at two instants? One is enough if it is the one that is known."""
    count = count_ids(cell.ids)
    return cell.several_instants and (count >= max(2, few) or (few == 1 and np.array_equal(cell.ids, near.ids)))


def _join(cells: list[Cell]) -> Cell:
    first, *others = cells
    for each in others:
        first = first.join(each)
    return first
