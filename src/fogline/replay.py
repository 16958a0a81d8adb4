"""What became of a row, and why? Answered by playing the stream again.

All rows are taken in the order of their times, as if each had come in time: that is what a run reports where no row is
late. Nothing of a run is needed for it, and nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.errors import ClockError, RowsError, did_you_mean
from fogline.model import Change, Query, changes_of
from fogline.monitor import Monitor
from fogline.question import as_text
from fogline.repository.repository import Repository
from fogline.rows.clock import as_instant, instant, read_times, show_time
from fogline.rows.joined import joined_column
from fogline.skyline.explanation import Explanation


@dataclass(frozen=True, slots=True)
class RowStory:
    """One row of an id: what was reported of it, and why it is in or out, if it is still live."""

    by: tuple[Any, ...]
    id: Any
    arrived: Any
    changes: tuple[Change, ...]
    now: Explanation | None


@dataclass(frozen=True, slots=True)
class Story:
    """What became of an id, up to an instant."""

    at: Any
    rows: tuple[RowStory, ...]  # the newest first
    rejected: tuple[str, ...]  # why others of its rows could not be taken
    taken: bool  # whether any of its rows could


def replay(rows: pa.Table, query: Query, repository: Repository | None, id: Any, at: str | None = None) -> Story:
    """What became of the rows of an id up to an instant, or to the last row. O(rows · live set)."""
    for name in (query.id, query.time):
        if name not in rows.schema.names:
            known = rows.schema.names
            raise RowsError(
                f"the rows have no column {name!r}; they have {', '.join(known)}.{did_you_mean(name, known)}"
            )
    times, kind = _times(rows, query)
    until = _until(times, kind, at)
    monitor = Monitor(query, repository)
    there = rows.filter(pa.array(~(times > until)))
    wanted = as_text(id)
    changes = changes_of(_of_id(monitor.advance(show_time(until, kind), there), wanted), query)
    explained = {(each.by, each.id, each.arrived): each for each in monitor.explain(id)}
    story: dict[tuple[tuple[Any, ...], Any, Any], list[Change]] = {key: [] for key in explained}
    for change in changes:
        story.setdefault((change.by, change.id, change.arrived), []).append(change)
    found = [RowStory(*key, changes=tuple(some), now=explained.get(key)) for key, some in story.items()]
    found.sort(key=lambda each: each.arrived, reverse=True)
    refused = [each.reason for each in monitor.rejects if as_text(each.row.get(query.id)) == wanted]
    named = _named(there, query, wanted)
    if not found and not refused and not named:
        raise RowsError(f"no row up to {show_time(until, kind)} has the {query.id} {id!r}.")
    return Story(show_time(until, kind), tuple(found), tuple(refused), named > len(refused))


def _times(rows: pa.Table, query: Query) -> tuple[Floats, pa.DataType]:
    """(n,) the times of rows, NaN where there is none, and what they are."""
    column = rows.column(query.time)
    read = read_times(joined_column(column.chunks or [pa.array([], column.type)], query.time), query.time)
    if read.kind is None or np.isnan(read.value).all():
        raise ClockError(f"no row has a time in {query.time!r}, so there is nothing to replay.")
    return read.value, read.kind


def _until(times: Floats, kind: pa.DataType, at: str | None) -> float:
    if at is None:
        return float(np.nanmax(times))
    read = instant(as_instant(at, kind).as_py())
    assert read is not None
    return read[0]


def _of_id(changes: pa.Table, wanted: str) -> list[dict[str, Any]]:
    """The changes of rows whose id is written so."""
    same = np.array([as_text(each) == wanted for each in changes.column("id").to_pylist()], np.bool_)
    found: list[dict[str, Any]] = changes.filter(pa.array(same)).to_pylist()
    return found


def _named(rows: pa.Table, query: Query, wanted: str) -> int:
    """How many rows have this id?"""
    counted = rows.column(query.id).value_counts().to_pylist()
    return sum(each["counts"] for each in counted if as_text(each["values"]) == wanted)
