"""How do decoded rows travel from stage to stage?

A `RowBlock` is rows in numbers, with the columns that name them. It is packed as flat arrays and opened as it was: no
stage decodes a row again. Beside the numbers go only columns that numbers cannot stand for (ids, groups, times as they
came, determinants, attributes that did not come as plain numbers), so that a reject can still show the row as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import (
    BOUNDS_ONLY,
    ONE,
    SETTLED,
    Batch,
    Flags,
    Floats,
    Ints,
    Objects,
    Removals,
    UncertainRows,
    empty_rows,
    objects,
)
from fogline.kernels.uncertain import dense
from fogline.query import Query
from fogline.rows.cells import REAL
from fogline.rows.names import without_sign_of_zero
from fogline.rows.reader import Decoded
from fogline.rows.table import joined, row_of
from fogline.saved import Arrays, table_as_bytes, table_from_bytes

_POOLS = ("value", "weight", "tail")


class RowBlock(NamedTuple):
    """n decoded rows."""

    columns: pa.RecordBatch  # what numbers cannot stand for
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    raw: Floats  # (n, d)
    known: Floats  # (n, width) what imputers keep; NaN for rows without gaps
    uncertain: UncertainRows
    covering: Flags  # (n,) whether others were dropped because of it
    gone: Flags | None = None  # (n,) which rows remove their id, where each id has one current row; None: it has many
    version: Ints | None = None  # (n,) orders what befalls one id at one time

    def part(self, which: Ints | slice) -> RowBlock:
        """Some of the rows; pools are shared."""
        if isinstance(which, slice):
            columns = self.columns.slice(which.start, which.stop - which.start)
        else:
            columns = self.columns.take(pa.array(which))
        gone = None if self.gone is None else self.gone[which]
        version = None if self.version is None else self.version[which]
        return RowBlock(
            columns, self.arrived[which], self.expires[which], self.raw[which], self.known[which],
            self.uncertain.part(which), self.covering[which], gone, version,
        )  # fmt: skip

    def between(self, a: int, b: int) -> RowBlock:
        """The rows from a to b, with their part of the pools, where these lie in the order of the rows."""
        rows = self.part(slice(a, b))
        if not len(rows.uncertain.value):
            return rows
        uncertain, own = rows.uncertain, rows.uncertain.start >= 0
        first = int(uncertain.start[own].min(initial=len(uncertain.value)))
        pool = slice(first, first + int(uncertain.size[own].sum()))
        pools = {name: getattr(uncertain, name)[pool] for name in _POOLS}
        return rows._replace(
            uncertain=uncertain._replace(start=np.where(own, uncertain.start - first, uncertain.start), **pools)
        )

    def names(self, query: Query) -> Objects:
        """The ids of the rows."""
        return objects(self.columns.column(query.id).to_pylist())

    def batch(self, query: Query) -> Batch:
        """As the live set takes them."""
        names = self.names(query)
        return Batch(names, self.arrived, self.expires, self.raw, self.known, self.uncertain, self.version)

    def removals(self, query: Query) -> Removals:
        """Of rows that all remove their ids, what there is to know."""
        assert self.version is not None
        return Removals(self.names(query), self.arrived, self.version)

    def row(self, i: int, query: Query) -> dict[str, Any]:
        """A row as it came."""
        row = row_of(self.columns, i)
        plain = {name: self.raw[i, j] for j, name in enumerate(query.names) if name not in row}
        return row | {name: None if np.isnan(value) else float(value) for name, value in plain.items()}


def block_of(rows: Decoded, names: Sequence[str], query: Query, width: int) -> RowBlock:
    """Decoded rows as a block; `names`: the columns that are needed."""
    batch = rows.source.batch
    assert batch is not None, "a stage takes Arrow batches"
    kept = [name for name in names if name not in query.attributes or batch.schema.field(name).type != REAL]
    came = {name: batch.column(name) for name in kept}
    came[query.id] = without_sign_of_zero(came[query.id])
    columns = pa.RecordBatch.from_arrays(list(came.values()), kept)
    known = np.full((len(rows.arrived), width), np.nan)
    none = np.zeros(len(rows.arrived), np.bool_)
    block = RowBlock(columns, rows.arrived, rows.expires, rows.raw, known, rows.uncertain, none)
    if not query.latest:
        return block
    version = np.zeros(len(none), np.int64) if rows.version is None else rows.version
    return block._replace(gone=none if rows.gone is None else rows.gone, version=version)


def empty_block(d: int, width: int) -> RowBlock:
    """No rows."""
    none = np.empty(0)
    columns = pa.RecordBatch.from_arrays([], names=[])
    uncertain = empty_rows(0, d, 0)
    return RowBlock(columns, none, none, np.empty((0, d)), np.empty((0, width)), uncertain, np.empty(0, np.bool_))


def concat(blocks: Sequence[RowBlock]) -> RowBlock:
    """All rows of some blocks (of at least one), in order."""
    if len(blocks) == 1:
        return blocks[0]
    columns = joined(_alike([each.columns for each in blocks]))
    names = ("arrived", "expires", "raw", "known", "covering")
    arrived, expires, raw, known, covering = (
        np.concatenate([getattr(each, name) for each in blocks]) for name in names
    )
    uncertain = _joined([each.uncertain for each in blocks])
    gone, version = (_both([getattr(each, name) for each in blocks]) for name in ("gone", "version"))
    return RowBlock(columns, arrived, expires, raw, known, uncertain, covering, gone, version)


def _alike(parts: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """Batches of the same columns; where some have others, as after a change of the repository, all have all."""
    if all(each.schema.names == parts[0].schema.names for each in parts):
        return parts
    types = {field.name: field.type for each in parts for field in each.schema}
    return [
        pa.RecordBatch.from_arrays(
            [
                each[name] if name in each.schema.names else pa.nulls(each.num_rows, kind)
                for name, kind in types.items()
            ],
            list(types),
        )
        for each in parts
    ]


def _both(parts: Sequence[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _joined(uncertain: Sequence[UncertainRows]) -> UncertainRows:
    """All clouds in order; pools that some of them share lie there once."""
    starts, offsets, pools, end = [], dict[int, int](), list[UncertainRows](), 0
    for each in uncertain:
        if id(each.value) not in offsets:
            offsets[id(each.value)] = end
            pools.append(each)
            end += len(each.value)
        offset = offsets[id(each.value)]
        starts.append(np.where(each.start >= 0, each.start + offset, each.start) if offset else each.start)
    cells = {name: np.concatenate([getattr(each, name) for each in uncertain]) for name in ("lo", "hi", "size")}
    values = {name: np.concatenate([getattr(each, name) for each in pools]) for name in _POOLS}
    return UncertainRows(start=np.concatenate(starts), **cells, **values)


def to_arrays(block: RowBlock, signs: Floats) -> Arrays:
    """The block as named arrays, for `packing.pack`. Cells that are what came are left out: they can be derived."""
    out: Arrays = {"arrived": block.arrived, "expires": block.expires, "raw": block.raw}
    out["columns"] = table_as_bytes(pa.Table.from_batches([block.columns]))
    if block.covering.any():
        out["covering"] = np.flatnonzero(block.covering)
    if block.gone is not None and block.version is not None:
        out |= {"gone": np.flatnonzero(block.gone), "version": block.version}
    uncertain, came = block.uncertain, block.raw * signs + 0.0
    if block.known.shape[1]:
        lacking = np.flatnonzero((uncertain.start == BOUNDS_ONLY).any(axis=1) | (block.known[:, 0] == SETTLED))
        out |= {"lacking": lacking, "known": block.known[lacking]}
    same = (uncertain.start == ONE) & ((uncertain.lo == came) | (np.isnan(uncertain.lo) & np.isnan(came)))
    if not same.all():
        cells = np.flatnonzero(~same.ravel())
        few = dense(uncertain, np.arange(len(block.arrived))) if (uncertain.start >= 0).any() else uncertain
        out |= {"cells": cells, "size": few.size.ravel()[cells], "start": few.start.ravel()[cells]}
        out |= {"lo": few.lo.ravel()[cells], "hi": few.hi.ravel()[cells]}
        if few is not uncertain:
            out |= {name: getattr(few, name) for name in _POOLS}
    return out


def from_arrays(arrays: Arrays, signs: Floats, width: int) -> RowBlock:
    """The inverse of `to_arrays`."""
    columns = joined(table_from_bytes(arrays["columns"]))
    raw = arrays["raw"]
    known = np.full((len(raw), width), np.nan)
    if "lacking" in arrays:
        known[arrays["lacking"]] = arrays["known"]
    lo = raw * signs + 0.0
    hi, start, size = lo.copy(), np.full(lo.shape, ONE, np.int64), np.ones(lo.shape, np.int64)
    if "cells" in arrays:
        for whole, name in ((lo, "lo"), (hi, "hi"), (start, "start"), (size, "size")):
            whole.ravel()[arrays["cells"]] = arrays[name]
    none = np.empty(0)
    uncertain = UncertainRows(lo, hi, start, size, *(arrays.get(name, none) for name in _POOLS))
    covering = np.zeros(len(raw), np.bool_)
    covering[arrays.get("covering", np.empty(0, np.int64))] = True
    block = RowBlock(columns, arrays["arrived"], arrays["expires"], raw, known, uncertain, covering)
    if "version" not in arrays:
        return block
    gone = np.zeros(len(raw), np.bool_)
    gone[arrays["gone"]] = True
    return block._replace(gone=gone, version=arrays["version"])
