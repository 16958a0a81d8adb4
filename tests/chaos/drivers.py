"""Can two runs spoil one output?

Started at random delays on one folder, under one path, through a link or from another directory; one of them stopped
and continued, or killed. One holds the output; the other is refused with the holder's name, or goes on when that has
ended.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

from tests.chaos.case import REFUSED, SAME, Case, Outcome
from tests.chaos.judging import refusal, same, seen
from tests.chaos.kills import at_work
from tests.chaos.modes import MODES, OUT, World, world
from tests.chaos.zygote import Started, start

HELD = "is being written by"


def cases(seed: int) -> Iterator[Case]:
    chance = random.Random(seed)
    for scenario in SCENARIOS:
        mode = chance.choice(sorted(MODES))
        yield Case("drivers", scenario, mode, seed, partial(raced, scenario, mode, seed))


def raced(scenario: str, mode: str, seed: int, rounds: int = 4) -> Outcome:
    chance, there, shown = random.Random(seed), world(mode, seed), []
    with TemporaryDirectory() as name:
        for turn in range(rounds):
            folder = there.copy(Path(name) / str(turn))
            (folder / "link").symlink_to(OUT)
            (folder / "deep" / "er").mkdir(parents=True)
            shown += SCENARIOS[scenario](there, folder, chance)
            there.finish(folder)
            same(seen(folder / OUT), there.calm, scenario)
    return Outcome(REFUSED if shown else SAME, faults=rounds, shown=shown[0] if shown else "")


def _elsewhere(there: World, folder: Path, chance: random.Random, log: str) -> Started:
    """The same run, by another path to its folder."""
    way = chance.choice((OUT, "link", f"./{OUT}/", f"deep/../{OUT}", str(folder / OUT)))
    return start(there.words(way), folder, log=log, patched=there.mode.patched)


def _judged(started: list[Started]) -> list[str]:
    """Each has done its work, was killed, or was refused because the other one was there."""
    shown = []
    for each in started:
        if each.wait() == 2:
            text = refusal(each, "two drivers")
            assert HELD in text, text
            shown.append(text[text.index("FoglineError") :].replace(str(each.pid), "…"))
        else:
            assert each.code in (0, -9), f"{each.code}\n{each.shown()}"
    return shown


def at_once(there: World, folder: Path, chance: random.Random) -> list[str]:
    first = there.start(folder, log="log1")
    sleep(chance.random() * 0.3)
    others = [_elsewhere(there, folder, chance, f"log{2 + k}") for k in range(2)]
    return _judged([first, *others])


def stopped(there: World, folder: Path, chance: random.Random) -> list[str]:
    """The first one stands still while the second one tries, and goes on afterwards."""
    first = there.start(folder, log="log1")
    at_work(first, folder)
    sleep(chance.random() * 0.2)
    first.kill(signal.SIGSTOP)
    second = _elsewhere(there, folder, chance, "log2")
    second.wait()
    first.kill(signal.SIGCONT)
    return _judged([first, second])


def killed(there: World, folder: Path, chance: random.Random) -> list[str]:
    """The first one is killed while the second one starts."""
    first = there.start(folder, log="log1")
    at_work(first, folder)
    second = _elsewhere(there, folder, chance, "log2")
    sleep(chance.random() * 0.1)
    first.kill()
    return _judged([first, second])


SCENARIOS = {"three at once": at_once, "the first one stands still": stopped, "the first one is killed": killed}
