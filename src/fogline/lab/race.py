"""How long does a tick take, and what does it answer?

A system takes the rows of each tick and gives the answer, with the seconds it spent on imputing, on keeping its
structure and on the query. Either a pair, first imputing every row and then maintaining (the paper's six rivals and
more), or Fogline, which does both at once. What lies at the border, reading Arrow rows, is timed apart and not raced:
it has nothing to do with how skylines are kept.

Fogline is raced as the parts of its `Monitor`, called one by one so that each can be timed: reader, chain of imputers,
group. What the monitor does around them is left out, as it is for the rivals: refusing duplicates, scoring hidden
values, writing the table of changes. A test holds the parts to the monitor's answers and counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Clouds, Floats, Ints
from fogline.impute.chain import Chain, chain_of
from fogline.impute.imputer import Evidence, Imputer
from fogline.impute.intake import Looked, bounded, look
from fogline.lab.case import Case, LabError
from fogline.lab.imputers import fitted
from fogline.lab.imputers.dd import DD
from fogline.lab.imputers.fittable import fill
from fogline.lab.maintainers import maintainer
from fogline.lab.maintainers.protocol import Maintainer, TickAnswer, TickTimes
from fogline.lab.maintainers.tree import PLACES, members
from fogline.lab.stopwatch import Stopwatch
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.rows.reader import Kinds, Named, Reader
from fogline.skyline.group import Group
from fogline.skyline.tree import measure

FOGLINE = "fogline"
RIVALS = tuple(f"{one}+{two}" for one in ("DD", "mul", "con") for two in ("skyline", "skyline_tree"))
"""The paper's six."""


class System(Protocol):
    """See the module."""

    spent: TickTimes

    def advance(self, now: int, rows: pa.Table) -> TickAnswer:
        """One tick."""

    def sizes(self) -> Mapping[str, int]:
        """What it keeps."""


class Pair:
    """Any imputer, then any maintainer."""

    def __init__(self, query: Query, imputer: Imputer, maintainer: Maintainer) -> None:
        self.imputer, self.maintainer = imputer, maintainer
        self.reader, self.kinds, self.chain = Reader(query), Kinds(), Chain([imputer], query)
        self.spent = TickTimes()

    def advance(self, now: int, rows: pa.Table) -> TickAnswer:
        start = perf_counter()
        batch, evidence = self.read(rows)
        began = perf_counter()
        batch = self.impute(batch, evidence)
        took = perf_counter() - began
        answer = self.maintainer.advance(now, batch)
        self.spent = TickTimes(took, self.maintainer.spent.maintenance, self.maintainer.spent.query, began - start)
        return answer

    def read(self, rows: pa.Table) -> tuple[Batch, Evidence]:
        """The rows with their gaps, and what the imputer may look at."""
        named = self.reader.read(rows, self.kinds)
        self.kinds, batch = named.kinds, named.batch()
        return batch, Evidence(batch.raw, np.isnan(batch.clouds.lo), named.rows.source)

    def impute(self, batch: Batch, evidence: Evidence) -> Batch:
        """The rows with distributions in their gaps."""
        return batch._replace(clouds=fill(batch.clouds, self.chain, evidence))

    def sizes(self) -> Mapping[str, int]:
        return self.maintainer.sizes()


class Fogline:
    """Imputation and query processing at the same time: bounds first, distributions when they matter."""

    def __init__(self, query: Query, repository: Repository) -> None:
        chain = chain_of(repository, query, remember=False)
        assert chain is not None
        self.chain, self.imputing, self.judging = chain, Stopwatch(), Stopwatch()
        self.bounds, fill = self.imputing.around(self._bounds), self.imputing.around(chain.fill)
        self.group = Group(len(query.names), query.alpha, query.last, PLACES, chain.width, fill)
        self.group.live.settled = self.judging.add
        self.reader, self.kinds = Reader(query), Kinds()
        self.clock, self.incomplete, self.spent = -np.inf, 0, TickTimes()

    def advance(self, now: int, rows: pa.Table) -> TickAnswer:
        start = perf_counter()
        named = self.reader.read(rows, self.kinds)
        began = perf_counter()
        looked, clouds = self.bounds(named)
        self.group.advance(self.clock, now, named.batch()._replace(clouds=clouds, known=looked.of_all()))
        took, imputing, judging = perf_counter() - began, self.imputing.read(), self.judging.read()
        self.spent = TickTimes(imputing, took - imputing - judging, judging, began - start)
        self.clock, self.kinds = now, named.kinds
        self.incomplete += len(looked.lacking)
        return members(self.group.live)

    def _bounds(self, named: Named) -> tuple[Looked, Clouds]:
        looked = look(self.chain, named.rows, None, None, named.rows.refused)
        return looked, bounded(self.chain, looked)

    def sizes(self) -> Mapping[str, int]:
        return {"incomplete": self.incomplete, **measure(self.group)}


def system(name: str, case: Case) -> System:
    """A system by its name, fitted to the case: 'fogline', 'DD+skyline', 'mean+moocore' …"""
    if name == FOGLINE or name.startswith(f"{FOGLINE}:"):
        return Fogline(case.query, repository_of(name, case))
    one, plus, two = name.partition("+")
    if not plus:
        raise LabError(f"{name!r} is no system; write 'fogline' or an imputer and a maintainer, as in 'DD+skyline'.")
    return Pair(case.query, fitted(one, case)[0], maintainer(two, case.query))


def repository_of(name: str, case: Case) -> Repository:
    """What 'fogline', or 'fogline:' with a way to find rules after it, imputes from."""
    made, _ = fitted(name.partition(":")[2] or "DD", case)
    if not isinstance(made, DD):
        raise LabError(f"{name!r}: Fogline imputes by rules; after the colon stands DD, DD-held-out or DD-context.")
    return made.repository


@dataclass(frozen=True, eq=False)
class RaceResult:
    """What a system did over some ticks."""

    name: str
    tick: Ints  # (k,) those that were measured
    imputation: Floats  # (k,) seconds
    maintenance: Floats  # (k,)
    query: Floats  # (k,)
    border: Floats  # (k,) not part of the total
    answers: Mapping[int, TickAnswer]  # at the ticks that were asked for
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
) -> RaceResult:
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
    return RaceResult(name, np.arange(begin, end), answers=answers, sizes=dict(runner.sizes()), **columns)
