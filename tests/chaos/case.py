"""What is one try to break Fogline, and how may it end?

A case can be repeated from its key alone: it has its own temporary folder and its own `random.Random(seed)`. It ends in
one of two ways, or it raises an AssertionError that states what differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SAME, REFUSED = "same", "refused"


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    "same": the netted changes are those of the undisturbed run, or of the oracle. "refused": the run stopped with an
    error that names the damage, and after repair and resume the changes are the same.
    """

    end: str
    faults: int = 0  # that were injected: each kill, each failed write, each flipped byte
    schedules: int = 0  # that were simulated
    shown: str = ""  # what the user was shown, if it was refused

    def __post_init__(self) -> None:
        if self.end not in (SAME, REFUSED):
            raise ValueError(f"a case ends as {SAME!r} or {REFUSED!r}, not as {self.end!r}")


@dataclass(frozen=True)
class Case:
    """One try: what is done, in which mode, and by which seed."""

    part: str
    scenario: str
    mode: str
    seed: int
    run: Callable[[], Outcome]

    @property
    def key(self) -> str:
        return f"{self.part}/{self.scenario}/{self.mode}/{self.seed}"


class NotHere(Exception):
    """This machine does not allow the fault: a reason to leave the case out, by name."""
