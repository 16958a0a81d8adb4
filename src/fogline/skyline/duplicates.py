"""Which rows are there already?

A duplicate has the group, id and arrival of another row: of this call, or as far as the live set remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fogline.arrays import Floats
from fogline.kernels.clouds import extent
from fogline.skyline.group import Group

DUPLICATE = "a row with this id and time is there already"  # the reason of a reject


def duplicates(group: Group | None, id: Sequence[Any], arrived: Floats, clock: float) -> list[int]:
    """The positions of rows of one group that occurred before; `clock`: up to when the group has been advanced."""
    again: set[int] = set()
    if len(set(id)) < len(id):  # ids repeat: look again with all that names a row
        seen: set[Any] = set()
        for i, name in enumerate(zip(id, arrived.tolist(), strict=True)):
            if name in seen:
                again.add(i)
            seen.add(name)
    if group is not None and len(id) and extent(arrived)[0] <= clock:
        again.update(k for k in np.flatnonzero(arrived <= clock).tolist() if group.has(id[k], arrived[k]))
    return sorted(again)
