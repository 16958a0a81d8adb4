"""What does an engine keep between batches, and what does one attempt of a task see of it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fogline.pipeline import changelog as log
from fogline.pipeline import loaded as cache
from fogline.pipeline import loaded as waiting
from fogline.pipeline import sensor_state as readings
from fogline.pipeline import shard, small_groups

Entry = tuple[str, str, Any]  # of which shard what, of which key, which part
_MODULES = {"shard": shard, "small_groups": small_groups, "cache": cache, "log": log, "waiting": waiting,
            "readings": readings}  # fmt: skip


@contextmanager
def sizes(constants: Mapping[str, int]) -> Iterator[None]:
    """Constants of modules, by module and name."""
    before = {}
    for name, value in constants.items():
        module, constant = name.split(".")
        before[name] = getattr(_MODULES[module], constant)
        setattr(_MODULES[module], constant, value)
    kept = cache._cached
    try:
        yield
    finally:
        cache._cached = kept
        for name, value in before.items():
            module, constant = name.split(".")
            setattr(_MODULES[module], constant, value)


class Died(Exception):
    """A task ended in its midst."""


class Attempt:
    """What one attempt of a task reads and writes; it may die at one of its writes."""

    def __init__(self, base: Mapping[Entry, bytes], fuse: int = -1) -> None:
        self.base, self.fuse = base, fuse
        self.written: dict[Entry, bytes | None] = {}

    def copy(self) -> Attempt:
        """Another one that has written the same so far."""
        copy = Attempt(self.base)
        copy.written = dict(self.written)
        return copy

    def get(self, entry: Entry) -> bytes | None:
        return self.written[entry] if entry in self.written else self.base.get(entry)

    def put(self, entry: Entry, saved: bytes | None) -> None:
        self.fuse -= 1
        if self.fuse == 0:
            raise Died
        self.written[entry] = saved


class AttemptStore:
    """What an attempt sees of the store of one shard, or of one bucket of sensors."""

    def __init__(self, attempt: Attempt, name: str) -> None:
        self.attempt, self.name = attempt, name

    def get(self, namespace: str, key: str = "", part: int = 0) -> bytes | None:
        return self.attempt.get((f"{self.name} {namespace}", key, part))

    def put(self, namespace: str, key: str, part: int, value: bytes) -> None:
        self.attempt.put((f"{self.name} {namespace}", key, part), value)

    def delete(self, namespace: str, key: str, part: int) -> None:
        assert self.get(namespace, key, part) is not None or namespace == "changelog", f"{namespace} {key} {part}"
        self.attempt.put((f"{self.name} {namespace}", key, part), None)
