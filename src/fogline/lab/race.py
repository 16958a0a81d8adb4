"""How long does a tick take, and what does it answer?

A system takes the rows of each tick and gives the answer, with the seconds it spent on imputing, on keeping its
structure and on the query. Either a pair, first imputing every row and then maintaining (the paper's six rivals and
more), or Fogline, which does both at once. What lies at the border, reading Arrow rows and building the table of
changes, is told apart and not raced: it has nothing to do with how skylines are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Floats, Ints
from fogline.lab.case import Case, LabError
from fogline.lab.imputers import fitted
from fogline.lab.imputers.protocol import Imputer, fill
from fogline.lab.maintainers import maintainer
from fogline.lab.maintainers.protocol import Answer, Maintainer, Spent
from fogline.lab.maintainers.tree import Stopwatch, members
from fogline.model import Query
from fogline.monitor import Monitor
from fogline.repository.repository import Repository
from fogline.rows.reader import Kinds, Reader
from fogline.skyline.group import Group

FOGLINE = "fogline"
RIVALS = tuple(f"{one}+{two}" for one in ("DD", "mul", "con") for two in ("skyline", "skyline_tree"))
"""The paper's six."""


class System(Protocol):
    """See the module."""

    spent: Spent

    def advance(self, now: int, rows: pa.Table) -> Answer:
        """One tick."""

    def sizes(self) -> Mapping[str, int]:
        """What it keeps."""


class Pair:
    """Any imputer, then any maintainer."""

    def __init__(self, query: Query, imputer: Imputer, maintainer: Maintainer) -> None:
        self.imputer, self.maintainer = imputer, maintainer
        self.reader, self.kinds, self.signs = Reader(query), Kinds(), np.array(query.signs)
        self.spent = Spent()

    def advance(self, now: int, rows: pa.Table) -> Answer:
        start = perf_counter()
        batch = self.read(rows)
        began = perf_counter()
        batch = self.impute(batch, rows)
        took = perf_counter() - began
        answer = self.maintainer.advance(now, batch)
        self.spent = Spent(took, self.maintainer.spent.maintenance, self.maintainer.spent.query, began - start)
        return answer

    def read(self, rows: pa.Table) -> Batch:
        taken = self.reader.read(rows, self.kinds)
        self.kinds = taken.kinds
        return taken.batch

    def impute(self, batch: Batch, rows: pa.Table) -> Batch:
        return batch._replace(clouds=fill(batch.clouds, self.imputer.impute(rows), self.signs))

    def sizes(self) -> Mapping[str, int]:
        return self.maintainer.sizes()


class Timed(Monitor):
    """A monitor that tells what it spent where."""

    def __init__(self, query: Query, repository: Repository) -> None:
        super().__init__(query, repository)
        assert self.imputer is not None
        self.imputing, self.querying, self.border = Stopwatch(), Stopwatch(), Stopwatch()
        self._reader.read = self.border.around(self._reader.read)  # type: ignore[method-assign]
        self._tables.build = self.border.around(self._tables.build)  # type: ignore[method-assign]
        self.imputer.bound = self.imputing.around(self.imputer.bound)  # type: ignore[method-assign]
        self.imputer.fill = self.imputing.around(self.imputer.fill)  # type: ignore[method-assign]

    def _new_group(self) -> Group:
        group = super()._new_group()
        group.live.in_stages = True
        group.live._settle = self.querying.around(group.live._settle)  # type: ignore[method-assign]
        return group


class Fogline:
    """Imputation and query processing at the same time."""

    def __init__(self, query: Query, repository: Repository) -> None:
        self.monitor, self.spent = Timed(query, repository), Spent()

    def advance(self, now: int, rows: pa.Table) -> Answer:
        began = perf_counter()
        self.monitor.advance(now, rows)
        took = perf_counter() - began
        monitor = self.monitor
        imputing, querying, border = monitor.imputing.read(), monitor.querying.read(), monitor.border.read()
        self.spent = Spent(imputing, took - imputing - querying - border, querying, border)
        return members(self.monitor.groups[()].live)

    def sizes(self) -> Mapping[str, int]:
        return self.monitor.stats()


def system(name: str, case: Case) -> System:
    """A system by its name, fitted to the case: 'fogline', 'DD+skyline', 'mean+moocore' …"""
    if name == FOGLINE or name.startswith(f"{FOGLINE}:"):
        made, _ = fitted(name.partition(":")[2] or "DD", case)
        repository = getattr(made, "repository", None)
        if repository is None:
            raise LabError(f"{name!r}: Fogline imputes by rules; after the colon stands DD, DD-held-out or DD-context.")
        return Fogline(case.query, repository)
    one, plus, two = name.partition("+")
    if not plus:
        raise LabError(f"{name!r} is no system; write 'fogline' or an imputer and a maintainer, as in 'DD+skyline'.")
    return Pair(case.query, fitted(one, case)[0], maintainer(two, case.query))


@dataclass(frozen=True, eq=False)
class Run:
    """What a system did over some ticks."""

    name: str
    tick: Ints  # (k,) those that were measured
    imputation: Floats  # (k,) seconds
    maintenance: Floats  # (k,)
    query: Floats  # (k,)
    border: Floats  # (k,) not part of the total
    answers: Mapping[int, Answer]  # at the ticks that were asked for
    sizes: Mapping[str, int]  # at the end

    @property
    def total(self) -> Floats:
        """(k,) seconds of each tick."""
        return self.imputation + self.maintenance + self.query


def race(
    case: Case,
    runner: System,
    *,
    warm: int | None = None,
    ticks: int | None = None,
    at: Iterable[int] = (),
    name: str = "",
) -> Run:
    """Run a system over a case: `warm` ticks unmeasured (default: until the window is full), then `ticks` more."""
    begin = case.full if warm is None else warm
    end = case.length if ticks is None else min(begin + ticks, case.length)
    wanted, answers, spent = frozenset(at), {}, []
    for k, rows in case.ticks(0, end):
        answer = runner.advance(k, rows)
        if k in wanted:
            answers[k] = answer
        if k >= begin:
            spent.append(runner.spent)
    columns: dict[str, Any] = {
        part: np.array([getattr(each, part) for each in spent])
        for part in ("imputation", "maintenance", "query", "border")
    }
    return Run(name, np.arange(begin, end), answers=answers, sizes=dict(runner.sizes()), **columns)
