"""Who is on top of a table that does not move?

Every row is in the window; times and expiries do not matter. A missing value is imputed from a repository, or, without
one, from the table's own rows: by the other attributes of its row where that does better than the attribute's own
distribution.

Complete rows that none beats are found first: no probability is needed for that. A row with gaps that one of them
surely beats is out, and changes no other row's probability, so only what is left of those gets its distributions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import ONE, Batch, Clouds, Flags, Floats, Ints, objects
from fogline.impute.chain import Chain, chain_of
from fogline.impute.intake import Looked, bounded, look
from fogline.kernels.front import Front, front, surely_beaten
from fogline.model import Query
from fogline.repository.history import History, as_table, read_history
from fogline.repository.repository import Repository
from fogline.rows.reader import Decoded, Kinds, Named, Reader
from fogline.skyline.group import Group

_ROW, _TIME = "fogline row", "fogline time"
_PLACES = 1_000_000
_SEED = 3


def skyline(table: Any, query: Query, repository: Repository | None = None) -> pa.Table:
    """The answer over a static table: by…, id, probability, exact, within, attributes; rows keep the table's order.

    >>> rows = [{"s": "a", "x": 1.0, "y": 2.0}, {"s": "b", "x": 2.0, "y": 1.0}, {"s": "c", "x": 0.5, "y": 0.5}]
    >>> query = Query(attributes={"x": "max", "y": "max"}, id="s", time="t", lifetime=1)
    >>> skyline(rows, query)["id"].to_pylist()
    ['a', 'b']
    """
    plain = as_table(table)
    read = _read(plain, query, repository)
    rows = read.rows
    taken = rows.left()
    taken = np.arange(plain.num_rows) if taken is None else taken
    gaps = np.isnan(rows.clouds.lo[taken]).any(axis=1) if rows.gaps else np.zeros(len(taken), np.bool_)
    if repository is None and gaps.any():
        repository = Repository.fit(_shuffled(plain, query), query, method="others", retention=0)
    chain = chain_of(repository, query, remember=False) if gaps.any() else None  # rows have no before and after
    where = _Answer(*_groups(read, taken), rows, query).of(taken, gaps, chain)
    return _shown(plain, query, read, *where)


class _Answer:
    """Finds the rows that are in, and how probably."""

    def __init__(self, group: Ints, groups: int, rows: Decoded, query: Query) -> None:
        self.group, self.groups, self.rows, self.query = group, groups, rows, query

    def of(self, taken: Ints, gaps: Flags, chain: Chain | None) -> tuple[Ints, Floats, Floats]:
        """Rows of the table, ascending, their probabilities, and how far these may be off."""
        clouds = self.rows.clouds
        sure = ~gaps & (clouds.start[taken] == ONE).all(axis=1)
        known = taken[sure]
        top, best = front(self.group[known], np.ascontiguousarray(clouds.lo[known]), self.groups)
        top = known[top]
        if len(known) == len(taken):
            return top, np.ones(len(top)), np.zeros(len(top))
        unsure = self._left(taken[~sure], best, chain)
        if not len(unsure.id):
            return top, np.ones(len(top)), np.zeros(len(top))
        return self._judged(top, unsure, chain)

    def _left(self, which: Ints, best: Front, chain: Chain | None) -> Batch:
        """Of the rows that are not known as points, those that no point surely beats; with bounds for what they lack."""
        for rough in (True, False):
            if chain is None:
                looked = Looked(self.rows.clouds.part(which), np.empty(0, np.int64), np.empty((0, 0)))
                clouds, kept = looked.clouds, np.empty((len(which), 0))
            else:
                looked = look(chain, self.rows, which, None, self.rows.refused)
                clouds, kept = bounded(chain, looked, rough=rough), looked.of_all()
            stay = ~np.isnan(clouds.lo).any(axis=1)  # what no imputer can complete is refused
            stay[stay] = ~surely_beaten(best, self.group[which[stay]], np.ascontiguousarray(clouds.hi[stay]))
            which, clouds, kept = which[stay], clouds.part(stay), kept[stay]
        return self._batch(which, kept, clouds)

    def _batch(self, which: Ints, kept: Floats, clouds: Clouds) -> Batch:
        zeros = np.zeros(len(which))
        return Batch(objects(which.tolist()), zeros, zeros + 1.0, self.rows.raw[which], kept, clouds)

    def _judged(self, top: Ints, unsure: Batch, chain: Chain | None) -> tuple[Ints, Floats, Floats]:
        """The probabilities of what is left, group by group: one tick each."""
        asked = unsure.id.astype(np.int64)
        found, chance, within = [], [], []
        touched = np.unique(self.group[asked])
        alone = top[~np.isin(self.group[top], touched)]
        found, chance, within = [alone], [np.ones(len(alone))], [np.zeros(len(alone))]
        query, fill = self.query, (0, None, None) if chain is None else (chain.width, chain.fill_sharing, chain.shared)
        for key in touched.tolist():
            group = Group(len(query.names), query.alpha, None, _PLACES, *fill)
            points = top[self.group[top] == key]
            known = self._batch(points, np.full((len(points), fill[0]), np.nan), self.rows.clouds.part(points))
            some = unsure.part(np.flatnonzero(self.group[asked] == key))
            for delta in group.advance(-np.inf, 0.0, _joined(known, some)):
                found.append(delta.id.astype(np.int64))
                chance.append(delta.probability)
                within.append(delta.within)
        rows = np.concatenate(found)
        order = np.argsort(rows)
        return rows[order], np.concatenate(chance)[order], np.concatenate(within)[order]


def _read(plain: pa.Table, query: Query, repository: Repository | None) -> Named:
    """The rows in numbers, called by their numbers."""
    count = pa.array(np.arange(plain.num_rows))
    numbered = plain.append_column(_ROW, count).append_column(_TIME, pa.array(np.zeros(plain.num_rows, np.int64)))
    fields = query.to_dict() | {"id": _ROW, "time": _TIME, "last": max(1, plain.num_rows)}
    fields = {name: value for name, value in fields.items() if name not in ("expires", "lifetime")}
    also = None if repository is None else repository.determinants
    return Reader(Query.from_dict(fields), also=also).read(numbered, Kinds())


def _shuffled(plain: pa.Table, query: Query) -> History:
    """The table as a history without an order: what is held out of it is any of its rows."""
    history = read_history(plain, query)
    return history.part(np.random.default_rng(_SEED).permutation(history.rows))


def _groups(read: Named, taken: Ints) -> tuple[Ints, int]:
    """(n,) the number of each row's group, and how many there are."""
    if not read.by:
        return np.zeros(len(read.id), np.int64), 1
    number: dict[tuple[Any, ...], int] = {}
    return np.array([number.setdefault(key, len(number)) for key in zip(*read.by, strict=True)]), max(1, len(number))


def _joined(known: Batch, more: Batch) -> Batch:
    """Points, and then rows with distributions or bounds."""
    both = {name: np.concatenate((getattr(known, name), getattr(more, name))) for name in Batch._fields[:-1]}
    cells = ("lo", "hi", "start", "size")
    clouds = {name: np.concatenate((getattr(known.clouds, name), getattr(more.clouds, name))) for name in cells}
    return Batch(**both, clouds=more.clouds._replace(**clouds))


def _shown(plain: pa.Table, query: Query, read: Named, rows: Ints, chance: Floats, within: Floats) -> pa.Table:
    """The answer as a table, in the types of the stream."""
    which = pa.array(rows)
    ids = plain.column(query.id) if query.id in plain.schema.names else pa.chunked_array([np.arange(plain.num_rows)])
    columns = {
        name: pa.array([values[k] for k in rows.tolist()], kind or pa.null())
        for name, values, kind in zip(query.by, read.by, read.kinds.by or (None,) * len(query.by), strict=True)
    }
    columns |= {"id": ids.take(which), "probability": chance, "exact": within == 0.0, "within": within}
    raw = np.ascontiguousarray(read.rows.raw[rows].T)
    columns |= {
        name: pa.array(values, mask=np.isnan(values)) for name, values in zip(query.names, raw, strict=True)
    }
    return pa.table(columns)
