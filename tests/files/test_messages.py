"""Does each message give one row, in their order, whatever is in it, and the same row whatever stands beside it?"""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

import fogline as fl
from fogline.files.blocks import CORRUPT, FILE, LINE, WHY
from fogline.files.messages import EMPTY, NO_OBJECT, NO_VALUE, NOT_PARSED, NOT_TEXT, MessageReader, Messages
from fogline.files.options import Options
from fogline.kafka.topic import layout_of_topic

QUERY = fl.Query(attributes={"x": "max", "y": "min"}, id="s", time="t", lifetime=10, by=["site"])
GOOD: list[dict[str, Any]] = [
    {"s": "a", "t": 1, "site": "n", "x": 1.5, "y": 2, "other": [1, {"z": 2}]},
    {"s": "b", "t": 2, "site": "n", "x": None, "y": 3.25},
    {"s": "c", "t": 2, "y": 3},
    {"s": "ü", "t": "3", "site": "s", "x": "1.5", "y": 3},
]
BAD = {
    None: NO_VALUE,
    b"": EMPTY,
    b" \n ": EMPTY,
    b"x": NO_OBJECT,
    b"17": f"{NO_OBJECT}, but a number",
    b'"text"': f"{NO_OBJECT}, but a text",
    b"[1, 2]": f"{NO_OBJECT}, but an array",
    b"null": f"{NO_OBJECT}, but null",
    b'{"s": 1': NO_OBJECT,
    b'{"s": "a"}{"s": "b"}': NO_OBJECT,
    b'{"s": "a\nb"}': NO_OBJECT,
    b'{"s": "a"}\n{"s": "b"}': NO_OBJECT,
    b"\xff\xfe{}": NOT_TEXT,
    b'{"other": "\xff"}': NOT_TEXT,
    b'{"s": ' + b"[" * 100_000 + b"]" * 100_000 + b"}": NO_OBJECT,
}


def read(values: list[bytes | None], query: fl.Query = QUERY, size: int = 2**20, **beside: Any) -> list[dict[str, Any]]:
    layout = layout_of_topic(query, Options())
    n = len(values)
    columns = {name.replace("_", "."): each for name, each in beside.items()}
    found = Messages(pa.array(values, pa.binary()), pa.repeat("in/0", n), pa.array(range(7, 7 + n)), columns)
    batches = list(MessageReader(layout, size).rows(found))
    assert all(batch.schema == layout.schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def encoded(rows: list[dict[str, Any]], **how: Any) -> list[bytes | None]:
    return [json.dumps(row, **how).encode() for row in rows]


def test_each_message_is_a_row_with_its_topic_partition_and_offset() -> None:
    rows = read(encoded(GOOD[:3]))
    assert [(row["s"], row["t"], row["site"], row["x"], row["y"]) for row in rows] == [
        ("a", "1", "n", "1.5", "2"),
        ("b", "2", "n", None, "3.25"),
        ("c", "2", None, None, "3"),
    ]
    assert [(row[FILE], row[LINE], row[WHY]) for row in rows] == [
        ("in/0", 7, None),
        ("in/0", 8, None),
        ("in/0", 9, None),
    ]


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:20])
def test_a_poison_message_is_a_row_with_the_reason_and_harms_no_other(value: bytes | None) -> None:
    first, poison, last = read([*encoded(GOOD[:1]), value, *encoded(GOOD[1:2])])
    assert (first["s"], last["s"]) == ("a", "b")
    assert (poison[WHY], poison[FILE], poison[LINE]) == (BAD[value], "in/0", 8)
    assert (poison[CORRUPT] or "").startswith("" if value is None else value[:5].decode("utf-8", "replace"))


def test_a_blank_message_beside_one_with_two_objects_does_not_shift_the_others() -> None:
    rows = read([*encoded(GOOD[:1]), b"  ", b'{"s": "p"}{"s": "q"}', *encoded(GOOD[1:2])])
    assert [row["s"] for row in rows] == ["a", None, None, "b"]
    assert [row[WHY] for row in rows] == [None, EMPTY, NO_OBJECT, None]


def test_an_object_torn_over_two_messages_is_two_rejects() -> None:
    rows = read([b'{"s": "p"', b', "t": 1}', b'{"s": "q"}{"s": "r"}', *encoded(GOOD[:1])])
    assert [row["s"] for row in rows] == [None, None, None, "a"]


def test_messages_over_several_lines_are_read() -> None:
    assert [row["s"] for row in read(encoded(GOOD[:3], indent=2))] == ["a", "b", "c"]


def test_a_mark_of_utf_8_is_no_part_of_a_message() -> None:
    assert read([b"\xef\xbb\xbf" + json.dumps(GOOD[0]).encode()])[0]["s"] == "a"


@pytest.mark.parametrize("size", [1, 60, 2**20])
def test_a_row_does_not_depend_on_its_neighbours(size: int) -> None:
    ids: list[Any] = [7, 7.0, 7.5, 2**60, "7", True, "2024-05-01 12:00:00", 1e22]
    values: list[bytes | None] = [*encoded([{**GOOD[0], "s": each} for each in ids]), *BAD, *encoded(GOOD)]
    alone = [read([value])[0] | {LINE: None} for value in values]
    order = list(range(len(values)))
    random.Random(1).shuffle(order)
    together = read([values[i] for i in order], size=size)
    assert [row | {LINE: None} for row in together] == [alone[i] for i in order]
    assert [alone[i]["s"] for i in range(7)] == ["7", "7.0", "7.5", str(2**60), "7", "true", "2024-05-01 12:00:00"]


def test_an_id_is_the_text_of_its_number_whatever_stands_beside_it() -> None:
    values = encoded([{"s": each, "t": 1, "x": 0.5} for each in (7, 7.0, 7.5)])
    assert [row["s"] for row in read(values)] == ["7", "7.0", "7.5"]
    assert [read([value])[0]["s"] for value in values] == ["7", "7.0", "7.5"]


def test_key_and_headers_are_columns_and_bytes_that_are_no_text_refuse_their_row() -> None:
    query = fl.Query(attributes={"x": "max"}, id="kafka.key", time="t", lifetime=10)
    keys = pa.array([b"k1", b"\xff", None], pa.binary()).view(pa.string())
    first, second, third = read(encoded(GOOD[:3]), query, kafka_key=keys)
    assert (first["kafka.key"], first[WHY]) == ("k1", None)
    assert second[WHY] == "'kafka.key' holds bytes that are not UTF-8 text"
    assert (third["kafka.key"], third[WHY]) == (None, None)


def test_lines_of_files_that_are_nested_very_deeply_are_rejected_too(tmp_path: Any) -> None:
    from fogline.files.layout import layout_of
    from fogline.files.reading import batches

    deep = '{"s": ' + "[" * 50_000 + "]" * 50_000 + "}"
    (tmp_path / "a.jsonl").write_text("\n".join([json.dumps(GOOD[0]), deep, json.dumps(GOOD[1])]))
    layout = layout_of(str(tmp_path), QUERY, Options())
    rows = [row for batch in batches(str(tmp_path / "a.jsonl"), layout) for row in batch.to_pylist()]
    assert sorted(row["s"] or "" for row in rows) == ["", "a", "b"]
    assert [row[LINE] for row in rows if row[WHY]] == [2]


def test_values_that_were_parsed_elsewhere_are_rows_too_and_what_could_not_be_is_a_reject() -> None:
    rows = [{"s": "a", "t": 1, "site": "n", "x": 1.5, "y": None}, dict.fromkeys(["s", "t", "site", "x", "y"])]
    value = pa.array([rows[0], rows[1], None, {**rows[0], "s": "b"}])
    layout = layout_of_topic(QUERY, Options())
    given = Messages(value, pa.repeat("in/0", 4), pa.array(range(4)), {})
    (batch,) = MessageReader(layout).rows(given)
    assert batch["s"].to_pylist() == ["a", None, None, "b"]
    assert batch["x"].to_pylist() == ["1.5", None, None, "1.5"]
    assert batch[WHY].to_pylist() == [None, NOT_PARSED, NOT_PARSED, None]
    assert batch[LINE].to_pylist() == [0, 1, 2, 3]
