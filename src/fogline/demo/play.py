"""How does the demo run, from the first word on the screen to the last?

Learn, start, then send rows and draw what comes back. In a terminal the rows keep pace with the wall clock, which
begins with the first answer. Without one there is nobody to wait for: they are all there at once. Either way the same
options give the same answers.
"""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from threading import Thread
from time import monotonic

import pyarrow.compute as pc
from rich.console import Console
from rich.live import Live

from fogline.demo.display import frame, line, summary
from fogline.demo.engine import Engine
from fogline.demo.mine import PERIOD, STEP
from fogline.demo.room import earlier_shift
from fogline.demo.shift import Shift, question
from fogline.demo.watch import Told, Watch
from fogline.errors import FoglineError
from fogline.model import Query
from fogline.monitor import Monitor
from fogline.repository.repository import Repository

PARCEL = 0.5  # seconds of watching in one parcel of rows
FRAME = 0.1  # seconds between two frames
PLAIN_LINES = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of the mine is shown, and how fast."""

    seconds: float = 30.0
    sensors: int = 300
    seed: int = 1
    alpha: float = 0.5
    speed: float = 120.0  # simulated seconds per second

    def __post_init__(self) -> None:
        for name in ("seconds", "speed"):
            if not 0 < getattr(self, name) < math.inf:
                raise FoglineError(f"{name} is {getattr(self, name)}; it must be more than 0, and not for ever.")
        question(self.alpha)  # refuses what is no threshold

    @property
    def ticks(self) -> int:
        """How many ticks there are to show."""
        return math.ceil(self.seconds * self.speed / STEP.total_seconds())

    @property
    def parcels(self) -> list[int]:
        """How many ticks each parcel of rows holds."""
        each = math.ceil(PARCEL * self.speed / STEP.total_seconds())
        return [min(each, self.ticks - k) for k in range(0, self.ticks, each)]


@contextmanager
def on_spark() -> Iterator[Engine]:
    """An engine on a local Spark that is stopped at the end."""
    from fogline.demo.stream import BRISK_JVM, OnSpark  # here, so that what is not installed is told in words
    from fogline.spark.session import for_a_while

    interrupt, disabled = signal.getsignal(signal.SIGINT), logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # Py4J logs a stack for an interrupt that is meant
    try:
        with for_a_while(settings=BRISK_JVM) as spark:
            signal.signal(signal.SIGINT, interrupt)  # Spark's own handler would cancel the batch at hand
            engine = OnSpark(spark)
            try:
                yield engine
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # nobody shall disturb the cleaning
                engine.stop()
    finally:
        signal.signal(signal.SIGINT, interrupt)
        logging.disable(disabled)


def show(
    plan: Plan,
    console: Console,
    *,
    plain: bool = False,
    opened: Callable[[], AbstractContextManager[Engine]] = on_spark,
) -> Watch:
    """Run the demo to its end, or until Ctrl-C, and sum it up."""
    play = Play(plan, console, plain)
    with suppress(KeyboardInterrupt), play.status or nullcontext():
        play.prepare()
        play.say("starting Spark")
        with opened() as engine:
            play.learn(engine)
            (play.plainly if plain else play.live)(engine)
    console.print(summary(play.watch))
    return play.watch


class Play:
    """One run of the demo."""

    def __init__(self, plan: Plan, console: Console, plain: bool) -> None:
        self.plan, self.console, self.plain = plan, console, plain
        self.status = None if plain else console.status("")
        self.watch = Watch(plan.sensors, plan.alpha)
        self.query = question(plan.alpha)

    def say(self, what: str) -> None:
        """What takes so long."""
        if self.status is None:
            self.console.print(f"{what} …")
        else:
            self.status.update(f"{what} …")

    def prepare(self) -> None:
        """What can be done while Spark starts: kernels, and the history."""
        self.prepared = Thread(target=self._prepare, daemon=True)
        self.prepared.start()

    def _prepare(self) -> None:
        warm_up(self.query)
        self.history = earlier_shift(self.plan.sensors, self.plan.seed)

    def learn(self, engine: Engine) -> None:
        """From the shift before, for the one to come."""
        plan = self.plan
        if self.prepared.is_alive():
            self.say("compiling kernels (on the first run only)")
            self.prepared.join()
        self.say(f"learning from {self.history.num_rows:,} readings of the shift before")
        self.repository = engine.learn(self.history, self.query)
        self.shift = Shift(plan.sensors, plan.seed, self.query, self.repository)

    def send(self, engine: Engine, ticks: int) -> None:
        """The next ticks happen."""
        rows, heard = self.shift.next(ticks)
        engine.send(rows)
        self.watch.hear(heard)

    def plainly(self, engine: Engine) -> None:
        """All at once; a line for each batch."""
        for ticks in self.plan.parcels:
            self.send(engine, ticks)
        engine.start(self.query, self.repository, at_once=math.ceil(len(self.plan.parcels) / PLAIN_LINES))
        self.say("the first batch takes longest")
        while self.watch.ticks < self.plan.ticks:
            if (told := engine.told(FRAME)) is not None:
                self.watch.follow(told)
                self.console.print(line(self.watch), soft_wrap=True)

    def live(self, engine: Engine) -> None:
        """At the pace of the plan, which begins with the first answer."""
        parcels = self.plan.parcels
        self.send(engine, parcels[0])
        engine.start(self.query, self.repository, at_once=None)
        self.say("waiting for the first answer")
        told: Told | None = None
        while told is None:
            told = engine.told(FRAME)
        if self.status is not None:
            self.status.stop()
        begin, sent = monotonic(), 1
        with Live(console=self.console, screen=True, auto_refresh=False) as live:
            while self.watch.ticks < self.plan.ticks:
                if told is not None:
                    self.watch.follow(told)
                    live.update(frame(self.watch, *self.console.size), refresh=True)
                while sent < min(1 + (monotonic() - begin) / PARCEL, len(parcels)):
                    self.send(engine, parcels[sent])
                    sent += 1
                told = engine.told(FRAME)


def warm_up(query: Query) -> None:
    """Run a small mine without Spark, so that kernels are compiled once and not by every worker at the same time."""
    repository = Repository.fit(earlier_shift(sensors=60, seed=0, readings=2_000), query)
    rows, _ = Shift(60, 0, query, repository).next(3 * PERIOD)
    Monitor(query, repository, places=1).advance(pc.max(rows["ts"]), rows)  # as if there were very many places
    with suppress(ImportError):  # told when Spark is started
        from fogline.demo.stream import rehearse

        rehearse(rows, query, repository)
