"""How much of the mine is shown, and how fast?

The command line shows what is usual; so nothing is imported here before it is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fogline.errors import FoglineError

PORTION = 0.5  # seconds of watching in one portion of rows


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How much of the mine is shown, and how fast."""

    seconds: float = 30.0
    sensors: int = 300
    seed: int = 1
    alpha: float = 0.5
    speed: float = 120.0  # simulated seconds per second
    latest: bool = False  # ask for the newest reading of each sensor

    def __post_init__(self) -> None:
        for name in ("seconds", "speed"):
            if not 0 < getattr(self, name) < math.inf:
                raise FoglineError(f"{name} is {getattr(self, name)}; it must be more than 0, and not for ever.")
        from fogline.demo.shift import question

        question(self.alpha)  # refuses what is no threshold

    @property
    def ticks(self) -> int:
        """How many ticks there are to show."""
        return math.ceil(self.seconds * self.speed / _step())

    @property
    def portions(self) -> list[int]:
        """How many ticks each portion of rows holds."""
        each = math.ceil(PORTION * self.speed / _step())
        return [min(each, self.ticks - k) for k in range(0, self.ticks, each)]


def _step() -> float:
    from fogline.demo.mine import STEP

    return STEP.total_seconds()
