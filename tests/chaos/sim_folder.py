"""Does a run in one process report each batch once, wherever it ends and begins again?

The real `EmbeddedBatches`, with its state, its output folder, joined files and spilled ones, over a folder in memory.
It ends at any of its writes, or between two batches, and a new one goes on from what lies there. A sink that sees every
call gets the same for the same number, and the folder holds, at the end, what the sink got.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from fogline.output.compaction import tables
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import schemas_of
from fogline.pipeline import loaded
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.report import BatchResult
from fogline.runs import embedded, spill
from fogline.runs import taken as embedded_reading
from fogline.runs.config import EMBEDDED, Output, RunConfig, RunStatus
from fogline.runs.embedded import EmbeddedBatches
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.taken import FoundFile, TakenFiles
from fogline.state import sqlite
from tests.chaos.sim_engine import keys_of, plan_for
from tests.chaos.sim_judge import Judge
from tests.chaos.sim_same import same
from tests.chaos.sim_state import sizes
from tests.chaos.sim_streams import Row, World, world
from tests.flow.embedding import kept

STREAMS = ("append", "last", "latest", "late", "gaps", "carry", "queries", "sensors", "ahead")
KINDS = (CHANGES, REJECTS, HEALTH)
MEMORY = Path("/dev/shm")
MANY = 10**9  # rows of a batch: files are not cut
ENTRIES = ("index", "groups", "large", "cut file", "sensors", "watermark")


class Crash(BaseException):
    """The process is gone; nothing catches that."""


class CrashingFolder(LocalFolder):
    """Ends the process before or after one of the next writes."""

    fuse = -1

    def _burn(self) -> None:
        self.fuse -= 1
        if self.fuse == 0:
            raise Crash

    @contextmanager
    def filling(self, name: str) -> Iterator[Path]:
        self._burn()
        with super().filling(name) as path:
            yield path
            self._burn()
        self._burn()

    def move(self, name: str, to: str) -> None:
        self._burn()
        super().move(name, to)
        self._burn()

    def delete(self, names: Any) -> None:
        for name in names:
            super().delete([name])
            self._burn()


class CrashingState(EmbeddedState):
    """Ends the process before or after a commit."""

    def __init__(self, place: CrashingFolder, mark: str) -> None:
        super().__init__(place, mark)
        self.place = place

    def begin(self, intent: Any) -> None:
        self.place._burn()
        super().begin(intent)
        self.place._burn()

    def commit(self, *, reported: bool = False) -> None:
        self.place._burn()
        super().commit(reported=reported)
        self.place._burn()


class Sink:
    """Sees every call."""

    def __init__(self, fuse: CrashingFolder) -> None:
        self.fuse = fuse
        self.got: dict[int, BatchResult] = {}

    def put(self, number: int, *kinds: Iterator[pa.RecordBatch]) -> None:
        found = [list(each) for each in kinds]
        journal = [(kind, pa.Table.from_batches(each)) for kind, each in zip(KINDS, found, strict=True) if each]
        if number in self.got:
            same(_timeless(self.got[number]), _timeless(journal), f"batch {number} was put again with something else")
        self.got[number] = journal
        self.fuse._burn()


def _timeless(journal: BatchResult) -> BatchResult:
    """Without how long it took."""
    return [(kind, table.drop_columns(["seconds"]) if kind == HEALTH else table) for kind, table in journal]


class Files(TakenFiles):
    """Parts of a stream, as if they were files."""

    parts: list[str]

    def new_files(self, paths: Any) -> list[FoundFile]:
        taken = self.known(self.parts)
        return [FoundFile(k, each, 1) for k, each in enumerate(self.parts) if each not in taken]


class Runs:
    """One run after another over the same folder."""

    def __init__(self, made: World, root: Path, r: random.Random, how: random.Random, rate: float) -> None:
        self.made, self.r, self.rate, self.place = made, r, rate, CrashingFolder(root)
        self.sink, self.faults = Sink(self.place), 0
        self.rows = {f"{b}.{p}": part for b, batch in enumerate(made.batches) for p, part in enumerate(batch) if part}
        self.config = RunConfig("/nowhere", str(root), made.asked, engine=EMBEDDED, sinks=(cast(Any, self.sink),))
        self.plan = plan_for(made, 0).following(how.random() < 0.6)
        self.files_per_batch, self.block = how.choice((1, 1, 2, None)), how.choice((2, 2, 3))
        self.taken: dict[int, list[str]] = {}
        self.groups: dict[int, set[str]] = {}
        self.left: list[Any] = []  # entries of the state at the end
        output = Output(self.place, self.config)
        output.begin({}, self.plan.buckets)
        self.mark = output.mark

    def start(self) -> EmbeddedBatches:
        output = Output(self.place, self.config)
        output.folder.compaction.block = self.block
        output.resume()
        state = CrashingState(self.place, self.mark)
        log = Files(state, self.config.stream, by_name=False)
        log.parts = list(self.rows)
        quiet: Any = dict.fromkeys(("report", "remark"), lambda what: None)
        running = SimpleNamespace(config=self.config, output=output, status=RunStatus(), **quiet)
        return EmbeddedBatches(cast(Any, running), cast(Any, None), self.plan, state, log, self.files_per_batch, MANY)

    def all(self) -> None:
        """All batches, until nothing is left to do."""
        run: EmbeddedBatches | None = None
        while True:
            self.place.fuse = self.r.randint(1, 40) if self.r.random() < self.rate else -1
            try:
                run = run or self.start()
                over = run.awaitTermination(0)
            except Crash:
                self.faults += 1
                self._ended(run)
                run = None
                continue
            self._note(run)
            if over or (self.plan.moves_idle and self._done(run)):
                self.place.fuse = -1
                self._ended(run)
                return
            if self.r.random() < self.rate / 2:
                self.faults += 1
                self._ended(run)
                run = None

    def _ended(self, run: EmbeddedBatches | None) -> None:
        """Its process is gone, and what it had not committed."""
        if run is not None:
            run.state.close()

    def _done(self, run: EmbeddedBatches) -> bool:
        return run.interrupted is None and not run.log.new_files(()) and not run.evaluation.moves

    def _note(self, run: EmbeddedBatches) -> None:
        for path, taken in run.log.known(self.rows).items():
            if path not in self.taken.setdefault(taken.batch, []):
                self.taken[taken.batch].append(path)
        self.groups.setdefault(run.state.batch, keys_of(self.plan, run.evaluation.store_of))

    def whole(self) -> None:
        """What lies in the folder is what the sink got, batch after batch."""
        schemas = schemas_of(self.plan)
        for kind in KINDS:
            got = [table for number in sorted(self.sink.got) for of, table in self.sink.got[number] if of == kind]
            there = list(tables(self.place, kind, after=-1))
            first, then = (pa.concat_tables([schemas[kind].empty_table(), *each]) for each in (got, there))
            same(_timeless([(kind, first)]), _timeless([(kind, then)]), "the folder holds something else")

    def kept(self) -> list[Any]:
        """What the state has entries of, but for cells: a group may lie as a whole, or as the turns that it took."""
        return sorted(each for each in kept(self.place.root) if each[0] != "state" or each[2] in ENTRIES)

    def judge(self) -> None:
        """The batches, held to the oracle."""
        judge = Judge(self.made)
        for number in sorted(self.groups):
            rows = [self.rows[path] for path in self.taken.get(number, [])]
            judge.hold_to(number, rows, self.sink.got.get(number, []), self.groups[number])
        judge.judge()


def folder_world(seed: int) -> World:
    """The stream of a seed."""
    r = random.Random(f"folder/{seed}")
    made = world(r.choice(STREAMS), seed)
    made = world("append", seed) if made.border < len(made.batches) else made
    few = [[part[k : k + 3] for part in batch for k in range(0, len(part), 3)] for batch in made.batches]
    made = replace(made, batches=few)
    silent = made.how["idle"] is not None and any(query.by for query in made.queries.values())
    return replace(made, batches=[*made.batches, *_much_later(made)]) if silent and made.mode != "ahead" else made


def _much_later(made: World) -> list[list[list[Row]]]:
    """Two ids of another group come when all else has expired, and again."""
    names = {name for query in made.queries.values() for name in query.names}
    cells = dict.fromkeys(names, 0) | {"g": "later", "v": 0, "gone": False}
    times = [10_000 * 8**k for k in range(4)]
    return [[[{**cells, "id": name, "t": t, "e": t + 1} for name in "ab"]] for t in times]


def carried(made: World, schedules: int) -> int:
    """A run in which nothing goes wrong, held to the oracle; then runs that end anywhere, held to that."""
    how, faults = f"folder/{made.mode}/{made.seed}", 0
    with _settings(made, random.Random(f"{how}/sizes")), sizes(made.sizes):
        first = _run(made, random.Random(how), random.Random(how), 0.0, judged=True)
        for k in range(schedules):
            r = random.Random(f"{how}/{k}")
            then = _run(made, r, random.Random(how), r.choice((0.2, 0.5, 0.8)))
            assert first.sink.got.keys() == then.sink.got.keys(), "other batches were put"
            for number, journal in first.sink.got.items():
                same(_timeless(journal), _timeless(then.sink.got[number]), f"schedule {k}, batch {number}")
            assert first.left == then.left, f"schedule {k} leaves {then.left}, and should leave {first.left}"
            faults += then.faults
    return faults


def _run(made: World, r: random.Random, how: random.Random, rate: float, *, judged: bool = False) -> Runs:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None, prefix="fogline-sim-"))
    try:
        runs = Runs(made, root, r, how, rate)
        runs.all()
        runs.whole()
        runs.left = runs.kept()
        if judged:
            runs.judge()
        return runs
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _settings(made: World, r: random.Random) -> Iterator[None]:
    """Few bytes are many: states are based anew, groups leave memory, journals are spilled."""
    tables_of = {path: made.table(part).to_batches() for path, part in _parts(made)}
    wanted: list[tuple[Any, str, Any]] = [
        (embedded_reading, "batches", lambda path, layout, span: iter(tables_of[path])),
        (embedded, "files_of", lambda stream: []),
        (embedded, "COLLECTED", r.choice((0, 3000, 128 * 2**20))),
        (spill, "PIECE", r.choice((1, 2000, 2**20))),
        (sqlite, "WAITING", r.choice((0, 3000, 2**20))),
        (loaded, "MOST", r.choice((0, 2000, 32_000_000))),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in wanted]
    try:
        for module, name, value in wanted:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _parts(made: World) -> list[tuple[str, Any]]:
    return [(f"{b}.{p}", part) for b, batch in enumerate(made.batches) for p, part in enumerate(batch) if part]
