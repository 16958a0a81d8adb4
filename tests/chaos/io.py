"""Does an I/O error, a full disk, a short write or a power cut at any operation change what comes of a run?

SQLite's method: a scenario is run with a fault at its first operation, then at its second, and so on, until one comes
through without a fault. After each fault the error is one sentence that names the cause, and the same command again
leaves what an undisturbed run leaves: the same rows, and no file more. Seed 0 has every n; other seeds draw n, and
disturb the run again while it recovers, so that each case repeats another history of faults.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fogline.cli.trouble import in_words
from tests.chaos.case import SAME, Case, Outcome
from tests.chaos.disk import CUT, KINDS, Disk, PowerCut
from tests.chaos.runs import MODES, Scenario, moving, run_of
from tests.chaos.writers import WRITERS

PART = "io"
DRAWN = 40  # faults of a case whose seed is not 0
AGAIN = 3  # disturbances of one run, at most, where they are drawn


def scenarios() -> list[Scenario]:
    return [*(each() for each in WRITERS), *(run_of(mode, case) for mode, case in MODES.items()), moving()]


def cases(seed: int) -> Iterator[Case]:
    """Each scenario with each kind of fault."""
    for each in scenarios():
        for kind in KINDS:
            yield Case(PART, each.name, f"{each.mode}, {kind}", seed, lambda each=each, kind=kind: tried(each, kind, seed))  # type: ignore[misc]


def tried(scenario: Scenario, kind: str, seed: int, stride: int = 1) -> Outcome:
    """All faults of a case."""
    rng, faults, shown = random.Random(f"{scenario.name}/{scenario.mode}/{kind}/{seed}"), 0, ""
    with TemporaryDirectory(prefix="fogline-io-") as folder:
        root, origin = Path(folder).resolve() / "disk", Path(folder) / "origin"
        os.mkdir(origin)
        scenario.prepare(origin)
        expected, most = calm(scenario, origin, root, kind)
        begin = rng.randrange(stride)
        places: Any = range(begin, most, stride) if seed == 0 else (rng.randrange(most) for _ in range(DRAWN))
        for n in places:
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(origin, root)
            again = 1 if seed == 0 else rng.randint(1, AGAIN)
            for turn in range(again):
                disk = Disk(str(root), kind, n if turn == 0 else rng.randrange(most))
                shown = disturbed(scenario, disk, rng) or shown
                faults += bool(disk.failed)
                assert turn or disk.failed, f"step {n} of {most} was never reached"
            scenario.run(root)
            found = scenario.seen(root)
            assert found == expected, f"after {disk.failed} ({kind} at {n}): {differing(found, expected)}"
    return Outcome(SAME, faults=faults, shown=shown)


def calm(scenario: Scenario, origin: Path, root: Path, kind: str) -> tuple[Any, int]:
    """What an undisturbed run leaves, and how many steps it has that can fail in this way."""
    shutil.copytree(origin, root)
    disk = Disk(str(root), kind, 1 << 60)
    with disk.on():
        scenario.run(root)
    return scenario.seen(root), disk.count


def disturbed(scenario: Scenario, disk: Disk, rng: random.Random) -> str:
    """A run with a fault; what the user was shown, if it stopped."""
    root = Path(disk.root)
    with disk.on():
        try:
            scenario.run(root)
        except PowerCut:
            pass
        except Exception as error:
            return refused(disk, error)
    if disk.dead:
        disk.after_cut(rng)
        scenario.between(root)
    return ""


def refused(disk: Disk, error: Exception) -> str:
    """The lines that a command prints: a sentence with the cause, and nothing that was not foreseen."""
    lines = in_words(error)
    text = " ".join(lines)
    cause = os.strerror(errno.EIO if disk.kind == "error" else errno.ENOSPC)
    assert "did not foresee" not in text, f"after {disk.failed}: {text}"
    assert "The whole of it is in" not in text, f"after {disk.failed}: {text}"
    assert disk.kind != CUT, f"after {disk.failed}: a cut is no error: {text}"
    assert cause.lower() in text.lower(), f"after {disk.failed}: the cause is not named: {text}"
    return text


def differing(found: Any, expected: Any, where: str = "") -> str:
    """The first place at which two nested values differ."""
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        for k, (one, other) in enumerate(zip(found, expected, strict=False)):
            if one != other:
                return differing(one, other, f"{where}[{k}]")
        return f"at {where}: {len(found)} instead of {len(expected)}; more: {list(found[len(expected) :])[:3]}, lacking: {list(expected[len(found) :])[:3]}"
    if isinstance(found, dict) and isinstance(expected, dict):
        return f"at {where}: {sorted(map(str, found.keys() ^ expected.keys()))[:5]}"
    return f"at {where}: {found!r} instead of {expected!r}"
