"""Is every row taken or rejected with a reason, whatever is in it, and are the others untouched?

Values of every sort in every column, at every entrance: a monitor, the stages of a pipeline with and without sensors.
Rows with a hostile value are worst in the other attribute, so they beat none of the good ones, which must be answered
as if they were alone.
"""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fogline as fl
from fogline.pipeline.exchange import GroupRows, pack_bucket, pack_groups, unpack_bucket, unpack_groups
from fogline.pipeline.names import HEALTH, REJECTS
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.sensors import SensorStage
from fogline.pipeline.stages import dealt
from fogline.repository.repository import Repository
from fogline.rows.names import DUPLICATE
from fogline.show import quoted
from fogline.state.store import MemoryStore
from tests.flow.driving import Engine, rows_of, take

FAR = 2**62
FIELDS: dict[str, Any] = {"attributes": {"a": "max", "b": "max"}, "id": "id", "time": "t", "by": ["g"]}
EXPIRING = fl.Query(**FIELDS, expires="e")
LIVING = fl.Query(**FIELDS, lifetime=10)
COUNTING = fl.Query(**FIELDS, last=3)
SOME_DAY = datetime(2026, 3, 1, 12)


class Odd:
    """A value that no column of a table holds."""

    def __repr__(self) -> str:
        raise ValueError("unspeakable")


VALUES: dict[str, Any] = {
    "none": None, "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "-0.0": -0.0, "huge": 1e300,
    "true": True, "2**53+1": 2**53 + 1, "2**63": 2**63, "2**70": 2**70, "10**5000": 10**5000, "-1": -1,
    "Decimal": Decimal("1.5"), "Decimal NaN": Decimal("NaN"), "Decimal inf": Decimal("Infinity"),
    "Decimal wide": Decimal("1E+70"), "Decimal huge": Decimal("1E+999"), "Fraction": Fraction(1, 3), "complex": 1j,
    "empty": "", "blank": "  ", "word": "word", "nul": "a\x00b", "surrogate": "\ud800", "markup": "[/x]",
    "1e999": "1e999", "text nan": "nan", "Infinity": "Infinity", "digits": "9" * 400, "10 MB": "x" * 10_000_000,
    "7 as text": "7", "zoned": "2026-03-01T12:00:00+02:00", "Z": "2026-03-01T12:00:00.123456789Z",
    "year 1": "0001-01-01T00:00:00+14:00", "year 9999": "9999-12-31T23:59:59-14:00", "year 0": "0000-01-01",
    "date": date(2026, 3, 1), "first date": date.min, "last date": date.max, "naive": SOME_DAY,
    "aware": SOME_DAY.replace(tzinfo=UTC), "first": datetime.min, "last": datetime.max.replace(tzinfo=UTC),
    "time": time(12), "timedelta": timedelta(1), "longest": timedelta.max, "bytes": b"\xff", "uuid": uuid.UUID(int=7),
    "NaT": pd.NaT, "NA": pd.NA, "Timestamp": pd.Timestamp("2026-03-01T00:00:00.000000001"),
    "datetime64": np.datetime64(FAR, "us"), "datetime64 NaT": np.datetime64("NaT"), "uint64": np.uint64(2**64 - 1),
    "float32": np.float32("inf"), "list": [1, 2], "nested": [[[[]]]], "dict": {"x": {"y": []}}, "set": {1},
    "pairs": [(1.0, 1.0), (2.0, 3.0)], "bad pairs": [(1.0, -1.0)], "inf pair": [(float("inf"), 1.0)],
    "text pairs": [("x", "y")], "odd pairs": [None, 3], "array": np.array([1.0, 2.0]), "object": object(), "Odd": Odd(),
}  # fmt: skip


def good_rows() -> list[dict[str, Any]]:
    return [
        {"id": k % 4, "g": k % 2, "t": 1 + k // 4, "e": 9 + k, "a": float(k * 7 % 5), "b": float(k * 3 % 4)}
        for k in range(12)
    ]


def hostile(column: str, value: Any) -> dict[str, Any]:
    return {"id": 99, "g": 0, "t": 2, "e": 20, "a": -1.0, "b": -1.0} | {column: value}


def answered(table: pa.Table) -> dict[Any, float]:
    """The answer about good rows, which have whole numbers as ids below 99."""
    return {
        (row["g"], row["id"], row["t"]): row["probability"]
        for row in table.to_pylist()
        if row["a"] is not None and row["b"] is not None and min(row["a"], row["b"]) >= 0
    }


QUERIES = {"expires": EXPIRING, "lifetime": LIVING, "last": COUNTING}
COLUMNS = [(name, column) for name in QUERIES for column in ("id", "g", "t", "a", "b")]


@pytest.mark.parametrize(("asked", "column"), [*COLUMNS, ("expires", "e")])
def test_a_monitor_takes_or_rejects_each_row_and_the_others_are_untouched(asked, column):
    query = QUERIES[asked]
    for name, value in VALUES.items():
        rows = good_rows()
        mixed = [*rows[:5], hostile(column, value), *rows[5:]]
        good, monitor = fl.Monitor(query, repository()), fl.Monitor(query, repository())
        good.advance(7, rows)
        monitor.advance(7, mixed)
        assert monitor.counts["rows"] == 13, name
        assert len(monitor.rejects) == monitor.counts["rejected"] <= 1, name
        if query is not COUNTING or monitor.rejects:  # else the row takes the place of another, as it should
            assert answered(monitor.answer()) == answered(good.answer()), name
        for reject in monitor.rejects:
            assert 0 < len(reject.reason) < 400, name
            reject.reason.encode()
        monitor.explain(1)
        fl.Monitor.restore(query, monitor.snapshot(), repository()).advance(8, [hostile("t", 8)])


def test_the_first_row_of_a_stream_does_not_decide_for_the_others():
    for column, value in (("t", "n/a"), ("t", SOME_DAY), ("id", 1.5), ("g", "x"), ("t", date.min)):
        monitor, good = fl.Monitor(LIVING), fl.Monitor(LIVING)
        good.advance(5, good_rows())
        monitor.advance(5, [hostile(column, value), *good_rows()])
        assert len(monitor.rejects) == 1
        assert answered(monitor.answer()) == answered(good.answer())


@cache
def repository(*, sensors: bool = True) -> Repository:
    """One that has learnt from sensors, so that their names matter, or not."""
    rng = np.random.default_rng(1)
    steps = np.cumsum(rng.normal(0, 1, (200, 12)), axis=0)
    rows = [
        {"id": k, "g": k % 2, "t": float(t), "a": float(steps[t, k]), "b": float(rng.normal(0, 9))}
        for t in range(200)
        for k in range(12)
    ]
    fitted = Repository.fit(rows, LIVING, retention=None if sensors else 0)
    assert (fitted.sensors is not None) is sensors
    return fitted


def plain_repository() -> Repository:
    return repository(sensors=False)


def ints(kind: pa.DataType, *values: int | None) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, width).view(kind)


def texts(kind: pa.DataType, *values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary() if kind == pa.string() else pa.large_binary()).view(kind)


TEXTS = (
    b"word",
    b"\xff\xfe",
    b"a\x00b",
    b"",
    b"7",
    b"1e999",
    b"nan",
    b"-Infinity",
    b"x" * 10**6,
    b"\xed\xa0\x80",
    b"[/x]",
)
NUMBERS = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e300, 5e-324, 2.5)
WHOLE = (0, -(2**63), 2**63 - 1, 2**53 + 1, None)
NAMES: dict[str, pa.Array] = {
    "int64": pa.array(WHOLE, pa.int64()), "int8": pa.array([0, -128, None], pa.int8()),
    "uint64": pa.array([0, 2**64 - 1, None], pa.uint64()), "float64": pa.array(NUMBERS, pa.float64()),
    "float32": pa.array(NUMBERS, pa.float32()), "text": texts(pa.string(), *TEXTS, None),
    "large text": texts(pa.large_string(), *TEXTS, None), "bytes": pa.array([*TEXTS, None], pa.binary()),
    "coded": texts(pa.string(), *TEXTS, None).dictionary_encode(), "bool": pa.array([True, False, None]),
    "decimal": pa.array([Decimal("1.5"), Decimal(-(10**30)), None], pa.decimal128(38, 2)),
    "wide": pa.array([Decimal("1.5"), Decimal(10**60), None], pa.decimal256(76, 2)),
    "days": ints(pa.date32(), 0, 20_000, 2**31 - 1, -(2**31), None), "date64": ints(pa.date64(), 0, FAR, -FAR, None),
    "time": ints(pa.time64("us"), 0, FAR, -1, None), "time32": ints(pa.time32("s"), 0, 2**31 - 1, None),
    "duration": ints(pa.duration("s"), 0, FAR, -FAR, None), "nothing": pa.nulls(3),
}  # fmt: skip
STAMPS = {
    f"{unit} {zone}": ints(pa.timestamp(unit, zone), 0, 10**6, FAR, -FAR, 2**63 - 1, -(2**63) + 1, None)
    for unit in ("s", "ms", "us", "ns")
    for zone in (None, "UTC", "Asia/Tokyo")
}
PAIRS = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))
TEXT_PAIRS = pa.list_(pa.struct([("value", pa.string()), ("weight", pa.string())]))
CELLS: dict[str, pa.Array] = {
    "pairs": pa.array(
        [[], None, [{"value": None, "weight": 1.0}], [None], [{"value": 1.0, "weight": -1.0}],
         [{"value": float("inf"), "weight": 1.0}], [{"value": 1.0, "weight": float("nan")}],
         [{"value": 1.0, "weight": 1e308}, {"value": 2.0, "weight": 1e308}]], PAIRS),
    "text pairs": pa.array([[{"value": "x", "weight": "1"}], [{"value": "2", "weight": "1"}]], TEXT_PAIRS),
}  # fmt: skip


READABLE = {(column, kind) for column in "tea" for kind in ("int64", "double", "string")} | {
    (column, kind) for column in ("id", "g") for kind in ("int64", "double", "string", "timestamp[us]", "binary")
}


def typed_cases() -> list[Any]:
    cases = []
    for column in ("id", "g", "t", "e", "a"):
        for name, values in (NAMES | STAMPS | (CELLS if column == "a" else {})).items():
            cases.append(pytest.param(column, values, id=f"{column}-{name}"))
    return cases


def batch_of(column: str, values: pa.Array) -> pa.RecordBatch:
    """Good rows, then one row for each value in that column; the good rows' column is of the same type."""
    n, rows = len(values), good_rows()
    clock = column in ("t", "e") and pa.types.is_timestamp(values.type)
    columns = {}
    for name in ("id", "g", "t", "e", "a", "b"):
        plain = pa.array([row[name] for row in rows] + [hostile(column, None)[name]] * n)
        columns[name] = plain.cast(pa.timestamp("us", values.type.tz)) if clock and name in ("t", "e") else plain
    columns["id"] = pa.array([row["id"] for row in rows] + [100 + k for k in range(n)])
    first = columns[column].slice(0, len(rows))
    try:
        first = first.cast(values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        first = values.take(pa.array([0] * len(rows)))
    columns[column] = pa.concat_arrays([first, values.cast(first.type)])
    return pa.record_batch(list(columns.values()), list(columns))


def query_for(column: str, values: pa.Array) -> fl.Query:
    stamps = column in ("t", "e") and (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type))
    if column == "e":
        return EXPIRING
    return fl.Query(**FIELDS, lifetime="1 day") if stamps else LIVING


def accounted(journal: Any, count: int) -> list[dict[str, Any]]:
    """The rejects of a journal that accounts for so many rows."""
    health, rejects = rows_of(journal, HEALTH), rows_of(journal, REJECTS)
    assert sum(row["rows"] for row in health) == count
    assert sum(row["rejected"] + row["held"] for row in health) == len(rejects)
    for reject in rejects:
        json.loads(reject["row"])
        assert 0 < len(reject["reason"]) < 400
    return rejects


@pytest.mark.parametrize(("column", "values"), typed_cases())
def test_every_type_and_value_goes_through_every_stage(column, values):
    batch, query = batch_of(column, values), query_for(column, values)
    try:
        plan = make_plan(query, batch.schema, opened=plain_repository)
    except fl.FoglineError:  # a column of a type that can never be read: a matter of the schema
        assert (column, str(values.type)) not in READABLE
        return
    table = pa.Table.from_batches([batch])
    accounted(Engine(plan).batch([table]), batch.num_rows)
    rejects = accounted(Engine(replace(plan, ahead=math.inf)).batch([table]), batch.num_rows)  # no row is held
    monitor = fl.Monitor(query, plain_repository())
    latest = datetime(9990, 1, 1, tzinfo=None if getattr(plan.kind, "tz", None) is None else UTC)
    monitor.advance(latest if pa.types.is_timestamp(plan.kind) else 2**53, batch)
    assert monitor.counts["rows"] == batch.num_rows
    reasons = [row["reason"] for row in rejects], [each.reason for each in monitor.rejects]
    found, expected = (sorted(each for each in some if each != DUPLICATE) for some in reasons)
    assert found == expected
    if column != "e":
        _through_sensors(make_plan(query, batch.schema, opened=repository), batch)


def _through_sensors(plan: Any, batch: pa.RecordBatch) -> None:
    assert plan.remembers
    stage = SensorStage(plan)
    group_rows: dict[str, list[GroupRows]] = {}
    for bucket, come in dealt(Plans.alone(plan), [batch]):
        store = MemoryStore()
        taken = stage.take(bucket, [unpack_bucket(plan, pack_bucket(plan, come))], store)
        before = dict(store.values)
        stage.take(bucket, [], store)
        assert store.values == before
        for key, each in unpack_groups(plan, pack_groups(plan, taken)):
            group_rows.setdefault(key, []).append(each)
    journal: Any = []
    for key, some in group_rows.items():
        first = take(plan, key, None, some)
        journal += first.journal
        take(plan, key, first.state, some)
    accounted(journal, batch.num_rows)


def test_a_rejected_row_is_no_original_that_a_good_one_could_repeat():
    rows = [hostile("a", float("inf")), hostile("a", 5.0)]
    plan = make_plan(LIVING, pa.Table.from_pylist(rows).schema)
    [reject] = accounted(Engine(plan).batch([pa.Table.from_pylist(rows)]), 2)
    assert reject["reason"] == "'a' holds a value that is missing or not finite"


def test_a_quoted_value_is_short_and_never_an_error():
    for value in VALUES.values():
        assert len(quoted(value)) <= 120
