"""What do scores add up to, over all ages and by age?

Of values that were hidden for a moment (`scoring`) only sums are kept, per attribute, rule, and age of the last value
that could be seen; they travel in parcels, lie in health files and in snapshots, and become scores when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats
from fogline.errors import FoglineError
from fogline.impute.chain import Answer, Chain
from fogline.impute.protocol import Evidence, Imputer
from fogline.impute.row import Constant
from fogline.impute.sensor import Age, in_words, order, step_of
from fogline.kernels.score import central, crps
from fogline.kernels.sensors import Trials, hidden
from fogline.repository.sensors.gaps import Hidden, Hiding

if TYPE_CHECKING:
    from fogline.repository.repository import Repository


ENOUGH, DRIFT = 100, 1.5  # cells before anything is reported; how many times the error of the fit is drift
FEW = 0.6  # a smaller share of truths in the central 80 % is wrongly sure


class Sum(NamedTuple):
    """What some cells add up to."""

    cells: int
    error: float
    otherwise: float
    inside: int
    central: int
    singles: int  # cells that were hidden alone, …
    singles_error: float  # … and their part of the error

    def plus(self, more: Sum) -> Sum:
        """With more cells."""
        a, b = self, more
        return Sum(
            a.cells + b.cells, a.error + b.error, a.otherwise + b.otherwise, a.inside + b.inside, a.central + b.central,
            a.singles + b.singles, a.singles_error + b.singles_error,
        )  # fmt: skip


Key = tuple[str, str, Age]  # attribute, rule, age of the last value that could be seen
Sums = dict[Key, Sum]


@dataclass(frozen=True, slots=True)
class Score:
    """How one rule, or one imputer, does for one attribute."""

    attribute: str
    rule: str
    cells: int
    error: float
    """Mean CRPS, in the attribute's own unit …"""
    otherwise: float
    """… and that of the imputers that would be asked without it."""
    inside: float
    """The share of truths between the ends of the distribution."""
    fitted: float | None = None
    """The mean CRPS on held-out rows when it was learnt, where that is known."""
    central: float | None = None
    """The share of truths between the 10 % and the 90 % point of the distribution: 0.8 or more, if it is right."""
    age: Age | None = None
    """How old the attribute's last known value was at most, and older than by the score before; None: of any age."""
    singles: int = 0
    """Cells that were hidden alone, not after a silence: as most of the rows on which it was fitted …"""
    error_of_singles: float | None = None
    """… and their mean CRPS."""

    @property
    def ages(self) -> str:
        """In words, how old the attribute's last known value was."""
        return "any" if self.age is None else in_words(self.age)

    @property
    def worse(self) -> bool:
        """Whether it would be better to do without."""
        return self.cells >= ENOUGH and self.error > self.otherwise

    @property
    def drifts(self) -> bool:
        """Whether it does clearly worse than when it was learnt, on cells that were hidden alone."""
        if self.fitted is None or self.error_of_singles is None:
            return False
        return self.singles >= ENOUGH and self.error_of_singles > DRIFT * self.fitted

    @property
    def wrongly_sure(self) -> bool:
        """Whether far fewer truths lie in the central 80 % of its distributions than should."""
        return self.cells >= ENOUGH and self.central is not None and self.central < FEW


def add(sums: Sums, more: Sums) -> None:
    """Count more cells as well."""
    for key, one in more.items():
        sums[key] = sums[key].plus(one) if key in sums else one


def listed(sums: Sums, repository: Repository | None) -> list[Score]:
    """How rules do, over all ages."""
    fitted: dict[tuple[str, str], float | None] = {}
    if repository is not None and repository.sensors is not None:
        from fogline.impute.sensor import OWN

        fitted = {(name, OWN): each.error or None for name, each in repository.sensors.transitions.items()}
    totals: dict[tuple[str, str], Sum] = {}
    for (attribute, rule, _), one in sorted(sums.items(), key=_place):
        before = totals.get((attribute, rule))
        totals[attribute, rule] = one if before is None else before.plus(one)
    return [_score(*key, one, fitted.get(key), None) for key, one in totals.items()]


def by_age(sums: Sums) -> list[Score]:
    """How rules do, by the age of the last value that could be seen; without what was known when they were fitted."""
    return [_score(name, rule, one, None, age) for (name, rule, age), one in sorted(sums.items(), key=_place)]


def _place(item: tuple[Key, Sum]) -> tuple[str, str, float]:
    attribute, rule, age = item[0]
    return attribute, rule, order(age)


def _score(attribute: str, rule: str, one: Sum, fitted: float | None, age: Age | None) -> Score:
    means = one.error / one.cells, one.otherwise / one.cells, one.inside / one.cells
    alone = one.singles_error / one.singles if one.singles else None
    return Score(attribute, rule, one.cells, *means, fitted, one.central / one.cells, age, one.singles, alone)


def wrongly_sure(scores: Iterable[Score]) -> list[str]:
    """Where an imputer is wrongly sure, one line per attribute and rule; scores: by age."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in scores:
        if each.wrongly_sure and each.central is not None:
            found.setdefault((each.attribute, each.rule), []).append(f"{each.central:.0%} ({each.ages})")
    return [
        f"{attribute}: '{rule}' is wrongly sure; of the truths {', '.join(shares)} lie in its central 80 %, by the age "
        "of the last value."
        for (attribute, rule), shares in found.items()
    ]


def to_plain(sums: Sums) -> list[list[Any]]:
    """As values that JSON can hold."""
    return [[*key, *rest] for key, rest in sums.items()]


def from_plain(saved: Iterable[list[Any]]) -> Sums:
    """The inverse of `to_plain`."""
    out: Sums = {}
    for line in saved:
        if len(line) != 3 + len(Sum._fields):
            raise FoglineError("these scores were written by another version of Fogline, which kept none by age.")
        attribute, rule, age, n, error, otherwise, *rest = line
        inside, middle, singles, alone = rest
        counted = int(inside), int(middle), int(singles), float(alone)
        out[str(attribute), str(rule), age] = Sum(int(n), float(error), float(otherwise), *counted)
    return out


# --- scoring ---
# How good are imputed values, on the stream itself?
#
# Of one row in a hundred or so, one known value is hidden, imputed as if it were missing, and held against the truth:
# how
# far the distribution lies from it (CRPS, in the attribute's own unit), whether the truth lies between its ends, and
# in
# its central 80 %, and how far off the imputers behind the one that answered would be. Which cells may be hidden
# depends
# on the rows alone (of those that come at once only the first few are), and no answer depends on it.
#
# Gaps are not all of one kind: the longer an attribute has been silent, the less is known of it. So for every second
# of
# these values up to four before it are hidden as well, every other time also what the sensor's other attributes have
# read
# since then; and of the values that end a real silence (8 times as long as is usual) one in eight is hidden, after a
# long
# one (64 times) every one. Scores are kept by the age of the last value that an imputer could see.

SHARE, AFTER_SILENCE = 128, 8  # of so many rows, one; and of those that follow on a silence
MOST = 20  # cells of one call: beyond, scores hardly change
CENTRAL = 0.8  # how much of a distribution is central


def chosen(time: Floats, values: Floats) -> Trials:
    """Which values may be hidden; values (n, d), NaN = missing."""
    found: Trials = hidden(np.ascontiguousarray(time), np.ascontiguousarray(values), SHARE, AFTER_SILENCE)
    return found


_Cell = tuple[int, float, float, int, int]  # how a Sum begins


class _Asked(NamedTuple):
    """Rows with a hidden value each."""

    known: Floats  # (n, width) what imputers keep of them
    gaps: Flags  # (n, d) which value is hidden
    truth: Floats  # (n,) what it is


class Scorer:
    """Keeps score for one chain."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def hiding(self, time: Floats, values: Floats) -> Hiding:
        """Which values of rows may be hidden: the question to the state of their sensors, if there is one."""
        return Hiding(chosen(time, values), MOST, self.chain.in_state)

    def score(self, rows: Evidence, these: Hidden, kind: pa.DataType | None) -> list[tuple[int, Sums]]:
        """What comes of hiding values of these rows: of which row, and its part of the sums. `kind`: of the clock."""
        if not len(these.row):
            return []
        each, some = np.arange(len(these.row)), replace(rows.part(these.row), context=these.context)
        truth, gaps = some.values[each, these.attribute], np.zeros(some.values.shape, np.bool_)
        gaps[each, these.attribute] = True
        asked = _Asked(self.chain.evidence(some.hiding(these.attribute)), gaps, truth)
        ages, found = self._ages(these, kind), []
        for answer in self.chain.search(asked.known, gaps):
            for k, key, one in self._scored(answer, asked):
                alone = int(these.single[k])
                found.append((int(these.row[k]), {(*key, ages[k]): Sum(*one, alone, alone * one[1])}))
        return found

    def _ages(self, these: Hidden, kind: pa.DataType | None) -> list[Age]:
        """How old the last value is that can be seen of what is hidden, in steps."""
        age, stamps = np.full(len(these.row), np.nan), kind is not None and pa.types.is_timestamp(kind)
        if these.context is not None and self.chain.sensors is not None:
            for j, name in enumerate(self.chain.query.names):
                which = these.attribute == j
                age[which] = self.chain.sensors.age(name, these.context[which])
        return [step_of(each, stamps=stamps) for each in age.tolist()]

    def _scored(self, answer: Answer, asked: _Asked) -> Iterable[tuple[int, tuple[str, str], _Cell]]:
        """Which of the hidden values, attribute and rule, and how well it was imputed."""
        j, rows, imputer, found = answer
        truth = asked.truth[rows]
        error, otherwise = _errors(imputer, j, found, truth), self._otherwise(answer, asked)
        middle = central(found.start, found.size, found.value, found.often, truth, CENTRAL)
        for k, row in enumerate(rows.tolist()):
            low, high = found.value[found.start[k]], found.value[found.start[k] + found.size[k] - 1]
            inside, off = int(low <= truth[k] <= high), float(error[k])
            instead = off if np.isnan(otherwise[k]) else float(otherwise[k])
            key = self.chain.query.names[j], imputer.sources(j)[found.source[k]]
            yield row, key, (1, off, instead, inside, int(middle[k]))

    def _otherwise(self, answer: Answer, asked: _Asked) -> Floats:
        """(q,) the errors of the imputers behind the one that answered; NaN where there is none."""
        only, out = np.zeros(asked.gaps.shape, np.bool_), np.full(len(answer.rows), np.nan)
        only[answer.rows, answer.attribute] = True
        for j, rows, imputer, found in self.chain.search(asked.known, only, after=answer.imputer):
            out[np.searchsorted(answer.rows, rows)] = _errors(imputer, j, found, asked.truth[rows])
        return out


def _errors(imputer: Imputer, j: int, found: Distributions, truth: Floats) -> Floats:
    """(q,) how far each distribution lies from its truth."""
    if isinstance(imputer, Constant):  # it may have a hundred thousand values
        return np.array([imputer.crps(j, each) for each in truth.tolist()])
    return np.asarray(crps(found.start, found.size, found.value, found.often, truth))
