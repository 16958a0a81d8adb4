"""A run that is killed where its test wants it: `python -m tests.integration.driver FOLDER URL… [--engine spark]`.

`--kill 3:middle` kills the process with SIGKILL while the sinks take batch 3, `3:between` when they have it and the
engine has not committed it; each of them once, however often the run is started again. The process group goes with it:
on Spark that is the JVM and its workers.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.output.sink import Batches, RunInfo, Sink, begin_all, close_all
from fogline.runs.config import RunConfig
from fogline.runs.embedded import Embedded
from fogline.sinks.places import sink_for
from tests.integration.scenario import QUERY


class Killer:
    """Hands batches on to a sink, and kills the process at some of them."""

    def __init__(self, sink: Sink, folder: Path, kills: list[str]) -> None:
        self.sink, self.folder = sink, folder
        self.kills = [(int(number), when) for number, _, when in (each.partition(":") for each in kills)]

    def begin(self, run: RunInfo) -> None:
        begin_all([self.sink], run)

    def close(self) -> None:
        close_all([self.sink])

    def put(self, number: int, changes: Batches, rejects: Batches, health: Batches) -> None:
        self.sink.put(number, changes, rejects, self._torn(number, health))
        self._kill(number, "between")

    def _torn(self, number: int, batches: Batches) -> Iterator[pa.RecordBatch]:
        """What is written last: changes and rejects are on their way by then."""
        for each in batches:
            yield each
            self._kill(number, "middle")

    def _kill(self, number: int, when: str) -> None:
        done = self.folder / f"killed-{number}-{when}"
        if (number, when) in self.kills and not done.exists():
            done.touch()
            os.killpg(os.getpgid(0), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--engine", default="embedded")
    parser.add_argument("--kill", action="append", default=[])
    asked = parser.parse_args()
    sinks: list[Any] = [sink_for(url) for url in asked.urls]
    sinks[-1] = Killer(sinks[-1], asked.folder, asked.kill)
    learnt = fl.Repository.load(asked.folder / "repository")
    where = str(asked.folder / "in"), str(asked.folder / "run")
    config = RunConfig(*where, QUERY, learnt, sinks=tuple(sinks), keeps=False, engine=asked.engine)
    running = made(config)
    assert running.start(files_per_batch=1).awaitTermination() is not False
    running.close()


def made(config: RunConfig) -> Any:
    if config.engine == "embedded":
        return Embedded(config)
    from fogline.spark.running import Run

    return Run(fl.spark.session(master="local[2]"), config)


if __name__ == "__main__":
    main()
    sys.exit(0)
