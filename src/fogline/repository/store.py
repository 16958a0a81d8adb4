"""Where do the versions of a repository lie, and which one is opened?

A folder of versions. Each version is a subfolder with its arrays, one `.npy` file each, and a manifest that lists them
(`repository/files`); `manifest.json` of the folder names the newest. Loading maps the files into memory: nothing is
copied, and processes of one machine share the pages.

What is written once is never changed: saving makes a new version beside the others and then exchanges the folder's
manifest, at once. So a repository can be saved over the one it was loaded from, and a crash leaves what was there. Of
two that are saved at the same time both are complete, and the later one counts. A query that runs finds the version it
was started with, by its fingerprint, until `prune` removes that.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fogline.documents import WRITTEN, read_small
from fogline.durable import make_folder, must_be_writable, sync, write
from fogline.errors import FoglineError, HistoryError, other_format
from fogline.repository.files import Files
from fogline.repository.fit import Fitted
from fogline.saved import opened, sealed

FORMAT = 9
MANIFEST, VERSION = "manifest.json", "version-"
ABANDONED = 86_400  # seconds after which a version that was never finished is one that never will be


class Version(NamedTuple):
    """One repository of a folder."""

    path: Path
    fingerprint: str

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(each.stat().st_size for each in self.path.iterdir())


class Draft:
    """A repository being written: its arrays lie in a subfolder of their own, and are read once `finish` names them."""

    def __init__(self, folder: str | Path) -> None:
        check_folder(folder)
        self.root = root_of(folder).absolute()
        now = time.time()
        begun = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now % 1 * 1e6):06}"
        self.arrays = self.root / f"{VERSION}{begun}-{os.urandom(3).hex()}"
        make_folder(self.root)
        self.arrays.mkdir()

    def finish(self, fitted: Fitted, fingerprint: str, files: Files | None = None) -> None:
        """Write the parts and then name them, all at once. `files`: knows what lies in the subfolder already."""
        files = files or Files(self.arrays)
        parts = fitted._replace(history=replace(fitted.history, texts={}))._asdict()
        entries = {name: files.put(each) for name, each in parts.items()}
        write(self.arrays / MANIFEST, sealed({"format": FORMAT, "fingerprint": fingerprint, **entries}))
        sync(self.root)
        write(self.root / MANIFEST, sealed({"format": FORMAT, "newest": self.arrays.name}))
        sync(self.root.parent)

    def discard(self) -> None:
        """Remove what was written, unless the folder's manifest names it, or cannot be read."""
        try:
            named = opened((self.root / MANIFEST).read_bytes())
            if named is None or named.get("newest") == self.arrays.name:
                return
        except FileNotFoundError:
            pass
        except OSError:
            return
        shutil.rmtree(self.arrays, ignore_errors=True)
        with suppress(OSError):  # not empty
            self.root.rmdir()


def root_of(folder: str | Path) -> Path:
    """The folder as a plain path, which processes can map; an error for a place that has none."""
    named = re.match(r"([a-zA-Z][\w+.-]+):/+", str(folder))
    if named is None:
        return Path(folder)
    if named[1].lower() == "file":
        return Path("/", str(folder)[named.end() :])
    raise HistoryError(
        f"{str(folder)!r} lies in {named[1]}, and a repository is mapped into memory from a folder with a plain path. "
        "Fetch it with fl.spark.repository(…), or write it into a folder that every machine sees under one path."
    )


def check_folder(folder: str | Path) -> None:
    """An error if no repository may be written here."""
    root = root_of(folder)
    if root.exists() and not root.is_dir():
        raise HistoryError(f"{str(folder)!r} is a file; a repository is a folder.")
    must_be_writable(folder)
    if not root.exists() or (root / MANIFEST).exists():
        return
    if not all(each.name.startswith(VERSION) for each in root.iterdir()):  # those are being written
        raise HistoryError(f"{str(folder)!r} is not empty and holds no repository; choose another folder.")


def versions(folder: str | Path) -> list[Version]:
    """The versions of a folder, the newest first. What cannot be read as one of this format is left out."""
    newest = _newest(folder)
    others = sorted((each for each in newest.parent.glob(f"{VERSION}*") if each != newest), reverse=True)
    found = [Version(newest, _manifest(newest)["fingerprint"])]
    for path in others:
        with suppress(HistoryError):
            found.append(Version(path, _manifest(path)["fingerprint"]))
    return found


def prune(folder: str | Path, keep: int = 1) -> list[str]:
    """Remove all versions but the newest so many, and what was begun long ago and not finished; returns their names."""
    known = versions(folder)
    kept = {each.path for each in known[: max(keep, 1)]}
    gone = []
    for path in sorted(root_of(folder).glob(f"{VERSION}*")):
        if path not in kept and ((path / MANIFEST).exists() or time.time() - path.stat().st_mtime > ABANDONED):
            (path / MANIFEST).unlink(missing_ok=True)  # first, so that what is half removed is no version
            shutil.rmtree(path)
            gone.append(path.name)
    return gone


def save(folder: str | Path, fitted: Fitted, fingerprint: str) -> None:
    """Write a repository as the newest version of a folder."""
    draft = Draft(folder)
    try:
        draft.finish(fitted, fingerprint)
    except BaseException:
        draft.discard()
        raise


def load(folder: str | Path, fingerprint: str | None = None) -> tuple[Fitted, str]:
    """The newest repository of a folder, or the one with this fingerprint, mapped into memory; and its fingerprint."""
    path = version_of(folder, fingerprint)
    manifest, files = _manifest(path), Files(path)
    try:
        return Fitted(**{name: files.get(manifest[name]) for name in Fitted._fields}), manifest["fingerprint"]
    except FoglineError:
        raise
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(path, "holds arrays and a manifest that do not fit each other") from error


def version_of(folder: str | Path, fingerprint: str | None) -> Path:
    """The subfolder of the newest version, or of the one with this fingerprint."""
    newest = _newest(folder)
    if fingerprint in (None, _manifest(newest)["fingerprint"]):
        return newest
    known = versions(folder)
    for each in known:
        if each.fingerprint == fingerprint:
            return each.path
    raise HistoryError(
        f"the repository in {str(folder)!r} is no longer the one that is asked for: it has the fingerprint "
        f"{' or '.join(each.fingerprint[:12] for each in known)}, not {str(fingerprint)[:12]}. "
        "Was that version removed (`fogline prune`), or is this another copy of the folder?"
    )


def _newest(folder: str | Path) -> Path:
    root = root_of(folder)
    newest = root / newest_in(_read(root / MANIFEST, root), root)
    if not (newest / MANIFEST).exists():
        raise HistoryError(
            f"the repository is damaged: {str(newest / MANIFEST)!r} is not there. Is it a copy that was not finished? "
            "Copy its folder again."
        )
    return newest


def _manifest(version: Path) -> dict[str, Any]:
    return _read(version / MANIFEST, version)


def _read(path: Path, holder: Path) -> dict[str, Any]:
    """What a manifest lists; an error if there is none of this format."""
    try:
        content = read_small(path, WRITTEN)
    except FileNotFoundError:
        raise HistoryError(
            f"there is no repository in {str(holder)!r}; make one with `fogline fit`, or "
            "Repository.fit(…).save(folder)."
        ) from None
    return manifest_of(content, path, holder)


def manifest_of(content: bytes, path: str | Path, holder: str | Path) -> dict[str, Any]:
    """What a manifest lists; an error if it is damaged, or of another format."""
    manifest = opened(content)
    if manifest is None or not isinstance(manifest.get("format"), int):
        raise _damaged(path, "cannot be read: it is not what was written")
    if manifest["format"] != FORMAT:
        raise HistoryError(other_format(repr(str(holder)), manifest["format"], FORMAT, "fit it again"))
    named = manifest.get("newest", manifest.get("fingerprint"))
    if not isinstance(named, str) or Path(named).name != named:
        raise _damaged(path, "names no version")
    return manifest


def newest_in(manifest: dict[str, Any], holder: str | Path) -> str:
    """The version that the manifest of a folder names; an error if that is no version in it."""
    named = str(manifest.get("newest"))
    if not named.startswith(VERSION):
        raise _damaged(holder, "has a manifest that names no version of it")
    return named


def _damaged(path: str | Path, what: str) -> HistoryError:
    return HistoryError(f"the repository is damaged: {str(path)!r} {what}. Copy its folder again.")
