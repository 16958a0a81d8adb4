"""How was this file written: in which encoding, with what between cells, and which mark in numbers?

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
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fogline.files.blocks import HEAD
from fogline.files.options import Options

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
        between = {"\t": "tabs"}.get(self.separator, f"{self.separator!r}")
        thousands = " and ',' between thousands" if self.thousands else ""
        return f"csv with {between} between cells, {self.decimal!r} in numbers{thousands}, {self.encoding}"


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
