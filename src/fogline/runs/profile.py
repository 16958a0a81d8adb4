"""Does a stream fit its query and repository, and what would be rejected?

A dry run over rows as they lie: nothing is watched, everything is read. Each slice is counted where it lies; counts add
up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Flags
from fogline.pipeline.decode import SLICE, Decoder, slices
from fogline.pipeline.plan import Plan
from fogline.pipeline.prune import Screening
from fogline.pipeline.rejects import kind_of_reason, where
from fogline.rows.names import DUPLICATE
from fogline.runs.estimate import Estimate

_SUMS = ("rows", "removals", "complete", "incomplete", "rejected")
_COUNTERS = ("missing", "outside", "reasons")


@dataclass(slots=True)
class Profile:
    """What was found. Each row is counted once: it removes its id, is rejected, is complete or has gaps."""

    rows: int = 0
    removals: int = 0
    complete: int = 0
    incomplete: int = 0
    rejected: int = 0
    missing: Counter[str] = field(default_factory=Counter)  # attribute -> gaps in rows that are taken
    outside: Counter[str] = field(
        default_factory=Counter
    )  # attribute -> values beyond its limits in such rows: gaps, too
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # reason -> a row, and where it stands
    absent: list[str] = field(default_factory=list)  # determinants that the stream does not have
    expected: Estimate | None = None  # what memory a run would take, where that was estimated

    def add(self, other: dict[str, Any]) -> None:
        """Count another part as well."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + other[name])
        for name in _COUNTERS:
            getattr(self, name).update(other[name])
        self.examples = other["examples"] | self.examples

    def plain(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return {name: getattr(self, name) for name in (*_SUMS, *_COUNTERS, "examples")}


def profiled(plan: Plan, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """The profile of one partition, as plain values."""
    out, decoder = Profile(), Decoder(plan)
    for each in slices(batches, SLICE):
        screening, piece = Screening(plan, imputes=not plan.query.carry), decoder.decode(each)
        removes = piece.rows.removals()
        if removes.any():  # of these nothing but name and time is looked at
            piece = decoder.decode(each.filter(pa.array(~removes)))
        screening.take(piece)
        rejects = [each for some in screening.rejects.values() for each in some]
        taken = np.ones(len(piece.rows.raw), np.bool_)
        taken[list(piece.rows.refused)] = False
        if plan.query.latest:  # the same row again changes nothing
            rejects = [each for each in rejects if each.reason != DUPLICATE]
        lacking = np.isnan(piece.rows.uncertain.lo[taken])
        beyond = lacking & ~np.isnan(piece.rows.raw[taken])
        incomplete, removals = int(lacking.any(axis=1).sum()), int(np.count_nonzero(removes))
        out.add(
            {
                "rows": each.num_rows,
                "removals": removals,
                "complete": each.num_rows - removals - len(rejects) - incomplete,
                "incomplete": incomplete,
                "rejected": len(rejects),
                "missing": _by_name(plan, lacking & ~beyond),
                "outside": _by_name(plan, beyond),
                "reasons": Counter(kind_of_reason(each.reason) for each in rejects),
                "examples": {kind_of_reason(each.reason): where(each) for each in reversed(rejects)},
            }
        )
    return out.plain()


def _by_name(plan: Plan, cells: Flags) -> dict[str, int]:
    return {name: int(cells[:, j].sum()) for j, name in enumerate(plan.query.names)}
