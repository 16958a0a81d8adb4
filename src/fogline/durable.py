"""Files that are there whole, or as they were before; and that stay.

What was written is on the disk, not only on its way there, when `write` returns. A checksum is of the whole file, or,
where that is large, of pieces that are spread evenly over it, both ends included: it takes a bounded time.
"""

from __future__ import annotations

import errno
import os
import zlib
from contextlib import suppress
from pathlib import Path

from fogline.errors import FoglineError

PIECES, PIECE = 256, 65_536  # of a file that is larger than all of them together, so many are looked at


def must_be_writable(path: str | Path) -> None:
    """An error, before any work, where nothing could be written to this place: it need not be there yet."""
    place = Path(path).absolute()
    there = next(each for each in (place, *place.parents) if each.exists())
    if there != place and not there.is_dir():
        raise FoglineError(f"{str(path)!r} cannot be written: {str(there)!r} is a file, where a folder is needed.")
    if not os.access(there, os.W_OK):
        raise FoglineError(f"{str(path)!r} cannot be written: this user may not write to {str(there)!r}.")


def checksum(path: Path, size: int | None = None) -> int:
    """Of a file, or of its first bytes; where these are many, of pieces of them."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size if size is None else size
        if size <= PIECES * PIECE:
            return zlib.crc32(file.read(size))
        found = 0
        for k in range(PIECES):
            file.seek((size - PIECE) * k // (PIECES - 1))
            found = zlib.crc32(file.read(PIECE), found)
        return found


def write(path: Path, content: str) -> None:
    """A file that is there whole, or as it was before. Writers at the same time do not meet: the last one counts."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):  # what went wrong before is what counts
            fresh.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """A file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that has no such thing
            raise
    finally:
        os.close(opened)


def make_folder(folder: Path) -> None:
    """The folder, and those above it, are there and stay."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
