"""Rows in numbers: a table of any kind is decoded once, and no room reads it again.

Columns become numbers and boxes, oriented so that larger is better. Only imputers that ask for further columns, and
rejects, which keep the row as it came, look at the table afterwards. A row that cannot be read is refused with its
reason, and disturbs no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Flags, Floats, Ints, Objects, UncertainRows, objects
from fogline.errors import QueryError, RowsError
from fogline.kernels import arrow
from fogline.kernels.arrow import BAD_NUMBER, BAD_WEIGHT, LISTS, NO_CLOCK, NUMBERS, OUTSIDE, REALS, STAMPS, WHOLES
from fogline.kernels.uncertain import all_within
from fogline.query import Query, as_text, duration, is_number, shown_length
from fogline.rows.cells import PAIRS, REAL, Reasons, is_missing, read_cells
from fogline.rows.clock import INTEGER, Times, join_kinds, read_times, read_versions
from fogline.rows.kept import read_kept
from fogline.rows.names import Kinds, join_types, read_objects
from fogline.rows.table import KnownSchema, RowSource, without_bad_bytes
from fogline.show import quoted

_LARGEST = float(np.finfo(np.float64).max)
_MEANING = {"true": True, "false": False, "1": True, "0": False, "": False}  # of a text in a column of removals
T = TypeVar("T")


class Decoded(NamedTuple):
    """Rows in numbers. Those that are refused are still among them: a row keeps its position in the source."""

    source: RowSource
    kind: pa.DataType | None  # of a clock that can show these times and expiries
    arrived: Floats  # (n,)
    expires: Floats  # (n,)
    raw: Floats  # (n, d) as it came, not oriented
    uncertain: UncertainRows  # missing cells are NaN
    outside: Ints | None  # (n,) how many of a row's cells are outside their limits; None: no cell is
    gaps: bool  # whether any cell is missing
    refused: Reasons  # row -> why it cannot be taken
    gone: Flags | None = None  # (n,) which rows remove their id: of these only name and time count; None: none can
    version: Ints | None = None  # (n,) orders rows of one id and time; None: the query has none
    version_kind: pa.DataType | None = None  # whole numbers or timestamps
    id: Sequence[Any] = ()  # (n,) where names are read, as of all below
    by: tuple[list[Any], ...] = ()  # one list per group column
    kinds: Kinds = Kinds()  # of the stream so far, these rows included
    kept: Objects | None = None  # (n,) of each row a tuple of what else comes along; None: nothing does

    def row(self, i: int) -> Mapping[str, Any]:
        """A row as it came."""
        return self.source.row(i)

    def removals(self) -> Flags:
        """(n,) the rows that remove their id, and can be taken."""
        found = np.zeros(len(self.arrived), np.bool_) if self.gone is None else self.gone.copy()
        found[list(self.refused)] = False
        return found

    def left(self) -> Ints | None:
        """The rows that can be taken; None: all of them."""
        if not self.refused:
            return None
        stay = np.ones(len(self.arrived), np.bool_)
        stay[list(self.refused)] = False
        return np.flatnonzero(stay)

    def batch(self) -> Batch:
        """The rows that can be taken. Their gaps are NaN, and nothing is kept of them for imputers."""
        left = self.left()
        every = slice(None) if left is None else left
        id, uncertain = objects(self.id)[every], self.uncertain.part(every)
        none = np.empty((len(id), 0))
        kept = None if self.kept is None else self.kept[every]
        return Batch(id, self.arrived[every], self.expires[every], self.raw[every], none, uncertain, kept=kept)


class Once:
    """What has been worked out about one slice of rows, for the readers of several queries.

    A key names a function and all that its result depends on beside the rows.

    >>> once = Once()
    >>> once.get("length", lambda: 3), once.get("length", lambda: 4)
    (3, 3)
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under this key, made now if it is not there. It is shared: no caller may change it."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found


class _Layout(NamedTuple):
    """Where attributes and instants lie in record batches of one schema, as `arrow.read` takes it."""

    schema: KnownSchema | None
    columns: tuple[Any, ...]  # the attributes: see `arrow.Wanted`
    clock: tuple[int, int] = (0, NO_CLOCK)  # the column of instants, and how they lie; NO_CLOCK: not as can be read
    kind: pa.DataType | None = None  # the kind of clock that they show


class Reader:
    """Reads rows for one query.

    `clock`: the kind of its clock, where that is known beforehand. `also`: columns that imputers ask for, beside those
    of the query; None: any.
    """

    def __init__(self, query: Query, clock: pa.DataType | None = None, also: Collection[str] | None = None) -> None:
        self.query, self.clock = query, clock
        self.asked = query.columns
        self.columns = None if also is None or query.keep is True else self.asked.union(also)
        limits = np.array([query.limits.get(name, (-np.inf, np.inf)) for name in query.names])
        self.oriented = np.array(query.signs), np.ascontiguousarray(limits[:, 0]), np.ascontiguousarray(limits[:, 1])
        self.layout: _Layout | None = None  # of the last batch whose attributes could be read as they lie
        self.bounded = query.longest_life is not None  # whether a row's expiry follows from its arrival
        self.life: tuple[Any, ...] = ()  # a kind of clock, and the kind that shows its expiries as well
        self.once = Once()  # what is known of the rows at hand

    def read(self, rows: Any, kinds: Kinds) -> Decoded:
        """Rows with their names; `kinds` are the types seen so far."""
        query, refused = self.query, Reasons()
        source = RowSource(rows, self.columns)
        asked = self.asked if query.keep is not True else {*self.asked, *source.names}
        source = without_bad_bytes(source, asked, refused)
        ids, id_kind = read_objects(source.require(query.id, "id column"), query.id, refused, kinds.id)
        keys, key_kinds = self._keys(source, kinds, refused) if query.by else ((), kinds.by)
        if None in ids:
            refuse(refused, np.array([each is None for each in ids]), f"the id {query.id!r} is missing")
        decoded = self.decode(source, kinds.time, refused, kinds.version)
        kept, seen = None, kinds.kept
        if query.keep:
            removed = decoded.gone is not None and bool(decoded.gone.all())
            kept, seen = read_kept(source, query, seen, sparse=removed)
        found = decoded.kind, id_kind, key_kinds, decoded.version_kind, seen
        if found != (kinds.time, kinds.id, kinds.by, kinds.version, kinds.kept):  # else: nothing new, as in most calls
            kinds = Kinds(decoded.kind, join_types(kinds.id, id_kind, query.id), key_kinds, decoded.version_kind, seen)
        return decoded._replace(id=ids, by=keys, kinds=kinds, kept=kept)

    def _keys(self, source: RowSource, kinds: Kinds, refused: Reasons) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The columns that name the rows' groups, and their types."""
        seen = kinds.by or (None,) * len(self.query.by)
        found = [
            read_objects(source.require(name, "group column"), name, refused, old)
            for name, old in zip(self.query.by, seen, strict=True)
        ]
        both = zip(self.query.by, seen, found, strict=True)
        return tuple(values for values, _ in found), tuple(join_types(old, new, name) for name, old, (_, new) in both)

    def decode(
        self,
        source: RowSource,
        kind: pa.DataType | None,
        refused: Reasons,
        versions: pa.DataType | None = None,
        once: Once | None = None,
    ) -> Decoded:
        """Times, expiries and attributes, without names; `kind` is that of the clock so far, `versions` of versions.

        `once`: what other readers know of these rows.
        """
        unread, afterwards = Reasons(), Reasons()
        self.once = Once() if once is None else once
        gone = self._gone(source, refused)
        batch, layout = self._arrange(source, unread, gone)
        raw, uncertain, code, codes, gaps, instants, fine = arrow.read(batch, layout.columns, layout.clock)
        times = Times(instants, layout.kind, {}) if fine else self._arrivals(source, kind, refused)
        version, versions = self._version(source, versions, refused)
        expires, kind = self._expiry(source, times, join_kinds(kind, times.kind, self.query.time), afterwards, gone)
        for i, reason in unread.items():
            afterwards.setdefault(i, reason)
        outside = self._look(code, afterwards) if codes else None
        for i, reason in afterwards.items():
            if gone is None or not gone[i]:
                refused.setdefault(i, reason)
        if outside is not None and gone is not None:
            outside[gone] = 0
        more = (gone, version, versions)
        return Decoded(source, kind, times.value, expires, raw, uncertain, outside, gaps, refused, *more)

    def _arrivals(self, source: RowSource, kind: pa.DataType | None, refused: Reasons) -> Times:
        """The instants of the clock's column; a row without one is refused."""
        name = self.query.time
        times = self._times(source.require(name, "time column"), name, self.clock or kind)
        for i, reason in times.refused.items():
            refused.setdefault(i, reason)
        if not all_within(times.value, _LARGEST):
            refuse(refused, ~np.isfinite(times.value), f"the time {name!r} is missing or not finite")
        return times

    def _times(self, column: Any, name: str, kind: pa.DataType | None) -> Times:
        return self.once.get(("times", name, kind), lambda: read_times(column, name, kind))

    def _gone(self, source: RowSource, refused: Reasons) -> Flags | None:
        """(n,) which rows are removals."""
        query = self.query
        if query.gone is None or query.gone_column is None:
            return None
        return read_gone(source.require(query.gone_column, "column of removals", sparse=True), query.gone, refused)

    def _version(
        self, source: RowSource, kind: pa.DataType | None, refused: Reasons
    ) -> tuple[Ints | None, pa.DataType | None]:
        """(n,) versions, and their kind."""
        name = self.query.version
        if name is None:
            return None, None
        return read_versions(source.require(name, "column of versions", sparse=True), name, kind, refused)

    def _expiry(
        self, source: RowSource, times: Times, kind: pa.DataType | None, refused: Reasons, gone: Flags | None
    ) -> tuple[Floats, pa.DataType | None]:
        """When each row expires, and the kind of a clock that can show it."""
        query = self.query
        if query.remember_removed is not None and kind is not None:
            length_in(query.remember_removed, "remember_removed", query, kind)  # an error if the two do not fit
        if query.last is not None:
            return np.zeros(source.length), kind  # a matter of order, not of time: the group decides
        if self.bounded:
            if not self.life or kind is not self.life[0]:
                whole = life_of(query, kind).is_integer()
                self.life = kind, kind if whole else join_kinds(kind, REAL, query.time)
            return query.expiries(times.value), self.life[1]
        if query.expires is None or (gone is not None and gone.all()):
            return np.full(source.length, np.inf), kind  # it stays until it is replaced or removed
        column = source.require(query.expires, "expiry column", sparse=query.latest)
        expires = self._times(column, query.expires, self.clock or times.kind)
        for i, reason in expires.refused.items():
            refused.setdefault(i, reason)
        if not np.isfinite(expires.value).all():
            refuse(refused, ~np.isfinite(expires.value), f"the expiry {query.expires!r} is missing or not finite")
        if (expires.value < times.value).any():
            refuse(refused, expires.value < times.value, "it expires before it arrives")
        return expires.value, join_kinds(kind, expires.kind, f"{query.time}' with '{query.expires}")

    def _arrange(self, source: RowSource, refused: Reasons, gone: Flags | None) -> tuple[pa.RecordBatch, _Layout]:
        """The attributes as columns that the kernel can read, and where they lie.

        Where they can be read as they came, the layout is kept for the next batch of the schema. Where all rows are
        removals the columns need not be there.
        """
        if source.batch is not None and self.layout is not None and source.known is self.layout.schema:
            return source.batch, self.layout
        names, needless = list(self.query.names), gone is not None and bool(gone.all())
        given = [
            pa.nulls(source.length)
            if needless and name not in source.names
            else source.require(name, "attribute", sparse=self.query.latest)
            for name in names
        ]
        columns = [self._read_cells(column, name, refused) for column, name in zip(given, names, strict=True)]
        kinds = np.array([LISTS if column.type == PAIRS else NUMBERS for column in columns])
        if source.batch is not None and all(a is b for a, b in zip(given, columns, strict=True)):
            schema = source.batch.schema
            at = np.array([schema.get_field_index(name) for name in names])
            self.layout = _Layout(source.known, (at, kinds, *self.oriented), *_clock_of(schema, self.query.time))
            return source.batch, self.layout
        self.layout, batch = None, pa.RecordBatch.from_arrays(columns, names)
        return batch, _Layout(None, (np.arange(len(names)), kinds, *self.oriented))

    def _read_cells(self, column: Any, name: str, refused: Reasons) -> pa.Array:
        """An attribute's column, read once; what cannot be read refuses its row."""
        if isinstance(column, pa.Array) and column.type in (REAL, PAIRS):
            return column  # as it lies

        def read() -> tuple[pa.Array, Reasons]:
            bad = Reasons()
            return read_cells(column, name, bad), bad

        cells, bad = self.once.get(("cells", name), read)
        for i, reason in bad.items():
            refused.setdefault(i, reason)
        return cells

    def _look(self, code: Ints, refused: Reasons) -> Ints:
        """Refuse the rows with cells that are wrong; returns how many cells of each are outside their limits."""
        for j, name in enumerate(self.query.names):
            low, high = self.query.limits.get(name, (-np.inf, np.inf))
            refuse(refused, code[:, j] & BAD_NUMBER > 0, f"{name!r} holds a value that is missing or not finite")
            refuse(refused, code[:, j] & BAD_WEIGHT > 0, f"{name!r} holds a weight that is not positive")
            if self.query.outside == "reject":
                refuse(refused, code[:, j] & OUTSIDE > 0, f"{name!r} is outside its limits ({low:g}, {high:g})")
        return np.asarray(np.count_nonzero(code & OUTSIDE, axis=1), np.int64)


def read_gone(column: Any, gone: str | Mapping[str, Sequence[str]], refused: Reasons) -> Flags:
    """(n,) where the column, an Arrow array or a list, means a removal. `gone` is that of the query.

    A column of truth values removes where it is true: true or false, 1 or 0, also as texts; a missing one is false, and
    anything else refuses its row. A column with a list of values removes where it has one of them, and refuses nothing.

    >>> read_gone([True, 0, "TRUE", None], "gone", {}), read_gone(["d", "u", None], {"op": ["d"]}, {})
    (array([ True, False,  True, False]), array([ True, False, False]))
    """
    name, values = (gone, None) if isinstance(gone, str) else next(iter(gone.items()))
    if isinstance(column, pa.BooleanArray) and values is None:
        return np.asarray((column.fill_null(False) if column.null_count else column).to_numpy(zero_copy_only=False))
    if isinstance(column, pa.Array):
        distinct, code = _distinct(column, name)
    else:
        distinct = list(column)
        code = np.arange(len(distinct))
    meanings = [_meaning(each, values) for each in distinct]
    unclear = np.array([each is None for each in meanings], np.bool_)
    for i in np.flatnonzero(unclear[code]).tolist() if unclear.any() else ():
        cell = quoted(distinct[code[i]])
        refused.setdefault(
            i, f"{name!r} is {cell}, which is neither true nor false, so it is unknown whether the row removes its id"
        )
    return np.asarray(np.array([each is True for each in meanings], np.bool_)[code])


def _distinct(column: pa.Array, name: str) -> tuple[list[Any], Any]:
    """The different cells of a column, and (n,) which of them each one is."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_nested(plain.type):
        raise RowsError(f"{name!r} has type {column.type}; what removes an id is a single value.")
    encoded = plain.dictionary_encode("encode")
    try:
        cells = encoded.dictionary.to_pylist()
    except (OverflowError, ValueError):  # dates that no calendar has
        cells = [str(each) for each in encoded.dictionary.cast(pa.int64(), safe=False).to_pylist()]
    return cells, encoded.indices.to_numpy(zero_copy_only=False)


def _meaning(cell: Any, values: Sequence[str] | None) -> bool | None:
    """Whether a cell means a removal; None: it means neither."""
    if is_missing(cell):
        return False
    try:
        text = as_text(cell)
    except ValueError:  # a number of thousands of digits cannot be written
        return None if values is None else False
    return text in values if values is not None else _MEANING.get(text.lower())


def _clock_of(schema: pa.Schema, name: str) -> tuple[tuple[int, int], pa.DataType | None]:
    """Where the clock's column lies, how it can be read as it lies, and the kind of clock it shows."""
    at = schema.get_field_index(name)
    if at < 0:
        return (0, NO_CLOCK), None
    kind = schema.field(at).type
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return (at, STAMPS), pa.timestamp("us", kind.tz)
    found = {INTEGER: WHOLES, REAL: REALS}.get(kind)
    return ((0, NO_CLOCK), None) if found is None else ((at, found), kind)


def refuse(refused: Reasons, bad: Flags | Any, reason: str) -> None:
    """Note the reason for the rows that are bad, unless they have one already."""
    if bad.any():
        for i in np.flatnonzero(bad).tolist():
            refused.setdefault(i, reason)


def life_of(query: Query, kind: pa.DataType | None) -> float:
    """How long a row may live, in units of a clock of that kind; inf: the query does not bound it by time.

    An error, if the clock does not fit the query.
    """
    return np.inf if query.lifetime is None else length_in(query.lifetime, "lifetime", query, kind)


def remembered(query: Query, kind: pa.DataType | None) -> float:
    """How long an id that was removed is known to be so, in units of the clock."""
    length = query.remember_removed
    return life_of(query, kind) if length is None else length_in(length, "remember_removed", query, kind)


def length_in(length: Any, what: str, query: Query, kind: pa.DataType | None) -> float:
    """A length of time of the query in units of its clock."""
    numeric, plain = kind is not None and not pa.types.is_timestamp(kind), is_number(length)
    if kind is not None and numeric != plain:
        have, want = ("numbers", "a number") if numeric else ("timestamps", "a duration such as '5 minutes'")
        raise QueryError(f"the times in {query.time!r} are {have}, so {what} is {want}, not {shown_length(length)!r}.")
    return float(length if plain else duration(length))
