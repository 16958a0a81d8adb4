"""Where does a large group lie, if not in its state?

In cells: its base, and the turns that it took since (see `log`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Noted(NamedTuple):
    """A turn that lies in a cell."""

    cell: int
    mark: str  # of the group after it
    rows: int


@dataclass(frozen=True, slots=True)
class Log:
    """Where a group lies."""

    base: str  # the mark of the group in the base
    size: int  # bytes of the base
    turns: tuple[Noted, ...]  # in their order; the first may be older than the base

    @property
    def mark(self) -> str:
        """Of the group now."""
        return self.turns[-1].mark if self.turns else self.base

    def after(self, mark: str) -> tuple[Noted, ...]:
        """The turns since the group had this mark."""
        marks = [turn.mark for turn in self.turns]
        return self.turns[marks.index(mark) + 1 :] if mark in marks else self.turns

    def to_plain(self) -> list[Any]:
        """For a header."""
        return [self.base, self.size, [list(each) for each in self.turns]]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Log:
        """The inverse of `to_plain`."""
        base, size, turns = plain
        return cls(base, size, tuple(Noted(*each) for each in turns))
