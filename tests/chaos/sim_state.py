"""What does an engine keep between batches, and what does one attempt of a task see of it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fogline.pipeline import changelog as log
from fogline.pipeline import loaded as cache
from fogline.pipeline import loaded as waiting
from fogline.pipeline import sensor_state as readings
from fogline.pipeline import shard as shelf
from fogline.pipeline import small_groups as bundle
from fogline.pipeline import small_groups as together

Entry = tuple[str, str, Any]  # what, of which key, which number
_MODULES = {"shelf": shelf, "bundle": bundle, "cache": cache, "together": together, "log": log, "waiting": waiting,
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

    def get(self, entry: Entry) -> bytes | None:
        return self.written[entry] if entry in self.written else self.base.get(entry)

    def put(self, entry: Entry, saved: bytes | None) -> None:
        self.fuse -= 1
        if self.fuse == 0:
            raise Died
        self.written[entry] = saved

    def cells(self, what: str, key: str) -> AttemptCells:
        return AttemptCells(self, what, key)


class AttemptCells:
    """Numbered cells; also pages, and states of large groups, of a shelf."""

    def __init__(self, attempt: Attempt, what: str, key: str) -> None:
        self.attempt, self.what, self.key = attempt, what, key

    def get(self, number: Any) -> bytes:
        saved = self.attempt.get((self.what, self.key, number))
        assert saved is not None, f"{self.what} {self.key} {number} is not there"
        return saved

    def put(self, number: Any, saved: bytes) -> None:
        self.attempt.put((self.what, self.key, number), saved)

    def remove(self, number: Any) -> None:
        self.get(number)
        self.attempt.put((self.what, self.key, number), None)


class AttemptStore:
    """What an engine keeps of a shelf."""

    def __init__(self, attempt: Attempt, number: int) -> None:
        self.attempt, self.name = attempt, str(number)
        self.pages, self.large = attempt.cells("page", self.name), attempt.cells("large", self.name)

    def index(self) -> bytes | None:
        return self.attempt.get(("index", self.name, 0))

    def put_index(self, saved: bytes | None) -> None:
        self.attempt.put(("index", self.name, 0), saved)

    def cells(self, key: str) -> tuple[AttemptCells, AttemptCells, AttemptCells]:
        waiting, parts, turns = (self.attempt.cells(what, f"{self.name} {key}") for what in ("cells", "parts", "turns"))
        return waiting, parts, turns
