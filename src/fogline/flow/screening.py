"""What of a partition can ever matter to the answer?

Rows come in record batches, are read and checked, get bounds for what they lack, and are compared with each other: what
is surely beaten for all of its life, or from some instant on, need not travel (see `kernels/screen.py`). What is left
is packed, one parcel per group and chunk. No state, no order, no clock: any cut of the stream into chunks will do.

Each row ends up in exactly one place: in the rows of a parcel, in its rejects, or among its `screened`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fogline.arrays import Clouds, Floats, Ints
from fogline.flow.keys import Key, coded, keyed
from fogline.flow.parcel import Parcel
from fogline.flow.plan import Plan, event
from fogline.impute.chain import CONTEXT, TOLD
from fogline.impute.function import told
from fogline.impute.scoring import MOST, Scorer, Sums, add, chosen, plain
from fogline.kernels.batches import lacking, repeats
from fogline.kernels.cover import matter
from fogline.rows.columns import REAL, Reasons, write_times
from fogline.rows.reader import Numbers, Reader, refuse
from fogline.rows.source import RowSource

SLICE = 50_000  # rows read at once: what fits into the caches of a core
CHUNK = 500_000  # rows packed together
FINAL = 40_000  # more survivors of slices than this are not compared again
CORRUPT = "_corrupt_record"  # where Spark puts a line that does not fit the columns
NOBODY = np.empty(0, np.int64)

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Tally:
    """What is counted of one group in one chunk."""

    rows: int = 0
    outside_limits: int = 0
    incomplete: int = 0
    newest: float = -math.inf
    rejects: list[tuple[str, str]] = field(default_factory=list)  # row as JSON, reason
    scores: Sums = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """What is left of a slice."""

    group: Ints  # (n,) numbers of groups, as the chunk counts them
    arrived: Floats
    until: Floats  # when it expires, or others take over
    lo: Floats
    hi: Floats
    rows: pa.RecordBatch  # as they travel, but for the expiry

    def some(self, which: Ints, until: Floats) -> Part:
        return Part(
            self.group[which],
            self.arrived[which],
            until,
            self.lo[which],
            self.hi[which],
            self.rows.take(pa.array(which)),
        )


class Screen:
    """Collects one chunk: `take` slices, then `pack`."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.query = plan, plan.query
        self.reader = Reader(plan.query)
        self.scorer = None if plan.imputer is None or plan.teller is not None else Scorer(plan.imputer)
        self.at_end = plan.every == "batch" and plan.lateness == 0  # all of the chunk will be there when it counts
        self._clear()

    def _clear(self) -> None:
        self.groups: dict[Key, int] = {}
        self.tallies: list[Tally] = []
        self.parts: list[Part] = []
        self.size = 0

    def take(self, came: pa.RecordBatch) -> Numbers:
        """Read a slice, refuse what cannot be taken, and keep what can matter in it. Returns what was read."""
        refused: Reasons = {}
        batch = readable(came, self.plan, refused)
        if self.plan.teller is not None:
            batch, unread = told(batch, self.query, self.plan.teller)
            refused |= {i: reason for i, reason in unread.items() if i not in refused}
        source, group = RowSource(batch), self._groups(batch)
        names, nameless = _names(batch.column(self.query.id))
        refuse(refused, nameless, f"the id {self.query.id!r} is missing")
        read = self.reader.numbers(source, None, refused)
        lo, hi, gaps = read.clouds.lo, read.clouds.hi, NOBODY
        if read.gaps:
            lo, hi, gaps = self._bounds(source, read.clouds, refused)
        for i in repeats(group, names, read.arrived):
            refused.setdefault(int(i), "a row with this id and time is there already")
        there = np.ones(len(group), np.bool_)
        there[list(refused)] = False
        self._count(came, group, read, gaps, there, refused)
        if self.scorer is not None:
            self._score(source, read, group, np.flatnonzero(there))
        part = Part(group, read.arrived, read.expires, lo, hi, _travelling(batch, self.plan))
        self.parts.append(self._screened(_some_of(part, there)))
        self.size += len(group)
        return read

    def pack(self) -> list[tuple[Key, Parcel]]:
        """One parcel per group; then the next chunk begins."""
        if not self.parts:
            return []
        part = _joined(self.parts)
        if len(self.parts) > 1 and len(part.group) <= FINAL:
            part = self._screened(part)
        order = np.argsort(part.group, kind="stable")
        part = part.some(order, part.until[order]) if len(self.groups) > 1 else part
        rows = pa.Table.from_batches([part.rows])
        if self.query.last is None:
            rows = rows.append_column(self.plan.expires, write_times(part.until, self.plan.kind))
        cuts = np.searchsorted(part.group, np.arange(len(self.groups) + 1))
        parcels = []
        for key, k in self.groups.items():
            tally, mine = self.tallies[k], rows.slice(cuts[k], cuts[k + 1] - cuts[k])
            screened = tally.rows - len(tally.rejects) - mine.num_rows
            parcel = Parcel(
                mine,
                tally.newest,
                tally.rows,
                tally.outside_limits,
                tally.incomplete,
                screened,
                tally.rejects,
                plain(tally.scores),
            )
            parcels.append((key, parcel))
        self._clear()
        return parcels

    def _groups(self, batch: pa.RecordBatch) -> Ints:
        """(n,) the number of each row's group."""
        keys, which = keyed(batch, self.query.by)
        return self._number(keys)[which]

    def _number(self, keys: list[Key]) -> Ints:
        for key in keys:
            if key not in self.groups:
                self.groups[key] = len(self.groups)
                self.tallies.append(Tally())
        return np.array([self.groups[key] for key in keys], np.int64)

    def _bounds(self, source: RowSource, clouds: Clouds, refused: Reasons) -> tuple[Floats, Floats, Ints]:
        """Both corners with what missing cells can be at least and at most, and the rows that lack one.

        Who lacks what nobody knows is refused.
        """
        rows = lacking(clouds.lo)
        gaps = np.isnan(clouds.lo[rows])
        imputer = self.plan.imputer
        if imputer is None:
            for j, name in enumerate(self.query.names):
                bare = np.isin(np.arange(len(clouds.lo)), rows[gaps[:, j]])
                refuse(refused, bare, f"{name!r} is missing, and there is no repository to say what it may be")
            return clouds.lo, clouds.hi, rows
        few, column = _these(source, clouds, rows)
        known = imputer.known(column, few)
        for i, reason in imputer.hopeless(known, gaps).items():
            refused.setdefault(int(rows[i]), reason)
        bounded = imputer.bound(few, known, gaps, rough=True)
        lo, hi = clouds.lo.copy(), clouds.hi.copy()
        lo[rows], hi[rows] = bounded.lo, bounded.hi
        return lo, hi, rows

    def _score(self, source: RowSource, read: Numbers, group: Ints, rows: Ints) -> None:
        """Hide a value here and there, and see whether it would have been told."""
        assert self.scorer is not None
        imputer = self.scorer.imputer
        single = imputer.single(read.clouds)
        which, attribute = chosen(read.arrived[rows], single[rows])
        which, attribute = rows[which[:MOST]], attribute[:MOST]
        few, column = _these(source, read.clouds, which)
        known = imputer.known(column, few)
        for k, i in enumerate(which.tolist()):
            one = self.scorer.score(known[k : k + 1], single[i : i + 1], attribute[k : k + 1])
            add(self.tallies[group[i]].scores, one)

    def _count(
        self, came: pa.RecordBatch, group: Ints, read: Numbers, gaps: Ints, there: Flags, refused: Reasons
    ) -> None:
        n = len(self.tallies)
        newest = np.full(n, -np.inf)
        np.maximum.at(newest, group[there], read.arrived[there])
        rows, lack = np.bincount(group, minlength=n), np.bincount(group[gaps[there[gaps]]], minlength=n)
        outside = np.bincount(group, read.outside, minlength=n).astype(np.int64)
        for tally, *one in zip(
            self.tallies, newest, rows, lack, outside if read.outside is not None else rows * 0, strict=True
        ):
            tally.newest = max(tally.newest, float(one[0]))
            tally.rows += int(one[1])
            tally.incomplete += int(one[2])
            tally.outside_limits += int(one[3])
        which = sorted(refused)
        told = came.drop_columns([CONTEXT]) if CONTEXT in came.schema.names else came
        for i, row in zip(which, told.take(pa.array(which, pa.int64())).to_pylist(), strict=True):
            self.tallies[group[i]].rejects.append((as_json(row), refused[i]))

    def _screened(self, part: Part) -> Part:
        """What can matter of it, if only for a while."""
        if self.query.last is not None:
            return self._newest(part) if self.at_end else part
        arrived = part.arrived
        if self.at_end:  # who has expired by the end, or is beaten then, never counts
            newest = np.array([tally.newest for tally in self.tallies])
            part = _some_of(part, part.until > newest[part.group])
            arrived = np.zeros(len(part.group))
        which, until = matter(part.group, part.lo, part.hi, arrived, part.until)
        return part.some(which, until)

    def _newest(self, part: Part) -> Part:
        """The newest `last` rows of each group, and those that arrived with the last of them."""
        assert self.query.last is not None
        order = np.lexsort((-part.arrived, part.group))
        begin = np.searchsorted(part.group[order], np.arange(len(self.tallies)))
        rank = np.arange(len(order)) - begin[part.group[order]]
        edge = np.full(len(self.tallies), -np.inf)
        at = order[rank == self.query.last - 1]
        edge[part.group[at]] = part.arrived[at]
        return _some_of(part, part.arrived >= edge[part.group])


def screened(
    plan: Plan, batches: Iterable[pa.RecordBatch], *, slice_rows: int = SLICE, chunk_rows: int = CHUNK
) -> Iterator[pa.RecordBatch]:
    """The parcels of a partition, as rows of record batches."""
    screen = Screen(plan)
    for each in slices(batches, slice_rows):
        screen.take(each)
        if screen.size >= chunk_rows:
            yield as_batch(plan, screen.pack())
    if screen.size:
        yield as_batch(plan, screen.pack())


def refusals(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition that cannot be taken, as JSON, with the reasons."""
    for each in slices(batches, SLICE):
        screen = Screen(plan)
        screen.take(each)
        found = [pair for tally in screen.tallies for pair in tally.rejects]
        yield pa.record_batch([pa.array([pair[k] for pair in found], pa.string()) for k in (0, 1)], ["row", "reason"])


def slices(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows in record batches of about `size` rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        for begin in range(0, batch.num_rows, size):
            waiting.append(batch.slice(begin, size))
            rows += waiting[-1].num_rows
            if rows >= size:
                yield _concat(waiting)
                waiting, rows = [], 0
    if waiting:
        yield _concat(waiting)


def as_batch(plan: Plan, parcels: list[tuple[Key, Parcel]]) -> pa.RecordBatch:
    """Parcels as rows of a record batch: group, parcel, event time."""
    times = [event(plan.kind, parcel.newest - plan.lateness) for _, parcel in parcels]
    micros = pa.array([None if t is None else t * 1000 for t in times], pa.int64())
    keys, packed = pa.array([key for key, _ in parcels]), pa.array([p.to_bytes() for _, p in parcels], pa.binary())
    return pa.record_batch([keys, packed, micros.cast(pa.timestamp("us", "UTC"))], ["group", "parcel", "event"])


def as_json(row: Any) -> str:
    """A row as it came, readable: what JSON has no word for is written as text."""
    return json.dumps(_plain(row), ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _joined(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    rows = pa.Table.from_batches([part.rows for part in parts]).combine_chunks().to_batches()
    schema = parts[0].rows.schema
    whole = rows[0] if rows else pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)
    group, arrived, until, lo, hi = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("group", "arrived", "until", "lo", "hi")
    )
    return Part(group, arrived, until, lo, hi, whole)


def _some_of(part: Part, stay: Any) -> Part:
    if stay.all():
        return part
    which = np.flatnonzero(stay)
    return part.some(which, part.until[which])


def _these(source: RowSource, clouds: Clouds, rows: Ints) -> tuple[Clouds, Callable[[str], pa.Array | None]]:
    """Some of the rows: their clouds, and their columns by name."""
    index = pa.array(rows, pa.int64())

    def column(name: str) -> pa.Array | None:
        values = source.optional(name)
        return None if values is None else values.take(index)

    return clouds._replace(**{n: getattr(clouds, n)[rows] for n in ("lo", "hi", "start", "size")}), column


def _travelling(batch: pa.RecordBatch, plan: Plan) -> pa.RecordBatch:
    """What of the rows the monitor needs: id, time, attributes as they came, and what the rules ask for."""
    query = plan.query
    beside = [name for name in (*plan.extra, CONTEXT, TOLD) if name in batch.schema.names]
    names = [query.id, query.time, *query.names, *beside]
    columns = [batch.column(name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names)


def _names(column: pa.Array) -> tuple[Ints, Flags]:
    """(n,) numbers that tell ids apart, and which ids are missing."""
    missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64), missing
    return np.asarray(coded(column).indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64), missing


def readable(batch: pa.RecordBatch, plan: Plan, refused: Reasons) -> pa.RecordBatch:
    """The batch with times that came as texts read as the plan takes them; lines that make no sense are refused."""
    query = plan.query
    if CORRUPT in batch.schema.names:
        bad = batch.column(CORRUPT).is_valid().to_numpy(zero_copy_only=False)
        refuse(refused, bad, "the line cannot be read")
    for name in (query.time, *([query.expires] if query.expires else [])):
        at = batch.schema.get_field_index(name)
        if pa.types.is_string(batch.schema.field(at).type) or pa.types.is_large_string(batch.schema.field(at).type):
            batch = batch.set_column(at, name, _times_of(batch.column(at), name, plan.kind, refused))
    return batch


def _times_of(column: pa.Array, name: str, kind: pa.DataType, refused: Reasons) -> pa.Array:
    """Texts as numbers or timestamps; what is neither is refused and left out."""
    target = REAL if pa.types.is_floating(kind) else kind
    try:
        return pc.utf8_trim_whitespace(column).cast(target)
    except pa.ArrowInvalid:  # one of them cannot be read: look at each
        return pa.array([_time_of(text, i, name, target, refused) for i, text in enumerate(column.to_pylist())], target)


def _time_of(text: str | None, i: int, name: str, target: pa.DataType, refused: Reasons) -> Any:
    if text is None or not text.strip():
        return None
    try:
        return pa.scalar(text.strip()).cast(target).as_py()
    except pa.ArrowInvalid:
        what = "number" if target == REAL else "timestamp"
        refused.setdefault(i, f"{name!r} is {text!r}, which is not a {what}")
        return None
