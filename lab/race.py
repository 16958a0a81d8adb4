"""How long does a tick take, what does it answer, and how right is that?

A system takes the rows of each tick and gives the answer, with the seconds it spent on imputing, on keeping its
structure and on the query. It is a pair, which imputes every row and then maintains (the paper's six rivals and more);
Fogline, which does both at once; or the paper's own system as corrected ('paper') or as printed ('paper:printed').

What lies at the border, reading Arrow rows and building the table of changes, is timed apart and not raced: it has
nothing to do with how skylines are kept. What else a monitor does, such as refusing duplicates and scoring hidden
values, counts as maintenance, though no rival does it.

The true answer of a tick is the skyline of the window's complete rows. Rows whose truth is unknown (real nulls) take no
part, neither in the truth nor in the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fogline.arrays import Batch, Delta, Flags, Floats, Ints, UncertainRows
from fogline.engine.group import Group
from fogline.impute.chain import Chain
from fogline.impute.protocol import Evidence, Imputer
from fogline.intake.take import Intake
from fogline.monitor import Monitor
from fogline.query import Query
from fogline.repository.repository import Repository
from fogline.repository.rules import as_rules
from fogline.rows.changes import GroupKey
from fogline.rows.names import Kinds
from fogline.rows.reader import Decoded, Reader
from lab.case import ID, Case, LabError, matrix
from lab.imputers import fitted
from lab.imputers.fittable import fill
from lab.imputers.rules import DD
from lab.maintainers import (
    LiveMaintainer,
    Maintainer,
    Stopwatch,
    TickAnswer,
    TickTimes,
    Tree,
    answer_of,
    maintainer,
    members,
)
from lab.paper.access import INDEX
from lab.paper.cost import BETA
from lab.paper.framework import CORRECTED, FORMS, SkyIDS
from lab.paper.lattice import HISTOGRAMS, DataRepository
from lab.paper.objects import Incomplete
from lab.paper.pruning import LEMMAS

FOGLINE, PAPER = "fogline", "paper"
RIVALS = tuple(f"{one}+{two}" for one in ("DD", "mul", "con") for two in ("skyline", "skyline_tree"))
"""The paper's six."""


class System(Protocol):
    """Gives the answer of each tick, and the time that its parts took."""

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

    def fill(self, now: int, rows: pa.Table) -> None:
        """As `advance`, for what can do without an answer."""
        if isinstance(self.maintainer, Tree):
            self.maintainer.fill(now, self.impute(*self.read(rows)))
        else:
            self.advance(now, rows)

    def read(self, rows: pa.Table) -> tuple[Batch, Evidence]:
        """The rows with their gaps, and what the imputer may look at."""
        named = self.reader.read(rows, self.kinds)
        self.kinds, batch = named.kinds, named.batch()
        return batch, Evidence(batch.raw, np.isnan(batch.uncertain.lo), named.source)

    def impute(self, batch: Batch, evidence: Evidence) -> Batch:
        """The rows with distributions in their gaps."""
        return batch._replace(uncertain=fill(batch.uncertain, self.chain, evidence))

    def sizes(self) -> Mapping[str, int]:
        return self.maintainer.sizes()


class TimedChain(Chain):
    """A chain that adds up the seconds it spends on imputing: bounds, and distributions however they are asked for.

    Groups ask `fill_sharing`, which is `fill` with an argument: both are timed, and neither twice.
    """

    def __init__(self, chain: Chain, spent: Stopwatch) -> None:
        super().__init__(chain.imputers, chain.query, chain.sensors, most=chain.most, own=chain.own)
        self.spent = spent
        self.fills: list[tuple[float, float]] = []  # when each call of `fill` began, and its seconds

    def bound(self, uncertain: UncertainRows, known: Floats, gaps: Flags, *, rough: bool = False) -> UncertainRows:
        return self.spent.around(super().bound)(uncertain, known, gaps, rough=rough)

    def fill(self, uncertain: UncertainRows, known: Floats, gaps: Flags, *, sharing: bool = False) -> UncertainRows:
        began = perf_counter()
        filled = self.spent.around(super().fill)(uncertain, known, gaps, sharing=sharing)
        self.fills.append((began, perf_counter() - began))
        return filled

    def filling_since(self, when: float) -> float:
        """Seconds of the calls of `fill` that began since then; all are forgotten."""
        seconds = sum(took for began, took in self.fills if began >= when)
        self.fills.clear()
        return seconds


class TimedMonitor(Monitor):
    """A monitor that adds up the seconds of its parts: what lies at the border, imputing, judging."""

    def __init__(self, query: Query, repository: Repository) -> None:
        super().__init__(query, repository)
        assert self.chain is not None
        self.border, self.imputing, self.judging = Stopwatch(), Stopwatch(), Stopwatch()
        self.chain = self.timed = TimedChain(self.chain, self.imputing)
        self.intake = Intake(self.chain, eager=False, scoring=True)

    def _read(self, rows: Any) -> Decoded | None:
        return self.border.around(super()._read)(rows)

    def _report(self, deltas: list[tuple[GroupKey, Delta]]) -> pa.Table:
        return self.border.around(super()._report)(deltas)

    def _new_group(self) -> Group:
        group = super()._new_group()
        group.live.on_judged = self._judged
        return group

    def _judged(self, seconds: float) -> None:
        """Judging took so long, imputing on the way included."""
        self.judging.add(seconds - self.timed.filling_since(perf_counter() - seconds))


class Fogline:
    """Imputation and query processing at the same time: a monitor, with all that it does beside."""

    def __init__(self, query: Query, repository: Repository) -> None:
        self.monitor, self.spent = TimedMonitor(query, repository), TickTimes()

    def advance(self, now: int, rows: pa.Table) -> TickAnswer:
        began, monitor = perf_counter(), self.monitor
        monitor.advance(now, rows)
        took = perf_counter() - began
        imputing, judging, border = monitor.imputing.read(), monitor.judging.read(), monitor.border.read()
        self.spent = TickTimes(imputing, took - imputing - judging - border, judging, border)
        return members(monitor.groups[()].live)

    def sizes(self) -> Mapping[str, int]:
        return self.monitor.stats()


class PaperSystem:
    """The paper's own system (`lab/paper`), compiled where it walks over objects or samples.

    Probabilities of its answer are lower bounds where Algorithm 5 needs no more. `access` and `first`: how samples of R
    are found, and what is looked at before they are; `lemmas`: those in use; `beta`: of the cost model.
    """

    def __init__(
        self,
        case: Case,
        form: str = CORRECTED,
        *,
        access: str = INDEX,
        first: str = HISTOGRAMS,
        lemmas: Collection[int] = tuple(LEMMAS),
        beta: float = BETA,
    ) -> None:
        if form not in FORMS:
            raise LabError(f"the paper's system has the forms {', '.join(FORMS)}; {form!r} is none of them.")
        self.case, self.spent = case, TickTimes()
        self.signs = np.array(case.query.signs, np.float64)
        names = case.query.names
        rules = case.rules or [str(rule) for rule in repository_of(FOGLINE, case).rules]
        past = matrix(case.history, names) * self.signs
        self.repository = DataRepository(
            past, names, as_rules(rules), corrected=form == CORRECTED, access=access, beta=beta
        )
        self.system = SkyIDS(case.settings.alpha, self.repository, form=form, first=first, lemmas=lemmas)

    def advance(self, now: int, rows: pa.Table) -> TickAnswer:
        began = perf_counter()
        arrivals = self._objects(now, rows)
        border = perf_counter() - began
        found = self.system.advance(now, arrivals)
        self.spent = TickTimes(**self.system.seconds, border=border)
        return answer_of(np.array(list(found), np.int64), np.array(list(found.values()), np.float64))

    def fill(self, now: int, rows: pa.Table) -> None:
        """As `advance`, but no answer is worked out."""
        self.system.advance(now, self._objects(now, rows), refine=False)

    def _objects(self, now: int, rows: pa.Table) -> list[Incomplete]:
        values = matrix(rows, self.case.query.names) * self.signs
        ids, life = rows.column(ID).to_pylist(), self.case.settings.lifetime
        return [Incomplete(id, now, now + life, point) for id, point in zip(ids, values, strict=True)]

    def sizes(self) -> Mapping[str, int]:
        return self.system.sizes()


def system(name: str, case: Case) -> System:
    """A system by its name, fitted to the case: 'fogline', 'paper', 'DD+skyline', 'mean+moocore' …"""
    if name == PAPER or name.startswith(f"{PAPER}:"):
        return PaperSystem(case, name.partition(":")[2] or CORRECTED)
    if name == FOGLINE or name.startswith(f"{FOGLINE}:"):
        return Fogline(case.query, repository_of(name, case))
    one, plus, two = name.partition("+")
    if not plus:
        raise LabError(
            f"{name!r} is no system; write 'fogline', 'paper', or an imputer and a maintainer, as in 'DD+skyline'."
        )
    return Pair(case.query, fitted(one, case)[0], maintainer(two, case.query))


def repository_of(name: str, case: Case) -> Repository:
    """What 'fogline', or 'fogline:' with a way to find rules after it, imputes from."""
    made, _ = fitted(name.partition(":")[2] or "DD", case)
    if not isinstance(made, DD):
        raise LabError(
            f"{name!r}: Fogline imputes by rules; after the colon stands DD, DD-literal, DD-held-out or DD-context."
        )
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


# ------------------------------------------------------------------------------------------------------------- accuracy


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Precision and recall of one answer; of nothing against nothing, 1."""

    precision: float
    recall: float
    answered: int
    true: int
    lost_incomplete: int
    """How many true members are missing from the answer that had gaps themselves."""
    wrong_incomplete: int
    """How many of the answered rows are no true members, and had gaps themselves."""

    @property
    def f(self) -> float:
        """The paper's F-score (Eq. 5): the harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def truth_answers(case: Case, at: Iterable[int]) -> dict[int, Ints]:
    """Tick -> the rows that are really in the skyline then."""
    wanted, answers = frozenset(at), {}
    tree, last = LiveMaintainer(case.query), max(wanted, default=-1)
    for k in range(last + 1):
        answer = tree.advance(k, _complete(case, k))
        if k in wanted:
            answers[k] = answer.id
    return answers


def _complete(case: Case, k: int) -> Batch:
    """The rows of a tick as they really were."""
    theta = case.settings.theta
    rows = np.arange(k * theta, (k + 1) * theta)
    rows = rows[case.certain[rows]]
    n, d = len(rows), case.truth.shape[1]
    point = case.truth[rows] * np.array(case.query.signs) + 0.0
    none = np.empty(0)
    uncertain = UncertainRows(point, point, np.full((n, d), -1, np.int64), np.ones((n, d), np.int64), none, none, none)
    arrived = np.full(n, float(k))
    return Batch(
        rows.astype(object), arrived, arrived + case.settings.lifetime, case.truth[rows], np.empty((n, 0)), uncertain
    )


def accuracy_of(case: Case, answer: TickAnswer, true: Ints) -> Accuracy:
    """One answer against the truth."""
    answered = answer.id[case.certain[answer.id]]
    hits = np.intersect1d(answered, true, assume_unique=True)
    lost = np.setdiff1d(true, answered, assume_unique=True)
    precision = len(hits) / len(answered) if len(answered) else float(not len(true))
    recall = len(hits) / len(true) if len(true) else 1.0
    wrong = np.setdiff1d(answered, true, assume_unique=True)
    gaps = [int(np.count_nonzero(case.incomplete[rows])) for rows in (lost, wrong)]
    return Accuracy(precision, recall, len(answered), len(true), *gaps)


def accuracies(case: Case, answers: Mapping[int, TickAnswer], truth: Mapping[int, Ints]) -> dict[int, Accuracy]:
    """Tick -> accuracy, where both are there."""
    return {k: accuracy_of(case, answer, truth[k]) for k, answer in answers.items() if k in truth}
