"""Do both engines give the same answers, at every tick, on real streams?

    python -m benchmarks.engines --data FOLDER [--rows 3000] [--only intel]

Five real sets, each with another question: readings that live for a while and are revised, rows that come late, the
newest reading of each sensor, the newest rows, groups with a clock of numbers. A fifth of the cells are taken out; a
history from before the stream shows what they may be. Each stream is run by both engines, from the same files, half of
them csv, half of them parquet; the changes must be the same rows, to the last bit of their probabilities, and so are
the answers at every tick.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import fogline as fl
from fogline.runs.config import EMBEDDED, SPARK, RunConfig
from fogline.runs.embedded import Embedded
from fogline.spark.running import Run
from lab.case import AT, DATA_SETS, SENSOR, Settings, read

FILES, MISSING = 6, 0.2


@dataclass(frozen=True)
class Question:
    """What is asked of a set."""

    name: str
    window: dict[str, Any]
    how: dict[str, Any] = field(default_factory=dict)
    suffix: str = "parquet"
    numbers: bool = False  # whether times are numbers, in seconds
    by: str | None = None  # a column of groups, made of the sensors


QUESTIONS = (
    Question("intel", {"lifetime": "10 minutes"}),
    Question("beijing", {"latest": True, "lifetime": "3 days"}, suffix="csv"),
    Question("smart_building_rooms", {"lifetime": "5 minutes"}, {"lateness": "30 seconds"}),
    Question("skab_pump", {"last": 300}, suffix="csv"),
    Question("sp500", {"lifetime": 10 * 86400}, numbers=True, by="letter"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--only", help="one of the sets")
    asked = parser.parse_args()
    spark = fl.spark.session(master="local[2]")
    failed = False
    for question in QUESTIONS:
        if asked.only in (None, question.name):
            with TemporaryDirectory() as folder:
                failed |= not compared(spark, question, asked.data, asked.rows, Path(folder))
    sys.exit("the engines differ" if failed else 0)


def compared(spark: Any, question: Question, data: Path, count: int, root: Path) -> bool:
    """Run a question on both engines; whether they report the same."""
    query, history, stream = tables(question, data, count)
    repository = fl.Repository.fit(history, query)
    repository.save(root / "repo")
    write(stream, root / "in", question.suffix)
    seconds = {}
    for engine in (EMBEDDED, SPARK):
        config = RunConfig(str(root / "in"), str(root / engine), query, repository, **question.how, engine=engine)
        began = perf_counter()
        running = Embedded(config) if engine == EMBEDDED else Run(spark, config)
        running.start(files_per_batch=2).awaitTermination()
        seconds[engine] = perf_counter() - began
    found = {engine: changes(root / engine) for engine in (EMBEDDED, SPARK)}
    same = found[EMBEDDED] == found[SPARK]
    ticks, health = len({row[0] for row in found[SPARK]}), pq.read_table(root / EMBEDDED / "health")
    counts = {name: pa.compute.sum(health[name]).as_py() for name in ("rows", "incomplete", "revised", "rejected")}
    print(
        f"{question.name}: {counts['rows']:,} rows, {counts['incomplete']:,} with gaps, {counts['revised']:,} revised, "
        f"{counts['rejected']:,} rejected; {len(found[SPARK]):,} changes at {ticks:,} ticks, "
        f"{'all the same' if same else 'DIFFERENT'}; embedded {seconds[EMBEDDED]:.1f} s, Spark {seconds[SPARK]:.1f} s",
        flush=True,
    )
    return same


def tables(question: Question, data: Path, count: int) -> tuple[fl.Query, pa.Table, pa.Table]:
    """The question, a history, and a stream that follows it, with gaps."""
    data_set = DATA_SETS[question.name]
    names, values, beside = read(data_set, data, Settings(nulls=True))
    at = np.asarray(beside[AT])
    order = np.argsort(at, kind="stable")
    past, now = order[: 2 * count], order[2 * count : 3 * count]
    values = values.copy()
    hidden = np.random.default_rng(7).random((len(now), values.shape[1])) < MISSING
    values[now] = np.where(hidden, np.nan, values[now])
    times = pa.array(at) if question.numbers else pa.array((at * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))
    sensors = beside.get(SENSOR, pa.array(["one"] * len(at)))
    columns = {"sensor": sensors, "at": times}
    if question.by is not None:
        columns[question.by] = pa.compute.utf8_slice_codeunits(sensors, 0, 1)
    columns |= {name: pa.array(values[:, j], from_pandas=True) for j, name in enumerate(names)}
    whole = pa.table(columns)
    wanted = {name: "min" if name in data_set.least else "max" for name in names}
    by = () if question.by is None else (question.by,)
    query = fl.Query(attributes=wanted, id="sensor", time="at", by=by, alpha=0.3, **question.window)
    return query, whole.take(pa.array(past)), whole.take(pa.array(now))


def write(stream: pa.Table, folder: Path, suffix: str) -> None:
    folder.mkdir()
    size = -(-stream.num_rows // FILES)
    for k in range(FILES):
        path, part = folder / f"{k}.{suffix}", stream.slice(k * size, size)
        pq.write_table(part, path) if suffix == "parquet" else pc.write_csv(part, path)
        os.utime(path, (1e9 + k, 1e9 + k))


def changes(output: Path) -> list[tuple[Any, ...]]:
    """All changes, in an order of their own."""
    return sorted((tuple(row.values()) for row in pq.read_table(output / "changes").to_pylist()), key=repr)


if __name__ == "__main__":
    main()
