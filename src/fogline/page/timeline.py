"""What has happened, batch by batch, in a bounded number of points?

A point is a batch. When there are too many, pairs of neighbours in the older half become one: the past gets coarser,
the whole run stays on the screen, and what points add up to stays exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import CHANGES
from fogline.page.plain import instant_text

MOST = 2000  # points
ADDED = ("batches", "seconds", "rows", "incomplete", "rejected", "late", "expired", "enter", "leave", "update")


@dataclass(slots=True)
class Point:
    """One batch, or some neighbours."""

    batch: int  # the last one
    time: Any  # the latest clock of any group so far
    live: int  # rows that can still matter, in all groups, afterwards
    answer: int  # rows in the answer
    waiting: int  # rows that wait, because of lateness
    held: int  # rows that are held, because they run ahead
    batches: int = 1
    seconds: float = 0.0
    rows: int = 0
    incomplete: int = 0  # rows with a gap
    rejected: int = 0
    late: int = 0
    expired: int = 0
    enter: int = 0
    leave: int = 0
    update: int = 0

    def merged(self, later: Point) -> Point:
        """This and the next one as one."""
        sums = {name: getattr(self, name) + getattr(later, name) for name in ADDED}
        return Point(later.batch, later.time, later.live, later.answer, later.waiting, later.held, **sums)

    def plain(self) -> list[Any]:
        """As values that JSON can hold, in the order of `NAMES`."""
        return [instant_text(self.time) if name == "time" else getattr(self, name) for name in NAMES]


NAMES = tuple(field.name for field in fields(Point))


class Timeline:
    """The points of a run, the first batch first."""

    def __init__(self, most: int = MOST) -> None:
        self.points: list[Point] = []
        self.most = most

    def add(self, point: Point) -> None:
        """One more batch."""
        self.points.append(point)
        if len(self.points) > self.most:
            half = self.most // 2 // 2 * 2
            older = [a.merged(b) for a, b in zip(self.points[:half:2], self.points[1:half:2], strict=True)]
            self.points = [*older, *self.points[half:]]

    def count(self, batch: int, kinds: Iterable[tuple[str, int]]) -> None:
        """How many rows entered, left, or became more or less likely, in a batch."""
        at = bisect_left(self.points, batch, key=lambda point: point.batch)
        for kind, number in kinds if at < len(self.points) else ():
            setattr(self.points[at], kind, getattr(self.points[at], kind) + number)

    def count_by_time(self, changes: pa.Table) -> None:
        """The same for files that hold many batches: a change belongs to the first batch that reached its time."""
        clocks = [point.time for point in self.points]
        known = [k for k, time in enumerate(clocks) if time is not None]
        if not known or not changes.num_rows:
            return
        kind = changes.schema.field("time").type
        ends = _plain(pa.array([clocks[k] for k in known], kind))
        at = np.minimum(np.searchsorted(np.maximum.accumulate(ends), _plain(changes["time"])), len(known) - 1)
        what = np.array(changes["change"].to_pylist(), object)
        for name in CHANGES:
            counts = np.bincount(at[what == name], minlength=len(known))
            for k in np.flatnonzero(counts).tolist():
                point = self.points[known[k]]
                setattr(point, name, getattr(point, name) + int(counts[k]))

    def batch_at(self, instant: Any) -> int | None:
        """The last batch that a reader sees who looks at an instant; None: there is none by then."""
        known = [point for point in self.points if point.time is not None]
        at = bisect_right(known, instant, key=lambda point: point.time)
        return known[at - 1].batch if at else None

    def totals(self) -> dict[str, float]:
        """What all points add up to."""
        return {name: sum(getattr(point, name) for point in self.points) for name in ADDED}


def _plain(column: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Instants as numbers that can be compared."""
    whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column.cast(pa.float64())
    return np.asarray(whole.to_numpy() if isinstance(column, pa.ChunkedArray) else whole.to_numpy(zero_copy_only=False))
