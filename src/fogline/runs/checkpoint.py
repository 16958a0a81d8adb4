"""What of a checkpoint on the disks of this machine survives a power cut?

The engine closes its files and renames them, but does not wait for the disk. So all that a batch rests on is synced
before the batch's own files are written: the output never knows of a batch that the checkpoint has lost. What the
engine writes after that may be there without content; such files are removed when a run goes on, and the batch is
done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from urllib.parse import unquote

from fogline.errors import FoglineError
from fogline.files.unread import Taken
from fogline.output.folder import Folder, to_disk
from fogline.pipeline.names import CHECKPOINT
from fogline.saved import opened, sealed


class Synced:
    """Syncs what is new in a checkpoint, each file once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, tuple[int, int]] = {}  # path -> when it was changed, and its size
        self.folders: set[Path] = set()  # that held something new once

    def sync(self) -> None:
        """All that lies there now is on disk."""
        found, folders = dict(_files(self.root)), set[Path]()
        for path, mark in found.items():
            if self.known.get(path) != mark:
                folders.add(Path(path).parent)
                try:
                    to_disk(Path(path))
                except FileNotFoundError:  # the engine removes what it no longer needs
                    continue
        new = folders - self.folders  # made since: so may have been those above them
        self.folders |= new
        above = {each for folder in new for each in folder.parents if each.is_relative_to(self.root)}
        for folder in folders | above:
            if folder.is_dir():
                to_disk(folder)
        self.known = found


def mend(root: Path) -> list[Path]:
    """Remove the newest files of the logs as far as they have no content; which are these?

    A batch whose files are not known any more is forgotten with them: it has not been written yet.
    """
    gone: list[Path] = []
    lost = _emptied(root / "sources/0", gone)
    offsets = root / "offsets"
    if lost is not None:
        for number, path in _numbered(offsets):
            if not _is_torn(path) and _source_of(path) >= lost:
                _remove(path, gone)
                _remove(root / "commits" / str(number), gone)
    _emptied(offsets, gone)
    _emptied(root / "commits", gone)
    return gone


def _emptied(log: Path, gone: list[Path]) -> int | None:
    """Remove the newest files that have no content; the number of the first of them."""
    numbered, first = _numbered(log), None
    while numbered and _is_torn(numbered[-1][1]):
        first, path = numbered.pop()
        _remove(path, gone)
    return first


def _is_torn(path: Path) -> bool:
    """Whether a file of a log is not there as a whole: it has no content, a part of it, or zeros.

    The beginning of a topic has one zero before its text, as the engine writes it.
    """
    content = path.read_bytes().removeprefix(b"\0")
    lines = content.splitlines()[1:]
    return not content or b"\0" in content or any(line.startswith(b"{") and not _is_json(line) for line in lines)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _numbered(log: Path) -> list[tuple[int, Path]]:
    """The files of a log with their numbers; every now and then the engine joins files to one, `9.compact`."""
    found = ((each.name.removesuffix(".compact"), each) for each in log.glob("*"))
    return sorted((int(name), each) for name, each in found if name.isdigit())


def _source_of(offset: Path) -> int:
    """Up to which file of the source's log a batch reads. That of a topic has one: where its first batch began."""
    known = json.loads(offset.read_text().splitlines()[-1])
    return int(known["logOffset"]) if "logOffset" in known else -int(offset.name)


def _remove(path: Path, gone: list[Path]) -> None:
    if path.exists():
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        gone.append(path)


def _files(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                seen = os.stat(path)
            except FileNotFoundError:
                continue
            yield path, (seen.st_mtime_ns, seen.st_size)


# --- Which batch had something to report last -------------------------------------------------------------------------
#
# Noted when the batch lies in all its places, and before Spark commits it. So the last two are kept: where a crash
# comes between, the newer one does not count yet, since the batch is done again and its files are written anew.

_REPORTED = f"{CHECKPOINT}/reported.json"


def note_reported(place: Folder, number: int) -> None:
    """This batch has reported something; Spark will commit it."""
    before = [each for each in _reported(place) if each < number]
    place.put(_REPORTED, sealed({"batches": [*before[-1:], number]}).encode())


def reported_by_spark(place: Folder) -> int:
    """The last batch that Spark has committed and that had something to report; -1: none."""
    done = last_committed(place)
    return max((each for each in _reported(place) if each <= done), default=-1)


def last_committed(place: Folder) -> int:
    """The last batch that Spark has committed; -1: none."""
    names = (name.rsplit("/", 1)[1] for name in place.listing(f"{CHECKPOINT}/commits"))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _reported(place: Folder) -> list[int]:
    content = place.get(_REPORTED)
    if content is None:
        return []
    if (found := opened(content)) is None:
        raise FoglineError(
            f"{_REPORTED!r} of the output is damaged: it is not what a run has written. Put back a good copy of it, or "
            "choose another output."
        )
    return [int(each) for each in found["batches"]]


# --- Files that Spark has taken up, by the log of its source ----------------------------------------------------------


class SourceLog:
    """The files that were taken up; each part of the log is read once."""

    def __init__(self, place: Folder) -> None:
        self.place = place
        self.files: dict[str, Taken] = {}
        self.seen: set[str] = set()
        self.way_out = (
            "With --engine embedded, into another output, whole lines that are added to csv or JSON lines are read."
        )

    def read(self) -> dict[str, Taken]:
        """The files by their paths on this machine; those of other machines are left out."""
        for name in self.place.listing(f"{CHECKPOINT}/sources/0"):
            if name not in self.seen and (content := self.place.get(name)) is not None:
                self.seen.add(name)
                for line in content.decode().splitlines()[1:]:
                    entry = json.loads(line)
                    if entry["path"].startswith("file:"):
                        path = unquote(entry["path"].removeprefix("file:").replace("//", "", 1))
                        self.files[path] = Taken(entry["timestamp"], entry["batchId"])
        return self.files

    def known(self, paths: Iterable[str]) -> Mapping[str, Taken]:
        """Those of these files that were taken up."""
        return self.read()

    def known_names(self, names: Iterable[str]) -> Set[str]:
        """The names of all that were taken up."""
        return {Path(each).name for each in self.read()}

    def reads_on(self, path: str) -> bool:
        """Spark reads each file once."""
        return False

    def gone(self) -> list[str]:
        """Files that were to be read by a batch that is not finished, and are no longer there."""
        offset = self.place.get(f"{CHECKPOINT}/offsets/{last_committed(self.place)}")
        read = -1 if offset is None else json.loads(offset.decode().splitlines()[-1])["logOffset"]
        return [path for path, each in self.read().items() if each.batch > read and not Path(path).exists()]
