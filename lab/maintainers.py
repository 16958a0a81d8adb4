"""Who keeps the skyline of uncertain rows, and how?

A maintainer takes the rows of each tick as clouds and gives the answer of the tick (`Maintainer`). These are raced:
`Candidates` (the paper's `skyline`, with and without forgetting), `Tree` (the paper's `skyline_tree`, corrected or as
printed), `LiveMaintainer` (`live`: Fogline's own) and `Recompute` (moocore).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import ONE, Batch, Floats, Ints, UncertainRows, empty_rows, unshared
from fogline.engine.group import Incoming, WindowGroup
from fogline.engine.live import LiveSet
from fogline.errors import did_you_mean
from fogline.kernels.uncertain import copy_sharing
from fogline.query import TOLERANCE, Query
from lab.case import LabError
from lab.kernels.candidates import (
    Admission,
    CandidateLists,
    empty_lists,
    expire_lists,
    free_slots,
    refresh_lists,
    take_rows,
)
from lab.paper.framework import CORRECTED, PRINTED, SkyIDS
from lab.paper.objects import Cell, Imputed
from lab.paper.pruning import LEMMAS

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Stopwatch:
    """Seconds spent on something since it was last read.

    >>> watch = Stopwatch()
    >>> watch.around(max)(1, 3)
    3
    >>> watch.read() > 0, watch.read()
    (True, 0.0)
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """That much more."""
        self.seconds += seconds

    def around(self, function: Callable[Given, Result]) -> Callable[Given, Result]:
        """The same function, timed."""

        def timed(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            began = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += perf_counter() - began

        return timed

    def read(self) -> float:
        """The seconds, and back to zero."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class TickAnswer(NamedTuple):
    """The rows of an answer, by number, with their probabilities."""

    id: Ints  # (n,) in increasing order
    probability: Floats  # (n,)


@dataclass(slots=True)
class TickTimes:
    """Seconds of one tick."""

    imputation: float = 0.0
    maintenance: float = 0.0
    query: float = 0.0
    border: float = 0.0
    """Reading the rows: much the same for every system, and no part of the total."""

    @property
    def total(self) -> float:
        """All but the border."""
        return self.imputation + self.maintenance + self.query


class Maintainer(Protocol):
    """Takes the rows of a tick, gives the answer.

    `advance(now, rows)`: what has expired leaves, the rows (all of which arrived now) enter, and the answer is
    returned: every row of the window with probability above alpha. Within 1e-9 of alpha counts as equal; at alpha 0 the
    answer is every row that none surely beats. `spent` is the time that took: keeping the structure, and working out
    the answer.
    """

    spent: TickTimes

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        """One tick."""

    def sizes(self) -> dict[str, int]:
        """What it keeps, in numbers that show why it takes so long."""


def answer_of(id: NDArray[np.int64], probability: Floats) -> TickAnswer:
    """An answer in order."""
    order = np.argsort(id)
    return TickAnswer(id[order], probability[order])


def threshold_of(query: Query) -> float:
    """What a probability must exceed; at alpha 0 none needs to."""
    return query.alpha + TOLERANCE if query.alpha > 0 else -1.0


# -------------------------------------------------------------------------------------------------------- Fogline's own


class LiveMaintainer:
    """Fogline's own live set, fed with clouds that are imputed already.

    Maintenance compares the newcomers' boxes with those that are there. Query is what the paper calls refinement:
    members are updated by what came and went, and what is no longer known to be out is judged."""

    def __init__(self, query: Query) -> None:
        self.group = WindowGroup(LiveSet(len(query.names), query.alpha))
        self.judging = Stopwatch()
        self.group.live.on_judged = self.judging.add
        self.clock, self.spent = -np.inf, TickTimes()

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        began = perf_counter()
        self.group.advance(self.clock, now, Incoming(rows))
        self.clock = now
        took = perf_counter() - began
        query = self.judging.read()
        self.spent = TickTimes(0.0, took - query, query)
        return members(self.group.live)

    def sizes(self) -> dict[str, int]:
        live = self.group.live
        return {"kept": live.alive, "answer": len(live.members()), "evaluations": live.counts.evaluations}


def members(live: LiveSet) -> TickAnswer:
    """The answer as the live set knows it. Not timed: it is there, and only written out."""
    slots = live.members()
    return answer_of(live.slots.id[slots].astype(np.int64), live.slots.columns.probability[slots])


# ------------------------------------------------------------------------------------------------- the paper's own tree


class Tree:
    """The paper's skyline tree with its refinement (`lab/paper`), fed with clouds that are imputed already.

    It is compiled as far as it walks over objects. Probabilities are lower bounds where Algorithm 5 needs no more.
    """

    def __init__(self, query: Query, *, form: str = CORRECTED, lemmas: Collection[int] = tuple(LEMMAS)) -> None:
        self.system, self.spent = SkyIDS(query.alpha, form=form, lemmas=lemmas), TickTimes()

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        began = perf_counter()
        objects = imputed_objects(rows)
        found = self.system.advance(now, objects)
        took, query = perf_counter() - began, self.system.seconds["query"]
        self.spent = TickTimes(0.0, took - query, query)
        return answer_of(np.array(list(found), np.int64), np.array(list(found.values()), np.float64))

    def fill(self, now: float, rows: Batch) -> None:
        """As `advance`, but no answer is worked out."""
        self.system.advance(now, imputed_objects(rows), refine=False)

    def sizes(self) -> dict[str, int]:
        return self.system.sizes()


def imputed_objects(rows: Batch) -> list[Imputed]:
    """The rows of a batch as the paper's objects."""
    u = rows.uncertain
    out = []
    for i, (id, arrives, expires) in enumerate(zip(rows.id.tolist(), rows.arrived, rows.expires, strict=True)):
        cells = []
        for start, size, low in zip(u.start[i].tolist(), u.size[i].tolist(), u.lo[i].tolist(), strict=True):
            end = start + size
            cells.append(Cell.of(low) if start < 0 else Cell.of(u.value[start:end], u.weight[start:end]))
        out.append(Imputed.of(id, arrives, expires, cells))
    return out


# ------------------------------------------------------------------------------------------------------ candidate lists


SLOTS = 256


class Candidates:
    """Candidate lists over an uncertain sliding window (the paper's `skyline`).

    After Ding, Lian, Chen, Jin, "Continuous monitoring of skylines over uncertain data streams" (2012). A candidate is
    a row that may become an answer before it expires. Each has the list of those that can beat it; when its list
    changes, its probability is worked out from the list again. Rows that are no candidates stay in the window, since
    they count against others. A tick costs O(rows · kept) box comparisons, and the probabilities of what changed.

    It is made as fast as we can. Lists are rows of bits. A newcomer only lowers probabilities, so it concerns members
    alone; a row that is out is looked at again only when one of its list expires. Working out begins with cheap bounds
    and stops at alpha. Dominance is factorised, and of very many places those that no rival distinguishes are merged,
    as in Fogline. All of it is compiled.

    `forget` adds Fogline's main idea, which that paper lacks: a row that another one surely beats, which expires no
    earlier, is dropped; no probability changes. What Fogline then still does better: imputing late, comparing boxes by
    words, knowing until when a row is out, and keeping a member's probability.
    """

    def __init__(self, query: Query, *, forget: bool = False) -> None:
        """`forget`: drop what another that expires no earlier surely beats, as Fogline does, for less to compare."""
        self.d, self.admission = len(query.names), Admission(threshold_of(query), forget)
        self.spent = TickTimes()
        self.used = self.pool = self.live = self.worked = 0
        self.uncertain: UncertainRows = empty_rows(SLOTS, self.d, SLOTS)
        self.lists: CandidateLists = empty_lists(SLOTS)
        self.id = np.empty(SLOTS, np.int64)

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        began = perf_counter()
        expire_lists(self.lists, self.used, now)
        if len(rows.id):
            self._take(now, rows)
        between = perf_counter()
        self.worked, inside = refresh_lists(self.uncertain, self.lists, self.used, self.admission.threshold)
        answer = answer_of(self.id[inside], self.lists.probability[inside])
        self.spent = TickTimes(0.0, between - began, perf_counter() - between)
        return answer

    def sizes(self) -> dict[str, int]:
        kept = self.used - len(free_slots(self.lists, self.used))
        return {"kept": kept, "candidates": int(np.count_nonzero(self.lists.candidate)), "worked_out": self.worked}

    def _take(self, now: float, rows: Batch) -> None:
        rows = rows.part(np.flatnonzero(rows.expires > now))
        free = free_slots(self.lists, self.used)
        self._make_room(len(rows.id), len(rows.uncertain.value), free)
        slots, self.used, self.pool = take_rows(
            self.uncertain, self.lists, self.used, free, self.pool, rows.uncertain, rows.expires, self.admission
        )
        kept = slots >= 0
        self.id[slots[kept]] = rows.id[kept].astype(np.int64)

    def _make_room(self, rows: int, values: int, free: Ints) -> None:
        """Slots and pools for so many more; values of those that are gone are squeezed out first."""
        slots = len(self.id)
        if self.used + rows > slots:
            slots = 64 * -(-max(2 * slots, self.used + rows) // 64)
        if slots == len(self.id) and self.pool + values <= len(self.uncertain.value):
            return
        old, self.uncertain.start[free] = self.uncertain, ONE
        alive = old.start[: self.used]
        need = int(old.size[: self.used][alive >= 0].sum()) + values
        self.uncertain = empty_rows(slots, self.d, 2 * need + SLOTS)
        none = unshared(self.d)
        self.pool = copy_sharing(old, np.arange(self.used), self.uncertain, 0, 0, none, none)
        if slots > len(self.id):
            self._more_slots(slots)

    def _more_slots(self, slots: int) -> None:
        old, self.lists = self.lists, empty_lists(slots)
        for column, before in zip(self.lists[:-1], old[:-1], strict=True):
            column[: len(before)] = before
        self.lists.rivals[: old.rivals.shape[0], : old.rivals.shape[1]] = old.rivals
        self.id = np.concatenate((self.id, np.empty(slots - len(self.id), np.int64)))


# ----------------------------------------------------------------------------------------------------- a Pareto library


POINTS = 1024


class Recompute:
    """The whole skyline of the window, anew at every tick, by moocore: what a user with a good library would do.

    One matrix is kept in place, nothing else is remembered. moocore knows points only, so the imputer must give single
    values; each member then has probability 1. Equal rows do not beat each other (`keep_weakly`). A tick costs about
    O(window · log^(d-2) window)."""

    def __init__(self, query: Query) -> None:
        try:
            import moocore
        except ImportError:
            raise LabError("the maintainer 'moocore' needs the package moocore; install it.") from None
        self.nondominated: Any = moocore.is_nondominated
        self.spent = TickTimes()
        self.used = 0
        self.point, self.expires, self.id = (
            np.empty((POINTS, len(query.names))),
            np.empty(POINTS),
            np.empty(POINTS, int),
        )

    def advance(self, now: float, rows: Batch) -> TickAnswer:
        began = perf_counter()
        if (rows.uncertain.start != -1).any():
            raise LabError("moocore knows points only; take an imputer that gives single values, such as 'mean'.")
        self._drop(now)
        self._take(now, rows)
        between = perf_counter()
        here = np.empty(0, np.int64)
        if self.used:
            here = np.flatnonzero(self.nondominated(self.point[: self.used], maximise=True, keep_weakly=True))
        answer = answer_of(self.id[here], np.ones(len(here)))
        self.spent = TickTimes(0.0, between - began, perf_counter() - between)
        return answer

    def sizes(self) -> dict[str, int]:
        return {"kept": self.used}

    def _drop(self, now: float) -> None:
        """Rows that expired make room; the others move up, in their order."""
        left = np.flatnonzero(self.expires[: self.used] > now)
        if len(left) == self.used:
            return
        for column in (self.point, self.expires, self.id):
            column[: len(left)] = column[left]
        self.used = len(left)

    def _take(self, now: float, rows: Batch) -> None:
        stay = np.flatnonzero(rows.expires > now)
        end = self.used + len(stay)
        if end > len(self.id):
            size = 2 * end
            self.point = np.resize(self.point, (size, self.point.shape[1]))
            self.expires, self.id = np.resize(self.expires, size), np.resize(self.id, size)
        self.point[self.used : end] = rows.uncertain.lo[stay]
        self.expires[self.used : end], self.id[self.used : end] = rows.expires[stay], rows.id[stay].astype(np.int64)
        self.used = end


# -------------------------------------------------------------------------------------------------------------- by name


SOME_LEMMAS = ((1,), (2,), (3,), (1, 2), (1, 3), (2, 3))  # all three is `skyline_tree`
MAINTAINERS: dict[str, Callable[[Query], Maintainer]] = {
    "skyline": Candidates,
    "skyline_forgetting": partial(Candidates, forget=True),
    "skyline_tree": Tree,
    "skyline_tree:printed": partial(Tree, form=PRINTED),
    "skyline_tree:none": partial(Tree, lemmas=()),
    **{f"skyline_tree:{'+'.join(map(str, some))}": partial(Tree, lemmas=some) for some in SOME_LEMMAS},
    "live": LiveMaintainer,
    "moocore": Recompute,
}


def maintainer(name: str, query: Query) -> Maintainer:
    """A maintainer by its name, with nothing in its window."""
    if name not in MAINTAINERS:
        known = ", ".join(MAINTAINERS)
        raise LabError(f"there is no maintainer {name!r}; there are {known}.{did_you_mean(name, MAINTAINERS)}")
    return MAINTAINERS[name](query)
