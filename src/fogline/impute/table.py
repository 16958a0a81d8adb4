"""What may each missing value be, written out?

One line per possible value of each missing cell: the row's name, the value, how likely it is, and the rules that say
so. A table for people and other programs; the monitor itself keeps clouds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Ints
from fogline.impute.chain import Chain
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.rows.columns import write_times
from fogline.rows.reader import Kinds, Reader, Rows

WHOLE = "whole history"  # the rule of level 0
OWN = "sensor's own past"


def names_of_rules(repository: Repository) -> dict[str, list[str]]:
    """Per attribute, what to call each combination of rules; counted from the end: level 0, transition, recent past."""
    recent = [] if repository.sensors is None else [str(rule) for rule in reversed(repository.sensors.recent)]
    out = {}
    for name, each in repository.lattices.items():
        combined = [" and ".join(str(each.rules[k]) for k in choice.rules) for choice in each.choices]
        out[name] = [*combined, *recent, OWN, WHOLE]
    return out


class Spreader:
    """Writes out distributions for one query."""

    def __init__(self, query: Query, repository: Repository, *, remember: bool = True) -> None:
        self.query, self.imputer = query, Chain(repository, query)
        self.reader = Reader(query, self.imputer)
        self.kinds = Kinds()
        sensors = repository.sensors if remember else None
        if sensors is not None:
            sensors.check_keys(query)
        self.memory = None if sensors is None else sensors.state()
        self.rules = names_of_rules(repository)

    def spread(self, rows: Any) -> pa.Table:
        """by…, id, time, attribute, value, probability, rule; in the order of the rows."""
        taken = self.reader.read(rows, self.kinds)
        self.kinds = taken.kinds
        if self.memory is not None:
            keys = list(zip(*taken.by, strict=True)) if taken.by else None
            self.imputer.recall(self.memory, taken.batch, keys)
        gaps = np.isnan(taken.batch.clouds.lo)
        known = taken.batch.known
        cells = [self._cells(j, rows, found) for j, rows, found in self.imputer.search(known, gaps)]
        if not cells:
            return self._table(taken, np.empty(0, np.int64), {})
        row = np.concatenate([row for row, _ in cells])
        order = np.argsort(row, kind="stable")
        joined = {name: pa.concat_arrays([columns[name] for _, columns in cells]) for name in _LAST.names}
        return self._table(taken, row[order], {name: column.take(pa.array(order)) for name, column in joined.items()})

    def _cells(self, j: int, rows: Ints, found: Distributions) -> tuple[Ints, dict[str, pa.Array]]:
        name = self.query.names[j]
        size = found.size
        ends = np.cumsum(size)
        at = np.repeat(found.start - (ends - size), size) + np.arange(int(ends[-1]))
        often = found.often[at]
        total = np.add.reduceat(np.append(often, 0.0), ends - size) if len(often) else np.ones(len(size))
        columns = {
            "attribute": pa.repeat(name, len(at)),
            "value": pa.array(found.value[at]),
            "probability": pa.array(often / np.repeat(total, size)),
            "rule": self._rules(name, found),
        }
        return np.repeat(rows, size), columns

    def _rules(self, name: str, found: Distributions) -> pa.Array:
        which = pa.array(np.repeat(found.source % len(self.rules[name]), found.size))  # level 0, -1, is the last
        return pa.array(self.rules[name], pa.string()).take(which)

    def _table(self, taken: Rows, row: Ints, columns: dict[str, pa.Array]) -> pa.Table:
        batch, kinds = taken.batch, taken.kinds
        head = {
            name: pa.array([values[k] for k in row.tolist()], kind or pa.null())
            for name, values, kind in zip(self.query.by, taken.by, kinds.by or (None,) * len(taken.by), strict=True)
        }
        head["id"] = pa.array(batch.id[row].tolist(), kinds.id or pa.null())
        head["time"] = write_times(batch.arrived[row], kinds.time)
        return pa.table(head | (columns or {name: pa.array([], _LAST.field(name).type) for name in _LAST.names}))


_LAST = pa.schema(
    [("attribute", pa.string()), ("value", pa.float64()), ("probability", pa.float64()), ("rule", pa.string())]
)


def distributions(rows: Any, query: Query, repository: Repository) -> pa.Table:
    """One line per possible value of each missing cell: by…, id, time, attribute, value, probability, rule.

    Rows that cannot be read have none.
    """
    return Spreader(query, repository).spread(rows)
