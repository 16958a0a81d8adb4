"""What does an imputer of the lab promise, beyond the protocol of all imputers?

`fit` sees R once; then `look` sees the rows of each tick, in order. It may remember rows that have passed; it never
sees later ones. Every gap gets a distribution: one that knows nothing of a row falls back on what R holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pyarrow as pa

from fogline.arrays import Clouds, Distributions, Flags, Floats, Ints
from fogline.impute.chain import Chain
from fogline.impute.imputer import Evidence, Imputer
from fogline.model import Query
from fogline.rows.source import RowSource
from lab.case import matrix


class FittableImputer(Imputer, Protocol):
    """An imputer that learns from R."""

    def fit(self, history: pa.Table, query: Query) -> None:
        """Learn from R: complete rows with the query's attributes and, where there are any, `sensor` and `at`."""


def evidence_of(rows: pa.Table, names: tuple[str, ...]) -> Evidence:
    """What imputers may look at; every null is a gap."""
    values = matrix(rows, names)
    return Evidence(values, np.isnan(values), RowSource(rows))


def single_values(missing: Flags, filled: Floats) -> dict[int, Distributions]:
    """Per attribute, what `filled` (n, d) holds where cells are `missing` (n, d). One pool for all: a few calls, not d.

    >>> found = single_values(np.array([[False, True]]), np.array([[1.0, 2.0]]))
    >>> found[0].size.tolist(), found[1].value.tolist()
    ([0], [2.0])
    """
    size = missing.T.astype(np.int64)
    start = (np.cumsum(size.ravel()) - size.ravel()).reshape(size.shape)
    value = filled.T[missing.T]
    often, source = np.ones(len(value)), np.zeros(len(missing), np.int64)
    return {j: Distributions(start[j], size[j], value, often, source) for j in range(len(size))}


def gathered(n: int, parts: Iterable[tuple[int, Ints, Distributions]]) -> dict[int, Distributions]:
    """Per attribute, distributions for n rows, from parts: an attribute, some of the rows, and one for each of them."""
    found: dict[int, list[tuple[Ints, Distributions]]] = {}
    for j, rows, part in parts:
        found.setdefault(j, []).append((rows, part))
    out = {}
    for j, several in found.items():
        start, size, used = np.zeros(n, np.int64), np.zeros(n, np.int64), 0
        for rows, part in several:
            start[rows], size[rows] = part.start + used, part.size
            used += len(part.value)
        value, often = (np.concatenate([getattr(part, name) for _, part in several]) for name in ("value", "often"))
        out[j] = Distributions(start, size, value, often, np.zeros(n, np.int64))
    return out


def fill(clouds: Clouds, chain: Chain, rows: Evidence) -> Clouds:
    """The clouds with distributions in place of their gaps: all rows, at once."""
    known = chain.evidence(rows)
    clouds = chain.at_once(rows, known, clouds)
    return chain.fill(clouds, known, np.isnan(clouds.lo))
