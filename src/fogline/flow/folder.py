"""How is a small file put into a folder, whole or not at all?

Written beside its place and then renamed, so that a reader sees all of it or nothing, and writing it again changes
nothing. `LocalFolder` is on this machine; engines bring folders in the file systems they reach.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol


class Folder(Protocol):
    """A place for files by name."""

    def put(self, name: str, content: bytes) -> None: ...
    def get(self, name: str) -> bytes | None: ...
    def names(self, below: str) -> list[str]: ...


class LocalFolder:
    """On this machine."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def put(self, name: str, content: bytes) -> None:
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f".{place.name}.new")
        fresh.write_bytes(content)
        fresh.replace(place)

    def get(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, below: str) -> list[str]:
        """The names in a subfolder, in their order."""
        found = (self.root / below).glob("[!._]*")
        return sorted(f"{below}/{each.name}" for each in found)


def absolute(path: str) -> str:
    """The same path wherever another process thinks it is."""
    return str(Path(path).absolute()) if is_local(path) else path


def is_local(path: str) -> bool:
    """Does the path name no file system?"""
    return re.match(r"[a-zA-Z][\w+.-]*:/", path) is None
