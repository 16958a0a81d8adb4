"""Streams whose run moves from one repository to another, and what it then has to report.

What is to be reported is worked out by a monitor without a repository, whose rows come with the distributions that the
one repository or the other gives them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.pipeline.decode import impute_piece, imputed
from fogline.pipeline.plan import make_plan
from fogline.pipeline.sensors import Dealer, SensorStage
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.state.store import MemoryStore
from tests.contracts import agree
from tests.walks import NAMES, QUERY, walks

GROUPED = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", lifetime=25, by=["site"], alpha=0.2)
NEWEST = fl.Query(
    attributes={"a": "max", "b": "min"}, id="id", time="t", by=["site"], latest=True, alpha=0.2, lifetime=60
)
CARRIED = fl.Query(
    attributes={"a": "max", "b": "min"},
    id="id",
    time="t",
    by=["site"],
    latest=True,
    alpha=0.2,
    lifetime=60,
    carry=["b"],
)
FILES = 6
BORDER = 3  # files that come before the move


def known(slope: int) -> pa.Table:
    """A history in which a follows b, steeply or not; where it does, b is greater."""
    rng = np.random.default_rng(7)
    b = rng.integers(0, 10 * (1 + slope), 300).astype(float)
    return pa.table({"a": slope * b + rng.integers(0, 4, 300), "b": b, "hall": rng.choice(["x", "y"], 300)})


@cache
def by_rules(slope: int, query: fl.Query) -> fl.Repository:
    """Rules for a; nothing is known of b but the whole history. The steeper one also asks for the hall."""
    rules = ["b(1) -> a(4)"] if slope == 1 else ["b(1), hall -> a(4)"]
    return fl.Repository.fit(known(slope), query, rules=rules)


@cache
def by_sensors(seed: int, *, hindsight: bool = False) -> fl.Repository:
    """How sensors wander, learnt from one history or another."""
    table = walks(seed=1)
    if seed > 1:
        moved = [pa.array(np.round(3 * table[name].to_numpy(), 1)) for name in NAMES]
        table = pa.table({"sensor": table["sensor"], "t": table["t"], **dict(zip(NAMES, moved, strict=True))})
    return fl.Repository.fit(table, QUERY, hindsight=hindsight)


def rows_with_gaps(count: int, *, ids: int | None = None, late: int = 0, lacks_b: float = 0.1) -> pa.Table:
    """Rows of two sites; a third lacks a, a few lack b. `ids`: so many, which come again and again."""
    rng = np.random.default_rng(3)
    t = np.arange(count) // 6 - (rng.integers(0, late + 1, count) if late else 0)
    lack = rng.random((count, 2)) < (0.35, lacks_b)
    lack[lack.all(axis=1), 1] = False
    b = rng.integers(0, 20, count).astype(float)
    cells = {"a": np.round(1.3 * b) + rng.integers(0, 4, count), "b": b}
    return pa.table(
        {
            "id": [f"r{k if ids is None else 7 * k % ids}" for k in range(count)],
            "site": rng.choice(["n", "s"], count),
            "t": t,
            **{name: pa.array(each, mask=lack[:, j]) for j, (name, each) in enumerate(cells.items())},
            "hall": rng.choice(["x", "y"], count),
        }
    )


@dataclass(frozen=True)
class Move:
    """A stream, and its repositories before and after."""

    query: fl.Query
    table: Callable[[], pa.Table]
    before: Callable[[], fl.Repository]
    after: Callable[[], fl.Repository]
    how: dict[str, Any] = field(default_factory=dict)


MOVES = {
    "rules": Move(GROUPED, lambda: rows_with_gaps(720), lambda: by_rules(1, GROUPED), lambda: by_rules(2, GROUPED)),
    "rules, with lateness": Move(
        GROUPED, lambda: rows_with_gaps(720, late=8), lambda: by_rules(1, GROUPED), lambda: by_rules(2, GROUPED),
        {"lateness": 9},
    ),
    "the newest of each id": Move(
        NEWEST, lambda: rows_with_gaps(600, ids=90), lambda: by_rules(1, NEWEST), lambda: by_rules(2, NEWEST)
    ),
    "carried over, with lateness": Move(
        CARRIED, lambda: rows_with_gaps(600, ids=90, late=5, lacks_b=0), lambda: by_rules(1, CARRIED),
        lambda: by_rules(2, CARRIED), {"lateness": 6},
    ),
    "sensors": Move(
        QUERY, lambda: walks(steps=36, gaps=0.2, begin=200), lambda: by_sensors(1), lambda: by_sensors(2)
    ),
    "sensors, with lateness": Move(
        QUERY, lambda: walks(steps=36, gaps=0.2, begin=200), lambda: by_sensors(1), lambda: by_sensors(2),
        {"lateness": 4},
    ),
    "sensors, with hindsight": Move(
        QUERY, lambda: walks(steps=36, gaps=0.2, begin=200), lambda: by_sensors(1, hindsight=True),
        lambda: by_sensors(2, hindsight=True),
    ),
}  # fmt: skip


def cut(move: Move) -> list[pa.Table]:
    """The files of the stream."""
    table = move.table()
    size = -(-table.num_rows // FILES)
    return [table.slice(k * size, size) for k in range(FILES)]


def write_part(move: Move, folder: Path, which: range) -> None:
    """Some files of the stream, one second after another."""
    folder.mkdir(exist_ok=True)
    parts = cut(move)
    for k in which:
        path = folder / f"{k:03}.parquet"
        pq.write_table(parts[k], path)
        os.utime(path, (1e9 + k, 1e9 + k))


def config_of(move: Move, root: Path, repository: str, output: str, engine: str = EMBEDDED, **how: Any) -> RunConfig:
    """A run with the repository of a folder, which is made if it is not there."""
    folder = root / f"{repository}.repo"
    if not folder.exists():
        getattr(move, repository)().save(folder)
    where = str(root / "in"), str(root / output), move.query, fl.Repository.load(folder)
    return RunConfig(*where, **{**move.how, **how}, engine=engine)


def expected(move: Move) -> dict[Any, dict[Any, float]]:
    """(group, tick) -> the answer, by a monitor that is given what was to be imputed; up to each group's last tick."""
    query, lateness = move.query, move.how.get("lateness", 0)
    parts = cut(move)
    old, new = (distributions(move, repository) for repository in (move.before(), move.after()))
    waits = old  # by what gaps of rows are imputed that wait when the run moves
    settles = lateness and (query.carry or move.before().sensors)
    if settles:  # gaps are imputed when rows are due; and of rows that wait, only what was asked for is there
        waits = distributions(move, move.after(), without="" if move.before().sensors else "hall")
    clock: dict[Any, int] = {}  # of each group, when the run moves
    for row in (row for part in parts[:BORDER] for row in part.to_pylist()):
        by = tuple(row[name] for name in query.by)
        clock[by] = max(row["t"] - lateness, clock.get(by, -lateness))
    rows: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for k, part in enumerate(parts):
        for row in part.to_pylist():
            by = tuple(row[name] for name in query.by)
            given = new if k >= BORDER else old if row["t"] <= clock[by] else waits
            cells = {name: given[_name(row, query), row["t"], name] for name in query.names if row[name] is None}
            rows[by].append(row | cells)
    out: dict[Any, dict[Any, float]] = {}
    for by, those in rows.items():
        monitor, last = fl.Monitor(query), max(row["t"] for row in those) - lateness
        for t in sorted({row["t"] for row in those if row["t"] <= last}):
            monitor.advance(t, [row for row in those if row["t"] == t])
            answer = monitor.answer().to_pylist()
            out[by, t] = {_key(row, query): row["probability"] for row in answer}
    return out


def _key(row: dict[str, Any], query: fl.Query) -> tuple[Any, ...]:
    """What names a row of the answer: where the newest of each id counts, its id."""
    return (row[query.id],) if query.latest else (row[query.id], row["t"])


def _name(row: dict[str, Any], query: fl.Query) -> tuple[Any, ...]:
    return *(row[name] for name in query.by), row[query.id]


def distributions(move: Move, repository: fl.Repository, without: str = "") -> dict[Any, list[tuple[float, float]]]:
    """(name, time, attribute) -> what a gap of the stream may be, by a repository that sees all of it."""
    query, table = move.query, move.table()
    if without:
        table = table.set_column(table.schema.names.index(without), without, pa.nulls(table.num_rows, pa.string()))
    table = table.take(pa.array(np.argsort(table["t"].to_numpy(), kind="stable")))
    plan = make_plan(query, table.schema, opened=lambda: repository, hindsight=False if repository.sensors else None,
                     buckets=1)  # fmt: skip
    if plan.remembers:
        come = [rows for batch in table.to_batches() for _, rows in Dealer(plan).deal(batch)]
        piece, context = SensorStage(plan).impute(0, come, MemoryStore())
        assert piece is not None
        found = impute_piece(plan, piece, context)
    else:
        found = pa.Table.from_batches(imputed(plan, table.combine_chunks().to_batches()))
    out: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for row in found.to_pylist():
        name = *(row[each] for each in query.by), row[query.id]
        out[name, row["t"], row["attribute"]].append((row["value"], row["probability"]))
    return out


def as_expected(changes: pa.Table, move: Move) -> int:
    """The changes give the expected answer of every tick of every group; how many answers were compared."""
    query, count = move.query, 0
    reported: dict[Any, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in changes.to_pylist():
        reported[tuple(row[name] for name in query.by)][row["time"]].append(row)
    answers: dict[Any, dict[Any, float]] = {}
    for (by, t), answer in sorted(expected(move).items(), key=lambda each: each[0][1]):
        for time in [each for each in sorted(reported[by]) if each <= t]:
            answer_of_group = answers.setdefault(by, {})
            for row in reported[by].pop(time):
                if row["change"] == "leave":
                    del answer_of_group[_key(row, query)]
                else:
                    answer_of_group[_key(row, query)] = row["probability"]
        agree(answers.get(by, {}), answer)
        count += 1
    return count
