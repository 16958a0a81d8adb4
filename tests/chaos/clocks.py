"""Does a machine's clock that jumps change what is reported?

Rows carry their own times: the machine's clock only bounds them from above, and is written down for a batch that is
done again. It jumps back and forth, in the process and on its files, within a run and between runs, also while new
files are awaited.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.chaos.case import SAME, Case, Outcome
from tests.chaos.judging import same, seen
from tests.chaos.modes import OUT, world

YEAR = 365 * 86_400


def cases(seed: int) -> Iterator[Case]:
    for mode in ("csv, timestamps", "sensors, hindsight", "lateness"):
        yield Case("clocks", "the clock jumps", mode, seed, partial(jumping, mode, seed))
    yield Case("clocks", "times of files jump", "append", seed, partial(files_jump, "append", seed))
    yield Case("clocks", "the clock jumps while files are awaited", "append", seed, partial(following, "append", seed))


def unsteady() -> None:
    """Called in a process before it runs: each look at the clock shows another time, up to a year ahead or behind."""
    import datetime

    from fogline.runs import embedded
    from fogline.runs import lock as holding

    chance, true, true_ns = random.Random(os.getpid()), time.time, time.time_ns

    def jump() -> int:
        return chance.choice((0, 1, -1)) * chance.randrange(YEAR)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
            return cls.fromtimestamp(true() + jump(), tz)

    def seconds() -> float:
        return true() + jump()

    def nanoseconds() -> int:
        return true_ns() + jump() * 10**9

    for module, name, clock in (
        (time, "time", seconds),
        (embedded, "time_ns", nanoseconds),
        (holding, "datetime", Clock),
    ):
        setattr(module, name, clock)


UNSTEADY = f"{__name__}:{unsteady.__name__}"


def jumping(mode: str, seed: int, times: int = 4) -> Outcome:
    """Kills now and then, so that batches are done again while the clock has gone back."""
    chance, there, faults = random.Random(seed), world(mode, seed), 0
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        for _ in range(times):
            started = there.start(folder, launcher=UNSTEADY)
            time.sleep(chance.random() * 0.3)
            if started.poll() is None and chance.random() < 0.7:
                faults += started.kill()
            assert started.wait() in (0, -9), started.shown()
            faults += 1
        started = there.start(folder, launcher=UNSTEADY)
        assert started.wait() == 0, started.shown()
        same(seen(folder / OUT), there.calm, "the clock has jumped")
    return Outcome(SAME, faults=faults + 1)


def files_jump(mode: str, seed: int) -> Outcome:
    """Files that were read get other times, older and newer: none is read again, and the rest is read in its order."""
    chance, there = random.Random(seed), world(mode, seed)
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        files = sorted((folder / "in").iterdir())
        for each in files[4:]:
            each.rename(folder / each.name)
        there.finish(folder)
        for each in files[:4]:
            when = chance.choice((0, 1, 1e9, 4e9)) + chance.randrange(1000)
            os.utime(each, (when, when))
        for k, each in enumerate(files[4:]):
            (folder / each.name).rename(each)
            os.utime(each, (10 + k, 10 + k))  # older than all that was read
        there.finish(folder)
        same(seen(folder / OUT), there.calm, "times of files have jumped")
    return Outcome(SAME, faults=8)


def following(mode: str, seed: int) -> Outcome:
    """New files come one by one, to a run that follows and whose clock jumps; it is asked to stop and goes on."""
    there, chance = world(mode, seed), random.Random(seed)
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        files = sorted((folder / "in").iterdir())
        for each in files[2:]:
            each.rename(folder / each.name)
        started = there.start(folder, "--follow", "--idle", "never", launcher=UNSTEADY)
        for each in files[2:]:
            time.sleep(chance.random() * 0.1)
            (folder / each.name).rename(each)
        until = time.monotonic() + 60
        while len(list((folder / OUT / "health").glob("*.parquet"))) < len(files) and time.monotonic() < until:
            time.sleep(0.02)
        started.kill(15)
        assert started.wait() == 0, started.shown()
        there.finish(folder, "--idle", "never")
        same(seen(folder / OUT), there.calm, "a run that follows, with a clock that jumps", alike=False)
    return Outcome(SAME, faults=len(files))
