"""What does a maintainer promise?

`advance(now, rows)`: everything that has expired leaves, the rows, all of which arrived now, enter, and the answer is
returned: every row of the window with probability above alpha (within 1e-9 of it counts as equal; at alpha 0: every row
that none surely beats). `spent` is what that took: keeping the structure, and working out the answer, apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fogline.arrays import Batch, Floats, Ints
from fogline.model import TOLERANCE, Query


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
    """See the module."""

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
