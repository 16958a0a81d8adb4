"""What does a run do whose disk is full, whose output may not be written, or whose input is away?

It stops with one error that names the place, or goes on; when the place is given back, the same command goes on, and
nothing is lost.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from tests.chaos.case import REFUSED, SAME, Case, NotHere, Outcome
from tests.chaos.judging import refusal, same, seen
from tests.chaos.kills import at_work
from tests.chaos.modes import MODES, OUT, World, world

SMALL = "small"  # a file system of its own
AMPLE = 64 * 2**20  # bytes


def cases(seed: int) -> Iterator[Case]:
    chance = random.Random(seed)
    modes = chance.sample(sorted(MODES), 6)
    for mode in modes[:4]:
        yield Case("places", "the disk is full", mode, seed, partial(full, mode, seed))
    yield Case("places", "the output is read-only", modes[4], seed, partial(read_only, modes[4], seed))
    yield Case("places", "a folder of the output is locked", modes[5], seed, partial(locked, modes[5], seed))
    yield Case("places", "the input is away", modes[0], seed, partial(away, modes[0], seed))


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of so many bytes, in memory."""
    place = folder / SMALL
    place.mkdir()
    _system("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def _system(*words: str) -> None:
    """A command of the machine's administrator; a reason to leave the case out, where it may not be used."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NotHere(f"there is no command {words[0]}") from None
    if done.returncode:
        raise NotHere(f"{' '.join(words[:3])}: {done.stderr.strip()}")


def _used(folder: Path) -> int:
    """Bytes of the pages of files below a folder."""
    return sum(-(-each.stat().st_size // 4096) * 4096 for each in folder.rglob("*") if each.is_file())


def full(mode: str, seed: int, times: int = 4) -> Outcome:
    """The disk with output and checkpoint is full at a random moment, grows a little, and is full again."""
    chance, there, shown = random.Random(seed), world(mode, seed), []
    whole, output = _used(there.root / OUT), f"{SMALL}/{OUT}"
    sizes = sorted(chance.randrange(4096, max(whole, 8192)) for _ in range(times))
    with TemporaryDirectory() as name, small_disk(there.copy(Path(name)), sizes[0]) as place:
        for size in sizes:
            _system("mount", "-o", f"remount,size={size}", str(place))
            started = there.start(Path(name), output=output)
            if started.wait() != 0:
                text = refusal(started, f"a disk of {size} bytes")
                assert "no space left" in text.lower(), f"a disk of {size} bytes: the cause is not named in {text!r}"
                shown.append(text.replace(name, "…"))
        _system("mount", "-o", f"remount,size={AMPLE}", str(place))
        there.finish(Path(name), output=output)
        same(seen(place / OUT), there.calm, "the disk was full")
    return Outcome(REFUSED if shown else SAME, faults=len(sizes), shown=shown[-1] if shown else "")


def read_only(mode: str, seed: int) -> Outcome:
    """The file system of the output cannot be written between two runs."""
    there = world(mode, seed)
    output = f"{SMALL}/{OUT}"
    with TemporaryDirectory() as name, small_disk(there.copy(Path(name)), AMPLE) as place:
        _half(there, Path(name), output)
        _system("mount", "-o", "remount,ro", str(place))
        started = there.start(Path(name), output=output)
        assert started.wait() != 0, f"it ran into a folder that cannot be written:\n{started.shown()}"
        text = refusal(started, "a read-only output")
        assert "read-only" in text.lower() or "written" in text, f"the cause is not named in {text!r}"
        _system("mount", "-o", "remount,rw", str(place))
        there.finish(Path(name), output=output)
        same(seen(place / OUT), there.calm, "the output was read-only")
    return Outcome(REFUSED, faults=1, shown=text.replace(name, "…"))


def _half(there: World, folder: Path, output: str) -> None:
    """Read half of the files; the rest is there afterwards."""
    files = sorted((folder / "in").iterdir())
    for each in files[4:]:
        each.rename(folder / each.name)
    there.finish(folder, output=output)
    for each in files[4:]:
        (folder / each.name).rename(each)


def locked(mode: str, seed: int, times: int = 4) -> Outcome:
    """One folder of the output may not be changed, from a random moment of a run on, and is given back."""
    chance, there, shown = random.Random(seed), world(mode, seed), []
    places = ("changes", "rejects", "health", "checkpoint", ".")
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        for _ in range(times):
            started = there.start(folder)
            at_work(started, folder)
            inner = chance.choice(places)
            place = folder / OUT / inner
            sleep(chance.random() * 0.2)
            while not place.is_dir() and started.poll() is None:
                sleep(0.001)
            if not place.is_dir():
                break
            _system("chattr", "+i", str(place))
            try:
                code = started.wait()
            finally:
                _system("chattr", "-i", str(place))
            if code != 0:
                text = refusal(started, f"{inner} is locked")
                assert str(place) in text or "not permitted" in text.lower(), f"{inner} is not named in {text!r}"
                shown.append(text.replace(name, "…"))
        there.finish(folder)
        same(seen(folder / OUT), there.calm, "a folder was locked")
    return Outcome(REFUSED if shown else SAME, faults=times, shown=shown[-1] if shown else "")


def away(mode: str, seed: int, times: int = 6) -> Outcome:
    """The folder of the stream is away when a run is resumed, and while one awaits new files; it comes back."""
    there, chance = world(mode, seed), random.Random(seed)
    with TemporaryDirectory() as name:
        folder = there.copy(Path(name))
        _half(there, folder, OUT)
        (folder / "in").rename(folder / "away")
        started = there.start(folder)
        assert started.wait() != 0, started.shown()
        text = refusal(started, "the input is away")
        assert "'in'" in text, f"the folder is not named in {text!r}"
        (folder / "away").rename(folder / "in")
        rest = sorted((folder / "in").iterdir())[6:]
        for each in rest:
            each.rename(folder / each.name)
        started = there.start(folder, "--follow", "--idle", "never")
        at_work(started, folder)
        for _ in range(times):
            sleep(chance.random() * 0.2)
            (folder / "in").rename(folder / "away")
            sleep(chance.random() * 0.3)
            (folder / "away").rename(folder / "in")
        for each in rest:
            (folder / each.name).rename(each)
        until = monotonic() + 60
        while started.poll() is None and _last(folder) < len(there.calm.batches) - 1 and monotonic() < until:
            sleep(0.02)
        started.kill(15)
        if started.wait() != 0:
            text = refusal(started, "the input is away while files are awaited")
            assert "'in'" in text or str(folder / "in") in text, f"the folder is not named in {text!r}"
        there.finish(folder, "--idle", "never")
        same(seen(folder / OUT), there.calm, "the input was away", alike=False)
    return Outcome(REFUSED, faults=times + 1, shown=text.replace(name, "…"))


def _last(folder: Path) -> int:
    return len(list((folder / OUT / "health").glob("*.parquet"))) - 1
