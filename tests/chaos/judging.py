"""Has a disturbed run reported what an undisturbed one did?

All rows of changes and rejects must be the same, each once, and so must the sums that health counts; where batches are
cut alike, every line of health and every row of near and next as well.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fogline.output.compaction import tables
from fogline.output.files import counted
from fogline.output.folder import LocalFolder
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS, VIEWS
from tests.chaos.zygote import Started

COUNTS = ("rows", "rejected", "late", "expired", "held", "released", "stale")
Rows = Counter[tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Seen:
    """What an output holds."""

    changes: Rows
    rejects: Rows  # without the number of their batch
    counts: dict[str, int]  # of all of health
    health: Rows  # without times
    views: Rows  # the newest of near and next
    batches: tuple[int, ...] = field(default=())

    @classmethod
    def none(cls) -> Seen:
        return cls(Counter(), Counter(), {}, Counter(), Counter())


def seen(output: Path) -> Seen:
    """The content of an output, read as it is documented."""
    health = _rows(output, HEALTH, without=("seconds",))
    counts = {name: sum(json.loads(dict(row).get(name, "0")) or 0 for row in health.elements()) for name in COUNTS}
    held = tuple(each.first for each in counted(LocalFolder(output).listing(HEALTH)))
    views = sum((_rows(output, kind) for kind in VIEWS), Counter())
    return Seen(_rows(output, CHANGES), _rows(output, REJECTS, without=("batch",)), counts, health, views, held)


def _rows(output: Path, kind: str, without: tuple[str, ...] = ()) -> Rows:
    """Rows of a kind, each as its cells in words, and how often it is there."""
    found: Rows = Counter()
    for table in tables(LocalFolder(output), kind, after=-1):
        for row in table.to_pylist():
            found[tuple((name, _text(name, cell)) for name, cell in row.items() if name not in without)] += 1
    return found


def _text(name: str, cell: Any) -> str:
    """What was clipped is counted by differences, which are rounded."""
    return json.dumps(round(cell, 9) + 0.0 if name == "clipped" and cell else cell, default=str)


def same(now: Seen, calm: Seen, what: str, *, alike: bool = True) -> None:
    """An error that states what differs. `alike`: batches are cut as in the undisturbed run."""
    kinds = ("changes", "rejects", "health", "views") if alike else ("changes", "rejects")
    for kind in kinds:
        here, there = getattr(now, kind), getattr(calm, kind)
        assert here == there, (
            f"{what}: {kind} differ.\nmissing: {_some(there - here)}\nnot expected: {_some(here - there)}"
        )
    assert now.counts == calm.counts, f"{what}: health counts {now.counts}, and not {calm.counts}"


def _some(rows: Rows, most: int = 3) -> str:
    shown = [f"{count} × {dict(row)}" for row, count in rows.most_common(most)]
    return f"{rows.total()} rows" + "".join(f"\n  {each}" for each in shown)


def refusal(started: Started, what: str) -> str:
    """The one error that a run has ended with: a sentence for a person, and no traceback."""
    shown = started.shown()
    assert "Traceback" not in shown, f"{what}: a traceback is shown:\n{shown}"
    assert "did not foresee" not in shown, f"{what}: it was not foreseen:\n{shown}"
    assert started.code == 2, f"{what}: exit code {started.code}\n{shown}"
    lines = [line for line in shown.splitlines() if line.strip()]
    first = next((k for k, line in enumerate(lines) if re.match(r"\w*Error: ", line)), max(0, len(lines) - 3))
    return "\n".join(lines[first:])
