"""How do tables become values that a browser reads?

Ids, groups and instants travel as texts, so that no number loses digits on its way and what a browser sends back is
compared as a text; attributes and probabilities travel as numbers, what is missing as null.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fogline.query import Query

Row = list[Any]


def encoded(value: Any) -> bytes:
    """JSON without blanks; what JSON has no word for travels as a text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=str).encode()


def instant_text(instant: Any) -> str | None:
    """An instant as a person writes it, and as `fogline answer --at` reads it.

    >>> instant_text(530.0), instant_text(None)
    ('530', None)
    """
    if instant is None:
        return None
    return f"{instant:.15g}" if isinstance(instant, float) else str(instant).removesuffix("+00:00")


def texts(column: pa.ChunkedArray) -> list[str | None]:
    """Ids or groups as texts."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return list(column.to_pylist())
    return [None if each is None else str(each) for each in column.to_pylist()]


def instants(column: pa.ChunkedArray) -> list[str | None]:
    """Instants as texts."""
    return [instant_text(each) for each in column.to_pylist()]


def numbers(column: pa.ChunkedArray) -> list[float | None]:
    """Numbers; JSON knows no infinite ones, and they are left out."""
    values = column.to_pylist()
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
        return [None if each is None or not math.isfinite(each) else each for each in values]
    return list(values)


def groups_of(table: pa.Table, query: Query) -> list[list[str | None]]:
    """The group of each row."""
    if not query.by:
        return [[] for _ in range(table.num_rows)]
    return [list(each) for each in zip(*(texts(table[name]) for name in query.by), strict=True)]


def keys_of(table: pa.Table, query: Query, number: int) -> list[Row]:
    """What names each row: the number of its query, its group, its id and its arrival."""
    columns = groups_of(table, query), texts(table["id"]), instants(table["arrived"])
    return [[number, *each] for each in zip(*columns, strict=True)]


def members_of(table: pa.Table, query: Query, number: int) -> list[Row]:
    """Rows of an answer: what names each, its probability, how far the truth may lie from that, and its values."""
    values = zip(*(numbers(table[name]) for name in query.names), strict=True)
    found = numbers(table["probability"]), numbers(table["within"])
    return [
        [*key, probability, within, list(cells)]
        for key, probability, within, cells in zip(keys_of(table, query, number), *found, values, strict=True)
    ]
