"""What becomes of rows whose files are half-written, cut, renamed, deleted, repeated or changed?

What a run reports must be what an undisturbed run reports over that which was there to be read: a file is read once, as
a whole, lines that are added to it once, and what else comes later is named. Nothing else is disturbed.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from tests.chaos.case import SAME, Case, Outcome
from tests.chaos.judging import same, seen
from tests.chaos.modes import OUT, World, world
from tests.chaos.zygote import Started, run_inside

USED = ("append", "csv, timestamps", "latest")


def cases(seed: int) -> Iterator[Case]:
    for k, scenario in enumerate(SCENARIOS):
        mode = USED[(seed + k) % len(USED)]
        yield Case("sources", scenario, mode, seed, partial(tried, scenario, mode, seed))


@dataclass
class Try:
    """A stream that is read up to its middle; the rest comes later."""

    there: World
    folder: Path
    chance: random.Random

    def __post_init__(self) -> None:
        self.files = sorted((self.folder / "in").iterdir())
        self.later = self.folder / "later"
        self.later.mkdir()
        for each in self.files[4:]:
            each.rename(self.later / each.name)

    def early(self) -> Path:
        """One of the files that the first run reads."""
        return self.chance.choice(self.files[1:4])

    def come(self) -> None:
        """The rest is there, too."""
        for each in self.files[4:]:
            (self.later / each.name).rename(each)

    def run(self) -> Started:
        return self.there.finish(self.folder)

    def expect(self, what: str, change: Callable[[Path], object] = lambda folder: None) -> None:
        """The output is that of an undisturbed run over the stream, once it is changed."""
        other = self.there.copy(self.folder / "other")
        change(other / "in")
        code = run_inside(self.there.words(), other, patched=self.there.mode.patched)
        assert code == 0, (other / "log").read_text()
        same(seen(self.folder / OUT), seen(other / OUT), what, alike=False)


def tried(scenario: str, mode: str, seed: int) -> Outcome:
    with TemporaryDirectory() as name:
        there = world(mode, seed)
        return Outcome(SAME, faults=SCENARIOS[scenario](Try(there, there.copy(Path(name)), random.Random(seed))) or 1)


def _half(path: Path, chance: random.Random) -> bytes:
    """The beginning of a file: of csv whole lines."""
    content = path.read_bytes()
    half = content[: chance.randrange(len(content) // 4, len(content))]
    return half[: half.rfind(b"\n") + 1] if path.suffix == ".csv" else half


def _write(path: Path, content: bytes) -> None:
    """Another content, as old as the file was: its place among the others stays."""
    when = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(when, when))


def half_written(at: Try) -> None:
    """Lines that are added to a file after it was read are read as if they were a file; else that is reported."""
    path = at.early()
    whole, half, lines = path.read_bytes(), _half(path, at.chance), path.suffix == ".csv"
    _write(path, half)
    at.run()
    path.write_bytes(whole)
    at.come()
    shown = at.run().shown()
    assert ("changed after it was taken up" in shown) != lines, shown

    def change(folder: Path) -> None:
        _write(folder / path.name, half)
        if lines:
            header = half[: half.find(b"\n") + 1]
            (folder / f"rest-{path.name}").write_bytes(header + whole[len(half) :])

    at.expect("a file was half-written when it was read", change)


def renamed_when_whole(at: Try) -> None:
    """A file that is written under another name, and renamed when it is whole, is read once."""
    path = at.early()
    whole = path.read_bytes()
    path.unlink()
    waiting = path.with_name(at.chance.choice((f"{path.name}.tmp", f".{path.name}", f"_{path.name}")))
    waiting.write_bytes(_half(at.there.root / "in" / path.name, at.chance))
    at.run()
    waiting.write_bytes(whole)
    waiting.rename(path)
    at.run()
    at.come()
    at.run()

    def moved(folder: Path) -> None:  # it came after the other early ones
        os.utime(folder / path.name, (1e9 + 3.5, 1e9 + 3.5))

    at.expect("a file was renamed when it was whole", moved)


def deleted_after(at: Try) -> None:
    """What was taken stays taken."""
    at.run()
    for path in at.chance.sample(at.files[:4], 2):
        path.unlink()
    at.come()
    at.run()
    at.expect("files were deleted after they were read")


def deleted_before(at: Try) -> None:
    """A file that is gone before it was read is not missed: no run knew of it."""
    at.run()
    at.come()
    path = at.chance.choice(at.files[4:])
    path.unlink()
    at.run()
    at.expect("a file was deleted before it was read", lambda folder: (folder / path.name).unlink())


def changed_after(at: Try) -> None:
    """Another content under the same name is not read, and that is reported."""
    at.run()
    path = at.early()
    path.write_bytes(at.chance.choice(at.files[:4]).read_bytes())
    at.come()
    assert path.name in at.run().shown()
    at.expect("a file was changed after it was read")


def repeated(at: Try) -> None:
    """The same rows under another name are rejected or late or stale, each counted, and the answer is the same."""
    at.run()
    path = at.early()
    again = path.with_name(f"again-{path.name}")
    shutil.copy2(path, again)
    at.come()
    at.run()
    now, calm = seen(at.folder / OUT), at.there.calm
    rows = now.counts["rows"] - calm.counts["rows"]
    assert rows > 0, "the rows of the second file are counted"
    answers = [read_answer(LocalFolder(top / OUT), OUT).to_pylist() for top in (at.folder, at.there.root)]
    assert sorted(map(repr, answers[0])) == sorted(map(repr, answers[1])), "the answer differs"


def cut_short(at: Try) -> None:
    """A file that was cut is read as far as it goes; what cannot be read is in the rejects by its name."""
    path = at.early()
    content = path.read_bytes()
    cut = content[: at.chance.randrange(1, len(content) - 1)]
    _write(path, cut)
    at.run()
    at.come()
    at.run()
    at.expect("a file was cut short", lambda folder: _write(folder / path.name, cut))
    if path.suffix == ".parquet":
        rejects = seen(at.folder / OUT).rejects
        assert any(dict(row)["file"] == f'"{path.name}"' for row in rejects), f"{path.name} is not among the rejects"


def nothing_in_them(at: Try) -> int:
    """Files without content, folders called like files, links that go in circles or nowhere, a pipe."""
    folder, end = at.folder / "in", at.files[0].suffix
    (folder / f"empty{end}").touch()
    (folder / f"folder{end}").mkdir()
    (folder / f"loop{end}").symlink_to(folder / f"loop{end}")
    (folder / "circle").symlink_to(folder)
    (folder / f"nowhere{end}").symlink_to(folder / "nothing")
    os.mkfifo(folder / f"pipe{end}")
    at.run()
    at.come()
    at.run()
    now, calm = seen(at.folder / OUT), at.there.calm
    assert now.changes == calm.changes, "changes differ"
    assert now.counts["rows"] - now.counts["rejected"] == calm.counts["rows"] - calm.counts["rejected"]
    return 6


SCENARIOS: dict[str, Callable[[Try], int | None]] = {
    "half-written, grown later": half_written,
    "renamed when whole": renamed_when_whole,
    "deleted after it was read": deleted_after,
    "deleted before it was read": deleted_before,
    "changed after it was read": changed_after,
    "repeated under another name": repeated,
    "cut short": cut_short,
    "nothing in them": nothing_in_them,
}
