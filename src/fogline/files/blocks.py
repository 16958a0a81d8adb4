"""Text files as blocks of whole lines in UTF-8, packed or not, whatever their encoding.

Beside the rows of a file come a few columns: where a row was read, and why it cannot be.
"""

from __future__ import annotations

import codecs
import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Ints
from fogline.files.mark import WHOLE, Span

CORRUPT = "_corrupt_record"  # the text of a line that cannot be read, else null; Spark's own readers have it, too
WHY = "_fogline_why"  # why the line, or the whole file, cannot be read, else null
FILE = "_fogline_file"  # the file's name, as seen from the stream's path
LINE = "_fogline_line"  # the number of the line from 1 on, null where it is not known

ORIGIN = pa.schema([(CORRUPT, pa.string()), (WHY, pa.string()), (FILE, pa.string()), (LINE, pa.int64())])


# --- What a reader of one kind of file gives --------------------------------------------------------------------------


class BadLine(NamedTuple):
    """A line that cannot be read."""

    line: int | None
    text: str
    why: str


class Raw(NamedTuple):
    """Some rows of a file, in the columns that it has."""

    columns: Mapping[str, pa.Array]
    rows: int
    lines: Ints | None = None  # (n,) the line of each row; None: not known
    bad: tuple[BadLine, ...] = ()
    decimal: str = "."
    thousands: bool = False  # commas stand between thousands
    header: bool = False  # there are no rows here: it shows which columns the file has


class Unreadable(ValueError):
    """The file has no rows of this stream, for this reason."""


UNREADABLE = (ValueError, OSError, EOFError, KeyError, TypeError, OverflowError, RecursionError, pa.ArrowException)
_OF_THE_FILE = (None, 0, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EINVAL)


def reason_of(error: BaseException) -> str:
    """What is wrong with a file, in a few words; what is wrong with the disk is raised again."""
    if isinstance(error, OSError) and error.errno not in _OF_THE_FILE:
        raise error
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, UnicodeError):
        return f"its text is not {getattr(error, 'encoding', 'of its encoding')}; state its encoding"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"


# --- Text files as blocks of lines ------------------------------------------------------------------------------------
#
# A line ends with a line break, in quotes too: so each line has a number, and one that is broken harms no other. Bytes
# that cp1252 does not know stay in their line, so that it is refused. When a file breaks off (a torn gzip, bytes that
# another encoding does not know), the lines before come first, then the error; the line that broke off is not among
# them. Where a packed file is whole, but other bytes follow it, no line has broken off: all come before the error.
# Where the first line shows that carriage returns alone end lines (as old programs write them), they do so in all of
# the file.

SIZE = 8 * 2**20  # bytes of one block
STEP = 16 * 2**10  # bytes of a packed file that are unpacked at once
LONGEST = 64 * 2**20  # bytes of a line: a small packed file may hold one that no memory holds
HEAD = 256 * 2**10  # bytes that are looked at before a file is read
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
# What Arrow reports where a packed part is over and what follows begins no other: gzip, zstd, lz4, bz2.
_BEGINS_NOTHING = ("incorrect header check", "Unknown frame descriptor", "frameType_unknown", "BZ_DATA_ERROR_MAGIC")
_AS_THEY_ARE = "surrogateescape"  # bytes that cannot be read
_BOM = codecs.BOM_UTF8


class TornFile(Unreadable):
    """A packed file that can be unpacked only so far; `whole`: what came so far has not broken off."""

    def __init__(self, size: int, error: BaseException) -> None:
        why = " ".join(str(error).split())
        self.whole = any(each in why for each in _BEGINS_NOTHING)
        super().__init__(
            f"behind its first {size:,} bytes, unpacked, it is damaged, or goes on with other bytes ({why})"
        )


class Block(NamedTuple):
    """Whole lines."""

    data: bytes
    first: int  # the number of the first line, from 1 on

    def ends(self) -> Ints:
        """(lines,) where each line ends, before its line break."""
        breaks = np.flatnonzero(np.frombuffer(self.data, np.uint8) == 10)
        return breaks if self.data.endswith(b"\n") else np.append(breaks, len(self.data))


def opened(path: str, content: bytes | None) -> pa.NativeFile:
    """The bytes of a file, unpacked."""
    packed = _PACKED.get(Path(path).suffix.lower())
    source = pa.OSFile(path) if content is None else pa.BufferReader(content)
    return source if packed is None else pa.CompressedInputStream(source, packed)


def head_of(path: str, content: bytes | None, lines: int = 0) -> bytes:
    """The first bytes of a file, unpacked, and more if so many `lines` need them.

    Of a torn file those before the tear; an error if there are none.
    """
    found: list[bytes] = []
    size = breaks = 0
    with suppress(TornFile):
        for piece in _pieces(path, content, HEAD):
            found.append(piece)
            size, breaks = size + len(piece), breaks + piece.count(b"\n") + piece.count(b"\r")
            if breaks >= lines or size > LONGEST:
                break
    return b"".join(found)


def _pieces(path: str, content: bytes | None, size: int, span: Span = WHOLE) -> Iterator[bytes]:
    """The bytes of a file, unpacked, about so many at once; those before a tear come before its error."""
    found: list[bytes] = []
    held = total = 0
    with opened(path, content) as source:
        packed = isinstance(source, pa.CompressedInputStream)
        if span.begin:
            source.seek(span.begin)
        while True:
            left = size if span.end is None else min(size, span.end - span.begin - total)
            try:
                part = source.read(STEP if packed else left)
            except (OSError, pa.ArrowException) as error:
                if not packed or getattr(error, "errno", None):  # the disk
                    raise
                found.append(_up_to_the_tear(path, content, total))
                if not total + len(found[-1]):
                    raise
                yield b"".join(found)
                raise TornFile(total + len(found[-1]), error) from error
            found.append(part)
            held, total = held + len(part), total + len(part)
            if held >= size or not part:
                yield b"".join(found)
                found, held = [], 0
            if not part:
                return


def _up_to_the_tear(path: str, content: bytes | None, begin: int) -> bytes:
    """What a packed file still gives behind so many bytes: one by one, since a larger piece is refused as a whole."""
    found = bytearray()
    with suppress(OSError, pa.ArrowException), opened(path, content) as source:
        while begin:
            begin -= len(source.read(min(begin, STEP)))
        while len(found) < STEP:
            found += source.read(1)
    return bytes(found)


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder(encoding)(_AS_THEY_ARE if encoding == "cp1252" else "strict")


def _decoded(pieces: Iterable[bytes], decoder: codecs.IncrementalDecoder) -> Iterator[bytes]:
    """The pieces in UTF-8; what comes before bytes that cannot be read comes before their error."""
    for raw in pieces:
        state = decoder.getstate()
        try:
            text = decoder.decode(raw)
        except UnicodeDecodeError as error:
            decoder.setstate(state)
            yield decoder.decode(raw[: max(error.start - len(state[0]), 0)]).encode(errors=_AS_THEY_ARE)
            raise
        yield text.encode(errors=_AS_THEY_ARE)
    yield decoder.decode(b"", final=True).encode()


def blocks(path: str, content: bytes | None, encoding: str, size: int = SIZE, span: Span = WHOLE) -> Iterator[Block]:
    """The lines of a file, or of a part of it."""
    decoder = None if encoding in ("utf-8", "utf-8-sig") else _decoder(encoding)
    left, line, begun, returns = b"", span.lines + 1, span.begin > 0, False
    pieces = _pieces(path, content, size, span)
    try:
        for data in pieces if decoder is None else _decoded(pieces, decoder):
            if not begun and data:
                begun, data = True, data.removeprefix(_BOM)
                returns = b"\r" in data.partition(b"\n")[0][:-1]
            if returns:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            cut = data.rfind(b"\n") + 1
            if not cut:
                left += data
                if len(left) > LONGEST:
                    raise Unreadable(f"line {line:,} is longer than {LONGEST // 2**20} MB")
                continue
            whole = Block(left + data[:cut] if left else data[:cut], line)
            left = data[cut:]
            line += whole.data.count(b"\n")
            yield whole
    except TornFile as torn:
        if torn.whole and left:
            yield Block(left, line)
        raise
    if left:
        yield Block(left, line)
