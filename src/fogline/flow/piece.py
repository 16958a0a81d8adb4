"""What is a slice of the stream, decoded, and which of its rows cannot be taken?

The first stage. Any cut of the stream into slices will do: a row is decoded by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints
from fogline.files.origin import CORRUPT, ORIGIN, WHY
from fogline.flow.block import RowBlock, block_of
from fogline.flow.machine import refuse_future, without_now
from fogline.flow.newest import without_values
from fogline.flow.plan import Plan
from fogline.impute.fill import filled_at_once
from fogline.kernels.sorting import repeats
from fogline.rows.cells import Reasons
from fogline.rows.names import Contents, Copies, Key, coded, keyed, nameable
from fogline.rows.reader import Decoded, Once, refuse
from fogline.rows.table import RowSource, without_bad_bytes

SLICE = 50_000  # rows decoded at once: what fits into the caches of a core
BYTES = 2**30  # … or so many bytes, where rows are long: what they hold is put together
CHUNK = 500_000  # rows packed together


@dataclass(frozen=True, slots=True)
class Piece:
    """Decoded rows, with the numbers of their groups and of their names."""

    rows: Decoded
    block: RowBlock  # the same rows, as they travel
    keys: list[Key]  # groups
    group: Ints  # (n,) which of the keys a row has
    name: Ints  # (n,) numbers that differ where ids of a group differ
    whole: bool = True  # whether every column is there, as it came: then imputers that cannot wait are asked here

    def row(self, i: int, plan: Plan) -> dict[str, Any]:
        """A row as it came."""
        return dict(self.rows.row(i)) if self.whole else self.block.row(i, plan.query)


class Slice(NamedTuple):
    """Rows as they came, and what of them is asked for."""

    source: RowSource
    batch: pa.RecordBatch  # the columns that are asked for, as one batch
    refused: Reasons
    now: float  # the machine's clock
    once: Once  # what is known of the rows


class SharedRows(NamedTuple):
    """Rows as they came, for several queries."""

    source: RowSource
    now: float  # the machine's clock
    once: Once  # what any of the queries has found out about the rows


Rows = Any  # a table or a record batch, or rows that several queries share: SharedRows


def shared(rows: pa.Table | pa.RecordBatch, columns: Callable[[list[str]], Iterable[str]]) -> SharedRows:
    """Rows for several queries; `columns`: which of those that are there they ask for."""
    rows, now = without_now(rows)
    return SharedRows(RowSource(rows, {*columns(rows.schema.names), *ORIGIN.names}), now, Once())


class Decoder:
    """Decodes slices of one stream."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.reader = plan, plan.reader()

    def decode(self, rows: Rows) -> Piece:
        """Rows that came as one slice; what cannot be taken is refused."""
        query, opened = self.plan.query, self._opened(rows)
        keys, group = opened.once.get(("keys", query.by), lambda: keyed(opened.batch, query.by))
        name = opened.once.get(("names", query.id), lambda: numbered(opened.batch.column(query.id)))
        return self._piece(opened, keys, group, name)

    def decode_sensors(self, rows: Rows) -> tuple[Piece, list[Key]]:
        """The same, names being numbers of sensors (group and id); and the sensors' keys."""
        query, opened = self.plan.query, self._opened(rows)
        names = (*query.by, query.id)
        sensors, code = opened.once.get(("keys", names), lambda: keyed(opened.batch, names))
        groups: dict[Key, int] = {}
        of_sensor = [groups.setdefault(json.dumps(json.loads(key)[:-1]), len(groups)) for key in sensors]
        group = np.array(of_sensor, np.int64)[code]
        return self._piece(opened, list(groups), group, code), sensors

    def _opened(self, rows: Rows) -> Slice:
        refused = Reasons()
        source, now, once = rows if isinstance(rows, SharedRows) else shared(rows, self.plan.columns)
        source = without_bad_bytes(source, self.reader.asked, refused)
        assert source.batch is not None
        return Slice(source, source.batch, refused, now, once)

    def _piece(self, opened: Slice, keys: list[Key], group: Ints, name: Ints) -> Piece:
        plan, query, (source, batch, refused, now, once) = self.plan, self.plan.query, opened
        if WHY in batch.schema.names:
            why = batch.column(WHY)
            for i in np.flatnonzero(why.is_valid().to_numpy(zero_copy_only=False)).tolist():
                refused.setdefault(i, why[i].as_py())
        if CORRUPT in batch.schema.names:
            bad = batch.column(CORRUPT).is_valid().to_numpy(zero_copy_only=False)
            refuse(refused, bad, "the line cannot be read")
        nameless = batch.column(query.id).is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        refuse(refused, nameless, f"the id {query.id!r} is missing")
        for column in (query.id, *query.by):
            nameable(batch.column(column), column, refused)
        rows = without_values(self.reader.decode(source, plan.kind, refused, plan.versions, once))
        refuse_future(rows, plan, now)
        return Piece(rows, block_of(rows, plan.columns(batch.schema.names), query, 0), keys, group, name)


def asked_at_once(piece: Piece, plan: Plan) -> Piece:
    """The piece with what imputers give that cannot wait: they need the columns as they came."""
    assert plan.chain is not None
    rows = filled_at_once(plan.chain, piece.rows, piece.rows.left())
    return (
        piece if rows is piece.rows else replace(piece, rows=rows, block=piece.block._replace(uncertain=rows.uncertain))
    )


def copies_in(piece: Piece, plan: Plan) -> Copies:
    """The rows of a piece, neither refused nor removals, that share a stamp."""
    rows, latest = piece.rows, plan.query.latest
    found: dict[int, list[int]] = {}
    for i, first in zip(*(each.tolist() for each in repeats(piece.group, piece.name, rows.arrived)), strict=True):
        found.setdefault(first, [first]).append(i)
    contents, out = Contents(rows.raw, rows.expires, rows.uncertain, plan.signs), []
    for each in found.values():
        fine = [i for i in each if i not in rows.refused and not (rows.gone is not None and rows.gone[i])]
        stamp = [0 if rows.version is None or not latest else int(rows.version[i]) for i in fine]
        for one in dict.fromkeys(stamp):
            some = [i for i, its in zip(fine, stamp, strict=True) if its == one]
            out += [sorted(some, key=contents.rank, reverse=True)] if len(some) > 1 else []
    return out


def numbered(column: pa.Array) -> Ints:
    """(n,) numbers that differ where ids differ."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)
    return np.asarray(coded(column).indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def slices(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """The same rows in tables of about `size` rows, or fewer where they are long. Nothing is copied."""
    waiting: list[pa.RecordBatch] = []
    rows = held = 0
    for batch in batches:
        for begin in range(0, batch.num_rows, size):
            part = batch.slice(begin, size)
            if waiting and held + part.nbytes > BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, rows, held = [], 0, 0
            waiting.append(part)
            rows, held = rows + part.num_rows, held + part.nbytes
            if rows >= size:
                yield pa.Table.from_batches(waiting)
                waiting, rows, held = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
