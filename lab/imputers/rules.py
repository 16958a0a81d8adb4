"""How do differential dependencies fill gaps, as printed and as favourably as possible?

`DD` is the paper's: Fogline's own repository and search, but eager. Each incomplete row gets its whole distribution as
it comes, surely beaten or not. Donors are found by bisection in sorted columns or through the index, for all rows of a
tick in one compiled call.

`Nearby` is the most favourable reading of the paper. A rule's radius is not printed, it is chosen: for each attribute
so that a gap gets as many values (the paper's instances) as asked, on average. Donors are the rows of R within that
radius in every determinant, on scaled attributes. A gap without any gets the nearest row's value, never the whole of R.
Radii are tuned on the stream's own gaps, so it is of no use on a real stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.spatial import cKDTree

from fogline.arrays import Distributions, Floats, Ints
from fogline.impute.protocol import Eager, Evidence, fewer
from fogline.kernels.score import crps
from fogline.kernels.uncertain import distinct
from fogline.query import Query
from fogline.repository import VALUES
from fogline.repository.repository import Repository
from fogline.repository.rules import as_rules
from lab.case import Case, matrix
from lab.imputers.fittable import evidence_of, fit_once, gathered
from lab.paper.access import SCAN
from lab.paper.lattice import DataRepository


class DD(Eager):
    """Rules given or discovered: by the paper's method from attributes alone, or as Fogline does, with context.

    In a race like is held against like: distributions have at most as many values as Fogline's; `values` None: the
    paper's literal form, every donor's value.
    """

    def __init__(
        self,
        rules: Iterable[str] | None = None,
        *,
        method: str = "paper",
        context: bool = False,
        values: int | None = VALUES,
    ) -> None:
        kind = "DD" if values is not None else "DD-literal"
        super().__init__("DD-context" if context else kind if method == "paper" else f"DD-{method}")
        self.rules, self.method, self.context, self.values = rules, method, context, values

    def fit(self, history: pa.Table, query: Query) -> None:
        self.query = query
        known = history if self.context else history.select(list(query.names))
        if self.context and self.rules is None and self.method == "held-out":  # the only one that takes seconds
            self.repository = fit_once(known, query)
        else:
            self.repository = Repository.fit(known, query, rules=self.rules, method=self.method, values=self.values)
        self.repository = replace(self.repository, others={})  # rules alone

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        parts = []
        for j, name in enumerate(self.query.names):
            which = np.flatnonzero(rows.missing[:, j])
            if len(which):
                asked = self.repository.lattices[name].determinants
                centres = {given: self._values(rows, given)[which] for given in asked}
                found = self.repository.search(name, centres, len(which))
                parts.append((j, which, fewer(found, self.values)))
        return gathered(len(rows.values), parts)

    def _values(self, rows: Evidence, name: str) -> Floats:
        """(n,) a determinant, in the repository's terms."""
        if name in self.query.attributes:
            return rows.values[:, self.query.names.index(name)]
        return self.repository.history.columns[name].encode(rows.column(name))


class ScannedDD(DD):
    """The same rules, but every gap looks at all rows of R: what imputing by DDs is without an index."""

    def fit(self, history: pa.Table, query: Query) -> None:
        super().fit(history, query)
        self.name = "DD-scan"
        rules = as_rules(self.rules) if self.rules is not None else self.repository.rules
        self.scanned = DataRepository(matrix(history, query.names), query.names, rules, access=SCAN)

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        parts = []
        for j in range(len(self.query.names)):
            which = np.flatnonzero(rows.missing[:, j])
            if len(which):
                lattice = self.scanned.lattices[j]
                cells = [lattice.impute(lattice.select(rows.values[i]), rows.values[i]) for i in which]
                size = np.array([len(cell.values) for cell in cells])
                value, often = (np.concatenate([cell[part] for cell in cells]) for part in (0, 1))
                found = Distributions(np.cumsum(size) - size, size, value, often, np.zeros(len(which), np.int64))
                parts.append((j, which, fewer(found, self.values)))
        return gathered(len(rows.values), parts)


# ------------------------------------------------------------------------------------------ the most favourable reading


ASKED = 400  # gaps of an attribute on which a radius is tuned
COUNTED = 2_000  # rows on which values are counted
HALVINGS = 12
MORE = 1.05  # times as many values as asked, and it is not what was asked


class Donors:
    """The rows of R by some of their attributes."""

    def __init__(self, past: Floats, given: tuple[int, ...], then: int) -> None:
        self.given = given
        order = np.argsort(past[:, given[0]], kind="stable")
        self.points, self.then = past[order][:, list(given)], past[order, then]
        self.tree = cKDTree(self.points) if len(given) > 1 else None

    def find(self, centres: Floats, radius: float) -> Distributions:
        """The values of the rows within the radius of each centre (q, d); of the nearest where there are none."""
        asked = np.ascontiguousarray(centres[:, list(self.given)])
        offsets, rows = self._within(asked, radius) if self.tree is None else self._balls(self.tree, asked, radius)
        values = self.then[rows]
        for a, b in pairwise(offsets.tolist()):
            values[a:b].sort()
        start, size, value, often = distinct(offsets, values)
        return Distributions(start, size, value, often, np.zeros(len(asked), np.int64))

    def _within(self, asked: Floats, radius: float) -> tuple[Ints, Ints]:
        """Offsets (q + 1,) and rows, by a single determinant."""
        line, at = self.points[:, 0], asked[:, 0]
        after = np.clip(np.searchsorted(line, at), 1, len(line) - 1)
        apart = np.maximum(radius, np.minimum(np.abs(at - line[after - 1]), np.abs(line[after] - at)))
        first, last = np.searchsorted(line, at - apart, "left"), np.searchsorted(line, at + apart, "right")
        size = np.maximum(last - first, 1)  # rounding may leave out the nearest
        offsets = np.concatenate(([0], np.cumsum(size)))
        first = np.minimum(first, len(line) - 1)
        return offsets, np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], size)

    def _balls(self, tree: Any, asked: Floats, radius: float) -> tuple[Ints, Ints]:
        """The same, by several: boxes around the centres."""
        found = tree.query_ball_point(asked, radius, p=np.inf, return_sorted=False)
        size = np.array([len(each) for each in found], np.int64)
        none = np.flatnonzero(size == 0)
        if len(none):
            for k, row in zip(none.tolist(), tree.query(asked[none], p=np.inf)[1].tolist(), strict=True):
                found[k], size[k] = [row], 1
        return np.concatenate(([0], np.cumsum(size))), np.concatenate([np.asarray(each, np.int64) for each in found])

    def tuned(self, centres: Floats, instances: float) -> float:
        """The radius with which a gap has so many values on average, or 0 if it has more even then."""
        low, high = 0.0, 1e-4
        while high < 20 and self.find(centres, high).size.mean() < instances:
            low, high = high, 4 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.find(centres, middle).size.mean() < instances else (low, middle)
        return low


@dataclass(frozen=True)
class NearbyRule:
    """Which rows of R impute an attribute, and how near they must be."""

    donors: Donors
    radius: float
    many: bool  # whether gaps get more values than asked, though only the nearest rows are taken
    error: float  # mean CRPS on the gaps it was tuned on

    @property
    def rank(self) -> tuple[bool, float]:
        """Less is better."""
        return self.many, self.error


class Nearby(Eager):
    """One rule per attribute. `given`: the determinants of each; None: chosen with the truth in view."""

    def __init__(self, case: Case, instances: float, given: Mapping[int, tuple[int, ...]] | None) -> None:
        super().__init__("nearby")
        self.rules: dict[int, NearbyRule] = {}
        past, values = matrix(case.history, case.query.names), matrix(case.rows, case.query.names)
        for j in range(values.shape[1]):
            rows = _some(np.flatnonzero(case.gaps[:, j] & case.certain))
            if not len(rows):
                continue
            asked = values[rows], case.truth[rows, j], instances
            others = tuple(k for k in range(values.shape[1]) if k != j)
            self.rules[j] = _rule(past, given[j], j, *asked) if given else _chosen(past, others, j, *asked)

    def fit(self, history: pa.Table, query: Query) -> None:
        """Done already: it is made for a case."""

    def impute(self, rows: Evidence) -> dict[int, Distributions]:
        parts = []
        for j, rule in self.rules.items():
            which = np.flatnonzero(rows.missing[:, j])
            if len(which):
                parts.append((j, which, rule.donors.find(rows.values[which], rule.radius)))
        return gathered(len(rows.values), parts)


def _some(rows: Ints, most: int = ASKED) -> Ints:
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _rule(past: Floats, given: tuple[int, ...], j: int, centres: Floats, truth: Floats, instances: float) -> NearbyRule:
    donors = Donors(past, given, j)
    radius = donors.tuned(centres, instances)
    found = donors.find(centres, radius)
    many = bool(found.size.mean() > MORE * instances)
    return NearbyRule(donors, radius, many, float(np.mean(crps(*found[:4], truth))))


def _chosen(
    past: Floats, others: tuple[int, ...], j: int, centres: Floats, truth: Floats, instances: float
) -> NearbyRule:
    """The determinants that impute these very gaps best, added one by one; or all of them, if that is better still."""
    best = _rule(past, others, j, centres, truth, instances)
    grown: NearbyRule | None = None
    while grown is None or len(grown.donors.given) < len(others):
        given = () if grown is None else grown.donors.given
        tried = [_rule(past, (*given, k), j, centres, truth, instances) for k in others if k not in given]
        found = min(tried, key=lambda each: each.rank)
        if grown is not None and found.rank >= grown.rank:
            break
        grown, best = found, min(best, found, key=lambda each: each.rank)
    return best


def instances_of(imputing: Eager, case: Case) -> float:
    """How many values a gap of the stream gets, on average over some of its rows."""
    some = _some(np.flatnonzero(case.incomplete), COUNTED)
    rows = evidence_of(case.rows.take(pa.array(some)), case.query.names)
    known = imputing.look(rows)
    size = [imputing.distributions(known, j).size[rows.missing[:, j]] for j in range(rows.values.shape[1])]
    return float(np.concatenate(size).mean())
