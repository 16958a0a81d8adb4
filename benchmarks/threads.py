"""What do sorting and two threads gain on one large group?

    python -m benchmarks.threads --rows 20000

One anti-correlated group in one process (`Monitor`), the same batches the short way, sorted by one thread, and sorted
by several (`fogline.engine.bulk`), one after the other in turns; medians, and whether answers are the same. Compare
rates of one run only. `bulk.ROWS` is where the second begins to gain.
"""

from __future__ import annotations

import argparse
import os
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

import fogline as fl
from fogline.engine import bulk

NEVER = 10**12  # rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="in a batch, which is one tick")
    parser.add_argument("--window", type=int, default=10, help="batches")
    parser.add_argument("--batches", type=int, default=8, help="measured, after a window that does not count")
    parser.add_argument("--d", type=int, default=4)
    asked = parser.parse_args()
    query = fl.Query(
        attributes={f"a{j}": "max" for j in range(asked.d)}, id="id", time="t", lifetime=asked.window, alpha=0.5
    )
    random = np.random.default_rng(3)
    ways = {"the short way": (1, NEVER), "sorted": (1, 0), f"sorted, {asked.threads} threads": (asked.threads, 0)}
    monitors = {name: fl.Monitor(query) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for k in range(asked.window + asked.batches):
        rows = anti(random, asked.rows, asked.d, k)
        answers = []
        for name in [*ways][:: 1 if k % 2 else -1]:
            number, bulk.ROWS = ways[name]
            os.environ[bulk.VARIABLE] = str(number)
            began = perf_counter()
            monitors[name].advance(k, rows, every="batch")
            took = perf_counter() - began
            seconds[name] += [took] if k >= asked.window else []
            answers.append(monitors[name].answer())
        assert all(each.equals(answers[0]) for each in answers), "the answers differ"
    stats = monitors["sorted"].stats()
    print(f"{asked.rows:,} rows a batch, d = {asked.d}, {stats['live']:,} live, {stats['answer']:,} in the answer")
    first = median(next(iter(seconds.values())))
    for name, each in seconds.items():
        print(f"{name}: {median(each) * 1e3:,.1f} ms, {first / median(each):.2f}x")


def anti(random: np.random.Generator, n: int, d: int, tick: int) -> pa.Table:
    """Rows that are good somewhere and bad elsewhere, some of whose values are distributions."""
    values = random.random((n, d))
    values += (d / 2 - values.sum(axis=1, keepdims=True)) / d + random.normal(0, 0.05, (n, 1))
    columns: dict[str, object] = {"id": np.arange(n) + tick * n, "t": np.full(n, float(tick))}
    kind = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))
    for j in range(d):
        width = np.where(random.random(n) < 0.3, 4, 1)
        base = np.repeat(values[:, j], width)
        offsets = np.concatenate(([0], np.cumsum(width))).astype(np.int32)
        step = np.arange(len(base)) - np.repeat(offsets[:-1], width)
        cells = pa.StructArray.from_arrays(
            [pa.array(base + step / 40), pa.array(np.ones(len(base)))], ["value", "weight"]
        )
        columns[f"a{j}"] = pa.ListArray.from_arrays(pa.array(offsets), cells).cast(kind)
    return pa.table(columns)


if __name__ == "__main__":
    main()
