"""Can every reader of JSON read what is written, and does it mean the same?"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from fogline.sinks.kafka import key_of, keyed_values, plain, schema_of, spooled


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), None),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (0.1 + 0.2, 0.30000000000000004),
        (True, True),
        (datetime(2024, 5, 1, 12), "2024-05-01T12:00:00Z"),
        (datetime(2024, 5, 1, 12, 0, 0, 5, timezone(timedelta(hours=2))), "2024-05-01T10:00:00.000005Z"),
        (date(2024, 5, 1), "2024-05-01"),
        (b"\xff\x00", "ff00"),
        (Decimal("1.50"), "1.50"),
        ([{"a": float("nan")}], [{"a": None}]),
    ],
)
def test_cells(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    json.dumps(found, allow_nan=False)


def test_rows_have_keys_by_group_and_id_and_lone_surrogates_are_written() -> None:
    batch = pa.record_batch({"site": ["n"], "id": [7], "x": [None]})
    ((key, value),) = keyed_values(batch, ("site", "id"))
    assert (key, json.loads(value)) == (b'["n",7]', {"site": "n", "id": 7, "x": None})
    assert next(keyed_values(batch, ()))[0] is None
    assert key_of(["a\ud800"]) == b"a?"
    assert key_of([datetime(2024, 5, 1, tzinfo=UTC)]) == b"2024-05-01T00:00:00Z"


def test_the_schema_names_every_column() -> None:
    kinds = [("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_()), ("s", pa.string()), ("t", pa.timestamp("us"))]
    found = schema_of(pa.schema([*kinds, ("l", pa.list_(pa.float64()))]), "a row")
    assert found["required"] == ["i", "f", "b", "s", "t", "l"]
    assert found["properties"]["t"] == {"type": ["string", "null"], "format": "date-time"}
    assert found["properties"]["i"] == {"type": ["integer", "null"]}


def test_batches_that_come_once_are_read_again_and_again() -> None:
    batches = [pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [3]})]
    with spooled(iter(batches)) as kept:
        assert kept.rows == 3
        assert [list(kept.read()), list(kept.read())] == [batches, batches]
    with spooled(iter(())) as none:
        assert (none.rows, list(none.read())) == (0, [])
