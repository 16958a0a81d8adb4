"""Does an I/O error, a full disk, a short write or a power cut at any operation change what comes of a run?

SQLite's method: a scenario is run with a fault at its first operation, then at its second, and so on, until one comes
through without a fault. After each fault the error is one sentence that names the cause, and the same command again
leaves what an undisturbed run leaves: the same rows, and no file more. Seeds 0 to 7 have every n, each an eighth of
them: some 9,900 faults, half an hour of one core (`make chaos PARTS=io SEEDS=0:8`). Other seeds draw n, and disturb
the run again while it recovers, so that each case repeats another history of faults.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fogline.cli.terminal import in_words
from tests.chaos.case import SAME, Case, Outcome
from tests.chaos.disk import CUT, KINDS, STEPS, Disk, PowerCut
from tests.chaos.runs import MODES, Scenario, moving, run_of
from tests.chaos.writers import WRITERS

PART = "io"
EVERY = 8  # seeds below have all operations together: each every eighth, from another one on
DRAWN = 40  # faults of a case of another seed
AGAIN = 3  # disturbances of one run, at most, where they are drawn


def scenarios() -> list[Scenario]:
    return [*(each() for each in WRITERS), *(run_of(mode, case) for mode, case in MODES.items()), moving()]


def cases(seed: int) -> Iterator[Case]:
    """Each scenario with each kind of fault."""
    for each in scenarios():
        for kind in KINDS:
            yield Case(PART, each.name, f"{each.mode}, {kind}", seed, partial(tried, each, (kind,), seed))


def tried(scenario: Scenario, kinds: Sequence[str], seed: int, few: int | None = None) -> Outcome:
    """Faults of these kinds: at every eighth step; drawn, if the seed is another, or a `few` of each are asked for."""
    rng, faults, shown = random.Random(f"{scenario.name}/{scenario.mode}/{kinds}/{seed}"), 0, ""
    with TemporaryDirectory(prefix="fogline-io-") as folder:
        root, origin = Path(folder).resolve() / "disk", Path(folder) / "origin"
        os.mkdir(root)
        scenario.prepare(root)  # where it stays: runs know where their streams lie
        shutil.move(root, origin)
        expected, steps = calm(scenario, origin, root)
        for kind in kinds:
            most = sum(steps[what] for what in STEPS[kind])
            drawn = few or (DRAWN if seed >= EVERY else 0)
            for n in sorted(rng.sample(range(most), min(most, drawn))) if drawn else range(seed, most, EVERY):
                shutil.rmtree(root, ignore_errors=True)
                shutil.copytree(origin, root)
                where = []
                for turn in range(rng.randint(1, AGAIN) if seed >= EVERY else 1):
                    disk = Disk(str(root), kind, rng.randrange(most) if turn else n)
                    shown = disturbed(scenario, disk, rng) or shown
                    faults += bool(disk.failed)
                    where.append(f"{kind} at step {disk.at}, {disk.failed or 'which was not reached'}")
                    assert turn or disk.failed, f"step {n} of {most} was never reached"
                scenario.run(root)
                found = scenario.seen(root)
                assert found == expected, f"after {'; then '.join(where)}: {differing(found, expected)}"
    return Outcome(SAME, faults=faults, shown=shown)


def calm(scenario: Scenario, origin: Path, root: Path) -> tuple[Any, Counter[str]]:
    """What an undisturbed run leaves, and how many steps of each sort it has."""
    shutil.copytree(origin, root)
    disk = Disk(str(root))
    with disk.on():
        scenario.run(root)
    return scenario.seen(root), disk.steps


def disturbed(scenario: Scenario, disk: Disk, rng: random.Random) -> str:
    """A run with a fault; what the user was shown, if it stopped."""
    root, shown = Path(disk.root), ""
    with disk.on():
        try:
            scenario.run(root)
        except PowerCut:
            pass
        except Exception as error:
            shown = refused(disk, error)
    if disk.dead:
        disk.unsynced.after_cut(rng)
    scenario.between(root)
    return shown


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
        more, less = list(found[len(expected) :])[:3], list(expected[len(found) :])[:3]
        return f"at {where}: {len(found)} instead of {len(expected)}; more: {more}, lacking: {less}"
    if isinstance(found, dict) and isinstance(expected, dict):
        return f"at {where}: {sorted(map(str, found.keys() ^ expected.keys()))[:5]}"
    return f"at {where}: {found!r} instead of {expected!r}"
