"""How long is one tick where a row may be beaten by fewer than k others, beside working everything out again?

The rival is this package itself: the rows of the window as one table, all at once (`fl.Monitor` filled anew). Same
process, same rows, ticks of all interleaved, medians. k = 1 is the skyline, for comparison.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

import fogline as fl
from benchmarks.lines import print_lines
from benchmarks.streams import Stream


@dataclass(frozen=True)
class Case:
    """One line of the report."""

    name: str
    k: int
    stream: Stream
    window: int = 2_000
    rows: int = 30
    ticks: int = 60

    def query(self) -> fl.Query:
        names = {f"a{j}": "max" for j in range(self.stream.d)}
        return fl.Query(attributes=names, id="id", time="t", lifetime=self.window // self.rows, skyband=self.k)


CASES = [
    *(Case(f"uniform k={k}", k, Stream("uniform")) for k in (1, 2, 3, 10)),
    Case("anti k=3", 3, Stream("anti")),
    Case("uniform 20K k=3", 3, Stream("uniform"), window=20_000, ticks=20),
]


def measure(case: Case) -> dict[str, float]:
    """Fill the window, then let both take turns."""
    monitor, query = fl.Monitor(case.query()), case.query()
    tables = [table for table, _ in islice(case.stream.batches(case.rows), case.window // case.rows + 5 + case.ticks)]
    ticks, anew = [], []
    for t, table in enumerate(tables):
        a = time.perf_counter()
        monitor.advance(t, table)
        b = time.perf_counter()
        if t >= len(tables) - case.ticks:
            window = pa.concat_tables(tables[max(0, t - case.window // case.rows + 1) : t + 1])
            c = time.perf_counter()
            again = fl.Monitor(query)
            again.advance(t, window, every="batch")
            anew.append(time.perf_counter() - c)
            ticks.append(b - a)
            assert again.answer().num_rows == monitor.answer().num_rows
    stats = monitor.stats()
    return {
        "tick": float(np.median(ticks)), "anew": float(np.median(anew)), "live": stats["live"],
        "answer": stats["answer"], "judged": stats["evaluations"] / len(tables), "state": len(monitor.snapshot()),
    }  # fmt: skip


COLUMNS = {
    "case": lambda case, m: case.name,
    "fogline": lambda case, m: f"{m['tick'] * 1e3:.2f} ms",
    "anew": lambda case, m: f"{m['anew'] * 1e3:.2f} ms",
    "ratio": lambda case, m: f"{m['anew'] / m['tick']:.1f}×",
    "live": lambda case, m: f"{m['live']:,}",
    "answer": lambda case, m: f"{m['answer']:,}",
    "judged": lambda case, m: f"{m['judged']:,.0f}",
    "state": lambda case, m: f"{m['state'] / 1e6:.2f} MB",
}

if __name__ == "__main__":
    print_lines(CASES, measure, COLUMNS, __doc__)
