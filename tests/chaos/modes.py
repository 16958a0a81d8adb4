"""In which modes is Fogline broken, and what does an undisturbed run report in each?

A mode is a stream by seed, a question or several, and what the command adds. A `World` is its stream in files, one
batch each, with the question and the repository beside it; its undisturbed run is made once.
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import yaml

import fogline as fl
from tests.chaos.judging import Seen, seen
from tests.chaos.zygote import Started, run_inside, start
from tests.flow.embedding import APPENDED, NEWEST, STAMPED, changes_of_ids, learnt, readings
from tests.integration import scenario
from tests.walks import QUERY, walks

OUT, FILES = "out", 8
JOINED = {"fogline.output.compaction.BLOCK": 3, "fogline.state.sqlite.WAITING": 2000,
          "fogline.pipeline.loaded.MOST": 30_000}  # fmt: skip


@dataclass(frozen=True)
class Mode:
    """What is asked of which stream, and how."""

    queries: Mapping[str, fl.Query]
    table: Callable[[int], pa.Table]
    words: tuple[str, ...] = ()
    repository: Callable[[], fl.Repository] | None = None
    patched: dict[str, Any] = field(default_factory=dict)
    csv: bool = False


def _gaps(seed: int, steps: int = 32) -> pa.Table:
    return walks(steps=steps, gaps=0.15 + 0.05 * (seed % 4), begin=180 + 10 * (seed % 8))


def _rules(seed: int) -> pa.Table:
    return scenario.readings(1000 * seed, 480, gaps=0.3)


_LAST = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", last=40, by=["site"])
_WIDE = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", lifetime=12, alpha=0.3, by=["site"])
MODES = {
    "append": Mode({"q": APPENDED}, lambda seed: readings(320, seed)),
    "append, files joined": Mode({"q": APPENDED}, lambda seed: readings(320, seed), patched=JOINED),
    "csv, timestamps": Mode({"q": STAMPED}, lambda seed: readings(320, seed, stamps=True), csv=True),
    "lateness": Mode({"q": APPENDED}, lambda seed: readings(320, seed, late=8), ("--lateness", "6")),
    "latest": Mode({"q": NEWEST}, lambda seed: changes_of_ids(1200, seed, 150)),
    "count window": Mode({"q": _LAST}, lambda seed: readings(320, seed)),
    "two queries": Mode({"one": APPENDED, "two": _WIDE}, lambda seed: readings(320, seed)),
    "rules": Mode({"q": scenario.QUERY}, _rules, (), scenario.repository),
    "sensors, hindsight": Mode({"q": QUERY}, _gaps, (), learnt),
    "sensors, no hindsight": Mode({"q": QUERY}, _gaps, ("--no-hindsight",), learnt),
    "sensors, lateness": Mode({"q": QUERY}, _gaps, ("--lateness", "3"), learnt),
    "explain": Mode({"q": QUERY}, lambda seed: _gaps(seed, 12), ("--explain",), learnt, patched=JOINED),
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """A folder with a stream (in/), questions (q/), a repository (repo/), and what an undisturbed run reports."""

    root: Path
    mode: Mode
    calm: Seen

    def words(self, output: str = OUT, *more: str, engine: str = "embedded") -> list[str]:
        """The command in a copy of this folder."""
        queries = [word for name in self.mode.queries for word in ("-q", f"q/{name}.yaml")]
        repository = ["-r", "repo"] if self.mode.repository else []
        each = ["--files-per-batch", "1", "--engine", engine]
        return ["run", "in", *queries, "-o", output, *repository, *each, *self.mode.words, *more]

    def copy(self, to: Path) -> Path:
        """A copy of the stream and all that is asked, to be broken."""
        shutil.copytree(self.root, to, dirs_exist_ok=True, ignore=lambda folder, names: {OUT, "log"} & {*names})
        return to

    def start(self, folder: Path, *more: str, output: str = OUT, log: str = "log", launcher: str = "") -> Started:
        """The run in a copy, as a process."""
        return start(self.words(output, *more), folder, log=log, patched=self.mode.patched, launcher=launcher)

    def finish(self, folder: Path, *more: str, output: str = OUT) -> Started:
        """The run in a copy, to its end, which is a good one."""
        started = self.start(folder, *more, output=output)
        assert started.wait() == 0, f"the run failed:\n{started.shown()}"
        return started


@cache
def _root() -> Path:
    """A folder for as long as this process lives."""
    path = Path(mkdtemp(prefix="fogline-chaos-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def _repository(given: Callable[[], fl.Repository]) -> Path:
    path = _root() / f"repository-{given.__module__}"
    given().save(path)
    return path


@cache
def world(mode: str, seed: int) -> World:
    """The world of a mode and a seed, made once; its undisturbed run warms what later ones need."""
    how, root = MODES[mode], _root() / f"{mode}-{seed}"
    (root / "q").mkdir(parents=True)
    for name, query in how.queries.items():
        (root / "q" / f"{name}.yaml").write_text(yaml.safe_dump(query.to_dict()), encoding="utf-8")
    if how.repository is not None:
        shutil.copytree(_repository(how.repository), root / "repo")
    write_files(how.table(seed), root / "in", csv=how.csv)
    made = World(root, how, Seen.none())
    code = run_inside(made.words(), root, patched=how.patched)
    assert code == 0, (root / "log").read_text()
    return World(root, how, seen(root / OUT))


def write_files(table: pa.Table, folder: Path, *, csv: bool = False, files: int = FILES) -> None:
    """A stream as files, one second after another."""
    folder.mkdir()
    size = -(-table.num_rows // files)
    for k in range(files):
        path = folder / f"{k:03}.{'csv' if csv else 'parquet'}"
        part = table.slice(k * size, size)
        if csv:
            pc.write_csv(part, path)
        else:
            pq.write_table(part, path)
        os.utime(path, (1e9 + k, 1e9 + k))
