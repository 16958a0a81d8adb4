"""What imputers make of rows: they look at those with gaps once, give bounds, and distributions when these are needed.

What they keep of a row (`known`) travels with it. Which rows count is decided elsewhere: see `fogline.intake.take`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import BOUNDS_ONLY, Flags, Floats, Ints, UncertainRows
from fogline.impute.chain import Chain
from fogline.impute.protocol import Evidence
from fogline.query import NO_REPOSITORY, NO_VALUE, Query
from fogline.repository.repository import Repository
from fogline.rows.reader import Decoded


class ImputedRows(NamedTuple):
    """Rows that imputers have looked at, then bounded or filled. Cells that they have yet to, or cannot, are NaN."""

    uncertain: UncertainRows  # n rows
    lacking: Ints  # (m,) those with gaps
    known: Floats  # (m, width) what imputers keep of these

    def part(self, which: Ints) -> ImputedRows:
        """Some of the rows."""
        number = np.full(len(self.uncertain.lo), -1)
        number[self.lacking] = np.arange(len(self.lacking))
        found = number[which]
        return ImputedRows(self.uncertain.part(which), np.flatnonzero(found >= 0), self.known[found[found >= 0]])

    def of_all(self) -> Floats:
        """(n, width) what is kept of every row: nothing of complete ones."""
        out = np.empty((len(self.uncertain.lo), self.known.shape[1]))
        if out.size:
            out[:] = np.nan
            out[self.lacking] = self.known
        return out


def look(
    chain: Chain | None,
    rows: Decoded,
    which: Ints | None = None,
    context: Floats | None = None,
    *,
    at_once: bool = True,
) -> ImputedRows:
    """Let the imputers look at the rows `which` (None: all). `context`: (n, w) what their sensors have read before.

    Imputers that cannot wait fill their cells, unless they have done so before (`at_once` is False); they may refuse
    rows. Without a chain nothing is kept.
    """
    uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
    if chain is None and not rows.gaps:
        return ImputedRows(uncertain, np.empty(0, np.int64), np.empty((0, 0)))
    missing = np.isnan(uncertain.lo)
    lacking = np.flatnonzero(missing.any(axis=1))
    if chain is None or not len(lacking):
        return ImputedRows(uncertain, lacking, np.empty((len(lacking), 0 if chain is None else chain.width)))
    few, near = uncertain.part(lacking), None if context is None else context[lacking]
    source = lacking if which is None else which[lacking]
    values = chain.values(few, rows.raw[source])
    evidence = Evidence(values, missing[lacking], rows.source, source, near, rows.refused)
    known = chain.evidence(evidence)
    answered = chain.at_once(evidence, known, few) if at_once else few
    return ImputedRows(uncertain if answered is few else put(uncertain, lacking, answered), lacking, known)


def bounded(chain: Chain | None, rows: ImputedRows, *, rough: bool = False) -> ImputedRows:
    """The rows with bounds for their gaps; still NaN where no imputer is able."""
    if chain is None or not len(rows.lacking):
        return rows
    few = rows.uncertain.part(rows.lacking)
    few = chain.bound(few, rows.known, np.isnan(few.lo), rough=rough)
    return rows._replace(uncertain=put(rows.uncertain, rows.lacking, few))


def filled(chain: Chain, rows: ImputedRows) -> ImputedRows:
    """The rows with distributions for their gaps; still NaN where no imputer is able."""
    if not len(rows.lacking):
        return rows
    few = bounded(chain, rows).uncertain.part(rows.lacking)
    few = chain.fill_sharing(few, rows.known, few.start == BOUNDS_ONLY)
    return rows._replace(uncertain=put(rows.uncertain, rows.lacking, few))


def put(uncertain: UncertainRows, rows: Ints, few: UncertainRows) -> UncertainRows:
    """The rows with some of them replaced. The pools of `few` begin with those of `uncertain`."""
    lo, hi, start, size = uncertain.lo.copy(), uncertain.hi.copy(), uncertain.start.copy(), uncertain.size.copy()
    lo[rows], hi[rows], start[rows], size[rows] = few.lo, few.hi, few.start, few.size
    return UncertainRows(lo, hi, start, size, few.value, few.weight, few.tail)


def filled_at_once(chain: Chain | None, rows: Decoded, which: Ints | None) -> Decoded:
    """All rows; those `which` (None: all) with what imputers give that cannot wait, as if they had come with it.

    Rows with imputed cells that make no sense are refused.
    """
    if chain is None or not rows.gaps or len(chain.lasting) == len(chain.imputers):
        return rows
    found = look(chain, rows, which).uncertain
    return rows._replace(uncertain=found if which is None else put(rows.uncertain, which, found))


def needs_of(chain: Chain | None, rows: Decoded, which: Ints | None, left_out: Flags | None = None) -> Flags | None:
    """(which, d) the gaps of rows that only their sensors' past can fill, if anything can; None: there are none.

    `left_out` (which,): rows whose gaps do not matter.
    """
    if chain is None and not rows.gaps:
        return None
    uncertain = rows.uncertain if which is None else rows.uncertain.part(which)
    missing = np.isnan(uncertain.lo)
    if left_out is not None:
        missing[left_out] = False
    if chain is None:
        return missing if missing.any() else None
    if not (missing & ~chain.always).any():
        return None
    values = chain.values(uncertain, rows.raw if which is None else rows.raw[which])
    return chain.needs(Evidence(values, missing, rows.source, which))


def unfilled(rows: ImputedRows, raw: Floats, query: Query, repository: Repository | None) -> dict[int, str]:
    """The rows that have a gap although they were bounded, each with why it is rejected; raw (n, d): as they came."""
    which, attributes = np.nonzero(np.isnan(rows.uncertain.lo[rows.lacking]))
    reasons: dict[int, str] = {}
    for row, j in zip(rows.lacking[which].tolist(), attributes.tolist(), strict=True):
        reasons.setdefault(row, why_rejected(query, j, raw[row, j], repository))
    return reasons


def why_rejected(query: Query, j: int, came: float, repository: Repository | None) -> str:
    """Why a row is rejected whose gap in attribute j nothing can fill; `came`: the value it came with, NaN for none."""
    name, why = query.names[j], NO_REPOSITORY if repository is None else NO_VALUE
    if np.isnan(came):
        return f"{name!r} is missing, and {why}"
    low, high = query.limits[name]
    return f"{name!r} is outside its limits ({low:.9g}, {high:.9g}), and {why}"
