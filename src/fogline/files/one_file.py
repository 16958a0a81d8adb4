"""The rows of one file, in the columns of the stream.

By name, so the order of columns does not matter; columns of the file that the stream does not have are left out, those
that it lacks are missing. Cells are written the usual way and cast (`files.cells`). A cell of a column that the query
looks at and that does not fit refuses its row; others become null. So do null words, but in what names rows and groups:
there `-` is a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.files.blocks import CORRUPT, FILE, LINE, SIZE, UNREADABLE, WHY, Raw, Unreadable, head_of, reason_of
from fogline.files.cells import as_instants, cast, unfit, with_point, without_nulls, without_thousands
from fogline.files.delimited import read_delimited
from fogline.files.listing import PACKED as ENDS
from fogline.files.listing import files_of, folder_values, is_local, kind_of_file, name_in, root_of, size_of
from fogline.files.mark import WHOLE, Span
from fogline.files.objects import read_objects
from fogline.files.settled import Layout
from fogline.rows.cells import Reasons, is_text, mended
from fogline.show import quoted

if TYPE_CHECKING:
    from fogline.files.settled import Layout


def fitted(raw: Raw, layout: Layout, file: str | pa.Array, stated: Mapping[str, str]) -> pa.RecordBatch:
    """The rows in the columns of the layout. `stated`: what the names of folders say of all rows of the file.

    `file`: its name, or one for each row.
    """
    why: Reasons = {}
    stated = {**(layout.options.constants or {}), **stated}
    columns = [_column(raw, field, layout, stated, why) for field in layout.columns]
    reasons = pa.nulls(raw.rows, pa.string())
    if why:
        reasons = pa.array([why.get(i) for i in range(raw.rows)], pa.string())
    lines = pa.nulls(raw.rows, pa.int64()) if raw.lines is None else pa.array(raw.lines, pa.int64())
    columns += [pa.nulls(raw.rows, pa.string()), reasons, _named(file, raw.rows), lines]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema)


def _column(raw: Raw, field: pa.Field, layout: Layout, stated: Mapping[str, str], why: Reasons) -> pa.Array:
    name = field.name
    given = raw.columns.get(name)
    if given is None:
        value = stated.get(name)
        if value is None:
            return pa.nulls(raw.rows, field.type)
        given = pa.repeat(value, raw.rows)
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if is_text(given.type):
        given = _usual(_as_text(given, name, layout, why), name, raw, layout)
    if name not in layout.roles.names:
        stated_words = () if name in layout.roles.times else layout.options.nulls or ()
        given = without_nulls(given, stated_words)
    names_rows = name in layout.roles.names and name in layout.roles.required
    if names_rows and pa.types.is_boolean(given.type) and not _takes_truth(field.type):
        out, bad = pa.nulls(raw.rows, field.type), given.is_valid().to_numpy(zero_copy_only=False)  # True is not 1
    else:
        out, bad = cast(given, field.type, layout.options.zone if name in layout.roles.times else None)
    if bad is not None and name in layout.roles.all:
        for i in np.flatnonzero(bad).tolist():
            why.setdefault(i, f"{name!r} is {quoted(given[i].as_py())}, {unfit(given.type, field.type)}")
    return out


def _takes_truth(kind: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(kind) or is_text(kind))


def _as_text(given: pa.Array, name: str, layout: Layout, why: Reasons) -> pa.Array:
    """Texts whose bytes are texts; a row that the query would look at with others is refused."""
    whole, changed = mended(given)
    if changed is not None and name in layout.roles.all:
        for i in np.flatnonzero(changed).tolist():
            why.setdefault(i, f"{name!r} holds bytes that are not UTF-8 text")
    return whole


def _usual(given: pa.Array, name: str, raw: Raw, layout: Layout) -> pa.Array:
    """Texts as others write them."""
    roles, options = layout.roles, layout.options
    instants = name in roles.times and layout.clock != "number"
    if name not in roles.names and not instants:
        if raw.decimal == ",":
            given = with_point(given, strict=name in roles.numbers or name in roles.times)
        else:
            given = without_thousands(given, shown=raw.thousands)
    if instants and (options.time_format or options.zone):
        given = as_instants(given, options.time_format, options.zone)
    return given


def _named(file: str | pa.Array, rows: int) -> pa.Array:
    return pa.repeat(file, rows) if isinstance(file, str) else file


def unread(layout: Layout, file: str | pa.Array, bad: list[tuple[int | None, str, str]]) -> pa.RecordBatch:
    """Lines that cannot be read, as rows that have nothing but their text and the reason: (line, text, reason)."""
    n = len(bad)
    beside = {
        CORRUPT: pa.array([text for _, text, _ in bad], pa.string()),
        WHY: pa.array([why for *_, why in bad], pa.string()),
        FILE: _named(file, n),
        LINE: pa.array([line for line, *_ in bad], pa.int64()),
    }
    columns = [beside[field.name] if field.name in beside else pa.nulls(n, field.type) for field in layout.schema]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema)


# --- Reading one file -------------------------------------------------------------------------------------------------
#
# `batches` reads one file of a stream, whatever is in it: lines that cannot be read come as rows with their text and
# the reason, and a file that cannot be read gives, after what could be read of it, one such row for all of it. So all
# that is wrong with files goes the way of rejects. Only what is wrong with the disk is an error, and a stream whose
# whole folder is away: its rows are not lost, and are read when it is back.

ROWS = 65_536  # of a Parquet file at once, …
BUFFER = 2**20  # … and bytes of each of its columns


def batches(
    path: str, layout: Layout, *, content: bytes | None = None, size: int = SIZE, span: Span = WHOLE
) -> Iterator[pa.RecordBatch]:
    """The rows of one file in the columns of `layout.schema`; nothing, if it is no file of the stream.

    `content`: what is in it, where the path is not on this machine. `size`: bytes of text that are read at once.
    `span`: the part that is read, of a file of lines.
    """
    kind = kind_of_file(path, layout.root)
    if kind is None or _is_empty(path, content):
        return
    file, stated = name_in(path, layout.root), folder_values(path, layout.root)
    try:
        for raw in _raw(path, content, kind, layout, size, span):
            known = {*raw.columns, *stated, *(layout.options.constants or ())}
            lacking = [name for name in layout.roles.required if name not in known]
            if lacking and kind != "json" and (raw.rows or raw.header):
                there = ", ".join(name for name in raw.columns) or "none"
                raise Unreadable(f"it has no column {lacking[0]!r}; of the stream's it has {there}")
            if raw.rows:
                yield fitted(raw, layout, file, stated)
            if raw.bad:
                yield unread(layout, file, list(raw.bad))
    except UNREADABLE as error:
        if isinstance(error, FileNotFoundError) and (Path(path).exists() or not Path(layout.root).exists()):
            raise FoglineError(
                f"the folder of the stream, {layout.root!r}, is away, or was for a moment, and with it {file!r}, which "
                "was to be read. When it is back, the same command reads it, and goes on."
            ) from error
        yield unread(layout, file, [(None, "", f"the file cannot be read: {reason_of(error)}")])


def _is_empty(path: str, content: bytes | None) -> bool:
    """Whether there is not one byte: such a file holds no rows, and nothing is wrong with it."""
    if content is not None:
        return not content
    try:
        return Path(path).stat().st_size == 0
    except OSError:
        return False


def _raw(path: str, content: bytes | None, kind: str, layout: Layout, size: int, span: Span) -> Iterator[Raw]:
    columns = frozenset(layout.columns.names)
    if kind == "parquet":
        return _parquet(path, content, columns)
    if kind == "json":
        return read_objects(path, content, layout.options, layout.columns, size, span)
    return read_delimited(path, content, layout.options, layout.roles, columns, size, span)


def _parquet(path: str, content: bytes | None, columns: frozenset[str]) -> Iterator[Raw]:
    source = path if content is None else pa.BufferReader(content)
    # Not mapped: a file that is cut short meanwhile, or a disk that fails, would end the process without a word.
    with pq.ParquetFile(source, pre_buffer=False, buffer_size=BUFFER) as file:
        there, left = [name for name in file.schema_arrow.names if name in columns], file.metadata.num_rows
        for batch in file.iter_batches(ROWS, columns=there or file.schema_arrow.names[:1]):
            yield Raw({name: batch.column(name) for name in there}, batch.num_rows)
            left -= batch.num_rows
        if left > 0:  # Arrow takes the end of a file for the end of its rows
            raise Unreadable(f"it was cut short while it was being read: {left:,} of its rows are not there")


# --- How long a row is ------------------------------------------------------------------------------------------------
#
# Of Parquet the footers state it. Of text the beginning of a few files shows it; a packed one is taken to be five times
# as long, unpacked.

LOOKED = 5  # files that are looked at
PACKED = 5  # times that a packed file is longer, unpacked


def bytes_per_row(path: str) -> float | None:
    """Of the files of a stream; None: nothing there shows it."""
    files = files_of(path) if is_local(path) else []
    some = files[:: -(-len(files) // LOOKED)] if files else []
    size = rows = 0.0
    for each in some:
        with suppress(OSError, pa.ArrowException):  # what cannot be read is a reject, later
            counted = rows_of(str(each), root_of(path))
            if counted:
                size, rows = size + size_of(each), rows + counted
    return size / rows if rows else None


def rows_of(file: str, root: str) -> float:
    """How many rows a file has, about; 0 of one without a byte."""
    if kind_of_file(file, root) == "parquet":
        return float(pq.read_metadata(file).num_rows)
    head, whole = head_of(file, None), size_of(Path(file))
    if not head:
        return 0.0
    whole *= PACKED if Path(file).suffix.lstrip(".").lower() in ENDS else 1
    lines = max(head.count(b"\n"), 1)
    return lines if whole <= len(head) else lines * whole / len(head)
