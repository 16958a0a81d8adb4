"""Which ids were heard when, in a group?

Time is cut into *stretches* of one length, numbered floor(t / length). Of each stretch are known the least and the
greatest time, how many rows came, and a sketch of their ids (`kernels/heard.py`). All of it is a function of the set of
rows: what several chunks have heard joins into what one chunk would have heard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Ints, Words
from fogline.kernels.heard import FARTHEST, KEPT, hash_numbers, hash_texts, merged
from fogline.saved import Arrays

NO_IDS = np.empty(0, np.uint64)
PREFIX = "heard "


class Cell(NamedTuple):
    """What is known of one stretch of a group's time."""

    least: float
    greatest: float
    rows: int
    ids: Words  # the least hashes of the ids, ascending

    def join(self, other: Cell) -> Cell:
        """Both together."""
        ids = merged(self.ids, other.ids, KEPT) if len(self.ids) or len(other.ids) else NO_IDS
        return Cell(min(self.least, other.least), max(self.greatest, other.greatest), self.rows + other.rows, ids)

    @property
    def several_instants(self) -> bool:
        """Whether its rows came at different instants."""
        return self.least < self.greatest


Heard = Mapping[float, Cell]  # by stretch


def count_ids(ids: Words) -> int:
    """How many different ids have left this sketch: exact below its size, estimated from there on."""
    if len(ids) < KEPT:
        return len(ids)
    return max(KEPT, round((KEPT - 1) * 2.0**64 / (float(ids[-1]) + 1.0)))


def joined(parts: Iterable[Heard]) -> dict[float, Cell]:
    """What all parts together have heard."""
    out: dict[float, Cell] = {}
    for part in parts:
        for stretch, cell in part.items():
            out[stretch] = out[stretch].join(cell) if stretch in out else cell
    return out


def stretches(times: Floats, length: float) -> Floats:
    """(n,) the stretches of these instants: whole numbers, as floats. 0 for all where there is no length."""
    if length == math.inf:
        return np.zeros(len(times))
    with np.errstate(over="ignore"):
        found: Floats = np.clip(np.floor(times / length), -FARTHEST, FARTHEST)
    return found


def to_arrays(heard: Heard) -> Arrays:
    """As flat arrays."""
    return columns(list(heard), list(heard.values()))


def columns(stretch: Sequence[float], cells: Sequence[Cell]) -> Arrays:
    """Cells, and the stretches that they are of, as flat arrays; none where there are none."""
    if not cells:
        return {}
    times = [[s, cell.least, cell.greatest] for s, cell in zip(stretch, cells, strict=True)]
    return {
        f"{PREFIX}times": np.array(times),
        f"{PREFIX}sizes": np.array([[cell.rows, len(cell.ids)] for cell in cells], np.int64),
        f"{PREFIX}ids": np.concatenate([cell.ids for cell in cells]).astype(np.uint64),
    }


def from_arrays(arrays: Arrays) -> dict[float, Cell]:
    """The inverse of `to_arrays`, among other arrays."""
    return dict(cells_of(arrays))


def cells_of(arrays: Arrays) -> list[tuple[float, Cell]]:
    """The inverse of `columns`, among other arrays."""
    if f"{PREFIX}times" not in arrays:
        return []
    times, sizes, ids = (arrays[f"{PREFIX}{name}"] for name in ("times", "sizes", "ids"))
    cuts = pairwise([0, *np.cumsum(sizes[:, 1]).tolist()])
    found = zip(times.tolist(), sizes[:, 0].tolist(), cuts, strict=True)
    return [(s, Cell(least, greatest, rows, ids[a:b])) for (s, least, greatest), rows, (a, b) in found]


def hash_ids(column: pa.Array) -> Words:
    """(n,) hashes of ids, the same in every process; of a null, any."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        each: Ints = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return hash_ids(column.dictionary)[each]
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        plain = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
        return _hash_integers(plain.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
    if pa.types.is_temporal(kind):
        return hash_ids(column.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    if pa.types.is_floating(kind):
        numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return _hash_integers((numbers + 0.0).view(np.int64))
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if wide or pa.types.is_string(kind) or pa.types.is_binary(kind):
        _, ends, letters = column.buffers()
        if ends is None or letters is None or not len(column):
            return np.zeros(len(column), np.uint64)
        places = np.frombuffer(ends, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
        found: Words = hash_texts(places, np.frombuffer(letters, np.uint8))
        return found
    return hash_ids(pa.array([str(each) for each in column.to_pylist()], pa.string()))


def _hash_integers(values: Any) -> Words:
    found: Words = hash_numbers(values)
    return found
