"""What of a folder survives a power cut?

Of a file that was not synced any part of what was written, or zeros; of changes of names in a folder that was not
synced some. A rename in one folder happens as a whole or not at all. `Unsynced` notes what is written and which names
change, and puts the folder into a state that is possible after a cut.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

Tree = dict[str, "bytes | Tree"]  # what lies in a folder
SYNCED = re.compile(r"(\w.*\.sqlite)(-wal)?")  # what SQLite has written and synced by itself, its names with it
_open, _scandir = open, os.scandir  # whatever stands in their place meanwhile


@dataclass(eq=False)
class KeptFile:
    """A file whose content or name has changed."""

    synced: bytes | None = None  # what stays after a power cut; None: nothing of it was ever synced
    last: bytes = b""  # what it held when it lost its name


@dataclass(eq=False)
class KeptFolder:
    """A folder that is named in one whose names have changed: what lies in it goes where its name goes."""

    path: str  # where it lies now


@dataclass
class Unsynced:
    """What the disk was not yet made to keep."""

    folders: dict[str, KeptFolder] = field(default_factory=dict)  # by path, those whose names may go back
    files: dict[str, KeptFile] = field(default_factory=dict)  # by path, those that are no longer as they were
    names: dict[str, dict[str, Any]] = field(default_factory=dict)  # by folder: what a power cut leaves there
    changes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # since: names, and what they mean now

    def synced(self, path: str) -> None:
        """A file, or the names in a folder, are on the disk."""
        if os.path.isdir(path):
            for each in self.changes.pop(path, ()):
                _apply(self.names[path], each)
        elif path in self.files:
            self.files[path].synced = content_of(path)

    def committed(self, path: str) -> None:
        """SQLite has synced its log. It removes it when the file has all of it, and does not sync the folder then: a
        power cut may bring the log back, as it was last."""
        log = f"{path}-wal"
        if os.path.exists(log):
            file = self._file(log)
            file.synced = file.last = content_of(log)

    def moved(self, source: str, target: str) -> None:
        """A file or a folder is about to get another name."""
        if not os.path.isdir(source):
            self.note({source: None, target: self._file(source)})
            self._lose(target)
            self.files[target] = self.files.pop(source)
            return
        self.note({source: None, target: self._folder(source)})
        self._call(source, target)

    def removed_folder(self, path: str) -> None:
        """An empty folder is about to be removed; until that is on the disk, what it held may come back with it."""
        self.note({path: None})
        self._call(path, f"{path}, removed {len(self.folders)}")

    def _call(self, source: str, target: str) -> None:
        """What is known below one path is known below another from now on."""
        for known in cast("list[dict[str, Any]]", [self.files, self.names, self.changes, self.folders]):
            for path in [each for each in known if each == source or each.startswith(f"{source}/")]:
                known[target + path[len(source) :]] = known.pop(path)
        for path, folder in self.folders.items():
            folder.path = path

    def made(self, path: str) -> None:
        """A folder is about to be made."""
        self.note({path: self._folder(path)})
        self.names[path] = {}

    def removed(self, path: str) -> None:
        """A file is about to be removed."""
        self.note({path: None})
        self._lose(path)

    def touched(self, path: str) -> None:
        """A file is about to be written to."""
        if os.path.lexists(path):
            self._file(path)
        elif os.path.isdir(os.path.dirname(path)):
            self.files[path] = KeptFile()
            self.note({path: self.files[path]})

    def note(self, meant: dict[str, Any]) -> None:
        """Names that change together, where they lie in one folder."""
        by_folder: dict[str, dict[str, Any]] = {}
        for path, each in meant.items():
            by_folder.setdefault(os.path.dirname(path), {})[os.path.basename(path)] = each
        for folder, names in by_folder.items():
            if folder not in self.names:
                self.names[folder] = self._listed(folder)
            self.changes.setdefault(folder, []).append(names)

    def after_cut(self, rng: random.Random) -> None:
        """What is on the disk when the machine is started again."""
        tops = [each for each in self.names if os.path.isdir(each) and not self._within(each)]
        for folder, _, names in (each for top in tops for each in os.walk(top)):
            for name in names:
                self._file(os.path.join(folder, name))
        now = {id(file): content_of(path) for path, file in self.files.items() if os.path.isfile(path)}
        for top, tree in [(each, self._kept(each, now, rng)) for each in tops]:
            _write(Path(top), tree)
        for path, file in self.files.items():
            if id(file) in now and not self._within(path) and not SYNCED.fullmatch(os.path.basename(path)):
                Path(path).write_bytes(_left(file.synced, now[id(file)], rng))

    def _within(self, path: str) -> bool:
        """Whether it lies below a folder whose names have changed."""
        return any(str(each) in self.names for each in Path(path).parents)

    def _kept(self, folder: str, now: dict[int, bytes], rng: random.Random) -> Tree:
        """What a power cut leaves of a folder: names that reached the disk, and what they mean."""
        names = dict(self.names[folder]) if folder in self.names else self._listed(folder)
        for each in _some(self.changes.get(folder, []), rng):
            _apply(names, each)
        tree: Tree = {}
        for name, meant in names.items():
            if isinstance(meant, KeptFolder):
                tree[name] = self._kept(meant.path, now, rng)
            else:
                tree[name] = _left(meant.synced, now.get(id(meant), meant.last), rng)
        for name in _listed_now(folder):
            if (known := SYNCED.fullmatch(name)) is not None and known[1] in tree:
                tree[name] = content_of(os.path.join(folder, name))
        return tree

    def _listed(self, folder: str) -> dict[str, Any]:
        """The names in a folder as it is, and what they mean."""
        if not os.path.isdir(folder):
            return {}  # it was removed
        return {
            each.name: self._folder(each.path) if each.is_dir() else self._file(each.path) for each in _scandir(folder)
        }

    def _folder(self, path: str) -> KeptFolder:
        """What is known of a folder that is there."""
        return self.folders.setdefault(path, KeptFolder(path))

    def _file(self, path: str) -> KeptFile:
        """What is known of a file that is there."""
        if path not in self.files:
            self.files[path] = KeptFile(content_of(path))
        return self.files[path]

    def _lose(self, path: str) -> None:
        """A file is about to lose its name."""
        if os.path.lexists(path):
            self._file(path).last = content_of(path)
            self.files.pop(path)


def _listed_now(folder: str) -> list[str]:
    return [each.name for each in _scandir(folder)] if os.path.isdir(folder) else []


def content_of(path: str) -> bytes:
    with _open(path, "rb") as file:
        return file.read()


def _apply(names: dict[str, Any], change: dict[str, Any]) -> None:
    for name, meant in change.items():
        names.pop(name, None)
        if meant is not None:
            names[name] = meant


def _some(changes: list[Any], rng: random.Random) -> list[Any]:
    """Those that have reached the disk: none, all, the first ones, or any."""
    how = rng.randrange(4)
    if how < 2:
        return changes if how else []
    if how == 2:
        return changes[: rng.randrange(len(changes) + 1)]
    return [each for each in changes if rng.random() < 0.5]


def _left(synced: bytes | None, now: bytes, rng: random.Random) -> bytes:
    """What is left of a file's content."""
    if synced == now:
        return now
    return rng.choice([synced or b"", now, now[: rng.randrange(len(now) + 1)], bytes(len(now))])


def _write(folder: Path, tree: Tree) -> None:
    """The folder becomes what the tree holds; files that are so already are left alone, with their times."""
    for entry in list(_scandir(folder)):
        if entry.is_dir() != isinstance(tree.get(entry.name, b""), dict) or entry.name not in tree:
            shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)
    for name, what in tree.items():
        path = folder / name
        if isinstance(what, dict):
            path.mkdir(exist_ok=True)
            _write(path, what)
        elif not path.exists() or content_of(str(path)) != what:
            path.write_bytes(what)
