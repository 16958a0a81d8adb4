"""What may each missing value be, written out?

One line per possible value of each missing cell: the row's name, the value, how likely it is, and by which rule. A
table for people and other programs; the monitor itself keeps clouds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Ints, objects
from fogline.impute.chain import Answer, Chain, chain_of
from fogline.impute.imputer import Evidence
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.repository.sensors.state import SensorState, sensor_names
from fogline.rows.clock import write_times
from fogline.rows.reader import Decoded, Kinds, Named, Reader

CELLS = pa.schema(
    [("attribute", pa.string()), ("value", pa.float64()), ("probability", pa.float64()), ("rule", pa.string())]
)


class DistributionTable:
    """Writes out distributions for one query. It remembers sensors' readings from call to call."""

    def __init__(self, query: Query, repository: Repository) -> None:
        chain = chain_of(repository, query)
        assert chain is not None
        self.query, self.chain, self.reader, self.kinds = query, chain, Reader(query), Kinds()
        self.state: SensorState | None = None if chain.sensors is None else chain.sensors.state()

    def write(self, rows: Any) -> pa.Table:
        """by…, id, time, attribute, value, probability, rule; in the order of the rows."""
        named, which, answers = self.search(rows)
        return written(answers, which, self._names(named), self.chain)

    def search(self, rows: Any) -> tuple[Named, Ints, list[Answer]]:
        """The rows as they were read, which of them can be taken, and the distributions of their gaps."""
        named = self.reader.read(rows, self.kinds)
        self.kinds = named.kinds
        left = named.rows.left()
        which = np.arange(len(named.id)) if left is None else left
        clouds = named.rows.clouds.part(which)
        gaps = np.isnan(clouds.lo)
        evidence = Evidence(
            self.chain.values(clouds, named.rows.raw[which]),
            gaps,
            named.rows.source,
            which,
            self._contexts(named, which),
        )
        return named, which, list(self.chain.search(self.chain.evidence(evidence), gaps))

    def _contexts(self, named: Named, which: Ints) -> Floats | None:
        if self.state is None:
            return None
        keys = list(zip(*named.by, strict=True)) if named.by else None
        names = sensor_names([named.id[k] for k in which], None if keys is None else [keys[k] for k in which])
        values = self.chain.values(named.rows.clouds.part(which), named.rows.raw[which])
        wanted = np.asarray(np.isnan(values).any(axis=1))
        return self.chain.contexts(self.state, names, named.rows.arrived[which], values, wanted)

    def _names(self, named: Named) -> dict[str, pa.Array]:
        """The columns that name rows."""
        kinds = named.kinds
        by = zip(self.query.by, named.by, kinds.by or (None,) * len(named.by), strict=True)
        columns = {name: pa.array(values, kind or pa.null()) for name, values, kind in by}
        return {**columns, "id": pa.array(named.id, kinds.id or pa.null()), "time": times_of(named.rows, kinds)}


def times_of(rows: Decoded, kinds: Kinds) -> pa.Array:
    """The arrivals as the clock shows them; null where there is none."""
    there = np.isfinite(rows.arrived)
    shown = write_times(np.where(there, rows.arrived, 0.0), kinds.time)
    return shown if there.all() else pa.compute.if_else(pa.array(there), shown, None)


def written(answers: list[Answer], which: Ints, names: dict[str, pa.Array], chain: Chain) -> pa.Table:
    """One line per possible value; `which` are the rows of the columns `names` that the answers are about."""
    cells = [_cells(each, chain.query) for each in answers]
    row = np.concatenate([np.empty(0, np.int64), *(row for row, _ in cells)])
    order = np.argsort(row, kind="stable")
    joined = {
        each.name: pa.concat_arrays([pa.array([], each.type), *(columns[each.name] for _, columns in cells)])
        for each in CELLS
    }
    at = pa.array(which[row[order]])
    head = {name: column.take(at) for name, column in names.items()}
    return pa.table(head | {name: column.take(pa.array(order)) for name, column in joined.items()})


def _cells(answer: Answer, query: Query) -> tuple[Ints, dict[str, pa.Array]]:
    found, size = answer.found, answer.found.size
    ends = np.cumsum(size)
    at = np.repeat(found.start - (ends - size), size) + np.arange(int(ends[-1]))
    often = found.often[at]
    total = np.add.reduceat(often, ends - size)
    rules = objects(list(answer.imputer.sources(answer.attribute)))[np.repeat(found.source, size)]
    columns = {
        "attribute": pa.repeat(query.names[answer.attribute], len(at)),
        "value": pa.array(found.value[at]),
        "probability": pa.array(often / np.repeat(total, size)),
        "rule": pa.array(rules, pa.string()),
    }
    return np.repeat(answer.rows, size), columns


def distributions(rows: Any, query: Query, repository: Repository) -> pa.Table:
    """One line per possible value of each missing cell: by…, id, time, attribute, value, probability, rule.

    Rows that cannot be read have none.
    """
    return DistributionTable(query, repository).write(rows)
