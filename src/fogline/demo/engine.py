"""What turns rows into changes?

An engine learns from history, then takes rows in portions of whole ticks and reports, in its own time, what changed.
`EmbeddedEngine` is the one without Spark: a Monitor in this process. It draws the picture in the README and is what
the one on Spark (`spark_engine`) is compared with: same rows, same changes.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter, sleep
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fogline.demo.view import BatchReport
from fogline.monitor import Monitor
from fogline.query import Query
from fogline.repository.repository import Repository


class Engine(Protocol):
    """What the demo runs on."""

    def learn(self, history: pa.Table, query: Query) -> Repository:
        """A repository from complete readings; rules are found in them."""

    def send(self, rows: pa.Table) -> None:
        """Rows of whole ticks, later than all before."""

    def start(self, query: Query, repository: Repository, *, at_once: int | None) -> None:
        """Begin with what was sent. `at_once`: nothing else will be; take so many portions at a time."""

    def poll(self, patience: float) -> BatchReport | None:
        """The report of one more batch; None if there is none within so many seconds."""

    def stop(self) -> None:
        """Let go of everything, at once."""


class EmbeddedEngine:
    """A Monitor."""

    def __init__(self) -> None:
        self.portions: deque[pa.Table] = deque()

    def learn(self, history: pa.Table, query: Query) -> Repository:
        return Repository.fit(history, query)

    def send(self, rows: pa.Table) -> None:
        self.portions.append(rows)

    def start(self, query: Query, repository: Repository, *, at_once: int | None) -> None:
        self.monitor, self.at_once = Monitor(query, repository), at_once or 1

    def poll(self, patience: float) -> BatchReport | None:
        if not self.portions:
            sleep(patience)
            return None
        taken = [self.portions.popleft() for _ in range(min(self.at_once, len(self.portions)))]
        rows = pa.concat_tables(taken)
        clock = pc.max(rows["ts"]).as_py()
        begin = perf_counter()
        changes = self.monitor.advance(clock, rows) if clock is not None else self.monitor.answer().slice(0, 0)
        return BatchReport(changes, clock, self.monitor.stats()["live"], perf_counter() - begin)

    def stop(self) -> None:
        self.portions.clear()
