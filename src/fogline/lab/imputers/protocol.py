"""What does an imputer promise?

`fit` sees R once. `impute` sees the rows of each tick, in order, and gives every missing cell a finite list of values
with weights; a single value is a list of one. It may remember rows that have passed; it never sees later ones.

Cells are one flat value, whoever made them, so that any imputer feeds any maintainer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fogline.arrays import Clouds, Distributions, Floats, Ints, empty_clouds
from fogline.lab.kernels import write_cells
from fogline.model import Query


class Cells(NamedTuple):
    """A distribution for each missing cell: value[offset[k] : offset[k + 1]] with weights, as the user sees them."""

    row: Ints  # (k,)
    attribute: Ints  # (k,)
    offset: Ints  # (k + 1,)
    value: Floats
    weight: Floats  # positive; need not add up to 1


class Imputer(Protocol):
    """See the module."""

    def fit(self, history: pa.Table, query: Query) -> None:
        """Learn from R: complete rows with the query's attributes and, where there are any, `sensor` and `at`."""

    def impute(self, rows: pa.Table) -> Cells:
        """A distribution for every gap of these rows."""


def points(gaps: NDArray[np.bool_], filled: Floats) -> Cells:
    """Single values: what `filled` (n, d) holds where `gaps` (n, d) are."""
    row, attribute = np.nonzero(gaps)
    value = np.ascontiguousarray(filled[row, attribute])
    return Cells(row, attribute, np.arange(len(row) + 1), value, np.ones(len(row)))


def cells_of(parts: Iterable[tuple[int, Ints, Distributions]]) -> Cells:
    """What a repository found: attribute, rows, and a distribution for each of them."""
    none = np.empty(0, np.int64)
    row, attribute, size, value, weight = [none], [none], [none], [np.empty(0)], [np.empty(0)]
    for j, which, found in parts:
        ends = np.cumsum(found.size)
        at = np.repeat(found.start - (ends - found.size), found.size) + np.arange(ends[-1])
        row.append(which)
        attribute.append(np.full(len(which), j))
        size.append(found.size)
        value.append(found.value[at])
        weight.append(found.often[at])
    offset = np.concatenate(([0], np.cumsum(np.concatenate(size))))
    return Cells(np.concatenate(row), np.concatenate(attribute), offset, np.concatenate(value), np.concatenate(weight))


def fill(clouds: Clouds, cells: Cells, signs: Floats) -> Clouds:
    """The clouds with these distributions where cells were missing, oriented by `signs` (d,)."""
    used = len(clouds.value)
    n, d = clouds.lo.shape
    out = empty_clouds(n, d, used + len(cells.value))
    for name in ("lo", "hi", "start", "size"):
        getattr(out, name)[:] = getattr(clouds, name)
    for name in ("value", "weight", "tail"):
        getattr(out, name)[:used] = getattr(clouds, name)
    write_cells(*cells, signs, out, used)
    return out
