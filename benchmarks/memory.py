"""Is the memory that a run is expected to take what it takes?

Streams of four kinds, each run by the embedded engine in a process of its own; its estimate, made beforehand from the
first rows, stands beside the peak of memory that the process has had (VmHWM).
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.files.reading import batches
from fogline.output.folder import LocalFolder
from fogline.pipeline.plan import Plan
from fogline.runs.config import EMBEDDED, Output, RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.estimate import Estimate, estimate, peak_memory
from fogline.runs.start import layout_for, plan_for_files
from fogline.runs.taken import ROWS
from fogline.synthetic import Stream, rows

FILE = 100_000  # rows of a file


@dataclass(frozen=True)
class Case:
    """A stream, and how long its rows live."""

    kind: str
    count: int
    lifetime: int | None  # in ticks of 30 rows
    latest: bool = False
    d: int = 4


CASES = {
    "correlated": Case("correlated", 1_000_000, 20_000),
    "uniform": Case("uniform", 1_000_000, 20_000),
    "anti-correlated": Case("anti", 300_000, 10_000, d=3),
    "latest": Case("uniform", 1_000_000, None, latest=True),
}


def config_of(case: Case, root: Path) -> RunConfig:
    """The run of a case."""
    names = {f"a{j}": "max" for j in range(case.d)}
    query = fl.Query(names, id="id", time="time", lifetime=case.lifetime, latest=case.latest)
    return RunConfig(str(root / "in"), str(root / "out"), query, engine=EMBEDDED)


def write(case: Case, root: Path) -> None:
    """The stream as files."""
    (root / "in").mkdir()
    stream, rng = Stream(case.kind, d=case.d, missing=0.0, seeds=0), np.random.default_rng(1)
    for begin in range(0, case.count, FILE):
        batch = rows(stream, begin, min(begin + FILE, case.count))
        if case.latest:
            ids = pa.array(rng.integers(0, case.count // 3, batch.num_rows))
            batch = batch.set_column(0, "id", ids)
        pq.write_table(pa.Table.from_batches([batch]), root / "in" / f"{begin:09}.parquet")


def expected(case: Case, root: Path) -> Estimate:
    """The estimate of a case."""
    output = Output(LocalFolder(root / "none"), config_of(case, root))
    layout, _ = layout_for(output, None)
    plan = plan_for_files(output.config, layout, follow=False, buckets=None)
    read = (batch for path in sorted((root / "in").iterdir()) for batch in batches(str(path), layout))
    assert isinstance(plan, Plan)
    found = estimate(plan, read, total=case.count, batch=ROWS)
    assert found is not None
    return found


def measured(case: Case, root: Path) -> None:
    """Run it, and print live rows and the peak."""
    running = Embedded(config_of(case, root))
    running.start().awaitTermination()
    print(running.status.live, peak_memory() or 0)


def main() -> None:
    """All cases, or, in a process of its own, one."""
    if len(sys.argv) > 2:
        measured(CASES[sys.argv[1]], Path(sys.argv[2]))
        return
    print(
        "| stream | live rows: expected | found | memory: expected, MB | peak, MB | ratio |\n|---|---|---|---|---|---|"
    )
    for name, case in CASES.items():
        with TemporaryDirectory() as folder:
            root = Path(folder)
            write(case, root)
            found = expected(case, root)
            words = [sys.executable, "-m", "benchmarks.memory", name, folder]
            live, peak = map(int, subprocess.run(words, capture_output=True, check=True, text=True).stdout.split())
            size = f"{found.process / 1e6:,.0f} | {peak / 1e6:,.0f} | {found.process / peak:.2f}"
            print(f"| {name} | {found.live:,.0f} | {live:,} | {size} |", flush=True)


if __name__ == "__main__":
    main()
