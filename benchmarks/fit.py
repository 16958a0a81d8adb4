"""How long does `fogline fit` take, how much memory, and what does loading cost?

    python -m benchmarks.fit --rows 1000000 --attributes 6
    python -m benchmarks.fit --rows 10000000 --attributes 4 --memory 8g

Memory is proportional (PSS) and of all processes together: the command, the JVM, its Python workers. Loading is
measured in fresh processes; two at a time then read every page of the repository, and how much is private to each is
printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LOADER = """
import sys, time
import numpy as np
import fogline as fl
began = time.perf_counter()
repository = fl.Repository.load(sys.argv[1])
print(time.perf_counter() - began, flush=True)
total = sum(float(np.nansum(column.values)) for column in repository.history.columns.values())
for lattice in repository.lattices.values():
    for choice in lattice.choices:
        access = choice.access
        arrays = access.table if hasattr(access, "table") else access.index.arrays().values()
        total += sum(float(np.nansum(array)) for array in arrays)
print(total, flush=True)
sys.stdin.readline()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--attributes", type=int, default=6)
    parser.add_argument("--memory", default=None)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_history(root, asked.rows, asked.attributes)
        words = [sys.executable, "-c", "from fogline.cli import app; app()", "fit", str(root / "history.parquet")]
        words += ["--query", str(root / "query.yaml"), "--output", str(root / "repo")]
        seconds, peak = run(words + (["--memory", asked.memory] if asked.memory else []))
        print(f"fit: {asked.rows:,} rows x {asked.attributes}: {seconds:.0f} s, peak {peak:.2f} GB")
        load(root / "repo")


def write_history(root: Path, rows: int, attributes: int) -> None:
    """Two hidden causes behind all attributes, and noise."""
    rng = np.random.default_rng(1)
    causes = rng.random((rows, 2))
    columns = {f"a{j}": causes @ rng.random(2) + rng.normal(0, 0.02, rows) for j in range(attributes)}
    table = pa.table({"id": np.arange(rows) % 1000, "t": np.arange(rows), **columns})
    pq.write_table(table, root / "history.parquet", row_group_size=250_000)
    asked = ", ".join(f"{name}: max" for name in columns)
    (root / "query.yaml").write_text(f"attributes: {{{asked}}}\nid: id\ntime: t\nlifetime: 1000\n")


def run(words: list[str]) -> tuple[float, float]:
    """Seconds, and the greatest sum of memory (GB) over the process and all below it."""
    began, peak = perf_counter(), 0
    process = subprocess.Popen(words)
    while process.poll() is None:
        peak = max(peak, sum(kilobytes(pid, "Pss:") for pid in below(process.pid)))
        sleep(0.5)
    if process.returncode:
        sys.exit(process.returncode)
    return perf_counter() - began, peak / 1e6


def load(repository: Path) -> None:
    """Load in two processes at once that read everything."""
    words = [sys.executable, "-c", LOADER, str(repository)]
    both = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        print(f"load: {float(process.stdout.readline()):.3f} s")
        process.stdout.readline()
    size = sum(each.stat().st_size for each in repository.rglob("*.npy")) / 1e6
    for process in both:
        files = mapped(process.pid, repository)
        print(f"of {size:.0f} MB of arrays: {files['Rss']:.0f} MB in memory, {files['Private']:.0f} MB of it private")
    for process in both:
        process.communicate("\n")


def mapped(pid: int, folder: Path) -> dict[str, float]:
    """Megabytes of this folder's files that a process holds in memory, and how many of them no other process shares."""
    total, counted = {"Rss": 0.0, "Private": 0.0}, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            counted = bool(rest) and rest[-1].startswith(str(folder))
        elif counted and name in ("Rss:", "Private_Clean:", "Private_Dirty:"):
            total["Rss" if name == "Rss:" else "Private"] += int(rest[0]) / 1e3
    return total


def below(pid: int) -> list[int]:
    """A process and all it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [each for child in task.read_text().split() for each in below(int(child))]
        except OSError:  # gone meanwhile
            continue
    return found


def kilobytes(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
