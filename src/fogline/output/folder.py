"""How is a file put into a folder, whole or not at all, and read while others are joined?

It is written beside its place, synced to disk, and then renamed, so that a reader sees all of it or nothing, also after
a power cut, and writing it again changes nothing. `LocalFolder` is on this machine; engines bring folders in the file
systems they reach.

A file that was listed may be gone a moment later, since a larger file holds its batches now: then the folder is listed
again (`again`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from fogline.durable import make_folder, sync
from fogline.errors import FoglineError


class Folder(Protocol):
    """A place for files by name."""

    def put(self, name: str, content: bytes) -> None:
        """The content becomes the file, which is replaced if it is there."""

    def filling(self, name: str) -> AbstractContextManager[Path]:
        """A path of this machine to be written to; what is there at the end becomes the file."""

    def get(self, name: str) -> bytes | None:
        """The content of a file; None: it is not there."""

    def open(self, name: str) -> pa.NativeFile | None:
        """The file, to be read here and there; None: it is not there."""

    def listing(self, below: str) -> dict[str, int]:
        """The names in a subfolder, in their order, and the sizes of the files."""

    def move(self, name: str, to: str) -> None:
        """A file gets another name, and replaces what has it."""

    def delete(self, names: Iterable[str]) -> None:
        """Files that are there no longer; those that are not there do not matter."""

    def clear(self, below: str) -> None:
        """A subfolder is there no longer."""


class LocalFolder:
    """On this machine."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def put(self, name: str, content: bytes) -> None:
        with self.filling(name) as path:
            path.write_bytes(content)

    @contextmanager
    def filling(self, name: str) -> Iterator[Path]:
        place = self.root / name
        make_folder(place.parent)
        fresh = self.root / draft_of(name)
        try:
            yield fresh
            to_disk(fresh)
            fresh.replace(place)
        except BaseException:
            with suppress(OSError):  # what went wrong before is what counts
                fresh.unlink(missing_ok=True)
            raise
        to_disk(place.parent)

    def get(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def open(self, name: str) -> pa.NativeFile | None:
        try:
            return pa.OSFile(str(self.root / name))
        except FileNotFoundError:
            return None

    def listing(self, below: str) -> dict[str, int]:
        sizes = {}
        try:
            with os.scandir(self.root / below) as found:
                for each in found:
                    if not each.name.startswith((".", "_")):
                        with suppress(FileNotFoundError):  # it is there no longer; the others are
                            sizes[f"{below}/{each.name}"] = each.stat().st_size
        except FileNotFoundError:
            return {}
        return dict(sorted(sizes.items()))

    def move(self, name: str, to: str) -> None:
        make_folder((self.root / to).parent)
        (self.root / name).replace(self.root / to)
        to_disk((self.root / to).parent)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def clear(self, below: str) -> None:
        shutil.rmtree(self.root / below, ignore_errors=True)


def draft_of(name: str) -> str:
    """What a file is called until it is whole.

    >>> draft_of("changes/batch-7.parquet")
    'changes/.batch-7.parquet.new'
    """
    above, _, last = name.rpartition("/")
    return f"{above}{'/' if above else ''}.{last}.new"


def to_disk(path: Path) -> None:
    """What was written there, or in there, survives a power cut from now on."""
    sync(path)


Read = TypeVar("Read")
_TRIES = 20  # a run that goes on meanwhile joins files once in a hundred batches


class GoneError(Exception):
    """A file was listed, but has been joined with others since: list again."""


def opened(place: Folder, name: str) -> pa.NativeFile:
    """A file that was listed."""
    found = place.open(name)
    if found is None:
        raise GoneError(name)
    return found


class HoleError(FoglineError):
    """Files of an output are missing; if not because they were joined meanwhile, it is an error."""


def again(read: Callable[[], Read]) -> Read:
    """Read anew where files were joined meanwhile."""
    for _ in range(_TRIES):
        try:
            return read()
        except (GoneError, HoleError):
            continue
    return read()
