"""What else comes along with a row: the columns that `Query.keep` names, as they came.

Of each row they are one tuple, which lies beside its id wherever that does: in the batch, in the live set, in what is
reported. Where groups are saved they are one Arrow column of structs. Nothing looks at the values on the way.

Instants, days, times of day and durations lie there as whole numbers: every value of their types has one, and Python
makes no object of each. Nanoseconds are cut, as they are of all times. A column that holds lists, maps or structs is
not kept: one that is named is refused, and of `keep=True` it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Objects
from fogline.errors import RowsError
from fogline.query import Query
from fogline.rows.cells import REAL, usual_type
from fogline.rows.clock import INTEGER
from fogline.rows.names import join_types, plain_type
from fogline.rows.table import RowSource

Kept = tuple[tuple[str, pa.DataType | None], ...]  # names and types; None: only nulls have come
_OWN = ("_fogline_", "fogline ", "_corrupt_record")  # how columns begin that readers of files add


# --- Which columns, of which types ------------------------------------------------------------------------------------


def single_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which values of this one are kept; None: they are no single values.

    >>> single_type(pa.timestamp("ns", "UTC")), single_type(pa.int16()), single_type(pa.list_(pa.int16()))
    (TimestampType(timestamp[us, tz=UTC]), DataType(int16), None)
    """
    kind = usual_type(kind)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        return None
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if kind == pa.time64("ns") else kind


def singles(schema: pa.Schema) -> list[str]:
    """The columns of a stream that hold single values, in their order."""
    names = [field.name for field in schema if single_type(field.type) is not None]
    return [name for name in names if not name.startswith(_OWN)]


def kept_types(query: Query, schema: pa.Schema) -> Kept:
    """What a stream of this schema keeps; an error names the column that cannot be kept."""
    out = []
    for name in query.kept:
        kind = single_type(schema.field(name).type)
        if kind is None:
            raise _no_single(name, schema.field(name).type)
        out.append((name, kind))
    return tuple(out)


def _no_single(name: str, kind: pa.DataType) -> RowsError:
    return RowsError(
        f"keep names {name!r}, which has type {kind}; only single values come along. Make columns or a text of it."
    )


def _held(kind: pa.DataType | None) -> pa.DataType:
    """The type in which Python and Arrow hold values of a kept column."""
    if kind is None:
        return pa.null()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    return INTEGER if pa.types.is_temporal(kind) else kind


# --- Reading ----------------------------------------------------------------------------------------------------------


def read_kept(source: RowSource, query: Query, seen: Kept, *, sparse: bool) -> tuple[Objects | None, Kept]:
    """(n,) what else comes along with each row, and all names and types of the stream by now; `seen`: those so far.

    `sparse`: the rows need not have the columns. Nor need later rows, once a column was there.
    """
    types, columns = dict(seen), dict[str, pa.Array]()
    for name in _names(source, query, seen):
        if name not in source.names and not sparse and name not in types:
            source.require(name, "column to keep")  # an error, which names those there are
        column = source.optional(name)
        columns[name] = pa.nulls(source.length) if column is None else column
    for name, column in list(columns.items()):
        kind = single_type(column.type)
        if kind is not None:
            types[name] = _joined(types.get(name), plain_type(kind), name)
        elif query.keep is not True:
            raise _no_single(name, column.type)
        else:
            del columns[name]
    kept = tuple((name, types[name]) for name in dict.fromkeys((*types, *columns)))
    found = [columns[name] if name in columns else pa.nulls(source.length) for name, _ in kept]
    return (_tuples(found) if kept else None), (seen if kept == seen else kept)


def _names(source: RowSource, query: Query, seen: Kept) -> Sequence[str]:
    if query.keep is not True:
        return query.kept
    known = [name for name, _ in seen]
    there = query.keeping(dict.fromkeys((*known, *source.names))).kept  # an error, if one has a name that outputs add
    return [name for name in there if not name.startswith(_OWN)]


def _joined(old: pa.DataType | None, new: pa.DataType | None, name: str) -> pa.DataType | None:
    if old is not None and new is not None and {old, new} == {INTEGER, REAL}:
        return REAL
    return join_types(old, new, name)


def kept_of(columns: pa.RecordBatch, query: Query) -> Objects | None:
    """(n,) what else comes along with these rows of a stream; None: nothing does."""
    names, there = query.kept, columns.schema.names
    if not names:
        return None
    return _tuples([columns[name] if name in there else pa.nulls(columns.num_rows) for name in names])


def _tuples(columns: Sequence[pa.Array]) -> Objects:
    return objects_of(_as_held(column).to_pylist() for column in columns)


def objects_of(columns: Iterable[Sequence[Any]]) -> Objects:
    """(n,) tuples, one a row."""
    rows = list(zip(*columns, strict=True))
    return np.fromiter(rows, object, len(rows))


def _as_held(column: pa.Array) -> pa.Array:
    """The column in the type in which its values are held."""
    kind = single_type(column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type != kind:
        column = column.cast(kind, safe=False)  # nanoseconds are cut
    return column if column.type == _held(kind) else column.cast(_held(kind))


# --- Saving and showing -----------------------------------------------------------------------------------------------


def as_structs(kept: Objects | None, n: int, kinds: Kept) -> pa.StructArray:
    """What n rows keep, as a column of structs."""
    columns = [pa.array(each, _held(kind)) for each, (_, kind) in zip(_columns(kept, n, kinds), kinds, strict=True)]
    return pa.StructArray.from_arrays(columns, [name for name, _ in kinds])


def structs_of(columns: pa.RecordBatch, kinds: Kept) -> pa.StructArray:
    """What these rows of a stream keep, as a column of structs."""
    there, n = columns.schema.names, columns.num_rows
    found = [_as_held(columns[name]) if name in there else pa.nulls(n, _held(kind)) for name, kind in kinds]
    return pa.StructArray.from_arrays(found, [name for name, _ in kinds])


def from_structs(column: pa.StructArray) -> Objects:
    """The inverse of `as_structs`."""
    return objects_of(each.to_pylist() for each in column.flatten())


def shown(kept: Any, n: int, kinds: Kept) -> list[pa.Array]:
    """The columns as they came, of tuples or of structs."""
    if isinstance(kept, pa.StructArray):
        return [_as_came(each, kind) for each, (_, kind) in zip(kept.flatten(), kinds, strict=True)]
    cells = zip(_columns(kept, n, kinds), kinds, strict=True)
    return [_as_came(pa.array(each, _held(kind)), kind) for each, (_, kind) in cells]


def _as_came(column: pa.Array, kind: pa.DataType | None) -> pa.Array:
    return column if kind is None or column.type == kind else column.cast(kind)


def _columns(kept: Objects | None, n: int, kinds: Kept) -> list[list[Any]]:
    """The cells of each column. A row that came before a column was seen has a shorter tuple."""
    rows = [()] * n if kept is None else [each or () for each in kept.tolist()]
    columns = [[row[k] if k < len(row) else None for row in rows] for k in range(len(kinds))]
    for k, (_, kind) in enumerate(kinds):
        if kind == REAL:  # whole numbers may have come before
            columns[k] = [None if each is None else float(each) for each in columns[k]]
    return columns
