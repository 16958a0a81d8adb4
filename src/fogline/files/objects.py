"""How are JSON lines read, and arrays of JSON objects?

A block of lines at once; where that fails, since a line is torn or a cell is a number here and a text there, line by
line, so that one bad line is put aside with its number and the others are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from fogline.arrays import Ints
from fogline.files.blocks import BadLine, Block, Raw, Unreadable, blocks, head_of
from fogline.files.cells import as_text
from fogline.files.delimited import encoding_of
from fogline.files.mark import WHOLE, Span
from fogline.files.options import Options
from fogline.rows.cells import is_text
from fogline.show import quoted

LINES = 500  # of a file that show its columns
ARRAY = 256 * 2**20  # bytes of a JSON array, which is read as a whole
DEEP = 1000  # opening brackets in one line: with ten times as many nested ones Arrow's parser ends the process
_SURE = 2**53  # numbers below are the same as float64
_WORDS = {list: "an array", str: "a text", bool: "a truth value", type(None): "null"}


def read_objects(
    path: str, content: bytes | None, options: Options, schema: pa.Schema, size: int, span: Span = WHOLE
) -> Iterator[Raw]:
    """The rows of a file, in the columns of the schema; so many bytes are read at once."""
    head = head_of(path, content)
    encoding = options.encoding or encoding_of(head)
    if _is_array(head):
        if span.begin:
            raise Unreadable("lines were added behind a JSON array, which is a whole; write an object per line")
        yield from_objects(_objects(_whole(path, content, encoding)), schema, None)
        return
    texts = {field.name for field in schema if is_text(field.type)}
    inferred: set[str] = set()
    for block in blocks(path, content, encoding, size, span):
        found = at_once(block, schema, texts, inferred)
        yield _line_by_line(block, schema) if found is None else found


def sample_of(path: str, content: bytes | None, options: Options) -> list[dict[str, Any]]:
    """The first objects of a file; lines that are none are left out."""
    head = head_of(path, content)
    encoding = options.encoding or encoding_of(head)
    if _is_array(head):
        return _objects(_whole(path, content, encoding))[:LINES]
    found = []
    for block in blocks(path, content, encoding, size=len(head) or 1):
        for line in block.data.splitlines()[:LINES]:
            try:
                each = json.loads(line)
            except (ValueError, RecursionError):
                continue
            found += [each] if isinstance(each, dict) else []
        break
    if not found:
        raise Unreadable("it has no JSON object in its first lines")
    return found


def _whole(path: str, content: bytes | None, encoding: str) -> bytes:
    """All of a file that must be read at once."""
    found = bytearray()
    for block in blocks(path, content, encoding):
        found += block.data
        if len(found) > ARRAY:
            raise Unreadable(f"it is a JSON array of more than {ARRAY // 2**20} MB; write an object per line")
    return bytes(found)


def _is_array(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def _objects(data: bytes) -> list[dict[str, Any]]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is a JSON array that breaks off or is none: {error}") from None
    if not all(isinstance(each, dict) for each in found):
        raise Unreadable("it is a JSON array, but not of objects")
    return list(found)


def at_once(block: Block, schema: pa.Schema, texts: set[str], stamps: set[str]) -> Raw | None:
    """The rows of a block; None: they must be read line by line. `stamps`: texts that look like instants, so far."""
    ends = block.ends()
    begins = np.concatenate(([0], ends[:-1] + 1))
    filled = (ends - begins) > 1  # a blank line may still have its carriage return
    if _is_deep(block.data, begins, ends):
        return None
    try:
        table = _parsed(block, stamps)
        again = {field.name for field in table.schema if pa.types.is_timestamp(field.type)}
        if again:
            stamps |= again
            table = _parsed(block, stamps)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != int(filled.sum()):
        return None
    columns = {}
    for field in schema:
        if field.name in table.schema.names:
            column = table.column(field.name).combine_chunks()
            column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
            if _rounded(column, field.type) or (pa.types.is_nested(column.type) and field.name in texts):
                return None
            columns[field.name] = column
    return Raw(columns, table.num_rows, np.flatnonzero(filled) + block.first)


def _is_deep(data: Any, begins: Ints, ends: Ints) -> bool:
    """Whether a line may be nested so deeply that it must not be parsed as the others are."""
    raw = np.frombuffer(data, np.uint8)
    return any(
        int(np.isin(raw[begins[i] : ends[i]], (ord("["), ord("{"))).sum()) > DEEP
        for i in np.flatnonzero(ends - begins > DEEP).tolist()
    )


def _rounded(column: pa.Array, kind: pa.DataType) -> bool:
    """Whether whole numbers may have been rounded, since others of their block are none."""
    if not pa.types.is_floating(column.type) or pa.types.is_floating(kind):
        return False
    values = column.to_numpy(zero_copy_only=False)
    return bool((np.abs(values) >= _SURE).any())


def _parsed(block: Block, texts: set[str]) -> pa.Table:
    known = pa.schema([(name, pa.string()) for name in sorted(texts)])
    return pa_json.read_json(
        pa.BufferReader(block.data),
        pa_json.ReadOptions(use_threads=False, block_size=len(block.data) + 1),
        pa_json.ParseOptions(explicit_schema=known, unexpected_field_behavior="infer"),
    )


def _line_by_line(block: Block, schema: pa.Schema) -> Raw:
    rows, lines, bad = [], [], []
    for k, line in enumerate(block.data.split(b"\n")):
        if not line.strip():
            continue
        text = line.decode("utf-8", "replace").rstrip("\r")
        try:
            rows.append(as_object(line))
            lines.append(block.first + k)
        except (ValueError, RecursionError):
            bad.append(BadLine(block.first + k, text, "the line cannot be read: it is no JSON object"))
    return from_objects(rows, schema, np.array(lines, np.int64))._replace(bad=tuple(bad))


def as_object(text: bytes) -> dict[str, Any]:
    """One JSON object; ValueError or RecursionError: it is none."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"it is {_WORDS.get(type(found), 'a number')}")
    return found


def from_objects(rows: list[dict[str, Any]], schema: pa.Schema, lines: Any) -> Raw:
    """The objects in the columns of the schema."""
    columns = {field.name: _column([row.get(field.name) for row in rows], field.type) for field in schema}
    return Raw(columns, len(rows), lines)


def _column(cells: list[Any], kind: pa.DataType) -> pa.Array:
    """Cells of any sort: in the type if all fit, else as texts."""
    if not is_text(kind):
        try:
            return pa.array(cells)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass
    return pa.array([None if cell is None else _shown(cell) for cell in cells], pa.string())


def _shown(cell: Any) -> str:
    try:
        text = as_text(cell) or ""
        return text if text.isascii() else text.encode("utf-8", "replace").decode()
    except (ValueError, RecursionError):
        return quoted(cell)


def type_of(cells: list[Any]) -> pa.DataType:
    """The type that JSON values show: mixed ones are texts."""
    there = [cell for cell in cells if cell is not None]
    if any(isinstance(cell, str) for cell in there):
        return pa.string()
    try:
        return pa.array(there).type if there else pa.string()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.string()
