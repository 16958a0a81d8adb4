"""What does an imputer of the lab promise, and what do all of them use?

`fit` sees R once; then `look` sees the rows of each tick, in order. An imputer may remember rows that have passed; it
never sees later ones. Every gap gets a distribution: an imputer that knows nothing of a row falls back on what R holds.

Sensors get numbers as they appear. Rows without a sensor column come from one sensor. Rows without a time are a tick
apart from row to row.

Repositories that were fitted last are kept (`fit_once`). What is learnt depends on the history alone, not on which
cells of the stream are missing. So trials that differ only in that share a repository.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Distributions, Flags, Floats, Ints, UncertainRows
from fogline.impute.chain import Chain
from fogline.impute.protocol import Evidence, Imputer
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.repository.sensors.state import Name, sensor_names
from fogline.rows.table import RowSource
from lab.case import AT, SENSOR, matrix


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


def fill(uncertain: UncertainRows, chain: Chain, rows: Evidence) -> UncertainRows:
    """The clouds with distributions in place of their gaps: all rows, at once."""
    known = chain.evidence(rows)
    uncertain = chain.at_once(rows, known, uncertain)
    return chain.fill(uncertain, known, np.isnan(uncertain.lo))


# -------------------------------------------------------------------------------------------------------------- sensors


class SensorNumbers:
    """Numbers for names, and a clock."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.count = 0

    def codes(self, rows: Evidence) -> Ints:
        """(n,) the sensors' numbers; new names get new ones."""
        names = rows.column(SENSOR)
        if names is None:
            self.number.setdefault("", 0)
            return np.zeros(len(rows.values), np.int64)
        number = self.number
        return np.array([number.setdefault(name, len(number)) for name in names.to_pylist()], np.int64)

    def times(self, rows: Evidence) -> Floats:
        """(n,) when the readings were taken."""
        if (at := rows.column(AT)) is not None:
            return np.asarray(at.to_numpy(zero_copy_only=False), np.float64)
        first, self.count = self.count, self.count + len(rows.values)
        return np.arange(first, self.count, dtype=np.float64)

    def grown(self, memory: Floats) -> Floats:
        """The same memory (sensors, d), with a line of NaN for each new sensor."""
        more = len(self.number) - len(memory)
        return memory if not more else np.concatenate((memory, np.full((more, memory.shape[1]), np.nan)))


def names_of(rows: Evidence) -> list[Name]:
    """What the state of sensors calls them."""
    names = rows.column(SENSOR)
    return sensor_names([""] * len(rows.values) if names is None else names.to_pylist())


def times_of(rows: Evidence) -> Floats:
    """(n,) when readings were taken, of rows that have a time."""
    at = rows.column(AT)
    assert at is not None, "sensors are remembered only where R has times, and then the stream has"
    return np.asarray(at.to_numpy(zero_copy_only=False), np.float64)


def before(history: pa.Table, rows: Evidence, names: tuple[str, ...]) -> Evidence:
    """The rows of R that are older than the first of these, in order; none if R has no times."""
    if AT not in history.schema.names:
        return evidence_of(history.slice(0, 0), names)
    older = history.filter(pc.less(history.column(AT), pc.min(rows.column(AT))))
    return evidence_of(older.sort_by(AT), names)


# --------------------------------------------------------------------------------------------------------- repositories


KEPT = 2
_kept: dict[tuple[object, ...], Repository] = {}  # the newest last


def fit_once(history: pa.Table, query: Query) -> Repository:
    """As Repository.fit, but what was fitted to the same rows a moment ago is not fitted again."""
    key = (_digest(history), query.names, query.by, query.id, query.time)
    found = _kept.pop(key, None)
    if found is None:
        while len(_kept) >= KEPT:
            del _kept[next(iter(_kept))]  # before another is fitted: never more than KEPT at a time
        found = Repository.fit(history, query)
    _kept[key] = found
    return found


def _digest(rows: pa.Table) -> bytes:
    """The same for the same names, kinds and values, however they are cut into chunks."""
    whole = pa.BufferOutputStream()
    with pa.ipc.new_stream(whole, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return blake2b(whole.getvalue(), digest_size=16).digest()
