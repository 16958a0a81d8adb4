"""Which rows are drawn, with which values, and between what may the missing ones lie?

Of a monitor all that are possible, with the ranges of their imputed cells. Of a table with columns `x.low` and `x.high`
(`near/` of an output) the same. Of any other table what is there: a missing value may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fogline.engine.answer import standing
from fogline.engine.explain import uncertain_row_of
from fogline.errors import QueryError, did_you_mean
from fogline.monitor import Monitor
from fogline.query import ADDED, TICK, Query
from fogline.rows.table import Frame, opened

Range = tuple[float | None, float | None, float | None]  # low, high, mean


@dataclass(frozen=True)
class Possible:
    """A row that is drawn."""

    name: str
    group: str
    certainty: str
    probability: float
    value: Mapping[str, float | None]  # as it came; None: it is missing, or was outside its limits
    range: Mapping[str, Range]  # of what is missing


def possible_rows(source: Any, query: Any) -> tuple[list[Possible], list[str]]:
    """The rows, the most probable first, and the attributes."""
    if isinstance(source, Monitor):
        names, rows = list(source.query.names), _of_monitor(source)
    else:
        frame = opened(source)
        names = attributes_of(frame, query)
        rows = _of_frame(frame, names, query if isinstance(query, Query) else None)
    return sorted(rows, key=lambda row: (-row.probability, row.name)), names


def _of_monitor(monitor: Monitor) -> list[Possible]:
    """Rows that are in under some values. O(rows · open rows)."""
    query, rows = monitor.query, []
    for key, group in monitor.groups.items():
        found, slots = standing(group.live, "possible"), group.live.slots
        for slot, chance, certainty in zip(found.slots.tolist(), found.probability, found.certainty, strict=True):
            cloud, [raw] = uncertain_row_of(slots.uncertain, slot, query), query.plausible(slots.raw[slot : slot + 1])
            value = {name: None if math.isnan(raw[j]) else float(raw[j]) for j, name in enumerate(query.names)}
            ranges = {name: _range(cloud.values[name]) for name, known in value.items() if known is None}
            rows.append(Possible(str(slots.id[slot]), _group(key), str(certainty), float(chance), value, ranges))
    return rows


def _range(pairs: Iterable[tuple[float, float]]) -> Range:
    pairs = list(pairs)
    return min(v for v, _ in pairs), max(v for v, _ in pairs), math.fsum(v * w for v, w in pairs)


def _group(key: Iterable[Any]) -> str:
    return ", ".join(str(each) for each in key)


def _of_frame(frame: Frame, names: list[str], query: Query | None) -> list[Possible]:
    columns = {name: cells_of(frame.column(name)) for name in frame.once()}
    n = frame.length
    by, id = ((), id_of(frame)) if query is None else (query.by, query.id)
    ids = columns.get(id, [frame.label(i) for i in range(n)])
    certain = columns.get("certainty", ["likely"] * n)
    chances = columns.get("probability", [1.0] * n)
    rows = []
    for i in range(n):
        value = {name: _number(columns[name][i]) for name in names}
        ranges = {name: _given(columns, name, i) for name, known in value.items() if known is None}
        group = _group(columns[name][i] for name in by if name in columns)
        rows.append(Possible(str(ids[i]), group, str(certain[i]), float(chances[i] or 0.0), value, ranges))
    return rows


def _given(columns: Mapping[Any, list[Any]], name: str, i: int) -> Range:
    """The range of a missing cell, as far as the table has it."""
    low, high, mean = (columns.get(f"{name}.{end}") for end in ("low", "high", "mean"))
    cells = [None if each is None else _number(each[i]) for each in (low, high, mean)]
    return cells[0], cells[1], cells[2]


def cells_of(column: Any) -> list[Any]:
    """A column as Python values."""
    return list(column.to_pylist()) if isinstance(column, pa.Array) else list(column)


def _number(cell: Any) -> float | None:
    try:
        value = math.nan if cell is None else float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def row_names(names: Sequence[Any]) -> list[Any]:
    """The columns that name a row, in a table that Fogline gave: the group's, the id, the row's own time.

    They stand before what is stated of the row, and its attributes behind that. Of any other table: none.
    """
    stated = next((name for name in ("change", "inside", "probability") if name in names), None)
    given = stated is not None and {"change", "probability_error"}.intersection(names)
    return [name for name in names[: names.index(stated)] if name != TICK] if given else []


def id_of(frame: Frame) -> Any:
    """The column with ids of a table that Fogline gave: before the time, which a table that stands still has not."""
    named = row_names(frame.names)
    return (named[-1] if "row" in frame.names else named[-2]) if named else "id"


def attributes_of(frame: Frame, query: Any) -> list[str]:
    """Those of a query, a mapping or a list; of an answer alone its columns of numbers that are its attributes."""
    if query is None:
        found, aside = [], {*ADDED, *row_names(frame.names)}
        for name in frame.once():
            kind = getattr(frame.column(name), "type", None)
            numeric = kind is not None and (pa.types.is_floating(kind) or pa.types.is_integer(kind))
            if numeric and str(name) not in aside and not str(name).endswith((".low", ".high", ".mean")):
                found.append(name)
        return found
    names = list(query.names if isinstance(query, Query) else [query] if isinstance(query, str) else query)
    known = [str(each) for each in frame.names]
    for name in names:
        if name not in frame.names:
            raise QueryError(
                f"the table has no column {name!r}; it has {', '.join(known)}.{did_you_mean(str(name), known)}"
            )
    return names


def chosen(given: str | None, names: list[str], position: int, axis: str) -> str:
    """The attribute of an axis: the one that was asked for, or the one at this position."""
    if given is None:
        if len(names) <= position:
            raise QueryError(f"the {axis} axis has no attribute left; the table has {', '.join(names) or 'none'}.")
        return names[position]
    if given not in names:
        raise QueryError(f"{axis} is {given!r}; it may be {', '.join(names)}.{did_you_mean(given, names)}")
    return given
