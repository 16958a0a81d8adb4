"""How long is one tick, beside the strongest thing a user would do instead?

The rival replaces missing values by means and calls moocore.is_nondominated (compiled C) over the whole window at
every tick; it gets its rows as a NumPy array and keeps its window in place, Fogline gets and gives Arrow. Same process,
same rows, ticks of the two interleaved, medians. The rival's answer is not the same: it is what means make of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice

import moocore
import numpy as np

import fogline as fl
from benchmarks.lines import print_lines
from benchmarks.streams import Stream
from fogline.arrays import Floats


@dataclass(frozen=True)
class Case:
    """One line of the report: a stream, a window, a rate, and the ratio it must reach."""

    name: str
    stream: Stream
    window: int = 20_000
    rows: int = 30
    floor: float = 1.0
    ticks: int = 60

    def query(self) -> fl.Query:
        names = {f"a{j}": "max" for j in range(self.stream.d)}
        return fl.Query(attributes=names, id="id", time="t", lifetime=self.window // self.rows)


CASES = [
    Case("uniform", Stream("uniform"), floor=12),
    Case("correlated", Stream("correlated"), floor=12),
    Case("anti", Stream("anti"), floor=4),
    Case("uniform d=10", Stream("uniform", d=10), floor=5, ticks=20),
    Case("correlated d=10", Stream("correlated", d=10), floor=5, ticks=20),
    Case("anti d=10", Stream("anti", d=10), floor=5, ticks=20),
    Case("uniform wide", Stream("uniform", values=100, spread=10 / 6), floor=3),
    Case("anti wide", Stream("anti", values=100, spread=10 / 6), floor=3),
    Case("uniform 320K", Stream("uniform"), window=320_000, floor=12, ticks=20),
    Case("uniform 1M", Stream("uniform"), window=1_000_000, rows=1_000, floor=50, ticks=12),
]


class Rival:
    """The window as one matrix, means for what is missing, and the whole skyline at every tick."""

    def __init__(self, window: int, d: int) -> None:
        self.matrix = np.empty((window, d))
        self.sums, self.counts, self.at, self.full = np.zeros(d), np.zeros(d), 0, False

    def put(self, rows: Floats) -> None:
        known = ~np.isnan(rows)
        self.sums += np.where(known, rows, 0).sum(axis=0)
        self.counts += known.sum(axis=0)
        end = self.at + len(rows)
        self.matrix[np.arange(self.at, end) % len(self.matrix)] = np.where(known, rows, self.sums / self.counts)
        self.full |= end >= len(self.matrix)
        self.at = end % len(self.matrix)

    def tick(self, rows: Floats) -> int:
        self.put(rows)
        return int(moocore.is_nondominated(self.matrix, maximise=True).sum())


def measure(case: Case) -> dict[str, float]:
    """Fill both windows, then let them take turns."""
    monitor, rival = fl.Monitor(case.query()), Rival(case.window, case.stream.d)
    batches = case.stream.batches(case.rows)
    fill = case.window // case.rows + 5
    began = time.perf_counter()
    for t, (table, numbers) in enumerate(islice(batches, fill)):
        monitor.advance(t, table)
        rival.put(numbers)
    filled = time.perf_counter() - began
    ticks, rival_ticks = [], []
    for t, (table, numbers) in enumerate(islice(batches, case.ticks), start=fill):
        a = time.perf_counter()
        monitor.advance(t, table)
        b = time.perf_counter()
        rival.tick(numbers)
        rival_ticks.append(time.perf_counter() - b)
        ticks.append(b - a)
    stats = monitor.stats()
    tick, other = float(np.median(ticks)), float(np.median(rival_ticks))
    return {
        "tick": tick, "rival": other, "ratio": other / tick, "rows_s": case.rows / tick, "mean": float(np.mean(ticks)),
        "live": stats["live"], "answer": stats["answer"], "snapshot": len(monitor.snapshot()), "fill": filled,
    }  # fmt: skip


COLUMNS = {
    "case": lambda case, m: case.name,
    "fogline": lambda case, m: f"{m['tick'] * 1e3:.2f} ms",
    "mean": lambda case, m: f"{m['mean'] * 1e3:.2f} ms",
    "moocore": lambda case, m: f"{m['rival'] * 1e3:.1f} ms",
    "ratio": lambda case, m: f"{m['ratio']:.1f}×",
    "floor": lambda case, m: f"{case.floor:g}×",
    "rows/s": lambda case, m: f"{m['rows_s']:,.0f}",
    "live": lambda case, m: f"{m['live']:,}",
    "answer": lambda case, m: f"{m['answer']:,}",
    "state": lambda case, m: f"{m['snapshot'] / 1e6:.2f} MB",
}


def main() -> None:
    """Print a line per case."""
    found = print_lines(CASES, measure, COLUMNS, __doc__)
    if {"uniform", "uniform 320K"} <= found.keys():
        growth = found["uniform"]["rows_s"] / found["uniform 320K"]["rows_s"]
        print(f"\ncost per row, |W| = 320K against 20K: {growth:.2f}× (to be at most 3×)")


if __name__ == "__main__":
    main()
