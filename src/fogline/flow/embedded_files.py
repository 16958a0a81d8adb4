"""Which files has the embedded engine taken up so far, and which come next?

Each file once, in the order of the times at which they were last changed, then of their paths. What was taken lies in
the engine's state: it is known of a file when the batch that read it is committed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fogline.files.unread import Taken
from fogline.flow.embedded_state import EmbeddedState, Entry

BATCH = 256 * 2**20  # bytes of files in one batch, at most
_FILE = "file"


class FoundFile(NamedTuple):
    """A file that has yet to be taken."""

    when: int  # it was last changed, in milliseconds
    path: str
    size: int


class TakenFiles:
    """Which files have been taken up so far? As the state knows it."""

    def __init__(self, state: EmbeddedState, *, by_name: bool) -> None:
        self.state, self.by_name = state, by_name
        self.files = {path: Taken(*json.loads(saved)) for path, saved in state.all(_FILE)}
        self.names = {Path(path).name for path in self.files}

    def read(self) -> dict[str, Taken]:
        """The files by their paths."""
        return self.files

    def gone(self) -> list[str]:
        """Files that were to be read by a batch that is not finished, and are no longer there."""
        intent = self.state.intent()
        return [] if intent is None else [path for path, _ in intent.files if not Path(path).exists()]

    def take(self, files: Iterable[tuple[str, int]], batch: int) -> None:
        """A batch takes these."""
        for path, when in files:
            self.state.put(Entry(_FILE, path), json.dumps([when, batch]).encode())
            self.files[path] = Taken(when, batch)
            self.names.add(Path(path).name)

    def new_files(self, paths: Iterable[str]) -> list[FoundFile]:
        """Those that were never taken, in the order in which they will be: as old as they are, then by their paths."""
        found = []
        for path in paths:
            if path not in self.files and not (self.by_name and Path(path).name in self.names):
                with suppress(FileNotFoundError):  # it is there no longer
                    seen = os.stat(path)
                    found.append(FoundFile(seen.st_mtime_ns // 1_000_000, path, seen.st_size))
        return sorted(found)


def batch_of(files: list[FoundFile], most: int | None) -> int:
    """How many of these files make a batch: so many at most or, without a limit, as many as are not large together."""
    size = 0
    for count, each in enumerate(files):
        size += each.size
        if count and (count == most or (most is None and size > BATCH)):
            return count
    return len(files)
