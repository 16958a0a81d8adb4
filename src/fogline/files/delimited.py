"""Lines of cells (csv, tsv): how a file was written, found by looking at it, and its rows.

Each file is looked at by itself, so that files of one stream may differ. What the user has stated is not looked for.

- Encoding: as its byte order mark shows; UTF-16 where one byte of two is zero; UTF-8; and cp1252 where the bytes that
  are no UTF-8 are letters of western Europe there, and more than the letters of UTF-8 beside them. Other bytes that are
  no text are left for the rows to be refused.
- Separator: the one of , ; tab | by which the first line names the columns that the query looks at; else the one that
  gives the most columns, the same number in all lines.
- Decimal mark: a comma where more of the cells that the query compares are written 1,5 or 1.234.567 than 1.5. Where a
  comma is between cells, only those in quotes are looked at, and not those that may have one between thousands.
- Commas between thousands: where a cell of any column shows them (1,234.5 or 1,234,567), or the point is stated as the
  decimal mark. Else 1,234 beside points is left to be refused.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from fogline.files.blocks import HEAD, BadLine, Block, Raw, Unreadable, blocks, head_of
from fogline.files.mark import WHOLE, Span
from fogline.files.options import Options
from fogline.files.settled import Roles

SEPARATORS = (",", ";", "\t", "|")
LINES = 200  # that are looked at
_MARKS = (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")
_LETTERS = frozenset(
    b"\x80\x84\x85\x8a\x8e\x91\x92\x93\x94\x96\x97\x99\x9a\x9e\xa7\xa9\xaa\xae\xb0\xb1\xb2\xb3\xb5\xba\xbc\xbd"
)
_LETTERS |= frozenset(range(0xC0, 0xFE)) - {0xD7, 0xF7}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_SURE_COMMAS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})*,\d{3}(,\d{3}|\.\d+)")  # between thousands
_SURE_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3}){2}")  # millions; four parts are an address
_DOTTED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
_COMMA, _POINT = re.compile(r"[+-]?[\d.]*\d,\d+([eE][+-]?\d+)?"), re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


class Dialect(NamedTuple):
    """How one file is written."""

    encoding: str
    separator: str
    decimal: str
    names: tuple[str, ...]  # of its columns
    skipped: int  # lines before the first row
    thousands: bool = False  # commas stand between thousands

    def __str__(self) -> str:
        between = {"\t": "tab"}.get(self.separator, f"{self.separator!r}")
        thousands = " (thousands ',')" if self.thousands else ""
        return f"csv: separator {between}, decimal mark {self.decimal!r}{thousands}, encoding {self.encoding}"


def dialect_of(head: bytes, path: str, options: Options, asked: frozenset[str], numbers: frozenset[str]) -> Dialect:
    """How a file is written, by its first bytes. `asked`: columns of the query, `numbers`: those that it compares."""
    encoding = options.encoding or encoding_of(head)
    lines = _text(head, encoding).splitlines()[: LINES + 2]
    hint = re.fullmatch(r"sep=(.)", lines[0]) if lines else None  # as Excel writes it
    lines = lines[1:] if hint else lines
    separator = options.separator or (hint[1] if hint else _separator(lines, path, asked))
    rows = cells_of(lines, separator)
    first = [] if not rows else [cell.strip().encode(errors="replace").decode() for cell in rows[0]]
    header = options.header is not False
    names = tuple(first if header else (f"column{k + 1}" for k in range(len(first))))
    cells = _cells(rows[1:] if header else rows, names, separator, numbers)
    grouped = any(_SURE_COMMAS.fullmatch(cell.strip()) for cell in cells)
    decimal = options.decimal or _decimal(cells, quoted=separator == ",", grouped=grouped)
    thousands = decimal == "." and (grouped or options.decimal is not None)
    return Dialect(encoding, separator, decimal, names, (1 if hint else 0) + (1 if header else 0), thousands)


def encoding_of(head: bytes) -> str:
    """The encoding that the first bytes of a file show.

    >>> encoding_of("Höhe".encode("cp1252")), encoding_of("Höhe".encode()), encoding_of("s,t".encode("utf-16-le"))
    ('cp1252', 'utf-8', 'utf-16-le')
    """
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    few = head[:4096]
    pairs = list(zip(few[0::2], few[1::2], strict=False))
    if sum(low != 0 and high == 0 for low, high in pairs) > 0.4 * len(pairs):
        return "utf-16-le"
    if sum(low != 0 and high == 0 for high, low in pairs) > 0.4 * len(pairs):
        return "utf-16-be"
    text = _text(head, "utf-8")
    foreign = [ord(each) - 0xDC00 for each in re.findall("[\udc80-\udcff]", text)]
    letters = len(re.findall("[^\x00-\x7f\udc80-\udcff]", text))
    return "cp1252" if len(foreign) > letters and _LETTERS.issuperset(foreign) else "utf-8"


def _text(head: bytes, encoding: str) -> str:
    """The first bytes as text, without a last letter that was cut; bytes that are no text stay as surrogates."""
    errors = "surrogateescape" if encoding.startswith("utf-8") else "replace"
    return codecs.getincrementaldecoder(encoding)(errors).decode(head, final=len(head) < HEAD)


def cells_of(lines: list[str], separator: str) -> list[list[str]]:
    """The cells of lines, up to one that is too long to be looked at."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(csv.reader(lines, delimiter=separator))
    return rows


def _separator(lines: list[str], path: str, asked: frozenset[str]) -> str:
    usual = "\t" if ".tsv" in Path(path).name.lower() else ","

    def fits(separator: str) -> tuple[int, bool, int, bool]:
        rows = cells_of(lines, separator)
        counted = Counter(len(row) for row in rows if row)
        width, often = counted.most_common(1)[0] if counted else (0, 0)
        named = len(asked.intersection(cell.strip() for cell in rows[0])) if rows else 0
        alike = often > 0.9 * len(rows) and len(rows[0]) == width
        return named, alike, width, separator == usual

    return max((usual, *SEPARATORS), key=fits)


def _cells(rows: list[list[str]], names: tuple[str, ...], separator: str, numbers: frozenset[str]) -> list[str]:
    """The cells that show how numbers are written."""
    if separator == ",":
        rows = [row for row in rows if any("," in cell for cell in row)]  # in quotes
    where = [k for k, name in enumerate(names) if name in numbers] or list(range(len(names)))
    return [row[k].strip() for row in rows for k in where if k < len(row)]


def _decimal(cells: list[str], *, quoted: bool, grouped: bool) -> str:
    """The mark of most of these cells, without those that may have the other one between thousands."""
    dotted = any(map(_SURE_POINTS.fullmatch, cells))
    commas = [cell for cell in cells if not ((quoted or grouped) and _THOUSANDS.fullmatch(cell))]
    points = [cell for cell in cells if not (dotted and _DOTTED.fullmatch(cell))]
    most = sum(_COMMA.fullmatch(cell) is not None for cell in commas) + int(dotted)
    return "," if most > sum(_POINT.fullmatch(cell) is not None for cell in points) else "."


# --- Reading ----------------------------------------------------------------------------------------------------------
#
# In blocks of lines, each as columns of texts. A line that has not as many cells as the header, or a quote that is not
# closed, is put aside with its number and the reason; the others are read.

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
            null_values=[""],  # other null words are none in what names rows: see `files.one_file`
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
