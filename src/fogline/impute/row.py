"""How does a distribution of very many values become one of few?

By rounding its distribution function: see `kernels.distributions.reduced`. The least and the greatest value stay, with
their own weight, so bounds are what they were. What a cell costs, in time and in state, does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fogline.arrays import Distributions, Flags, Floats, Ints
from fogline.errors import HistoryError
from fogline.impute.protocol import Determinants, Evidence, ends, listed, nothing, spread
from fogline.kernels.uncertain import reduced
from fogline.query import Query
from fogline.repository.history import Column, read_history
from fogline.repository.lattice import Lattice
from fogline.repository.others import ByOthers
from fogline.repository.repository import Repository


def fewer(found: Distributions, most: int | None) -> Distributions:
    """The distributions, each of at most so many values; None: as they are."""
    if most is None or not len(found.size) or int(found.size.max()) <= most:
        return found
    start, size, value, often = reduced(found, most)
    return found._replace(start=start, size=size, value=value, often=often)


# --- rules ---
# What may a missing cell be, by rules and the other cells of its row?
#
# Rows of the history that are close in what a combination of rules asks for are donors; the values they hold, with
# how
# often each occurs, are the distribution (paper, Algorithm 2). Which combination is tried when is the lattice's
# matter.


class Rules:
    """The lattices of a repository. Keeps what its rules ask for: the determinants of a row, in history's terms."""

    name, lasting = "rules", True

    def __init__(self, repository: Repository, query: Query) -> None:
        lacking = [name for name in query.names if name not in repository.lattices]
        if lacking:
            raise HistoryError(
                f"the repository was fitted for another query: it imputes {', '.join(sorted(repository.lattices))}, "
                f"not {', '.join(lacking)}."
            )
        self.lattices = [repository.lattices[name] for name in query.names]
        self.row = Determinants(repository.asked_by_rules, repository.history.columns, query)
        self.width, at = self.row.width, self.row.at
        self.asked = [[(name, at[name]) for name in each.determinants] for each in self.lattices]

    def look(self, rows: Evidence) -> Floats:
        return self.row.look(rows)

    def able(self, known: Floats, j: int) -> Flags:
        return self.lattices[j].able(self._centres(known, j), len(known))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return self.lattices[j].bounds(self._centres(known, j), len(known))

    def distributions(self, known: Floats, j: int) -> Distributions:
        return self.lattices[j].search(self._centres(known, j), len(known))

    def sources(self, j: int) -> Sequence[str]:
        """One text per combination of rules."""
        return combinations(self.lattices[j])

    def _centres(self, known: Floats, j: int) -> dict[str, Floats]:
        return {name: known[:, k] for name, k in self.asked[j]}


def combinations(lattice: Lattice) -> list[str]:
    """What each combination of rules is called."""
    return [" and ".join(str(lattice.rules[k]) for k in choice.rules) for choice in lattice.choices]


# --- others ---
# What may a missing cell be, by the other attributes of its row?
#
# What trees over them have learnt (`repository/others.py`), for attributes that they explain better than rules do. A
# row
# of which no other attribute is known is left to the next imputer.

OTHERS = "other attributes"


class Others:
    """Keeps the determinants of a row, in history's terms, and how many attributes it lacks."""

    name, lasting = OTHERS, True

    def __init__(self, learnt: Mapping[str, ByOthers], columns: Mapping[str, Column], query: Query) -> None:
        self.learnt = [learnt.get(name) for name in query.names]
        names = dict.fromkeys(name for each in self.learnt if each is not None for name in each.given)
        self.asked = Determinants(list(names), columns, query)
        self.width = self.asked.width + 1
        self.limits = [query.limits.get(name, (-np.inf, np.inf)) for name in query.names]

    def look(self, rows: Evidence) -> Floats:
        gaps = rows.missing.sum(axis=1).astype(np.float64)
        return np.concatenate((self.asked.look(rows), gaps[:, None]), axis=1)

    def able(self, known: Floats, j: int) -> Flags:
        if self.learnt[j] is None:
            return np.zeros(len(known), np.bool_)
        return np.asarray(~np.isnan(self._given(known, j)).all(axis=1))

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        low, high = np.full(len(known), np.nan), np.full(len(known), np.nan)
        able, learnt = self.able(known, j), self.learnt[j]
        if learnt is not None and able.any():
            rows = known[able]
            low[able], high[able] = (
                learnt.rough_bounds(*self.limits[j])
                if rough
                else learnt.bounds(self._given(rows, j), _gaps(rows), *self.limits[j])
            )
        return low, high

    def distributions(self, known: Floats, j: int) -> Distributions:
        able, learnt = self.able(known, j), self.learnt[j]
        if learnt is None or not able.any():
            return nothing(len(known))
        rows = known[able]
        return spread(learnt.distributions(self._given(rows, j), _gaps(rows), *self.limits[j]), able)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)

    def _given(self, known: Floats, j: int) -> Floats:
        learnt = self.learnt[j]
        assert learnt is not None
        return known[:, [self.asked.at[name] for name in learnt.given]]


def _gaps(known: Floats) -> Ints:
    return known[:, -1].astype(np.int64)


# --- knn ---
# Which values do the nearest rows of history hold?
#
# >>> import pyarrow as pa
# >>> from fogline import Monitor, Query
# >>> query = Query(attributes={"gas": "max", "oxygen": "min"}, id="sensor", time="t", lifetime=10)
# >>> history = pa.table({"gas": [0.0, 10.0, 10.0, 10.0], "oxygen": [19.0, 19.1, 18.9, 19.2]})
# >>> monitor = Monitor(query, imputer=knn(history, query, k=4))
# >>> rows = [{"sensor": "a", "t": 1, "gas": 5, "oxygen": 19}, {"sensor": "b", "t": 1, "gas": None, "oxygen": 19}]
# >>> monitor.advance(1, rows).column("probability").to_pylist()
# [0.75]
#
# Useful for: histories without sensors and times whose attributes move together. Not useful for: many rows a second,
# it
# looks at all of the history (or 20,000 rows of it) for each.

MOST, SEED = 20_000, 13


def knn(history: Any, query: Query, k: int = 10) -> Neighbours:
    """The values of the `k` rows of history that are nearest in all attributes a row has, each scaled by its spread."""
    if not isinstance(k, int) or k < 1:
        raise HistoryError(f"k is {k!r}; it counts neighbours, from 1 on.")
    columns = read_history(history, query).columns
    values = np.stack([columns[name].values for name in query.names], axis=1)
    values = values[~np.isnan(values).any(axis=1)]
    if len(values) < k:
        raise HistoryError(f"the history has {len(values)} complete rows, too few for {k} neighbours.")
    if len(values) > MOST:
        values = values[np.sort(np.random.default_rng(SEED).choice(len(values), MOST, replace=False))]
    return Neighbours(values, k)


class Neighbours:
    """See `knn`. Keeps the attributes a row has. O(history · attributes) per row."""

    lasting = True

    def __init__(self, values: Floats, k: int) -> None:
        spread = values.std(axis=0)
        self.values, self.spread, self.k = values, np.where(spread > 0, spread, 1.0), k
        self.name, self.width = f"{k} nearest neighbours", values.shape[1]

    def look(self, rows: Evidence) -> Floats:
        return rows.values

    def able(self, known: Floats, j: int) -> Flags:
        return np.ones(len(known), np.bool_)

    def bounds(self, known: Floats, j: int, *, rough: bool = False) -> tuple[Floats, Floats]:
        return ends(self.distributions(known, j))

    def distributions(self, known: Floats, j: int) -> Distributions:
        out = np.empty((len(known), self.k))
        for i, row in enumerate(known):
            far = np.nansum(((self.values - row) / self.spread) ** 2, axis=1)
            out[i] = self.values[np.argpartition(far, self.k - 1)[: self.k], j]
        return listed(out)

    def sources(self, j: int) -> Sequence[str]:
        return (self.name,)


# --- whole ---
# What may a missing cell be if nothing else is known? What the attribute has ever been (`Whole`), or on average
# (`Mean`).
#
# The lowest level of the paper's lattice. Every row gets the same distribution, so nothing is kept of a row.


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
