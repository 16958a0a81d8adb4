"""How is a row written as JSON, so that every reader of JSON can read it?

Timestamps are ISO 8601 in UTC with microseconds where there are any; what JSON has no word for is null (a missing
value) or a text ("Infinity", "-Infinity"; bytes in hex). `schema_of` states it as a JSON Schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from fogline.rows.cells import is_text


def plain(value: Any) -> Any:
    """A cell as JSON has it.

    >>> plain(float("nan")), plain(float("inf")), plain(datetime(2024, 5, 1, 12, tzinfo=UTC))
    (None, 'Infinity', '2024-05-01T12:00:00Z')
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if isinstance(value, datetime):
        whole = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return whole.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)


def written(value: Any) -> bytes:
    """A value as JSON, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def key_of(values: Sequence[Any]) -> bytes:
    """What names a row: the id as a text, or where there are groups a JSON array of them and the id.

    >>> key_of(["a"]), key_of([7]), key_of(["north", 7])
    (b'a', b'7', b'["north",7]')
    """
    if len(values) > 1:
        return written([plain(each) for each in values])
    only = plain(values[0])
    return only.encode("utf-8", "replace") if isinstance(only, str) else written(only)


def keyed_values(batch: pa.RecordBatch, key: Sequence[str]) -> Iterator[tuple[bytes | None, bytes]]:
    """The rows of a batch, each with its key; without names for one, they have none."""
    for row in batch.to_pylist():
        yield (
            key_of([row[name] for name in key]) if key else None,
            written({name: plain(each) for name, each in row.items()}),
        )


def schema_of(schema: pa.Schema, title: str) -> dict[str, Any]:
    """What values look like, as a JSON Schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "properties": {field.name: _type_of(field.type) for field in schema},
        "required": schema.names,
        "additionalProperties": False,
    }


def _type_of(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_boolean(kind):
        return {"type": ["boolean", "null"]}
    if pa.types.is_integer(kind):
        return {"type": ["integer", "null"]}
    if pa.types.is_floating(kind):
        return {"anyOf": [{"type": ["number", "null"]}, {"enum": ["Infinity", "-Infinity"]}]}
    if pa.types.is_timestamp(kind):
        return {"type": ["string", "null"], "format": "date-time"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": ["array", "null"], "items": _type_of(kind.value_type)}
    if pa.types.is_struct(kind):
        return {"type": ["object", "null"], "properties": {each.name: _type_of(each.type) for each in kind}}
    return {"type": ["string", "null"]} if is_text(kind) or pa.types.is_binary(kind) else {}
