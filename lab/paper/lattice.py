"""Which rule imputes a missing value, and by what? (Section 3: DDs, conceptual lattice, Algorithm 2; section 5.2.)

A differential dependency X → A_j with radii ε imputes o[A_j] by the values of the samples in R that are within ε of o
in every attribute of X, with their frequencies. Several rules for A_j combine: united determinants, the smaller radius
where they share one. The conceptual lattice holds all combinations, level by level. Algorithm 2 takes the first, from
the highest level down and by rising expected number of samples within a level, that has any sample. On level 0 it is
all of R (the statistics-based method). Imputed values never impute others.

Samples come from the index I_j over U_j, the union of the rules' determinants (`lab/paper/index.py`), whose cell side
the cost model chooses (`lab/paper/cost.py`). Its histograms (`lab/paper/histograms.py`) give an *outline* of the
imputed value at each depth, before any sample is retrieved: bounds, and a distribution for Lemma 2 and Lemma 3.

*As printed*, line 3 of Algorithm 2 estimates the number of samples from histograms: a bucket that Q touches counts,
though no sample of it may lie in Q. Then the chosen rule imputes by nothing, which the paper does not foresee; it is
level 0 here. And outlines take COUNT aggregates of touched buckets as they stand. *Corrected*, line 3 counts, and
outlines hold for whichever of the doubtful samples lie in Q.

Where the paper contradicts itself here: Table 6 breaks its own DD_2 (s_1 and s_2 are within 1 in B and C, and 2 apart
in D). Lines 5-6 of Algorithm 2 are never reached: the node of level 0, the empty set, is within every distance, so line
4 returns it; both mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats
from fogline.query import Rule
from fogline.repository.rules import combine
from lab.case import LabError
from lab.kernels.histograms import gather_buckets
from lab.paper.access import COLUMN, INDEX, Column, Scan
from lab.paper.cost import BETA, UnitCosts, sides
from lab.paper.histograms import Histograms
from lab.paper.index import Index
from lab.paper.objects import Cell, Imputed, Incomplete

RANKED = 2_000  # samples of R on which the expected number of samples is taken
INTERVALS = 4  # λ
HISTOGRAMS, BOUNDS, NOTHING = "histograms", "bounds", "nothing"


@dataclass(frozen=True, slots=True)
class LatticeNode:
    """A combined rule Y → A_j."""

    level: int  # how many rules
    given: Mapping[int, float]  # column -> ε; nothing on level 0
    cost: float  # expected number of samples


class Outline(NamedTuple):
    """What the index knows of a missing value at some depth."""

    low: float
    high: float
    ceiling: Cell  # a distribution that is nowhere below the imputed one: Pr{A > v} is at most what it is here


class Lattice:
    """Lat_j with its index I_j."""

    def __init__(
        self,
        R: Floats,
        then: int,
        rules: Sequence[Mapping[int, float]],
        *,
        corrected: bool = True,
        units: UnitCosts | None = None,
        intervals: int = INTERVALS,
        access: str = INDEX,
        beta: float = BETA,
    ) -> None:
        """R (n, d); `rules`: the determinants of each rule, column -> ε. `access`: the paper's index, or without."""
        self.then, self.corrected, self.intervals = then, corrected, intervals
        self.everything = Cell.of(R[:, then])  # level 0
        self.misled = 0  # how often an estimate promised samples that are not there
        self.columns = tuple(sorted({j for each in rules for j in each}))  # U_j
        self.nodes: list[LatticeNode] = []
        if not self.columns:
            return
        points = np.ascontiguousarray(R[:, self.columns])
        asked = np.array([[each.get(j, np.inf) for j in self.columns] for each in rules])
        self.histograms: Histograms | None = None
        if access == INDEX:
            self.side = sides(points, asked, units=units, printed=not corrected, beta=beta)
            self.index: Index | Scan = Index.build(points, R[:, then], self.side)
            self.histograms = Histograms.of(self.index, intervals)
        else:
            self.index = (Column if access == COLUMN else Scan)(points, R[:, then])
        self._rank(R, rules)

    def _rank(self, R: Floats, rules: Sequence[Mapping[int, float]]) -> None:
        """Levels l to 1, each by rising cost: the mean number of samples around a sample."""
        some = R[np.linspace(0, len(R) - 1, min(len(R), RANKED)).astype(int)]
        for level in range(len(rules), 0, -1):
            for chosen in combinations(range(len(rules)), level):
                given: dict[int, float] = {}
                for k in chosen:
                    for j, eps in rules[k].items():
                        given[j] = min(eps, given.get(j, eps))
                node = LatticeNode(level, given, 0.0)
                cost = float(self.index.count(self._centres(node, some), self._radii(node)).mean())
                self.nodes.append(LatticeNode(level, given, cost))
        self.nodes.sort(key=lambda each: (-each.level, each.cost))

    def append(self, more: Floats) -> None:
        """More complete objects for R (section 5.2, updates of I_j): inserted one by one, histograms made anew.

        The ranks of the lattice stay as they are.
        """
        old = self.everything
        counts = np.concatenate((np.round(old.weights * self.samples), np.ones(len(more))))
        self.everything = Cell.of(np.concatenate((old.values, more[:, self.then])), counts)
        if self.columns:
            assert isinstance(self.index, Index)
            self.index.append(more[:, self.columns], more[:, self.then])
            self.histograms = Histograms.of(self.index, self.intervals)

    @property
    def samples(self) -> int:
        """|R|, as far as it is indexed."""
        if not self.columns:
            return len(self.everything.values)
        return self.index.rows if isinstance(self.index, Index) else len(self.index.then)

    @property
    def height(self) -> int:
        """How deep outlines go."""
        return self.index.height if self.columns and isinstance(self.index, Index) else 0

    # ------------------------------------------------------------------------------------------------------ Algorithm 2

    def select(self, values: Floats) -> LatticeNode | None:
        """Algorithm 2: the best combined rule for an object's values (d,), NaN = missing. None: level 0."""
        for node in self.nodes:  # lines 1-2
            if not any(np.isnan(values[j]) for j in node.given) and self._samples(node, values):  # line 3
                return node  # line 4
        return None  # lines 5-6

    def _samples(self, node: LatticeNode, values: Floats) -> int:
        """How many samples are within the radii: as printed an estimate from the histograms, corrected a count."""
        if self.corrected or self.histograms is None:
            return int(self.index.count(self._centres(node, values[None]), self._radii(node))[0])
        return int(self._buckets(node, values, self.height)[2].sum())

    def impute(self, node: LatticeNode | None, values: Floats) -> Cell:
        """The imputed values of A_j with their frequencies (section 3.2)."""
        if node is None:
            return self.everything
        found = self.index.find(self._centres(node, values[None]), self._radii(node))[1]
        if not len(found):
            self.misled += 1
        return Cell.of(found) if len(found) else self.everything

    # ------------------------------------------------------------------------------------------------ through the index

    def outline(self, node: LatticeNode | None, values: Floats, depth: int) -> Outline:
        """What the histograms `depth` levels below the root state about the imputed value (object pruning, 5.2)."""
        if node is None:
            cell = self.everything
            return Outline(float(cell.values[0]), float(cell.values[-1]), cell)
        low, high, count, sure = self._buckets(node, values, depth)
        if not len(low):  # only as printed, where the estimate was made at another depth
            return self.outline(None, values, depth)
        return Outline(float(low.min()), float(high.max()), _ceiling(high, count, sure | (not self.corrected)))

    def bounds(self, node: LatticeNode | None, values: Floats) -> Outline:
        """The least and the greatest sample, with nothing else known: what production looks at first."""
        if node is None:
            return self.outline(None, values, 0)
        low, high = self.index.bounds(self._centres(node, values[None]), self._radii(node))
        return Outline(float(low[0]), float(high[0]), Cell.of(high[0]))

    def _buckets(self, node: LatticeNode, values: Floats, depth: int) -> tuple[Floats, Floats, Floats, Flags]:
        """Of the buckets that Q touches: low, high, COUNT, and whether they surely lie in Q."""
        assert isinstance(self.index, Index)
        assert self.histograms is not None
        nodes, _, root = self.index.tree()
        target = max(self.height - depth, 0)
        asked = self.index.asked(self._centres(node, values[None]), self._radii(node))
        found: tuple[Floats, Floats, Floats, Flags] = gather_buckets(
            nodes, root, self.histograms.buckets, target, *asked
        )
        return found

    def _centres(self, node: LatticeNode, values: Floats) -> Floats:
        """(q, k) the middle of the query range Q; NaN is the wildcard *."""
        out = np.full((len(values), len(self.columns)), np.nan)
        for at, j in enumerate(self.columns):
            if j in node.given:
                out[:, at] = values[:, j]
        return out

    def _radii(self, node: LatticeNode) -> Floats:
        return np.array([node.given.get(j, 0.0) for j in self.columns])


def _ceiling(high: Floats, count: Floats, sure: Flags) -> Cell:
    """The greatest distribution among those of any samples that hold all sure ones and any part of the others.

    Pr{A > v} <= U / (F + U), where U counts all samples in buckets that reach beyond v, F the sure ones in buckets that
    do not.
    """
    order = np.argsort(high)
    high, count, sure = high[order], count[order], np.where(sure[order], count[order], 0)
    beyond = count[::-1].cumsum()[::-1] - count  # in buckets after this one, by rising high
    last = np.append(high[1:] != high[:-1], True)
    values, beyond, within = high[last], beyond[last], sure.cumsum()[last]
    above = np.where(beyond > 0, beyond / np.maximum(beyond + within, 1), 0.0)
    weights = np.append(1.0, above[:-1]) - above
    return Cell.of(values[weights > 0], weights[weights > 0])


class DataRepository:
    """R with a lattice and an index per attribute (line 1 of Algorithm 1)."""

    def __init__(
        self,
        R: Floats,
        names: Sequence[str],
        rules: Iterable[Rule],
        *,
        corrected: bool = True,
        units: UnitCosts | None = None,
        access: str = INDEX,
        beta: float = BETA,
    ) -> None:
        """R (n, d), complete, larger is better; rules over these names."""
        column = {name: j for j, name in enumerate(names)}
        by_then: dict[int, list[Mapping[int, float]]] = {j: [] for j in range(len(names))}
        for rule in rules:
            if unknown := {*rule.given, rule.then} - {*column}:
                raise LabError(f"the rule '{rule}' speaks of {', '.join(sorted(unknown))}; R has {', '.join(names)}.")
            by_then[column[rule.then]].append({column[name]: eps for name, eps in combine([rule]).items()})
        self.lattices = {
            j: Lattice(R, j, given, corrected=corrected, units=units, access=access, beta=beta)
            for j, given in by_then.items()
        }

    def select(self, o: Incomplete) -> dict[int, LatticeNode | None]:
        """Algorithm 2 for each missing attribute."""
        return {j: self.lattices[j].select(o.values) for j in np.flatnonzero(np.isnan(o.values)).tolist()}

    def impute(self, o: Incomplete, chosen: Mapping[int, LatticeNode | None]) -> Imputed:
        """o_i^p."""
        cells = [
            self.lattices[j].impute(chosen[j], o.values) if j in chosen else Cell.of(x) for j, x in enumerate(o.values)
        ]
        return Imputed.of(o.id, o.arrives, o.expires, cells)

    def outlines(
        self, o: Incomplete, chosen: Mapping[int, LatticeNode | None], first: str = HISTOGRAMS
    ) -> Iterable[Imputed]:
        """o_i^p as the index knows it, depth by depth: an object that is nowhere worse, in an MBR that holds it.

        `first` is what is looked at before samples are retrieved: histograms as in the paper, exact bounds, or nothing.
        """
        known = [Cell.of(x) for x in o.values]
        depths = {HISTOGRAMS: 1 + max(self.lattices[j].height for j in chosen), BOUNDS: 1, NOTHING: 0}
        for depth in range(depths[first]):
            low, high, cells = o.values.copy(), o.values.copy(), list(known)
            for j, node in chosen.items():
                lattice = self.lattices[j]
                found = lattice.bounds(node, o.values) if first == BOUNDS else lattice.outline(node, o.values, depth)
                low[j], high[j], cells[j] = found
            yield Imputed(o.id, o.arrives, o.expires, cells, low, high)
