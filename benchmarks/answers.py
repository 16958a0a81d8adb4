"""How long does `fogline answer` take after many batches, and what does compaction cost a batch?

    python -m benchmarks.answers [--batches 100000] [--changes 20] [--slowly 2000] [--without-disk]

Makes an output folder as `fogline run` does, with changes of a slowly moving answer and a line of health for each
batch; then reads the answer, now and then, and the scores of rules. The last `--slowly` batches are written one by one,
and timed; those before are written a hundred at a time, as they lie there once they were joined, and then joined
further. `--without-disk` does not wait for disks. Times of a core are given too, since other programs may run beside.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.impute.scores import Sum, to_plain
from fogline.output import folder
from fogline.output.answers import OutputReader
from fogline.output.files import batch_name
from fogline.output.folder import LocalFolder
from fogline.pipeline.report import COUNTERS
from fogline.runs.config import Output, RunConfig

QUERY = fl.Query(attributes=dict.fromkeys("abcd", "max"), id="sensor", time="t", lifetime=600)
FOGLINE = [sys.executable, "-c", "from fogline.cli import app; app()"]
SCORED = json.dumps(to_plain({("a", f"b({k}) -> a(1)", 4.0): Sum(1, 0.5, 0.6, 1, 1, 1, 0.5) for k in range(3)}))
LIFE = 100  # batches after which a row leaves the answer again


def parts_of(first: int, count: int, changes: int) -> dict[str, pa.Table]:
    """What batches report: rows enter, and those of a hundred batches ago leave."""
    rng, half = np.random.default_rng(first), changes // 2
    number = np.repeat(np.arange(first, first + count), 2 * half)
    leaves = np.tile(np.arange(2 * half) >= half, count)
    there = ~leaves | (number >= LIFE)
    number, leaves = number[there], leaves[there]
    n = len(number)
    table = pa.table(
        {
            "time": number,
            "sensor": pa.array(np.char.add("sensor-", np.tile(np.arange(half), 2 * count)[there].astype(str))),
            "t": number - LIFE * leaves,
            "change": pa.array(np.where(leaves, "leave", "enter")),
            "probability": pa.array(rng.random(n), mask=leaves),
            "probability_error": pa.array(np.zeros(n), mask=leaves),
            **{name: rng.random(n) for name in "abcd"},
        }
    )
    numbers = np.arange(first, first + count)
    counters = {name: np.full(count, 7) for name in COUNTERS}
    health = {"batch": numbers, "seconds": np.full(count, 0.2), "time": numbers, **counters}
    return {"changes": table, "health": pa.table({**health, "scores": pa.array([SCORED] * count)})}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--slowly", type=int, default=2_000)
    parser.add_argument("--without-disk", action="store_true")
    given = parser.parse_args()
    if given.without_disk:
        folder.to_disk = lambda path: None
    with TemporaryDirectory(prefix="fogline-") as temporary:
        root = Path(temporary, "out")
        output = Output(LocalFolder(root), RunConfig("in", str(root), QUERY))
        output.begin({})
        block = output.folder.compaction.block
        quickly = max(given.batches - given.slowly, 0) // block * block
        write_joined(output, quickly, given.changes)
        write_each(output, range(quickly, given.batches), given.changes)
        read_all(root, given.batches)


def write_joined(output: Output, batches: int, changes: int) -> None:
    """Batches by the hundred, in files as they are when those have been joined."""
    block, busy = output.folder.compaction.block, {False: [0.0], True: [0.0]}
    for first in range(0, batches, block):
        for kind, table in parts_of(first, block, changes).items():
            with output.place.filling(batch_name(kind, first, first + block - 1)) as path:
                pq.write_table(table, path)
        worked = process_time()
        output.folder.compaction.before(first + block)
        busy[(first + block) % block**2 == 0].append(process_time() - worked)
    for large, times in busy.items():
        what = "joining ten thousand batches" if large else "writing down the answer of a hundred"
        print(
            f"{what}: {np.median(times[1:] or times) * 1000:.0f} ms of a core, at most {max(times) * 1000:.0f}",
            flush=True,
        )


def write_each(output: Output, numbers: range, changes: int) -> None:
    """Batches one by one; print what one costs, and what it costs with those that join files."""
    taken = np.zeros((2, len(numbers)))
    for k, number in enumerate(numbers):
        parts = parts_of(number, 1, changes)
        began, worked = perf_counter(), process_time()
        output.folder.write(number, parts)
        taken[:, k] = perf_counter() - began, process_time() - worked
    joins = np.array([number % output.folder.compaction.block == 0 for number in numbers])
    for clock, took in zip(("", " of a core"), taken * 1000, strict=True):
        print(f"a batch: {np.median(took[~joins]):.2f} ms{clock}; with what is joined {took.mean():.2f} ms")
        print(f"  joining a hundred: {np.median(took[joins]):.0f} ms{clock}, at most {took[joins].max():.0f}")


def read_all(root: Path, batches: int) -> None:
    """Time the commands, as a person types them, in a process of their own."""
    files = {kind.name: len(list(kind.iterdir())) for kind in sorted(root.iterdir()) if kind.is_dir()}
    size = sum(each.stat().st_size for each in root.rglob("*") if each.is_file())
    print(f"files: {files}, {size / 1e6:.0f} MB")
    for at in (None, batches - 50, batches // 2, batches // 2 + 4999, 10):
        words = ["answer", str(root), "--most", "5", *([] if at is None else ["--at", str(at)])]
        before, began = of_children(), perf_counter()
        done = subprocess.run([*FOGLINE, *words], capture_output=True, text=True, check=True)
        seconds, busy, rows = perf_counter() - began, of_children() - before, done.stdout.splitlines()[-1]
        print(f"answer{'' if at is None else f' --at {at}'}: {seconds:.2f} s, {busy:.2f} s of a core, {rows}")
    began = perf_counter()
    OutputReader(LocalFolder(root), "out").scores()
    print(f"scores of rules: {perf_counter() - began:.2f} s")


def of_children() -> float:
    """Seconds that processes which have ended kept a core busy."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
