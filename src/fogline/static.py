"""Who is on top of a table that does not move?

Every row is in the window; times and expiries do not matter. A missing value is imputed from a repository, or, without
one, from the table's own rows: by the other attributes of its row where that does better than the attribute's own
distribution.

Complete rows that none beats are found first: no probability is needed for that. A row with gaps that one of them
surely beats is out, and changes no other row's probability, so only what is left of those gets its distributions.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import ONE, Clouds, Flags, Floats, Ints
from fogline.errors import QueryError
from fogline.impute.chain import Chain, chain_of
from fogline.impute.intake import bounded, look, put
from fogline.kernels.clouds import ends
from fogline.kernels.front import Front, front, surely_beaten
from fogline.kernels.fronts import CERTAIN, fronts_of
from fogline.model import Query
from fogline.question import UNHELD
from fogline.repository.history import History, as_table, read_history
from fogline.repository.repository import Repository
from fogline.rows.cells import read_cells
from fogline.rows.clock import Reasons
from fogline.rows.frames import Frame, opened
from fogline.rows.reader import Decoded, Kinds, Named, Reader
from fogline.skyline.middle import means
from fogline.skyline.once import once

ROW = "row"
_ROW, _TIME = "fogline row", "fogline time"
_SEED = 3


class Judged(NamedTuple):
    """The rows of a table that are in, by their positions in it, ascending."""

    rows: Ints  # (m,)
    probability: Floats  # (m,)
    within: Floats  # (m,) how far the truth may lie from it
    kind: Ints  # (m,) CERTAIN: in under every value that was imputed; OPEN
    middle: Floats  # (m, d) the mean of each cell, larger is better
    group: Ints  # (m,) the number of its group


def table_answer(table: Any, query: Query, repository: Repository | None = None) -> pa.Table:
    """The answer over a static table: by…, id, probability, exact, within, attributes, row; in the table's order.

    `row` is a row's label in the index of a pandas frame, and its position in any other table.
    """
    found, judged = answered(table, query, repository)
    return found.append_column(beside(ROW, found.schema.names), labels_of(table, judged.rows))


def answered(table: Any, query: Query, repository: Repository | None = None) -> tuple[pa.Table, Judged]:
    """The answer, and what is known of its rows."""
    if query.latest:
        raise QueryError(
            "skyline looks at all rows of a table, and latest asks for the newest of each id; give the table to "
            "Monitor(query).advance(now, table), or keep the newest rows yourself and leave latest out."
        )
    plain = as_table(table) if isinstance(table, pa.Table | pa.RecordBatch) else _as_it_came(opened(table), query)
    judged, read = judge(plain, query, repository)
    for i, reason in read.rows.refused.items():
        if UNHELD in reason:  # others are left out, as of a stream; of this one a float would be shown that is not it
            raise QueryError(f"row {labels_of(table, np.array([i]))[0]} cannot be compared: {reason}.")
    return _shown(plain, query, read, judged), judged


def _as_it_came(frame: Frame, query: Query) -> pa.Table:
    """A frame or dicts as an Arrow table, each value as it came; an error where one column holds several kinds."""
    columns: dict[str, Any] = {}
    for name in frame.once():
        column, bad = frame.column(name), Reasons()
        if isinstance(column, list) and name in query.names:
            column = read_cells(column, str(name), bad)
        elif isinstance(column, list) and name in query.by:
            raise QueryError(f"column {name!r} holds values of several kinds; a group has one. Make texts of them.")
        for i, reason in bad.items():
            raise QueryError(f"{frame.label(i)} cannot be compared: {reason}.")
        if not isinstance(column, list):
            columns[str(name)] = column
    return pa.table(columns)


def judge(
    plain: pa.Table, query: Query, repository: Repository | None = None, known: pa.Table | None = None
) -> tuple[Judged, Named]:
    """The rows that are in, and all as they were read. `known`: what gaps are learnt from, where it is not the table
    itself."""
    read = _read(plain, query, repository)
    rows, taken = read.rows, read.rows.left()
    taken = np.arange(plain.num_rows) if taken is None else taken
    gaps: Flags = np.asarray(np.isnan(rows.clouds.lo[taken]).any(axis=1))
    chain = None
    if gaps.any():
        if repository is None:
            history = _shuffled(plain if known is None else known, query)
            repository = Repository.fit(history, query, method="others", retention=0)
        else:
            repository.doubt(_lacking(rows.clouds.lo[taken], query))
        chain = chain_of(repository, query, remember=False)  # rows have no before and after
    return _Still(rows, *_groups(read), query.alpha).answer(taken, gaps, chain), read


def labels_of(table: Any, which: Ints) -> pa.Array:
    """What these rows are called: by the index of a frame, if Arrow can hold its labels; else by their positions."""
    index = getattr(table, "index", None)
    if not hasattr(table, "iloc") or getattr(index, "nlevels", 2) > 1:
        return pa.array(which)
    try:
        return pa.array(index).take(pa.array(which))
    except (pa.ArrowException, TypeError, ValueError):  # labels of several kinds
        return pa.array(which)


def beside(name: str, taken: Container[str]) -> str:
    """A name for a column that no other has."""
    while name in taken:
        name = f"{name}_"
    return name


def _lacking(values: Floats, query: Query) -> list[str]:
    """The attributes with gaps."""
    return [name for j, name in enumerate(query.names) if np.isnan(values[:, j]).any()]


class _Still:
    """Rows that do not move, by their groups."""

    def __init__(self, rows: Decoded, group: Ints, groups: int, alpha: float) -> None:
        self.rows, self.group, self.groups, self.alpha = rows, group, groups, alpha

    def answer(self, taken: Ints, gaps: Flags, chain: Chain | None) -> Judged:
        """What is in."""
        clouds = self.rows.clouds
        sure = ~gaps & (clouds.start[taken] == ONE).all(axis=1)
        known = taken[sure]
        top, best = front(self.group[known], np.ascontiguousarray(clouds.lo[known]), self.groups)
        top = known[top]
        which, found = self._left(taken[~sure], best, chain)
        return self._judged(top, which, found) if len(which) else self._sure(top)

    def _sure(self, top: Ints) -> Judged:
        """Points that none beats."""
        n = len(top)
        return Judged(top, np.ones(n), np.zeros(n), np.full(n, CERTAIN), self.rows.clouds.lo[top], self.group[top])

    def _left(self, which: Ints, best: Front, chain: Chain | None) -> tuple[Ints, Clouds]:
        """Of the rows that are not known as points, those that no point surely beats, with their distributions."""
        clouds = self.rows.clouds.part(which)
        if chain is not None and len(which):
            looked = look(chain, self.rows, which, None, self.rows.refused)
            stay = self._unbeaten(which, bounded(chain, looked, rough=True), best)
            which, looked = which[stay], looked.part(stay)
            few = looked.clouds.part(looked.lacking)
            clouds = put(looked.clouds, looked.lacking, chain.fill(few, looked.known, np.isnan(few.lo)))
        stay = self._unbeaten(which, clouds, best)
        return which[stay], clouds.part(stay)

    def _unbeaten(self, which: Ints, clouds: Clouds, best: Front) -> Ints:
        """The places of the rows that no point surely beats. (One that no imputer can complete is rejected.)"""
        there = np.flatnonzero(~np.isnan(clouds.lo).any(axis=1))
        return there[~surely_beaten(best, self.group[which[there]], np.ascontiguousarray(clouds.hi[there]))]

    def _judged(self, top: Ints, which: Ints, found: Clouds) -> Judged:
        """The answer of points and of what is left of the others, group by group; points alone are in."""
        touched = np.unique(self.group[which])
        parts = [self._sure(top[~np.isin(self.group[top], touched)])]
        for key in touched.tolist():
            points, others = top[self.group[top] == key], np.flatnonzero(self.group[which] == key)
            rows = np.concatenate((points, which[others]))
            clouds = _joined(self.rows.clouds.part(points), found.part(others))
            stay, chance, within = once(clouds, self.alpha)
            every = np.arange(len(rows))
            kind = np.asarray(fronts_of(*ends(clouds, every), stay, every))
            more = kind, means(clouds.part(stay)), np.full(len(stay), key)
            parts.append(Judged(rows[stay], chance, within, *more))
        whole = Judged._make(np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(whole.rows)
        return Judged._make(each[order] for each in whole)


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


def _groups(read: Named) -> tuple[Ints, int]:
    """(n,) the number of each row's group, and how many there are."""
    if not read.by:
        return np.zeros(len(read.id), np.int64), 1
    number: dict[tuple[Any, ...], int] = {}
    numbers = [number.setdefault(key, len(number)) for key in zip(*read.by, strict=True)]
    return np.array(numbers, np.int64), max(1, len(number))


def _joined(points: Clouds, others: Clouds) -> Clouds:
    """Points, which have no values in the pools, and clouds that do."""
    cells = ("lo", "hi", "start", "size")
    return others._replace(**{name: np.concatenate((getattr(points, name), getattr(others, name))) for name in cells})


def _shown(plain: pa.Table, query: Query, read: Named, judged: Judged) -> pa.Table:
    """The answer as a table, in the types of the stream."""
    rows, within = judged.rows, judged.within
    ids = plain.column(query.id) if query.id in plain.schema.names else pa.chunked_array([np.arange(plain.num_rows)])
    columns: dict[str, Any] = {
        name: pa.array([values[k] for k in rows.tolist()], kind or pa.null())
        for name, values, kind in zip(query.by, read.by, read.kinds.by or (None,) * len(query.by), strict=True)
    }
    columns |= {"id": ids.take(pa.array(rows)), "probability": judged.probability}
    columns |= {"exact": within == 0.0, "within": within}
    raw = np.ascontiguousarray(query.plausible(read.rows.raw[rows]).T)
    columns |= {name: pa.array(values, mask=np.isnan(values)) for name, values in zip(query.names, raw, strict=True)}
    return pa.table(columns)
