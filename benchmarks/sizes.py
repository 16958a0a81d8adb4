"""Does it hold a million ids, a hundred thousand groups, a window of ten million rows?

    python -m benchmarks.sizes [--only ids] [--engine embedded] [--share 1.0]

Each case is a folder of files that `fogline run` reads, one file a batch, each on Spark and in one process:
ids:    the newest row of each of 1,000,000 ids counts, in 8 groups; then 10,000 of them change, 20 times.
groups: 100,000 groups; each has a row in each of 6 batches.
window: 10,000,000 rows are in the window, one group; 100,000 come and go a tick, 500,000 a batch.
Reported: seconds of the first and of later batches, rows a second, peak memory of all processes (proportional set
size), bytes of the output with its checkpoint, and whether the answer is that of a monitor over the same rows.
`--share 0.01` makes everything a hundredth as large.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep, time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from benchmarks.soak import ROLES, look, of_batches, started
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.synthetic import Stream, rows

D = 4
ATTRIBUTES = ", ".join(f"a{j}: max" for j in range(D))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--engine", choices=["spark", "embedded"], action="append")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--memory", default="4g", help="of Spark's driver")
    asked = parser.parse_args()
    for name in [asked.only] if asked.only else CASES:
        with TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "in").mkdir()
            query, tables, since = CASES[name](asked.share)
            (root / "q.yaml").write_text(query)
            for k, table in enumerate(tables):
                pq.write_table(table, root / "in" / f"{k:03}.parquet")
                os.utime(root / "in" / f"{k:03}.parquet", (1e9 + k, 1e9 + k))
            wanted = monitored(root, since)
            for engine in asked.engine or ["spark", "embedded"]:
                print(f"{name}, {engine}: {tried(root, engine, asked.memory, wanted)}", flush=True)


def ids(share: float) -> tuple[str, Iterator[pa.Table], int]:
    """A million ids, of which some change."""
    many, some = int(1_000_000 * share), int(10_000 * share)
    query = f"attributes: {{{ATTRIBUTES}}}\nid: id\ntime: time\nlatest: true\nby: [site]\n"
    made = Stream(d=D, missing=0.0, seeds=0, seed=5, rate=many, groups=8)

    def tables() -> Iterator[pa.Table]:
        yield pa.Table.from_batches([rows(made, 0, many)])
        for k in range(1, 21):
            table = pa.Table.from_batches([rows(made, many + k * some, many + (k + 1) * some)])
            table = table.set_column(0, "id", pa.array(np.random.default_rng(k).integers(0, many // 8, some) * 8))
            yield table.set_column(1, "time", pa.array(np.full(some, k))).set_column(2, "site", pa.array(["s0"] * some))

    return query, tables(), 0


def groups(share: float) -> tuple[str, Iterator[pa.Table], int]:
    """A hundred thousand groups, each heard in each batch."""
    many = int(100_000 * share)
    query = f"attributes: {{{ATTRIBUTES}}}\nid: id\ntime: time\nlifetime: 4\nby: [site]\n"
    made = Stream(d=D, missing=0.0, seed=5, rate=many, groups=many)
    return query, (pa.Table.from_batches([rows(made, k * many, (k + 1) * many)]) for k in range(6)), 0


def window(share: float) -> tuple[str, Iterator[pa.Table], int]:
    """Ten million rows at once."""
    rate, lifetime = int(100_000 * share), 100
    query = f"attributes: {{{ATTRIBUTES}}}\nid: id\ntime: time\nlifetime: {lifetime}\n"
    made = Stream(d=D, missing=0.0, seeds=0, seed=5, rate=rate)
    ticks = lifetime + 20
    files = (pa.Table.from_batches([rows(made, k * rate, (k + 5) * rate)]) for k in range(0, ticks, 5))
    return query, files, ticks - lifetime


CASES: dict[str, Callable[[float], tuple[str, Iterator[pa.Table], int]]] = {
    "ids": ids, "groups": groups, "window": window,
}  # fmt: skip


def monitored(root: Path, since: int) -> set[tuple[object, float]]:
    """What a monitor has at the end, of rows that are still there then."""
    monitor = fl.Monitor(fl.Query.load(root / "q.yaml"))
    for path in sorted((root / "in").iterdir()):
        table = pq.read_table(path, filters=[("time", ">=", since)])
        if table.num_rows:
            monitor.advance(int(table["time"].to_numpy().max()), table, every="batch")
    return of(monitor.answer())


def of(answer: pa.Table) -> set[tuple[object, float]]:
    """The rows of an answer, and their probabilities."""
    return set(zip(answer["id"].to_pylist(), answer["probability"].to_pylist(), strict=True))


def tried(root: Path, engine: str, memory: str, wanted: set[tuple[object, float]]) -> str:
    """One run, in words."""
    out = root / engine
    line = [sys.executable, "-c", "from fogline.cli import app; app()", "run", str(root / "in")]
    line += ["--query", str(root / "q.yaml"), "--output", str(out), "--engine", engine, "--every", "batch"]
    line += ["--files-per-batch", "1", *(["--memory", memory] if engine == "spark" else [])]
    began, peak = time(), 0.0
    process = started(root, line, engine)
    while process.poll() is None:
        seen = look(out, process.pid, 0)
        peak = max(peak, sum(seen[role] for role in ROLES))
        sleep(0.5)
    if process.returncode:
        sys.exit((root / f"{engine}.log").read_text()[-2000:])
    batches = [each for _, each in sorted(of_batches(out, began))]
    later = [each for each in batches[1:] if each["rows"]]
    seconds, came = median(each["seconds"] for each in later), median(each["rows"] for each in later)
    found = of(read_answer(LocalFolder(out), str(out)))
    return (
        f"first batch {batches[0]['seconds']:.1f} s ({batches[0]['rows']:,} rows), later {seconds:.2f} s "
        f"({came:,.0f} rows; most {max(each['seconds'] for each in later):.2f} s), live rows {batches[-1]['live']:,}, "
        f"peak {peak:,.0f} MB, output {look(out, process.pid, 0)['bytes'] / 1e6:,.0f} MB, "
        f"{len(found):,} in the answer, {'as' if found == wanted else 'NOT AS'} the monitor's"
    )


if __name__ == "__main__":
    main()
