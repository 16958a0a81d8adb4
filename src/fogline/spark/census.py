"""Does a stream fit its query and repository, and what would be refused?

A dry run over rows as they lie: nothing is watched, everything is read. Each slice is counted where it lies; what is
counted adds up.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from fogline.flow.plan import Plan
from fogline.flow.screening import SLICE, Screen, slices
from fogline.model import Query
from fogline.repository.repository import Repository
from fogline.spark.pipeline import plan_for


@dataclass(slots=True)
class Census:
    """What was found. Counts of rows, but for the cells of `missing` (gaps) and `outside` (its limits)."""

    rows: int = 0
    incomplete: int = 0
    rejected: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # reason -> a row, as JSON
    absent: list[str] = field(default_factory=list)  # determinants that the stream does not have

    def add(self, other: dict[str, Any]) -> None:
        """Count another part as well."""
        for name in ("rows", "incomplete", "rejected"):
            setattr(self, name, getattr(self, name) + other[name])
        self.missing.update(other["missing"])
        self.reasons.update(other["reasons"])
        self.examples = other["examples"] | self.examples


def census(df: DataFrame, query: Query, repository: Repository | None = None, *, lateness: Any = 0) -> Census:
    """Read everything and count. What cannot be read at all is an error, as it would be for `watch`."""
    plan = plan_for(df, query, repository, lateness=lateness)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"found": json.dumps(counted(plan, batches))}])

    total = Census(absent=[name for name in plan.extra if name not in df.columns])
    for row in df.mapInArrow(count, "found string").collect():
        total.add(json.loads(row["found"]))
    return total


def counted(plan: Plan, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """The census of one partition, as plain values."""
    out = Census()
    for each in slices(batches, SLICE):
        screen = Screen(plan)
        taken = screen.take(each)
        rejects = [pair for tally in screen.tallies for pair in tally.rejects]
        reasons = Counter(kind_of_reason(reason) for _, reason in rejects)
        gaps = np.isnan(taken.raw)
        out.add(
            {
                "rows": each.num_rows,
                "incomplete": sum(tally.incomplete for tally in screen.tallies),
                "rejected": len(rejects),
                "missing": {name: int(gaps[:, j].sum()) for j, name in enumerate(plan.query.names)},
                "reasons": reasons,
                "examples": {kind_of_reason(reason): row for row, reason in reversed(rejects)},
            }
        )
    return {name: getattr(out, name) for name in ("rows", "incomplete", "rejected", "missing", "reasons", "examples")}


def kind_of_reason(reason: str) -> str:
    """The reason without the value that it quotes.

    >>> kind_of_reason("'gas' is 'n/a', which is not a number")
    "'gas' is …, which is not a number"
    """
    return re.sub(r"^('.*?') is '.*', which", r"\1 is …, which", reason)
