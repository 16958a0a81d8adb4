"""Which files has the embedded engine taken up so far, and which come next?

Each file once, in the order of the times at which they were last changed, then of their paths. What was taken lies in
the engine's state: it is known of a file when the batch that read it is committed. Of a file that was too long for one
batch it is known how many of its rows were taken, and by what it is known again; the next batch begins with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fogline.files.listing import files_of
from fogline.files.mark import FileMark
from fogline.files.unread import Taken
from fogline.flow.embedded_reading import Cut
from fogline.flow.embedded_state import EmbeddedState, Entry, Intent

BATCH = 256 * 2**20  # bytes of files in one batch, at most, …
ROWS = 1_000_000  # … and rows, unless stated
_FILE, _CUT = "file", "cut file"


class FoundFile(NamedTuple):
    """A file that has yet to be taken."""

    when: int  # it was last changed, in milliseconds
    path: str
    size: int


class CutFile(NamedTuple):
    """A file of which some rows were taken."""

    path: str
    rows: int
    when: int  # it was last changed, in milliseconds
    batch: int  # that took the last of them
    mark: FileMark | None = None  # by which it is known; None: it was gone, or an earlier version has cut it

    @classmethod
    def from_json(cls, path: str, saved: bytes) -> CutFile:
        """The inverse of `to_json`."""
        rows, when, batch, *mark = json.loads(saved)
        return cls(path, rows, when, batch, FileMark(*mark) if mark else None)

    def to_json(self) -> bytes:
        """All but its path."""
        return json.dumps([self.rows, self.when, self.batch, *(self.mark or ())]).encode()


class TakenFiles:
    """Which files have been taken up so far? As the state knows it."""

    def __init__(self, state: EmbeddedState, stream: str, *, by_name: bool) -> None:
        self.state, self.stream, self.by_name = state, stream, by_name
        self.files = {path: Taken(*json.loads(saved)) for path, saved in state.all(_FILE)}
        self.names = {Path(path).name for path in self.files}
        self.cut = next((CutFile.from_json(path, saved) for path, saved in state.all(_CUT)), None)

    def read(self) -> dict[str, Taken]:
        """The files by their paths."""
        return self.files if self.cut is None else self.files | {self.cut.path: Taken(self.cut.when, self.cut.batch)}

    def gone(self) -> list[str]:
        """Files that were to be read by a batch that is not finished, and are no longer there."""
        intent = self.interrupted()
        paths = [] if self.cut is None else [path for path, _ in self._here([(self.cut.path, self.cut.when)])]
        paths = paths if intent is None else [path for path, _ in intent.files]
        return [path for path in paths if not Path(path).exists()]

    def interrupted(self) -> Intent | None:
        """What a batch that was not finished was to do, with its files where they lie now; None: there is none."""
        intent = self.state.intent()
        return None if intent is None else intent._replace(files=self._here(intent.files))

    def _here(self, files: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """The same files; where the stream was moved, those of its folder that have their names."""
        if not self.by_name:
            return files
        there = {each.name: str(each) for each in files_of(self.stream)}
        return [(there.get(Path(path).name, path), when) for path, when in files]

    def take(self, files: Sequence[tuple[str, int]], batch: int, cut: Cut | None = None) -> int:
        """A batch takes these; with the one that was `cut` it ends. Returns how many of them are read."""
        if self.cut is not None:
            self.state.remove(Entry(_CUT, self.cut.path))
            self.cut = None
        for count, (path, when) in enumerate(files):
            if cut is not None and path == cut.path:
                self.cut = CutFile(path, cut.rows, when, batch, cut.mark)
                self.state.put(Entry(_CUT, path), self.cut.to_json())
                return count
            self.state.put(Entry(_FILE, path), json.dumps([when, batch]).encode())
            self.files[path] = Taken(when, batch)
            self.names.add(Path(path).name)
        return len(files)

    def new_files(self, paths: Iterable[str]) -> list[FoundFile]:
        """Those that were never taken, in the order in which they will be: as old as they are, then by their paths.

        The one that was cut comes first, even if it is there no longer: then it is a reject.
        """
        found: list[FoundFile] = []
        cut = [] if self.cut is None else [FoundFile(self.cut.when, self.cut.path, 0)]
        for path in paths:
            if self.cut is not None and self._is_cut(path):
                cut = [FoundFile(self.cut.when, path, 0)]
            elif path not in self.files and not (self.by_name and Path(path).name in self.names):
                with suppress(FileNotFoundError):  # it is there no longer
                    seen = os.stat(path)
                    found.append(FoundFile(seen.st_mtime_ns // 1_000_000, path, seen.st_size))
        return cut + sorted(found)

    def _is_cut(self, path: str) -> bool:
        cut = self.cut
        return cut is not None and (path == cut.path or (self.by_name and Path(path).name == Path(cut.path).name))


def batch_of(files: list[FoundFile], most: int | None) -> int:
    """How many of these files make a batch: so many at most or, without a limit, as many as are not large together."""
    size = 0
    for count, each in enumerate(files):
        size += each.size
        if count and (count == most or (most is None and size > BATCH)):
            return count
    return len(files)
