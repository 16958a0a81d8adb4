"""What became of a row, and why: the stream is played again.

All rows are taken in the order of their times, as if each had come in time. A run reports the same where no row is
late. Nothing of a run is needed, and nothing is kept.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from fogline.arrays import Floats
from fogline.engine.audit import which_dominate
from fogline.engine.live import LiveSet
from fogline.errors import ClockError, RowsError, did_you_mean
from fogline.monitor import Monitor
from fogline.query import Query, as_text
from fogline.repository.repository import Repository
from fogline.results import Change, Explanation, changes_of
from fogline.rows.clock import as_instant, instant, read_times, show_time
from fogline.rows.table import joined_column
from fogline.story import RowKey, RowStory, Story, by_row, in_zone_of, replaced

NEWEST = 20  # instants of an id at which its rows are looked for, if they were forgotten


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
    monitor.rejects, monitor.warned = deque(), None  # all of them: they are part of the story
    there = rows.filter(pa.array(~(times > until)))
    wanted = as_text(id)
    changes = changes_of(_of_id(monitor.advance(show_time(until, kind), there), query.id, wanted), query)
    explained = {(each.by, each.id, each.arrived): each for each in monitor.explain(id) if each.live}
    own, when = _own_rows(there, times[~(times > until)], query, wanted)
    guards = {} if query.latest else _guards(monitor, own, when, kind)
    story = dict.fromkeys((*explained, *guards), ()) | by_row(changes)
    newer = replaced(changes) if query.latest else {}
    found = [_row(key, tuple(some), explained.get(key), guards.get(key), newer.get(key)) for key, some in story.items()]
    found.sort(key=lambda each: each.arrived, reverse=True)
    refused = [each.reason for each in monitor.rejects if as_text(each.row.get(query.id)) == wanted]
    if not found and not refused and not own.num_rows:
        raise RowsError(f"no row up to {show_time(until, kind)} has the {query.id} {id!r}.")
    return Story(show_time(until, kind), tuple(found), tuple(refused), own.num_rows > len(refused))


def _row(key: RowKey, changes: tuple[Change, ...], now: Explanation | None, guard: Any, newer: Any) -> RowStory:
    """A row with what was found out of it; `now`: why it is in or out, while it is live."""
    if now is None:
        return RowStory(*key, changes, guard=guard, newer=newer)
    return RowStory(*key, changes, in_zone_of(key[2], now.to_dict()), now.inside, now.probability, guard, newer)


def _own_rows(rows: pa.Table, times: Floats, query: Query, wanted: str) -> tuple[pa.Table, Floats]:
    """The rows whose id is written so, by their times, and these; those without a time come last."""
    same = np.array([as_text(each) == wanted for each in rows.column(query.id).to_pylist()], np.bool_)
    order = np.argsort(times[same], kind="stable")
    return rows.filter(pa.array(same)).take(pa.array(order)), times[same][order]


def _guards(
    monitor: Monitor, own: pa.Table, when: Floats, kind: pa.DataType
) -> dict[tuple[tuple[Any, ...], Any, Any], tuple[Any, Any]]:
    """Of the newest rows of an id those that were forgotten, with what surely beats them.

    The rows of the id alone are played again, to see what each was when it came: whatever else there was, its missing
    values were imputed by what its own sensor had read.
    """
    alone, out = Monitor(monitor.query, monitor.repository), {}
    alone.warned = None
    instants = np.unique(when[~np.isnan(when)])
    before = when < instants[-NEWEST] if len(instants) > NEWEST else np.zeros(len(when), np.bool_)
    if before.any():
        alone.advance(show_time(float(when[before].max()), kind), own.filter(pa.array(before)), every="batch")
    for instant_ in instants[-NEWEST:].tolist():
        alone.advance(show_time(instant_, kind), own.filter(pa.array(when == instant_)))
        for key, group in alone.groups.items():
            live = group.live
            for slot in live.slots.alive()[live.slots.columns.arrived[live.slots.alive()] == instant_].tolist():
                found = _guard(monitor, key, live, slot)
                if found is not None:
                    out[key, live.slots.id[slot], show_time(instant_, kind)] = found
    return out


def _guard(monitor: Monitor, key: tuple[Any, ...], row: LiveSet, slot: int) -> tuple[Any, Any] | None:
    """What keeps a row for life out of a monitor that has forgotten it; None: it is live there, or has left."""
    group = monitor.groups.get(key)
    if group is None:
        return None
    name, arrived, expires = row.slots.id[slot], row.slots.columns.arrived[slot], row.slots.columns.expires[slot]
    s, c = group.live.slots, group.live.slots.columns
    alive = s.by_key(s.alive())
    there = bool(np.any((c.arrived[alive] == arrived) & (s.id[alive] == name)))
    window = group.window
    if there or not (expires > monitor.clock if window is None else window.holds([name], np.array([arrived]))[0]):
        return None
    sure = alive[which_dominate(s.uncertain.lo[alive], row.slots.uncertain.hi[slot])]
    return (s.id[sure[0]], monitor._show(c.arrived[sure[0]])) if len(sure) else None


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


def _of_id(changes: pa.Table, id: str, wanted: str) -> list[dict[str, Any]]:
    """The changes of rows whose id is written so."""
    same = np.array([as_text(each) == wanted for each in changes.column(id).to_pylist()], np.bool_)
    found: list[dict[str, Any]] = changes.filter(pa.array(same)).to_pylist()
    return found
