"""How many bytes does a group take, when it is loaded?

Counted by what it holds, not by what its arrays have room for: the same for the same rows, whichever engine and worker
has it. It is what a limit on state is compared with (`flow.limits`), and what an estimate multiplies
(`flow.estimate`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fogline.engine.current import LatestGroup
from fogline.engine.slots import TYPES
from fogline.kernels.states import IN
from fogline.kernels.uncertain import own_values

if TYPE_CHECKING:
    from fogline.flow.cache import LoadedGroup
    from fogline.flow.plan import Plan

NAME = 72  # bytes of an id, with what refers to it
VALUE = 24  # of one value of a distribution: value, weight, tail
SUM = 24  # of one place of a member
ID = 160  # of an id that has a current row, or left a marker: name, number, place, time, version
CELLS = 40  # of one attribute of a row: lo, hi, raw, where its distribution begins, how long it is
COLUMNS: int = sum(np.dtype(kind).itemsize for kind in TYPES.values())  # of one row: times, probabilities, words


def row_bytes(plan: Plan) -> int:
    """Of a live row without gaps."""
    return NAME + int(COLUMNS) + CELLS * len(plan.query.names) + 8 * int(plan.width)


def size_of(plan: Plan, loaded: LoadedGroup) -> int:
    """Of all that a group has between calls. O(live rows)."""
    slots = loaded.group.live.slots
    alive = slots.alive()
    places = int(slots.columns.instances[alive][slots.columns.state[alive] == IN].sum())
    return _rows(plan, loaded) + own_values(slots.uncertain, alive, slots.shared) * VALUE + places * SUM


def at_most(plan: Plan, loaded: LoadedGroup) -> int:
    """No less than that: values and sums of rows that are gone may be among it. O(1)."""
    slots = loaded.group.live.slots
    return _rows(plan, loaded) + slots.pool * VALUE + slots.filled * SUM


def _rows(plan: Plan, loaded: LoadedGroup) -> int:
    """Of all but distributions and sums."""
    group = loaded.group
    ids = len(group.names.number) if isinstance(group, LatestGroup) else 0
    queue = 0 if group.window is None else group.window.size
    held = 0 if loaded.ahead.held is None else len(loaded.ahead.held.arrived)
    sensors = 0 if loaded.sensors is None else len(loaded.sensors)
    rows = group.live.alive + loaded.waits + held
    return rows * row_bytes(plan) + ids * ID + queue * NAME + sensors
