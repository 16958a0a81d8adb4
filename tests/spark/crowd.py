"""How are hundreds of random streams tried at the price of one query?

As its groups. Rows are drawn as the strategies draw them, with a seed; a Monitor that sees everything in time, tick by
tick, gives the truth.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from tests.contracts import CLOSE, DISTRIBUTION, agree, answer_of, net
from tests.strategies import CELLS, LIVES

GROUPS = 210
SCHEMA = pa.schema(
    [("id", pa.string()), ("t", pa.int64()), ("e", pa.int64()), ("g", pa.int32())]
    + [(name, DISTRIBUTION) for name in ("a0", "a1")]
)
WINDOWS: dict[str, dict[str, Any]] = {"expires": {"expires": "e"}, "lifetime": {"lifetime": 5}, "last": {"last": 4}}


def query_for(window: str, alpha: float = 0.25) -> fl.Query:
    return fl.Query(attributes={"a0": "max", "a1": "min"}, id="id", time="t", alpha=alpha, by=["g"], **WINDOWS[window])


def crowd(seed: int, groups: int = GROUPS, rows: int = 11) -> pa.Table:
    """Random streams, one per group, all over the same thirty instants, in order of time."""
    random, out, seen = Random(seed), [], set()
    for group in range(groups):
        domain = CELLS[random.choice(sorted(CELLS))]
        t = random.randint(0, 10)
        for _ in range(random.randint(1, rows)):
            t += random.choice([0, 1, 0, 1, 2, 5])
            name = random.choice("abcde")
            if (group, name, t) not in seen:
                seen.add((group, name, t))
                cells = {a: _cell(random.choice(domain)) for a in ("a0", "a1")}
                out.append({"id": name, "t": t, "e": t + random.choice(LIVES), "g": group, **cells})
    return pa.Table.from_pylist(sorted(out, key=lambda row: row["t"]), schema=SCHEMA)


def _cell(given: Any) -> list[dict[str, float]]:
    pairs = given if isinstance(given, list) else [(given, 1)]
    return [{"value": value, "weight": weight} for value, weight in pairs]


def delayed(table: pa.Table, lateness: int, seed: int = 0) -> pa.Table:
    """The rows in an order in which none comes later than `lateness` allows."""
    random = Random(seed)
    times = table.column("t").to_pylist()
    come = [t + random.choice([0, 0, lateness]) for t in times]
    return table.take(pa.array(sorted(range(len(times)), key=come.__getitem__)))


def write_files(table: pa.Table, folder: Path, files: int, start: int = 0) -> None:
    """Cut the table into files; Spark reads them in the order in which they were modified."""
    folder.mkdir(exist_ok=True)
    size = -(-table.num_rows // files)
    for k in range(files):
        path = folder / f"{start + k:04}.parquet"
        pq.write_table(table.slice(k * size, size), path)
        os.utime(path, (1e9 + start + k, 1e9 + start + k))


def truth(query: fl.Query, table: pa.Table, repository: fl.Repository | None = None) -> dict[int, dict[Any, float]]:
    """tick -> the answer of all groups at its end."""
    monitor, at = fl.Monitor(query, repository), defaultdict(list)
    for row in table.to_pylist():
        at[row["t"]].append(row)
    answers = {}
    for t in range(min(at), max(at) + 1):
        monitor.advance(t, at[t] or None)
        answers[t] = answer_of(monitor, query.by)
    return answers


def as_reported(changes: pa.Table, query: fl.Query, true: dict[int, dict[Any, float]], until: dict[Any, int]) -> None:
    """The changes of each group, netted per tick, give the true answer of every tick up to `until`[group]."""
    reported: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in changes.to_pylist():
        reported[row["g"], row["time"]].append(row)
    expected: dict[Any, dict[Any, float]] = defaultdict(dict)
    for t, answer in true.items():
        for name, p in answer.items():
            expected[name[0], t][name] = p
    for group, last in until.items():
        given: dict[Any, float] = {}
        for t in range(min(true), last + 1):
            if rows := reported[group, t]:
                given = net(pa.Table.from_pylist(rows, schema=changes.schema), query.by, since=given)
            agree(given, expected[group, t], 2.5 * CLOSE)


def last_arrivals(query: fl.Query, table: pa.Table) -> dict[Any, int]:
    """Where the clock of each group ends. Rows that are refused do not move it."""
    last: dict[Any, int] = {}
    for row in table.to_pylist():
        if query.expires is None or row["e"] >= row["t"]:
            last[row["g"]] = max(row["t"], last.get(row["g"], row["t"]))
    return last
