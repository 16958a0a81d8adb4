"""What is kept, and how streams are run side by side."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tests.net import driving
from tests.net.compare import LIKE, Difference, differences
from tests.net.judge import judged
from tests.net.streams import Stream, stream, streams

HERE = Path(__file__).parent
KEPT, SPARKS = HERE / "kept" / "answers.jsonl.zst", HERE / "kept" / "spark.jsonl.zst"
MATRIX = HERE / "matrix.md"
FAST_SEEDS, FAST_EMBEDDED = 2, 1  # of each mode


class Task(NamedTuple):
    """A stream, and the engines that run it."""

    mode: str
    seed: int
    engines: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.mode}/{self.seed}"


class Result(NamedTuple):
    """What became of it."""

    task: Task
    found: list[Difference]
    line: str  # what is to be kept, when recording
    verdicts: dict[str, str]  # of the reference, by engine
    seconds: dict[str, float]
    error: str = ""


def tasks(only: str = "", engine: str = "", *, fast: bool = False) -> list[Task]:
    """What is asked for: streams by a pattern such as `latest/*`, engines by a pattern; `fast`: a sample."""
    out = []
    for each in streams():
        engines = [name for name in driving.engines_of(each) if not engine or fnmatch(name, engine)]
        if fast:
            light = ("monitor", "restored", "table", "impute")
            keeps = each.seed < FAST_EMBEDDED
            engines = [name for name in engines if name in light or (keeps and name in ("small batches", "followed"))]
        chosen = not only or fnmatch(each.name, only) or fnmatch(each.mode, only)
        if engines and chosen and (not fast or each.seed < FAST_SEEDS):
            out.append(Task(each.mode, each.seed, tuple(engines)))
    return out


def compared(task: Task, line: str, tolerance: float) -> Result:
    """Run a stream, and hold it to what is kept of it."""
    this, kept = stream(task.mode, task.seed), json.loads(line) if line else {"engines": {}}
    found, seconds = [], dict[str, float]()
    if kept.get("digest") != this.digest():
        found.append(Difference(task.name, "–", "the stream itself", "", kept.get("digest"), this.digest()))
        return Result(task, found, "", {}, seconds)
    for engine in task.engines:
        begun = time.perf_counter()
        was = kept["engines"].get(LIKE.get(engine, engine), {})
        now = json.loads(json.dumps(_recorded(this, engine)))
        found += differences(task.name, engine, was, now, tolerance)
        seconds[engine] = time.perf_counter() - begun
    return Result(task, found, "", {}, seconds)


def written(task: Task, line: str, tolerance: float) -> Result:
    """Run a stream, judge what it answers, and return the line to be kept. Engines that are not asked for stay."""
    this = stream(task.mode, task.seed)
    engines, verdicts, seconds = dict[str, Any](), dict[str, str](), dict[str, float]()
    if line and json.loads(line)["digest"] == this.digest():
        engines = json.loads(line)["engines"]
    for engine in task.engines:
        begun = time.perf_counter()
        now = json.loads(json.dumps(_recorded(this, engine)))
        try:
            verdicts[engine] = judged(this, engine, now)
        except AssertionError as error:
            return Result(task, [], "", verdicts, seconds, f"{task.name}, {engine}: beside the reference: {error}")
        if engine in LIKE:
            if wrong := [each for each in differences(task.name, engine, engines[LIKE[engine]], now) if not each.soft]:
                return Result(task, wrong, "", verdicts, seconds, f"{task.name}, {engine}: not as {LIKE[engine]}")
        else:
            engines[engine] = now
        seconds[engine] = time.perf_counter() - begun
    kept = {"stream": task.name, "digest": this.digest(), "engines": engines}
    return Result(task, [], json.dumps(kept, separators=(",", ":")), verdicts, seconds)


def _recorded(this: Stream, engine: str) -> Any:
    if engine.startswith("spark"):
        from tests.net.sparks import recorded

        return recorded(this, engine)
    return driving.recorded(this, engine)


def results(
    work: Callable[..., Result], todo: Sequence[Task], kept: dict[str, str], tolerance: float, jobs: int
) -> Iterator[Result]:
    """The results of all tasks, as they are done, by so many processes."""
    if jobs <= 1:
        for task in todo:
            yield tried(work, task, kept.get(task.name, ""), tolerance)
        return
    os.environ.setdefault("NUMBA_NUM_THREADS", "2")
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        under_way, left = set[Future[Result]](), iter(todo)
        while True:
            while len(under_way) < 2 * jobs and (one := next(left, None)) is not None:
                under_way.add(pool.submit(tried, work, one, kept.get(one.name, ""), tolerance))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in done)


def tried(work: Callable[..., Result], task: Task, line: str, tolerance: float) -> Result:
    """What raises is a result, too."""
    try:
        return work(task, line, tolerance)
    except Exception as error:
        return Result(task, [], "", {}, {}, f"{task.name}: {type(error).__name__}: {error}")


# --- Files ------------------------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, str]:
    """What is kept, a line for each stream, by its name."""
    if not path.exists():
        return {}
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        lines = stream.read().decode().splitlines()
    return {line[len('{"stream":"') : line.index('"', len('{"stream":"'))]: line for line in lines}


def write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    packed = pa.Codec("zstd", 19).compress("\n".join(lines).encode(), asbytes=True)
    path.write_bytes(packed)
