"""How are lines of cells read: csv, tsv, and what else has something between its cells?

In blocks of lines, each as columns of texts. A line that has not as many cells as the header, or a quote that is not
closed, is put aside with its number and the reason; the others are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from fogline.files.blocks import Block, blocks, head_of
from fogline.files.mark import WHOLE, Span
from fogline.files.options import Options
from fogline.files.raw import BadLine, Raw, Unreadable
from fogline.files.roles import Roles
from fogline.files.sniffing import Dialect, cells_of, dialect_of, encoding_of

OPEN = "it has a quote that is not closed"
_QUOTE = 34
_NONE = pa.array([], pa.string())
_PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"\x04\x22\x4d\x18": ".lz4", b"PK\x03\x04": ".zip"}


def opened_dialect(path: str, content: bytes | None, options: Options, roles: Roles) -> Dialect:
    """How a file is written; an error if it has nothing of the stream."""
    head = head_of(path, content, lines=2)  # a header is read whole, behind a line that states the separator
    if not head.strip():
        raise Unreadable("it has no line with columns")
    for begin, end in _PACKED.items():
        if head.startswith(begin):
            raise Unreadable(f"its bytes are packed as those of {end} files, which its name does not show")
    if options.encoding is None and (head.startswith(b"\0\0") or head == b"\0"):
        raise Unreadable("it begins with zero bytes, as files do after a power cut")
    found = dialect_of(head, path, options, roles.all, frozenset(roles.numbers))
    if not found.names:
        raise Unreadable("its first line is too long to name columns")
    twice = [name for name in roles.all if found.names.count(name) > 1]
    if twice:
        raise Unreadable(f"it has the column {twice[0]!r} twice")
    return found


def read_delimited(
    path: str,
    content: bytes | None,
    options: Options,
    roles: Roles,
    wanted: frozenset[str],
    size: int,
    span: Span = WHOLE,
) -> Iterator[Raw]:
    """The rows of a file. `wanted`: the columns that are needed; `size`: bytes that are read at once."""
    dialect = opened_dialect(path, content, options, roles)
    yield Raw({name: _NONE for name in dialect.names if name in wanted}, 0, header=True)
    skipped = max(dialect.skipped - span.lines, 0)
    found = blocks(path, content, dialect.encoding, size, span)
    if options.encoding is None and dialect.encoding == "utf-8":
        found = _western(found)
    for block in found:
        rest, skipped = _behind(block, skipped)
        if rest.data:
            yield _rows(rest, dialect, wanted)


def _western(found: Iterable[Block]) -> Iterator[Block]:
    """The blocks; those from the first on that shows cp1252 are read as such, unless letters in UTF-8 came before."""
    western = letters = False
    for block in found:
        if not western and not letters and not block.data.isascii():
            western = encoding_of(block.data) == "cp1252"
            letters = not western
        yield Block(block.data.decode("cp1252", "backslashreplace").encode(), block.first) if western else block


def _behind(block: Block, skipped: int) -> tuple[Block, int]:
    """The block without its first lines, and how many are still to be left out."""
    at, left = 0, skipped
    while left and at < len(block.data):
        end = block.data.find(b"\n", at)
        at, left = (len(block.data) if end < 0 else end + 1), left - 1
    return (block if not at else Block(block.data[at:], block.first + skipped - left)), left


def _rows(block: Block, dialect: Dialect, wanted: frozenset[str], *, closely: bool = False) -> Raw:
    """The rows of a block. `closely`: each line with quotes, or with bytes that are no text, is looked at by itself."""
    ends = block.ends()
    begins = np.concatenate(([0], ends[:-1] + 1))
    lines, bad = np.arange(block.first, block.first + len(ends)), []
    data = block.data
    quotes, closely = b'"' in data, closely or not _is_text(data)  # Arrow cannot report a line that is no text
    amiss = _amiss(data, begins, ends, dialect) if closely else dict.fromkeys(_odd(data, ends) if quotes else (), OPEN)
    if amiss:
        for i, why in amiss.items():
            text = data[begins[i] : ends[i]].decode("utf-8", "replace").rstrip("\r")
            bad.append(BadLine(int(lines[i]), text, f"the line cannot be read: {why}"))
        odd = np.isin(np.arange(len(lines)), list(amiss))
        kept = np.repeat(~odd, np.diff(np.concatenate(([0], ends + 1))))[: len(data)]
        data = np.frombuffer(data, np.uint8)[kept].tobytes()
        begins, ends, lines = begins[~odd], ends[~odd], lines[~odd]
    size = ends - begins
    blank = size == 0
    one = np.flatnonzero(size == 1)
    if len(one):
        blank[one] = np.frombuffer(block.data, np.uint8)[begins[one]] == 13
    lines = lines[~blank]
    if not len(lines):
        return Raw({}, 0, lines, tuple(bad), dialect.decimal, dialect.thousands)
    table, misfits = _parsed(data, dialect, wanted)
    if quotes and not closely and table.num_rows + len(misfits) < len(lines):  # a line has taken in others
        return _rows(block, dialect, wanted, closely=True)
    known = table.num_rows + len(misfits) == len(lines)
    for row, text, cells in misfits:
        why = f"the line cannot be read: {_too(cells, dialect)}"
        bad.append(BadLine(int(lines[row - 1]) if known else None, text, why))
    fitting = np.delete(lines, [row - 1 for row, *_ in misfits]) if known else None
    return Raw(_in_one(table, dialect), table.num_rows, fitting, tuple(bad), dialect.decimal, dialect.thousands)


def _too(cells: int, dialect: Dialect) -> str:
    return f"it has {cells} cells, and the file {len(dialect.names)} columns"


def _is_text(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _odd(data: bytes, ends: Any) -> list[int]:
    """The lines that have an odd number of quotes, by their places."""
    quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE)
    counted = np.bincount(np.searchsorted(ends, quotes), minlength=len(ends))
    found: list[int] = np.flatnonzero(counted % 2).tolist()
    return found


def _amiss(data: bytes, begins: Any, ends: Any, dialect: Dialect) -> dict[int, str]:
    """What is wrong with lines, by their places: they end within quotes, which only a quote at the start of a cell
    opens, or they do not fit and hold bytes that are no text."""
    mark = re.escape(dialect.separator.encode())
    cell = rb'(?>"(?>[^"]|"")*+"[^%b]*+|(?!")[^%b]*+)' % (mark, mark)
    whole = re.compile(rb"%b(?>%b%b)*+" % (cell, mark, cell), re.DOTALL)
    found = {}
    for k, (i, j) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        line = data[i:j].removesuffix(b"\r")
        if b'"' in line and whole.fullmatch(line) is None:
            found[k] = OPEN
        elif not _is_text(line):
            cells = sum(map(len, cells_of([line.decode(errors="replace")], dialect.separator)))
            if b"\r" in line or cells != len(dialect.names):
                found[k] = _too(cells, dialect)
    return found


def _parsed(data: bytes, dialect: Dialect, wanted: frozenset[str]) -> tuple[pa.Table, list[tuple[int, str, int]]]:
    """The cells as texts, by the numbers of their columns; and lines that do not fit: row, text, cells."""
    misfits: list[tuple[int, str, int]] = []

    def put_aside(row: Any) -> str:
        misfits.append((row.number, row.text, row.actual_columns))
        return "skip"

    keys = [str(k) for k in range(len(dialect.names))]
    chosen = [key for key, name in zip(keys, dialect.names, strict=True) if name and name in wanted]
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(use_threads=False, column_names=keys, block_size=len(data) + 1),
        pa_csv.ParseOptions(delimiter=dialect.separator, invalid_row_handler=put_aside),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(keys, pa.string()),
            include_columns=chosen or keys[:1],
            null_values=[""],  # other null words are none in what names rows: see `files.fitting`
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            check_utf8=False,
        ),
    )
    return table, misfits


def _in_one(table: pa.Table, dialect: Dialect) -> Mapping[str, pa.Array]:
    """Each column in one piece; of columns of one name the first."""
    columns: dict[str, pa.Array] = {}
    for key, column in zip(table.schema.names, table.columns, strict=True):
        whole = column.combine_chunks()
        columns.setdefault(dialect.names[int(key)], whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole)
    return columns
