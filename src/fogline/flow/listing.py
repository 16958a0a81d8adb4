"""Which files of a folder belong to a stream, and which are not read?

A stream has one kind: parquet, csv, tsv or json, shown by the ends of names. Only files of that kind are read: those
right in the folder, and those in subfolders named column=value. Hidden ones (. or _ first) are left out without a word;
what else lies there is named once, for a file that is not read shall not look as if it were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from fogline.errors import FoglineError, did_you_mean
from fogline.flow.folder import Folder, is_local

KINDS = {"parquet": ("parquet",), "csv": ("csv",), "tsv": ("tsv",), "json": ("json", "jsonl", "ndjson")}
PACKED = ("gz", "bz2", "zst", "snappy", "lz4")
LISTED = 5  # names in one remark
_CHECKPOINT = "checkpoint"


def kind_of_name(name: str) -> str | None:
    """The kind that a file's name shows.

    >>> kind_of_name("a.csv.gz"), kind_of_name("part-0.snappy.parquet"), kind_of_name("b.csv.tmp")
    ('csv', 'parquet', None)
    """
    parts = Path(name.rstrip("/*")).name.lower().split(".")[1:]
    end = parts[-2] if parts[1:] and parts[-1] in PACKED else parts[-1] if parts else ""
    return next((kind for kind, ends in KINDS.items() if end in ends), None)


def kind_of(path: str, *, existing: bool, others: Iterable[str] = ()) -> str:
    """What kind of files these are; an error where that is not shown, or where there are several.

    `others`: names of files there, if they are not on this machine.
    """
    if existing and is_local(path):
        must_exist(path)
    named = kind_of_name(path)
    if named is not None:
        return named
    names = [*others, *(each.name for each in files_of(path))] if existing else []
    found = sorted({kind for name in names if (kind := kind_of_name(name))})
    if len(found) == 1:
        return found[0]
    if found:
        raise FoglineError(
            f"{path!r} holds {' and '.join(found)} files; choose one kind by a pattern, such as '{path}/*.{found[0]}'."
        )
    known = ", ".join(f".{end}" for ends in KINDS.values() for end in ends)
    raise FoglineError(f"{path!r} does not show what it holds: its name, or the files in it, should end in {known}.")


def must_exist(path: str) -> None:
    """An error with a guess, if there is no such file, folder or pattern on this machine."""
    if not is_local(path) or Path(path).exists() or glob(path):
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FoglineError(f"there is no file {path!r}: not even the folder {str(folder)!r} is there.")
    near = did_you_mean(Path(path).name, [each.name for each in folder.iterdir()])
    raise FoglineError(f"there is no file {path!r}.{near}")


def pattern_of(path: str, kind: str) -> str:
    """A pattern for the names of the files that are read; empty: all of them.

    That is so in a folder that is called by its kind (data.parquet) and whose files have no such end.
    """
    names = [each.name for each in files_of(path)] if kind_of_name(path) is not None else []
    if names and not any(kind_of_name(name) == kind for name in names):
        return ""
    ends = [_any_case(end) for end in KINDS[kind]]
    packed = [_any_case(each) for each in PACKED]
    return "*.{" + ",".join([*ends, *(f"{end}.{each}" for end in ends for each in packed)]) + "}"


def _any_case(end: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in end)


def _roots(path: str) -> list[Path]:
    if not is_local(path):
        return []
    return [Path(path)] if Path(path).exists() else [Path(each) for each in sorted(glob(path))]


def _entries(path: str) -> Iterator[Path]:
    """Files that could be read, and subfolders that are not: of the folder itself, and of its column=value folders."""
    waiting = _roots(path)
    folders = [root for root in waiting if root.is_dir()]
    yield from (root for root in waiting if root.is_file())
    while folders:
        for each in sorted(folders.pop().iterdir()):
            if each.name.startswith((".", "_")):
                continue
            if each.is_dir() and "=" in each.name:
                folders.append(each)
            else:
                yield each


def folders_in(path: str) -> set[Path]:
    """The folders of the files that could be read."""
    return {each.parent for each in files_of(path)}


def files_of(path: str) -> Iterator[Path]:
    return (each for each in _entries(path) if each.is_file())


class Taken(NamedTuple):
    """A file that a run has taken up, as the engine's log has it."""

    when: int  # when it was last changed, in milliseconds
    batch: int


class SourceLog:
    """Which files have been taken up so far? Read from the checkpoint, each part once."""

    def __init__(self, place: Folder) -> None:
        self.place = place
        self.files: dict[str, Taken] = {}
        self.seen: set[str] = set()

    def read(self) -> dict[str, Taken]:
        """The files by their paths on this machine; those of other machines are left out."""
        for name in self.place.listing(f"{_CHECKPOINT}/sources/0"):
            if name not in self.seen and (content := self.place.get(name)) is not None:
                self.seen.add(name)
                for line in content.decode().splitlines()[1:]:
                    entry = json.loads(line)
                    if entry["path"].startswith("file:"):
                        path = unquote(entry["path"].removeprefix("file:").replace("//", "", 1))
                        self.files[path] = Taken(entry["timestamp"], entry["batchId"])
        return self.files

    def gone(self) -> list[str]:
        """Files that were to be read by a batch that is not finished, and are no longer there."""
        done = max((int(name.rsplit("/", 1)[1]) for name in self.place.listing(f"{_CHECKPOINT}/commits")), default=-1)
        offset = self.place.get(f"{_CHECKPOINT}/offsets/{done}")
        read = -1 if offset is None else json.loads(offset.decode().splitlines()[-1])["logOffset"]
        return [path for path, each in self.read().items() if each.batch > read and not Path(path).exists()]


class Unread:
    """What lies there and is not read: `look` reports each thing once."""

    def __init__(self, path: str, kind: str, pattern: str, log: SourceLog) -> None:
        self.path, self.kind, self.pattern, self.log = path, kind, pattern, log
        self.named: set[str] = set()

    def begin(self) -> list[str]:
        """What is to be reported before a run begins or goes on."""
        gone = [f"{_names(self.log.gone())} was to be read next when this run stopped, and is gone: its rows are lost."]
        return [*(gone if self.log.gone() else []), *self.look()]

    def look(self) -> list[str]:
        """Sentences about what is new."""
        entries = list(_entries(self.path))
        others = [each for each in entries if each.is_file() and self.pattern and kind_of_name(each.name) != self.kind]
        folders = [each for each in entries if each.is_dir()]
        taken = self.log.read()
        changed = [each for each in entries if (was := taken.get(str(each.absolute()))) and _changed(each) > was.when]
        found = (
            (self._new(others), f"not read, for this is a stream of {self.kind} files: {{}}."),
            (self._new(folders), "not read, for files lie in the folder itself or in column=value folders: {}."),
            (self._new(changed, "changed "), "changed after it was taken up; what was added is not read: {}. "
                                             "Write new files instead, under another name first, then rename them."),
        )  # fmt: skip
        return [sentence.format(_names(names)) for names, sentence in found if names]

    def _new(self, paths: Iterable[Path], mark: str = "") -> list[str]:
        names = [str(each) for each in paths if f"{mark}{each}" not in self.named]
        self.named.update(f"{mark}{name}" for name in names)
        return names


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return -1


def _names(paths: list[str]) -> str:
    names = ", ".join(Path(each).name for each in paths[:LISTED])
    return names if len(paths) <= LISTED else f"{names} and {len(paths) - LISTED:,} more"
