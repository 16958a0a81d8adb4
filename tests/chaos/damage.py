"""What does a run make of a checkpoint, an output or a repository of which one file is damaged?

A run is stopped in the middle. Each of its files in turn is cut short, emptied, changed in one byte, removed, replaced
by an older copy, or by another file of its folder; then the run is resumed. It must refuse, and name what is damaged,
or report what it would have; with the good file back it goes on, and nothing is lost. (What was written of a batch is
not read again by a run: such a file, damaged, is an error of its readers. Whole files that are removed there, or
exchanged, are the doing of the folder's owner.)
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fogline.errors import FoglineError
from fogline.pipeline.names import ABOUT, CHECKPOINT, VIEWS
from fogline.pipeline.names import KINDS as RESULTS
from tests.chaos.case import REFUSED, SAME, Case, Outcome
from tests.chaos.judging import Seen, refusal, same, seen
from tests.chaos.modes import FILES, OUT, World, world

DAMAGED = ("append", "sensors, hindsight", "append, files joined", "explain", "latest", "two queries", "rules")
OLD, HALF = 2, 5  # files that are read when the older copy is kept, and when the run stops
Damage = Callable[[Path, Path, random.Random], bool]  # the file, its older copy, chance; whether anything was changed


def cases(seed: int) -> Iterator[Case]:
    mode = DAMAGED[seed % len(DAMAGED)]
    for kind in KINDS:
        yield Case("damage", kind, mode, seed, partial(damaged, kind, mode, seed))


def damaged(kind: str, mode: str, seed: int, most: int = 60) -> Outcome:
    """Every file of an output and of a repository in turn."""
    chance, there, faults, shown = random.Random(seed), world(mode, seed), 0, []
    with TemporaryDirectory() as name:
        folder, kept, older = stopped(there, Path(name))
        files = [path for top in (OUT, "repo") for path in sorted((folder / top).rglob("*")) if _counts(path)]
        fewer = chance.sample(files, min(len(files), most))
        for path in fewer:
            inner = path.relative_to(folder)
            if (inner.parts[1] in WRITTEN and kind in WHOLE) or not KINDS[kind](path, older / inner, chance):
                continue
            faults += 1
            shown += _resumed(there, folder, inner, kept, f"{kind}: {inner}")
            _put_back(folder, kept)
    return Outcome(REFUSED if shown else SAME, faults=faults, shown=shown[0] if shown else "")


def stopped(there: World, root: Path) -> tuple[Path, Path, Path]:
    """A run that has read the first files, with a copy of it, and an older one."""
    folder, kept, older = (root / each for each in ("now", "kept", "older"))
    there.copy(folder)
    files = sorted((folder / "in").iterdir())
    for each in files:
        each.rename(root / each.name)
    for begin, end, copy in ((0, OLD, older), (OLD, HALF, kept)):
        for each in files[begin:end]:
            (root / each.name).rename(each)
        there.finish(folder)
        if copy is kept:
            for each in files[HALF:]:
                (root / each.name).rename(each)
        shutil.copytree(folder, copy)
    assert len(files) == FILES
    return folder, kept, older


def _counts(path: Path) -> bool:
    return path.is_file() and path.name not in (".lock", "log")


def _put_back(folder: Path, kept: Path) -> None:
    for top in (OUT, "repo"):
        shutil.rmtree(folder / top, ignore_errors=True)
        if (kept / top).exists():
            shutil.copytree(kept / top, folder / top)


def _resumed(there: World, folder: Path, inner: Path, kept: Path, what: str) -> list[str]:
    """Resume it; what it was refused with, if it was. With the good file back it goes on."""
    started = there.start(folder)
    code = started.wait()
    if code == 0:
        found = _read(folder, inner, what)
        if found is None:  # the damage lies where the run had nothing to read
            shutil.copy2(kept / inner, folder / inner)
        same(seen(folder / OUT) if found is None else found, there.calm, what)
        return []
    shown = refusal(started, what)
    assert any(word in shown for word in _names(inner)), f"{what}: the damage is not named in {shown!r}"
    (folder / inner).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(kept / inner, folder / inner)
    there.finish(folder)
    same(seen(folder / OUT), there.calm, f"{what}, put back and resumed")
    return [shown]


def _read(folder: Path, inner: Path, what: str) -> Seen | None:
    """What the output holds; None: it cannot be read, and the damaged file is named."""
    try:
        return seen(folder / OUT)
    except FoglineError as error:
        shown = str(error)
    assert inner.name in shown, f"{what}: the damage is not named in {shown}"
    return None


def _names(inner: Path) -> list[str]:
    """Words that name a file, or the whole that is useless without it."""
    top = {"repo": ["repository", "'repo"]}.get(inner.parts[0], [])
    about = ["was begun"] if inner.name == ABOUT else []  # with what, as it stands there now
    return [inner.name, *top, *about, *(["checkpoint"] if "checkpoint" in inner.parts else [])]


# --- Kinds of damage --------------------------------------------------------------------------------------------------


def _cut(path: Path, older: Path, chance: random.Random) -> bool:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))] if content else b"")
    return bool(content)


def _emptied(path: Path, older: Path, chance: random.Random) -> bool:
    there = path.stat().st_size > 0
    path.write_bytes(b"")
    return there


def _flipped(path: Path, older: Path, chance: random.Random) -> bool:
    content = bytearray(path.read_bytes())
    if content:
        footer = 8 + int.from_bytes(content[-8:-4], "little") if path.suffix == ".parquet" else 0  # has no checksum
        content[chance.randrange(len(content) - footer)] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
    return bool(content)


def _removed(path: Path, older: Path, chance: random.Random) -> bool:
    path.unlink()
    return True


def _older(path: Path, older: Path, chance: random.Random) -> bool:
    if not older.exists() or older.read_bytes() == path.read_bytes():
        return False
    shutil.copy2(older, path)
    return True


def _swapped(path: Path, older: Path, chance: random.Random) -> bool:
    others = [each for each in sorted(path.parent.iterdir()) if each.is_file() and each != path and _counts(each)]
    alike = [each for each in others if each.suffix == path.suffix or path.parent.name == CHECKPOINT]
    others = [each for each in alike if each.read_bytes() != path.read_bytes()]
    if others:
        shutil.copy2(chance.choice(others), path)
    return bool(others)


WHOLE = ("a file is removed", "a file is an older copy", "a file is another of its folder")
WRITTEN = (*RESULTS, *VIEWS, "answers")  # folders of batches
KINDS: dict[str, Damage] = {
    "a file is cut short": _cut,
    "a file is emptied": _emptied,
    "a byte is flipped": _flipped,
    "a file is removed": _removed,
    "a file is an older copy": _older,
    "a file is another of its folder": _swapped,
}
