"""Which calls compile every kernel that a pipeline needs?

A small stream with all that makes a difference: gaps, distributions, each kind of window, groups, a history with rules
and sensors, held in memory and mapped from files, a monitor that is stored and restored. Kernels take arrays of the
same types whatever the attributes are, so the machine code that these calls use is what any pipeline uses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.engine.bulk import allow, threads
from fogline.errors import FoglineError
from fogline.impute.own import ImputeFunction
from fogline.kernels.compile import CARRIED, copy_used, count_used, levels
from fogline.kernels.cover import Lives, matter
from fogline.monitor import Monitor
from fogline.pipeline.exchange import BucketRows
from fogline.pipeline.plan import Plan, make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.stages import dealt, pruned
from fogline.pipeline.time_buckets import BucketStatistics
from fogline.query import Query, Rule
from fogline.repository.access import TreeAccess
from fogline.repository.history import Column, History
from fogline.repository.repository import Repository
from fogline.state.store import MemoryStore
from fogline.tables import skyline

WINDOWS: tuple[Mapping[str, Any], ...] = ({"lifetime": 5}, {"last": 50}, {"expires": "until"})
DISTRIBUTION = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))
FEW = 50  # places of a row; those with more have brackets
RECENT = Rule({"site": 0, "id": 0, "t": 3}, "c", 20)  # about what the same sensor has read lately
RULES = ("a(5) -> b(20)", "a(5), b(5) -> c(20)", "a(5), c(5) -> b(20)", "b(5), c(5) -> a(20)", RECENT)

Progress = Callable[[str], None]


def warm(folder: Path | None = None, progress: Progress = lambda what: None) -> int:
    """Put the machine code of all kernels of a pipeline into the folder, or where it is kept; how many files?"""
    if folder is None:
        return _call_all(progress)
    folder.mkdir(parents=True, exist_ok=True)
    before = os.environ.get(CARRIED)
    try:
        os.environ[CARRIED] = str(folder)
        _call_all(progress)
    finally:
        if before is None:
            del os.environ[CARRIED]
        else:
            os.environ[CARRIED] = before
    return copy_used(folder)


def warm_levels(folder: Path) -> int:
    """Put the machine code for each level that this processor can run into the folder, as a wheel brings it.

    A process for each, side by side, with a cache of its own: it must find nothing that was made for another. How many
    files?
    """
    code = "import sys; from pathlib import Path; from fogline.pipeline.warm import warm; warm(Path(sys.argv[1]))"
    with TemporaryDirectory() as draft:
        working = []
        for level in levels():
            own = Path(draft, level.cpu)
            named = {"NUMBA_CPU_NAME": level.cpu, "NUMBA_CPU_FEATURES": level.features, "XDG_CACHE_HOME": draft}
            working.append((own, subprocess.Popen([sys.executable, "-c", code, own], env={**os.environ, **named})))
        for own, process in working:
            if process.wait():
                raise FoglineError(f"compiling for {own.name} failed; its error stands above.")
            shutil.copytree(own, folder, dirs_exist_ok=True)
    return sum(1 for _ in folder.rglob("*.nbc"))


def _call_all(progress: Progress) -> int:
    for step in steps():
        progress(step)
    return count_used()


def steps() -> Iterator[str]:
    """Do the work, step by step; each is named before it is done."""
    history = _rows(np.random.default_rng(1), 3000, gaps=0.0)
    yield "a history with sensors"
    learnt = Repository.fit(history, _query(lifetime=5))
    yield "a history with rules"
    given = Repository.fit(history.slice(0, 300), _query(lifetime=5), rules=RULES)  # few donors: few places
    yield "an index"
    _look_up(np.random.default_rng(3))
    for k, repository in enumerate((None, learnt, given)):
        yield f"a stream {('without history', 'with sensors', 'with rules')[k]}"
        _use(repository)
    yield "a function, and rows as Python has them"
    _watch(_rows(np.random.default_rng(2), 300, gaps=0.2), _query(lifetime=5), None, _middle)
    for method in ("last", "mean"):
        rows = _rows(np.random.default_rng(2), 300, gaps=0.2)
        _watch(rows, _query(lifetime=5), Repository.fit(history, _query(lifetime=5), method=method))
    Monitor(_query(lifetime=5)).advance(10, _rows(np.random.default_rng(2), 300, gaps=0.0).to_pylist())
    yield "a large tick that threads share"
    _share(history)
    yield "a history in files"
    with TemporaryDirectory() as folder:
        for k, repository in enumerate((learnt, given)):
            repository.save(Path(folder, str(k)))
            _use(Repository.load(Path(folder, str(k))))


def _share(rows: pa.Table) -> None:
    """Ticks of so many rows that several threads work on them, and what buckets of time have heard."""
    uncertain = rows.set_column(rows.schema.get_field_index("c"), "c", _uncertain(rows.column("c").to_pylist()))
    before = threads()
    allow(max(2, before))
    monitor = Monitor(_query(lifetime=1), exact_limit=FEW)
    for now in range(2):
        times = pa.array(np.full(rows.num_rows, now))
        monitor.advance(now, uncertain.set_column(rows.schema.get_field_index("t"), "t", times))
    allow(before)
    ids = np.arange(2, dtype=np.uint64)
    BucketStatistics(0.0, 1.0, 2, ids).join(BucketStatistics(0.0, 1.0, 2, ids))


def _look_up(random: np.random.Generator) -> None:
    """A tree is chosen only where a sorted table would read many rows."""
    points = random.uniform(0, 100, (2, 600))
    history = History({name: Column(each) for name, each in zip("ab", points, strict=True)}, 600)
    access = TreeAccess.build(history, "a", ("a", "b"))
    for ask in (access.find, access.count, access.bounds):
        ask({"a": 20.0, "b": 20.0}, {"a": points[0, :50], "b": points[1, :50]})


def _use(repository: Repository | None) -> None:
    rows = _rows(np.random.default_rng(2), 300, gaps=0.0 if repository is None else 0.2)
    uncertain = rows.set_column(rows.schema.get_field_index("c"), "c", _uncertain(rows.column("c").to_pylist()))
    for window in WINDOWS:
        query = _query(**window)
        for table in (rows, uncertain):
            _watch(table, query, repository)
            plan = make_plan(query, table.schema, opened=None if repository is None else lambda: repository, buckets=2)
            _screen(plan, table)
            skyline(table, query, repository, explain=True)
    for table in (rows, uncertain):
        _watch(table, _query(latest=True, lifetime=5), repository)
        _watch(table, _query(latest=True, lifetime=5, skyband=2), repository)
        _watch(table, _query(lifetime=5, skyband=2), repository)
        skyline(table, _query(lifetime=5, skyband=2), repository)
    corners, times, flags = np.zeros((2, 3)), np.zeros(2), np.ones(2, np.bool_)
    matter(np.zeros(2, np.int64), Lives(corners, corners, times, times, flags, flags), skyband=2)


def _screen(plan: Plan, table: pa.Table) -> None:
    if not plan.deals:
        for _ in pruned(Plans.alone(plan), table.to_batches()):
            pass
        return
    buckets: dict[int, list[BucketRows]] = {}
    for bucket, rows in dealt(Plans.alone(plan), table.to_batches()):
        buckets.setdefault(bucket, []).append(rows)
    for bucket, some in buckets.items():
        SensorStage(plan, small=0).take(bucket, some, MemoryStore())


def _middle(batch: pa.RecordBatch) -> Mapping[str, Any]:
    return {name: [50.0] * batch.num_rows for name in "abc"}


def _watch(table: pa.Table, query: Query, repository: Repository | None, imputer: ImputeFunction | None = None) -> None:
    monitor = Monitor(query, repository, imputer=imputer, exact_limit=FEW)
    for now in range(10):
        monitor.advance(now, table.slice(now * 30, 30))
        if now == 5:
            monitor = Monitor.restore(query, monitor.snapshot(), repository, imputer=imputer)
    monitor.answer(certainty="possible")
    monitor.explain("s0")
    if query.skyband == 1:
        monitor.ask_next(1)
        monitor.tree()


def _query(**window: Any) -> Query:
    return Query(attributes={"a": "max", "b": "min", "c": "max"}, id="id", time="t", by=["site"], **window)


def _rows(random: np.random.Generator, n: int, gaps: float) -> pa.Table:
    """Readings of 30 sensors, one each per tick; values move slowly, so that a sensor's past is worth knowing."""
    walks = (50 + random.normal(0, 1, (3, n // 30, 30)).cumsum(axis=1)).reshape(3, n)
    values = dict(zip("abc", walks, strict=True))
    missing = random.uniform(size=(3, n)) < gaps
    columns = {name: pa.array(x, mask=missing[k]) for k, (name, x) in enumerate(values.items())}
    t = np.arange(n) // 30
    ids = [f"s{k % 30}" for k in range(n)]
    return pa.table({"site": [f"{k % 2}" for k in range(n)], "id": ids, "t": t, "until": t + 5, **columns})


def _uncertain(values: list[float | None]) -> pa.Array:
    pairs = [None if x is None else [{"value": x + k, "weight": 0.5} for k in range(2)] for x in values]
    return pa.array(pairs, DISTRIBUTION)
