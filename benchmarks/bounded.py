"""Is the embedded engine's memory bounded by what a batch touches, and not by what is kept?

    python -m benchmarks.bounded [--ids 1000000] [--groups 100000] [--share 0.02] [--case NAME]

Each case is a stream of files, one for each batch, that a process of its own reads. A batch touches a `--share` of the
ids or of the groups, those of neighbouring groups: four fifths of the batches make all that there is to keep, the last
fifth comes back to a quarter of it. After each batch: resident memory of the process, and bytes of the state. Of each
fifth of the batches the median is printed, and the peak at the end.

- "ids in groups": the newest row of each id counts, a thousand ids in a group.
- "ids in one group": the same in a single group, which every batch touches: the live rows of one group are in memory.
- "groups": rows of many groups, none of which expires.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.pipeline.names import CHECKPOINT
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from fogline.state.sqlite import FILE

D = 3  # attributes
IN_GROUPS, IN_ONE, GROUPS = "ids in groups", "ids in one group", "groups"
TIMES = {IN_GROUPS: 1, IN_ONE: 1, GROUPS: 2}  # rows of one name in a batch that touches it


def question(case: str) -> fl.Query:
    attributes = {f"a{j}": "max" for j in range(D)}
    if case == GROUPS:
        return fl.Query(attributes, id="id", time="t", lifetime=10**9, by=["g"])
    return fl.Query(attributes, id="id", time="t", latest=True, by=["g"] if case == IN_GROUPS else [])


def write(case: str, names: int, share: float, folder: Path) -> int:
    """The stream: batch after batch a share of the names, all of them and a quarter again; how many batches."""
    folder.mkdir()
    rng, each = np.random.default_rng(1), max(1, int(names * share))
    begins = [*range(0, names, each), *range(0, names // 4, each)]
    for k, begin in enumerate(begins):
        name = np.repeat(np.arange(begin, min(begin + each, names)), TIMES[case])
        columns: dict[str, Any] = {f"a{j}": rng.random(len(name)) for j in range(D)}
        columns |= {"t": np.full(len(name), k), "g": name if case == GROUPS else name // 1000}
        columns["id"] = k * 10**9 + np.arange(len(name)) if case == GROUPS else name
        pq.write_table(pa.table(columns), folder / f"{k:05}.parquet")
    return len(begins)


def run(case: str, root: Path) -> None:
    """Batch after batch, each with a line about what it took."""
    config = RunConfig(str(root / "in"), str(root / "out"), question(case), engine=EMBEDDED)
    running = Embedded(config)
    batches, began = running.start(files_per_batch=1), perf_counter()
    state = root / "out" / CHECKPOINT / FILE
    while running.status.behind != 0 or not state.exists():
        batches.awaitTermination(0)
        kept = state.stat().st_size if state.exists() else 0
        seen = {"rss": in_kilobytes("VmRSS"), "state": kept, "seconds": perf_counter() - began}
        print(json.dumps(seen | {"answer": running.status.answer}), flush=True)
    running.close()
    print(json.dumps({"peak": in_kilobytes("VmHWM"), "state": state.stat().st_size}), flush=True)


def in_kilobytes(name: str) -> int:
    """What the system knows of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def shown(case: str, names: int, share: float) -> None:
    """A row of the table."""
    with TemporaryDirectory() as folder:
        count = write(case, names, share, Path(folder) / "in")
        words = [sys.executable, "-m", "benchmarks.bounded", "--inside", case, folder]
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    *seen, end = map(json.loads, lines)
    fifths = [seen[k * len(seen) // 5 : (k + 1) * len(seen) // 5] for k in range(5)]
    rss = " / ".join(f"{np.median([each['rss'] for each in some]) / 1024:,.0f}" for some in fifths)
    print(
        f"| {names:,} {case} | {count} | {rss} | {end['peak'] / 1024:,.0f} | {end['state'] / 1e6:,.0f} | "
        f"{seen[-1]['answer']:,} | {seen[-1]['seconds']:,.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.02, help="of the names, in one batch")
    parser.add_argument("--case", choices=TIMES, action="append")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        return run(asked.inside[0], Path(asked.inside[1]))
    print("| kept | batches | memory in each fifth of them, MB | peak, MB | state, MB | answer | seconds |")
    print("|---|---|---|---|---|---|---|")
    for case in asked.case or TIMES:
        shown(case, asked.groups if case == GROUPS else asked.ids, asked.share)
    return None


if __name__ == "__main__":
    main()
