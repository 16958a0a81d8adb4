"""How good are imputed values, on the stream itself?

Of about one row in 128 one known value is hidden for a moment, imputed as if it were missing, and compared with the
truth: how far the distribution lies from it (CRPS, in the attribute's own unit), whether the truth lies between its
ends and in its central 80 %, and how far off the imputers after the one that answered would be. The rows alone decide
which values may be hidden (of a call, the first 20 are), and no answer depends on it.

The longer an attribute has been silent, the less is known of it. So for every second of these values up to four values
before it are hidden as well, every other time also what the sensor's other attributes have read since. Of the values
that end a real silence (8 times as long as usual) one in eight is hidden, and after a long one (64 times) each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags, Floats
from fogline.impute.chain import Chain, FilledCells
from fogline.impute.protocol import Evidence, ends, with_defaults
from fogline.impute.scores import Age, Sum, Sums, step_of
from fogline.kernels.score import central
from fogline.kernels.sensors import Trials, hidden
from fogline.repository.sensors.gaps import Hidden, Hiding

SHARE, AFTER_SILENCE = 128, 8  # of so many rows one, and of so many that end a silence one, has a value hidden
MOST_HIDDEN = 20  # hidden values of one call: more hardly change scores
CENTRAL = 0.8  # the share of a distribution that is central


def chosen(time: Floats, values: Floats) -> Trials:
    """Which values may be hidden; values (n, d), NaN = missing."""
    found: Trials = hidden(np.ascontiguousarray(time), np.ascontiguousarray(values), SHARE, AFTER_SILENCE)
    return found


class Scorer:
    """Keeps score for one chain: `hiding` before rows pass their sensors, `score` after."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def hiding(self, time: Floats, values: Floats) -> Hiding:
        """Which values of these rows may be hidden. Where sensors are remembered, their state decides which are."""
        return Hiding(chosen(time, values), MOST_HIDDEN, self.chain.in_state)

    def score(self, rows: Evidence, these: Hidden, kind: pa.DataType | None) -> list[tuple[int, Sums]]:
        """Impute the hidden values: of each its row, and what it adds to the sums. `kind`: of the clock."""
        if not len(these.row):
            return []
        each, some = np.arange(len(these.row)), replace(rows.part(these.row), context=these.context)
        truth, gaps = some.values[each, these.attribute], np.zeros(some.values.shape, np.bool_)
        gaps[each, these.attribute] = True
        known = self.chain.evidence(some.hiding(these.attribute))
        ages, out = self._ages(these, kind), []
        for answer in self.chain.search(known, gaps):
            j, which, imputer, found = answer
            true, (low, high) = truth[which], ends(found)
            error = with_defaults(imputer).errors(j, found, true)
            otherwise = self._otherwise(answer, known, truth)
            otherwise = np.where(np.isnan(otherwise), error, otherwise)
            inside = (low <= true) & (true <= high)
            middle = central(found.start, found.size, found.value, found.often, true, CENTRAL)
            name, rules = self.chain.query.names[j], imputer.sources(j)
            for k, m in enumerate(which.tolist()):
                off, alone = float(error[k]), int(these.single[m])
                one = Sum(1, off, float(otherwise[k]), int(inside[k]), int(middle[k]), alone, alone * off)
                out.append((int(these.row[m]), {(name, rules[found.source[k]], ages[m]): one}))
        return out

    def _ages(self, these: Hidden, kind: pa.DataType | None) -> list[Age]:
        """How old the last visible value of each hidden one's attribute is, in steps."""
        age, stamps = np.full(len(these.row), np.nan), kind is not None and pa.types.is_timestamp(kind)
        if these.context is not None and self.chain.sensors is not None:
            for j, name in enumerate(self.chain.query.names):
                which = these.attribute == j
                age[which] = self.chain.sensors.age(name, these.context[which])
        return [step_of(each, stamps=stamps) for each in age.tolist()]

    def _otherwise(self, answer: FilledCells, known: Floats, truth: Floats) -> Floats:
        """(q,) the errors of the imputers after the one that answered; NaN where there is none."""
        gaps: Flags = np.zeros((len(known), len(self.chain.query.names)), np.bool_)
        gaps[answer.rows, answer.attribute] = True
        out = np.full(len(answer.rows), np.nan)
        for j, rows, imputer, found in self.chain.search(known, gaps, after=answer.imputer):
            out[np.searchsorted(answer.rows, rows)] = with_defaults(imputer).errors(j, found, truth[rows])
        return out
