"""What may each missing value be, written out for people and other programs?

`distributions` gives a table with one line per possible value of each missing cell. `completed` fills each gap with one
number. `imputed_cells` states what was imputed for live rows, at first and now.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import ASKED_NO_MORE, Distributions, Flags, Floats, Ints, objects
from fogline.errors import RowsError
from fogline.impute.chain import Chain, FilledCells, chain_of
from fogline.impute.protocol import Evidence, with_defaults
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.repository.sensors.state import SensorRows, SensorState, sensor_names
from fogline.results import ImputedCell, UncertainRow
from fogline.rows.clock import write_times
from fogline.rows.names import Kinds
from fogline.rows.reader import Decoded, Reader
from fogline.rows.table import opened

CELLS = pa.schema(
    [("attribute", pa.string()), ("value", pa.float64()), ("probability", pa.float64()), ("rule", pa.string())]
)
FILLED = "filled"  # the column that names what was filled
CLOSE = 1e-9  # weights that differ by less are the same

Pairs = tuple[tuple[float, float], ...]  # values with their probabilities


def distributions(rows: Any, query: Query, repository: Repository) -> Any:
    """One line per value that a missing cell may have: by…, id, the row's time, attribute, value, probability, rule.

    A pandas frame of these for rows that are one, a Polars frame for those that are one, else an Arrow table. Rows that
    cannot be read have no lines.
    """
    frame = opened(rows)
    return frame.like(DistributionTable(query, repository).write(frame))


class DistributionTable:
    """Writes out distributions for one query. It remembers sensors' readings from call to call."""

    def __init__(self, query: Query, repository: Repository) -> None:
        chain = chain_of(repository, query)
        assert chain is not None
        self.query, self.chain, self.reader, self.kinds = query, chain, Reader(query), Kinds()
        self.state: SensorState | None = None if chain.sensors is None else chain.sensors.state()

    def write(self, rows: Any) -> pa.Table:
        """by…, the id, the row's own time, attribute, value, probability, rule; in the order of the rows."""
        named, which, answers = self.search(rows)
        return written(answers, which, self._names(named), self.chain)

    def search(self, rows: Any) -> tuple[Decoded, Ints, list[FilledCells]]:
        """The rows as they were read, the numbers of those that can be taken, and the distributions of their gaps."""
        named = self.reader.read(rows, self.kinds)
        self.kinds = named.kinds
        left = named.left()
        which = np.arange(len(named.id)) if left is None else left
        uncertain = named.uncertain.part(which)
        gaps, values = np.isnan(uncertain.lo), self.chain.values(uncertain, named.raw[which])
        evidence = Evidence(values, gaps, named.source, which, self._contexts(named, which, values))
        return named, which, list(self.chain.search(self.chain.evidence(evidence), gaps))

    def _contexts(self, named: Decoded, which: Ints, values: Floats) -> Floats | None:
        """(which, w) what the rows' sensors have read before."""
        if self.state is None:
            return None
        keys = list(zip(*named.by, strict=True)) if named.by else None
        names = sensor_names([named.id[k] for k in which], None if keys is None else [keys[k] for k in which])
        wanted = np.asarray(np.isnan(values).any(axis=1))
        return self.chain.take(self.state, SensorRows(names, named.arrived[which], values, wanted)).context

    def _names(self, named: Decoded) -> dict[str, pa.Array]:
        """The columns that name rows."""
        kinds = named.kinds
        by = zip(self.query.by, named.by, kinds.by or (None,) * len(named.by), strict=True)
        columns = {name: pa.array(values, kind or pa.null()) for name, values, kind in by}
        ids = pa.array(named.id, kinds.id or pa.null())
        return {**columns, self.query.id: ids, self.query.arrived: times_of(named, kinds)}


def times_of(rows: Decoded, kinds: Kinds) -> pa.Array:
    """The rows' times as the clock shows them; null where there is none."""
    there = np.isfinite(rows.arrived)
    shown = write_times(np.where(there, rows.arrived, 0.0), kinds.time)
    return shown if there.all() else pc.if_else(pa.array(there), shown, None)


def written(answers: list[FilledCells], which: Ints, names: dict[str, pa.Array], chain: Chain) -> pa.Table:
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


def _cells(answer: FilledCells, query: Query) -> tuple[Ints, dict[str, pa.Array]]:
    """The lines of one answer: which row each is about, and its columns."""
    found, size = answer.found, answer.found.size
    at, ends = _positions(found)
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


class Completed(NamedTuple):
    """Rows with their gaps filled."""

    rows: pa.Table
    left: int  # how many of them cannot be taken, or still have a gap


def completed(rows: pa.Table, query: Query, repository: Repository) -> Completed:
    """The rows with each gap filled by the median of its distribution: as likely too low as too high.

    They keep their order and their columns, and all other cells are as they were. A column `filled` names the cells
    that were filled, each with the rule or imputer that gave its distribution. A value outside the query's limits is a
    gap. A row that cannot be taken, such as one without a time, stays as it is.
    """
    for name in query.names:
        if name in rows.schema.names and pa.types.is_nested(rows.schema.field(name).type):
            raise RowsError(
                f"{name!r} holds distributions, and only columns of numbers can be completed; give one number or "
                "nothing in each cell."
            )
    maker = DistributionTable(query, repository)
    named, which, answers = maker.search(rows)
    values, notes = np.full(named.raw.shape, np.nan), [""] * rows.num_rows
    for each in answers:
        name, row = query.names[each.attribute], which[each.rows]
        values[row, each.attribute] = medians(each)
        sources = list(each.imputer.sources(each.attribute))
        for at, source in zip(row.tolist(), each.found.source.tolist(), strict=True):
            notes[at] += f"{'; ' if notes[at] else ''}{name} by {sources[source]}"
    for j, name in enumerate(query.names):
        column = pa.array(values[:, j], mask=np.isnan(values[:, j]))
        there = rows.schema.get_field_index(name)
        if there < 0:
            rows = rows.append_column(name, column)
        elif column.null_count < rows.num_rows:
            rows = rows.set_column(there, name, _with(rows.column(name), column))
    filled = pa.array([each or None for each in notes], pa.string())
    found = rows.append_column(f"{FILLED}_" if FILLED in rows.schema.names else FILLED, filled)
    open_gaps = (np.isnan(named.uncertain.lo) & np.isnan(values)).any(axis=1)
    open_gaps[list(named.refused)] = True
    return Completed(found, int(open_gaps.sum()))


def _with(column: pa.ChunkedArray, filled: pa.Array) -> pa.ChunkedArray:
    """A column with other cells where these are not null; in its own type, in float64, or as text: where all fit."""
    for kind in (column.type, pa.float64(), pa.string()):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            found = pc.if_else(filled.is_valid(), filled.cast(kind), column.cast(kind))
            break
    return found


def medians(answer: FilledCells) -> Floats:
    """(q,) the median of each distribution: the least value up to which at least half of it lies."""
    found, size = answer.found, answer.found.size
    at, ends = _positions(found)
    total = np.cumsum(found.often[at])
    before = np.concatenate(([0.0], total))[ends - size]
    half = before + (total[ends - 1] - before) / 2
    middle = np.clip(np.searchsorted(total, half * (1 - 1e-12)), ends - size, ends - 1)
    return np.asarray(found.value[at[middle]])


def _positions(found: Distributions) -> tuple[Ints, Ints]:
    """Where in the pool the values of all distributions lie, one after the other, and (q,) where each ends there."""
    ends = np.cumsum(found.size)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(found.start - (ends - found.size), found.size) + np.arange(total), ends


def imputed_cells(
    chain: Chain, known: Floats, values: Floats, uncertain: Sequence[UncertainRow]
) -> list[tuple[ImputedCell, ...]]:
    """What was imputed for each row's missing values, at first and now, and by which rule.

    known (n, width): what is kept of the rows, which is asked as `fill` asks it; nothing else is remembered. values
    (n, d): as they were taken; uncertain: the n rows as they are now. Values that a row came with as distributions, or
    that an imputer gave at once, are left out: the chain would answer otherwise.
    """
    gaps = np.isnan(values) & ~(known == ASKED_NO_MORE).any(axis=1)[:, None]
    now = _answers(chain, known, gaps)
    before = _as_it_came(chain, known)
    first = now if before is known else _answers(chain, before, gaps)
    out: list[list[ImputedCell]] = [[] for _ in uncertain]
    for (i, j), found in now.items():
        name = chain.query.names[j]
        there = uncertain[i].values[name]
        pairs = found.pairs if found.open else _clipped(found.pairs, there[0][0], there[-1][0])
        if (i, j) in first and _same(pairs, there):
            was = first[i, j]
            out[i].append(ImputedCell(name, was.pairs, was.by, there, found.by, found.open, found.imputer, found.rows))
    return [tuple(each) for each in out]


def _as_it_came(chain: Chain, known: Floats) -> Floats:
    """What was kept of the rows before any later reading was noted."""
    if not chain.hindsight:
        return known
    out = known.copy()
    for number, each in chain.revising.items():
        at = chain.at[number]
        out[:, at] = each.first(known[:, at])
    return out


class _Answer(NamedTuple):
    """What the chain gives for one missing value."""

    pairs: Pairs
    by: str  # the rule or the imputer
    open: bool  # whether it may still change
    imputer: str
    rows: int | None  # how many rows of history it rests on; None: that is not counted


def _answers(chain: Chain, known: Floats, gaps: Flags) -> dict[tuple[int, int], _Answer]:
    """What the chain gives for all rows, by row and attribute."""
    out = {}
    for j, rows, imputer, found in chain.search(known, gaps):
        sources, opened = imputer.sources(j), chain.open(known[rows], j, imputer).tolist()
        counted = with_defaults(imputer).counts_rows
        for k, i in enumerate(rows.tolist()):
            part = slice(found.start[k], found.start[k] + found.size[k])
            often = found.often[part]
            total = float(often.sum())
            pairs = tuple(zip(found.value[part].tolist(), (often / total).tolist(), strict=True))
            count = round(total) if counted else None
            out[i, j] = _Answer(pairs, sources[int(found.source[k])], opened[k], imputer.name, count)
    return out


def _clipped(pairs: Pairs, low: float, high: float) -> Pairs:
    """The pairs with values outside moved to the nearest end."""
    out: dict[float, float] = {}
    for value, weight in pairs:
        inside = min(max(value, low), high)
        out[inside] = out.get(inside, 0.0) + weight
    return tuple(out.items())


def _same(a: Pairs, b: Pairs) -> bool:
    return len(a) == len(b) and all(x == y and abs(v - w) <= CLOSE for (x, v), (y, w) in zip(a, b, strict=True))
