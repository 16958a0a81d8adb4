"""The same on Spark: the driver with all that it has started, the JVM alone, Python workers, many per run.

The changes must be those of an undisturbed run of the embedded engine: what carries the rows makes no difference.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from benchmarks.crash import is_worker
from benchmarks.fit import below
from fogline.errors import FoglineError
from fogline.spark.java import find_java
from tests.chaos.case import REFUSED, SAME, Case, NotHere, Outcome
from tests.chaos.judging import refusal, same, seen
from tests.chaos.modes import OUT, World, world
from tests.chaos.zygote import Command

USED = ("sensors, hindsight", "latest", "lateness", "append", "count window", "two queries", "rules", "explain")
WORKER_KILLS, DRIVER_KILLS = 36, 4  # per case
LIMIT = 600.0  # seconds of a run
WORKER_ENDED = "a Python worker ended at once"  # what a run gives up with
FAILURES = "local[2,30]"  # so often may one task fail


def cases(seed: int) -> Iterator[Case]:
    mode = USED[seed % len(USED)]
    yield Case("kills", "Spark: Python workers", mode, seed, partial(_with_java, workers, mode, seed))
    mode = USED[(seed + 3) % len(USED)]
    yield Case("kills", "Spark: the driver, or its JVM alone", mode, seed, partial(_with_java, drivers, mode, seed))


def _with_java(run: Callable[[str, int], Outcome], mode: str, seed: int) -> Outcome:
    try:
        find_java()
    except FoglineError as error:
        raise NotHere(str(error)) from None
    return run(mode, seed)


def _command(there: World, folder: Path, output: str) -> Command:
    words = there.words(output, "--master", FAILURES, engine="spark")
    return Command(words, folder, folder / "log")


def _batches(folder: Path, output: str) -> int:
    return len(list((folder / output / "health").glob("*.parquet")))


def workers(mode: str, seed: int, kills: int = WORKER_KILLS) -> Outcome:
    """SIGKILL for a Python worker again and again: tasks are tried again; a run that gives up is resumed."""
    chance, there, hits, turn, shown = random.Random(seed), world(mode, seed), 0, 0, ""
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        while hits < kills:
            output, turn = f"out{turn}", turn + 1
            started = _command(there, folder, output)
            hits += _hit_workers(started, folder / output, chance)
            if started.wait(LIMIT) != 0:
                shown = refusal(started, f"after {hits} kills of workers")
                assert WORKER_ENDED in shown, shown
                started = _command(there, folder, output)
                assert started.wait(LIMIT) == 0, f"after {hits} kills of workers, resumed:\n{started.shown()}"
            same(seen(folder / output), there.calm, f"after {hits} kills of workers", alike=False)
    return Outcome(REFUSED if shown else SAME, faults=hits, shown=shown)


def _hit_workers(started: Command, output: Path, chance: random.Random) -> int:
    """Kill workers of a run until it ends; how many were there?"""
    hits, until = 0, monotonic() + LIMIT
    while started.poll() is None and monotonic() < until:
        sleep(chance.uniform(0.2, 0.8))
        found = [pid for pid in below(started.pid) if is_worker(pid)]
        if found and (output / "checkpoint").exists():
            hits += _kill(chance.choice(found))
    return hits


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _jvm(pid: int) -> int | None:
    """The JVM of a driver."""
    for each in below(pid):
        try:
            if Path(f"/proc/{each}/comm").read_text().strip() == "java":
                return each
        except OSError:
            continue
    return None


def drivers(mode: str, seed: int, kills: int = DRIVER_KILLS) -> Outcome:
    """SIGKILL for all processes of a run, or for its JVM alone, between its first batch and its last."""
    chance, there, hits = random.Random(seed), world(mode, seed), 0
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        while hits < kills and _batches(folder, OUT) < len(there.calm.batches):
            started, before = _command(there, folder, OUT), _batches(folder, OUT)
            until = monotonic() + LIMIT
            while started.poll() is None and _batches(folder, OUT) <= before and monotonic() < until:
                sleep(0.01)
            sleep(chance.random() * 0.8)
            jvm = _jvm(started.pid) if chance.random() < 0.4 else None
            hits += started.poll() is None and (started.kill() if jvm is None else _kill(jvm))
            code = started.wait(LIMIT)
            last = started.shown().strip().splitlines()[-1]
            assert jvm is None or code == 0 or "Spark's JVM has ended" in last, f"{code}\n{started.shown()}"
        started = _command(there, folder, OUT)
        assert started.wait(LIMIT) == 0, started.shown()
        same(seen(folder / OUT), there.calm, f"after {hits} kills", alike=False)
    return Outcome(SAME, faults=hits)
