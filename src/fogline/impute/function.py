"""What may a missing value be, according to somebody else?

A teller is any function from a record batch to distributions: it gets the rows that lack something, cells outside their
limits being null like the others, and returns, for the attributes it knows something about, one answer per row: a
number, a list of (value, weight) pairs, or null for "I do not know". What it tells counts as if the row had brought it;
what it does not tell is left to the repository, if there is one.

A teller sees one batch at a time, and batches are cut anyhow: what it says of a row should depend on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import FoglineError, RowsError, did_you_mean
from fogline.impute.chain import CONTEXT, TOLD
from fogline.model import Query
from fogline.rows.columns import PAIRS, REAL, Reasons, read_cells
from fogline.rows.source import RowSource

ImputeFunction = Callable[[pa.RecordBatch], Mapping[str, Any]]


def check_teller(teller: Any) -> None:
    """Is it one?"""
    if teller is not None and not callable(teller):
        raise FoglineError(
            f"imputer is {type(teller).__name__}; it is a function from a record batch to distributions per attribute."
        )


def told(rows: Any, query: Query, teller: ImputeFunction) -> tuple[pa.RecordBatch, Reasons]:
    """The rows with what the teller knows in their gaps, and those that cannot be read, with the reasons.

    Every attribute is a list of (value, weight) pairs now, and a column of bits says which cells were told.
    """
    refused: Reasons = {}
    batch = _as_batch(RowSource(rows), query, refused)
    asked = batch
    for name in query.names:
        at = batch.schema.get_field_index(name)
        asked = asked.set_column(at, name, _plausible(batch.column(at), query, name))
    missing = np.stack([_lacks(asked.column(name)) for name in query.names], axis=1)
    missing[list(refused)] = False
    which = np.flatnonzero(missing.any(axis=1))
    answer: Mapping[str, Any] = {}
    if len(which):
        ours = [name for name in (CONTEXT, TOLD) if name in asked.schema.names]
        answer = teller(asked.drop_columns(ours).take(pa.array(which)))
        _check(answer, query, len(which))
    bits = np.zeros(batch.num_rows, np.int64)
    for j, name in enumerate(query.names):
        at = batch.schema.get_field_index(name)
        filled, mine = _merged(batch.column(at), missing[:, j], which, answer.get(name), name)
        batch = batch.set_column(at, pa.field(name, PAIRS), filled)
        bits |= mine.astype(np.int64) << j
    return batch.append_column(TOLD, pa.array(bits)), refused


def _as_batch(source: RowSource, query: Query, refused: Reasons) -> pa.RecordBatch:
    """All columns as Arrow; attributes as numbers or pairs."""
    names = source.known if source.batch is None else source.batch.schema.names
    columns = []
    for name in names:
        if name in query.attributes:
            columns.append(read_cells(source.require(name, "attribute"), name, refused))
        else:
            columns.append(source.optional(name))
    for name in query.names:
        source.require(name, "attribute")  # or an error that says which there are
    return pa.RecordBatch.from_arrays(columns, list(names))


def _plausible(column: pa.Array, query: Query, name: str) -> pa.Array:
    """Null where it is not a number, or outside its limits and that means missing."""
    if column.type != REAL:
        return column
    bad = pc.is_nan(column)
    if name in query.limits and query.outside == "missing":
        low, high = query.limits[name]
        bad = pc.or_(bad, pc.or_(pc.less(column, low), pc.greater(column, high)))
    return pc.if_else(pc.fill_null(bad, True), None, column)


def _lacks(column: pa.Array) -> Any:
    null = column.is_null().to_numpy(zero_copy_only=False)
    if column.type == REAL:
        return null
    return null | (pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False) == 0)


def _check(answer: Any, query: Query, rows: int) -> None:
    if not isinstance(answer, Mapping):
        raise RowsError(f"the imputer returned {type(answer).__name__}, not a mapping from attributes to answers.")
    for name, cells in answer.items():
        if name not in query.attributes:
            raise RowsError(
                f"the imputer tells {name!r}, which is no attribute of the query.{did_you_mean(name, query.names)}"
            )
        if len(cells) != rows:
            raise RowsError(f"the imputer tells {len(cells)} cells of {name!r} for {rows} rows.")


def _merged(column: pa.Array, missing: Any, which: Any, cells: Any, name: str) -> tuple[pa.Array, Any]:
    """The column as pairs, with the teller's cells for the rows `which` where they are missing; and which those are."""
    pairs = as_pairs(column)
    if cells is None:
        return pairs, np.zeros(len(column), np.bool_)
    refused: Reasons = {}
    found = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    given = as_pairs(read_cells(found if isinstance(found, pa.Array) else list(found), name, refused))
    if refused:
        raise RowsError(f"the imputer cannot be understood: {next(iter(refused.values()))}.")
    place, known = np.full(len(column), -1), np.zeros(len(column), np.bool_)
    place[which] = np.arange(len(which))
    known[which] = ~_lacks(given)
    mine = missing & known
    take = np.where(mine, place + len(column), np.arange(len(column)))
    return pa.concat_arrays([pairs, given]).take(pa.array(take)), mine


def as_pairs(column: pa.Array) -> pa.Array:
    """Numbers as lists of one pair; lists as they are."""
    if column.type == PAIRS:
        return column
    there = pc.fill_null(pc.invert(pc.is_nan(column)), False)
    known = pc.filter(column, there)
    flat = pa.StructArray.from_arrays([known, pa.repeat(1.0, len(known))], fields=list(PAIRS.value_type))
    ends = np.concatenate(([0], np.cumsum(there.to_numpy(zero_copy_only=False)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), flat, type=PAIRS, mask=pc.invert(there))
