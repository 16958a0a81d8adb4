"""What of a folder survives a power cut?

Of a file that was not synced any part of what was written, or zeros; of changes of names in a folder that was not
synced some. A rename in one folder happens as a whole or not at all. `Unsynced` notes what is written and which names
change, and puts the folder into a state that is possible after a cut.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

FOLDER = "a folder"
_open, _scandir = open, os.scandir  # whatever stands in their place meanwhile


@dataclass(eq=False)
class KeptFile:
    """A file whose content or name has changed."""

    synced: bytes | None = None  # what stays after a power cut; None: nothing of it was ever synced
    last: bytes = b""  # what it held when it lost its name


@dataclass
class Unsynced:
    """What the disk was not yet made to keep."""

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

    def moved(self, source: str, target: str) -> None:
        """A file or a folder is about to get another name."""
        if not os.path.isdir(source):
            self.note({source: None, target: self._file(source)})
            self._lose(target)
            self.files[target] = self.files.pop(source)
            return
        self.note({source: None, target: FOLDER})
        for known in cast("list[dict[str, Any]]", [self.files, self.names, self.changes]):
            for path in [each for each in known if each == source or each.startswith(f"{source}/")]:
                known[target + path[len(source) :]] = known.pop(path)

    def made(self, path: str) -> None:
        """A folder is about to be made."""
        self.note({path: FOLDER})
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
                self.names[folder] = {
                    each.name: FOLDER if each.is_dir() else self._file(each.path) for each in _scandir(folder)
                }
            self.changes.setdefault(folder, []).append(names)

    def after_cut(self, rng: random.Random) -> None:
        """What is on the disk when the machine is started again."""
        now = {path: content_of(path) for path in self.files if os.path.isfile(path)}
        held = {id(file): now.get(path, b"") for path, file in self.files.items()}
        for folder in sorted(self.names):
            if not os.path.isdir(folder):
                continue
            names = dict(self.names[folder])
            for each in _some(self.changes.get(folder, []), rng):
                _apply(names, each)
            for each in list(_scandir(folder)):
                if each.name not in names:
                    _gone(Path(each.path))
            for name, meant in names.items():
                path = Path(folder, name)
                if meant is FOLDER:
                    path.mkdir(exist_ok=True)
                else:
                    path.write_bytes(_left(meant.synced, held.get(id(meant), meant.last), rng))
        for name, file in self.files.items():
            if name in now and os.path.dirname(name) not in self.names:
                Path(name).write_bytes(_left(file.synced, now[name], rng))

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


def _gone(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            _gone(each)
        path.rmdir()
    else:
        path.unlink()
