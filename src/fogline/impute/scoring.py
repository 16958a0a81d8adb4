"""How good are imputed values, on the stream itself?

Of one row in a hundred or so, one known value is hidden, imputed as if it were missing, and held against the truth: how
far the distribution lies from it (CRPS, in the attribute's own unit), whether the truth lies between its ends, and in
its central 80 %, and how far off the imputers behind the one that answered would be. Which cells may be hidden depends
on the rows alone (of those that come at once only the first few are), and no answer depends on it.

Gaps are not all of one kind: the longer an attribute has been silent, the less is known of it. So for every second of
these values up to four before it are hidden as well, every other time also what the sensor's other attributes have read
since then; and of the values that end a real silence (8 times as long as is usual) one in eight is hidden, after a long
one (64 times) every one. Scores are kept by the age of the last value that an imputer could see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fogline.arrays import Distributions, Flags, Floats
from fogline.impute.ages import Age, step_of
from fogline.impute.chain import Answer, Chain
from fogline.impute.imputer import Evidence, Imputer
from fogline.impute.scores import Sum, Sums
from fogline.impute.whole import Constant
from fogline.kernels.crps import central, crps
from fogline.kernels.hiding import Trials, hidden
from fogline.repository.sensors.hiding import Hidden, Hiding

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
