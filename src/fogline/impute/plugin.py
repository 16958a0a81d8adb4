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
from fogline.impute.columns import PAIRS, REAL, Reasons, read_cells
from fogline.impute.rows import Source
from fogline.model import Query

Teller = Callable[[pa.RecordBatch], Mapping[str, Any]]


def check_teller(teller: Any) -> None:
    """Is it one?"""
    if teller is not None and not callable(teller):
        raise FoglineError(
            f"imputer is {type(teller).__name__}; it is a function from a record batch to distributions per attribute."
        )


def told(rows: Any, query: Query, teller: Teller) -> pa.RecordBatch:
    """The rows with what the teller knows in their gaps; every attribute is a list of (value, weight) pairs now."""
    batch = _as_batch(Source(rows), query)
    missing = np.stack([_lacks(batch.column(name)) for name in query.names], axis=1)
    which = np.flatnonzero(missing.any(axis=1))
    answer: Mapping[str, Any] = {}
    if len(which):
        answer = teller(batch.take(pa.array(which)))
        _check(answer, query, len(which))
    for j, name in enumerate(query.names):
        at = batch.schema.get_field_index(name)
        filled = _merged(batch.column(at), missing[:, j], which, answer.get(name), name)
        batch = batch.set_column(at, pa.field(name, PAIRS), filled)
    return batch


def _as_batch(source: Source, query: Query) -> pa.RecordBatch:
    """All columns as Arrow; attributes as numbers or pairs, null where there is nothing plausible."""
    names = source.known if source.batch is None else source.batch.schema.names
    columns = []
    for name in names:
        if name in query.attributes:
            column = read_cells(source.require(name, "attribute"), name, Reasons())
            columns.append(_plausible(column, query, name) if column.type == REAL else column)
        else:
            columns.append(source.optional(name))
    for name in query.names:
        source.require(name, "attribute")  # or an error that says which there are
    return pa.RecordBatch.from_arrays(columns, list(names))


def _plausible(column: pa.Array, query: Query, name: str) -> pa.Array:
    """Null where it is not a number, or outside its limits and that means missing."""
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


def _merged(column: pa.Array, missing: Any, which: Any, cells: Any, name: str) -> pa.Array:
    """The column as pairs, with the teller's cells for the rows `which` where they are missing."""
    pairs = as_pairs(column)
    if cells is None:
        return pairs
    refused: Reasons = {}
    found = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    given = as_pairs(read_cells(found if isinstance(found, pa.Array) else list(found), name, refused))
    if refused:
        raise RowsError(f"the imputer cannot be understood: {next(iter(refused.values()))}.")
    place = np.full(len(column), -1)
    place[which] = np.arange(len(which))
    take = np.where(missing & (place >= 0), place + len(column), np.arange(len(column)))
    return pa.concat_arrays([pairs, given]).take(pa.array(take))


def as_pairs(column: pa.Array) -> pa.Array:
    """Numbers as lists of one pair; lists as they are."""
    if column.type == PAIRS:
        return column
    there = pc.fill_null(pc.invert(pc.is_nan(column)), False)
    known = pc.filter(column, there)
    flat = pa.StructArray.from_arrays([known, pa.repeat(1.0, len(known))], fields=list(PAIRS.value_type))
    ends = np.concatenate(([0], np.cumsum(there.to_numpy(zero_copy_only=False)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), flat, type=PAIRS, mask=pc.invert(there))
