"""What do ten queries over one stream cost, against one?

    python -m benchmarks.queries [--rows 600000] [--only embedded] [--suffix csv] [--gaps 0.05]

One stream of readings, in files, is run by `fogline run` (`--every batch`) with ten queries at once, and with each of
the ten alone, one after another, twice; the second time counts. Ten questions as one stream might be asked: of three
sets of attributes and two kinds of groups, with other alphas and lifetimes. Reported: seconds of the ten together, the
mean and the sum of the seconds of each alone, and how many times the mean the ten take. With `--gaps` cells are
missing, and a repository that remembers sensors fills them (there all have the groups that it knows sensors by);
`--spark` runs on Spark as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import fogline as fl
from fogline.queries import Asked, Queries
from fogline.runs.config import EMBEDDED, SPARK, RunConfig
from fogline.runs.embedded import Embedded

SENSORS, FILES, HISTORY = 500, 6, 20_000
START = 1_700_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--suffix", choices=["csv", "parquet"], default="csv")
    parser.add_argument("--gaps", type=float, default=0.0)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--only", choices=[EMBEDDED, SPARK])
    asked = parser.parse_args()
    engines = [asked.only] if asked.only else [EMBEDDED, *([SPARK] if asked.spark else [])]
    with TemporaryDirectory() as folder:
        root = Path(folder)
        queries = questions(grouped=not asked.gaps)
        write(table(asked.rows, HISTORY // SENSORS, asked.gaps), root / "in", asked.suffix)
        repository = fl.Repository.fit(table(HISTORY, 0, 0.0), queries["all"]) if asked.gaps else None
        for engine in engines:
            with_engine(engine, root, queries, repository)


def questions(*, grouped: bool) -> Queries:
    """Ten queries; without `grouped` all have the same groups."""
    four = {f"a{k}": "max" for k in range(4)}
    two, three = {"a0": "max", "a4": "min"}, {"a1": "min", "a2": "max", "a5": "max"}
    other = ["floor"] if grouped else ["site"]

    def query(attributes: dict[str, str], minutes: int, alpha: float, by: list[str]) -> fl.Query:
        length = f"{minutes} minutes"
        return fl.Query(attributes=attributes, id="sensor", time="t", lifetime=length, alpha=alpha, by=by)

    return Queries(
        {
            "all": query(four, 10, 0.5, ["site"]),
            "likely": query(four, 10, 0.9, ["site"]),
            "quick": query(four, 2, 0.5, ["site"]),
            "slow": query(four, 30, 0.3, ["site"]),
            "pair": query(two, 10, 0.5, ["site"]),
            "pair, likely": query(two, 5, 0.8, ["site"]),
            "pair by floor": query(two, 10, 0.5, other),
            "three": query(three, 10, 0.5, ["site"]),
            "three by floor": query(three, 20, 0.5, other),
            "three by floor, likely": query(three, 20, 0.8, other),
        }
    )


def table(rows: int, begin: int, gaps: float) -> pa.Table:
    """One reading of every sensor a second; values wander, each at its own pace."""
    rng = np.random.default_rng(begin)
    t, sensor = begin + np.arange(rows) // SENSORS, np.arange(rows) % SENSORS
    columns: dict[str, Any] = {"sensor": [f"s{k}" for k in sensor], "site": [f"site {k % 4}" for k in sensor]}
    columns |= {
        "floor": [f"floor {k % 3}" for k in sensor],
        "t": pa.array((START + t) * 10**6, pa.timestamp("us", "UTC")),
    }
    for k in range(6):
        values = 50 + 10 * np.sin(t / 50 + 0.7 * sensor + k) + rng.normal(0, 1, rows)
        columns[f"a{k}"] = pa.array(np.round(values, 3), mask=rng.uniform(size=rows) < gaps)
    return pa.table(columns)


def write(rows: pa.Table, folder: Path, suffix: str) -> None:
    folder.mkdir()
    size = -(-rows.num_rows // FILES)
    for k in range(FILES):
        path = folder / f"{k}.{suffix}"
        (pq.write_table if suffix == "parquet" else pc.write_csv)(rows.slice(k * size, size), path)
        os.utime(path, (1e9 + k, 1e9 + k))


def with_engine(engine: str, root: Path, queries: Queries, repository: fl.Repository | None) -> None:
    """The ten together, and each alone."""
    start = started(engine)

    def seconds(asked: Asked) -> float:
        output, times = root / "out", []
        for _ in range(2):
            shutil.rmtree(output, ignore_errors=True)
            config = RunConfig(str(root / "in"), str(output), asked, repository, "batch", engine=engine)
            began = perf_counter()
            start(config)
            times.append(perf_counter() - began)
        return times[-1]

    together = seconds(queries)
    alone = {name: seconds(query) for name, query in queries.items()}
    for name, each in alone.items():
        print(f"  {name:<24} {each:6.2f} s")
    one, total = mean(alone.values()), sum(alone.values())
    print(f"{engine}: ten queries {together:.2f} s; one {one:.2f} s on average, one after another {total:.2f} s")
    print(f"{engine}: ten cost {together / one:.2f} times one")


def started(engine: str) -> Callable[[RunConfig], None]:
    """What runs a config until all files are read, two at a time."""
    if engine == EMBEDDED:

        def run(config: RunConfig) -> None:
            Embedded(config).start(files_per_batch=2).awaitTermination()

        return run
    from fogline.spark.running import Run

    spark = fl.spark.session(master="local[2]")

    def run_on_spark(config: RunConfig) -> None:
        Run(spark, config).start(files_per_batch=2).awaitTermination()

    return run_on_spark


if __name__ == "__main__":
    main()
