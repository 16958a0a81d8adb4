"""How long is one tick where each id has one current row, beside the strongest thing a user would do instead?

Ids are replaced at random by rows of `streams`, some are removed. The rival keeps its rows in one matrix, means for
what is missing, and calls moocore.is_nondominated (compiled C) over all of them at every tick; it gets its rows as a
NumPy array, Fogline gets and gives Arrow. Same process, same rows, ticks of the two interleaved, medians. The rival's
answer is not the same: it is what means make of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import moocore
import numpy as np
import pyarrow as pa

import fogline as fl
from benchmarks.lines import print_lines
from benchmarks.streams import Stream
from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.states import OUT

WARM = 10  # ticks before the first that counts


@dataclass(frozen=True)
class Case:
    """One line of the report: a stream, how many ids, how many of them change per tick, and the ratio to be reached."""

    name: str
    stream: Stream
    ids: int = 20_000
    rows: int = 30
    gone: float = 0.0
    floor: float = 1.0
    ticks: int = 60

    def query(self) -> fl.Query:
        names = {f"a{j}": "max" for j in range(self.stream.d)}
        return fl.Query(attributes=names, id="id", time="t", latest=True, gone="gone")

    def batches(self) -> Iterator[tuple[pa.Table, Ints, Floats]]:
        """All ids once, then some of them per tick: the Arrow table, the ids, and the same as numbers; -inf is gone."""
        rng = np.random.default_rng(2)
        table, numbers = next(self.stream.batches(self.ids))
        yield changed(table, np.arange(self.ids), 0, np.zeros(self.ids, np.bool_)), np.arange(self.ids), numbers
        for t, (table, numbers) in enumerate(self.stream.batches(self.rows), start=1):
            ids, gone = rng.choice(self.ids, self.rows, replace=False), rng.random(self.rows) < self.gone
            yield changed(table, ids, t, gone), ids, np.where(gone[:, None], -np.inf, numbers)


def changed(table: pa.Table, ids: Ints, t: int, gone: Flags) -> pa.Table:
    """The rows as those of these ids, at that time."""
    columns = {"id": pa.array(ids), "t": pa.array(np.full(len(ids), t)), "gone": pa.array(gone)}
    return pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **columns})


CASES = [
    Case("uniform", Stream("uniform"), floor=6),
    Case("correlated", Stream("correlated"), floor=6),
    Case("anti", Stream("anti"), floor=3),
    Case("uniform gone", Stream("uniform"), gone=0.1, floor=6),
    Case("correlated gone", Stream("correlated"), gone=0.1, floor=6),
    Case("anti gone", Stream("anti"), gone=0.1, floor=3),
    Case("uniform wide", Stream("uniform", values=100, spread=10 / 6)),
    Case("anti wide", Stream("anti", values=100, spread=10 / 6)),
    Case("uniform 200K", Stream("uniform"), ids=200_000, rows=1_000, floor=15, ticks=24),
    Case("200K gone", Stream("uniform"), ids=200_000, rows=1_000, gone=0.1, floor=15, ticks=24),
    Case("200K slow", Stream("uniform"), ids=200_000, ticks=24),
]


class Rival:
    """The current rows as one matrix, means for what is missing, and the whole skyline at every tick."""

    def __init__(self, numbers: Floats) -> None:
        self.means = np.nanmean(numbers, axis=0)
        self.matrix = np.where(np.isnan(numbers), self.means, numbers)

    def tick(self, ids: Ints, numbers: Floats) -> int:
        self.matrix[ids] = np.where(np.isnan(numbers), self.means, numbers)
        return int(moocore.is_nondominated(self.matrix, maximise=True).sum())


def measure(case: Case) -> dict[str, float]:
    """Fill both, then let them take turns."""
    monitor, batches = fl.Monitor(case.query()), case.batches()
    table, _, numbers = next(batches)
    rival, began = Rival(numbers), time.perf_counter()
    monitor.advance(0, table)
    filled = time.perf_counter() - began
    ticks, rival_ticks = [], []
    for t, (table, ids, numbers) in zip(range(1, WARM + case.ticks + 1), batches, strict=False):
        a = time.perf_counter()
        monitor.advance(t, table)
        b = time.perf_counter()
        rival.tick(ids, numbers)
        rival_ticks.append(time.perf_counter() - b)
        ticks.append(b - a)
    ticks, rival_ticks = ticks[WARM:], rival_ticks[WARM:]
    [group] = monitor.groups.values()
    live, tick, other = group.live, float(np.median(ticks)), float(np.median(rival_ticks))
    sizes = {
        "open": len(np.flatnonzero(live.slots.columns.state[: live.slots.used] >= OUT)),
        "answer": len(live.members()),
    }
    times = {"tick": tick, "mean": float(np.mean(ticks)), "rival": other, "ratio": other / tick, "fill": filled}
    return {**times, "row": tick / case.rows, **sizes}


COLUMNS = {
    "case": lambda case, m: case.name,
    "fogline": lambda case, m: f"{m['tick'] * 1e3:.2f} ms",
    "mean": lambda case, m: f"{m['mean'] * 1e3:.2f} ms",
    "moocore": lambda case, m: f"{m['rival'] * 1e3:.1f} ms",
    "ratio": lambda case, m: f"{m['ratio']:.1f}×",
    "floor": lambda case, m: f"{case.floor:g}×",
    "a row": lambda case, m: f"{m['row'] * 1e6:.1f} µs",
    "open": lambda case, m: f"{m['open']:,}",
    "answer": lambda case, m: f"{m['answer']:,}",
    "first": lambda case, m: f"{m['fill']:.2f} s",
}


def main() -> None:
    """Print a line per case."""
    found = print_lines(CASES, measure, COLUMNS, __doc__)
    if {"uniform", "200K slow"} <= found.keys():
        growth = found["200K slow"]["row"] / found["uniform"]["row"]
        print(f"\ncost per row at 30 rows a tick, 200K ids against 20K: {growth:.2f}× (to be at most 3×)")


if __name__ == "__main__":
    main()
