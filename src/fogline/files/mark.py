"""Is a file that was read, in part or as a whole, still the one that it was, and which part of it is to be read?

It is known by its *mark*: how long it was, and a checksum of so many bytes. A file that begins with the same bytes is
the same, whatever its path and its times are, and if it has become longer: the rows that were taken are those that are
skipped. Of another one they are not. (Of a large file the checksum is of pieces, as that of an array is.)

Of a file of lines that ends with a line break a *span* is read, up to that line break: what is added behind it
meanwhile, or later, is another span. Of other files it is not known where their lines end: they are read once.
"""

from __future__ import annotations

import codecs
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fogline.durable import checksum
from fogline.errors import FoglineError
from fogline.files.listing import PACKED

PART = 2**20  # bytes that are looked at together


class FileMark(NamedTuple):
    """By what a file is known."""

    size: int  # bytes
    checksum: int  # of so many


def mark_of(path: str) -> FileMark | None:
    """By what a file is known as it is now; None: it is not there, or cannot be read."""
    with suppress(OSError):
        size = os.path.getsize(path)
        return FileMark(size, checksum(Path(path), size))
    return None


def is_same(path: str, mark: FileMark | None) -> bool:
    """Whether a file begins with the bytes that it had; None: it could not be read, and cannot be now."""
    if mark is None:
        return mark_of(path) is None
    with suppress(OSError):
        return os.path.getsize(path) >= mark.size and checksum(Path(path), mark.size) == mark.checksum
    return False


class Span(NamedTuple):
    """The part of a file of lines that is read."""

    begin: int = 0  # bytes before it, …
    lines: int = 0  # … and lines
    end: int | None = None  # bytes up to its last line break; None: to the end of the file, wherever that is
    checksum: int = 0  # of so many


WHOLE = Span()


def added_to(path: str, before: Span = WHOLE) -> Span | None:
    """What stands in a file of lines behind what was read before; None: no whole lines alone, or it is another file."""
    if Path(path).suffix.lower().removeprefix(".") in PACKED:
        return None
    begin = before.end or 0
    with suppress(OSError), open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size
        if end > begin and _ends_a_line(file, end) and (not begin or checksum(Path(path), begin) == before.checksum):
            lines = before.lines + _count(file, before.begin, begin)
            return Span(begin, lines, end, checksum(Path(path), end))
    return None


def _ends_a_line(file: BinaryIO, end: int) -> bool:
    """Whether the last byte is a line break; where letters have several bytes each, that is not known."""
    head = file.read(4)
    wide = b"\0" in head or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    file.seek(end - 1)
    return file.read(1) == b"\n" and not wide


def _count(file: BinaryIO, begin: int, end: int) -> int:
    """The lines between two places of a file."""
    file.seek(begin)
    count = 0
    while end > begin and (part := file.read(min(end - begin, PART))):
        count, begin = count + part.count(b"\n"), begin + len(part)
    return count


class _Seen(NamedTuple):
    """A file as its folder shows it: as long as that is the same, nothing was written to it."""

    node: int
    size: int
    times: tuple[int, int]


class MarkedFile:
    """A file that is read, maybe in parts. It is looked into only where it was touched since the last look.

    Of one that was read before, its mark is given; a new one is as it is when this is made.
    """

    def __init__(self, path: str, mark: FileMark | None = None) -> None:
        self.path, self.is_new = path, mark is None  # new: no rows of it were taken before
        self.known = _seen(path) if mark is None else None  # when the mark was right
        self.mark = mark_of(path) if mark is None else mark

    def check(self) -> None:
        """An error, if it does not begin with the bytes that it had; one that is there no longer is no other one."""
        seen, mark = _seen(self.path), self.mark
        if seen is None or mark is None or seen == self.known:
            return
        if not is_same(self.path, mark):
            raise _changed_meanwhile(self.path) if self.is_new else _changed(self.path)
        self.known = seen

    def note(self) -> FileMark | None:
        """Rows were taken of it: by what it is known from now on."""
        self.check()
        self.is_new, seen = False, _seen(self.path)
        if seen is not None and self.mark is not None and seen.size > self.mark.size:
            self.mark, self.known = mark_of(self.path) or self.mark, seen
        return self.mark


def changed_since(path: str) -> FoglineError:
    """A file is not what it was when a batch read it that has to be done again."""
    return FoglineError(
        f"{path!r} is not what it was when a batch read it that was not finished, and some of what it changed may be "
        "in sinks already. Put the file back as it was (also its name): the same command then finishes the batch. If "
        "that cannot be done, begin anew with another output, and sinks that are empty."
    )


def _changed_meanwhile(path: str) -> FoglineError:
    return FoglineError(f"{path!r} was replaced while it was being read. The same command reads it anew.")


def _changed(path: str) -> FoglineError:
    return FoglineError(
        f"{path!r} is no longer the file of which rows were taken before: it was changed while it was being read. Put "
        "it back as it was, or remove it: then what was not read of it is a reject. Write what is new into a new file."
    )


def _seen(path: str) -> _Seen | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _Seen(found.st_ino, found.st_size, (found.st_mtime_ns, found.st_ctime_ns))
