"""Is a row's time later than the clock of this machine?

Where times are timestamps, a row that is ahead of the machine's clock by more than its group may be, and by more than a
day, is rejected by name: milliseconds read as seconds lie fifty thousand years ahead. The engine gives the machine's
clock with the rows, in a column of its own, the same for all rows of a batch and whenever the batch is done again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats, Ints
from fogline.files.blocks import CORRUPT, ORIGIN, WHY
from fogline.impute.fill import filled_at_once
from fogline.impute.protocol import Evidence
from fogline.impute.written import CELLS, times_of, written
from fogline.kernels.sorting import repeats
from fogline.pipeline.exchange import RowBlock, block_of
from fogline.pipeline.latest import without_values
from fogline.pipeline.plan import Plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.watermark import DAY, length_text
from fogline.rows.cells import Reasons
from fogline.rows.clock import read_times, time_text
from fogline.rows.names import Contents, Copies, KeyText, coded, keyed, nameable
from fogline.rows.reader import Decoded, Once, refuse
from fogline.rows.table import RowSource, without_bad_bytes

NOW = "_fogline_now"
_YEARS = "outside the years"  # a reason that this one explains
_EARLIEST = 3652 * DAY  # 1980: a time that a sensor may well mean


def asks_now(plan: Plan | Plans) -> bool:
    """Whether rows are compared with the machine's clock."""
    return pa.types.is_timestamp(plan.kind) and plan.ahead < math.inf


def with_now(rows: Iterable[pa.RecordBatch], plan: Plan | Plans, now: int) -> Iterable[pa.RecordBatch]:
    """The rows with the machine's clock, in microseconds, if they are compared with it."""
    if not asks_now(plan):
        return rows
    kind = pa.timestamp("us", "UTC")
    return (each.append_column(NOW, pa.repeat(pa.scalar(now, kind), each.num_rows)) for each in rows)


def without_now(rows: pa.Table | pa.RecordBatch) -> tuple[pa.Table | pa.RecordBatch, float]:
    """The rows without the column of the machine's clock, and what it shows, in microseconds; inf: it is not there."""
    at = rows.schema.get_field_index(NOW)
    if at < 0:
        return rows, math.inf
    now = read_times(pa.array(rows.column(at)[:1].to_pylist(), rows.schema.field(at).type), NOW).value
    return rows.remove_column(at), float(now[0]) if len(now) else math.inf


def refuse_future(rows: Decoded, plan: Plan, now: float) -> None:
    """Reject the rows that are later than the machine's clock by more than is allowed."""
    if now == math.inf or not asks_now(plan):
        return
    until, times = now + max(plan.ahead, DAY), _times(rows, plan)
    for i in np.flatnonzero(times > until).tolist():
        if i not in rows.refused or _YEARS in rows.refused[i]:
            t = float(times[i])
            guess = "; are milliseconds read as seconds?" if _EARLIEST <= t / 1000 <= until else ""
            far = length_text(t - now, plan.kind)
            rows.refused[i] = f"its time, {time_text(t, plan.kind)}, is {far} ahead of this machine's clock{guess}"


def _times(rows: Decoded, plan: Plan) -> Floats:
    """(n,) the times, those that are refused for their year included."""
    if not rows.refused:
        return rows.arrived
    column = rows.source.require(plan.query.time, "time column")
    if not (isinstance(column, pa.Array) and pa.types.is_timestamp(column.type)):
        return rows.arrived
    micros = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}[column.type.unit]
    return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) * micros, np.float64)


# --- Slices -----------------------------------------------------------------------------------------------------------
#
# What is a slice of the stream, decoded, and which of its rows cannot be taken? Any cut of the stream into slices will
# do: a row is decoded by itself.

SLICE = 50_000  # rows decoded at once: what fits into the caches of a core
BYTES = 2**30  # … or so many bytes, where rows are long: what they hold is put together
CHUNK = 500_000  # rows packed together


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Decoded rows, with the numbers of their groups and of their names."""

    rows: Decoded
    block: RowBlock  # the same rows, as they travel
    keys: list[KeyText]  # groups
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


def shared_rows(rows: pa.Table | pa.RecordBatch, columns: Callable[[list[str]], Iterable[str]]) -> SharedRows:
    """Rows for several queries; `columns`: which of those that are there they ask for."""
    rows, now = without_now(rows)
    return SharedRows(RowSource(rows, {*columns(rows.schema.names), *ORIGIN.names}), now, Once())


class Decoder:
    """Decodes slices of one stream."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.reader = plan, plan.reader()

    def decode(self, rows: Rows) -> DecodedRows:
        """Rows that came as one slice; what cannot be taken is refused."""
        query, opened = self.plan.query, self._opened(rows)
        keys, group = opened.once.get(("keys", query.by), lambda: keyed(opened.batch, query.by))
        name = opened.once.get(("names", query.id), lambda: numbered(opened.batch.column(query.id)))
        return self._piece(opened, keys, group, name)

    def decode_sensors(self, rows: Rows) -> tuple[DecodedRows, list[KeyText]]:
        """The same, names being numbers of sensors (group and id); and the sensors' keys."""
        query, opened = self.plan.query, self._opened(rows)
        names = (*query.by, query.id)
        sensors, code = opened.once.get(("keys", names), lambda: keyed(opened.batch, names))
        groups: dict[KeyText, int] = {}
        of_sensor = [groups.setdefault(json.dumps(json.loads(key)[:-1]), len(groups)) for key in sensors]
        group = np.array(of_sensor, np.int64)[code]
        return self._piece(opened, list(groups), group, code), sensors

    def _opened(self, rows: Rows) -> Slice:
        refused = Reasons()
        source, now, once = rows if isinstance(rows, SharedRows) else shared_rows(rows, self.plan.columns)
        source = without_bad_bytes(source, self.reader.asked, refused)
        assert source.batch is not None
        return Slice(source, source.batch, refused, now, once)

    def _piece(self, opened: Slice, keys: list[KeyText], group: Ints, name: Ints) -> DecodedRows:
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
        return DecodedRows(rows, block_of(rows, plan.columns(batch.schema.names), query, 0), keys, group, name)


def asked_at_once(piece: DecodedRows, plan: Plan) -> DecodedRows:
    """The piece with what imputers give that cannot wait: they need the columns as they came."""
    assert plan.chain is not None
    rows = filled_at_once(plan.chain, piece.rows, piece.rows.left())
    return (
        piece if rows is piece.rows else replace(piece, rows=rows, block=piece.block._replace(uncertain=rows.uncertain))
    )


def copies_in(piece: DecodedRows, plan: Plan) -> Copies:
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


# --- Imputing ---------------------------------------------------------------------------------------------------------
#
# What may each missing value of a stream be, written out?
#
# One line per possible value, as `fogline.impute.written` writes it, from decoded rows.


def imputed_schema(plan: Plan) -> pa.Schema:
    """by…, the id, the row's own time, attribute, value, probability, rule."""
    head = [*zip(plan.query.by, plan.by, strict=True), (plan.query.id, plan.id), (plan.query.arrived, plan.kind)]
    return pa.schema([*head, *CELLS])


def imputed(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The distributions of the rows of a partition."""
    decoder = Decoder(plan)
    for each in slices(batches, SLICE):
        yield from impute_piece(plan, decoder.decode(each), None).to_batches()


def impute_piece(plan: Plan, piece: DecodedRows, context: Floats | None) -> pa.Table:
    """The distributions of decoded rows; `context`: (n, w) what their sensors have read before."""
    chain, rows, query = plan.chain, piece.rows, plan.query
    assert chain is not None
    left = rows.left()
    which = np.arange(len(rows.arrived)) if left is None else left
    uncertain = rows.uncertain.part(which)
    gaps = np.isnan(uncertain.lo)
    near = None if context is None else context[which]
    evidence = Evidence(chain.values(uncertain, rows.raw[which]), gaps, rows.source, which, near)
    columns = piece.block.columns
    names = {name: columns.column(name) for name in query.by} | {query.id: columns.column(query.id)}
    names[query.arrived] = times_of(rows, plan.kinds)
    answers = list(chain.search(chain.evidence(evidence), gaps))
    return written(answers, which, names, chain).cast(imputed_schema(plan))
