"""Imputers that know a history and look at the row alone: rules, the row's other attributes, the whole history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.errors import HistoryError
from fogline.impute.protocol import BaseImputer, Evidence, fewer, nothing, spread
from fogline.query import Query
from fogline.repository.history import Column
from fogline.repository.lattice import Lattice
from fogline.repository.others import ByOthers
from fogline.repository.repository import WHOLE, Repository

OTHERS = "other attributes"


class Rules(BaseImputer):
    """Imputes by differential dependencies. Keeps the columns that its rules ask for.

    Rows of the history that are close to a row in all that a combination of rules asks for are its donors; their
    values, with how often each occurs, are the distribution (paper, Algorithm 2). The lattice of an attribute decides
    which combination is tried when.
    """

    name, counts_rows = "rules", True

    def __init__(self, repository: Repository, query: Query) -> None:
        lacking = [name for name in query.names if name not in repository.lattices]
        if lacking:
            raise HistoryError(
                f"the repository was fitted for another query: it imputes {', '.join(sorted(repository.lattices))}, "
                f"not {', '.join(lacking)}."
            )
        self.lattices = [repository.lattices[name] for name in query.names]
        self.columns = _Columns(repository.asked_by_rules, repository.history.columns, query)
        self.width = self.columns.width
        self.asked = [[(name, self.columns.at[name]) for name in each.determinants] for each in self.lattices]

    def look(self, rows: Evidence) -> Floats:
        return self.columns.read(rows)

    def able(self, known: Floats, j: int) -> Flags:
        return self.lattices[j].able(self._determinants(known, j), len(known))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return self.lattices[j].bounds(self._determinants(known, j), len(known))

    def distributions(self, known: Floats, j: int) -> Distributions:
        return self.lattices[j].search(self._determinants(known, j), len(known))

    def sources(self, j: int) -> Sequence[str]:
        """One name per combination of rules."""
        return combinations(self.lattices[j])

    def way(self, j: int) -> str:
        return ", ".join(str(rule) for rule in self.lattices[j].rules)

    def _determinants(self, known: Floats, j: int) -> dict[str, Floats]:
        return {name: known[:, k] for name, k in self.asked[j]}


def combinations(lattice: Lattice) -> list[str]:
    """What each combination of rules is called."""
    return [" and ".join(str(lattice.rules[k]) for k in choice.rules) for choice in lattice.choices]


class Others(BaseImputer):
    """Imputes by trees over the row's other attributes, for attributes that they explain better than rules do.

    Keeps those attributes, and how many the row lacks. Not able where none of them is known. See `repository.others`.
    """

    name = OTHERS

    def __init__(self, learnt: Mapping[str, ByOthers], columns: Mapping[str, Column], query: Query) -> None:
        self.learnt = [learnt.get(name) for name in query.names]
        names = dict.fromkeys(name for each in self.learnt if each is not None for name in each.given)
        self.columns = _Columns(list(names), columns, query)
        self.width = self.columns.width + 1
        self.limits = [query.limits.get(name, (-np.inf, np.inf)) for name in query.names]

    def look(self, rows: Evidence) -> Floats:
        gaps = rows.missing.sum(axis=1).astype(np.float64)
        return np.concatenate((self.columns.read(rows), gaps[:, None]), axis=1)

    def able(self, known: Floats, j: int) -> Flags:
        learnt = self.learnt[j]
        if learnt is None:
            return np.zeros(len(known), np.bool_)
        return np.asarray(~np.isnan(self._given(learnt, known)).all(axis=1))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        low, high = np.full(len(known), np.nan), np.full(len(known), np.nan)
        able, learnt = self.able(known, j), self.learnt[j]
        if learnt is not None and able.any():
            if rough:
                low[able], high[able] = learnt.rough_bounds(*self.limits[j])
            else:
                low[able], high[able] = learnt.bounds(*self._asked(learnt, known[able]), *self.limits[j])
        return low, high

    def distributions(self, known: Floats, j: int) -> Distributions:
        able, learnt = self.able(known, j), self.learnt[j]
        if learnt is None or not able.any():
            return nothing(len(known))
        return spread(learnt.distributions(*self._asked(learnt, known[able]), *self.limits[j]), able)

    def way(self, j: int) -> str:
        learnt = self.learnt[j]
        return "" if learnt is None else f"{self.name} ({', '.join(learnt.given)})"

    def _given(self, learnt: ByOthers, known: Floats) -> Floats:
        return known[:, [self.columns.at[name] for name in learnt.given]]

    def _asked(self, learnt: ByOthers, known: Floats) -> tuple[Floats, Ints]:
        return self._given(learnt, known), known[:, -1].astype(np.int64)


class Constant(BaseImputer):
    """Imputes one distribution per attribute, the same for every row, so nothing is kept of a row.

    `values[j]` are sorted, `often[j]` states how often each occurs. The lowest level of the paper's lattice.
    """

    width, constant = 0, True

    def __init__(self, name: str, values: Sequence[Floats], often: Sequence[Floats]) -> None:
        self.name, self.values, self.often = name, values, often
        self._prefix: dict[int, _Prefix] = {}

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

    def errors(self, j: int, found: Distributions, truth: Floats) -> Floats:
        return np.array([self.crps(j, each) for each in truth.tolist()])  # there may be a hundred thousand values

    def crps(self, j: int, truth: float) -> float:
        """The CRPS of attribute j's distribution for this truth, in O(log values). NaN where there is none."""
        if j not in self._prefix:
            self._prefix[j] = _Prefix(self.values[j], self.often[j])
        return self._prefix[j].crps(truth)


class Whole(Constant):
    """The distribution of each attribute over the whole history, of at most so many values."""

    counts_rows = True

    def __init__(self, values: Sequence[Floats], often: Sequence[Floats], most: int | None = None) -> None:
        lists = [fewer(_one(*each), most) for each in zip(values, often, strict=True)]
        super().__init__("whole history", [each.value for each in lists], [each.often for each in lists])

    def way(self, j: int) -> str:
        return WHOLE


class Mean(Constant):
    """The mean of each attribute over the whole history."""

    def __init__(self, values: Sequence[Floats], often: Sequence[Floats]) -> None:
        weighed = zip(values, often, strict=True)
        means = [np.array([np.average(v, weights=w)]) if len(v) else np.empty(0) for v, w in weighed]
        super().__init__("mean", means, [np.ones(len(each)) for each in means])

    def way(self, j: int) -> str:
        return "its mean in the history"


class _Columns:
    """Reads columns of rows as numbers: attributes as they were decoded, others as the history encodes them."""

    def __init__(self, names: Sequence[str], columns: Mapping[str, Column], query: Query) -> None:
        self.columns, self.width = columns, len(names)
        self.at = {name: k for k, name in enumerate(names)}
        self.attributes = [(k, query.names.index(name)) for name, k in self.at.items() if name in query.attributes]
        self.others = [(k, name) for name, k in self.at.items() if name not in query.attributes]

    def read(self, rows: Evidence) -> Floats:
        """(n, width) the columns of the rows, NaN where missing."""
        out = np.full((len(rows.values), self.width), np.nan)
        for k, j in self.attributes:
            out[:, k] = rows.values[:, j]
        for k, name in self.others:
            if (column := rows.column(name)) is not None:
                out[:, k] = self.columns[name].encode(column)
        return out


class _Prefix:
    """Prefix sums of a distribution: its CRPS for any truth takes one bisection."""

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


def _one(value: Floats, often: Floats) -> Distributions:
    """One distribution."""
    zero = np.zeros(1, np.int64)
    return Distributions(zero, zero + len(value), value, often, zero)
