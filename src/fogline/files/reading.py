"""All rows of a history, and the types of its columns where its files are texts.

A column is numbers where every cell of it is one (whole ones, if all are), instants where every cell is a timestamp,
and texts else; so all rows are looked at before any is cast, by one process or by many: what they find is joined. Names
stay texts: 007 is not 7. Times are read as a stream's are. What JSON and Parquet show of themselves is not looked at
again, but for what the query compares.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import FoglineError
from fogline.files.blocks import FILE, LINE, WHY
from fogline.files.cells import settled_type
from fogline.files.layout import layout_of
from fogline.files.listing import files_of
from fogline.files.one_file import batches
from fogline.files.options import Options
from fogline.files.settled import Layout
from fogline.query import Query
from fogline.repository.history import refuse_unheld
from fogline.rows.cells import is_text, read_numbers, unheld_texts
from fogline.rows.clock import ZONED, in_zone, read_times, write_times

NOTHING, WHOLE, NUMBER, STAMP, TEXT = "", "whole", "number", "stamp", "text"
Kinds = Mapping[str, str]  # column -> one of these
_WHOLE = r"^\s*[+-]?\d{1,18}\s*$"
_TYPES = {WHOLE: pa.int64(), NUMBER: pa.float64(), STAMP: ZONED, TEXT: pa.string(), NOTHING: pa.string()}


def open_columns(layout: Layout) -> list[str]:
    """The columns whose types are to be found."""
    roles = layout.roles
    texts = [field.name for field in layout.columns if is_text(field.type) and field.name not in roles.names]
    if layout.kind in ("json", "parquet"):
        return [name for name in texts if name in roles.numbers or name in roles.times]
    return texts


def kinds_of(batch: pa.RecordBatch, layout: Layout) -> dict[str, str]:
    """What the open columns of some rows hold."""
    readable = without_unreadable(batch)
    return {name: _kind(readable.column(name)) for name in open_columns(layout)}


def _kind(cells: pa.Array) -> str:
    there = cells.drop_null()
    if not len(there):
        return NOTHING
    if pc.all(pc.match_substring_regex(there, _WHOLE)).as_py():
        return WHOLE
    if not read_numbers(there)[1].any():
        return NUMBER
    for kind in (pa.timestamp("us"), ZONED):
        try:
            pc.utf8_trim_whitespace(there).cast(kind)
            return STAMP
        except pa.ArrowInvalid:
            continue
    return TEXT


def joined_kinds(found: Iterable[Kinds]) -> dict[str, str]:
    """What all rows together hold.

    >>> joined_kinds([{"a": "whole", "b": "number"}, {"a": "number", "b": "text"}, {"a": "", "b": ""}])
    {'a': 'number', 'b': 'text'}
    """
    out: dict[str, str] = {}
    for each in found:
        for name, kind in each.items():
            known = out.setdefault(name, kind)
            if NOTHING in (known, kind):
                out[name] = known or kind
            elif known != kind:
                out[name] = NUMBER if {known, kind} == {WHOLE, NUMBER} else TEXT
    return out


def history_schema(layout: Layout, kinds: Kinds) -> pa.Schema:
    """The columns that `typed` gives."""
    return pa.schema([(field.name, _type(field, layout, kinds)) for field in layout.columns])


def _type(field: pa.Field, layout: Layout, kinds: Kinds) -> pa.DataType:
    if field.name not in kinds:
        return field.type
    if layout.clock and field.name in layout.roles.times[:2]:
        return ZONED if layout.clock == "timestamp" else _TYPES[WHOLE if kinds[field.name] == WHOLE else NUMBER]
    return _TYPES[kinds[field.name]]


def typed(batch: pa.RecordBatch, layout: Layout, kinds: Kinds) -> pa.RecordBatch:
    """Rows in these types, without those that cannot be read."""
    schema, rows = history_schema(layout, kinds), without_unreadable(batch)
    columns = [_cast(rows.column(field.name), field.name, field.type, layout.roles.numbers) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(cells: pa.Array, name: str, kind: pa.DataType, attributes: Container[str]) -> pa.Array:
    if cells.type == kind:
        return cells
    if pa.types.is_timestamp(kind):
        times = read_times(cells, name, kind)
        return pc.if_else(pa.array(np.isfinite(times.value)), write_times(np.nan_to_num(times.value), kind), None)
    if pa.types.is_integer(kind):
        return pc.utf8_ltrim(pc.utf8_trim_whitespace(cells), "+").cast(kind)
    values = read_numbers(cells)[0]
    if name in attributes:
        refuse_unheld(cells, unheld_texts(cells, values), name)
    return pa.array(values, mask=np.isnan(values) & cells.is_null().to_numpy(zero_copy_only=False))


def without_unreadable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that could be read."""
    why = batch.column(WHY)
    return batch if why.null_count == len(why) else batch.filter(why.is_null())


def unreadable(batch: pa.RecordBatch) -> list[str]:
    """What could not be read, in words."""
    if batch.column(WHY).null_count == batch.num_rows:
        return []
    bad = batch.filter(batch.column(WHY).is_valid()).select([FILE, LINE, WHY]).to_pylist()
    return [f"{row[FILE]}{'' if row[LINE] is None else f', line {row[LINE]}'}: {row[WHY]}" for row in bad]


def left_out(found: list[str]) -> str:
    """A sentence about lines of a history that could not be read."""
    return f"{len(found):,} lines cannot be read and are left out, such as {found[0]}."


# --- All rows of a history --------------------------------------------------------------------------------------------

__all__ = ["batches", "table"]


def table(
    path: str,
    query: Query | None,
    options: Options,
    remark: Callable[[str], None] = lambda text: None,
    *,
    zoned: bool = False,
) -> pa.Table:
    """All rows of files: numbers where a column is numbers, names as texts, times as a stream's; see `files.reading`.

    What cannot be read is left out, and `remark` gets to know it. `zoned`: times are in the zone that they carry.
    """
    layout = layout_of(path, query, options, remark=remark, history=True)
    read = [batch for file in files_of(path) for batch in batches(str(file), layout)]
    kinds = joined_kinds(kinds_of(batch, layout) for batch in read)
    bad = [text for batch in read for text in unreadable(batch)]
    if bad:
        remark(left_out(bad))
    found = pa.Table.from_batches([typed(batch, layout, kinds) for batch in read], history_schema(layout, kinds))
    for name in layout.roles.times if zoned else ():
        if name in found.schema.names:
            found = found.set_column(found.schema.names.index(name), name, in_zone(found[name], layout.zone))
    return found


# --- Tables of a lake -------------------------------------------------------------------------------------------------
#
# Which rows does a table of a lake hold? `delta:PATH`, read by delta-rs, in this process.

DELTA, JDBC = "delta:", "jdbc:"


def is_table(path: str) -> bool:
    """Whether this names a table, and not files."""
    return path.startswith((DELTA, JDBC))


def delta_table(path: str) -> pa.Table:
    """All rows of a Delta table, in types as files have them; decimals are numbers."""
    if find_spec("deltalake") is None:
        raise FoglineError(
            "to read a Delta table needs deltalake, which is not installed: pip install 'fogline[delta]'"
        )
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    where = path.removeprefix(DELTA)
    if "://" not in where and not Path(where, "_delta_log").is_dir():
        raise FoglineError(f"{where!r} is no Delta table: it has no folder _delta_log.")
    try:
        found = DeltaTable(where).to_pyarrow_table()
    except (DeltaError, OSError) as error:
        raise FoglineError(f"{where!r} cannot be read as a Delta table: {' '.join(str(error).split())[:300]}") from None
    schema = pa.schema([(field.name, _plain(field.type)) for field in found.schema])
    return found.cast(schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_decimal(kind) else settled_type(kind)
