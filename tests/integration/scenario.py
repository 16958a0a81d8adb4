"""One stream with gaps that tests of sinks run, and what a Monitor answers to it after every batch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl

FILES, ROWS, SITES = 12, 120, ("north", "süd 'x'", None)
QUERY = fl.Query(
    attributes={"a0": "max", "a1": "max", "xmin": "min"}, id="sensor", time="t", lifetime=25, by=["site"], alpha=0.2
)
RULES = ["a1(0.01) -> a0(0.01)", "a0(0.01) -> a1(0.01)", "a0(0.01) -> xmin(0.01)"]


def readings(first: int, count: int, *, gaps: float) -> pa.Table:
    """Rows from a number on; every tick has rows of every site, so that all clocks move together."""
    number = np.arange(first, first + count)
    rng = np.random.default_rng(number[0] if count else 0)
    level = rng.uniform(0, 1, count)
    values = np.stack([level, 1 - level, level]) + rng.normal(0, 0.05, (3, count))
    missing = (rng.uniform(0, 1, count) < gaps) & (number % 5 != 0)
    values[number % 3, np.arange(count)] = np.where(missing, np.nan, values[number % 3, np.arange(count)])
    columns = {name: pa.array(each, mask=np.isnan(each)) for name, each in zip(QUERY.names, values, strict=True)}
    site = pa.array([SITES[k % 3] for k in number.tolist()], pa.string())
    sensor = pa.array([f"s{k % 37}" for k in number.tolist()])
    return pa.table({"sensor": sensor, "site": site, "t": pa.array(number // 12), **columns})


@cache
def repository() -> fl.Repository:
    return fl.Repository.fit(readings(10**6, 3000, gaps=0.0), QUERY, rules=RULES)


def batch_rows(k: int, rows: int = ROWS) -> pa.Table:
    """The rows of a file; one of them cannot be taken."""
    table = readings(k * rows, rows, gaps=0.3)
    bad = table.slice(0, 1).set_column(0, "sensor", pa.array([None], pa.string()))
    return pa.concat_tables([bad, table])


def prepare(root: Path, files: int = FILES, rows: int = ROWS) -> None:
    """The stream, the question and the repository as files."""
    (root / "in").mkdir(parents=True)
    for k in range(files):
        path = root / "in" / f"{k:03}.parquet"
        pq.write_table(batch_rows(k, rows), path)
        os.utime(path, (1e9 + k, 1e9 + k))
    repository().save(root / "repository")


@dataclass(frozen=True)
class Truth:
    """What a Monitor reports of one batch, and its answer after it."""

    changes: list[tuple[Any, ...]]
    answer: list[tuple[Any, ...]]


@cache
def truth(files: int = FILES, rows: int = ROWS) -> list[Truth]:
    monitor, out = fl.Monitor(QUERY, repository=repository()), []
    for k in range(files):
        come = batch_rows(k, rows)
        changes = monitor.advance(int(come["t"][-1].as_py()), come)
        out.append(Truth(in_order(changes, CHANGE), in_order(monitor.answer(), MEMBER)))
    return out


CHANGE = ["time", "site", "sensor", "t", "change", "probability", *QUERY.names]
MEMBER = ["site", "sensor", "t", "probability", *QUERY.names]


def in_order(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    """Rows that can be compared, whatever order they came in: numbers rounded, sorted."""
    rows = (tuple(_rounded(each) for each in row.values()) for row in table.select(names).to_pylist())
    return sorted(rows, key=repr)


def _rounded(value: Any) -> Any:
    return round(value, 9) + 0.0 if isinstance(value, float) else value


def all_changes(files: int = FILES, rows: int = ROWS) -> list[tuple[Any, ...]]:
    return sorted((each for batch in truth(files, rows) for each in batch.changes), key=repr)
