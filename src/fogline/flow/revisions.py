"""How do revisions travel, and wait?

As arrays beside those of rows, under names of their own. A revision is an event at the tick of its reading, and shares
the reading's fate: it is held as long as a row of that time would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Revisions, objects
from fogline.saved import Arrays, as_bytes, from_bytes


def joined(parts: Sequence[Revisions | None]) -> Revisions | None:
    """All of them; None if there are none."""
    there = [each for each in parts if each is not None and len(each.id)]
    if len(there) < 2:
        return there[0] if there else None
    return Revisions(*(np.concatenate(each) for each in zip(*there, strict=True)))


def some(revisions: Revisions | None, which: Flags) -> Revisions | None:
    """Some of them; None if there are none."""
    if revisions is None or which.all():
        return revisions
    return revisions.part(np.flatnonzero(which)) if which.any() else None


def to_arrays(revisions: Revisions | None, kind: pa.DataType, prefix: str) -> Arrays:
    """As named arrays, for `packing.pack`; `kind` of the ids."""
    if revisions is None:
        return {}
    numbers = {f"{prefix}{name}": each for name, each in revisions._asdict().items() if name != "id"}
    return {f"{prefix}id": as_bytes(revisions.id.tolist(), kind), **numbers}


def from_arrays(arrays: Arrays, prefix: str) -> Revisions | None:
    """The inverse of `to_arrays`, among other arrays."""
    if f"{prefix}id" not in arrays:
        return None
    found: dict[str, Any] = {name: arrays[f"{prefix}{name}"] for name in Revisions._fields}
    return Revisions(**found | {"id": objects(from_bytes(found["id"])[0])})
