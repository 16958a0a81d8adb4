"""What is disturbed by failing disks, how is it run again, and what must come of it?

A `Scenario` can be run any number of times in one folder: what the last one that ends well leaves there must be what a
run that was never disturbed leaves. Each is small, so that thousands of them are run one after the other.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fogline as fl
from fogline.output.answers import read_answer
from fogline.output.compaction import Compaction
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import FolderSink
from fogline.pipeline import changelog as log
from fogline.pipeline import loaded
from fogline.pipeline import loaded as waiting
from fogline.pipeline.names import KINDS, LOCK, VIEWS
from fogline.queries import Queries
from fogline.runs import embedded
from fogline.runs.embedded import Embedded
from fogline.runs.lock import holding
from fogline.runs.spill import COLLECTED
from fogline.runs.start import ready
from fogline.state import sqlite
from tests.flow.embedding import (
    APPENDED,
    NEWEST,
    Case,
    changes_of_ids,
    config_of,
    kept,
    readings,
    reported,
    write_stream,
)  # fmt: skip
from tests.walks import QUERY, walks

DAMP = fl.Query(attributes={"damp": "max"}, id="sensor", time="t", lifetime=5)
SEVERAL: Any = Queries({"all": QUERY, "damp": DAMP})


@dataclass(frozen=True)
class Scenario:
    """Something that writes files."""

    name: str
    mode: str
    prepare: Callable[[Path], None]  # what lies in the folder before
    run: Callable[[Path], None]
    seen: Callable[[Path], Any]  # what must be the same at the end
    between: Callable[[Path], None] = lambda root: None  # what must hold after a run that failed


@cache
def learnt() -> fl.Repository:
    return fl.Repository.fit(walks(sensors=4, steps=60), QUERY)


@cache
def learnt_later() -> fl.Repository:
    return fl.Repository.fit(walks(sensors=4, steps=80, seed=2), QUERY)


def sensors(steps: int) -> Callable[[], Any]:
    return lambda: walks(sensors=4, steps=steps, gaps=0.2, begin=200)


MODES = {
    "append": Case(APPENDED, lambda: readings(60, 1), {"explain": True}, files=5),
    "lateness": Case(APPENDED, lambda: readings(60, 3, late=8), {"lateness": 6}, files=4),
    "latest": Case(NEWEST, lambda: changes_of_ids(90, 4, 25), files=4),
    "memory": Case(QUERY, sensors(10), {"hindsight": False}, learnt, files=4),
    "hindsight": Case(QUERY, sensors(10), {"explain": True}, learnt, files=4),
    "hindsight, lateness": Case(QUERY, sensors(8), {"lateness": 2}, learnt, files=3),
    "several queries": Case(SEVERAL, sensors(8), {}, learnt, files=3),
    "spilled": Case(APPENDED, lambda: readings(60, 1), {"explain": True}, files=3),
    "copied": Case(APPENDED, lambda: readings(60, 1), {"keep_batches": 1}, files=5),
}


@contextmanager
def small(mode: str) -> Iterator[None]:
    """What is done every thousand batches is done every other one; what is done with much is done with little."""
    collected = 500 if mode == "spilled" else COLLECTED
    settings: list[Any] = [
        patch.object(waiting, "FEW", 5),
        patch.object(log, "FEW", 10),
        patch.object(sqlite, "WAITING", 3_000),
        patch.object(loaded, "MOST", 3_000),
        patch.dict(Compaction.__init__.__kwdefaults__ or {}, {"block": 2}),
        patch.object(embedded, "COLLECTED", collected),
    ]
    for each in settings:
        each.start()
    try:
        yield
    finally:
        for each in settings:
            each.stop()


def run_of(mode: str, case: Case) -> Scenario:
    """As `fogline run --engine embedded` does it, a file for each batch."""

    def run(root: Path) -> None:
        loaded._cached.clear()
        sinks = (FolderSink.at(str(root / "copy")),) if mode == "copied" else ()
        config = config_of(case, root, sinks=sinks)
        with small(mode):
            ready(config)
            with holding(config.output, config.engine):
                running = Embedded(config)
                try:
                    assert running.start(files_per_batch=1).awaitTermination()
                    read_answer(running.output.place, config.output)
                finally:
                    running.close()

    def seen(root: Path) -> Any:
        there = dict.fromkeys(kept(root / "out"), 0)
        copy = [] if mode != "copied" else [reported(root / "copy", kind) for kind in KINDS]
        return [[reported(root / "out", kind) for kind in (*KINDS, *VIEWS)], there, copy, names_in(root)]

    def between(root: Path) -> None:
        if (root / "out" / "about.json").exists():
            read_answer(LocalFolder(root / "out"), str(root / "out"))

    return Scenario("run", mode, lambda root: write_stream(case, root / "in"), run, seen, between)


def moving() -> Scenario:
    """A run that goes on with another repository than before."""
    case = MODES["hindsight"]

    def config(root: Path, accepts: bool) -> Any:
        known = fl.Repository.load(root / "repository")
        return replace(config_of(case, root), repository=known, accepts=accepts)

    def prepare(root: Path) -> None:
        write_stream(case, root / "in")
        learnt().save(root / "repository")
        with small(""):
            started = Embedded(config(root, False)).start(files_per_batch=1)
            for _ in range(2):
                started.awaitTermination(0)
        learnt_later().save(root / "repository")

    def run(root: Path) -> None:
        with small(""):
            ready(config(root, True))
            with holding(str(root / "out"), "embedded"):
                assert Embedded(config(root, True)).start(files_per_batch=1).awaitTermination()

    def seen(root: Path) -> Any:
        about = json.loads((root / "out" / "about.json").read_text())
        had = [each["since"] for each in about["repositories"]]
        return [reported(root / "out", kind) for kind in (*KINDS, *VIEWS)], had, names_in(root)

    return Scenario("run", "another repository", prepare, run, seen)


def names_in(root: Path) -> list[str]:
    """All files, so that nothing is left over; without what is drawn by lot in their names.

    A power cut may leave the draft of a small file, once; the log of the state and the memory that is shared over it
    are there as long as a failed run is not collected.
    """
    files = (str(each.relative_to(root)) for each in sorted(root.rglob("*")) if each.is_file() and each.name != LOCK)
    plain = (re.sub(r"version-[-\w]+", "version", re.sub(r"[0-9a-f]{32}", "…", each)) for each in files)
    return sorted(each for each in plain if not re.search(r"\.sqlite-(wal|shm)$|(^|/)\.[\w.]+\.\d+-[0-9a-f]{8}$", each))


def fresh(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    os.mkdir(root)
