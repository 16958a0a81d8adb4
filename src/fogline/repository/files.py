"""How does an array lie in a file, and is it the one that was written?

A file holds one array, as NumPy writes it. Its reference, which the manifest lists, has its size and a checksum; both
are looked at when the file is opened, so that a copy which is torn is an error and not another answer. The checksum is
of the whole file, or, where that is large, of pieces that are spread evenly over it, both ends included: opening costs
a bounded time, however long the history is.

Whatever was written is on the disk, not only on its way there, when `put` or `write` returns.
"""

from __future__ import annotations

import errno
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fogline.errors import FoglineError, HistoryError

if TYPE_CHECKING:
    from fogline.repository.access.protocol import Access

PIECES, PIECE = 256, 65_536  # of a file that is larger than all of them together, so many are looked at

Reference = list[Any]  # name, size in bytes, checksum: as JSON has it


class Files:
    """Arrays of one folder, by reference. `part` begins the names of those that are put."""

    def __init__(self, folder: Path, part: str = "") -> None:
        self.folder, self.part = folder, part
        self.count = 0
        self.written: dict[int, dict[str, Any]] = {}  # by id: the entry of what several parts share
        self.read: dict[str, Access] = {}  # by entry: the same, read once

    def put(self, array: NDArray[Any]) -> Reference:
        """Write an array."""
        self.count += 1
        path = self.folder / f"{self.part}-{self.count}.npy"
        with path.open("wb") as file:
            np.save(file, array)
            file.flush()
            os.fsync(file.fileno())
        return [path.name, path.stat().st_size, checksum(path)]

    def get(self, reference: Reference) -> NDArray[Any]:
        """An array, read-only and not copied. (An empty one cannot be mapped.)"""
        name, size, expected = reference
        if Path(name).name != name:
            raise _torn(self.folder, f"names {name!r}, which is no file of this folder")
        path = self.folder / name
        try:
            found = path.stat().st_size
            if found != size:
                raise _torn(path, f"has {found:,} bytes where {size:,} were written")
            if checksum(path) != expected:
                raise _torn(path, f"has the {size:,} bytes that were written, but not the same ones")
            return np.asarray(np.load(path, mmap_mode="r") if size > 128 else np.load(path))
        except FileNotFoundError:
            raise _torn(path, "is not there") from None
        except FoglineError:
            raise
        except (ValueError, EOFError):  # it holds no array, or one of objects, which are never read
            raise _torn(path, "is no array of numbers") from None


def _torn(path: Path, what: str) -> HistoryError:
    return HistoryError(
        f"the repository is damaged: {str(path)!r} {what}. Is it a copy that was not finished? Copy its folder again."
    )


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
