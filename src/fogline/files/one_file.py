"""Which rows does a file hold?

`batches` reads one file of a stream, whatever is in it: lines that cannot be read come as rows with their text and the
reason, and a file that cannot be read gives, after what could be read of it, one such row for all of it. So all that is
wrong with files goes the way of rejects. Only what is wrong with the disk is an error, and a stream whose whole folder
is away: its rows are not lost, and are read when it is back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.files.blocks import SIZE
from fogline.files.delimited import read_delimited
from fogline.files.fitting import fitted, unread
from fogline.files.listing import folder_values, kind_of_file, name_in
from fogline.files.mark import WHOLE, Span
from fogline.files.objects import read_objects
from fogline.files.raw import UNREADABLE, Raw, Unreadable, reason_of
from fogline.files.settled import Layout

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
