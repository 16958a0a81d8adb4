"""How does the demo run, from the first word on the screen to the last?

Learn, start, then send rows and draw what comes back. In a terminal the rows keep pace with the wall clock, which
begins with the first answer. Without one there is nothing to wait for: they are all there at once. Either way the same
options give the same answers.
"""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from threading import Thread
from time import monotonic

import pyarrow.compute as pc
from rich.console import Console
from rich.live import Live

from fogline.demo.control_room import earlier_shift
from fogline.demo.display import frame, line, summary
from fogline.demo.engine import EmbeddedEngine, Engine
from fogline.demo.mine import PERIOD
from fogline.demo.options import PORTION, DemoOptions
from fogline.demo.shift import Shift, question
from fogline.demo.view import BatchReport, MineView
from fogline.monitor import Monitor
from fogline.query import Query
from fogline.repository.repository import Repository

FRAME = 0.1  # seconds between two frames
PLAIN_LINES = 8


@contextmanager
def embedded() -> Iterator[Engine]:
    """An engine in this process."""
    yield EmbeddedEngine()


@contextmanager
def on_spark() -> Iterator[Engine]:
    """An engine on a local Spark that is stopped at the end."""
    # here, so that what is not installed is reported in words
    from fogline.demo.spark_engine import SparkEngine
    from fogline.spark.session import BRISK_JVM, for_a_while

    interrupt, disabled = signal.getsignal(signal.SIGINT), logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # Py4J logs a stack for an interrupt that is meant
    try:
        with for_a_while(settings=BRISK_JVM) as spark:
            signal.signal(signal.SIGINT, interrupt)  # Spark's own handler would cancel the batch at hand
            engine = SparkEngine(spark)
            try:
                yield engine
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the cleaning shall not be disturbed
                engine.stop()
    finally:
        signal.signal(signal.SIGINT, interrupt)
        logging.disable(disabled)


def show(
    options: DemoOptions,
    console: Console,
    *,
    plain: bool = False,
    opened: Callable[[], AbstractContextManager[Engine]] | None = None,
    page: str | None = None,
) -> MineView:
    """Run the demo to its end, or until Ctrl-C, and sum it up. `opened`: its engine; by default one on Spark, where
    that is installed and can answer. `page`: the address of the page that shows the same.
    """
    run = DemoRun(options, console, plain, page)
    opened = opened or (embedded if options.latest or not has_spark(console) else on_spark)
    with suppress(KeyboardInterrupt), run.status or nullcontext():
        if opened is on_spark:
            run.warming.start()
        run.status_line("starting Spark" if opened is on_spark else "starting")
        with opened() as engine:
            run.learn(engine)
            (run.plainly if plain else run.live)(engine)
    console.print(summary(run.view))
    return run.view


def has_spark(console: Console) -> bool:
    """Whether PySpark is installed; if not, a line states what follows."""
    if find_spec("pyspark") is not None:
        return True
    console.print("PySpark is not installed: the demo runs in this process")
    return False


class DemoRun:
    """One run of the demo."""

    def __init__(self, options: DemoOptions, console: Console, plain: bool, page: str | None = None) -> None:
        self.options, self.console, self.plain, self.page = options, console, plain, page
        self.status = None if plain else console.status("")
        self.view = MineView(options.sensors, options.alpha, latest=options.latest)
        self.query = question(options.alpha, latest=options.latest)
        self.warming = Thread(target=warm_up, args=(self.query,), daemon=True)  # while Spark starts

    def status_line(self, what: str) -> None:
        """What takes so long."""
        if self.status is None:
            self.console.print(f"{what} …")
        else:
            self.status.update(f"{what} …")

    def learn(self, engine: Engine) -> None:
        """From the shift before, for the one to come."""
        options = self.options
        if self.warming.is_alive():
            self.status_line("compiling kernels (on the first run only)")
            self.warming.join()
        history = earlier_shift(options.sensors, options.seed)
        self.status_line(f"learning from {history.num_rows:,} readings of the shift before")
        self.repository = engine.learn(history, self.query)
        self.shift = Shift(options.sensors, options.seed, self.query, self.repository)

    def send(self, engine: Engine, ticks: int) -> None:
        """The next ticks happen."""
        rows, happened = self.shift.next(ticks)
        engine.send(rows)
        self.view.expect(happened)

    def plainly(self, engine: Engine) -> None:
        """All at once; a line for each batch."""
        for ticks in self.options.portions:
            self.send(engine, ticks)
        engine.start(self.query, self.repository, at_once=math.ceil(len(self.options.portions) / PLAIN_LINES))
        self.status_line("the first batch takes longest")
        while self.view.ticks < self.options.ticks:
            if (report := engine.poll(FRAME)) is not None:
                self.view.follow(report)
                self.console.print(line(self.view), soft_wrap=True)

    def live(self, engine: Engine) -> None:
        """At the pace of the options, which begins with the first answer."""
        portions = self.options.portions
        self.send(engine, portions[0])
        engine.start(self.query, self.repository, at_once=None)
        self.status_line("waiting for the first answer")
        report: BatchReport | None = None
        while report is None:
            report = engine.poll(FRAME)
        if self.status is not None:
            self.status.stop()
        begin, sent = monotonic(), 1
        with Live(console=self.console, screen=True, auto_refresh=False) as live:
            while self.view.ticks < self.options.ticks:
                if report is not None:
                    self.view.follow(report)
                    live.update(frame(self.view, *self.console.size, self.page), refresh=True)
                while sent < min(1 + (monotonic() - begin) / PORTION, len(portions)):
                    self.send(engine, portions[sent])
                    sent += 1
                report = engine.poll(FRAME)


def warm_up(query: Query) -> None:
    """Run a small mine here, so that kernels are compiled once and not by every worker of Spark at the same time."""
    repository = Repository.fit(earlier_shift(sensors=60, seed=0, readings=2_000), query)
    rows, _ = Shift(60, 0, query, repository).next(3 * PERIOD)
    Monitor(query, repository, exact_limit=1).advance(pc.max(rows["ts"]), rows)  # as if there were very many places
    with suppress(ImportError):  # reported when Spark is started
        from fogline.demo.spark_engine import rehearse

        rehearse(rows, query, repository)
