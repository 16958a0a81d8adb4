"""What does a reader of one kind of file give, before it is fitted to the stream's columns?"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from fogline.arrays import Ints


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
