"""What becomes of a run when ten times the usual rows come for a while, and its sink is slow?

Files of a steady stream are written beside a run of the embedded engine that follows them; then for some seconds each
has ten times as many rows; then they are as before. The sink takes its time for every batch. Reported for each phase:
rows a second that came and that were answered, the largest batch, how many files lay there unread; then how long the
run took to catch up, and its peak of memory. At the end the answer is compared with that of one undisturbed run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.output.answers import read_answer
from fogline.output.folder import LocalFolder
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.estimate import peak_memory
from fogline.synthetic import Stream, rows

EVERY = 0.5  # seconds between files
QUERY = fl.Query({f"a{j}": "max" for j in range(4)}, id="id", time="time", lifetime=5_000)
STREAM = Stream("uniform", missing=0.0, seeds=0)


@dataclass
class Sink:
    """Takes its time, and notes what came when."""

    seconds: float
    took: list[tuple[float, int]] = field(default_factory=list)  # when, rows

    def put(self, number: int, changes: Any, rejects: Any, health: Any) -> None:
        """Count the rows of a batch."""
        sleep(self.seconds)
        self.took.append((perf_counter(), sum(sum(each["rows"].to_pylist()) for each in health)))


@dataclass
class Writer:
    """Writes files, phase after phase."""

    folder: Path
    phases: list[tuple[str, float, int]]  # name, seconds, rows of a file
    ends: dict[str, float] = field(default_factory=dict)
    came: dict[str, int] = field(default_factory=dict)

    def write(self) -> None:
        """All files, each when it is due."""
        for number, (name, due, batch) in enumerate(self._files(perf_counter()), 1):  # the first is there
            sleep(max(0.0, due - perf_counter()))
            fresh = self.folder / f".{number:06}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), fresh)
            os.rename(fresh, self.folder / f"{number:06}.parquet")
            self.came[name] = self.came.get(name, 0) + batch.num_rows
            self.ends[name] = perf_counter()

    def _files(self, due: float) -> Iterator[tuple[str, float, pa.RecordBatch]]:
        begin = 0
        for name, seconds, count in self.phases:
            for _ in range(int(seconds / EVERY)):
                yield name, due, rows(STREAM, begin, begin + count)
                begin, due = begin + count, due + EVERY


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=10_000, help="rows a second, before and after the burst")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase")
    parser.add_argument("--sink", type=float, default=0.3, help="seconds that the sink takes for a batch")
    parser.add_argument("--most", type=int, default=50_000, help="rows of a batch")
    given = parser.parse_args()
    few = int(given.rate * EVERY)
    phases = [("before", given.seconds, few), ("burst", given.seconds, 10 * few), ("after", given.seconds, few)]
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "in").mkdir()
        pq.write_table(pa.Table.from_batches([rows(STREAM, 0, 1)]).slice(0, 0), root / "in" / "000000.parquet")
        sink, writer = Sink(given.sink), Writer(root / "in", phases)
        running = Embedded(RunConfig(str(root / "in"), str(root / "out"), QUERY, sinks=(sink,), engine=EMBEDDED))
        going = running.start(follow=True, max_rows_per_batch=given.most)
        thread = Thread(target=writer.write)
        behind = list[tuple[float, int]]()
        began = perf_counter()
        thread.start()
        while thread.is_alive() or sum(count for _, count in sink.took) < sum(writer.came.values()):
            going.awaitTermination(0.05)
            behind.append((perf_counter(), running.status.behind))
        thread.join()
        begin = began
        print("| phase | rows/s that came | rows/s answered | largest batch | files unread, at most |")
        print("|---|---|---|---|---|")
        for name, _, _ in phases:
            end = writer.ends[name]
            some = [count for when, count in sink.took if begin <= when < end]
            wait = max((count for when, count in behind if begin <= when < end), default=0)
            rates = f"{writer.came[name] / (end - begin):,.0f} | {sum(some) / (end - begin):,.0f}"
            print(f"| {name} | {rates} | {max(some, default=0):,} | {wait} |")
            begin = end
        end = writer.ends["burst"]
        late = next((when for when, count in behind if when > end and count <= 1), perf_counter())
        print(f"caught up {late - end:.1f} s after the burst")
        print(f"peak of memory {(peak_memory() or 0) / 1e6:,.0f} MB; load {os.getloadavg()[0]:.1f}")
        Embedded(RunConfig(str(root / "in"), str(root / "calm"), QUERY, engine=EMBEDDED)).start().awaitTermination()
        both = [read_answer(LocalFolder(root / name), str(root / name)).sort_by("id") for name in ("out", "calm")]
        assert both[0].equals(both[1]), "another answer than that of an undisturbed run"
        print(f"the answer is that of an undisturbed run: {both[0].num_rows} rows")


if __name__ == "__main__":
    main()
