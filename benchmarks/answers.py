"""How long does `fogline answer` take after many batches, and what does compaction cost a batch?

    python -m benchmarks.answers [--batches 100000] [--changes 20] [--without-disk]

Writes an output folder batch by batch, as `fogline run` does, with changes of a slowly moving answer and one line of
health each; then reads the answer, now and then, and the scores of rules. `--without-disk` does not wait for disks.
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

import fogline as fl
from fogline.flow import folder
from fogline.flow.folder import LocalFolder
from fogline.flow.journal import COUNTERS
from fogline.flow.output import Output, RunConfig
from fogline.impute.scoring import to_plain

QUERY = fl.Query(attributes=dict.fromkeys("abcd", "max"), id="sensor", time="t", lifetime=600)
FOGLINE = [sys.executable, "-c", "from fogline.cli import app; app()"]
WORDS = np.array(["enter", "leave", "update"], object)


def batch(number: int, changes: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Rows enter, and leave a hundred batches later; beside them probabilities move."""
    names = np.concatenate([np.arange(changes // 2), np.arange(changes - changes // 2)])
    arrived = np.full(changes, number)
    arrived[changes // 2 :] = max(number - 100, 0)
    word = WORDS[np.where(np.arange(changes) < changes // 2, 0, 1 if number >= 100 else 0)]
    gone = word == "leave"
    table = pa.table(
        {
            "time": np.full(changes, number),
            "id": pa.array([f"sensor-{k}" for k in names]),
            "arrived": arrived,
            "change": pa.array(word, pa.string()),
            "probability": pa.array(rng.random(changes), mask=gone),
            "exact": pa.array(np.full(changes, True), mask=gone),
            **{name: rng.random(changes) for name in "abcd"},
        }
    )
    scored = json.dumps(to_plain({("a", f"b({k}) -> a(1)"): (1, 0.5, 0.6, 1) for k in range(3)}))
    counters = {name: [7] for name in COUNTERS}
    health = pa.table({"batch": [number], "seconds": [0.2], "time": [number], **counters, "scores": [scored]})
    return {"changes": table, "health": health}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--without-disk", action="store_true")
    given = parser.parse_args()
    if given.without_disk:
        folder.to_disk = lambda path: None
    with TemporaryDirectory(prefix="fogline-") as temporary:
        root = Path(temporary, "out")
        output = Output(LocalFolder(root), RunConfig("in", str(root), QUERY))
        output.begin({})
        write_all(output, given.batches, given.changes)
        read_all(root, given.batches)


def write_all(output: Output, batches: int, changes: int) -> None:
    """Write the batches; print what a usual one costs, and those that join files."""
    rng, seconds, busy = np.random.default_rng(1), np.zeros(batches), np.zeros(batches)
    block = output.compaction.block
    for number in range(batches):
        parts = batch(number, changes, rng)
        began, worked = perf_counter(), process_time()
        output.write(number, parts)
        seconds[number], busy[number] = perf_counter() - began, process_time() - worked
        if number % 10_000 == 9_999:
            print(f"  {number + 1:,} batches, {seconds[: number + 1].mean() * 1000:.2f} ms each", flush=True)
    numbers = np.arange(batches)
    joins = (numbers % block == 0) & (numbers > 0)
    large = (numbers % block**2 == 0) & (numbers > 0)
    for clock, took in (("", seconds), (" of a core", busy)):
        took = took * 1000
        print(f"a batch: {np.median(took[~joins]):.2f} ms{clock}; with all that is joined {took.mean():.2f} ms")
        for name, some in (("hundred", joins & ~large), ("ten thousand", large)):
            if some.any():
                print(f"  joining a {name}: {np.median(took[some]):.0f} ms{clock}, at most {took[some].max():.0f}")


def read_all(root: Path, batches: int) -> None:
    """Time the commands, as a person types them, in a process of their own."""
    files = {kind.name: len(list(kind.iterdir())) for kind in root.iterdir() if kind.is_dir()}
    size = sum(each.stat().st_size for each in root.rglob("*") if each.is_file())
    print(f"files: {files}, {size / 1e6:.0f} MB")
    for at in (None, batches - 50, batches // 2, batches // 2 + 4999, 10):
        words = ["answer", str(root), "--most", "5", *([] if at is None else ["--at", str(at)])]
        before, began = of_children(), perf_counter()
        done = subprocess.run([*FOGLINE, *words], capture_output=True, text=True, check=True)
        seconds, busy, rows = perf_counter() - began, of_children() - before, done.stdout.splitlines()[-1]
        print(f"answer{'' if at is None else f' --at {at}'}: {seconds:.2f} s, {busy:.2f} s of a core, {rows}")
    began = perf_counter()
    from fogline.flow.answers import read_scores

    read_scores(LocalFolder(root), "out")
    print(f"scores of rules: {perf_counter() - began:.2f} s")


def of_children() -> float:
    """Seconds that processes which have ended kept a core busy."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
