"""Where does state lie that is too large to be written anew in every call?

In numbered cells beside the state itself: what is not needed is not read, what has not changed is not written. The
state knows which cells there are, so they are never listed. Each call of an engine's cell is a round trip: what is
small stays in the state.
"""

from __future__ import annotations

from typing import Protocol


class Cells(Protocol):
    """Bytes by number, kept by the engine with the state that they belong to."""

    def get(self, number: int) -> bytes:
        """What was put there."""

    def put(self, number: int, saved: bytes) -> None:
        """Keep it, instead of what is there."""

    def remove(self, number: int) -> None:
        """Forget what is there."""


class MemoryCells:
    """Cells of one process: for tables, where no call follows, and for tests."""

    def __init__(self) -> None:
        self.saved: dict[int, bytes] = {}

    def get(self, number: int) -> bytes:
        return self.saved[number]

    def put(self, number: int, saved: bytes) -> None:
        self.saved[number] = saved

    def remove(self, number: int) -> None:
        del self.saved[number]
