"""What may a missing cell be if nothing else is known? What the attribute has ever been (`Whole`), or on average
(`Mean`).

The lowest level of the paper's lattice. Every row gets the same distribution, so nothing is kept of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fogline.arrays import Distributions, Flags, Floats
from fogline.impute.fewer import fewer
from fogline.impute.imputer import Evidence, nothing


class Constant:
    """One distribution per attribute, for every row: sorted values, and how often each occurs."""

    width, lasting = 0, True

    def __init__(self, name: str, values: Sequence[Floats], often: Sequence[Floats]) -> None:
        self.name, self.values, self.often = name, values, often
        self.prefix: dict[int, _Prefix] = {}

    def look(self, rows: Evidence) -> Floats:
        return np.empty((len(rows.values), 0))

    def able(self, known: Floats, j: int) -> Flags:
        return np.full(len(known), len(self.values[j]) > 0)

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        ends = self.values[j] if len(self.values[j]) else np.full(1, np.nan)
        return np.full(len(known), ends[0]), np.full(len(known), ends[-1])

    def distributions(self, known: Floats, j: int) -> Distributions:
        if not len(self.values[j]):
            return nothing(len(known))
        zeros = np.zeros(len(known), np.int64)
        return Distributions(zeros, zeros + len(self.values[j]), self.values[j], self.often[j], zeros)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def crps(self, j: int, truth: float) -> float:
        """How far the distribution of attribute j lies from the truth, in O(log values). NaN where there is none."""
        if j not in self.prefix:
            self.prefix[j] = _Prefix(self.values[j], self.often[j])
        return self.prefix[j].crps(truth)


class Whole(Constant):
    """The distribution of each attribute over the whole history, in at most so many values."""

    def __init__(self, values: Sequence[Floats], often: Sequence[Floats], most: int | None = None) -> None:
        lists = [fewer(_one(*each), most) for each in zip(values, often, strict=True)]
        super().__init__("whole history", [each.value for each in lists], [each.often for each in lists])


class Mean(Constant):
    """The mean of each attribute over the whole history."""

    def __init__(self, values: Sequence[Floats], often: Sequence[Floats]) -> None:
        weighed = zip(values, often, strict=True)
        means = [np.array([np.average(v, weights=w)]) if len(v) else np.empty(0) for v, w in weighed]
        super().__init__("mean", means, [np.ones(len(each)) for each in means])


def _one(value: Floats, often: Floats) -> Distributions:
    """One distribution."""
    zero = np.zeros(1, np.int64)
    return Distributions(zero, zero + len(value), value, often, zero)


class _Prefix:
    """Sums over the values below each value: the score of any truth by one bisection."""

    def __init__(self, value: Floats, often: Floats) -> None:
        weight = often / often.sum() if len(often) else often
        self.value = value
        self.below = np.concatenate(([0.0], np.cumsum(weight)))
        self.sums = np.concatenate(([0.0], np.cumsum(weight * value)))
        self.among = float(np.sum(weight * value * (self.below[1:] + self.below[:-1] - 1)))

    def crps(self, truth: float) -> float:
        if not len(self.value):
            return float("nan")
        k = int(np.searchsorted(self.value, truth))
        off = truth * (2 * self.below[k] - 1) + self.sums[-1] - 2 * self.sums[k]
        return float(off) - self.among
