"""Which rows wait for the clock of their group, and where do they lie?

A few lie in the group's state. Where there are more, they lie in cells, one for each slot of time, a sixteenth of the
lateness long: what comes joins the newest slots, what becomes due lies in the oldest, and those between are neither
read nor written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fogline.flow.block import RowBlock, concat, from_arrays, to_arrays
from fogline.flow.cells import Cells
from fogline.flow.plan import Plan
from fogline.flow.state import from_cell, to_cell

SLOTS = 16  # in all of the lateness
FEW = 2_000  # rows that lie in the state itself

_WHAT = "slot of rows that wait"


class Slot(NamedTuple):
    """Rows that wait in a cell."""

    cell: int
    at: float  # the slot's number, counted in time
    rows: int
    first: float  # the least arrival


def open_slots(
    plan: Plan, slots: Sequence[Slot], clock: float, cells: Cells | None
) -> tuple[list[RowBlock], list[Slot]]:
    """The rows of slots that the clock has reached, which leave their cells; and the other slots."""
    reached = [slot for slot in slots if slot.first <= clock]
    if not reached:
        return [], list(slots)
    assert cells is not None, "rows wait in cells that are not there"
    blocks = [_read(plan, cells, slot) for slot in reached]
    for slot in reached:
        cells.remove(slot.cell)
    return blocks, [slot for slot in slots if slot.first > clock]


def put_away(
    plan: Plan, rows: RowBlock | None, slots: list[Slot], cells: Cells | None
) -> tuple[RowBlock | None, list[Slot]]:
    """A few rows stay where they are, more go into the cells of their slots: what stays, and the slots then."""
    if rows is None or cells is None or len(rows.arrived) <= FEW:
        return rows, slots
    by_time = {slot.at: slot for slot in slots}
    at = np.floor(rows.arrived / (plan.lateness / SLOTS))
    for each in np.unique(at).tolist():
        block, slot = rows.part(np.flatnonzero(at == each)), by_time.get(each)
        if slot is not None:
            block = concat([_read(plan, cells, slot), block])  # those that came first lie first
        cell = _free(by_time.values()) if slot is None else slot.cell
        cells.put(cell, to_cell({}, to_arrays(block, plan.signs)))
        by_time[each] = Slot(cell, each, len(block.arrived), float(block.arrived.min()))
    return None, list(by_time.values())


def _read(plan: Plan, cells: Cells, slot: Slot) -> RowBlock:
    return from_arrays(from_cell(cells.get(slot.cell), _WHAT)[1], plan.signs, plan.width)


def _free(slots: Iterable[Slot]) -> int:
    """The least number that no cell has."""
    taken = {slot.cell for slot in slots}
    return next(k for k in range(len(taken) + 1) if k not in taken)
