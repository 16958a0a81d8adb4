"""What does Fogline do, seen in a few seconds and without any input?

`show` runs the simulated mine (`mine`) through the control room (`room`) and the Monitor (`watch`), draws it (`screen`)
and ends with how near the answer came to the truth (`score`).

In a terminal the ticks keep pace with the wall clock. Without one there is nobody to wait for: the same simulated time
passes as fast as it can. Either way the same options give the same answers.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep

from rich.console import Console
from rich.live import Live

from fogline.demo.mine import STEP
from fogline.demo.screen import frame, line, summary
from fogline.demo.watch import Watch, warm_up
from fogline.errors import FoglineError

FRAME = 1 / 10  # seconds between two frames
GRACE = 0.5  # a slow machine may be this much late, in seconds; then ticks are left out at the end
PLAIN_LINES = 8

__all__ = ["Plan", "show"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of the mine is shown, and how fast."""

    seconds: float = 8.0
    sensors: int = 300
    seed: int = 1
    alpha: float = 0.5
    speed: float = 300.0  # simulated seconds per second

    def __post_init__(self) -> None:
        for name in ("seconds", "speed"):
            if not 0 < getattr(self, name) < math.inf:
                raise FoglineError(f"{name} is {getattr(self, name)}; it must be more than 0, and not for ever.")

    @property
    def ticks(self) -> int:
        """How many ticks there are to show."""
        return math.ceil(self.seconds * self.speed / STEP.total_seconds())


def show(plan: Plan, console: Console, *, plain: bool = False) -> None:
    """Run the demo to its end, or until Ctrl-C, and sum it up."""
    watch = Watch(plan.sensors, plan.seed, plan.alpha)
    with suppress(KeyboardInterrupt):
        _prepare(plan, console, plain)
        (_plain if plain else _live)(watch, plan, console)
    console.print(summary(watch))


def _prepare(plan: Plan, console: Console, plain: bool) -> None:
    """The first run on a machine compiles for up to a minute; nobody should look at a blank screen meanwhile."""
    message = "preparing kernels (compiled on the first run only) …"
    if plain:
        console.print(message)
        warm_up(plan.alpha)
    else:
        with console.status(message):
            warm_up(plan.alpha)


def _plain(watch: Watch, plan: Plan, console: Console) -> None:
    every = math.ceil(plan.ticks / PLAIN_LINES)
    while watch.ticks < plan.ticks:
        watch.tick()
        if watch.ticks % every == 0 or watch.ticks == plan.ticks:
            console.print(line(watch), soft_wrap=True)


def _live(watch: Watch, plan: Plan, console: Console) -> None:
    begin = monotonic()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while watch.ticks < plan.ticks and (passed := monotonic() - begin) < plan.seconds + GRACE:
            due = math.ceil((passed + FRAME) * plan.speed / STEP.total_seconds())
            while watch.ticks < min(due, plan.ticks) and monotonic() - begin < passed + FRAME:
                watch.tick()
            live.update(frame(watch, *console.size), refresh=True)
            sleep(max(0.0, begin + passed + FRAME - monotonic()))
