"""Which files has a run on Spark taken up so far? Read from the log of its source, in the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

from fogline.files.unread import Taken
from fogline.flow.folder import Folder

_CHECKPOINT = "checkpoint"


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
        for name in self.place.listing(f"{_CHECKPOINT}/sources/0"):
            if name not in self.seen and (content := self.place.get(name)) is not None:
                self.seen.add(name)
                for line in content.decode().splitlines()[1:]:
                    entry = json.loads(line)
                    if entry["path"].startswith("file:"):
                        path = unquote(entry["path"].removeprefix("file:").replace("//", "", 1))
                        self.files[path] = Taken(entry["timestamp"], entry["batchId"])
        return self.files

    def reads_on(self, path: str) -> bool:
        """Spark reads each file once."""
        return False

    def gone(self) -> list[str]:
        """Files that were to be read by a batch that is not finished, and are no longer there."""
        done = max((int(name.rsplit("/", 1)[1]) for name in self.place.listing(f"{_CHECKPOINT}/commits")), default=-1)
        offset = self.place.get(f"{_CHECKPOINT}/offsets/{done}")
        read = -1 if offset is None else json.loads(offset.decode().splitlines()[-1])["logOffset"]
        return [path for path, each in self.read().items() if each.batch > read and not Path(path).exists()]
