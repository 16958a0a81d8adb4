"""What of a checkpoint on the disks of this machine survives a power cut?

The engine closes its files and renames them, but does not wait for the disk. So all that a batch rests on is synced
before the batch's own files are written: the output never knows of a batch that the checkpoint has lost. What the
engine writes after that may be there without content; such files are removed when a run goes on, and the batch is
done again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fogline.flow.folder import to_disk

LOGS = ("offsets", "commits", "sources/0")  # a file for each batch


class Synced:
    """Syncs what is new in a checkpoint, each file once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, tuple[int, int]] = {}  # path -> when it was changed, and its size

    def sync(self) -> None:
        """All that lies there now is on disk."""
        found, folders = dict(_files(self.root)), set()
        for path, mark in found.items():
            if self.known.get(path) != mark:
                folders.add(Path(path).parent)
                try:
                    to_disk(Path(path))
                except FileNotFoundError:  # the engine removes what it no longer needs
                    continue
        for folder in folders:
            if folder.is_dir():
                to_disk(folder)
        self.known = found


def mend(root: Path) -> list[Path]:
    """Remove the newest files of the logs as far as they have no content; which are these?"""
    gone = []
    for log in LOGS:
        numbered = sorted((int(each.name), each) for each in (root / log).glob("*") if each.name.isdigit())
        while numbered and numbered[-1][1].stat().st_size == 0:
            _, path = numbered.pop()
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            gone.append(path)
    return gone


def _files(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                seen = os.stat(path)
            except FileNotFoundError:
                continue
            yield path, (seen.st_mtime_ns, seen.st_size)
