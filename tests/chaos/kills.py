"""Is every change reported exactly once when processes are killed, stopped and continued?

Embedded: one process, which is hit while it holds its output. Spark: the driver with all that it has started, the JVM
alone, and Python workers, many per run. After each hit the same command goes on.
"""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from tests.chaos import spark_kills
from tests.chaos.case import SAME, Case, Outcome
from tests.chaos.judging import same, seen
from tests.chaos.modes import MODES, OUT, World, world
from tests.chaos.zygote import Started

EMBEDDED_KILLS = 40  # per case: 25 cases are a thousand


def cases(seed: int) -> Iterator[Case]:
    for mode in MODES:
        yield Case("kills", "kill -9 at any moment", mode, seed, partial(killed, mode, seed))
    chance = random.Random(seed)
    for mode in chance.sample(sorted(MODES), 3):
        yield Case("kills", "asked to stop", mode, seed, partial(asked_to_stop, mode, seed))
        yield Case("kills", "stopped for a while", mode, seed, partial(suspended, mode, seed))
    yield from spark_kills.cases(seed)


def at_work(started: Started, folder: Path, output: str = OUT) -> None:
    """Wait until this process holds its output, or has ended."""
    lock = folder / output / ".lock"
    while started.poll() is None:
        try:
            if f'"pid": {started.pid},' in lock.read_text():
                return
        except FileNotFoundError:
            pass
        sleep(0.001)


def duration(there: World, folder: Path) -> float:
    """Seconds that an undisturbed run holds its output."""
    started = there.start(folder, output="timed")
    at_work(started, folder, "timed")
    began = monotonic()
    assert started.wait() == 0, started.shown()
    return monotonic() - began


def killed(mode: str, seed: int, kills: int = EMBEDDED_KILLS) -> Outcome:
    """SIGKILL at random moments, each time resumed by the same command."""
    chance, there, hits = random.Random(seed), world(mode, seed), 0
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        whole = duration(there, folder)
        while hits < kills:
            started = there.start(folder)
            at_work(started, folder)
            sleep(chance.random() ** 2 * whole)
            hits += started.poll() is None and started.kill()
            code = started.wait()
            assert code in (0, -signal.SIGKILL), f"{code}\n{started.shown()}"
            if code == 0:  # it came to its end: begin again, for more kills
                same(seen(folder / OUT), there.calm, f"after {hits} kills")
                shutil.rmtree(folder / OUT)
        there.finish(folder)
        same(seen(folder / OUT), there.calm, f"after {hits} kills")
    return Outcome(SAME, faults=hits)


def asked_to_stop(mode: str, seed: int, times: int = 5) -> Outcome:
    """SIGTERM or SIGINT, once or twice: it ends by itself, and goes on."""
    chance, there, hits = random.Random(seed), world(mode, seed), 0
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        whole = duration(there, folder)
        for _ in range(times):
            started = there.start(folder)
            at_work(started, folder)
            sleep(chance.random() ** 2 * whole)
            for _ in range(chance.choice((1, 1, 2))):
                if started.poll() is None:
                    hits += started.kill(chance.choice((signal.SIGTERM, signal.SIGINT)))
            code = started.wait()
            assert code in (0, 130, 143, -signal.SIGTERM, -signal.SIGINT), f"{code}\n{started.shown()}"
            assert "Traceback" not in started.shown(), started.shown()
        there.finish(folder)
        same(seen(folder / OUT), there.calm, "after it was asked to stop")
    return Outcome(SAME, faults=hits)


def suspended(mode: str, seed: int, times: int = 4) -> Outcome:
    """SIGSTOP, and after a while SIGCONT: nothing but time has passed."""
    chance, there, hits = random.Random(seed), world(mode, seed), 0
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        whole = duration(there, folder)
        started = there.start(folder)
        at_work(started, folder)
        for _ in range(times):
            sleep(chance.random() / times * whole)
            if started.poll() is None:
                hits += started.kill(signal.SIGSTOP)
                sleep(chance.random() * 0.1)
                started.kill(signal.SIGCONT)
        assert started.wait() == 0, started.shown()
        same(seen(folder / OUT), there.calm, "after it stood still")
    return Outcome(SAME, faults=hits)
