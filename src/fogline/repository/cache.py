"""Where does a machine keep repositories that came from elsewhere?

In a folder of the user's cache, one subfolder for each fingerprint; `FOGLINE_REPOSITORIES` names another folder. What
lies there is complete: one process unpacks it beside and renames it, while the others of the machine wait. Nothing is
removed here: it is a cache, and may be emptied while no run uses it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from fogline.durable import sync
from fogline.errors import HistoryError
from fogline.repository import store
from fogline.saved import sealed

PLACE = "FOGLINE_REPOSITORIES"
_MARK = re.compile("[0-9a-f]{16,128}")


def root() -> Path:
    """The cache of this machine: the first of its possible folders that can be written."""
    given, tried = os.environ.get(PLACE), []
    for place in _places():
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            tried.append(f"{place} ({(error.strerror or str(error)).lower()})")
            continue
        if os.access(place, os.W_OK) and (given or is_own(place)):
            return place
        tried.append(f"{place} (it is not this user's to write)")
    raise HistoryError(f"a repository can be kept in none of {', '.join(tried)}; set {PLACE} to a folder.")


def _places() -> list[Path]:
    """The folders in which it may be, the preferred first."""
    if given := os.environ.get(PLACE):
        return [Path(given)]
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return [Path(home, "fogline", "repositories"), Path(gettempdir(), f"fogline-repositories-{os.getuid()}")]


def is_own(folder: Path) -> bool:
    """Whether it is a folder, no link to one, that belongs to this user and into which no other may write.

    Every user may write into the temporary folder: what lies there under our name may be another's.
    """
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def beside(folder: Path, mark: str) -> Path | None:
    """The folder of another repository, if this one lies in the cache; None: it does not."""
    return folder.parent / mark if holds(folder) else None


def holds(folder: Path) -> bool:
    """Whether this folder lies in a cache, which need not be there."""
    return any(place in folder.parents for place in _places())


def pack(folder: Path, mark: str, to: Path) -> None:
    """One version of a repository as one file."""
    version = store.version_of(folder, mark)
    with tarfile.open(to, "w") as file:
        file.add(version, version.name)


def unpacked(mark: str, packed: Callable[[], Path]) -> Path:
    """The folder of the repository with this fingerprint; if it is not there, made of the file that `packed` gives."""

    def unpack(folder: Path) -> None:
        with tarfile.open(packed()) as file:
            file.extractall(folder, filter="data")

    return kept(mark, unpack)


def kept(mark: str, fill: Callable[[Path], None]) -> Path:
    """The folder of the repository with this fingerprint; if it is not there, `fill` puts its version into it."""
    if not _MARK.fullmatch(mark):  # it names a folder that is made, and removed
        raise HistoryError(f"{mark[:40]!r} is no fingerprint of a repository; is its manifest damaged?")
    place = root() / mark
    if (place / store.MANIFEST).exists():
        return place
    with _alone(root() / f"{mark}.lock"):
        if (place / store.MANIFEST).exists():
            return place
        for left in root().glob(f".{mark[:12]}-*"):  # by a process that ended before it had finished
            shutil.rmtree(left, ignore_errors=True)
        draft = Path(mkdtemp(prefix=f".{mark[:12]}-", dir=root()))
        try:
            fill(draft)
            (version,) = draft.glob(f"{store.VERSION}*")
            newest = {"format": store.FORMAT, "newest": version.name}
            (draft / store.MANIFEST).write_text(sealed(newest), encoding="utf-8")
            store.version_of(draft, mark)  # an error if it is another one
            for each in (*draft.rglob("*"), draft):
                sync(each)
            shutil.rmtree(place, ignore_errors=True)
            draft.rename(place)
            sync(place.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time, of this machine."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
