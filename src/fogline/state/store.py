"""Where does the state of a shard lie between batches?

An engine gives each shard of groups, and each bucket of sensors, a store of its own: bytes by namespace, key and part.
Stages read what they need and write what has changed. They know what there is and never list it, so any map will do.
Each call may be a round trip to the engine: what is small lies together in one value.
"""

from __future__ import annotations

from typing import Protocol

from fogline.errors import SnapshotError


class StateStore(Protocol):
    """What an engine keeps of one shard, or of one bucket of sensors."""

    def get(self, namespace: str, key: str = "", part: int = 0) -> bytes | None:
        """What was put there; None: nothing."""

    def put(self, namespace: str, key: str, part: int, value: bytes) -> None:
        """Keep it, instead of what is there."""

    def delete(self, namespace: str, key: str, part: int) -> None:
        """Forget what is there, if anything is."""


class MemoryStore:
    """A store of one process: for tables, where no batch follows, and for tests."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, int], bytes] = {}

    def get(self, namespace: str, key: str = "", part: int = 0) -> bytes | None:
        return self.values.get((namespace, key, part))

    def put(self, namespace: str, key: str, part: int, value: bytes) -> None:
        self.values[namespace, key, part] = value

    def delete(self, namespace: str, key: str, part: int) -> None:
        self.values.pop((namespace, key, part), None)


def must_get(store: StateStore, namespace: str, key: str = "", part: int = 0) -> bytes:
    """What was put there; an error where nothing is, since other state states that there is something."""
    found = store.get(namespace, key, part)
    if found is None:
        of = f" of {key}" if key else ""
        raise SnapshotError(
            f"the checkpoint is damaged: part {part} of {namespace!r}{of} is not in it. Put back a good copy."
        )
    return found
